// SPDX-License-Identifier: Apache-2.0

//go:build linux

// Package internal has the three functions that go-tpm-tools' package
// simulator calls, which there lead to C code, and here to our TPM or to
// swtpm. tools/suites copies it over theirs, to run their tests unchanged.
// HOLDFAST_SUITES_TPM chooses the TPM.
package internal

import (
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
)

// machine is the one TPM of the process.
var machine interface {
	reset(manufacture bool) error
	run(command []byte) ([]byte, error)
} = &ours{}

func init() {
	if os.Getenv("HOLDFAST_SUITES_TPM") == "swtpm" {
		machine = &process{}
	}
}

// Reset is a power cycle; with forceManufacture of a TPM that is made anew.
func Reset(forceManufacture bool) {
	if err := machine.reset(forceManufacture); err != nil {
		panic(err) // theirs cannot fail
	}
}

// RunCommand runs a command.
func RunCommand(command []byte) ([]byte, error) { return machine.run(command) }

// SetSeeds would set the primary seeds. Keys of given seeds are each
// implementation's own (Part 1, 24.6.3), so that what can be kept is only this: the
// same seeds give the same TPM within one process.
func SetSeeds(r io.Reader) {
	var key [64]byte
	if _, err := io.ReadFull(r, key[:]); err != nil {
		panic(err)
	}
	if o, ok := machine.(*ours); ok {
		if err := o.remember(key); err != nil {
			panic(err)
		}
	}
}

// ours is our TPM, in this process.
type ours struct {
	tpm  *softtpm.TPM
	seen map[[64]byte][]byte // permanent states
}

func (o *ours) reset(manufacture bool) (err error) {
	if !manufacture && o.tpm != nil {
		o.tpm.Init()
		return nil
	}
	o.tpm, err = softtpm.New(softtpm.NewMemoryStore(), softtpm.Options{})
	return err
}

func (o *ours) run(command []byte) ([]byte, error) { return o.tpm.Execute(0, command), nil }

// remember makes this the TPM that it was when key was last given.
func (o *ours) remember(key [64]byte) error {
	state, known := o.seen[key]
	if !known {
		b, err := o.tpm.PermanentState()
		if err != nil {
			return err
		}
		if o.seen == nil {
			o.seen = map[[64]byte][]byte{}
		}
		o.seen[key] = b
		return nil
	}
	store := softtpm.NewMemoryStore()
	if err := store.Save(state); err != nil {
		return err
	}
	tpm, err := softtpm.New(store, softtpm.Options{})
	if err != nil {
		return err
	}
	o.tpm = tpm
	startup := []byte{0x80, 0x01, 0, 0, 0, 12, 0, 0, 1, 0x44, 0, 0}
	if r := tpm.Execute(0, startup); len(r) != 10 || binary.BigEndian.Uint32(r[6:]) != 0 {
		return fmt.Errorf("startup: %x", r)
	}
	return nil
}

// process is a swtpm that this process starts.
type process struct {
	dir  string
	cmd  *exec.Cmd
	data net.Conn
}

func (p *process) reset(manufacture bool) (err error) {
	if p.cmd != nil {
		p.data.Close()
		p.cmd.Process.Kill()
		p.cmd.Wait()
		p.cmd = nil
	}
	if manufacture || p.dir == "" {
		os.RemoveAll(p.dir)
		if p.dir, err = os.MkdirTemp("", "swtpm"); err != nil {
			return err
		}
	}
	path := filepath.Join(p.dir, "data")
	os.Remove(path)
	p.cmd = exec.Command("swtpm", "socket", "--tpm2", "--tpmstate", "dir="+p.dir, "--flags", "not-need-init",
		"--server", "type=unixio,path="+path, "--ctrl", "type=unixio,path="+filepath.Join(p.dir, "control"))
	p.cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	p.cmd.Stderr = os.Stderr
	if err := p.cmd.Start(); err != nil {
		return err
	}
	for end := time.Now().Add(10 * time.Second); ; time.Sleep(2 * time.Millisecond) {
		if p.data, err = net.Dial("unix", path); err == nil || time.Now().After(end) {
			return err
		}
	}
}

func (p *process) run(command []byte) ([]byte, error) {
	if _, err := p.data.Write(command); err != nil {
		return nil, err
	}
	head := make([]byte, 10)
	if _, err := io.ReadFull(p.data, head); err != nil {
		return nil, err
	}
	n := binary.BigEndian.Uint32(head[2:])
	if n < 10 || n > 1<<16 {
		return nil, fmt.Errorf("a response of %d bytes", n)
	}
	r := append(head, make([]byte, n-10)...)
	_, err := io.ReadFull(p.data, r[10:])
	return r, err
}
