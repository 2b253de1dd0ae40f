// SPDX-License-Identifier: Apache-2.0

package chain

import (
	"fmt"
	"strconv"
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
	args := []string{"attest", "enroll", "--tpm", c.TPM(), "--name", Environment, "--key", c.KeyFile(), "--secret", c.path("private/ak.secret"), "--trust", c.path("trust.yaml")}
	if c.o.AK == "ECC-P256" {
		args = append(args, "--ecc", "P-256")
	}
	_, err := c.run(args...)
	return err
}

// tpmProvider is the agent's way to the TPM.
func (c *Chain) tpmProvider() string {
	return fmt.Sprintf("  tpm: {address: %q, key: %q, secret: %q, pcrs: [\"sha256:%d\"], event-logs: [%q]}\n",
		c.TPM(), c.KeyFile(), c.path("private/ak.secret"), measuredPCR, c.path("events.log"))
}
