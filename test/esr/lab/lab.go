// SPDX-License-Identifier: Apache-2.0

// Package lab is the laboratory of the endpoint-substitution relay: seven
// designs of attested channels, each against adversaries with every
// combination of four powers, run for real. Client, service and adversary are
// goroutines that speak TLS over TCP sockets; the adversary is between client
// and service, ends what it can end with what it owns, and relays to the genuine
// service so that the client gets the genuine answer. What is printed is
// whether it read the request.
//
// Call Run. The evidence is SIMULATED (attest/provider/simulated): the
// question here is what a design binds, not who signs. The designs are
// written briefly but as their authors mean them; none is weakened. The latch
// here is built of latch/tlshello, latch/binder, attest/verify and
// attest/policy with a gate that is a TCP proxy; the kernel's hold is
// tested in test/latch and shown by `holdfast demo`.
package lab

import (
	"context"
	"fmt"
	"io"
	"slices"
	"strings"
	"text/tabwriter"
)

// Power is a set of what an adversary owns, beside the network. The
// letters are the resources of the threat model: it can also use the service as
// any client can.
type Power uint8

// The powers.
const (
	T Power = 1 << iota // the service's certificate key, copied once
	V                   // a live genuine machine of the same vendor with the accepted software, not the provider's
	R                   // a live environment that the policy accepts: the provider's own
	B                   // the receiving state that outlives a session, copied once

	all = T | V | R | B
)

func (p Power) String() string {
	var out []string
	for i, n := range []string{"T", "V", "R", "B"} {
		if p&(1<<i) != 0 {
			out = append(out, n)
		}
	}
	return strings.Join(out, "+")
}

// has reports whether p includes all of q.
func (p Power) has(q Power) bool { return p&q == q }

// Outcome says whether the adversary read the request.
type Outcome string

// Outcomes.
const (
	No           Outcome = "no"
	Yes          Outcome = "yes"
	UntilRenewal Outcome = "until-renewal" // with what was copied, until the binding was renewed
)

// Design is a row of the mapping table.
type Design struct {
	Name        string `json:"design"`
	Identity    string `json:"identity_class"`    // freely generated, enterprise, service-restricted
	Environment string `json:"environment_class"` // ordinary, vendor-attested, provider-authorized
	Receiving   string `json:"receiving_state"`   // what must be copied to receive elsewhere
	Overlap     string `json:"credential_overlap"`
	Scope       string `json:"binding_scope"` // long-lived, periodic, per-session

	build func(*world) system
}

// system is a running instance of a design in a world.
type system interface {
	// renew does what the operator does once a period.
	renew() error
	// genuine serves one connection of the service.
	genuine(c *conn) error
	// client sends a request by the given way and returns the answer.
	client(ctx context.Context, r route, request string) (string, error)
	// attacks lists what an adversary can try with a set of powers; each is a try of its own.
	attacks(p Power, stolen *loot) []attack
	// steal copies the state that powers T and B give, as it is now.
	steal() *loot
}

// Row is a design with what came out.
type Row struct {
	Design
	Outcomes map[string]Outcome `json:"outcomes"` // by power set
	Minimal  []string           `json:"read_by"`  // the smallest power sets that read the request, with the outcome if it is not yes
	Detail   map[string]string  `json:"refusals"` // why the client refused the last try, by power set
}

// Result is the whole table.
type Result struct {
	Simulated bool   `json:"simulated"` // always true: the evidence is
	Powers    string `json:"powers"`
	Rows      []Row  `json:"rows"`
}

const legend = "T: owns the service's certificate key. V: has a live genuine machine of the vendor with the accepted software, not the provider's. " +
	"R: has a live environment that the policy accepts (the provider's). B: copied the receiving state that outlives a session, once. All own the network."

// Designs are the rows in the order of the table.
func Designs() []Design {
	return []Design{plainTLS, raTLSLong, raTLSPeriodic, tlsPlusRA, nested, gateway, latch}
}

