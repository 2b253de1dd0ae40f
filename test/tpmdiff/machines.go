// SPDX-License-Identifier: Apache-2.0

//go:build linux

package tpmdiff

import (
	"context"
	"encoding/binary"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"time"

	"holdfast/softtpm"
	"holdfast/tpmio/platform"
	"holdfast/tpmio/swtpm"
)

// ourTPM is our engine in this process, with swtpm's limits.
type ourTPM struct{ tpm *softtpm.TPM }

func (o *ourTPM) fresh() (err error) {
	if o.tpm != nil {
		o.tpm.Close()
	}
	o.tpm, err = softtpm.New(softtpm.NewMemoryStore(), softtpm.Options{CommandSize: 4096, Objects: 3, Sessions: 3})
	return err
}

func (o *ourTPM) init() error { o.tpm.Init(); return nil }

func (o *ourTPM) send(command []byte) ([]byte, error) { return o.tpm.Execute(0, command), nil }

// swTPM is a swtpm process.
type swTPM struct {
	dir     string
	cmd     *exec.Cmd
	data    net.Conn
	control *swtpm.Control
	made    []byte // permanent state after manufacture
}

// startSwtpm starts swtpm with its state in dir.
func startSwtpm(dir string) (*swTPM, error) {
	t := &swTPM{dir: dir}
	data, control := filepath.Join(dir, "d"), filepath.Join(dir, "c")
	t.cmd = exec.Command("swtpm", "socket", "--tpm2", "--tpmstate", "dir="+dir, "--flags", "not-need-init",
		"--server", "type=unixio,path="+data, "--ctrl", "type=unixio,path="+control)
	t.cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if err := t.cmd.Start(); err != nil {
		return nil, err
	}
	var err error
	for end := time.Now().Add(20 * time.Second); ; time.Sleep(5 * time.Millisecond) {
		if t.data, err = net.Dial("unix", data); err == nil {
			break
		}
		if time.Now().After(end) {
			t.close()
			return nil, fmt.Errorf("swtpm did not come up: %w", err)
		}
	}
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	if t.control, err = swtpm.DialControl(ctx, "unix:"+control); err == nil {
		t.made, err = t.control.State(platform.Permanent)
	}
	if err != nil {
		t.close()
		return nil, err
	}
	return t, nil
}

func (t *swTPM) close() {
	if t.data != nil {
		t.data.Close()
	}
	if t.control != nil {
		t.control.Close()
	}
	t.cmd.Process.Kill()
	t.cmd.Wait()
	os.RemoveAll(t.dir)
}

// fresh puts the state after manufacture back. The seeds are those of the
// sequence before, which no test looks at.
func (t *swTPM) fresh() error {
	if err := t.control.Stop(); err != nil {
		return err
	}
	if err := t.control.SetState(platform.Permanent, t.made); err != nil {
		return err
	}
	return t.init()
}

func (t *swTPM) init() error {
	_ = t.control.Stop() // fails if it is stopped already
	return t.control.Init(true)
}

func (t *swTPM) send(command []byte) ([]byte, error) {
	if err := t.data.SetDeadline(time.Now().Add(time.Minute)); err != nil {
		return nil, err
	}
	if _, err := t.data.Write(command); err != nil {
		return nil, err
	}
	head := make([]byte, 10)
	if _, err := io.ReadFull(t.data, head); err != nil {
		return nil, err
	}
	n := binary.BigEndian.Uint32(head[2:])
	if n < 10 || n > 1<<16 {
		return nil, fmt.Errorf("a response of %d bytes", n)
	}
	r := append(head, make([]byte, n-10)...)
	_, err := io.ReadFull(t.data, r[10:])
	return r, err
}
