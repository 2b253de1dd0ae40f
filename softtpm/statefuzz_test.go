// SPDX-License-Identifier: Apache-2.0

package softtpm

import (
	"bytes"
	"encoding/binary"
	"slices"
	"testing"
	"time"

	"holdfast/softtpm/internal/tpmcrypto"
	"holdfast/tpm2"
)

// FuzzStateful plays a program on one living TPM. Each byte of the input
// chooses: an operation, handles among those that live, passwords, values
// among those that the TPM returned before, and now and then a flipped bit
// in the command. So most commands are well formed and reach deep, which
// flipping bits in a recording does not. After each command [player.check]
// asks what must hold whatever happened.
func FuzzStateful(f *testing.F) {
	for i := range 40 {
		f.Add(seedProgram(uint64(i)))
	}
	f.Fuzz(func(t *testing.T, program []byte) { play(t, program) })
}

// seedProgram is a program of random choices.
func seedProgram(n uint64) []byte {
	d := tpmcrypto.NewDRBG(tpmcrypto.SHA256, binary.BigEndian.AppendUint64(nil, n))
	b := make([]byte, 1200)
	_, _ = d.Read(b)
	return b
}

// TestStatefulPrograms: the seeds reach deep, that is most operations succeed
// at least once.
func TestStatefulPrograms(t *testing.T) {
	good := map[tpm2.CC]int{}
	for i := range 150 {
		for cc, n := range play(t, seedProgram(uint64(i))) {
			good[cc] += n
		}
	}
	if len(good) < 75 {
		var missing []tpm2.CC
		for cc := range commands.byCode {
			if good[cc] == 0 {
				missing = append(missing, cc)
			}
		}
		t.Fatalf("only %d commands ever succeeded; not %v", len(good), missing)
	}
	t.Logf("%d commands succeeded", len(good))
}

const (
	maxOps    = 200
	fuzzSlots = 5 // objects and sessions: few, so that they run out
)

// player is a TPM under a program.
type player struct {
	t     *testing.T
	p     *TPM
	store *memoryStore
	now   time.Time
	in    []byte
	good  map[tpm2.CC]int

	passwords [][]byte
	blobs     []blob          // from Create, Duplicate, Import
	contexts  [][]byte        // from ContextSave
	tickets   [][]byte        // whole TPMT_TK_*
	sigs      [][]byte        // whole TPMT_SIGNATURE
	values    [][]byte        // ciphertexts, digests, names, templates
	rot       [3][]byte       // the last three messages
	auths     map[uint32]byte // number of the password of each entity
	before    []byte
}

type blob struct {
	private, public []byte // without size fields
	auth            byte
}

func play(t *testing.T, program []byte) map[tpm2.CC]int {
	g := &player{t: t, in: program, now: time.Unix(1000, 0), store: &memoryStore{}, good: map[tpm2.CC]int{}, auths: map[uint32]byte{}}
	g.passwords = [][]byte{nil, []byte("a"), []byte("longer password")}
	p, err := newWith(g.store, Options{Now: func() time.Time { return g.now }, Objects: fuzzSlots, Sessions: fuzzSlots, PersistentObjects: 7, NVIndices: 16, NVBytes: 2048},
		tpmcrypto.NewDRBG(tpmcrypto.SHA256, []byte("stateful")))
	if err != nil {
		t.Fatal(err)
	}
	g.p = p
	g.raw(tpm2.CCStartup, nil, nil, func(w *tpm2.Writer) { w.U16(0) })
	for n := 0; len(g.in) > 0 && n < maxOps; n++ {
		op := operations[int(g.byte())%len(operations)]
		op(g)
	}
	g.roundTrip()
	return g.good
}

func (g *player) byte() byte {
	if len(g.in) == 0 {
		return 0
	}
	b := g.in[0]
	g.in = g.in[1:]
	return b
}

func (g *player) n(max int) int { return int(g.byte()) % max }
func (g *player) bool() bool    { return g.byte()&1 != 0 }

func pick[T any](g *player, l ...T) T { return l[g.n(len(l))] }

// from returns one of the last values, or empty bytes.
func (g *player) from(l [][]byte) []byte {
	if len(l) == 0 {
		return nil
	}
	return l[g.n(len(l))]
}

func keep(l *[][]byte, b []byte) {
	if len(*l) == 8 {
		*l = (*l)[1:]
	}
	*l = append(*l, bytes.Clone(b))
}

