// SPDX-License-Identifier: Apache-2.0

//go:build linux

package agent

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"io"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"holdfast/attest/provider/tpmquote"
	"holdfast/attest/trust"
	"holdfast/latch/binder"
	"holdfast/latch/observe"
	"holdfast/softtpm"
	"holdfast/tpmio/inproc"
	"holdfast/tpmio/listen"
	"holdfast/tpmio/platform"
	"holdfast/tpmio/swtpm"
	"holdfast/tss"
)

// The test binary plays the stranger when this variable is set.
const strangerVariable = "HOLDFAST_AGENT_TEST_STRANGER"

func TestMain(m *testing.M) {
	if v := os.Getenv(strangerVariable); v != "" {
		f := strings.Fields(v)
		stranger(f[0], f[1])
		os.Exit(0)
	}
	os.Exit(m.Run())
}

// stranger is an unprivileged process with a binder of its own. It prints a
// line per attempt and "got evidence" if one succeeded.
func stranger(agent, tpm string) {
	time.AfterFunc(20*time.Second, func() { os.Exit(3) })
	own := sha256.Sum256([]byte("binder of a session that ends elsewhere"))
	// Every message that the protocol has, with the binder in each field that
	// takes 32 bytes, and the agent's own messages sent back to it.
	bytes32 := append([]byte{0x58, 0x20}, own[:]...)
	hello := append([]byte{0x86, 1, 1, 1, 0x60, 0x80}, 0x80)
	messages := map[string][]byte{
		"announce":          concat([]byte{0x82, 2, 0x81, 0x83}, bytes32, bytes32, []byte{1}),
		"announce by share": concat([]byte{0x82, 2, 0x81, 0x83}, bytes32, bytes32, []byte{2}),
		"announce, grade 0": concat([]byte{0x82, 2, 0x81, 0x83}, bytes32, bytes32, []byte{0}),
		"want":              concat([]byte{0x82, 3, 0x81}, bytes32),
		"session":           concat([]byte{0x86, 0x13}, bytes32, []byte{1, 0, 0x81}, bytes32, []byte{0x41, 0xa0}),
		"report":            concat([]byte{0x86, 0x12, 1, 0x61, 'x'}, bytes32, []byte{0x80, 1}),
		"endorsement":       concat([]byte{0x83, 0x11, 0x61, 'x'}, bytes32),
		"an unknown type":   concat([]byte{0x82, 0x18, 99}, bytes32),
		"a quote request":   concat([]byte{0x82, 4}, bytes32),
	}
	for name, m := range messages {
		c, err := net.Dial("tcp", agent)
		if err != nil {
			fmt.Println("agent:", err)
			continue
		}
		c.SetDeadline(time.Now().Add(1500 * time.Millisecond))
		for _, x := range [][]byte{hello, m} {
			c.Write(append(binary.BigEndian.AppendUint32(nil, uint32(len(x))), x...))
		}
		answer, _ := io.ReadAll(c)
		c.Close()
		types := frameTypes(answer)
		fmt.Printf("%s: answered with messages of types %v\n", name, types)
		for _, t := range types {
			if t == 18 || t == 19 {
				fmt.Println("got evidence")
			}
		}
	}
	if c, err := net.Dial("unix", tpm); err != nil {
		fmt.Println("TPM:", err)
	} else {
		c.SetDeadline(time.Now().Add(2 * time.Second))
		c.Write([]byte{0x80, 0x01, 0, 0, 0, 12, 0, 0, 1, 0x7b, 0, 8}) // TPM2_GetRandom(8)
		b := make([]byte, 10)
		if _, err := io.ReadFull(c, b); err == nil {
			fmt.Println("got evidence: the TPM answers strangers")
		}
	}
	fmt.Println("the stranger ends")
}

func concat(parts ...[]byte) []byte { return bytes.Join(parts, nil) }

// frameTypes lists the types of the messages in a stream from the agent.
func frameTypes(b []byte) (types []int) {
	for len(b) >= 6 {
		n := int(binary.BigEndian.Uint32(b))
		types = append(types, int(b[5]))
		if len(b) < 4+n {
			break
		}
		b = b[4+n:]
	}
	return types
}

