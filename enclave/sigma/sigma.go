// SPDX-License-Identifier: Apache-2.0

package sigma

import (
	"crypto/ecdh"
	"crypto/hkdf"
	"crypto/hmac"
	"crypto/mlkem"
	"crypto/rand"
	"crypto/sha256"
	"errors"
	"fmt"
)

// Errors of the exchange itself.
var (
	ErrMAC  = errors.New("sigma: the MAC does not fit: the other side has other keys, or a message was changed")
	ErrPeer = errors.New("sigma: the verifier did not show who it is")
	ErrUsed = errors.New("sigma: the exchange is over; begin a new one")
)

// Labels keep what is hashed for one purpose from serving another.
const (
	labelBind     = "holdfast/enclave/sigma/v1/bind\x00"
	labelKeys     = "holdfast/enclave/sigma/v1/"
	labelVerifier = "holdfast/enclave/sigma/v1/verifier\x00"
)

// Keys are what both sides have after the exchange: 32 bytes for each
// direction.
type Keys struct {
	ToAttester, ToVerifier [32]byte
}

// Erase forgets them.
func (k *Keys) Erase() { *k = Keys{} }

// ReportData is what the evidence in M2 is over: SHA-256(label ‖ M1 ‖ share),
// filled with zeros.
func reportData(m1, share []byte) (d [64]byte) {
	h := sha256.New()
	h.Write([]byte(labelBind))
	h.Write(m1)
	h.Write(share)
	copy(d[:], h.Sum(nil))
	return d
}

// schedule are the keys of one exchange.
type schedule struct {
	macA, macV [32]byte
	keys       Keys
}

// derive makes all keys from the two shared secrets and what was said before
// the evidence: HKDF(SHA-256), secret ML-KEM ‖ X25519, salt SHA-256(M1 ‖ share).
func derive(kem, dh, m1, share []byte) (*schedule, error) {
	secret := append(append(make([]byte, 0, len(kem)+len(dh)), kem...), dh...)
	defer clear(secret)
	t := reportData(m1, share)
	prk, err := hkdf.Extract(sha256.New, secret, t[:32])
	if err != nil {
		return nil, err
	}
	defer clear(prk)
	s := &schedule{}
	for _, x := range []struct {
		to   *[32]byte
		name string
	}{{&s.macA, "mac attester"}, {&s.macV, "mac verifier"}, {&s.keys.ToAttester, "to attester"}, {&s.keys.ToVerifier, "to verifier"}} {
		k, err := hkdf.Expand(sha256.New, prk, labelKeys+x.name, 32)
		if err != nil {
			return nil, err
		}
		copy(x.to[:], k)
		clear(k)
	}
	return s, nil
}

func (s *schedule) erase() { *s = schedule{} }

func mac(key *[32]byte, parts ...[]byte) (out [macSize]byte) {
	m := hmac.New(sha256.New, key[:])
	for _, p := range parts {
		m.Write(p)
	}
	m.Sum(out[:0])
	return out
}

// signed is what a verifier signs in M3: a hash over M1 and M2.
func signed(m1, m2 []byte) [32]byte {
	h := sha256.New()
	h.Write([]byte(labelVerifier))
	h.Write(m1)
	h.Write(m2)
	return [32]byte(h.Sum(nil))
}

// Verifier is the side that wants to know whom it talks to.
type Verifier struct {
	first []byte
	kem   *mlkem.DecapsulationKey768
	dh    *ecdh.PrivateKey
}

// NewVerifier begins an exchange and returns M1.
func NewVerifier() (*Verifier, []byte, error) {
	v := &Verifier{}
	var m m1
	var err error
	if _, err = rand.Read(m.nonce[:]); err != nil {
		return nil, nil, err
	}
	if v.kem, err = mlkem.GenerateKey768(); err != nil {
		return nil, nil, err
	}
	if v.dh, err = ecdh.X25519().GenerateKey(rand.Reader); err != nil {
		return nil, nil, err
	}
	n := copy(m.share[:], v.kem.EncapsulationKey().Bytes())
	copy(m.share[n:], v.dh.PublicKey().Bytes())
	v.first = m.encode()
	return v, v.first, nil
}

