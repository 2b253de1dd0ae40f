// SPDX-License-Identifier: Apache-2.0

package verify

import (
	"crypto/subtle"
	"time"

	"holdfast/attest/evidence"
)

// simulatedKey is an endorsed report key of a simulated environment.
type simulatedKey struct {
	environment string
	key         *rawKey
	pq          bool // root and report key
}

func (v *Verifier) simulated(r evidence.Report, endorsement Lookup, data evidence.ReportData) (*Result, error) {
	s, err := evidence.ParseSimulated(r.Body)
	if err != nil {
		return nil, &Error{FaultMalformed, err}
	}
	if len(r.Needs) != 1 {
		return nil, fault(FaultMalformed, "simulated evidence needs exactly one endorsement, its key; got %d", len(r.Needs))
	}
	if subtle.ConstantTimeCompare(s.Data[:], data[:]) != 1 {
		return nil, fault(FaultReportData, "expected a report over %x, got one over %x", data, s.Data)
	}
	k, err := v.simulatedKey(r.Needs[0], endorsement)
	if err != nil {
		return nil, err
	}
	if s.Algorithm != k.key.alg || !k.key.verify(s.SignedBytes(), s.Signature) {
		return nil, fault(FaultSignature, "expected a %s signature by the key of %s", k.key.alg, k.environment)
	}
	return &Result{
		Type: r.Type, Simulated: true, Class: ClassMachine, Environment: k.environment,
		Signature: k.key.alg, PQ: k.pq, Made: time.UnixMilli(int64(s.Made)),
	}, nil
}

// simulatedKey finds the report key of that endorsement, which a trusted root
// must have signed.
func (v *Verifier) simulatedKey(hash [32]byte, endorsement Lookup) (*simulatedKey, error) {
	if c, ok := v.lookup(hash); ok {
		if k, ok := c.(*simulatedKey); ok {
			return k, nil
		}
	}
	e, err := take(hash, endorsement)
	if err != nil {
		return nil, err
	}
	if e.Type != evidence.TypeSimulatedKey {
		return nil, fault(FaultEndorsement, "expected %s, got %s", evidence.TypeSimulatedKey, e.Type)
	}
	sk, err := evidence.ParseSimulatedKey(e.Body)
	if err != nil {
		return nil, &Error{FaultEndorsement, err}
	}
	for _, root := range v.simulatedRoots {
		if root.key.alg == sk.RootAlgorithm && root.key.verify(sk.SignedBytes(), sk.Signature) {
			key, err := parseRawKey(sk.Algorithm, sk.Public)
			if err != nil {
				return nil, &Error{FaultEndorsement, err}
			}
			k := &simulatedKey{evidence.SimulatedMark + "/" + root.name + "/" + sk.Name, key, key.pq != nil && root.key.pq != nil}
			v.keep(hash, k)
			return k, nil
		}
	}
	return nil, fault(FaultUnknownRoot, "the simulated key of %q is signed by none of the %d simulated roots in the trust file", sk.Name, len(v.simulatedRoots))
}
