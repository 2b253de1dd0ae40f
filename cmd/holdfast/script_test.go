// SPDX-License-Identifier: Apache-2.0

package main

import (
	"encoding/hex"
	"errors"
	"path/filepath"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"

	"holdfast/enclave/sgx"
	"holdfast/enclave/urts/probe"
)

// programs are what the test binary is when it is called by one of these names.
var programs = map[string]func(){"holdfast": main}

// TestMain lets the scripts run this program as the command holdfast.
func TestMain(m *testing.M) { testscript.Main(m, programs) }

// TestScripts runs testdata/*.txtar: each is a session at the command line.
func TestScripts(t *testing.T) {
	testscript.Run(t, testscript.Params{
		Dir:                 "testdata",
		Deadline:            time.Now().Add(4 * time.Minute),
		RequireExplicitExec: true,
		RequireUniqueNames:  true,
		Setup: func(e *testscript.Env) error {
			csv, err := filepath.Abs("../../attest/appraise/csv/testdata") // of a real chip; NOTICE is beside it
			e.Setenv("CSV", csv)
			return errors.Join(err, probeEnclave(e))
		},
	})
}

// probeEnclave gives each script the test enclave, and a request for its seal
// key in the form of --ecall.
func probeEnclave(e *testscript.Env) error {
	img, err := probe.Image(1, 0, nil)
	if err != nil {
		return err
	}
	request := (&sgx.KeyRequest{Name: sgx.KeySeal, Policy: sgx.PolicyMREnclave, ISVSVN: 2}).AppendTo(make([]byte, 0, 528))
	e.Setenv("SEALREQ", hex.EncodeToString(request[:528]))
	return probe.Files(e.WorkDir, "probe", img)
}
