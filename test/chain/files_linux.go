// SPDX-License-Identifier: Apache-2.0

package chain

import (
	"fmt"
	"os"
	"strconv"
	"strings"
)

// policyText accepts: this one enrolled machine, quoting with this algorithm;
// on it nothing but the measured programs; and a session whose receiving key is
// held by the service's own executable with this configuration.
const policyText = `version: 1
environments: [ENVIRONMENT]
signatures: [ALGORITHM]
class: machine
server-names: [SERVICE]
groups: [X25519MLKEM768, x25519, secp256r1, secp384r1]
claims:
  services: [SERVICE]
  executables: [EXECUTABLE]
`

// agentText is the agent's configuration.
const agentText = `listeners:
  - address: ADDRESS
    service: SERVICE
    executables: [EXECUTABLE]
channel:
  listen: [AGENT]
cgroup: GROUP
provider:
`

// gateText is the gate's configuration.
const gateText = `services:
  SERVICE:
    agents: [AGENT]
    trust: trust.yaml
    policy: policy.yaml
deadline: 5s
scope:
  cgroup: GROUP
`

// signatureNames are the policy's names of the algorithms of attestation keys.
var signatureNames = map[string]string{"ML-DSA-65": "ML-DSA-65", "ECC-P256": "ES256"}

func (c *Chain) writeFiles() error {
	executable, err := hashFile(c.o.Executable)
	if err != nil {
		return err
	}
	scope, err := cgroupPath(c.clientGroup)
	if err != nil {
		return err
	}
	signature, ok := signatureNames[c.o.AK]
	if !ok {
		return fmt.Errorf("attestation key %q, expected ML-DSA-65 or ECC-P256", c.o.AK)
	}
	policy, agent, environment := policyText, agentText, Environment
	if c.o.Config != "" {
		config, err := hashConfig(c.o.Config)
		if err != nil {
			return err
		}
		policy += "  configs: [" + config + "]\n"
		agent = strings.Replace(agent, "channel:", "    config: "+strconv.Quote(c.o.Config)+"\nchannel:", 1)
	}
	if c.o.Simulated > 0 {
		policy += "simulated: allow\n"
		environment = "SIMULATED/" + Environment + "/" + Environment // root and report key have the same name here
		agent += fmt.Sprintf("  simulated: {name: %s, algorithm: %s, latency: %s, trust: %q}\n", Environment, signature, c.o.Simulated, c.path("trust.yaml"))
	} else {
		rules, err := c.eventRules()
		if err != nil {
			return err
		}
		policy += "  executable-measured-in: " + strconv.Itoa(measuredPCR) + "\n" + rules
		agent += c.tpmProvider()
	}
	fill := strings.NewReplacer("ENVIRONMENT", environment, "ALGORITHM", signature, "SERVICE", c.o.ServiceName, "ADDRESS", strconv.Quote(c.o.Address),
		"AGENT", strconv.Quote(c.Agent()), "EXECUTABLE", executable)
	agent = strings.Replace(agent, "GROUP", strconv.Quote(c.machineGroup), 1)
	agent = strings.Replace(agent, "executables: [EXECUTABLE]", "executables: ["+strconv.Quote(c.o.Executable)+"]", 1)
	gate := gateText
	if c.o.Control {
		gate += fmt.Sprintf("operations: {control: %q}\n", c.Control())
	}
	for name, text := range map[string]string{
		"policy.yaml": policy, "agent.yaml": agent, "gate.yaml": strings.Replace(gate, "GROUP", strconv.Quote(scope), 1),
	} {
		if err := os.WriteFile(c.path(name), []byte(fill.Replace(text)), 0o644); err != nil {
			return err
		}
	}
	return nil
}

// hashConfig is the digest that the agent claims for a configuration file.
func hashConfig(path string) (string, error) {
	st, err := os.Stat(path)
	if err != nil {
		return "", err
	}
	if st.IsDir() {
		return "", fmt.Errorf("%s is a folder; the demo's services have one file", path)
	}
	return hashFile(path)
}

// eventRules lets nothing be measured but what the chain started, and asks
// for all of it.
func (c *Chain) eventRules() (string, error) {
	var b strings.Builder
	fmt.Fprintf(&b, "events:\n  - pcr: %d\n", measuredPCR)
	for _, key := range []string{"only", "require"} {
		fmt.Fprintf(&b, "    %s:\n", key)
		for _, f := range c.measured {
			h, err := hashFile(f)
			if err != nil {
				return "", err
			}
			fmt.Fprintf(&b, "      - {name: %q, sha256: [%s]}\n", f, h)
		}
	}
	return b.String(), nil
}