// data is some bytes of the program.
func (g *player) data() []byte {
	n := g.n(40)
	if n > 36 {
		n = []int{64, 255, 1024}[n-37]
	}
	b := make([]byte, n)
	for i := range b {
		b[i] = byte(i)
	}
	if n > 0 {
		b[0] = g.byte()
	}
	return b
}

// object returns a living transient or persistent handle, or one that does not live.
func (g *player) object() tpm2.Handle { return g.objectWhere(func(*object) bool { return true }) }

// Kinds of objects for objectWhere.
func parent(o *object) bool { return o.seq == nil && o.pub.Attributes.Has(attrsParent&^attrsFixed) }
func signer(o *object) bool { return o.seq == nil && o.pub.Attributes.Has(tpm2.ObjectSignEncrypt) }
func decrypts(o *object) bool {
	return o.seq == nil && o.pub.Attributes.Has(tpm2.ObjectDecrypt) && !o.pub.Attributes.Has(tpm2.ObjectRestricted)
}
func running(o *object) bool { return o.seq != nil || o.rot != nil }
func ofType(a tpm2.Alg) func(o *object) bool {
	return func(o *object) bool { return o.seq == nil && o.pub.Type == a }
}

// objectWhere returns an object of a kind if there is one, and mostly so.
func (g *player) objectWhere(kind func(*object) bool) tpm2.Handle {
	if g.byte() > 230 {
		kind = func(*object) bool { return true }
	}
	var l []tpm2.Handle
	for i, o := range g.p.state.volatile.objects {
		if o != nil && kind(o) {
			l = append(l, 0x80000000+tpm2.Handle(i))
		}
	}
	for _, o := range g.p.state.perm.persistent {
		if kind(o) {
			l = append(l, o.handle)
		}
	}
	if len(l) == 0 {
		return 0x80000000 | tpm2.Handle(g.n(3))
	}
	return l[g.n(len(l))]
}

func (g *player) session() tpm2.Handle { return g.sessionWhere(func(*session) bool { return true }) }

// sessionWhere returns a loaded session of a kind if there is one.
func (g *player) sessionWhere(kind func(*session) bool) tpm2.Handle {
	var l []tpm2.Handle
	for _, s := range g.p.state.volatile.sessions {
		if s != nil && kind(s) {
			l = append(l, s.handle)
		}
	}
	if len(l) == 0 {
		return 0x03000000 | tpm2.Handle(g.n(3))
	}
	return l[g.n(len(l))]
}

// index returns a defined index, mostly.
func (g *player) index() tpm2.Handle {
	if l := g.p.state.perm.nv; len(l) > 0 && g.byte() < 220 {
		return l[g.n(len(l))].pub.Index
	}
	return 0x01000000 | tpm2.Handle(g.n(9))
}

func (g *player) hierarchy() tpm2.Handle {
	return pick(g, tpm2.RHOwner, tpm2.RHEndorsement, tpm2.RHPlatform, tpm2.RHNull, tpm2.RHLockout)
}

// password returns what the entity's password should be; rarely another one.
func (g *player) password(h tpm2.Handle) []byte {
	n := g.auths[uint32(h)]
	if g.byte() > 240 {
		n++
	}
	return g.passwords[int(n)%len(g.passwords)]
}

// raw runs a command; auth has one password for each authorized handle. It
// returns what follows the header of a good response, nil after an error.
func (g *player) raw(cc tpm2.CC, handles []tpm2.Handle, auth [][]byte, params func(w *tpm2.Writer)) *tpm2.Reader {
	var w tpm2.Writer
	tag := tpm2.STNoSessions
	if auth != nil {
		tag = tpm2.STSessions
	}
	tpm2.Header{Tag: tag, Code: uint32(cc)}.Marshal(&w)
	for _, h := range handles {
		w.Handle(h)
	}
	if auth != nil {
		at := w.Len()
		w.U32(0)
		for _, a := range auth {
			s := tpm2.AuthCommand{Handle: tpm2.RSPW, Attributes: tpm2.SessionContinue, HMAC: a}
			// A policy session that stands ready may authorize instead.
			if g.byte() > 235 {
				s = tpm2.AuthCommand{Handle: g.session(), Attributes: tpm2.SessionAttributes(g.byte() & 0xE7), HMAC: a, Nonce: make([]byte, 16)}
			}
			s.Marshal(&w)
		}
		w.PutU32(at, uint32(w.Len()-at-4))
	}
	if params != nil {
		params(&w)
	}
	w.PutU32(2, uint32(w.Len()))
	cmd := w.Bytes()
	if body := cmd[tpm2.HeaderSize:]; len(body) > 0 && g.byte() > 235 { // a bit flips on the way
		body[(int(g.byte())<<8|int(g.byte()))%len(body)] ^= 1 << (g.byte() & 7)
	}
	rsp := g.send(cmd)
	if rcOf(g.t, rsp) != 0 {
		return nil
	}
	g.good[cc]++
	return tpm2.NewReader(rsp[tpm2.HeaderSize:])
}

