// SPDX-License-Identifier: Apache-2.0

package demo

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"syscall"

	"holdfast/latch/flow"
	"holdfast/test/host"
	"holdfast/test/netns"
)

// gateCommand goes before the words of the client.
func (s *stage) gateCommand() []string {
	return []string{s.bin, "--log-format", "json", "latch", "run", "--config", s.chain.GateConfig(), "--"}
}

// genuineGated: the same curl behind the gate.
func (s *stage) genuineGated() (Genuine, []float64, error) {
	r, err := s.curl(requests, s.gateCommand()...)
	if err != nil {
		return Genuine{}, nil, err
	}
	g := Genuine{Answered: r.answered, Group: s.lastGroup(), GateUpMS: r.upMS}
	if len(r.times) > 0 {
		g.FirstMS = r.times[0]
	}
	released := logLines(r.output, "released")
	g.Released = r.answered && len(released) > 0
	if len(released) > 0 {
		g.Evidence = evidence(released[0], s.ak)
	}
	if !g.Released {
		g.Transcript = r.output + "\nagent: " + s.chain.AgentOutput()
	}
	return g, r.times, nil
}

// relayGated: the adversary against the gate.
func (s *stage) relayGated(flags []string) (Relayed, error) {
	out, err := s.underRelay(flags, s.gateCommand()...)
	if err != nil {
		return out, err
	}
	for _, l := range logLines(out.Transcript, "refused") {
		if code, ok := l["reason"].(string); ok && code != "" {
			out.Reason = code
			out.ReasonText = flow.Reason(code).Text()
		}
	}
	return out, nil
}

// logLines are the gate's JSON log lines whose message begins with word.
func logLines(output, word string) []map[string]any {
	var out []map[string]any
	for _, line := range strings.Split(output, "\n") {
		var m map[string]any
		if !strings.HasPrefix(line, "{") || json.Unmarshal([]byte(line), &m) != nil {
			continue
		}
		if msg, _ := m["msg"].(string); strings.HasPrefix(msg, word) {
			out = append(out, m)
		}
	}
	return out
}

// evidence puts the log line of a release into words.
func evidence(l map[string]any, ak string) string {
	kind := "TPM quote"
	if l["simulated"] == true {
		kind = "SIMULATED report"
	}
	return fmt.Sprintf("%s by the pinned %s key of %q over this session's binder; event log and policy hold", kind, ak, l["environment"])
}

// nobody has no privileges: 65534 on every Linux that we know.
var nobody = &syscall.Credential{Uid: 65534, Gid: 65534}

// stranger is a process on the server's own machine that has no privileges. It
// asks the TPM for a quote, and the agent to attest a session of its own.
func (s *stage) stranger() (Unprivileged, error) {
	var u Unprivileged
	// The stranger even has the key's file (it is encrypted by the TPM), and a secret of its own.
	key, secret := s.path("stranger.ak"), s.path("stranger.secret")
	if err := copyFile(key, s.chain.KeyFile(), 0o600); err != nil {
		return u, err
	}
	if err := os.WriteFile(secret, []byte(strings.Repeat("5a", 32)+"\n"), 0o600); err != nil {
		return u, err
	}
	quote := []string{s.bin, "attest", "quote", "--tpm", s.chain.TPM(), "--key", key, "--secret", secret, "--pcrs", "sha256:14", "--report-data", strings.Repeat("42", 32), "--out", s.path("stranger.evidence")}
	code, text, err := s.attempt(nil, quote...)
	if err != nil {
		return u, err
	}
	u.KeyRefused, u.KeyAnswer = code == 1 && (strings.Contains(text, "TPM_RC_BAD_AUTH") || strings.Contains(text, "TPM_RC_AUTH_FAIL")), text
	for _, f := range []string{key, secret} {
		if err := os.Chown(f, int(nobody.Uid), int(nobody.Gid)); err != nil {
			return u, err
		}
	}
	code, text, err = s.attempt(nobody, append(quote, "--allow-shared-tpm")...)
	if err != nil {
		return u, err
	}
	u.TPMRefused, u.TPMAnswer = code == 1 && strings.Contains(text, "permission denied"), text
	code, text, err = s.attempt(nobody, s.bin, "esr", "ask-agent", "--agent", s.chain.Agent(), "--cert", s.path(strangerFile), "--key", s.path(strangerKey))
	if err != nil {
		return u, err
	}
	u.AgentRefused, u.AgentAnswer = code == 1, text
	return u, nil
}

// attempt runs a program that should fail, and returns the last line of what
// it printed.
func (s *stage) attempt(user *syscall.Credential, args ...string) (exit int, last string, err error) {
	out, err := s.server.RunCommand(netns.Command{Args: args, User: user})
	var failed *exec.ExitError
	if errors.As(err, &failed) {
		exit, err = failed.ExitCode(), nil
	}
	lines := strings.Split(strings.TrimSpace(out), "\n")
	last = strings.ReplaceAll(lines[len(lines)-1], s.dir+"/", "")
	return exit, strings.TrimPrefix(last, "holdfast: "), err
}

// crypto says what of this run a quantum computer could break later.
func (s *stage) crypto(ak, group string) Crypto {
	c := Crypto{AttestationKey: ak}
	if strings.HasPrefix(ak, "ML-DSA") {
		c.Safe = append(c.Safe, "the quote ("+ak+" attestation key)")
	} else {
		c.NotSafe = append(c.NotSafe, "the quote ("+ak+" attestation key)")
	}
	c.Safe = append(c.Safe, "binder and event log (SHA-256)")
	if strings.Contains(group, "MLKEM") {
		c.Safe = append(c.Safe, "the session's key exchange ("+group+")")
	} else {
		why := ""
		if f := host.Has("tls-x25519mlkem768"); !f.Present {
			why = "; " + f.Fact
		}
		c.NotSafe = append(c.NotSafe, fmt.Sprintf("the session's key exchange (%s%s)", group, why))
	}
	c.NotSafe = append(c.NotSafe, "the service's certificate (ECDSA P-256)")
	return c
}
