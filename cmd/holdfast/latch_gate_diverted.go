// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"slices"

	"github.com/spf13/cobra"

	"holdfast/latch/gate"
	"holdfast/latch/hold/windivert"
)

const divertedNote = `

On Windows the scope is the machine, through WinDivert: WinDivert.dll and
WinDivert64.sys of version 2.2 stand beside holdfast.exe, and an administrator
starts this. Two processes run: the gate, and a guard that keeps the filter closed
and starts the gate again when it dies. WinDivert lives no longer than they do, so
that the end of both opens the machine; say --open-at-end, or --try, to have that.`

// latchGateDiverted is `latch gate` over WinDivert: called by a user it is the
// guard, called by the guard with a handle to borrow it is the gate.
func latchGateDiverted(g *globals, d windivert.Lender) *cobra.Command {
	var borrow string
	c := latchGate(g, gatePlatform{note: divertedNote, can: (*gate.Config).CheckDiverted, run: func(cmd *cobra.Command, f *gateFlags, conf *gate.Config) error {
		if !f.openAtEnd && f.try == 0 {
			return usageError(errors.New("the end of this command opens the machine, since WinDivert lives no longer than the processes that use it: say --open-at-end, or --try TIME, if that is meant"))
		}
		if borrow == "" {
			return guardDiverted(cmd.Context(), f, d)
		}
		h, err := d.Borrow(borrow)
		if err != nil {
			return refusedError(err)
		}
		f.openAtEnd, f.try = false, 0 // the filter is one: a gate that opened it would open it for the next one too
		ctx, stop := windivert.Told(cmd.Context(), os.Stdin)
		defer stop()
		cmd.SetContext(ctx)
		open := func(c *gate.Config) (gate.Running, error) { return gate.OpenDiverted(c, h) }
		return f.serve(cmd, conf, open, func() error { return windivert.Tell(os.Stdout) })
	}})
	c.Flags().StringVar(&borrow, windivert.BorrowFlag, "", "the guard's filter")
	if err := c.Flags().MarkHidden(windivert.BorrowFlag); err != nil {
		panic(err) // the flag is there, one line above
	}
	return c
}

// guardDiverted keeps a gate with the same command line. The time of --try is
// the guard's: a gate that is started again does not begin anew.
func guardDiverted(ctx context.Context, f *gateFlags, d windivert.Lender) error {
	exe, err := os.Executable()
	if err != nil {
		return refusedError(err)
	}
	if f.try > 0 {
		var stop context.CancelFunc
		ctx, stop = context.WithTimeout(ctx, f.try)
		defer stop()
	}
	err = windivert.Guard(ctx, d, func() *exec.Cmd {
		return &exec.Cmd{Path: exe, Args: slices.Clone(os.Args), Stderr: os.Stderr}
	})
	if err != nil {
		return refusedError(err)
	}
	return nil
}
