// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"holdfast/cmd/holdfast/tpmcmd"
	"holdfast/rot"
	"holdfast/tpm2"
	"holdfast/tss"
)

func init() {
	tpmCommands = append(tpmCommands, func(f *tpmFlags) *cobra.Command {
		cmd := &cobra.Command{
			Use: "rot", Short: "Random oblivious transfer between two of our TPMs",
			Long: `Random oblivious transfer: the sender gets two random messages M0 and M1, the receiver one of them, M_b,
with a random b. The sender does not learn b, the receiver not the other message.

receive and send run a whole transfer over TCP. msg1 to msg4 are its four steps with messages as files:
the receiver runs msg1 and msg3, the sender msg2 and msg4. Between the two steps of a side its state is in
the TPM, at the handle that the first one names, and is used once. So the TPM must keep running (tpm serve).

Results: receiver b (one octet, 0 or 1) and M_b (32 octets), sender M0 and M1 (64 octets). Messages need not
be kept secret. But they are not authenticated either: who can change them can be a third party in the middle.`,
		}
		cmd.AddCommand(rotMsg1(f), rotMsg2(f), rotMsg3(f), rotMsg4(f), rotReceive(f), rotSend(f))
		return cmd
	})
}

// rotFlags are those of the steps.
type rotFlags struct {
	modulus             uint16
	auth, input, output string
	state, result       string
	sid                 uint32
}

func (r *rotFlags) setModulus(cmd *cobra.Command) {
	cmd.Flags().Uint16VarP(&r.modulus, "modulus", "q", rot.Q13313, "parameter set: 13313 or 15361, equal on both sides")
}

func (r *rotFlags) checkModulus() error {
	if rot.Standard(int(r.modulus)) == nil {
		return usageError(fmt.Errorf("--modulus %d: expected %d or %d", r.modulus, rot.Q13313, rot.Q15361))
	}
	return nil
}

// begin runs a side's first step and names the state.
func (r *rotFlags) begin(cmd *cobra.Command, f *tpmFlags, step func(t *tss.TPM, auth []byte) (tss.Ref, []byte, error)) error {
	if err := r.checkModulus(); err != nil {
		return err
	}
	auth, err := tpmcmd.Value(r.auth)
	if err != nil {
		return usageError(err)
	}
	if strings.HasPrefix(f.spec, "inproc:") {
		return usageError(errors.New("--tpm inproc: such a TPM ends with this command, and the transfer's state with it; use a server (tpm serve)"))
	}
	return f.with(cmd.Context(), func(t *tss.TPM) error {
		state, message, err := step(t, auth)
		if err != nil {
			return err
		}
		if err := tpmcmd.WriteFile(r.output, message); err != nil {
			return errors.Join(err, t.FlushContext(state.Handle))
		}
		h := fmt.Sprintf("%#x", uint32(state.Handle))
		return f.printResult(map[string]string{"state": h}, func() { fmt.Println(h) })
	})
}

// end runs a side's second step.
func (r *rotFlags) end(cmd *cobra.Command, f *tpmFlags, step func(t *tss.TPM, state tss.Ref, in []byte) error) error {
	h, err := tpmcmd.Handle(r.state)
	if err == nil && h.Type() != tpm2.HTTransient {
		err = fmt.Errorf("handle %s: expected that of a transient object, as msg1 or msg2 named it", r.state)
	}
	if err != nil {
		return usageError(err)
	}
	auth, err := tpmcmd.Value(r.auth)
	if err != nil {
		return usageError(err)
	}
	in, err := tpmcmd.ReadFile(r.input)
	if err != nil {
		return err
	}
	return f.with(cmd.Context(), func(t *tss.TPM) error { return step(t, tss.ROTState(h, auth), in) })
}

func (r *rotFlags) first(cmd *cobra.Command, in, out string) {
	fl := cmd.Flags()
	r.setModulus(cmd)
	fl.StringVarP(&r.auth, "auth", "p", "", "authorization value for the state")
	if in != "" {
		fl.StringVarP(&r.input, "input", "i", "", "file with "+in)
		cmd.MarkFlagRequired("input")
	}
	fl.StringVarP(&r.output, "output", "o", "", "file for "+out)
	cmd.MarkFlagRequired("output")
}

