// SPDX-License-Identifier: Apache-2.0

package main

import (
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"
)

// TestMain lets the scripts run this program as the command holdfast.
func TestMain(m *testing.M) {
	testscript.Main(m, map[string]func(){"holdfast": main})
}

// TestScripts runs testdata/*.txtar: each is a session at the command line.
func TestScripts(t *testing.T) {
	testscript.Run(t, testscript.Params{
		Dir:                 "testdata",
		Deadline:            time.Now().Add(4 * time.Minute),
		RequireExplicitExec: true,
		RequireUniqueNames:  true,
	})
}
