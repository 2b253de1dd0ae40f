// SPDX-License-Identifier: Apache-2.0

package baseline

import (
	"crypto/sha256"
	"crypto/tls"
	"encoding/binary"
	"errors"
	"fmt"
	"io"

	"holdfast/attest/evidence"
	"holdfast/attest/policy"
	"holdfast/attest/verify"
	"holdfast/latch/binder"
)

// proof is evidence on the wire: a report over the root of a tree, and the
// path to it from a leaf that the receiver computes itself. The chain is not in
// it: it is named by its hash (Report.Needs). In a tree of one leaf the path is
// empty.
//
//	u32 length of the rest ‖ u32 tree size ‖ u32 index ‖ u8 n ‖ n × 32 path ‖ u8 n ‖ n × 32 needs ‖ report body
//
// Numbers are big-endian; the report's type is the SIMULATED processor's.
type proof struct {
	size, index uint32
	path        [][32]byte
	report      evidence.Report
}

// maxProof bounds a proof in bytes.
const maxProof = 16 << 10

func (p *proof) encode() []byte {
	b := binary.BigEndian.AppendUint32(make([]byte, 4, 512), p.size)
	b = binary.BigEndian.AppendUint32(b, p.index)
	for _, list := range [][][32]byte{p.path, p.report.Needs} {
		b = append(b, byte(len(list)))
		for _, h := range list {
			b = append(b, h[:]...)
		}
	}
	b = append(b, p.report.Body...)
	binary.BigEndian.PutUint32(b, uint32(len(b)-4))
	return b
}

var errProof = errors.New("evidence: malformed")

// parseProof reads what follows the length.
func parseProof(b []byte) (*proof, error) {
	if len(b) < 8 || len(b) > maxProof {
		return nil, fmt.Errorf("%w: %d bytes, expected 8 to %d", errProof, len(b), maxProof)
	}
	p := &proof{size: binary.BigEndian.Uint32(b), index: binary.BigEndian.Uint32(b[4:]), report: evidence.Report{Type: evidence.TypeSimulated}}
	b = b[8:]
	for _, list := range []*[][32]byte{&p.path, &p.report.Needs} {
		if len(b) < 1 || len(b) < 1+32*int(b[0]) {
			return nil, fmt.Errorf("%w: it ends in a list of digests", errProof)
		}
		n := int(b[0])
		for i := range n {
			*list = append(*list, [32]byte(b[1+32*i:]))
		}
		b = b[1+32*n:]
	}
	p.report.Body = b
	return p, nil
}

// readProof reads a proof from a stream.
func readProof(r io.Reader) (*proof, error) {
	var head [4]byte
	if _, err := io.ReadFull(r, head[:]); err != nil {
		return nil, fmt.Errorf("evidence: %w", err)
	}
	n := binary.BigEndian.Uint32(head[:])
	if n > maxProof {
		return nil, fmt.Errorf("%w: %d bytes, expected at most %d", errProof, n, maxProof)
	}
	b := make([]byte, n)
	if _, err := io.ReadFull(r, b); err != nil {
		return nil, fmt.Errorf("evidence: %w", err)
	}
	return parseProof(b)
}

// leafOf is the leaf that stands for a channel, or for a key: what says which
// design and role it is, and a digest of what binds it.
func leafOf(what string, parts ...[]byte) [32]byte {
	h := sha256.New()
	for _, p := range parts {
		h.Write(binary.BigEndian.AppendUint32(nil, uint32(len(p))))
		h.Write(p)
	}
	return binder.Leaf([32]byte(h.Sum(nil)), sha256.Sum256([]byte("bench/"+what)))
}

// judgement names a verification: sessions of one group have the same.
type judgement struct{ root, report [32]byte }

// maxJudged bounds what is remembered: reports of the last moments.
const maxJudged = 64

// check accepts a proof for a leaf if the report is genuine and the policy
// accepts the machine that made it. A report that many sessions share is
// verified once, as the latch's gate does.
func (k *Kit) check(from string, p *proof, leaf [32]byte) error {
	root, err := binder.RootFromPath(leaf, uint64(p.index), uint64(p.size), p.path)
	if err != nil {
		return fmt.Errorf("evidence: %w", err)
	}
	if p.size == 1 {
		return k.appraise(from, p, root)
	}
	j := judgement{root, sha256.Sum256(p.report.Body)}
	k.mu.Lock()
	err, known := k.judged[j]
	k.mu.Unlock()
	if known {
		return err
	}
	err = k.appraise(from, p, root)
	k.mu.Lock()
	defer k.mu.Unlock()
	if len(k.judged) >= maxJudged {
		clear(k.judged)
	}
	k.judged[j] = err
	return err
}

func (k *Kit) appraise(from string, p *proof, root [32]byte) error {
	now := k.now()
	r, err := k.verifier.Verify(p.report, k.endorsement, evidence.ReportData(binder.ReportData(root)), now)
	if err != nil {
		return err
	}
	s := policy.Session{ServerName: ServiceName, Group: uint16(tls.X25519), Grade: policy.GradeHello, CipherSuite: tls.TLS_AES_128_GCM_SHA256,
		Claims: policy.Claims{Unit: from, Class: verify.ClassMachine}}
	var errs []error
	for _, f := range k.accept[from].Evaluate(r, s, now) {
		errs = append(errs, errors.New(f.String()))
	}
	if len(errs) > 0 {
		return fmt.Errorf("policy: %w", errors.Join(errs...))
	}
	return nil
}
