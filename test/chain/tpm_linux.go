// SPDX-License-Identifier: Apache-2.0

package chain

import (
	"fmt"
	"strconv"
	"strings"
)

// measure is the measured launch: the digests of the agent's program, the
// service's program and its configuration go into a PCR and into the log,
// before any of them runs.
func (c *Chain) measure() error {
	if c.o.Simulated > 0 {
		return nil
	}
	c.measured = []string{c.o.Binary, c.o.Executable}
	if c.o.Config != "" {
		c.measured = append(c.measured, c.o.Config)
	}
	_, err := c.run(append([]string{"attest", "measure", "--tpm", c.TPM(), "--pcr", strconv.Itoa(measuredPCR), "--log", c.path("events.log")}, c.measured...)...)
	return err
}

// enroll makes the attestation key and pins it after credential activation.
func (c *Chain) enroll() error {
	if c.o.Simulated > 0 {
		return nil
	}
	_, err := c.run("attest", "enroll", "--tpm", c.TPM(), "--environment", Environment, "--key", c.path("private/ak.json"), "--algorithm", c.o.AK,
		"--trust", c.path("trust.yaml"))
	return err
}

// tpmProvider is the agent's way to the TPM.
func (c *Chain) tpmProvider() string {
	return strings.NewReplacer("TPM", strconv.Quote(c.TPM()), "KEY", strconv.Quote(c.path("private/ak.json")), "LOG", strconv.Quote(c.path("events.log")),
		"PCRS", fmt.Sprintf("%q", "sha256:"+strconv.Itoa(measuredPCR))).Replace("  tpm: {address: TPM, key: KEY, secret: SECRET, pcrs: [PCRS], event-logs: [LOG]}\n")
}
