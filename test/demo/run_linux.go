// SPDX-License-Identifier: Apache-2.0

package demo

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"holdfast/test/chain"
	"holdfast/test/host"
	"holdfast/test/netns"
)

// Options of the demo.
type Options struct {
	Binary string                           // the holdfast program
	AK     string                           // attestation key: ML-DSA-65 (default) or ECC-P256
	Keep   string                           // copy the files of the run (configuration, policy, trust) to this new folder
	Log    func(format string, args ...any) // progress, for people
}

// needs are the host's features without which the demo cannot run.
var needs = []string{"root", "kernel", "netns", "cgroup2", "bpf", "cgroup-bpf", "bpffs", "nginx", "curl"}

// ErrHost is wrapped when this machine lacks a feature, which the error names.
var ErrHost = errors.New("this machine cannot run the demo")

// Run plays all acts and judges them. The error is nil if the acts could be
// played, whatever came out: see Result.AsPromised. Everything that it made is
// gone when it returns, also when ctx ends it.
func Run(ctx context.Context, o Options) (r *Result, err error) {
	began := time.Now()
	r = &Result{}
	for _, name := range needs {
		f := host.Has(name)
		if !f.Present {
			return nil, fmt.Errorf("%w: it lacks %s: %s (holdfast doctor says more)", ErrHost, f.Name, f.Fact)
		}
		if f.Name == "nginx" || f.Name == "curl" {
			r.Programs = append(r.Programs, f.Fact)
		}
	}
	if o.AK == "" {
		o.AK = "ML-DSA-65"
	}
	s, err := newStage(o.Binary, o.Log)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, s.close()) }()
	stop := context.AfterFunc(ctx, func() { _ = s.net.Close() }) // ends whatever an act waits for
	defer stop()
	s.ak = o.AK
	err = s.play(ctx, o, r)
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	if err != nil {
		return nil, err
	}
	if o.Keep != "" {
		if err := s.keep(o.Keep); err != nil {
			return nil, err
		}
	}
	r.Broken = r.judge()
	r.AsPromised = len(r.Broken) == 0
	r.Seconds = time.Since(began).Seconds()
	return r, nil
}

func (s *stage) play(ctx context.Context, o Options, r *Result) (err error) {
	groups := "X25519"
	if host.Has("tls-x25519mlkem768").Present {
		groups = "X25519MLKEM768:X25519"
	}
	nginx, err := host.LookPath("nginx")
	if err != nil {
		return err
	}
	if nginx, err = filepath.EvalSymlinks(nginx); err != nil {
		return err
	}
	if err := s.writeNginxConf(groups); err != nil {
		return err
	}
	s.chain, err = chain.Start(ctx, chain.Options{
		Binary: s.bin, Dir: s.dir, Net: s.net, Client: s.client, Server: s.server, ServiceName: serviceName,
		Address: netns.ServerV4 + ":443", AgentHost: netns.ServerV4, Executable: nginx, Config: s.path("nginx.conf"), AK: o.AK, Log: o.Log,
	})
	if err != nil {
		return err
	}
	if err := s.startNginx(s.chain.ServerGroup()); err != nil {
		return err
	}
	acts := []struct {
		name string
		play func() error
	}{
		{"acts 1 and 2: genuine server, plain TLS and through the gate", func() error { return s.genuine(r) }},
		{"act 3: relay, plain TLS", func() (err error) { r.RelayPlain, err = s.underRelay(nil); return }},
		{"act 4: relay, through the gate", func() (err error) { r.RelayGated, err = s.relayGated(nil); return }},
		{"act 5: relay that passes the client's hello on, through the gate", func() (err error) { r.DecoyGated, err = s.relayGated([]string{"--decoy"}); return }},
		{"a stranger asks for a quote", func() (err error) { r.Unprivileged, err = s.stranger(); return }},
	}
	for _, a := range acts {
		if err := ctx.Err(); err != nil {
			return err
		}
		began := time.Now()
		if err := a.play(); err != nil {
			return fmt.Errorf("%s: %w", a.name, err)
		}
		s.log("%s: %.1f s", a.name, time.Since(began).Seconds())
	}
	r.Crypto = s.crypto(o.AK, r.GenuinePlain.Group)
	return nil
}

// judge compares the outcomes with the promises.
func (r *Result) judge() []string {
	var out []string
	must := func(ok bool, what, transcript string) {
		if !ok {
			if transcript != "" {
				what += "; the client's output was:\n" + strings.TrimSpace(transcript)
			}
			out = append(out, what)
		}
	}
	must(r.GenuinePlain.Answered, "act 1: plain TLS to the genuine server did not get the answer", r.GenuinePlain.Transcript)
	must(r.GenuineGated.Answered && r.GenuineGated.Released, "act 2: the gate did not release the genuine session", r.GenuineGated.Transcript)
	must(r.RelayPlain.AdversaryReadRequest && r.RelayPlain.Answered, "act 3: the relay did not work against plain TLS, so the demo shows nothing", r.RelayPlain.Transcript)
	for name, a := range map[string]Relayed{"act 4": r.RelayGated, "act 5": r.DecoyGated} {
		must(!a.AdversaryReadRequest && a.RequestBytesLeaked == 0, fmt.Sprintf("%s: the adversary read %d bytes of the request", name, a.RequestBytesLeaked), "")
		must(a.ClientHellos > 0, name+": the adversary never saw the client, so nothing was tested", a.Transcript)
		must(a.CurlExit != 0 && !a.Answered, name+": curl was not refused", a.Transcript)
		must(a.Reason != "", name+": the gate gave no reason", a.Transcript)
	}
	must(r.Unprivileged.TPMRefused, "a process without privileges got a quote from the TPM, or was not refused by its socket: "+r.Unprivileged.TPMAnswer, "")
	must(r.Unprivileged.KeyRefused, "without the key's secret a quote was made, or the attempt did not come as far as the TPM: "+r.Unprivileged.KeyAnswer, "")
	must(r.Unprivileged.AgentRefused, "a process without privileges got its session attested, or no answer: "+r.Unprivileged.AgentAnswer, "")
	return out
}

// keptFiles is what --keep copies: nothing secret.
var keptFiles = []string{"agent.yaml", "gate.yaml", "policy.yaml", "trust.yaml", "nginx.conf", caFile, "events.log"}

func (s *stage) keep(dir string) error {
	if err := os.Mkdir(dir, 0o755); err != nil {
		return err
	}
	for _, f := range keptFiles {
		if err := copyFile(filepath.Join(dir, f), s.path(f), 0o644); err != nil {
			return err
		}
	}
	return nil
}
