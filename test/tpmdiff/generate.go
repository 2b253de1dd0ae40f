// SPDX-License-Identifier: Apache-2.0

//go:build linux

package tpmdiff

import (
	"math/rand"

	"holdfast/tpm2"
)

// gen makes the steps of one sequence. What it knows of the TPMs (the model)
// comes from the responses, in which both agreed up to now; it may be wrong
// where a mutation made an object other than it looks: that costs validity only.
type gen struct {
	*rand.Rand
	next     int
	objects  []object
	blobs    []blob
	sessions []openSession
	nv       []index
	contexts []int
	seqs     []sequence
	tickets  []ticket
	signed   []signature
	copies   []copied
	creds    []credential
	auths    map[tpm2.Handle]string // of hierarchies, PCRs
	policies []int                  // steps with a policyDigest
	created  []int                  // steps with creation data
}

type object struct {
	h      handle
	kind   kind
	auth   string
	made   int // step with field "public"; 0 if it came from outside
	public bool

	nameAlg, oaep tpm2.Alg // of keys from outside: nameAlg, hash of an OAEP scheme
}

// blob is what Create, Import or ObjectChangeAuth return.
type blob struct {
	kind            kind
	public, private piece
	auth            string
	parent          handle
}

type openSession struct {
	step  int
	type_ tpm2.SE
	hash  tpm2.Alg
	sym   bool
}

type index struct {
	h      tpm2.Handle
	attrs  tpm2.NVAttributes
	size   uint16
	auth   string
	policy bool
}

type sequence struct {
	h     handle
	auth  string
	event bool
}

type ticket struct {
	piece  piece
	of     tpm2.CC
	digest param
}

type signature struct {
	key    object
	digest []byte
	piece  piece
}

// copied is the outcome of Duplicate.
type copied struct {
	step int
	blob blob
}

type credential struct {
	step int
	key  object
}

func newGen(seed int64) *gen {
	return &gen{Rand: rand.New(rand.NewSource(seed)), auths: map[tpm2.Handle]string{}}
}

// one is true once in n.
func (g *gen) one(n int) bool { return g.Intn(n) == 0 }

func pick[T any](g *gen, l []T) T { return l[g.Intn(len(l))] }

// some returns b, but once in n bytes of another length, at most max or beyond it.
func (g *gen) some(n int, b []byte, max int) []byte {
	if !g.one(n) {
		return b
	}
	x := make([]byte, pick(g, []int{0, 1, 2, max / 2, max - 1, max, max + 1, g.Intn(max + 1)}))
	g.Read(x)
	return x
}

// data returns bytes of a usual length.
func (g *gen) data(max int) []byte {
	x := make([]byte, pick(g, []int{0, 1, 5, 16, 20, 32, 48, 64, max, g.Intn(max + 1)}))
	g.Read(x)
	if len(x) > max && !g.one(4) {
		x = x[:max]
	}
	return x
}

var hashes = []tpm2.Alg{tpm2.AlgSHA256, tpm2.AlgSHA256, tpm2.AlgSHA256, tpm2.AlgSHA1, tpm2.AlgSHA384, tpm2.AlgSHA512, tpm2.AlgNull, 0x0007, tpm2.AlgRSA, 0}

func (g *gen) hash() tpm2.Alg { return pick(g, hashes) }

func (g *gen) goodHash() tpm2.Alg { return pick(g, hashes[:6]) }

func (g *gen) alg() tpm2.Alg {
	return pick(g, []tpm2.Alg{tpm2.AlgRSA, tpm2.AlgSHA1, tpm2.AlgHMAC, tpm2.AlgAES, tpm2.AlgKeyedHash, tpm2.AlgXOR, tpm2.AlgSHA256, tpm2.AlgNull,
		tpm2.AlgRSASSA, tpm2.AlgRSAES, tpm2.AlgRSAPSS, tpm2.AlgOAEP, tpm2.AlgECDSA, tpm2.AlgECDH, tpm2.AlgECDAA, tpm2.AlgECSchnorr,
		tpm2.AlgKDF1SP800_56A, tpm2.AlgKDF1SP800_108, tpm2.AlgECC, tpm2.AlgSymCipher, tpm2.AlgCFB, 0, 0xFFFF})
}

func (g *gen) newAuth() string { return pick(g, []string{"", "", "", "pw", "secret", "pw\x00"}) }

