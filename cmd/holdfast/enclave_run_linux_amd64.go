// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"holdfast/attest/evidence"
	"holdfast/enclave/daemon"
)

// ran is what `enclave run` prints.
type ran struct {
	File      string   `json:"file"`
	Mode      string   `json:"mode"`
	Level     string   `json:"level"`
	MREnclave string   `json:"mrenclave"`
	LoadMS    float64  `json:"load_ms"`
	Calls     []ranOne `json:"calls"`
}

type ranOne struct {
	Index  int     `json:"ecall"`
	MS     string  `json:"ms_after,omitempty"`
	OCalls []int   `json:"ocalls,omitempty"`
	Out    string  `json:"registers,omitempty"`
	Error  string  `json:"error,omitempty"`
	TimeMS float64 `json:"ms"`
}

func init() {
	enclaveVerbs = append(enclaveVerbs, enclaveRun)
}

// running says in which monitor an enclave runs: a daemon, one of its own, or
// one inside this process.
type running struct {
	launch launchFlags
	socket string
	sig    string
	debug  bool
	sdk    bool
	noEDMM bool
}

func (r *running) flags(c *cobra.Command) {
	r.launch.flags(c)
	f := c.Flags()
	f.StringVar(&r.socket, "socket", "", "run it in the daemon at this socket (level hosted); with --state a daemon of its own is launched; else in this process (level inproc)")
	f.StringVar(&r.sig, "sig", "", "SIGSTRUCT of a .sgxs file")
	f.BoolVar(&r.debug, "debug", false, "load as a debug enclave: its memory can be looked into, and it gets other keys")
	f.BoolVar(&r.sdk, "sdk", false, "a .sgxs speaks as Intel's trusted runtime does")
	f.BoolVar(&r.noEDMM, "no-dynamic", false, "give the enclave no further pages on demand (EDMM)")
}

// client opens the monitor; end closes it.
func (r *running) client(ctx context.Context) (c *daemon.Client, end func() error, err error) {
	switch {
	case r.socket != "":
		c, err := daemon.Dial(ctx, r.socket)
		if err != nil {
			return nil, nil, refusedError(err)
		}
		return c, c.Close, nil
	case r.launch.c.State != "" || r.launch.c.TPM != "":
		return r.ownDaemon(ctx)
	}
	if r.launch.epc < 1 || r.launch.epc > 1<<14 {
		return nil, nil, usageError(fmt.Errorf("--epc: expected 1 to %d MiB, got %d", 1<<14, r.launch.epc))
	}
	mode, err := r.launch.runMode()
	if err != nil {
		return nil, nil, err
	}
	c, stop, err := daemon.Local(r.launch.epc<<8, r.launch.algorithm, mode, r.launch.c.MaxExceptions)
	if err != nil {
		return nil, nil, refusedError(err)
	}
	return c, func() error { stop(); return nil }, nil
}

// ownDaemon launches a daemon that lives as long as this command.
func (r *running) ownDaemon(ctx context.Context) (*daemon.Client, func() error, error) {
	cfg, err := r.launch.config()
	if err != nil {
		return nil, nil, err
	}
	dir, err := os.MkdirTemp("", "holdfast-enclave-")
	if err != nil {
		return nil, nil, err
	}
	cfg.Socket = filepath.Join(dir, "socket")
	ctx, cancel := context.WithCancel(ctx)
	ready, ended := make(chan struct{}), make(chan error, 1)
	cfg.OnReady = func(string, int) { close(ready) }
	go func() { ended <- daemon.Launch(ctx, cfg) }()
	finish := func() error {
		cancel()
		return errors.Join(<-ended, os.RemoveAll(dir))
	}
	select {
	case err := <-ended:
		cancel()
		if err == nil {
			err = context.Cause(ctx)
		}
		return nil, nil, refusedError(errors.Join(err, os.RemoveAll(dir)))
	case <-ready:
	}
	c, err := daemon.Dial(ctx, cfg.Socket)
	if err != nil {
		return nil, nil, refusedError(errors.Join(err, finish()))
	}
	return c, func() error { return errors.Join(c.Close(), finish()) }, nil
}

// load loads the enclave in a file.
func (r *running) load(c *daemon.Client, file string) (*daemon.Enclave, error) {
	f, err := os.Open(file)
	if err != nil {
		return nil, usageError(err)
	}
	defer f.Close()
	o := daemon.LoadOptions{Debug: r.debug, Dynamic: !r.noEDMM, Bare: r.sig != "" && !r.sdk}
	if r.sig != "" {
		if o.Sig, err = os.Open(r.sig); err != nil {
			return nil, usageError(err)
		}
		defer o.Sig.Close()
	}
	e, err := c.Load(f, o)
	if err != nil {
		return nil, refusedError(fmt.Errorf("%s: %w", file, err))
	}
	return e, nil
}

