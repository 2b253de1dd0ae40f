// SPDX-License-Identifier: Apache-2.0

package demo

import (
	"encoding/json"
	"fmt"
	"strings"
	"syscall"
	"time"

	"holdfast/test/netns"
)

// requests is how many requests one round of a genuine act makes.
const requests = 8

// genuine plays acts 1 and 2 in rounds: plain, gated, gated, plain, so that what
// else the machine does meanwhile hits both. Times are medians.
func (s *stage) genuine(r *Result) error {
	var plain, gated []float64
	for _, round := range []struct {
		out  *Genuine
		all  *[]float64
		play func() (Genuine, []float64, error)
	}{{&r.GenuinePlain, &plain, s.genuinePlain}, {&r.GenuineGated, &gated, s.genuineGated}, {&r.GenuineGated, &gated, s.genuineGated}, {&r.GenuinePlain, &plain, s.genuinePlain}} {
		if len(*round.all) > 0 && !round.out.Answered {
			continue // it failed already; keep what it said
		}
		g, times, err := round.play()
		if err != nil {
			return err
		}
		if len(*round.all) > 0 {
			g.FirstMS, g.GateUpMS = round.out.FirstMS, round.out.GateUpMS
		}
		*round.all = append(*round.all, times...)
		g.Requests, g.TotalMS = len(*round.all), median(*round.all)
		*round.out = g
	}
	r.GenuineGated.AddedMS = r.GenuineGated.TotalMS - r.GenuinePlain.TotalMS
	return nil
}

// genuinePlain: curl, an honest router, nginx.
func (s *stage) genuinePlain() (Genuine, []float64, error) {
	r, err := s.curl(requests)
	if err != nil {
		return Genuine{}, nil, err
	}
	g := Genuine{Answered: r.answered, Released: r.answered, Group: s.lastGroup()}
	if len(r.times) > 0 {
		g.FirstMS = r.times[0]
	}
	if !r.answered {
		g.Transcript = r.output
	}
	return g, r.times, nil
}

// underRelay runs one request while the adversary owns the router and the
// key. Flags choose a variant of the adversary; before is the gate, or nothing.
func (s *stage) underRelay(flags []string, before ...string) (Relayed, error) {
	args := append([]string{s.bin, "esr", "--capture", netns.ServerV4 + ":443", "--device", "eth0", "--cert", s.path(certFile), "--key", s.path(keyFile)}, flags...)
	relay, err := s.router.Start(netns.Command{Args: args, Time: 2 * time.Minute})
	if err != nil {
		return Relayed{}, err
	}
	defer relay.Kill()
	if err := relay.WaitOutput("READY", 10*time.Second); err != nil {
		return Relayed{}, fmt.Errorf("the adversary: %w", err)
	}
	r, err := s.curl(1, before...)
	if err != nil {
		return Relayed{}, err
	}
	// Whatever the client's machine would still send must have had its time.
	time.Sleep(300 * time.Millisecond)
	seen, err := stopRelay(relay)
	if err != nil {
		return Relayed{}, err
	}
	out := Relayed{
		AdversaryReadRequest: strings.Contains(seen.Request, secret), RequestBytesLeaked: seen.RequestBytes, Handshakes: seen.Handshakes,
		ClientHellos: seen.ClientHellos, Request: seen.Request, CurlExit: r.exit, Answered: r.answered, TotalMS: median(r.times), Transcript: r.output,
	}
	return out, nil
}

// relaySeen is what `holdfast esr` prints at its end.
type relaySeen struct {
	Connections  int    `json:"connections"`
	ClientHellos int    `json:"client_hellos"`
	Handshakes   int    `json:"handshakes"`
	RequestBytes int    `json:"request_bytes"`
	Request      string `json:"request"`
}

func stopRelay(p *netns.Process) (relaySeen, error) {
	var seen relaySeen
	if err := p.Signal(syscall.SIGTERM); err != nil {
		return seen, err
	}
	select {
	case <-p.Done():
	case <-time.After(10 * time.Second):
		return seen, fmt.Errorf("the adversary does not end:\n%s", p.Output())
	}
	if err := p.Wait(); err != nil {
		return seen, fmt.Errorf("the adversary: %w", err)
	}
	text := p.Output()
	i := strings.Index(text, "{")
	if i < 0 {
		return seen, fmt.Errorf("the adversary reported nothing:\n%s", text)
	}
	if err := json.Unmarshal([]byte(text[i:]), &seen); err != nil {
		return seen, fmt.Errorf("the adversary's report: %w\n%s", err, text)
	}
	return seen, nil
}