// policy is an authPolicy: mostly empty, or of a policy that a session can satisfy.
func (g *gen) policy() []byte {
	switch g.Intn(10) {
	case 0:
		d := make([]byte, 32)
		g.Read(d)
		return d
	case 1, 2:
		return emptyPolicies[g.Intn(len(emptyPolicies))]
	case 3:
		return g.some(4, nil, 32)
	}
	return nil
}

// emptyPolicies are digests of policies that a few commands satisfy.
var emptyPolicies = func() [][]byte {
	p := func(f func(d *tpm2.PolicyDigest)) []byte {
		d := tpm2.NewPolicyDigest(tpm2.AlgSHA256)
		f(d)
		return d.Sum()
	}
	return [][]byte{
		p(func(d *tpm2.PolicyDigest) { d.AuthValue() }),
		p(func(d *tpm2.PolicyDigest) { d.CommandCode(tpm2.CCNVChangeAuth) }),
		p(func(d *tpm2.PolicyDigest) { d.CommandCode(tpm2.CCNVUndefineSpaceSpecial) }),
		p(func(d *tpm2.PolicyDigest) { d.CommandCode(tpm2.CCDuplicate) }),
		p(func(d *tpm2.PolicyDigest) { d.CommandCode(tpm2.CCObjectChangeAuth) }),
		p(func(d *tpm2.PolicyDigest) { d.Secret(tpm2.HandleName(tpm2.RHEndorsement), nil) }),
		p(func(d *tpm2.PolicyDigest) { d.Locality(1) }),
		make([]byte, 32),
	}
}()

func fixed(h tpm2.Handle) handle { return handle{value: h} }
func from(step int) handle       { return handle{step: step} }

// lit is a parameter of given bytes.
func lit(f func(w *tpm2.Writer)) param {
	w := tpm2.NewWriter(nil)
	f(w)
	return param{{bytes: w.Bytes()}}
}

// sized is a TPM2B parameter.
func sized(b []byte) param { return lit(func(w *tpm2.Writer) { w.Sized(b) }) }

func field1(step int, name string) param { return param{{step: step, field: name}} }

var oddHandles = []tpm2.Handle{0, 7, 16, 23, 24, 0x01000000, 0x01FFFFFF, 0x01500001, 0x02000000, 0x02000001, 0x03000000, 0x03FFFFFF, 0x40000000, 0x40000001,
	0x40000006, 0x40000007, 0x40000008, 0x40000009, 0x4000000A, 0x4000000B, 0x4000000C, 0x4000000D, 0x40000010, 0x40000110, 0x80000000, 0x80000002,
	0x80000003, 0x80FFFFFF, 0x81000000, 0x81000001, 0x81800000, 0x81FFFFFF, 0x90000000, 0xFFFFFFFF}

func (g *gen) hierarchy() handle {
	return fixed(pick(g, []tpm2.Handle{tpm2.RHOwner, tpm2.RHOwner, tpm2.RHEndorsement, tpm2.RHPlatform, tpm2.RHNull}))
}

func (g *gen) provision() handle {
	return fixed(pick(g, []tpm2.Handle{tpm2.RHOwner, tpm2.RHOwner, tpm2.RHPlatform}))
}

func (g *gen) pcr() handle {
	return fixed(tpm2.Handle(pick(g, []int{16, 16, 23, 0, 1, 7, 10, 17, 20, 21, 22, 23})))
}

// obj returns a live object, of a kind that ok likes if there is one.
func (g *gen) obj(ok func(o object) bool) object {
	var good []object
	for _, o := range g.objects {
		if ok(o) {
			good = append(good, o)
		}
	}
	if len(good) > 0 && !g.one(25) {
		return pick(g, good)
	}
	if len(g.objects) > 0 && !g.one(5) {
		return pick(g, g.objects)
	}
	return object{h: fixed(0x80000000)}
}

func (g *gen) anyObj() object { return g.obj(func(object) bool { return true }) }
func (g *gen) parent() object {
	return g.obj(func(o object) bool { return o.kind.isParent() && !o.public })
}
func (g *gen) signer() object {
	return g.obj(func(o object) bool { return o.kind.signs() && !o.public })
}

// signerOrNull is for TPMI_DH_OBJECT+ of attestation.
func (g *gen) signerOrNull() object {
	if g.one(3) {
		return object{h: fixed(tpm2.RHNull), kind: sealed}
	}
	return g.signer()
}

