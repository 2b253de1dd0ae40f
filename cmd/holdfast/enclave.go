// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"encoding/hex"
	"fmt"
	"os"

	"github.com/spf13/cobra"

	"holdfast/enclave/sgx/image"
)

// enclaveVerbs are the subcommands; those of one operating system add
// themselves.
var enclaveVerbs = []func(*globals) *cobra.Command{enclaveMeasure}

func init() {
	register(func(g *globals) *cobra.Command {
		c := &cobra.Command{Use: "enclave", Short: "SGX enclaves without SGX: measure and run them"}
		for _, v := range enclaveVerbs {
			c.AddCommand(v(g))
		}
		return c
	})
}

// measured is what `enclave measure` prints.
type measured struct {
	File       string `json:"file"`
	Format     string `json:"format"`
	MREnclave  string `json:"mrenclave"`
	MRSigner   string `json:"mrsigner,omitempty"`
	Signed     string `json:"signed_mrenclave,omitempty"`
	SignedOn   string `json:"signed_on,omitempty"`
	ISVProdID  uint16 `json:"isv_prod_id"`
	ISVSVN     uint16 `json:"isv_svn"`
	Attributes string `json:"attributes,omitempty"`
	Size       uint64 `json:"size_bytes"`
	Pages      int    `json:"pages"`
	Problem    string `json:"problem,omitempty"`
}

func enclaveMeasure(g *globals) *cobra.Command {
	return &cobra.Command{
		Use:   "measure FILE",
		Short: "Compute MRENCLAVE of a .signed.so or .sgxs file and check it against its signature",
		Args:  cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			b, err := os.ReadFile(args[0])
			if err != nil {
				return usageError(err)
			}
			m, err := measure(args[0], b)
			if err != nil {
				return refusedError(err)
			}
			if g.json {
				err = printJSON(m)
			} else {
				err = m.print(cmd)
			}
			if err == nil && m.Problem != "" {
				err = refusedError(fmt.Errorf("%s: %s", args[0], m.Problem))
			}
			return err
		},
	}
}

func measure(name string, b []byte) (*measured, error) {
	if bytes.HasPrefix(b, []byte("ECREATE\x00")) {
		i, err := image.ReadSGXS(bytes.NewReader(b))
		if err != nil {
			return nil, err
		}
		mr := i.Measure()
		return &measured{File: name, Format: ".sgxs", MREnclave: hex.EncodeToString(mr[:]), Size: i.Size, Pages: len(i.Pages)}, nil
	}
	i, err := image.ReadSDK(b)
	if err != nil {
		return nil, err
	}
	mr, signer := i.Measure(), i.Sig.MRSigner()
	m := &measured{
		File: name, Format: fmt.Sprintf(".signed.so, metadata %d.%d", i.Metadata.Major, i.Metadata.Minor), MREnclave: hex.EncodeToString(mr[:]),
		MRSigner: hex.EncodeToString(signer[:]), Signed: hex.EncodeToString(i.Sig.EnclaveHash[:]), SignedOn: i.Sig.Date.String(), ISVProdID: i.Sig.ISVProdID,
		ISVSVN: i.Sig.ISVSVN, Attributes: i.Sig.Attributes.Flags.String(), Size: i.Size, Pages: len(i.Pages),
	}
	switch {
	case i.Sig.EnclaveHash != mr:
		m.Problem = "the file is not what was signed: its MRENCLAVE differs from the one in SIGSTRUCT"
	case i.Sig.Verify() != nil:
		m.Problem = i.Sig.Verify().Error()
	}
	return m, nil
}

func (m *measured) print(cmd *cobra.Command) error {
	_, err := fmt.Fprintf(cmd.OutOrStdout(), "MRENCLAVE  %s\n", m.MREnclave)
	if m.MRSigner != "" && err == nil {
		_, err = fmt.Fprintf(cmd.OutOrStdout(), "MRSIGNER   %s\nsigned     %s, product %d, SVN %d, %s\n", m.MRSigner, m.SignedOn, m.ISVProdID, m.ISVSVN, m.Attributes)
	}
	if err == nil {
		_, err = fmt.Fprintf(cmd.OutOrStdout(), "format     %s, %d pages, %d bytes of address range\n", m.Format, m.Pages, m.Size)
	}
	return err
}
