// SPDX-License-Identifier: Apache-2.0

package tsstest

import (
	"bytes"
	"errors"
	"io"
	"net"
	"testing"
	"time"

	"holdfast/softtpmtest"
	"holdfast/tpm2"
	"holdfast/tss"
)

// TestROT: a whole transfer between two TPMs over a connection, both moduli,
// with and without encryption of the results on the way from the TPM.
func TestROT(t *testing.T) {
	for _, modulus := range []uint16{0, 13313, 15361} {
		a, b := client(t), client(t)
		srk, err := a.CreatePrimary(tss.Owner(nil), tss.SRKTemplate(tss.ECCP256), nil)
		ok(t, err)
		s, err := a.StartSession(tss.SessionOptions{Kind: tpm2.SEHMAC, Symmetric: tss.AES128CFB, SaltKey: srk.Handle, SaltPublic: &srk.Key.Public})
		ok(t, err)
		s.Attributes = tpm2.SessionContinue | tpm2.SessionEncrypt
		for _, receiver := range []*tss.TPM{a, a.With(s)} {
			got, sent := transfer(t, receiver, b, modulus)
			want := sent.M0
			if got.B == 1 {
				want = sent.M1
			}
			if got.B > 1 || got.MB != want || sent.M0 == sent.M1 {
				t.Fatalf("b %d, M_b %x, sent %x %x", got.B, got.MB, sent.M0, sent.M1)
			}
		}
		for _, c := range []*tss.TPM{a, b} {
			if h, err := c.Handles(tpm2.HandleTransientFirst); err != nil || len(h) > 1 {
				t.Fatalf("left behind: %v, %v", h, err)
			}
		}
	}
}

func transfer(t *testing.T, receiver, sender *tss.TPM, modulus uint16) (tss.Received, tss.Sent) {
	t.Helper()
	p, q := net.Pipe()
	for _, c := range []net.Conn{p, q} {
		c.SetDeadline(time.Now().Add(30 * time.Second))
		defer c.Close()
	}
	type end struct {
		sent tss.Sent
		err  error
	}
	done := make(chan end, 1)
	go func() {
		s, err := sender.ROTSend(q, modulus)
		done <- end{s, err}
	}()
	got, err := receiver.ROTReceive(p, modulus)
	ok(t, err)
	e := <-done
	ok(t, e.err)
	return got, e.sent
}

// TestROTStranger: what a peer that does not keep to the protocol sends is
// refused, and the TPM is left without a state.
func TestROTStranger(t *testing.T) {
	c := tss.New(softtpmtest.New(t))
	_, m1, err := c.ROT1(nil, 0, 7)
	ok(t, err)
	hello := "holdfast/rot/v1\n\x34\x01" + string([]byte{byte(len(m1) >> 8), byte(len(m1))}) + string(m1)
	for name, in := range map[string]string{
		"nothing":          "",
		"another protocol": "GET / HTTP/1.1\r\nHost: localhost\r\n\r\n",
		"another modulus":  "holdfast/rot/v1\n\x3c\x01\x00\x00",
		"too long":         "holdfast/rot/v1\n\x34\x01\xff\xff",
		"cut":              hello[:len(hello)-1],
		"no message 3":     hello,
		"bad message 3":    hello + "\x00\x24" + string(make([]byte, 36)),
	} {
		before, err := c.Handles(tpm2.HandleTransientFirst)
		ok(t, err)
		got, err := c.ROTSend(stream{bytes.NewReader([]byte(in))}, 0)
		if err == nil || got != (tss.Sent{}) {
			t.Errorf("%s: %v", name, err)
		}
		if name == "bad message 3" && !errors.Is(err, tpm2.RCValue) {
			t.Errorf("%s: %v", name, err)
		}
		if after, _ := c.Handles(tpm2.HandleTransientFirst); len(after) != len(before) {
			t.Errorf("%s: a state was left: %v", name, after)
		}
	}
	for name, in := range map[string]string{
		"nothing":       "",
		"too long":      "\xff\xff",
		"bad message 2": "\x00\x01x",
	} {
		got, err := c.ROTReceive(stream{bytes.NewReader([]byte(in))}, 0)
		if err == nil || got != (tss.Received{}) {
			t.Errorf("receiver, %s: %v", name, err)
		}
		if after, _ := c.Handles(tpm2.HandleTransientFirst); len(after) != 1 {
			t.Errorf("receiver, %s: a state was left: %v", name, after)
		}
	}
}

// stream reads what a peer says and drops what is said to it.
type stream struct{ io.Reader }

func (stream) Write(b []byte) (int, error) { return len(b), nil }