func enclaveRun(g *globals) *cobra.Command {
	var where running
	var calls, enters []string
	c := &cobra.Command{
		Use:   "run FILE",
		Short: "Load a signed SGX enclave without SGX and make ECALLs",
		Long: `Loads a .signed.so, or a .sgxs with its SIGSTRUCT, into a virtual machine or, where
there is no KVM, a locked-down process (--mode), initializes its trusted runtime and makes the ECALLs given. A
marshalling structure is given and shown in hex. OCALLs are listed and answered
with success.

Without --socket and --state the monitor is inside this program: level inproc,
no protection from it and no attestation. See 'holdfast enclave monitor'.`,
		Example: "  holdfast enclave run enclave.signed.so --ecall 0:0000000000000000\n  holdfast enclave run test.sgxs --sig test.sig --enter 1,2",
		Args:    exactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			r, err := runEnclave(cmd.Context(), args[0], &where, calls, enters)
			if r != nil {
				if g.json {
					if e := printJSON(r); e != nil {
						return e
					}
				} else {
					r.print(cmd)
				}
			}
			return err
		},
	}
	where.flags(c)
	c.Flags().StringArrayVar(&calls, "ecall", nil, "INDEX or INDEX:HEX, the marshalling structure; repeatable, in order")
	c.Flags().StringArrayVar(&enters, "enter", nil, "RDI,RSI,RDX,R8,R9,R10 of an EENTER of a bare enclave; missing ones are 0; repeatable")
	return c
}

func runEnclave(ctx context.Context, file string, where *running, calls, enters []string) (r *ran, err error) {
	c, end, err := where.client(ctx)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, end()) }()
	// An enclave that never comes back ends with the connection that loaded it.
	defer context.AfterFunc(ctx, func() { _ = c.Close() })()
	start := time.Now()
	e, err := where.load(c, file)
	if err != nil {
		return nil, err
	}
	r = &ran{File: file, MREnclave: hex.EncodeToString(e.MREnclave[:]), LoadMS: msSince(start)}
	l, err := c.List()
	if err != nil {
		return nil, refusedError(err)
	}
	r.Mode, r.Level = l.Mode, l.Level
	for _, c := range calls {
		one, err := oneECall(e, c)
		if err != nil {
			return r, err
		}
		r.Calls = append(r.Calls, one)
	}
	for _, s := range enters {
		in, err := parseEnter(s)
		if err != nil {
			return r, usageError(err)
		}
		start := time.Now()
		out, err := e.Enter(in)
		one := ranOne{Index: -1, Error: text(err), TimeMS: msSince(start)}
		if err == nil {
			one.Out = fmt.Sprintf("%#x", out)
		}
		r.Calls = append(r.Calls, one)
	}
	for _, c := range r.Calls {
		if c.Error != "" {
			return r, refusedError(errors.New("a call failed; see above"))
		}
	}
	return r, nil
}

func oneECall(e *daemon.Enclave, spec string) (ranOne, error) {
	index, ms, err := parseECall(spec)
	if err != nil {
		return ranOne{}, usageError(err)
	}
	one := ranOne{Index: index}
	var at uint64
	var view []byte
	if len(ms) > 0 {
		if at, view, err = share(e, ms, len(ms)); err != nil {
			return one, err
		}
	}
	start := time.Now()
	err = e.ECall(index, at, func(_ *daemon.Nested, index int, _ uint64) uint32 {
		one.OCalls = append(one.OCalls, index)
		return 0
	})
	one.TimeMS, one.Error, one.MS = msSince(start), text(err), hex.EncodeToString(view)
	return one, nil
}

// share puts b into n bytes of the shared memory.
func share(e *daemon.Enclave, b []byte, n int) (uint64, []byte, error) {
	at, err := e.Memory.Alloc(n)
	if err != nil {
		return 0, nil, refusedError(err)
	}
	view, err := e.Memory.Bytes(at, uint64(n))
	if err != nil {
		return 0, nil, refusedError(err)
	}
	copy(view, b)
	return at, view, nil
}

func msSince(t time.Time) float64 { return float64(time.Since(t).Microseconds()) / 1000 }

func text(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}

func parseECall(s string) (int, []byte, error) {
	n, h, _ := strings.Cut(s, ":")
	index, err := strconv.Atoi(n)
	if err != nil || index < 0 {
		return 0, nil, fmt.Errorf("--ecall %q: expected INDEX or INDEX:HEX", s)
	}
	ms, err := hex.DecodeString(h)
	if err != nil {
		return 0, nil, fmt.Errorf("--ecall %q: the part after the colon is not hex", s)
	}
	return index, ms, nil
}

func parseEnter(s string) (in [6]uint64, err error) {
	parts := strings.Split(s, ",")
	if len(parts) > len(in) {
		return in, fmt.Errorf("--enter %q: expected at most %d numbers", s, len(in))
	}
	for i, p := range parts {
		if in[i], err = strconv.ParseUint(strings.TrimSpace(p), 0, 64); err != nil {
			return in, fmt.Errorf("--enter %q: %w", s, err)
		}
	}
	return in, nil
}

func (r *ran) print(cmd *cobra.Command) {
	w := cmd.OutOrStdout()
	note := ""
	if r.Level == evidence.LevelInproc {
		note = " (not attested)"
	}
	fmt.Fprintf(w, "MRENCLAVE  %s\nmode       %s, level %s%s\nloaded     in %.1f ms, initialized\n", r.MREnclave, r.Mode, r.Level, note, r.LoadMS)
	for _, c := range r.Calls {
		if c.Index < 0 {
			fmt.Fprintf(w, "EENTER     %.2f ms", c.TimeMS)
		} else {
			fmt.Fprintf(w, "ECALL %-4d %.2f ms", c.Index, c.TimeMS)
		}
		if len(c.OCalls) > 0 {
			fmt.Fprintf(w, ", OCALLs %v", c.OCalls)
		}
		if c.MS != "" {
			fmt.Fprintf(w, ", ms %s", c.MS)
		}
		if c.Out != "" {
			fmt.Fprintf(w, ", RDI RSI RDX R8 R9 R10 = %s", c.Out)
		}
		if c.Error != "" {
			fmt.Fprintf(w, ", %s", c.Error)
		}
		fmt.Fprintln(w)
	}
}