// Finish takes M2. accept says whether the evidence is genuine for the report
// data and acceptable; it is called before anything else is believed. sign, if
// not nil, signs a hash for the attester to know this verifier by. M3 and the
// keys come back; a Verifier finishes once.
func (v *Verifier) Finish(second []byte, accept func(evidence []byte, reportData [64]byte) error, sign func(hash [32]byte) ([]byte, error)) (third []byte, k *Keys, err error) {
	if v.kem == nil {
		return nil, nil, ErrUsed
	}
	kem, dh := v.kem, v.dh
	v.kem, v.dh = nil, nil
	m, err := parse2(second)
	if err != nil {
		return nil, nil, err
	}
	ct, x := m.share[:mlkem.CiphertextSize768], m.share[mlkem.CiphertextSize768:]
	kemSecret, err := kem.Decapsulate(ct)
	if err != nil {
		return nil, nil, fmt.Errorf("%w: %v", ErrMalformed, err)
	}
	defer clear(kemSecret)
	dhSecret, err := agree(dh, x)
	if err != nil {
		return nil, nil, err
	}
	defer clear(dhSecret)
	s, err := derive(kemSecret, dhSecret, v.first, m.share[:])
	if err != nil {
		return nil, nil, err
	}
	defer s.erase()
	want := mac(&s.macA, v.first, m.covered())
	if !hmac.Equal(want[:], m.mac[:]) {
		return nil, nil, ErrMAC
	}
	if err := accept(m.evidence, reportData(v.first, m.share[:])); err != nil {
		return nil, nil, fmt.Errorf("sigma: the attester's evidence: %w", err)
	}
	var out m3
	if sign != nil {
		if out.sig, err = sign(signed(v.first, second)); err != nil {
			return nil, nil, err
		}
		if len(out.sig) == 0 || len(out.sig) > maxSig {
			return nil, nil, fmt.Errorf("sigma: a signature of %d bytes, expected 1 to %d", len(out.sig), maxSig)
		}
	}
	out.mac = mac(&s.macV, v.first, second, out.covered())
	keys := s.keys
	return out.encode(), &keys, nil
}

// agree is X25519; a share of low order is an error of crypto/ecdh.
func agree(k *ecdh.PrivateKey, peer []byte) ([]byte, error) {
	p, err := ecdh.X25519().NewPublicKey(peer)
	if err != nil {
		return nil, fmt.Errorf("%w: %v", ErrMalformed, err)
	}
	z, err := k.ECDH(p)
	if err != nil {
		return nil, fmt.Errorf("%w: %v", ErrMalformed, err)
	}
	return z, nil
}

// Attester is the side that shows what it is.
type Attester struct {
	first, second []byte
	s             *schedule
}

// Respond answers M1 with M2. quote makes evidence over the report data.
func Respond(first []byte, quote func(reportData [64]byte) ([]byte, error)) (*Attester, []byte, error) {
	m, err := parse1(first)
	if err != nil {
		return nil, nil, err
	}
	ek, err := mlkem.NewEncapsulationKey768(m.share[:mlkem.EncapsulationKeySize768])
	if err != nil {
		return nil, nil, fmt.Errorf("%w: %v", ErrMalformed, err)
	}
	dh, err := ecdh.X25519().GenerateKey(rand.Reader)
	if err != nil {
		return nil, nil, err
	}
	dhSecret, err := agree(dh, m.share[mlkem.EncapsulationKeySize768:])
	if err != nil {
		return nil, nil, err
	}
	defer clear(dhSecret)
	kemSecret, ct := ek.Encapsulate()
	defer clear(kemSecret)
	var out m2
	n := copy(out.share[:], ct)
	copy(out.share[n:], dh.PublicKey().Bytes())
	if out.evidence, err = quote(reportData(first, out.share[:])); err != nil {
		return nil, nil, err
	}
	if len(out.evidence) == 0 || len(out.evidence) > maxBlob {
		return nil, nil, fmt.Errorf("sigma: evidence of %d bytes, expected 1 to %d", len(out.evidence), maxBlob)
	}
	a := &Attester{first: append([]byte(nil), first...)}
	if a.s, err = derive(kemSecret, dhSecret, first, out.share[:]); err != nil {
		return nil, nil, err
	}
	out.mac = mac(&a.s.macA, first, out.covered())
	a.second = out.encode()
	return a, a.second, nil
}

// Finish takes M3. peer, if not nil, says whether the signature over the hash is
// that of a verifier that may talk to the attester; without it any verifier may.
// The keys come back; an Attester finishes once.
func (a *Attester) Finish(third []byte, peer func(hash [32]byte, sig []byte) error) (*Keys, error) {
	if a.s == nil {
		return nil, ErrUsed
	}
	s := a.s
	a.s = nil
	defer s.erase()
	m, err := parse3(third)
	if err != nil {
		return nil, err
	}
	want := mac(&s.macV, a.first, a.second, m.covered())
	if !hmac.Equal(want[:], m.mac[:]) {
		return nil, ErrMAC
	}
	if peer != nil {
		if len(m.sig) == 0 {
			return nil, ErrPeer
		}
		if err := peer(signed(a.first, a.second), m.sig); err != nil {
			return nil, fmt.Errorf("%w: %w", ErrPeer, err)
		}
	}
	keys := s.keys
	return &keys, nil
}