func (g *gen) session(policy bool) (openSession, bool) {
	var l []openSession
	for _, s := range g.sessions {
		if (s.type_ != tpm2.SEHMAC) == policy {
			l = append(l, s)
		}
	}
	if len(l) == 0 {
		return openSession{}, false
	}
	return pick(g, l), true
}

func (g *gen) policySession() handle {
	if s, ok := g.session(true); ok && !g.one(30) {
		return from(s.step)
	}
	return fixed(0x03000000)
}

func (g *gen) index() index {
	if len(g.nv) == 0 || g.one(40) {
		return index{h: pick(g, nvHandles)}
	}
	return pick(g, g.nv)
}

var nvHandles = []tpm2.Handle{0x01500001, 0x01500002, 0x01500003, 0x01C00010}

// authFor makes the authorization of a handle.
func (g *gen) authFor(value string) auth {
	a := auth{attrs: tpm2.SessionContinue, value: value}
	if g.one(40) {
		a.value = "wrong"
	}
	hmacOrPolicy := g.Intn(10)
	if s, ok := g.session(hmacOrPolicy >= 7); ok && hmacOrPolicy >= 4 {
		a.session = s.step
		if g.one(4) {
			a.attrs = 0
		}
		if g.one(5) {
			a.attrs |= pick(g, []tpm2.SessionAttributes{tpm2.SessionDecrypt, tpm2.SessionEncrypt, tpm2.SessionAudit, tpm2.SessionDecrypt | tpm2.SessionEncrypt,
				tpm2.SessionAudit | tpm2.SessionAuditExclusive, tpm2.SessionAudit | tpm2.SessionAuditReset})
		}
		a.bad = g.one(60)
	}
	if g.one(60) {
		a.attrs ^= 1 << g.Intn(8)
	}
	return a
}

// mutate changes one thing of a step, now and then.
func (g *gen) mutate(s *step) {
	if s.cc == powerCycle {
		return
	}
	if g.one(12) { // one more session
		if x, ok := g.session(g.one(4)); ok {
			s.auth = append(s.auth, auth{session: x.step, attrs: pick(g, []tpm2.SessionAttributes{0x21, 0x41, 0x61, 0x81, 0x01, 0x83, 0x85, 0x20, 0x40})})
		} else if g.one(4) {
			s.auth = append(s.auth, auth{attrs: 1})
		}
	}
	if !g.one(5) {
		return
	}
	switch g.Intn(12) {
	case 0, 1:
		if len(s.handles) > 0 {
			i := g.Intn(len(s.handles))
			s.handles[i] = fixed(pick(g, oddHandles))
			if g.one(2) && len(g.objects) > 0 {
				s.handles[i] = pick(g, g.objects).h
			}
		}
	case 2:
		if len(s.auth) > 0 {
			s.auth = s.auth[:len(s.auth)-1]
		}
	case 3:
		s.twists = append(s.twists, twist{kind: twistCut, at: 1 + g.Intn(4)})
	case 4:
		s.twists = append(s.twists, twist{kind: twistGrow, at: 1 + g.Intn(4)})
	case 5, 6, 7, 8:
		if s.cc != tpm2.CCContextLoad {
			at := g.Intn(1 << 16)
			if g.one(2) {
				at = g.Intn(12)
			}
			s.twists = append(s.twists, twist{kind: twistByte, at: at, by: byte(1) << g.Intn(8)})
		}
	case 9:
		s.twists = append(s.twists, twist{kind: pick(g, []twistKind{twistSize, twistTag, twistAuthSize}), at: g.Intn(2), by: byte(1) << g.Intn(8)})
	case 10:
		s.twists = append(s.twists, twist{kind: twistAuthByte, at: g.Intn(16), by: byte(1) << g.Intn(8)})
	case 11:
		if len(s.params) > 0 {
			i := g.Intn(len(s.params))
			s.params[i] = sized(g.data(64))
		}
	}
}

// step makes the next step.
func (g *gen) step() *step {
	g.next++
	s := &step{id: g.next}
	for {
		n := g.Intn(totalWeight)
		for _, m := range makers {
			if n -= m.weight; n < 0 {
				if m.cc == tpm2.CCStartAuthSession && len(g.sessions) >= 3 && !g.one(10) {
					break
				}
				s.cc = m.cc
				m.make(g, s)
				g.mutate(s)
				return s
			}
		}
	}
}
