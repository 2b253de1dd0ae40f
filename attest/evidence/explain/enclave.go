// SPDX-License-Identifier: Apache-2.0

package explain

import (
	"fmt"
	"time"

	"holdfast/attest/evidence"
	"holdfast/enclave/sgx"
)

// levels says who is kept out at a level.
var levels = map[string]string{
	evidence.LevelInproc:     "monitor inside the application: nobody is kept out, and the key is a throw-away one",
	evidence.LevelHosted:     "a daemon: applications, other users and other enclaves are kept out; the host's root is trusted",
	evidence.LevelLateLaunch: "a monitor below the kernel: the kernel is kept out too",
}

var modes = map[string]string{
	evidence.ModeHU: "a locked-down process of the host",
	evidence.ModeGU: "ring 3 of a virtual machine",
	evidence.ModeP:  "ring 0 of a virtual machine",
}

func (l *lines) enclave(b *evidence.Bundle) error {
	q, err := evidence.ParseEnclaveQuote(b.Report.Body)
	if err != nil {
		return err
	}
	r, err := q.Body()
	if err != nil {
		return err
	}
	l.add("level", q.Statement.Level, levels[q.Statement.Level])
	l.add("mode", q.Mode, modes[q.Mode])
	l.add("report data", fmt.Sprintf("%x", r.ReportData), "what the enclave gave to EREPORT")
	l.add("MRENCLAVE", fmt.Sprintf("%x", r.MREnclave), "digest of what was loaded")
	l.add("MRSIGNER", fmt.Sprintf("%x", r.MRSigner), "digest of the signer's key")
	l.add("product, SVN", fmt.Sprintf("%d, %d", r.ISVProdID, r.ISVSVN), "as the signer numbered them")
	note := ""
	if r.Attributes.Flags&sgx.FlagDebug != 0 {
		note = "DEBUG: its memory can be read and written from outside"
	}
	l.add("attributes", r.Attributes.Flags.String(), note)
	l.add("CPUSVN", fmt.Sprintf("%x", r.CPUSVN), "version of the monitor")
	if r.ConfigID != [64]byte{} || r.ConfigSVN != 0 {
		l.add("CONFIGID, CONFIGSVN", fmt.Sprintf("%x, %d", r.ConfigID, r.ConfigSVN), "configuration that the loader named")
	}
	l.add("made", time.UnixMilli(int64(q.Statement.Made)).UTC().Format(time.RFC3339Nano), "by the monitor's clock")
	l.add("root", fmt.Sprintf("%x", q.Statement.Root), fmt.Sprintf("of a tree over %d reports; this is number %d", q.Size, q.Index))
	if root, err := q.Root(); err != nil || root != q.Statement.Root {
		l.add("path", "does NOT lead to the root", "the report is not among those that the monitor signed")
	}
	l.add("statement", fmt.Sprintf("signature of %d bytes", len(q.Signature)), "by the monitor's key, over level, time and root")
	if len(q.TPM) == 0 {
		l.add("TPM quote", "none", "nothing proves which monitor made this")
		return nil
	}
	return l.tpmQuote(q.TPM, "SHA-256 of report data that cover the monitor's key and statement")
}

func (l *lines) enclaveKey(b []byte) error {
	k, err := evidence.ParseEnclaveKey(b)
	if err != nil {
		return err
	}
	l.add("  monitor key", fmt.Sprintf("%s for level %s", k.Algorithm, k.Level), "made at this start of the monitor; the TPM proves it by the record in the key PCR")
	return nil
}
