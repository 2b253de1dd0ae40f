// SPDX-License-Identifier: Apache-2.0

// Package softtpmtest gives Go tests a fresh TPM. Call New:
//
//	func TestMine(t *testing.T) {
//		tpm := softtpmtest.New(t)
//		// tpm is a go-tpm transport.TPM and a tss.Transport
//	}
//
// Each call makes a new TPM in memory, started, with its own seeds and empty
// hierarchy passwords; hundreds can be used in parallel. It is closed when the
// test ends.
package softtpmtest

import (
	"testing"

	"holdfast/softtpm"
	"holdfast/tpmio/inproc"
)

// TPM is a TPM for a test. Send makes it go-tpm's transport.TPM, Send and
// Close its transport.TPMCloser, and Send our tss.Transport.
type TPM struct {
	*inproc.TPM
}

// New returns a fresh TPM.
func New(t testing.TB) *TPM {
	t.Helper()
	return NewWith(t, softtpm.Options{})
}

// NewWith returns a fresh TPM with options, such as other numbers of slots.
func NewWith(t testing.TB, o softtpm.Options) *TPM {
	t.Helper()
	m, err := inproc.Memory(o)
	if err != nil {
		t.Fatalf("softtpmtest: %v", err)
	}
	tpm := &TPM{m}
	t.Cleanup(func() { _ = tpm.Close() })
	return tpm
}

// Close ends the TPM before the test does. More calls do nothing.
func (t *TPM) Close() error {
	if err := t.TPM.Close(); err != nil && err != inproc.ErrClosed {
		return err
	}
	return nil
}

// Reset is a power cycle followed by TPM2_Startup(CLEAR), as after a crash:
// sessions, transient objects and PCR values are lost.
func (t *TPM) Reset(tb testing.TB) {
	tb.Helper()
	t.Engine().Init()
	if err := inproc.Startup(t.Engine(), false); err != nil {
		tb.Fatalf("softtpmtest: %v", err)
	}
}