// Run runs every design against every set of powers.
func Run(ctx context.Context) (*Result, error) {
	out := &Result{Simulated: true, Powers: legend}
	for _, d := range Designs() {
		r, err := runDesign(ctx, d)
		if err != nil {
			return nil, fmt.Errorf("esr laboratory: %s: %w", d.Name, err)
		}
		out.Rows = append(out.Rows, *r)
	}
	return out, nil
}

func runDesign(ctx context.Context, d Design) (*Row, error) {
	w, err := newWorld()
	if err != nil {
		return nil, err
	}
	defer w.close()
	s := d.build(w)
	if err := s.renew(); err != nil {
		return nil, err
	}
	n := newNetwork(w, s)
	if err := n.start(ctx); err != nil {
		return nil, err
	}
	defer n.stop()
	// Without these two nothing that follows would mean anything.
	if err := n.honest(ctx, false); err != nil {
		return nil, fmt.Errorf("the genuine session: %w", err)
	}
	if err := n.honest(ctx, true); err != nil {
		return nil, fmt.Errorf("the genuine session over a relay that is a mere wire: %w", err)
	}
	row := &Row{Design: d, Outcomes: map[string]Outcome{}, Detail: map[string]string{}}
	stolen := s.steal()
	for p := Power(1); p <= all; p++ {
		read, why, err := n.attack(ctx, p, stolen)
		if err != nil {
			return nil, err
		}
		row.Outcomes[p.String()], row.Detail[p.String()] = No, why
		if read {
			row.Outcomes[p.String()] = Yes
			delete(row.Detail, p.String())
		}
	}
	// A period later: what was copied is old.
	w.later()
	if err := s.renew(); err != nil {
		return nil, err
	}
	if err := n.honest(ctx, false); err != nil {
		return nil, fmt.Errorf("the genuine session after renewal: %w", err)
	}
	for p := Power(1); p <= all; p++ {
		read, why, err := n.attack(ctx, p, stolen)
		if err != nil {
			return nil, err
		}
		switch was := row.Outcomes[p.String()]; {
		case was == Yes && !read:
			row.Outcomes[p.String()], row.Detail[p.String()] = UntilRenewal, why
		case was == No && read:
			return nil, fmt.Errorf("with %v the adversary reads after the renewal and did not before", p)
		}
	}
	row.Minimal = minimal(row.Outcomes)
	return row, nil
}

// minimal finds the sets of which no smaller one does as well.
func minimal(outcomes map[string]Outcome) []string {
	rank := map[Outcome]int{No: 0, UntilRenewal: 1, Yes: 2}
	var out []string
next:
	for p := Power(1); p <= all; p++ {
		o := outcomes[p.String()]
		if o == No {
			continue
		}
		for q := Power(1); q < p; q++ {
			if p.has(q) && rank[outcomes[q.String()]] >= rank[o] {
				continue next
			}
		}
		name := p.String()
		if o != Yes {
			name += " (" + string(o) + ")"
		}
		out = append(out, name)
	}
	slices.SortStableFunc(out, func(a, b string) int { return strings.Count(a, "+") - strings.Count(b, "+") })
	return out
}

// columns are the power sets that the printed table shows.
var columns = []Power{T, V, R, B, T | V, T | R, T | B, R | B}

// Print writes the table for people.
func (r *Result) Print(w io.Writer) error {
	fmt.Fprintf(w, "Endpoint-substitution relay: did the adversary read the request? Evidence is SIMULATED; sessions, sockets and adversaries are real.\n%s\n\n", r.Powers)
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprint(t, "design\tidentity class\tenvironment class\treceiving state\toverlap with credentials\tbinding scope\t")
	for _, p := range columns {
		fmt.Fprintf(t, "%v\t", p)
	}
	fmt.Fprintln(t, "read by (smallest)")
	for _, row := range r.Rows {
		fmt.Fprintf(t, "%s\t%s\t%s\t%s\t%s\t%s\t", row.Name, row.Identity, row.Environment, row.Receiving, row.Overlap, row.Scope)
		for _, p := range columns {
			o := row.Outcomes[p.String()]
			if o == UntilRenewal {
				o = "a period"
			}
			fmt.Fprintf(t, "%s\t", o)
		}
		fmt.Fprintln(t, strings.Join(row.Minimal, ", "))
	}
	return t.Flush()
}