func (r *rotFlags) second(cmd *cobra.Command, in, out, result string) {
	fl := cmd.Flags()
	fl.StringVarP(&r.state, "state", "c", "", "handle of the state")
	fl.StringVarP(&r.auth, "auth", "p", "", "authorization value of the state")
	fl.StringVarP(&r.input, "input", "i", "", "file with "+in)
	fl.StringVarP(&r.result, "result", "r", "", "file for "+result+" (default: standard output, in hexadecimal)")
	cmd.MarkFlagRequired("state")
	cmd.MarkFlagRequired("input")
	if out != "" {
		fl.StringVarP(&r.output, "output", "o", "", "file for "+out)
		cmd.MarkFlagRequired("output")
	}
}

const (
	receiverResult = "b and M_b (33 octets)"
	senderResult   = "M0 and M1 (64 octets)"
)

func rotMsg1(f *tpmFlags) *cobra.Command {
	var r rotFlags
	cmd := &cobra.Command{Use: "msg1", Short: "Receiver: begin a transfer, write message 1", Args: cobra.NoArgs}
	r.first(cmd, "", "message 1")
	cmd.Flags().Uint32Var(&r.sid, "sid", 0, "number of the transfer, which enters the results")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		return r.begin(cmd, f, func(t *tss.TPM, auth []byte) (tss.Ref, []byte, error) { return t.ROT1(auth, r.modulus, r.sid) })
	}
	return cmd
}

func rotMsg2(f *tpmFlags) *cobra.Command {
	var r rotFlags
	cmd := &cobra.Command{Use: "msg2", Short: "Sender: take message 1, write message 2", Args: cobra.NoArgs}
	r.first(cmd, "message 1", "message 2")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		in, err := tpmcmd.ReadFile(r.input)
		if err != nil {
			return err
		}
		return r.begin(cmd, f, func(t *tss.TPM, auth []byte) (tss.Ref, []byte, error) { return t.ROT2(auth, r.modulus, in) })
	}
	return cmd
}

func rotMsg3(f *tpmFlags) *cobra.Command {
	var r rotFlags
	cmd := &cobra.Command{Use: "msg3", Short: "Receiver: take message 2, write message 3 and the result", Args: cobra.NoArgs}
	r.second(cmd, "message 2", "message 3", receiverResult)
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		return r.end(cmd, f, func(t *tss.TPM, state tss.Ref, in []byte) error {
			got, m3, err := t.ROT3(state, in)
			if err != nil {
				return err
			}
			if err := tpmcmd.WriteFile(r.output, m3); err != nil {
				return err
			}
			return f.received(r.result, &got)
		})
	}
	return cmd
}

func rotMsg4(f *tpmFlags) *cobra.Command {
	var r rotFlags
	cmd := &cobra.Command{Use: "msg4", Short: "Sender: take message 3, write the result", Args: cobra.NoArgs}
	r.second(cmd, "message 3", "", senderResult)
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		return r.end(cmd, f, func(t *tss.TPM, state tss.Ref, in []byte) error {
			got, err := t.ROT4(state, in)
			if err != nil {
				return err
			}
			return f.sent(r.result, &got)
		})
	}
	return cmd
}

// received gives a receiver's result out and erases it.
func (f *tpmFlags) received(file string, r *tss.Received) error {
	b := append([]byte{r.B}, r.MB[:]...)
	defer clear(b)
	defer clear(r.MB[:])
	return f.secret(file, "result", b)
}

func (f *tpmFlags) sent(file string, s *tss.Sent) error {
	b := append(append(make([]byte, 0, 64), s.M0[:]...), s.M1[:]...)
	defer clear(b)
	defer func() { clear(s.M0[:]); clear(s.M1[:]) }()
	return f.secret(file, "result", b)
}

// linkFlags say how the two sides of a transfer meet.
type linkFlags struct {
	rotFlags
	listen, connect string
	timeout         time.Duration
}

