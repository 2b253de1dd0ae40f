// SPDX-License-Identifier: Apache-2.0

//go:build linux

package agent

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"sync"
	"time"

	"golang.org/x/sys/unix"

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
		if err := tpmquote.CheckExclusive(c.Address); err != nil {
			return nil, fmt.Errorf("provider.tpm.address: %w; or set shared: true and rely on the key's secret", err)
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
	if h, ok := conn.(interface{ Hot(time.Duration) error }); ok {
		if err := h.Hot(hotTPM); err != nil {
			conn.Close()
			return nil, err
		}
	}
	t := &tpm{conn: conn}
	defer t.guard(ctx)()
	p, err := tpmquote.Open(conn, key, secret, tpmquote.Options{PCRs: c.PCRs, EventLogs: c.EventLogs})
	if full(err) && !c.Shared {
		n, e := dropLeft(conn)
		slog.Warn("the TPM was full of what agents that were killed had left", "address", c.Address, "dropped", n)
		if e != nil {
			err = errors.Join(err, e)
		} else {
			p, err = tpmquote.Open(conn, key, secret, tpmquote.Options{PCRs: c.PCRs, EventLogs: c.EventLogs})
		}
	}
	if err != nil {
		t.hangUp()
		return nil, err
	}
	t.Provider = p
	return t, nil
}

// hotTPM is how long the loop waits for a software TPM without the Go scheduler;
// a slower one has time for that.
const hotTPM = 20 * time.Millisecond

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

// private demands that a file belongs to root or to this user and is open to
// its owner only.
func private(path string) error {
	var st unix.Stat_t
	if err := unix.Stat(path, &st); err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	switch {
	case st.Mode&unix.S_IFMT != unix.S_IFREG:
		return fmt.Errorf("%s is not a regular file", path)
	case st.Uid != 0 && int(st.Uid) != os.Geteuid():
		return fmt.Errorf("%s belongs to user %d, expected user %d or root", path, st.Uid, os.Geteuid())
	case st.Mode&0o077 != 0:
		return fmt.Errorf("%s has mode %04o, so that others can open it; expected 0600 (chmod)", path, st.Mode&0o7777)
	}
	return nil
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
