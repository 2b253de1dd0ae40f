// SPDX-License-Identifier: Apache-2.0

package main

import (
	"errors"
	"fmt"
	"os"

	"github.com/spf13/cobra"

	"holdfast/attest/evidence"
	"holdfast/attest/provider/simulated"
	"holdfast/attest/trust"
)

func init() { attestVerbs = append(attestVerbs, newAttestSimulatedRoot) }

func newAttestSimulatedRoot(g *globals) *cobra.Command {
	var name, alg, root, trustFile string
	c := &cobra.Command{
		Use:   "simulated-root --name NAME --root FILE --trust FILE",
		Short: "For tests and benchmarks: make a root for SIMULATED evidence and pin it",
		Long: `For tests and benchmarks: make a root for SIMULATED evidence and pin it in a
trust file. Such evidence proves nothing about any machine; every output says
SIMULATED, and only a policy with 'simulated: allow' accepts it. Never pin such
a root where real data is at stake.`,
		Args: exactArgs(0),
		RunE: func(cmd *cobra.Command, _ []string) error {
			if root == "" || trustFile == "" {
				return usageError(errors.New("attest simulated-root: --root and --trust are needed"))
			}
			r, err := simulated.NewRoot(name, alg)
			if err != nil {
				return usageError(err)
			}
			record, err := r.Record()
			if err != nil {
				return err
			}
			old, err := trust.Load(trustFile)
			if errors.Is(err, os.ErrNotExist) {
				old, err = trust.New(nil, nil)
			}
			if err != nil {
				return usageError(err)
			}
			all := old.Records()
			all.Simulated = append(all.Simulated, record)
			roots, err := trust.Build(all)
			if err != nil {
				return usageError(fmt.Errorf("%s: %w", trustFile, err))
			}
			b, err := r.Encode()
			if err != nil {
				return err
			}
			defer clear(b)
			if err := writeNew(root, b, 0o600); err != nil {
				return usageError(err)
			}
			t, err := roots.Encode()
			if err == nil {
				err = replaceFile(trustFile, t, 0o644)
			}
			if err != nil {
				return errors.Join(err, os.Remove(root))
			}
			if g.json {
				return printJSON(map[string]any{"simulated": true, "name": name, "algorithm": alg, "root": root, "trust": trustFile})
			}
			_, err = fmt.Fprintf(cmd.OutOrStdout(), "%s root %q (%s): private key in %s, pinned in %s\n", evidence.SimulatedMark, name, alg, root, trustFile)
			return err
		},
	}
	f := c.Flags()
	f.StringVar(&name, "name", "lab", "name of the root")
	f.StringVar(&alg, "algorithm", evidence.ES256, "ES256 or ML-DSA-65")
	f.StringVar(&root, "root", "", "file to write the private key to, mode 0600")
	f.StringVar(&trustFile, "trust", "", "trust file to pin the root in; made if missing")
	return c
}
