// SPDX-License-Identifier: Apache-2.0

package main

import (
	"errors"
	"fmt"
	"os"

	"github.com/spf13/cobra"

	"holdfast/attest/trust"
	"holdfast/enclave/daemon"
	"holdfast/enclave/sgx"
)

func init() {
	enclaveVerbs = append(enclaveVerbs, enclaveQuote, enclaveEnroll)
}

// Offsets in the marshalling structure of an ECALL that makes a REPORT.
const (
	reportAtTarget = 0    // TARGETINFO, 512 bytes
	reportAtData   = 512  // report data, 64 bytes
	reportAtReport = 1024 // REPORT, written by the enclave
	reportMS       = 2048
)

func enclaveQuote(g *globals) *cobra.Command {
	var where running
	var call int
	var data, out string
	var cbor bool
	c := &cobra.Command{
		Use:   "quote FILE --report-ecall INDEX [--report-data HEX] --out FILE",
		Short: "Make evidence that an enclave runs in this monitor, for 'holdfast attest verify'",
		Long: `Load an enclave, let it make a REPORT (EREPORT) for the monitor, and let the
monitor turn that into evidence: the monitor's signature and a TPM's quote.
'holdfast attest verify' says whether it is genuine and acceptable.

Only the enclave itself can report. ECALL INDEX must take a marshalling
structure of 1456 bytes: TARGETINFO at 0, the 64 bytes of report data at 512,
and room for the REPORT at 1024.

At level inproc the evidence proves nothing and is marked SIMULATED.`,
		Args: exactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) (err error) {
			if call < 0 || out == "" {
				return usageError(errors.New("enclave quote: --report-ecall and --out are needed"))
			}
			d, err := parseReportData(data)
			if err != nil {
				return err
			}
			c, end, err := where.client(cmd.Context())
			if err != nil {
				return err
			}
			defer func() { err = errors.Join(err, end()) }()
			e, err := where.load(c, args[0])
			if err != nil {
				return err
			}
			t, err := c.Target()
			if err != nil {
				return refusedError(err)
			}
			at, view, err := share(e, t.AppendTo(nil), reportMS)
			if err != nil {
				return err
			}
			copy(view[reportAtData:], d[:])
			if err := e.ECall(call, at, nil); err != nil {
				return refusedError(fmt.Errorf("ECALL %d: %w", call, err))
			}
			b, err := c.Quote(view[reportAtReport:][:sgx.ReportSize])
			if err != nil {
				return refusedError(err)
			}
			enc := b.JSON()
			if cbor {
				enc = b.CBOR()
			}
			if err := replaceFile(out, enc, 0o644); err != nil {
				return err
			}
			if g.json {
				return printJSON(map[string]any{"file": out, "type": b.Report.Type, "mrenclave": fmt.Sprintf("%x", e.MREnclave), "bytes": len(enc)})
			}
			_, err = fmt.Fprintf(cmd.OutOrStdout(), "wrote %s: %s of enclave %x, %d bytes\n", out, b.Report.Type, e.MREnclave, len(enc))
			return err
		},
	}
	where.flags(c)
	c.Flags().IntVar(&call, "report-ecall", -1, "ECALL that makes a REPORT, see above")
	c.Flags().StringVar(&data, "report-data", "", "up to 64 bytes in hexadecimal that the evidence is for; the rest is zeros")
	c.Flags().StringVar(&out, "out", "", "file to write")
	c.Flags().BoolVar(&cbor, "cbor", false, "write CBOR instead of JSON")
	return c
}

// dialFlag adds --socket to a command that talks to the daemon.
func dialDaemon(cmd *cobra.Command, socket string) (*daemon.Client, error) {
	p, err := socketPath(socket)
	if err != nil {
		return nil, err
	}
	c, err := daemon.Dial(cmd.Context(), p)
	if err != nil {
		return nil, refusedError(err)
	}
	return c, nil
}

func enclaveEnroll(g *globals) *cobra.Command {
	var socket, name, machine, file string
	c := &cobra.Command{
		Use:   "enroll --name ENVIRONMENT --trust FILE",
		Short: "Once for each monitor: prove that its attestation key is in a TPM, write its record",
		Long: `Once for each monitor: by credential activation prove that the attestation key
which only this monitor can use is in one TPM with the endorsement key, and
append its record to the trust file, with the monitor's level. Carry the file
to the verifiers. As with 'holdfast attest enroll', the record is as good as
this machine is now.`,
		Args: exactArgs(0),
		RunE: func(cmd *cobra.Command, _ []string) error {
			if name == "" || file == "" {
				return usageError(errors.New("enclave enroll: --name and --trust are needed"))
			}
			c, err := dialDaemon(cmd, socket)
			if err != nil {
				return err
			}
			defer c.Close()
			all, err := (&enrolment{trust: file, name: name}).records()
			if err != nil {
				return err
			}
			ak, err := c.Enrol(name, machine)
			if err != nil {
				return refusedError(err)
			}
			all.AKs = append(all.AKs, ak)
			roots, err := trust.Build(all)
			if err != nil {
				return refusedError(fmt.Errorf("%s: %w", file, err))
			}
			b, err := roots.Encode()
			if err != nil {
				return err
			}
			if err := replaceFile(file, b, os.FileMode(0o644)); err != nil {
				return err
			}
			if g.json {
				return printJSON(map[string]any{"environment": ak.Environment, "enclave_level": ak.EnclaveLevel, "method": ak.Method, "ek_type": ak.EK.Type, "trust": file})
			}
			_, err = fmt.Fprintf(cmd.OutOrStdout(), "enrolled %s by %s for enclaves at level %s\n  endorsement key %s, Name %x\n  record appended to %s: carry it to the Verifiers\n",
				ak.Environment, ak.Method, ak.EnclaveLevel, ak.EK.Type, []byte(ak.EK.Name), file)
			return err
		},
	}
	c.Flags().StringVar(&socket, "socket", "", "socket of the daemon")
	c.Flags().StringVar(&name, "name", "", "the environment's name, by which policies accept it")
	c.Flags().StringVar(&machine, "machine", "", "identifier of the machine, for the record")
	c.Flags().StringVar(&file, "trust", "", "trust file to append the record to; made if missing")
	return c
}
