// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/spf13/cobra"

	"holdfast/attest/provider/tpmquote"
	"holdfast/tpmio/dial"
)

// reportDevice is the TPM of `attest enroll`, `quote` and `measure`.
type reportDevice struct {
	spec   string
	shared bool
}

func (d *reportDevice) flags(c *cobra.Command) {
	c.Flags().StringVar(&d.spec, "tpm", "", "the TPM: "+dial.Forms)
	c.Flags().BoolVar(&d.shared, "allow-shared-tpm", false, "go on although others on this machine can reach the TPM; only the attestation key's secret then protects it")
}

// open connects to the TPM if nobody else can reach it.
func (d *reportDevice) open(ctx context.Context) (dial.Conn, error) {
	if d.spec == "" {
		return nil, usageError(errors.New("--tpm is needed: " + dial.Forms))
	}
	if !d.shared {
		err := tpmquote.CheckExclusive(d.spec)
		if errors.Is(err, os.ErrNotExist) && len(d.spec) > len("inproc:") && d.spec[:len("inproc:")] == "inproc:" {
			err = nil // it will be made, for this user alone
		}
		if err != nil {
			return nil, refusedError(fmt.Errorf("%w; --allow-shared-tpm overrides this", err))
		}
	}
	c, err := dial.Dial(ctx, d.spec)
	if err != nil {
		return nil, refusedError(err)
	}
	return c, nil
}

// writeNew writes a file that must not exist, and makes it durable.
func writeNew(path string, b []byte, mode os.FileMode) error {
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, mode)
	if err != nil {
		return err
	}
	_, err = f.Write(b)
	if err := errors.Join(err, f.Sync(), f.Close()); err != nil {
		return errors.Join(err, os.Remove(path))
	}
	return nil
}

// replaceFile writes a file at once or not at all.
func replaceFile(path string, b []byte, mode os.FileMode) error {
	f, err := os.CreateTemp(filepath.Dir(path), ".holdfast-*")
	if err != nil {
		return err
	}
	_, err = f.Write(b)
	err = errors.Join(err, f.Chmod(mode), f.Sync(), f.Close())
	if err == nil {
		err = os.Rename(f.Name(), path)
	}
	if err != nil {
		return errors.Join(err, os.Remove(f.Name()))
	}
	dir, err := os.Open(filepath.Dir(path))
	if err != nil {
		return err
	}
	return errors.Join(dir.Sync(), dir.Close())
}
