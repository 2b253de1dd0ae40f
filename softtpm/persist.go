// SPDX-License-Identifier: Apache-2.0

package softtpm

import (
	"errors"
	"fmt"
	"slices"

	"holdfast/tpm2"
)

// The state in the Store and in state blobs: our own format, versioned, in
// TPM wire style. Every field is written and read in the same order by
// visit functions, so that writer and reader cannot drift apart.

// Magic and version of the two formats.
const (
	permanentMagic = 0x48465031 // "HFP1"
	volatileMagic  = 0x48465631 // "HFV1"
	stateVersion   = 2          // 1 had neither countdown timers nor a buffer size
	oldestVersion  = 1          // that can be read
)

// errState is returned for a state that is damaged or of another version.
var errState = errors.New("softtpm: the saved state is damaged or from another version of this program")

// codec writes (w) or reads (r) fields; exactly one of the two is set.
type codec struct {
	w *tpm2.Writer
	r *tpm2.Reader
	v uint16 // version of what is read
}

// since says whether the field that came with a version is there.
func (x codec) since(version uint16) bool { return x.w != nil || x.v >= version }

func (x codec) u8(v *uint8) {
	if x.w != nil {
		x.w.U8(*v)
	} else {
		*v = x.r.U8()
	}
}

func (x codec) u16(v *uint16) {
	if x.w != nil {
		x.w.U16(*v)
	} else {
		*v = x.r.U16()
	}
}

func (x codec) u32(v *uint32) {
	if x.w != nil {
		x.w.U32(*v)
	} else {
		*v = x.r.U32()
	}
}

func (x codec) u64(v *uint64) {
	if x.w != nil {
		x.w.U64(*v)
	} else {
		*v = x.r.U64()
	}
}

func (x codec) flag(v *bool) {
	if x.w != nil {
		x.w.Bool(*v)
	} else {
		*v = x.r.Bool()
	}
}

func (x codec) alg(v *tpm2.Alg)       { u := uint16(*v); x.u16(&u); *v = tpm2.Alg(u) }
func (x codec) handle(v *tpm2.Handle) { u := uint32(*v); x.u32(&u); *v = tpm2.Handle(u) }

// bytes is a slice of up to 65535 bytes; nil and empty are the same.
func (x codec) bytes(v *[]byte) {
	if x.w != nil {
		x.w.Sized(*v)
		return
	}
	if b := x.r.Sized(0xFFFF); len(b) != 0 {
		*v = slices.Clone(b)
	} else {
		*v = nil
	}
}

func (x codec) raw(v []byte) {
	if x.w != nil {
		x.w.Raw(v)
	} else {
		copy(v, x.r.Bytes(len(v)))
	}
}

func (x codec) ha(v *tpm2.HA) {
	if x.w != nil {
		v.Marshal(x.w)
		return
	}
	v.UnmarshalNull(x.r)
	v.Digest = slices.Clone(v.Digest)
}

// count is the length of a list, at most max.
func (x codec) count(n, max int) int {
	if x.w != nil {
		x.w.U32(uint32(n))
		return n
	}
	return x.r.Count(max)
}

func (x codec) ccs(m *map[tpm2.CC]bool) {
	if x.w != nil {
		var l []tpm2.CC
		for c := range *m {
			l = append(l, c)
		}
		slices.Sort(l)
		x.w.U32(uint32(len(l)))
		for _, c := range l {
			x.w.U32(uint32(c))
		}
		return
	}
	*m = map[tpm2.CC]bool{}
	for n := x.r.Count(1024); n > 0; n-- {
		(*m)[tpm2.CC(x.r.U32())] = true
	}
}

// object is an object without its handle.
func (x codec) object(o *object) {
	x.handle(&o.handle)
	x.handle(&o.hierarchy)
	x.flag(&o.publicOnly)
	x.flag(&o.external)
	x.flag(&o.primary)
	x.bytes(&o.name)
	x.bytes(&o.qname)
	seq := o.seq != nil
	x.flag(&seq)
	if x.w != nil {
		m := x.w.Begin()
		if !seq {
			o.pub.Marshal(x.w)
		}
		x.w.End(m)
	} else {
		in := x.r.Nested(0xFFFF)
		if !seq {
			o.pub.UnmarshalNull(&in)
			o.pub = clonePublic(o.pub)
		}
		x.r.Done(&in)
	}
	x.alg(&o.sens.Type)
	x.bytes(&o.sens.Auth)
	x.bytes(&o.sens.Seed)
	x.bytes(&o.sens.Value)
	if seq {
		if x.r != nil {
			o.seq = &sequence{}
		}
		o.seq.visit(x)
	}
	if x.r != nil {
		o.key = &keyCache{}
	}
}

