// SPDX-License-Identifier: Apache-2.0

package demo

import (
	"errors"
	"fmt"
	"os/exec"
	"sort"
	"strconv"
	"strings"
	"time"

	"holdfast/test/netns"
)

// secret is the request that must reach nobody but the genuine service.
const secret = "account=4711&amount=250&password=correct-horse-battery-staple"

// curlCommand is the client, the same in every act: the distribution's curl,
// which verifies the certificate and knows nothing of gates or adversaries.
func (s *stage) curlCommand() []string {
	return []string{"curl", "-sS", "--max-time", "15", "--cacert", s.path(caFile), "--resolve", serviceName + ":443:" + netns.ServerV4,
		"--data", secret, "-w", "TIMES %{http_code} %{time_connect} %{time_appconnect} %{time_total}\\n", "https://" + serviceName + "/pay"}
}

// reply is what came of one run of curl.
type reply struct {
	exit     int
	answered bool // by the genuine service
	times    []float64
	output   string
	upMS     float64 // from the start of the command to the first curl
}

// curl runs curl count times in the client's namespace, behind the words of
// before (the gate, or nothing).
func (s *stage) curl(count int, before ...string) (reply, error) {
	script := "echo STARTED $(date +%s%N); i=0; while [ $i -lt " + strconv.Itoa(count) + " ]; do " + quote(s.curlCommand()) + " || exit $?; i=$((i+1)); done"
	began := time.Now()
	p, err := s.client.Start(netns.Command{Args: append(before, "sh", "-c", script), Time: 90 * time.Second})
	if err != nil {
		return reply{}, err
	}
	err = p.Wait()
	var failed *exec.ExitError
	if err != nil && !errors.As(err, &failed) {
		return reply{}, err
	}
	r := reply{exit: p.ExitCode(), output: p.Output()}
	for _, line := range strings.Split(r.output, "\n") {
		if at, ok := strings.CutPrefix(line, "STARTED "); ok {
			if ns, err := strconv.ParseInt(at, 10, 64); err == nil {
				r.upMS = float64(ns-began.UnixNano()) / 1e6
			}
		}
		_, line, found := strings.Cut(line, "TIMES ")
		f := strings.Fields(line)
		if !found || len(f) != 4 {
			continue
		}
		total, err := strconv.ParseFloat(f[3], 64)
		if err != nil {
			return r, fmt.Errorf("curl's time_total %q: %w", f[3], err)
		}
		r.times = append(r.times, total*1000)
	}
	r.answered = r.exit == 0 && strings.Count(r.output, answer) == count
	return r, nil
}

// quote makes a shell command line of words.
func quote(words []string) string {
	var out []string
	for _, w := range words {
		out = append(out, "'"+strings.ReplaceAll(w, "'", `'\''`)+"'")
	}
	return strings.Join(out, " ")
}

func median(v []float64) float64 {
	if len(v) == 0 {
		return 0
	}
	s := append([]float64(nil), v...)
	sort.Float64s(s)
	if n := len(s); n%2 == 0 {
		return (s[n/2-1] + s[n/2]) / 2
	}
	return s[len(s)/2]
}
