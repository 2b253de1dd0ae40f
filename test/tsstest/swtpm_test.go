// SPDX-License-Identifier: Apache-2.0

package tsstest

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"io"
	"net"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"holdfast/softtpmtest"
	"holdfast/tpm2"
	"holdfast/tss"
)

// socket is a transport over a stream of raw commands, written here again so
// that a fault of tpmio cannot hide one of tss.
type socket struct{ c net.Conn }

func (s socket) Send(command []byte) ([]byte, error) {
	if _, err := s.c.Write(command); err != nil {
		return nil, err
	}
	head := make([]byte, 10)
	if _, err := io.ReadFull(s.c, head); err != nil {
		return nil, err
	}
	n := binary.BigEndian.Uint32(head[2:])
	if n < 10 || n > 1<<16 {
		return nil, fmt.Errorf("a response of %d bytes", n)
	}
	r := append(head, make([]byte, n-10)...)
	_, err := io.ReadFull(s.c, r[10:])
	return r, err
}

// swtpm starts Debian's swtpm: an engine that is not ours.
func swtpm(t testing.TB) tss.Transport {
	t.Helper()
	exe, err := exec.LookPath("swtpm")
	if err != nil {
		t.Skip("SKIP[swtpm]: swtpm is not installed (Debian package swtpm)")
	}
	dir := t.TempDir()
	path := filepath.Join(dir, "d")
	cmd := exec.Command(exe, "socket", "--tpm2", "--tpmstate", "dir="+dir,
		"--server", "type=unixio,path="+path, "--ctrl", "type=unixio,path="+filepath.Join(dir, "c"),
		"--flags", "not-need-init,startup-clear")
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { cmd.Process.Kill(); cmd.Wait() })
	for end := time.Now().Add(20 * time.Second); ; time.Sleep(10 * time.Millisecond) {
		c, err := net.Dial("unix", path)
		if err == nil {
			c.SetDeadline(time.Now().Add(2 * time.Minute))
			t.Cleanup(func() { c.Close() })
			return socket{c}
		}
		if time.Now().After(end) {
			t.Fatalf("swtpm did not come up: %v\n%s", err, out.String())
		}
	}
}

func TestSwtpm(t *testing.T) { classic(t, tss.New(swtpm(t))) }

func TestSofttpm(t *testing.T) { classic(t, tss.New(softtpmtest.New(t))) }

var pcrs = []tpm2.PCRSelection{tpm2.SelectPCRs(tpm2.AlgSHA256, 0, 7, 16)}

func ok(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// classic runs every classic operation of the package against a TPM.
func classic(t *testing.T, c *tss.TPM) {
	run := func(name string, f func(t *testing.T, c *tss.TPM)) {
		t.Run(name, func(t *testing.T) { f(t, c) })
	}
	run("random", func(t *testing.T, c *tss.TPM) {
		ok(t, c.StirRandom([]byte("stir")))
		a, err := c.GetRandom(200)
		ok(t, err)
		b, err := c.GetRandom(200)
		ok(t, err)
		if len(a) != 200 || bytes.Equal(a, b) {
			t.Fatal(len(a))
		}
	})
	run("capabilities", func(t *testing.T, c *tss.TPM) {
		p, err := c.Properties(tpm2.PTFixed, 60)
		ok(t, err)
		if p[tpm2.PTFamilyIndicator] != 0x322e3000 {
			t.Fatalf("family %#x", p[tpm2.PTFamilyIndicator])
		}
		for _, k := range []tpm2.Cap{tpm2.CapAlgs, tpm2.CapCommands, tpm2.CapPCRs, tpm2.CapPCRProperties, tpm2.CapECCCurves} {
			_, _, err := c.GetCapability(k, 0, 100)
			ok(t, err)
		}
		_, err = c.Handles(tpm2.HandleTransientFirst)
		ok(t, err)
		_, err = c.ReadClock()
		ok(t, err)
		ok(t, c.SelfTest(false))
	})
	run("pcr", testPCR)
	for _, k := range []tss.Kind{tss.ECCP256, tss.RSA2048} {
		run("keys "+string(k), func(t *testing.T, c *tss.TPM) { testKeys(t, c, k) })
		run("credential "+string(k), func(t *testing.T, c *tss.TPM) { testCredential(t, c, k) })
		run("sessions "+string(k), func(t *testing.T, c *tss.TPM) { testSessions(t, c, k) })
	}
	run("seal", testSeal)
	run("nv", testNV)
	run("evict", testEvict)
	run("rsa", testRSA)
	run("ecdh", testECDH)
	run("hash", testHash)
	run("hierarchy", testHierarchy)
	if has(t, c, tpm2.CCPolicySigned) && has(t, c, tpm2.CCPolicyAuthorize) {
		run("policy signed", testPolicySigned)
	}
	run("leaks", func(t *testing.T, c *tss.TPM) {
		for _, first := range []tpm2.Handle{tpm2.HandleTransientFirst, tpm2.HandleHMACFirst, tpm2.HandlePolicyFirst, tpm2.HandlePersistentFirst} {
			h, err := c.Handles(first)
			ok(t, err)
			if len(h) != 0 {
				t.Errorf("left behind: %v", h)
			}
		}
	})
}

// has says whether the TPM lists a command.
func has(t *testing.T, c *tss.TPM, cc tpm2.CC) bool {
	t.Helper()
	d, _, err := c.GetCapability(tpm2.CapCommands, uint32(cc), 1)
	ok(t, err)
	return len(d.Commands) > 0 && d.Commands[0].CC() == cc
}

func flush(t *testing.T, c *tss.TPM, h tpm2.Handle) {
	t.Helper()
	if err := c.FlushContext(h); err != nil {
		t.Error(err)
	}
}

func closeSession(t *testing.T, c *tss.TPM, s *tss.Session) {
	t.Helper()
	if err := c.Close(s); err != nil {
		t.Error(err)
	}
}

func testPCR(t *testing.T, c *tss.TPM) {
	all := tpm2.SelectPCRs(tpm2.AlgSHA256, 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19, 20, 21, 22, 23)
	v, _, err := c.PCRRead(all)
	ok(t, err)
	if len(v) != 24 {
		t.Fatalf("%d PCRs", len(v))
	}
	ok(t, c.PCRReset(tss.PCR(16)))
	d := tpm2.AlgSHA256.Sum([]byte("event"))
	ok(t, c.PCRExtend(tss.PCR(16), []tpm2.HA{{Alg: tpm2.AlgSHA256, Digest: d}}))
	v, _, err = c.PCRRead(tpm2.SelectPCRs(tpm2.AlgSHA256, 16))
	ok(t, err)
	if want := tpm2.AlgSHA256.Sum(make([]byte, 32), d); !bytes.Equal(v[16], want) {
		t.Fatalf("%x, want %x", v[16], want)
	}
	has, err := c.PCREvent(tss.PCR(16), []byte("event"))
	ok(t, err)
	found := false
	for _, h := range has {
		found = found || h.Alg == tpm2.AlgSHA256 && bytes.Equal(h.Digest, d)
	}
	if !found {
		t.Fatal("PCR_Event did not return the digest")
	}
	if _, _, err := c.PCRRead(tpm2.SelectPCRs(tpm2.AlgSM3_256, 0)); err == nil {
		t.Fatal("a bank that is not there was read")
	}
}