func (l *linkFlags) register(cmd *cobra.Command, result string) {
	fl := cmd.Flags()
	l.setModulus(cmd)
	fl.StringVar(&l.listen, "listen", "", "wait for the other side at HOST:PORT")
	fl.StringVar(&l.connect, "connect", "", "connect to the other side at HOST:PORT, again until it is there")
	fl.DurationVar(&l.timeout, "timeout", 30*time.Second, "give up after this time")
	fl.StringVarP(&l.result, "output", "o", "", "file for "+result+" (default: standard output, in hexadecimal)")
	cmd.MarkFlagsOneRequired("listen", "connect")
	cmd.MarkFlagsMutuallyExclusive("listen", "connect")
}

// run meets the other side and calls f, all within the time limit.
func (l *linkFlags) run(cmd *cobra.Command, f *tpmFlags, do func(t *tss.TPM, c net.Conn) error) error {
	if err := l.checkModulus(); err != nil {
		return err
	}
	if l.timeout <= 0 {
		return usageError(fmt.Errorf("--timeout %v: expected more than zero", l.timeout))
	}
	ctx, cancel := context.WithTimeoutCause(cmd.Context(), l.timeout, fmt.Errorf("the other side did not do its part within %v", l.timeout))
	defer cancel()
	c, err := l.meet(ctx)
	if err != nil {
		return err
	}
	defer c.Close()
	if d, ok := ctx.Deadline(); ok {
		if err := c.SetDeadline(d); err != nil {
			return err
		}
	}
	return f.with(ctx, func(t *tss.TPM) error { return do(t, c) })
}

// meet returns the connection to the other side.
func (l *linkFlags) meet(ctx context.Context) (net.Conn, error) {
	if l.listen != "" {
		host, _, err := net.SplitHostPort(l.listen)
		if err != nil || host == "" {
			return nil, usageError(fmt.Errorf("--listen %q: expected HOST:PORT; name the host, such as 127.0.0.1", l.listen))
		}
		ln, err := (&net.ListenConfig{}).Listen(ctx, "tcp", l.listen)
		if err != nil {
			return nil, err
		}
		defer ln.Close()
		slog.Info("waiting for the other side", "address", ln.Addr().String())
		stop := context.AfterFunc(ctx, func() { ln.Close() })
		defer stop()
		c, err := ln.Accept()
		if err != nil && ctx.Err() != nil {
			return nil, context.Cause(ctx)
		}
		return c, err
	}
	if _, _, err := net.SplitHostPort(l.connect); err != nil {
		return nil, usageError(fmt.Errorf("--connect %q: expected HOST:PORT", l.connect))
	}
	for {
		c, err := (&net.Dialer{}).DialContext(ctx, "tcp", l.connect)
		if err != nil && ctx.Err() != nil {
			return nil, context.Cause(ctx)
		}
		if !errors.Is(err, syscall.ECONNREFUSED) {
			return c, err
		}
		select {
		case <-ctx.Done():
			return nil, fmt.Errorf("%w: %w", context.Cause(ctx), err)
		case <-time.After(100 * time.Millisecond):
		}
	}
}

func rotReceive(f *tpmFlags) *cobra.Command {
	var l linkFlags
	cmd := &cobra.Command{Use: "receive", Short: "Run the receiver's side of a transfer over TCP", Args: cobra.NoArgs}
	l.register(cmd, receiverResult)
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		return l.run(cmd, f, func(t *tss.TPM, c net.Conn) error {
			got, err := t.ROTReceive(c, l.modulus)
			if err != nil {
				return err
			}
			return f.received(l.result, &got)
		})
	}
	return cmd
}

func rotSend(f *tpmFlags) *cobra.Command {
	var l linkFlags
	cmd := &cobra.Command{Use: "send", Short: "Run the sender's side of a transfer over TCP", Args: cobra.NoArgs}
	l.register(cmd, senderResult)
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		return l.run(cmd, f, func(t *tss.TPM, c net.Conn) error {
			got, err := t.ROTSend(c, l.modulus)
			if err != nil {
				return err
			}
			return f.sent(l.result, &got)
		})
	}
	return cmd
}