// realTPM serves a QR TPM on a unix socket and enrols an attestation key there;
// it returns the agent's configuration and what a gate pins.
func realTPM(t *testing.T, kind tpmquote.Kind) (*TPMConfig, *trust.Roots) {
	t.Helper()
	dir, err := os.MkdirTemp("/tmp", "holdfast-agent-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	os.Chmod(dir, 0o755) // strangers reach the socket's folder, not the socket
	engine, err := inproc.NewEngine(softtpm.NewMemoryStore(), softtpm.Options{})
	if err != nil {
		t.Fatal(err)
	}
	machine, err := platform.New(engine), error(nil)
	if err != nil {
		t.Fatal(err)
	}
	if err := inproc.Startup(engine, false); err != nil {
		t.Fatal(err)
	}
	s, err := swtpm.NewServer(machine, swtpm.Options{})
	if err != nil {
		t.Fatal(err)
	}
	sock := filepath.Join(dir, "tpm")
	l, err := listen.Open("unix:" + sock)
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan struct{})
	go func() { defer close(done); s.ServeData(l) }()
	t.Cleanup(func() { s.Close(); <-done })

	conn, err := swtpm.Dial(context.Background(), "unix:"+sock)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	tp := tss.New(conn)
	secret, err := tpmquote.NewSecret()
	if err != nil {
		t.Fatal(err)
	}
	key, err := tpmquote.CreateKey(tp, tpmquote.NewKeyOptions{Kind: kind, Secret: secret})
	if err != nil {
		t.Fatal(err)
	}
	at, err := tpmquote.NewAttester(tp, key, secret, nil)
	if err != nil {
		t.Fatal(err)
	}
	v, ch, err := tpmquote.NewChallenge(at.Identity)
	if err != nil {
		t.Fatal(err)
	}
	answer, err := at.Answer(ch)
	if err != nil {
		t.Fatal(err)
	}
	if err := at.Close(); err != nil {
		t.Fatal(err)
	}
	ak, err := v.Complete(answer, "web-1", "machine-1", time.Now())
	if err != nil {
		t.Fatal(err)
	}
	roots, err := trust.New([]trust.AK{ak}, nil)
	if err != nil {
		t.Fatal(err)
	}
	b, err := key.Encode()
	if err != nil {
		t.Fatal(err)
	}
	c := &TPMConfig{Address: "swtpm:unix:" + sock, Key: filepath.Join(dir, "ak.yaml"), Secret: filepath.Join(dir, "ak.secret"), PCRs: []string{"sha256:0,7"}}
	if err := os.WriteFile(c.Key, b, 0o644); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(c.Secret, tpmquote.FormatSecret(secret), 0o600); err != nil {
		t.Fatal(err)
	}
	return c, roots
}

// TestQuotesOfOurTPM: the whole agent with an ML-DSA key in the QR TPM.
func TestQuotesOfOurTPM(t *testing.T) {
	tc, roots := realTPM(t, tpmquote.MLDSA65)
	addr := freePort(t)
	ob := newObserver(t, addr)
	a, gateAddr := start(t, ob, Options{Services: []Service{{Name: "shop", Address: addr}}, Version: "1", Open: tc.open})
	serveTLS(t, addr.String())
	g := dialGate(t, gateAddr, roots)
	for range 3 {
		s := connect(t, addr.String(), g, binder.Hello)
		if _, err := g.check(await(t, s.answer), s.binder(t)); err != nil {
			t.Fatal(err)
		}
	}
	if st := a.Stats(); st.Attested != 3 || st.ProviderOpened != 1 {
		t.Errorf("stats %+v", st)
	}
}

// TestStranger: an unprivileged process that wants evidence over a binder of
// its own gets none from the agent and cannot reach the TPM.
func TestStranger(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("SKIP[root]: needs root")
	}
	tc, _ := realTPM(t, tpmquote.MLDSA65)
	src := newScript()
	a, gateAddr := start(t, src, Options{Services: []Service{{Name: "shop", Address: netip.MustParseAddrPort("192.0.2.1:443")}}, Version: "1", Open: tc.open, Park: 300 * time.Millisecond})
	// A genuine session is there to be had, so that silence is not for want of one.
	src.feed(hello(1, known(observe.Identity{Path: "/usr/sbin/nginx", Unit: "nginx.service"})))

	self, err := os.ReadFile("/proc/self/exe")
	if err != nil {
		t.Fatal(err)
	}
	bin := filepath.Join(filepath.Dir(tc.Key), "stranger")
	if err := os.WriteFile(bin, self, 0o755); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	cmd := exec.CommandContext(ctx, bin)
	cmd.Env = []string{strangerVariable + "=" + gateAddr + " " + strings.TrimPrefix(tc.Address, "swtpm:unix:")}
	cmd.Dir = "/"
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 65534, Gid: 65534}}
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	text := string(out)
	if strings.Contains(text, "got evidence") || !strings.Contains(text, "the stranger ends") {
		t.Errorf("the stranger reports:\n%s", text)
	}
	if !strings.Contains(text, "TPM: dial unix") || !strings.Contains(text, "permission denied") {
		t.Errorf("the TPM's socket is open to strangers:\n%s", text)
	}
	if st := a.Stats(); st.Reports != 0 || st.Attested != 0 {
		t.Errorf("stats %+v", st)
	}
}
