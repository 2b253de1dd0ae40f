// SPDX-License-Identifier: Apache-2.0

package gate

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"go.yaml.in/yaml/v3"

	"holdfast/attest/provider"
	"holdfast/latch/attester"
	"holdfast/latch/binder"
	"holdfast/latch/channel"
	"holdfast/latch/flow"
)

// ClientConfig says how this machine attests its own side of mutual sessions.
type ClientConfig struct {
	Name     string    `yaml:"name"`     // what policies about clients call it: claims.services
	Provider yaml.Node `yaml:"provider"` // security processor, as in the agent's configuration
}

func (c *ClientConfig) check() error {
	if c.Name == "" || len(c.Name) > binder.MaxText {
		return fmt.Errorf("client.name: %d bytes, expected 1 to %d", len(c.Name), binder.MaxText)
	}
	if c.Provider.IsZero() {
		return errors.New("client.provider: is missing; name a security processor as in the agent's configuration")
	}
	return nil
}

// version of the gate, as a claim; the command line sets it.
var version = "devel"

// SetVersion says what the gate's claims call its version. Call it before Open.
func SetVersion(v string) { version = v }

// claims are what this gate says of the programs that it gates: which control
// group, and for one command its executable.
func (c *Config) claims() ([]byte, error) {
	cl := binder.Claims{Service: c.Client.Name, Listener: "client", Unit: c.unit, Executable: c.executable, AgentVersion: version, Class: binder.Machine}
	return cl.Encode()
}

// own has this machine's leaves attested.
type own struct {
	attester *attester.Attester
	claims   []byte
	report   uint64
}

// ownTag is what a leaf is for.
type ownTag struct {
	ch     [32]byte
	agents uint64
}

// openOwn opens the security processor, if a service is mutual.
func (c *Config) openOwn(open func(context.Context) (provider.Provider, error), done func(*attester.Group)) (*own, error) {
	claims, err := c.claims()
	if err != nil {
		return nil, fmt.Errorf("client: %w", err)
	}
	o := &own{claims: claims}
	if o.attester, err = attester.New(context.Background(), attester.Options{Open: open, Done: done}); err != nil {
		return nil, fmt.Errorf("client: %w", err)
	}
	return o, nil
}

// mutual says whether any service is.
func (c *Config) mutual() bool {
	for _, s := range c.Services {
		if binder.Grade(s.Grade) == binder.Mutual {
			return true
		}
	}
	return false
}

// attest has leaves attested, without waiting.
func (g *Gate) attest(list []flow.Attest) {
	if len(list) == 0 {
		return
	}
	if g.own == nil {
		for i := range list {
			g.table.OwnFailed(time.Now(), list[i].CH, "the gate has no security processor")
		}
		return
	}
	items := make([]attester.Item, len(list))
	for i := range list {
		items[i] = attester.Item{Leaf: list[i].Leaf, Tag: ownTag{list[i].CH, list[i].Agents}}
	}
	g.own.attester.Add(items...)
}

// proved sends a group's evidence to the agents that asked for it.
func (g *Gate) ownDone(group *attester.Group) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.closed {
		return
	}
	if group.Err != nil {
		slog.Warn("no report from this machine's security processor", "sessions", len(group.Items), "error", group.Err)
		for _, it := range group.Items {
			g.table.OwnFailed(time.Now(), it.Tag.(ownTag).ch, group.Err.Error())
		}
		g.act()
		return
	}
	g.own.report++
	g.stats.OwnReports++
	var sessions []channel.Session
	for _, l := range g.links {
		p, ok := l.client.(prover)
		if l.client == nil || !ok {
			continue
		}
		sessions = sessions[:0]
		for i, it := range group.Items {
			if t := it.Tag.(ownTag); t.agents&(1<<l.i) != 0 {
				sessions = append(sessions, channel.Session{CH: t.ch, Index: uint64(i), Path: group.Tree.Path(i), Claims: g.own.claims})
			}
		}
		if len(sessions) == 0 {
			continue
		}
		var es []channel.Endorsement
		for _, e := range group.Endorsements {
			if h := e.Hash(); !l.sentOwn[h] {
				l.sentOwn[h] = true
				es = append(es, channel.Endorsement{Type: e.Type, Body: e.Body})
			}
		}
		r := channel.Report{ID: g.own.report, Type: group.Report.Type, Body: group.Report.Body, Needs: group.Report.Needs, Size: uint64(len(group.Items))}
		if err := p.Prove(es, &r, sessions); err != nil {
			slog.Warn("own evidence", "agent", l.addr.String(), "error", err)
			l.client.Close() // Recv returns, and the link comes down
		}
	}
}

// prover is an agentClient that carries this machine's own evidence.
type prover interface {
	Prove(es []channel.Endorsement, r *channel.Report, sessions []channel.Session) error
}

// ownClaims is the digest of the claims, for the binder.
func (c *Config) ownClaims() ([32]byte, error) {
	b, err := c.claims()
	return sha256.Sum256(b), err
}
