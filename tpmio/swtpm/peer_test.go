// SPDX-License-Identifier: Apache-2.0

package swtpm

import (
	"bytes"
	"context"
	"encoding/binary"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"holdfast/tpmio/platform"
)

// TestClientAgainstSwtpm drives the real swtpm with our client: the protocol
// as its authors understand it.
func TestClientAgainstSwtpm(t *testing.T) {
	exe, err := exec.LookPath("swtpm")
	if err != nil {
		t.Skip("SKIP[swtpm]: swtpm is not installed (Debian package swtpm)")
	}
	dir := t.TempDir()
	data, control := filepath.Join(dir, "d"), filepath.Join(dir, "c")
	cmd := exec.Command(exe, "socket", "--tpm2", "--tpmstate", "dir="+dir,
		"--server", "type=unixio,path="+data, "--ctrl", "type=unixio,path="+control, "--flags", "startup-clear")
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() { cmd.Process.Kill(); cmd.Wait() }()
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	var k *Control
	for k == nil {
		if k, err = DialControl(ctx, "unix:"+control); err != nil {
			if ctx.Err() != nil {
				t.Fatalf("swtpm did not come up: %v\n%s", err, out.String())
			}
			time.Sleep(20 * time.Millisecond)
		}
	}
	k.conn.SetDeadline(time.Now().Add(20 * time.Second))
	// Our server's capabilities and swtpm's, where both have the request.
	typed(t, k.conn, "\x00\x00\x00\x01", "\x00\x00\x00\x00\x00\x00\xff\xff")
	if now, least, most, err := k.SetBufferSize(0); err != nil || now == 0 || least == 0 || most < now {
		t.Fatal(now, least, most, err)
	}
	c, err := Dial(ctx, "unix:"+data)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	c.conn.SetDeadline(time.Now().Add(20 * time.Second))
	getRandom := []byte("\x80\x01\x00\x00\x00\x0c\x00\x00\x01\x7b\x00\x10")
	r, err := c.Send(getRandom)
	if err != nil || len(r) != 28 || binary.BigEndian.Uint32(r[6:]) != 0 {
		t.Fatalf("GetRandom: %x %v", r, err)
	}
	if err := k.SetLocality(3); err != nil {
		t.Fatal(err)
	}
	if r, err = c.Send(getRandom); err != nil || len(r) != 28 {
		t.Fatal(err)
	}
	if err := k.SetLocality(0); err != nil {
		t.Fatal(err)
	}
	permanent, err := k.State(platform.Permanent)
	if err != nil || len(permanent) < 1000 {
		t.Fatal(len(permanent), err)
	}
	if err := k.Hash([]byte("firmware")); err != nil {
		t.Fatal(err)
	}
	if err := k.Stop(); err != nil {
		t.Fatal(err)
	}
	if err := k.SetState(platform.Permanent, permanent); err != nil {
		t.Fatal(err)
	}
	if err := k.Init(true); err != nil {
		t.Fatal(err)
	}
	startup := []byte("\x80\x01\x00\x00\x00\x0c\x00\x00\x01\x44\x00\x00")
	if r, err = c.Send(startup); err != nil || binary.BigEndian.Uint32(r[6:]) != 0 {
		t.Fatalf("%x %v", r, err)
	}
	if err := k.Shutdown(); err != nil {
		t.Fatal(err)
	}
}