// clonePublic returns p with memory of its own.
func clonePublic(p tpm2.Public) tpm2.Public {
	p.AuthPolicy = slices.Clone(p.AuthPolicy)
	p.Unique = slices.Clone(p.Unique)
	p.Point = tpm2.Point{X: slices.Clone(p.Point.X), Y: slices.Clone(p.Point.Y)}
	return p
}

func (x codec) nv(n *nvIndex) {
	if x.w != nil {
		n.pub.Marshal(x.w)
	} else {
		n.pub.Unmarshal(x.r)
		n.pub.AuthPolicy = slices.Clone(n.pub.AuthPolicy)
	}
	x.bytes(&n.auth)
	x.bytes(&n.data)
}

func (x codec) reset(s *stateReset) {
	x.bytes(&s.nullSeed)
	x.bytes(&s.nullProof)
	x.u32(&s.clearCount)
	x.u64(&s.contextID)
	for i := range s.contextSlots {
		x.u16(&s.contextSlots[i])
	}
	x.u64(&s.contextCounter)
	x.bytes(&s.auditDigest)
	x.u32(&s.restartCount)
	x.u32(&s.pcrCounter)
	x.u64(&s.commitCounter)
	x.bytes(&s.commitNonce)
	x.raw(s.commitArray[:])
}

func (x codec) clear(s *stateClear) {
	x.flag(&s.shEnable)
	x.flag(&s.ehEnable)
	x.flag(&s.phEnableNV)
	x.flag(&s.readOnly)
	x.bytes(&s.platformAuth)
	x.ha(&s.platformPolicy)
	for i := range s.pcrAuth {
		x.bytes(&s.pcrAuth[i])
	}
	if !x.since(2) {
		s.acts = newACTs()
		return
	}
	for i := range s.acts {
		x.act(&s.acts[i])
	}
}

func (x codec) pcrs(p *pcrBanks) {
	for b := range p {
		for i := range p[b] {
			x.raw(p[b][i][:])
		}
	}
}

// optional writes or reads whether *p is there, makes it when reading, and says whether it is.
func optional[T any](x codec, p **T) bool {
	there := *p != nil
	x.flag(&there)
	if there && *p == nil {
		*p = new(T)
	}
	return there
}

// permanent visits all fields.
func (x codec) permanent(p *permanent) {
	for _, b := range []*[]byte{&p.epSeed, &p.spSeed, &p.ppSeed, &p.ehProof, &p.shProof, &p.phProof, &p.ownerAuth, &p.endorsementAuth, &p.lockoutAuth} {
		x.bytes(b)
	}
	x.flag(&p.epsMade)
	x.ha(&p.ownerPolicy)
	x.ha(&p.endorsementPolicy)
	x.ha(&p.lockoutPolicy)
	x.flag(&p.disableClear)
	x.u32(&p.failedTries)
	x.u32(&p.maxTries)
	x.u32(&p.recoveryTime)
	x.u32(&p.lockoutRecovery)
	x.flag(&p.lockoutBlocked)
	for i := range p.pcrAlloc {
		x.u32(&p.pcrAlloc[i])
		x.u32(&p.pcrNext[i])
	}
	for i := range p.pcrPolicies {
		x.ha(&p.pcrPolicies[i])
	}
	x.ccs(&p.ppCommands)
	x.ccs(&p.audited)
	x.alg(&p.auditHash)
	x.u64(&p.auditCount)
	u := uint16(p.orderly)
	x.u16(&u)
	p.orderly = tpm2.SU(u)
	x.u64(&p.totalResets)
	x.u32(&p.resetCount)
	x.u64(&p.clock)
	x.u64(&p.maxNVCounter)
	x.u32(&p.algorithmSet)
	if x.since(2) {
		x.u32(&p.bufferSize)
	}
	n := x.count(len(p.nv), 1024)
	if x.r != nil {
		p.nv = make([]*nvIndex, n)
	}
	for i := range p.nv {
		if x.r != nil {
			p.nv[i] = &nvIndex{}
		}
		x.nv(p.nv[i])
	}
	n = x.count(len(p.persistent), 256)
	if x.r != nil {
		p.persistent = make([]*object, n)
	}
	for i := range p.persistent {
		if x.r != nil {
			p.persistent[i] = &object{}
		}
		x.object(p.persistent[i])
	}
	if optional(x, &p.savedReset) {
		x.reset(p.savedReset)
	}
	if optional(x, &p.savedClear) {
		x.clear(p.savedClear)
	}
	if optional(x, &p.savedPCR) {
		x.pcrs(p.savedPCR)
	}
}

