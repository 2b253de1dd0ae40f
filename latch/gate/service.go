// SPDX-License-Identifier: Apache-2.0

package gate

import (
	"errors"
	"fmt"
	"os"
	"slices"

	"holdfast/attest/appraise"
	"holdfast/attest/policy"
	"holdfast/attest/verify"
	"holdfast/latch/binder"
	"holdfast/latch/flow"
)

// maxAgents is the number of different agents, one bit of flow.Service.Agents each.
const maxAgents = 64

// service is a loaded entry of the configuration.
type service struct {
	flow     flow.Service
	verifier *verify.Verifier
	policy   *policy.Policy
}

// services are the loaded configuration: entries by name, and the agents in
// the order of their bits.
type services struct {
	byName map[string]*service
	agents []Address
}

// loadServices reads every trust and policy file. Services that name the same
// trust file and collateral share a Verifier, and so the evidence that it has
// seen. Agents that are known keep their bits.
func loadServices(c *Config, known ...Address) (*services, error) {
	out := &services{byName: map[string]*service{}, agents: slices.Clone(known)}
	verifiers := map[string]*verify.Verifier{}
	bit := map[Address]int{}
	for i, a := range known {
		bit[a] = i
	}
	var all error
	for _, name := range c.names() {
		s := c.Services[name]
		sv := &service{flow: flow.Service{Name: name, Grade: binder.Grade(s.Grade), Resumption: true}}
		// Resumption is the policy's rule, and it is told whether a session resumed.
		if sv.flow.Grade == binder.Mutual {
			claims, err := c.ownClaims()
			if err != nil {
				all = errors.Join(all, fmt.Errorf("client: %w", err))
				continue
			}
			sv.flow.Claims = claims
		}
		key := s.Trust + "\x00" + s.Collateral
		if verifiers[key] == nil {
			v, err := appraise.Open(s.Trust, s.Collateral)
			if err != nil {
				all = errors.Join(all, fmt.Errorf("services.%s: trust %s: %w", name, s.Trust, err))
				continue
			}
			verifiers[key] = v
		}
		sv.verifier = verifiers[key]
		b, err := os.ReadFile(s.Policy)
		if err == nil {
			sv.policy, err = policy.Parse(b)
		}
		if err == nil && sv.policy.Empty() {
			err = errors.New("it has no rule, so it would refuse everything")
		}
		if err != nil {
			all = errors.Join(all, fmt.Errorf("services.%s: policy %s: %w", name, s.Policy, err))
			continue
		}
		for _, a := range s.Agents {
			i, ok := bit[a]
			if !ok {
				if i = len(out.agents); i == maxAgents {
					return nil, fmt.Errorf("services: more than %d different agents", maxAgents)
				}
				bit[a] = i
				out.agents = append(out.agents, a)
			}
			sv.flow.Agents |= 1 << i
		}
		out.byName[name] = sv
	}
	if all != nil {
		return nil, all
	}
	return out, nil
}

// Check loads everything that the configuration names and says what is wrong.
func (c *Config) Check() error {
	_, err := loadServices(c)
	return err
}