// send runs the bytes of a command and checks what must hold after any.
func (g *player) send(cmd []byte) []byte {
	g.t.Helper()
	saved := bytes.Clone(cmd)
	if g.before == nil {
		g.p.Execute(0, []byte{0x80, 1, 0, 0, 0, 10, 0, 0, 1, 0x7C}) // GetTestResult takes note of the time that has passed
		g.before = snapshot(g.p)
	}
	rsp := g.p.Execute(pick(g, uint8(0), 0, 0, 0, 1, 2, 3, 4), cmd)
	if !bytes.Equal(saved, cmd) {
		g.t.Fatal("the caller's command was changed")
	}
	g.check(cmd, rsp)
	return rsp
}

// on is raw for a command whose first len(auths) handles need authorization
// by their own passwords; its parameters follow the parameter size.
func (g *player) on(cc tpm2.CC, auths int, params func(w *tpm2.Writer), handles ...tpm2.Handle) *tpm2.Reader {
	var auth [][]byte
	for _, h := range handles[:auths] {
		auth = append(auth, g.password(h))
	}
	r := g.raw(cc, handles, auth, params)
	if r != nil && auth != nil && !commands.byCode[cc].has(fHandle) {
		r.U32()
	}
	return r
}

// check asks what must hold after any command.
func (g *player) check(cmd, rsp []byte) {
	p := g.p
	rc := rcOf(g.t, rsp)
	if p.failed {
		g.t.Fatalf("command %x: the engine panicked", cmd)
	}
	if len(rsp) > p.opt.CommandSize {
		g.t.Fatalf("response of %d bytes", len(rsp))
	}
	after := snapshot(p)
	if rc != 0 && !bytes.Equal(g.before, after) && p.c.fail != failPIN {
		at := 0
		for at < min(len(after), len(g.before)) && after[at] == g.before[at] {
			at++
		}
		g.t.Fatalf("command %x: %v, yet the state changed: %d bytes before, %d after, at %d", cmd, rc, len(g.before), len(after), at)
	}
	g.before = after
	if len(after) > 1<<18 {
		g.t.Fatalf("state of %d bytes", len(after))
	}
	g.handles()
	g.durable(cmd, rc)
}

// handles: the lists that the TPM gives are what it holds, in order, within limits.
func (g *player) handles() {
	s := &g.p.state
	loaded := 0
	for i, o := range s.volatile.objects {
		if o == nil {
			continue
		}
		loaded++
		if s.object(0x80000000+tpm2.Handle(i)) != o {
			g.t.Fatalf("the object in slot %d is not what its handle finds", i)
		}
	}
	if loaded > fuzzSlots {
		g.t.Fatalf("%d objects loaded", loaded)
	}
	loaded = 0
	for i, x := range s.volatile.sessions {
		if x == nil {
			continue
		}
		loaded++
		if sessionSlot(x.handle) != i || s.session(x.handle) != x {
			g.t.Fatalf("session in slot %d has handle %#x", i, uint32(x.handle))
		}
		if s.volatile.savedSessions[i] {
			g.t.Fatalf("session %#x is both loaded and saved", uint32(x.handle))
		}
		if len(x.policyAssert.digest) != 0 && x.policy && len(x.policyAssert.digest) != x.hash.DigestSize() {
			g.t.Fatalf("policy digest of %d bytes", len(x.policyAssert.digest))
		}
	}
	if loaded > fuzzSlots {
		g.t.Fatalf("%d sessions loaded", loaded)
	}
	if !slices.IsSortedFunc(s.perm.nv, func(a, b *nvIndex) int { return int(int64(a.pub.Index) - int64(b.pub.Index)) }) {
		g.t.Fatal("NV indices are not in order")
	}
	bytesUsed := 0
	for i, n := range s.perm.nv {
		if i > 0 && s.perm.nv[i-1].pub.Index == n.pub.Index {
			g.t.Fatalf("index %#x is there twice", uint32(n.pub.Index))
		}
		bytesUsed += int(n.pub.DataSize)
		if len(n.data) > 0 && len(n.data) != int(n.pub.DataSize) {
			g.t.Fatalf("index %#x holds %d bytes, defined with %d", uint32(n.pub.Index), len(n.data), n.pub.DataSize)
		}
	}
	if len(s.perm.nv) > 16 || bytesUsed > 2048 || len(s.perm.persistent) > 7 {
		g.t.Fatalf("limits passed: %d indices with %d bytes, %d persistent objects", len(s.perm.nv), bytesUsed, len(s.perm.persistent))
	}
	for i, o := range s.perm.persistent {
		if i > 0 && s.perm.persistent[i-1].handle >= o.handle || o.handle.Type() != tpm2.HTPersistent {
			g.t.Fatal("persistent objects are not in order")
		}
	}
}