// encode appends the permanent state to w.
func (p *permanent) encode(w *tpm2.Writer) {
	w.U32(permanentMagic)
	w.U16(stateVersion)
	codec{w: w}.permanent(p)
}

// decode reads what encode wrote; p is unchanged on an error.
func (p *permanent) decode(b []byte) error {
	r := tpm2.NewReader(b)
	v, err := readVersion(r, permanentMagic)
	if err != nil {
		return err
	}
	var n permanent
	codec{r: r, v: v}.permanent(&n)
	r.End()
	if r.Err() != nil {
		return fmt.Errorf("%w: %v at byte %d of %d", errState, r.Err(), r.Offset(), len(b))
	}
	if err := n.check(); err != nil {
		return err
	}
	*p = n
	return nil
}

// readVersion reads magic and version.
func readVersion(r *tpm2.Reader, magic uint32) (uint16, error) {
	m, v := r.U32(), r.U16()
	if r.Err() == nil && (m != magic || v < oldestVersion || v > stateVersion) {
		return 0, fmt.Errorf("%w: begins with %08x version %d, expected %08x version %d to %d", errState, m, v, magic, oldestVersion, stateVersion)
	}
	return v, nil
}

// check refuses a state that would break what the engine relies on.
func (p *permanent) check() error {
	for _, s := range [][]byte{p.epSeed, p.spSeed, p.ppSeed, p.ehProof, p.shProof, p.phProof} {
		if len(s) != seedSize {
			return fmt.Errorf("%w: a seed has %d bytes, expected %d", errState, len(s), seedSize)
		}
	}
	if p.bufferSize != 0 && p.bufferSize != 4096 && p.bufferSize != 8192 {
		return fmt.Errorf("%w: buffer size %d", errState, p.bufferSize)
	}
	if !p.auditHash.IsHash() {
		return fmt.Errorf("%w: audit hash %v", errState, p.auditHash)
	}
	for i := 1; i < len(p.nv); i++ {
		if p.nv[i-1].pub.Index >= p.nv[i].pub.Index {
			return fmt.Errorf("%w: NV indices are not in order", errState)
		}
	}
	for i, o := range p.persistent {
		if o.handle.Type() != tpm2.HTPersistent || o.seq != nil || !isHierarchy(o.hierarchy) || i > 0 && p.persistent[i-1].handle >= o.handle {
			return fmt.Errorf("%w: persistent objects are not in order", errState)
		}
	}
	return nil
}

// session visits all fields of a session.
func (x codec) session(s *session) {
	x.handle(&s.handle)
	x.alg(&s.hash)
	x.alg(&s.sym.Alg)
	x.u16(&s.sym.KeyBits)
	x.alg(&s.sym.Mode)
	x.alg(&s.sym.Hash)
	x.bytes(&s.key)
	x.bytes(&s.nonce)
	x.flag(&s.bound)
	x.bytes(&s.bindName)
	x.bytes(&s.bindAuth)
	x.flag(&s.bindDA)
	x.flag(&s.bindLockout)
	x.flag(&s.audit)
	x.bytes(&s.auditDigest)
	x.flag(&s.policy)
	x.flag(&s.trial)
	x.u64(&s.startTime)
	x.u64(&s.epoch)
	p := &s.policyAssert
	x.bytes(&p.digest)
	x.u64(&p.timeout)
	c := uint32(p.commandCode)
	x.u32(&c)
	p.commandCode = tpm2.CC(c)
	x.bytes(&p.cpHash)
	x.bytes(&p.nameHash)
	x.bytes(&p.templateHash)
	x.bytes(&p.paramHash)
	l := uint8(p.locality)
	x.u8(&l)
	p.locality = tpm2.Locality(l)
	x.flag(&p.pcrSet)
	x.u32(&p.pcrCounter)
	x.flag(&p.authValue)
	x.flag(&p.password)
	x.flag(&p.pp)
	x.flag(&p.nvCheck)
	x.flag(&p.nvWritten)
}

