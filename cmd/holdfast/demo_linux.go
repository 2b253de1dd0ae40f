// SPDX-License-Identifier: Apache-2.0

package main

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"syscall"

	"github.com/spf13/cobra"

	"holdfast/test/demo"
)

func init() {
	register(func(g *globals) *cobra.Command {
		var o demo.Options
		c := &cobra.Command{
			Use: "demo", Short: "Run the main job on real nginx and curl, against an adversary with the certificate's key", Args: cobra.NoArgs,
			Long: `Run the main job on real programs, in network namespaces of its own: nginx, curl, a
software TPM, an agent beside nginx and a gate beside curl; and on the router between
them an adversary who holds the service's certificate key. Plain TLS accepts the
adversary, who reads the request; through the gate nothing of the request leaves.

Needs root (it calls sudo if need be), nginx and curl; ` + "`make demo`" + ` installs them.
Everything that it makes is gone afterwards. The exit status is 0 only if every
outcome is as promised.`,
			RunE: func(cmd *cobra.Command, _ []string) error { return runDemo(cmd, g.json, o) },
		}
		c.Flags().StringVar(&o.AK, "ak", "ML-DSA-65", "algorithm of the attestation key: ML-DSA-65 or ECC-P256")
		c.Flags().StringVar(&o.Keep, "keep", "", "copy configuration, policy, trust file and event log to this new folder")
		return c
	})
}

func runDemo(cmd *cobra.Command, asJSON bool, o demo.Options) error {
	self, err := os.Executable()
	if err != nil {
		return err
	}
	if os.Geteuid() != 0 {
		return asRoot(self)
	}
	o.Binary = self
	o.Log = func(format string, a ...any) { fmt.Fprintf(cmd.ErrOrStderr(), "  "+format+"\n", a...) }
	r, err := demo.Run(cmd.Context(), o)
	switch {
	case errors.Is(err, demo.ErrHost):
		return unsupportedError(err)
	case err != nil:
		return refusedError(err)
	}
	if asJSON {
		if err := printJSON(r); err != nil {
			return err
		}
	} else {
		r.Print(cmd.OutOrStdout())
	}
	if !r.AsPromised {
		return refusedError(errors.New("not every outcome is as promised"))
	}
	return nil
}

// asRoot runs the same command line by sudo, and says so.
func asRoot(self string) error {
	sudo, err := exec.LookPath("sudo")
	if err != nil {
		return unsupportedError(errors.New("namespaces and eBPF need root, and there is no sudo here: run this as root"))
	}
	fmt.Fprintln(os.Stderr, "holdfast: namespaces and eBPF need root: using sudo")
	args := append([]string{"sudo", "--", self}, os.Args[1:]...)
	return syscall.Exec(sudo, args, os.Environ())
}