// durable: what was answered is in the store, but for the Clock, which may be
// behind, and failed tries that time has healed.
func (g *player) durable(cmd []byte, rc tpm2.RC) {
	var q permanent
	if err := q.decode(g.store.b); err != nil {
		g.t.Fatalf("the store does not decode: %v", err)
	}
	p := &g.p.state.perm
	if q.clock > p.clock || rc == 0 && p.clock-q.clock > clockInterval {
		g.t.Fatalf("the stored Clock is %d, the real one %d", q.clock, p.clock)
	}
	if q.failedTries < p.failedTries || p.lockoutBlocked && !q.lockoutBlocked {
		g.t.Fatal("a power cut would make failed tries forgotten")
	}
	q.clock, q.failedTries, q.lockoutBlocked = p.clock, p.failedTries, p.lockoutBlocked // time heals, and that may be lost
	var a, b tpm2.Writer
	q.encode(&a)
	p.encode(&b)
	if !bytes.Equal(a.Bytes(), b.Bytes()) {
		g.t.Fatalf("command %x: the store does not hold what was answered", cmd)
	}
}

// roundTrip moves the whole state to another TPM, as a migration does, and
// goes on there.
func (g *player) roundTrip() {
	perm, err := g.p.PermanentState()
	if err != nil {
		g.t.Fatal(err)
	}
	vol, err := g.p.VolatileState()
	if err != nil {
		g.t.Fatal(err)
	}
	store := &memoryStore{}
	r, err := newWith(store, g.p.opt, tpmcrypto.NewDRBG(tpmcrypto.SHA256, perm[:16]))
	if err != nil {
		g.t.Fatal(err)
	}
	if err := r.SetState(perm, vol); err != nil {
		g.t.Fatalf("the state does not come back: %v", err)
	}
	perm2, _ := r.PermanentState()
	vol2, _ := r.VolatileState()
	if !bytes.Equal(perm, perm2) || !bytes.Equal(vol, vol2) {
		g.t.Fatal("the state differs after a round trip")
	}
	for _, broken := range [][]byte{vol[:len(vol)-1], append(bytes.Clone(vol), 0)} {
		if r.SetState(perm, broken) == nil {
			g.t.Fatal("a broken volatile state was taken")
		}
	}
	if again, _ := r.VolatileState(); !bytes.Equal(vol, again) {
		g.t.Fatal("a refused state changed the TPM")
	}
	g.p, g.store, g.before = r, store, nil
}

// powerCut starts again from the store alone.
func (g *player) powerCut() {
	r, err := newWith(g.store, g.p.opt, tpmcrypto.NewDRBG(tpmcrypto.SHA256, g.store.b[:16], []byte{g.byte()}))
	if err != nil {
		g.t.Fatalf("after a power cut: %v", err)
	}
	was := &g.p.state.perm
	for _, n := range was.nv {
		i, found := r.state.nvFind(n.pub.Index) // nv hides indices before Startup
		if !found || !bytes.Equal(r.state.perm.nv[i].data, n.data) {
			g.t.Fatalf("index %#x is lost or changed after a power cut", uint32(n.pub.Index))
		}
	}
	for _, o := range was.persistent {
		if got := r.state.persistentObject(o.handle); got == nil || !bytes.Equal(got.name, o.name) {
			g.t.Fatalf("persistent object %#x is lost after a power cut", uint32(o.handle))
		}
	}
	g.p, g.before = r, nil
	g.startup()
}

func (g *player) startup() {
	g.raw(tpm2.CCStartup, nil, nil, func(w *tpm2.Writer) { w.U16(uint16(g.n(2))) })
	if !g.p.state.volatile.started {
		g.raw(tpm2.CCStartup, nil, nil, func(w *tpm2.Writer) { w.U16(0) })
	}
}
