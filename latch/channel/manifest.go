// SPDX-License-Identifier: Apache-2.0

package channel

import "fmt"

// CapabilityBatch in a gate's Hello asks for the manifests of batch services.
const CapabilityBatch = "batch"

// MaxManifest bounds the sessions of one manifest: its frame stays below
// MaxFrameFromAgent.
const MaxManifest = 1 << 16

// maxManifestGroups bounds the different claims of one manifest.
const maxManifestGroups = 1024

const typeManifest = 22

// Manifest lists all sessions that an agent observed at its batch services in
// an interval. The report signs binder.BatchHead of it.
//
//	22 Manifest [22, instance (16 bytes), number, previous head, [[claims bytes, binders (32 bytes each, in one byte string)], ...],
//	             report type text, report body bytes, [hash of endorsement that it needs]]
type Manifest struct {
	Instance [16]byte
	Number   uint64
	Previous Hash
	Groups   []ManifestGroup
	Type     string
	Body     []byte
	Needs    []Hash
}

// ManifestGroup are the sessions of one listener: their leaves are made of
// each binder and the digest of the claims.
type ManifestGroup struct {
	Claims  []byte
	Binders []byte // 32 bytes each
}

// Sessions is the number of binders.
func (m *Manifest) Sessions() (n int) {
	for i := range m.Groups {
		n += len(m.Groups[i].Binders) / 32
	}
	return n
}

// Append encodes the manifest as one CBOR item.
func (m *Manifest) Append(b []byte) []byte {
	b = appendBytes(appendUint(appendArray(b, 8), typeManifest), m.Instance[:])
	b = appendBytes(appendUint(b, m.Number), m.Previous[:])
	b = appendArray(b, len(m.Groups))
	for i := range m.Groups {
		b = appendBytes(appendBytes(appendArray(b, 2), m.Groups[i].Claims), m.Groups[i].Binders)
	}
	return appendHashes(appendBytes(appendText(b, m.Type), m.Body), m.Needs)
}

func readManifest(d *decoder) *Manifest {
	m := new(Manifest)
	in := d.str(majorBytes, len(m.Instance), "instance")
	if d.err == nil && len(in) != len(m.Instance) {
		d.fail("instance: %d bytes, expected %d", len(in), len(m.Instance))
	}
	copy(m.Instance[:], in)
	m.Number = d.uint(1<<63, "number")
	m.Previous = d.hash("previous head")
	n := d.array(0, maxManifestGroups, "claims")
	total := 0
	for i := 0; i < n && d.err == nil; i++ {
		d.array(2, 2, "claims and binders")
		g := ManifestGroup{Claims: clone(d.bytes(MaxClaims, "claims")), Binders: clone(d.bytes(32*MaxManifest, "binders"))}
		if total += len(g.Binders) / 32; d.err == nil && (len(g.Binders) == 0 || len(g.Binders)%32 != 0 || total > MaxManifest) {
			d.fail("binders: %d bytes and %d in all, expected a positive multiple of 32 and at most %d", len(g.Binders), total, MaxManifest)
		}
		m.Groups = append(m.Groups, g)
	}
	m.Type = d.text(MaxName, "report type")
	m.Body = clone(d.bytes(MaxReportBody, "report"))
	m.Needs = d.hashes(nil, MaxNeeds, "needed endorsement")
	return m
}

// Broadcast sends a manifest, and the endorsements that it needs, to every
// gate that asked for manifests. It returns how many.
func (s *Server) Broadcast(m *Manifest) (int, error) {
	if n := m.Sessions(); n > MaxManifest || len(m.Body) > MaxReportBody || len(m.Needs) > MaxNeeds || len(m.Groups) > maxManifestGroups {
		return 0, fmt.Errorf("channel: manifest of %d sessions in %d groups with a report of %d bytes, expected at most %d, %d and %d", n, len(m.Groups), len(m.Body), MaxManifest, maxManifestGroups, MaxReportBody)
	}
	s.mu.Lock()
	var to []*Conn
	for c := range s.conns {
		to = append(to, c)
	}
	s.mu.Unlock()
	sent := 0
	for _, c := range to {
		if !c.batched.Load() {
			continue
		}
		err := c.q.send(func(b []byte) []byte {
			for _, h := range m.Needs {
				if c.sent[h] {
					continue
				}
				if e := s.endorsement(h); e != nil {
					b = frame(b, e.append)
					c.sent[h] = true
				}
			}
			return frame(b, m.Append)
		})
		if err == nil {
			sent++
		}
	}
	return sent, nil
}
