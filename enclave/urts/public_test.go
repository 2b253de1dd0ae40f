// SPDX-License-Identifier: Apache-2.0

//go:build linux && amd64

package urts

import (
	"bytes"
	"crypto/sha256"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"holdfast/enclave/sgx"
	"holdfast/enclave/sgx/image"
)

// TestPublicEnclaves measures and starts every enclave in the folder that
// HOLDFAST_ENCLAVES names: signed SDK images (*.signed.so), and .sgxs files with
// the SIGSTRUCT beside them (*.sig). docs/enclaves.md lists those that were
// tried; none is part of the project.
func TestPublicEnclaves(t *testing.T) {
	dir := os.Getenv("HOLDFAST_ENCLAVES")
	if dir == "" {
		t.Skip("SKIP[full]: HOLDFAST_ENCLAVES names no folder with public enclaves")
	}
	images, err := filepath.Glob(filepath.Join(dir, "*.signed.so"))
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range images {
		t.Run(filepath.Base(name), func(t *testing.T) {
			b, err := os.ReadFile(name)
			if err != nil {
				t.Fatal(err)
			}
			img, err := image.ReadSDK(b)
			if err != nil {
				t.Fatalf("file %x: %v", sha256.Sum256(b), err)
			}
			if mr := img.Measure(); mr != img.Sig.EnclaveHash {
				t.Errorf("MRENCLAVE %x, signed %x", mr, img.Sig.EnclaveHash)
			}
			if err := img.Sig.Verify(); err != nil {
				t.Error(err)
			}
			debug := img.Sig.AttrMask.Flags&sgx.FlagDebug == 0
			e, err := Load(platform(t, 1<<16), img, Options{Debug: debug})
			if err != nil {
				t.Fatalf("file %x, MRENCLAVE %x: %v", sha256.Sum256(b), img.Sig.EnclaveHash, err)
			}
			defer e.Close()
			t.Logf("file %x, MRENCLAVE %x: the trusted runtime initialized", sha256.Sum256(b), e.MREnclave())
		})
	}
	streams, err := filepath.Glob(filepath.Join(dir, "*.sgxs"))
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range streams {
		t.Run(filepath.Base(name), func(t *testing.T) {
			b, err := os.ReadFile(name)
			if err != nil {
				t.Fatal(err)
			}
			img, err := image.ReadSGXS(bytes.NewReader(b))
			if err != nil {
				t.Fatal(err)
			}
			raw, err := os.ReadFile(strings.TrimSuffix(name, ".sgxs") + ".sig")
			if err != nil {
				t.Fatal(err)
			}
			sig, err := sgx.ParseSigStruct(raw)
			if err != nil {
				t.Fatal(err)
			}
			if err := sig.Verify(); err != nil || sig.EnclaveHash != img.Measure() {
				t.Errorf("MRENCLAVE %x, signed %x, %v", img.Measure(), sig.EnclaveHash, err)
			}
		})
	}
	if len(images)+len(streams) == 0 {
		t.Errorf("no *.signed.so and no *.sgxs in %s", dir)
	}
}
