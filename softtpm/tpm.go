// SPDX-License-Identifier: Apache-2.0

package softtpm

import (
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"sync"

	"holdfast/softtpm/internal/tpmcrypto"
	"holdfast/tpm2"
)

// TPM is one TPM. Its methods are safe for concurrent use; commands run one
// after another.
type TPM struct {
	mu      sync.Mutex
	opt     Options
	store   Store
	table   *table
	closed  bool
	failed  bool // failure mode (Part 1, 12.2.5)
	stored  []byte
	state   state
	before  state // of the command under way
	clk     clock
	rng     io.Reader
	present bool // physical presence

	told [numACTs]bool // signals of the timers that Options.OnACT knows

	drtm hashSequence // of HashStart, HashData, HashEnd

	c   call
	buf []byte // copy of the command, since parameters are decrypted in place
	rnd [tpm2.MaxDigest]byte
	enc tpm2.Writer
}

// errClosed is what a closed TPM answers in Go.
var errClosed = errors.New("softtpm: the TPM is closed")

// New returns the TPM whose state is in store, or manufactures one if the
// store is empty. It is as after _TPM_Init: TPM2_Startup is expected.
func New(store Store, o Options) (*TPM, error) { return newWith(store, o, rand.Reader) }

// newWith is New with a random source.
func newWith(store Store, o Options, rng io.Reader) (*TPM, error) {
	o, err := o.withDefaults()
	if err != nil {
		return nil, err
	}
	t := &TPM{opt: o, store: store, table: commands, rng: rng}
	t.clk.last = o.Now()
	b, err := store.Load()
	if err != nil {
		return nil, fmt.Errorf("softtpm: loading the state: %w", err)
	}
	if b == nil {
		if err := t.manufacture(); err != nil {
			return nil, err
		}
	} else {
		if err := t.state.perm.decode(b); err != nil {
			return nil, err
		}
		t.stored = b
	}
	t.powerOn()
	return t, nil
}

// manufacture makes seeds, proofs and defaults of a new TPM and saves them.
func (t *TPM) manufacture() error {
	p := &t.state.perm
	*p = permanent{
		epSeed: t.random(seedSize), spSeed: t.random(seedSize), ppSeed: t.random(seedSize),
		ehProof: t.random(seedSize), shProof: t.random(seedSize), phProof: t.random(seedSize),
		ownerPolicy: noPolicy, endorsementPolicy: noPolicy, lockoutPolicy: noPolicy,
		maxTries: 3, recoveryTime: 1000, lockoutRecovery: 1000,
		auditHash:  tpm2.AlgSHA256,
		orderly:    tpm2.SUClear,
		ppCommands: map[tpm2.CC]bool{},
		audited:    map[tpm2.CC]bool{tpm2.CCSetCommandCodeAuditStatus: true},
	}
	for i := range p.pcrAlloc {
		p.pcrAlloc[i], p.pcrNext[i] = allPCRs, allPCRs
	}
	for i := range p.pcrPolicies {
		p.pcrPolicies[i] = noPolicy
	}
	return t.save()
}

// seedSize is the size of seeds and proofs in bytes.
const seedSize = 64

// noPolicy is the policy of a hierarchy that has none.
var noPolicy = tpm2.HA{Alg: tpm2.AlgNull}

// random returns n fresh random bytes.
func (t *TPM) random(n int) []byte {
	b := make([]byte, n)
	t.fill(b)
	return b
}

// fill fills b with random bytes. The system's source does not fail.
func (t *TPM) fill(b []byte) {
	if _, err := io.ReadFull(t.rng, b); err != nil {
		panic("softtpm: the random source failed: " + err.Error())
	}
}

// save encodes the permanent state and saves it if it differs from what is
// in the Store.
func (t *TPM) save() error {
	t.enc.Reset(t.enc.Bytes()[:0])
	t.state.perm.encode(&t.enc)
	if err := t.enc.Err(); err != nil {
		return err
	}
	b := t.enc.Bytes()
	if string(b) == string(t.stored) {
		return nil
	}
	if err := t.store.Save(b); err != nil {
		return fmt.Errorf("softtpm: saving the state: %w", err)
	}
	t.stored = append(t.stored[:0], b...)
	return nil
}

// powerOn is _TPM_Init: everything volatile is gone.
func (t *TPM) powerOn() {
	t.wipeVolatile()
	t.state.volatile = volatile{}
	t.state.reset, t.state.clear = stateReset{}, stateClear{platformPolicy: noPolicy, acts: newACTs()}
	t.clk.last = t.opt.Now()
	t.clk.time, t.clk.frac, t.clk.rate = 0, 0, 0
	t.failed = false
	t.drtm.reset()
}

func (t *TPM) wipeVolatile() {
	for _, o := range t.state.volatile.objects {
		if o != nil {
			o.wipe()
		}
	}
	for _, s := range t.state.volatile.sessions {
		if s != nil {
			s.wipe()
		}
	}
}

// Init is _TPM_Init, the power-on reset: objects, sessions and PCRs are lost
// and TPM2_Startup is expected (Part 1, 12.2.2).
func (t *TPM) Init() {
	t.mu.Lock()
	defer t.mu.Unlock()
	if !t.closed {
		t.powerOn()
	}
}

// SetPhysicalPresence asserts or withdraws physical presence (Part 1, 13.8).
func (t *TPM) SetPhysicalPresence(on bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.present = on
}

// Started says whether TPM2_Startup succeeded since the last Init.
func (t *TPM) Started() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.state.volatile.started
}

// Close erases the TPM's secrets from memory. What commands were promised to
// be kept is in the Store already. It does not shut the TPM down in an
// orderly way: send TPM2_Shutdown for that.
func (t *TPM) Close() error {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.closed {
		return errClosed
	}
	t.closed = true
	t.wipeVolatile()
	p := &t.state.perm
	for _, b := range [][]byte{p.epSeed, p.spSeed, p.ppSeed, p.ehProof, p.shProof, p.phProof, p.ownerAuth, p.endorsementAuth, p.lockoutAuth,
		t.state.reset.nullSeed, t.state.reset.nullProof, t.stored} {
		tpmcrypto.Zero(b)
	}
	for _, o := range p.persistent {
		o.wipe()
	}
	t.state, t.before = state{}, state{}
	return nil
}
