// SPDX-License-Identifier: Apache-2.0

//go:build linux

package agent

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"

	"holdfast/attest/evidence"
	"holdfast/attest/provider"
	"holdfast/attest/provider/tpmquote"
	"holdfast/tpmio/dial"
)

// TPMConfig is a TPM 2.0 with an enrolled attestation key.
type TPMConfig struct {
	Address   string   `yaml:"address"` // see dial.Forms
	Key       string   `yaml:"key"`     // key file that `holdfast attest enroll` wrote
	Secret    string   `yaml:"secret"`  // file with the key's secret, readable by the agent's user alone
	PCRs      []string `yaml:"pcrs"`    // such as sha256:0,7,14
	EventLogs []string `yaml:"event-logs"`
	// Shared accepts a TPM that other users of this machine can open. The
	// attestation key then rests on its secret alone.
	Shared bool `yaml:"shared"`
}

func (c *TPMConfig) check() error {
	if c.Address == "" || c.Key == "" || c.Secret == "" {
		return errors.New("provider.tpm: expected address, key and secret")
	}
	if _, err := tpmquote.ParseSelection(c.PCRs); err != nil {
		return fmt.Errorf("provider.tpm.pcrs: %w", err)
	}
	if len(c.PCRs) == 0 {
		return errors.New("provider.tpm.pcrs: none; without them the evidence says nothing about the machine, choose such as sha256:0,7,14")
	}
	return nil
}

// open connects to the TPM and loads the key.
func (c *TPMConfig) open(ctx context.Context) (provider.Provider, error) {
	if !c.Shared {
		if err := exclusive(c.Address); err != nil {
			return nil, err
		}
	}
	k, err := readSmall(c.Key)
	if err != nil {
		return nil, fmt.Errorf("provider.tpm.key: %w", err)
	}
	key, err := tpmquote.ParseKeyFile(k)
	if err != nil {
		return nil, fmt.Errorf("provider.tpm.key: %w", err)
	}
	if err := private(c.Secret); err != nil {
		return nil, fmt.Errorf("provider.tpm.secret: %w", err)
	}
	b, err := readSmall(c.Secret)
	if err != nil {
		return nil, fmt.Errorf("provider.tpm.secret: %w", err)
	}
	secret, err := tpmquote.ParseSecret(b)
	clear(b)
	if err != nil {
		return nil, fmt.Errorf("provider.tpm.secret: %w", err)
	}
	defer clear(secret)
	conn, err := dial.Dial(ctx, c.Address)
	if err != nil {
		return nil, err
	}
	t := &tpm{conn: conn}
	defer t.guard(ctx)()
	p, err := tpmquote.Open(conn, key, secret, tpmquote.Options{PCRs: c.PCRs, EventLogs: c.EventLogs})
	if err != nil {
		t.hangUp()
		return nil, err
	}
	t.Provider = p
	return t, nil
}

// tpm is the provider with its connection. A TPM that does not answer in time
// is hung up on, since a command cannot be taken back.
type tpm struct {
	*tpmquote.Provider
	conn dial.Conn
	once sync.Once
}

func (t *tpm) hangUp() { t.once.Do(func() { t.conn.Close() }) }

// guard hangs up when ctx ends before the returned function is called.
func (t *tpm) guard(ctx context.Context) func() {
	stop := context.AfterFunc(ctx, t.hangUp)
	return func() { stop() }
}

func (t *tpm) Report(ctx context.Context, data evidence.ReportData) (evidence.Report, error) {
	defer t.guard(ctx)()
	return t.Provider.Report(ctx, data)
}

func (t *tpm) Close() error {
	err := t.Provider.Close()
	t.hangUp()
	return err
}

// exclusive refuses a TPM that other users of this machine can open: whoever
// reaches it can ask it for quotes with any key whose secret he learns, and
// extend PCRs.
func exclusive(spec string) error {
	kind, rest, _ := strings.Cut(spec, ":")
	hint := "; make it reachable for the agent's user alone, or set shared: true and rely on the key's secret"
	switch {
	case kind == "inproc":
		return private(rest)
	case kind == "device":
		if err := private(rest); err != nil {
			return fmt.Errorf("provider.tpm.address: %w%s", err, hint)
		}
		return nil
	case kind == "swtpm" && strings.HasPrefix(rest, "unix:"):
		if err := private(strings.TrimPrefix(rest, "unix:")); err != nil {
			return fmt.Errorf("provider.tpm.address: %w%s", err, hint)
		}
		return nil
	case kind == "swtpm" || kind == "mssim":
		if host, _, err := net.SplitHostPort(rest); err == nil && host != "" {
			return fmt.Errorf("provider.tpm.address: every user of this machine can connect to %s%s", rest, hint)
		}
	}
	return nil // dial says what is wrong with it
}

// private demands that a file, socket or folder belongs to root or to this
// user and gives nothing to others, or lies in a folder that does so.
func private(path string) error {
	if real, err := filepath.EvalSymlinks(path); err == nil {
		path = real
	}
	for p, first := path, true; ; p, first = filepath.Dir(p), false {
		st, err := os.Stat(p)
		if err != nil {
			if first && errors.Is(err, fs.ErrNotExist) {
				continue // it is made later, in its folder
			}
			return err
		}
		sys, ok := st.Sys().(*syscall.Stat_t)
		if !ok {
			return fmt.Errorf("%s: owner unknown", p)
		}
		mine := sys.Uid == 0 || int(sys.Uid) == os.Getuid()
		if first && !mine {
			return fmt.Errorf("%s belongs to user %d, expected root or user %d", p, sys.Uid, os.Getuid())
		}
		if mine && st.Mode().Perm()&0o077 == 0 && (first || st.IsDir()) {
			return nil
		}
		if !mine && !first || p == "/" || p == "." {
			return fmt.Errorf("%s: other users can open it; expected mode 0600, or a folder of mode 0700 around it", path)
		}
	}
}

// readSmall reads a file of at most 64 KiB.
func readSmall(path string) ([]byte, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	b, err := io.ReadAll(io.LimitReader(f, 64<<10+1))
	if err == nil && len(b) > 64<<10 {
		err = fmt.Errorf("%s: more than 64 KiB", path)
	}
	return b, err
}
