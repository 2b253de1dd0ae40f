// SPDX-License-Identifier: Apache-2.0

// Command holdfast is the one binary of the project: the software TPM, the
// attestation tools, the latch and, later, the enclave platform. Each file
// here holds one verb and registers it; `holdfast help` lists them.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"strings"
	"syscall"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	code := run(ctx, os.Args[1:])
	stop()
	os.Exit(code)
}

// run executes one command line and returns its exit status.
func run(ctx context.Context, args []string) int {
	root := newRoot()
	root.SetArgs(args)
	err := root.ExecuteContext(ctx)
	if err == nil {
		return exitDone
	}
	var s statusError
	if !errors.As(err, &s) {
		s = statusError{exitRefused, err}
		if wrongUse(err) {
			s.status = exitUsage
		}
	}
	if s.err != nil && s.err.Error() != "" {
		fmt.Fprintln(os.Stderr, "holdfast:", s.err)
	}
	return s.status
}

// wrongUse recognizes cobra's own errors about commands and the number of
// arguments, which have no type.
func wrongUse(err error) bool {
	for _, prefix := range []string{"unknown command ", "requires at least ", "accepts "} {
		if strings.HasPrefix(err.Error(), prefix) {
			return true
		}
	}
	return false
}
