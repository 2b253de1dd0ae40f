// SPDX-License-Identifier: Apache-2.0

package softtpmtest_test

import (
	"bytes"
	"fmt"
	"testing"

	gotpm "github.com/google/go-tpm/tpm2"
	"github.com/google/go-tpm/tpm2/transport"

	"holdfast/softtpmtest"
	"holdfast/tpm2"
	"holdfast/tss"
)

var (
	_ transport.TPMCloser = (*softtpmtest.TPM)(nil)
	_ tss.Transport       = (*softtpmtest.TPM)(nil)
)

// TestParallel: many TPMs at once, each with keys of its own.
func TestParallel(t *testing.T) {
	const many = 200
	names := make([][]byte, many)
	t.Run("group", func(t *testing.T) {
		for i := range many {
			t.Run(fmt.Sprint(i), func(t *testing.T) {
				t.Parallel()
				c := tss.New(softtpmtest.New(t))
				k, err := c.CreatePrimary(tss.Owner(nil), tss.SRKTemplate(tss.ECCP256), nil)
				if err != nil {
					t.Fatal(err)
				}
				names[i] = k.Name
			})
		}
	})
	seen := map[string]bool{}
	for i, n := range names {
		if n == nil || seen[string(n)] {
			t.Fatalf("TPM %d has no key of its own", i)
		}
		seen[string(n)] = true
	}
}

// TestGoTPM uses go-tpm's client, as its users would.
func TestGoTPM(t *testing.T) {
	tpm := softtpmtest.New(t)
	rsp, err := gotpm.CreatePrimary{
		PrimaryHandle: gotpm.TPMRHOwner,
		InPublic:      gotpm.New2B(gotpm.ECCSRKTemplate),
	}.Execute(tpm)
	if err != nil {
		t.Fatal(err)
	}
	defer gotpm.FlushContext{FlushHandle: rsp.ObjectHandle}.Execute(tpm)
	k, _, err := tss.New(tpm).ReadPublic(tpm2.Handle(rsp.ObjectHandle))
	if err != nil || !bytes.Equal(k.Name, rsp.Name.Buffer) {
		t.Fatalf("our client and go-tpm's see different keys: %v", err)
	}
}

func TestReset(t *testing.T) {
	tpm := softtpmtest.New(t)
	c := tss.New(tpm)
	sel := tpm2.SelectPCRs(tpm2.AlgSHA256, 0)
	if err := c.PCRExtend(tss.PCR(0), []tpm2.HA{{Alg: tpm2.AlgSHA256, Digest: make([]byte, 32)}}); err != nil {
		t.Fatal(err)
	}
	v, _, err := c.PCRRead(sel)
	if err != nil || bytes.Equal(v[0], make([]byte, 32)) {
		t.Fatal(err, v)
	}
	tpm.Reset(t)
	v, _, err = c.PCRRead(sel)
	if err != nil || !bytes.Equal(v[0], make([]byte, 32)) {
		t.Fatal(err, v)
	}
	if err := tpm.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := c.GetRandom(4); err == nil {
		t.Fatal("a closed TPM answers")
	}
}
