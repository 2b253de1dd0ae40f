// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/spf13/cobra"

	"holdfast/tpm2"
	"holdfast/tpmio/dial"
	"holdfast/tpmio/serve"
	"holdfast/tss"
)

// tpmFlags are the flags that every command of `holdfast tpm` has.
type tpmFlags struct {
	*globals
	spec string
}

// tpmCommands are filled in by the files of this folder named tpm_*.go.
var tpmCommands []func(*tpmFlags) *cobra.Command

func init() {
	register(func(g *globals) *cobra.Command {
		f := &tpmFlags{globals: g}
		cmd := &cobra.Command{
			Use: "tpm", Short: "Serve our software TPM, and use any TPM",
			Long: "Serve our software TPM (tpm serve), and use any TPM by the commands below. Names and flags follow\ntpm2-tools where it has the command. --tpm is " + dial.Forms + ";\nwithout it the variable HOLDFAST_TPM counts, then the default socket of `holdfast tpm serve`.",
		}
		cmd.PersistentFlags().StringVar(&f.spec, "tpm", os.Getenv("HOLDFAST_TPM"), "the TPM: "+dial.Forms)
		for _, c := range tpmCommands {
			cmd.AddCommand(c(f))
		}
		return cmd
	})
}

// with runs f with a client of the TPM.
func (f *tpmFlags) with(ctx context.Context, run func(t *tss.TPM) error) error {
	spec := f.spec
	if spec == "" {
		s, err := serve.DefaultSocket()
		if err != nil {
			return usageError(fmt.Errorf("--tpm: expected %s (%w)", dial.Forms, err))
		}
		spec = "swtpm:" + s
	}
	dialCtx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	c, err := dial.Dial(dialCtx, spec)
	if err != nil {
		return err
	}
	stop := context.AfterFunc(ctx, func() { c.Close() })
	err = run(tss.New(c))
	if !stop() {
		return context.Cause(ctx)
	}
	if errors.Is(err, tpm2.RCInitialize) {
		err = fmt.Errorf("%w: the TPM was not started; run `holdfast tpm startup`, or serve it with --startup clear", err)
	}
	return errors.Join(err, c.Close())
}

// printResult prints v as JSON if asked to, else by text.
func (f *tpmFlags) printResult(v any, text func()) error {
	if f.json {
		return printJSON(v)
	}
	text()
	return nil
}

// hexBytes is a byte slice that stands as hexadecimal digits in JSON.
type hexBytes []byte

func (h hexBytes) MarshalText() ([]byte, error) { return hex.AppendEncode(nil, h), nil }
func (h hexBytes) String() string               { return hex.EncodeToString(h) }