// volatile visits everything but the permanent state.
func (x codec) volatile(s *state, time *uint64) {
	v := &s.volatile
	x.u64(time)
	x.flag(&v.started)
	u := uint16(v.prevOrderly)
	x.u16(&u)
	v.prevOrderly = tpm2.SU(u)
	x.flag(&v.phEnable)
	x.u8(&v.startLocality)
	x.flag(&v.drtm)
	x.flag(&v.clockSafe)
	x.u64(&v.clockUnsafeTil)
	x.u64(&v.timeEpoch)
	x.u64(&v.lockoutTimer)
	x.u64(&v.healTimer)
	x.handle(&v.exclusive)
	x.pcrs(&v.pcr)
	x.reset(&s.reset)
	x.clear(&s.clear)
	for i := range v.sessions {
		x.flag(&v.savedSessions[i])
		if optional(x, &v.sessions[i]) {
			x.session(v.sessions[i])
		}
	}
	for i := range v.objects {
		if o := v.objects[i]; x.w != nil && o != nil && o.rot != nil {
			x.w.Bool(false) // one-use state leaves the TPM in no form
			continue
		}
		if optional(x, &v.objects[i]) {
			x.object(v.objects[i])
		}
	}
}

// PermanentState returns the state that the Store holds.
func (t *TPM) PermanentState() ([]byte, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.closed {
		return nil, errClosed
	}
	var w tpm2.Writer
	t.state.perm.encode(&w)
	return w.Bytes(), w.Err()
}

// VolatileState returns everything that is not in the permanent state: with
// both, SetState makes another TPM go on exactly here.
func (t *TPM) VolatileState() ([]byte, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.closed {
		return nil, errClosed
	}
	var w tpm2.Writer
	w.U32(volatileMagic)
	w.U16(stateVersion)
	if t.tick() {
		t.state.volatile.dirty = true
	}
	codec{w: &w}.volatile(&t.state, &t.clk.time)
	return w.Bytes(), w.Err()
}

// SetState replaces the TPM's state by what PermanentState and VolatileState
// returned, and saves it in the Store. With volatile nil the TPM is as after
// _TPM_Init; with permanent nil the permanent state stays as it is. On an
// error nothing has changed.
func (t *TPM) SetState(permanentState, volatileState []byte) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.closed {
		return errClosed
	}
	old := t.state
	n := state{perm: old.perm}
	if permanentState != nil {
		if err := n.perm.decode(permanentState); err != nil {
			return err
		}
	}
	var time uint64
	if volatileState != nil {
		r := tpm2.NewReader(volatileState)
		v, err := readVersion(r, volatileMagic)
		if err != nil {
			return err
		}
		codec{r: r, v: v}.volatile(&n, &time)
		r.End()
		if r.Err() != nil {
			return fmt.Errorf("%w: %v at byte %d of %d", errState, r.Err(), r.Offset(), len(volatileState))
		}
		if err := n.volatile.check(); err != nil {
			return err
		}
	}
	t.state = n
	if err := t.save(); err != nil {
		t.state = old
		return err
	}
	if volatileState == nil {
		t.powerOn()
	} else {
		t.failed = false
		t.clk = clock{last: t.opt.Now(), time: time}
	}
	return nil
}

// check refuses a volatile state that would break what the engine relies on.
func (v *volatile) check() error {
	for i, s := range v.sessions {
		if s != nil && (sessionSlot(s.handle) != i || !s.hash.IsHash()) {
			return fmt.Errorf("%w: session %v in slot %d", errState, s.handle, i)
		}
	}
	for i, o := range v.objects {
		if o != nil && !isHierarchy(o.hierarchy) {
			return fmt.Errorf("%w: object in slot %d", errState, i)
		}
	}
	return nil
}
