// SPDX-License-Identifier: Apache-2.0

package anchor

import (
	"bytes"
	"crypto/rand"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"

	"holdfast/attest/evidence"
	"holdfast/attest/provider/measure"
	"holdfast/attest/provider/tpmquote"
	"holdfast/tpm2"
	"holdfast/tss"
)

// Options of Open.
type Options struct {
	Level     string   // evidence.LevelHosted or LevelLateLaunch
	Dir       string   // folder of this user alone for the sealed root and the AK
	Log       string   // event log that Measure began
	EventLogs []string // logs of what ran before, firmware's first
	PCRs      []uint8  // further PCRs of the SHA-256 bank that the root is sealed to and quotes cover
	Algorithm string   // of hapk: evidence.MLDSA65 (default) or ES256
	// NewRoot draws a new root if the sealed one does not open. Everything that
	// enclaves sealed under the old one is lost, and so is the enrolment.
	NewRoot bool
}

// Anchor is a monitor's tie to its TPM.
type Anchor struct {
	level   string
	hapk    *hapk
	keyHash [32]byte
	keyRoot [32]byte
	fresh   bool

	t      *tss.TPM
	quoter *tpmquote.Provider
	key    *tpmquote.KeyFile
	secret [32]byte

	queue chan *request
	done  chan struct{}
}

// Files in Options.Dir.
const (
	rootFile = "kroot.yaml"
	akFile   = "ak.yaml"
)

// Measure is the launcher's part: it extends the level's monitor PCR with the
// digest of the monitor's image, name telling where it came from, and begins
// the event log. It must come before the image runs.
func Measure(t *tss.TPM, level, log, name string, sha256 [32]byte) error {
	pcr, _, ok := evidence.EnclavePCRs(level)
	if !ok {
		return fmt.Errorf("anchor: level: expected %s or %s, got %q", evidence.LevelHosted, evidence.LevelLateLaunch, level)
	}
	return measure.Records(t, int(pcr), log, []evidence.Measured{{Kind: evidence.KindEnclaveMonitor, Name: name, SHA256: sha256}})
}

// Open makes the tie; see the package comment. The transport belongs to the
// anchor until Close.
func Open(tr tss.Transport, o Options) (*Anchor, error) {
	a, err := open(tss.New(tr), o)
	if err != nil {
		return nil, fmt.Errorf("anchor: %w", err)
	}
	return a, nil
}

func open(t *tss.TPM, o Options) (a *Anchor, err error) {
	mPCR, kPCR, ok := evidence.EnclavePCRs(o.Level)
	if !ok {
		return nil, fmt.Errorf("level: expected %s or %s, got %q", evidence.LevelHosted, evidence.LevelLateLaunch, o.Level)
	}
	if o.Algorithm == "" {
		o.Algorithm = evidence.MLDSA65
	}
	if err := checkStart(t, mPCR, kPCR); err != nil {
		return nil, err
	}
	a = &Anchor{level: o.Level, t: t, queue: make(chan *request), done: make(chan struct{})}
	pcrs := selection(append([]uint8{mPCR, kPCR}, o.PCRs...))
	sealed, root, err := a.root(o, pcrs)
	if err != nil {
		return nil, err
	}
	defer clear(root)
	if a.keyRoot, err = deriveRoot(root, purposeKeys); err == nil {
		a.secret, err = deriveRoot(root, purposeAK)
	}
	if err == nil {
		a.key, err = a.attestationKey(o)
	}
	if err == nil {
		a.hapk, err = newHAPK(o.Algorithm, o.Level)
	}
	if err != nil {
		return nil, err
	}
	a.keyHash = a.hapk.pub.Endorsement().Hash()
	record := evidence.Measured{Kind: evidence.KindEnclaveKey, Name: o.Level, SHA256: a.keyHash}
	if err := measure.Records(t, int(kPCR), o.Log, []evidence.Measured{record}); err != nil {
		return nil, err
	}
	for _, pcr := range []uint8{mPCR, kPCR} {
		if err := measure.Separator(t, int(pcr), o.Log); err != nil {
			return nil, err
		}
	}
	// The cap must hold against ourselves.
	if again, err := sealed.Unseal(t); !errors.Is(err, ErrOtherMonitor) {
		clear(again)
		return nil, fmt.Errorf("after the PCRs were closed the TPM still unseals the root secret (%v); it does not honour PolicyPCR", err)
	}
	a.quoter, err = tpmquote.Open(t.Transport(), a.key, a.secret[:], tpmquote.Options{PCRs: pcrs, EventLogs: append(slices.Clone(o.EventLogs), o.Log)})
	if err != nil {
		return nil, err
	}
	go a.run()
	return a, nil
}

// selection writes PCRs of the SHA-256 bank as tpm2-tools do.
func selection(pcrs []uint8) []string {
	slices.Sort(pcrs)
	s := "sha256:"
	for i, p := range slices.Compact(pcrs) {
		if i > 0 {
			s += ","
		}
		s += fmt.Sprint(p)
	}
	return []string{s}
}

// CheckReset tells, before anything is measured, whether a monitor ran at this
// level since the TPM's last reset (ErrNotReset).
func CheckReset(t *tss.TPM, level string) error {
	_, key, ok := evidence.EnclavePCRs(level)
	if !ok {
		return fmt.Errorf("anchor: level: expected %s or %s, got %q", evidence.LevelHosted, evidence.LevelLateLaunch, level)
	}
	v, _, err := t.PCRRead(tpm2.SelectPCRs(tpm2.AlgSHA256, int(key)))
	if err != nil {
		return err
	}
	return atStart(key, v[int(key)])
}

func atStart(key uint8, value []byte) error {
	if bytes.Equal(value, make([]byte, 32)) {
		return nil
	}
	return fmt.Errorf("%w: PCR %d is %x, not at its start value; reset the TPM (restart `holdfast tpm serve --startup clear`, or the machine)", ErrNotReset, key, value)
}

// checkStart demands that a launcher measured something and that no monitor
// ran since the TPM's reset.
func checkStart(t *tss.TPM, monitor, key uint8) error {
	v, _, err := t.PCRRead(tpm2.SelectPCRs(tpm2.AlgSHA256, int(monitor), int(key)))
	if err != nil {
		return err
	}
	if err := atStart(key, v[int(key)]); err != nil {
		return err
	}
	if bytes.Equal(v[int(monitor)], make([]byte, 32)) {
		return fmt.Errorf("PCR %d is at its start value: no launcher measured this monitor before it started", monitor)
	}
	return nil
}

// root unseals Kroot or, at the first start, draws and seals it.
func (a *Anchor) root(o Options, pcrs []string) (*SealedRoot, []byte, error) {
	path := filepath.Join(o.Dir, rootFile)
	b, err := os.ReadFile(path)
	switch {
	case err == nil:
		s, err := ParseSealedRoot(b)
		if err != nil {
			return nil, nil, fmt.Errorf("%s: %w", path, err)
		}
		root, err := s.Unseal(a.t)
		if err == nil {
			return s, root, nil
		}
		if !o.NewRoot || !errors.Is(err, ErrOtherMonitor) && !errors.Is(err, ErrOtherTPM) {
			return nil, nil, fmt.Errorf("%s: %w; what enclaves sealed can only be read again with the monitor, machine and TPM of then (a new root gives that up)", path, err)
		}
	case !errors.Is(err, os.ErrNotExist):
		return nil, nil, err
	}
	st, err := bestStorage(a.t)
	if err != nil {
		return nil, nil, err
	}
	defer st.close()
	root, err := st.draw()
	if err != nil {
		return nil, nil, err
	}
	s, err := st.seal(root, pcrs)
	if err == nil {
		b, err = s.Encode()
	}
	if err == nil {
		// The old AK answers only to the old root.
		if err = os.Remove(filepath.Join(o.Dir, akFile)); errors.Is(err, os.ErrNotExist) {
			err = nil
		}
	}
	if err == nil {
		err = replaceFile(path, b)
	}
	if err != nil {
		clear(root)
		return nil, nil, err
	}
	a.fresh = true
	return s, root, nil
}

// attestationKey reads the AK's file, or makes the key.
func (a *Anchor) attestationKey(o Options) (*tpmquote.KeyFile, error) {
	path := filepath.Join(o.Dir, akFile)
	k, err := tpmquote.LoadKeyFile(path)
	if !errors.Is(err, os.ErrNotExist) {
		return k, err
	}
	for _, kind := range []tpmquote.Kind{tpmquote.MLDSA65, tpmquote.ES256} {
		if k, err = tpmquote.CreateKey(a.t, tpmquote.NewKeyOptions{Kind: kind, Secret: a.secret[:]}); err == nil {
			break
		}
	}
	if err != nil {
		return nil, err
	}
	b, err := k.Encode()
	if err != nil {
		return nil, err
	}
	return k, replaceFile(path, b)
}

// Inproc is an anchor without a TPM: root and key are random and gone with the
// process, and evidence names the level inproc.
func Inproc(algorithm string) (*Anchor, error) {
	if algorithm == "" {
		algorithm = evidence.MLDSA65
	}
	h, err := newHAPK(algorithm, evidence.LevelInproc)
	if err != nil {
		return nil, err
	}
	a := &Anchor{level: evidence.LevelInproc, hapk: h, keyHash: h.pub.Endorsement().Hash(), fresh: true, queue: make(chan *request), done: make(chan struct{})}
	if _, err := rand.Read(a.keyRoot[:]); err != nil {
		return nil, err
	}
	go a.run()
	return a, nil
}

// Level is the level of trust in the anchor's evidence.
func (a *Anchor) Level() string { return a.level }

// KeyRoot is the secret that the monitor derives all keys of enclaves from.
func (a *Anchor) KeyRoot() [32]byte { return a.keyRoot }

// Fresh reports whether the root was drawn at this start, so that nothing
// sealed before can be read.
func (a *Anchor) Fresh() bool { return a.fresh }

// Attester is the Attester's side of an enrolment of the AK
// (tpmquote.NewAttester). Nobody else knows the key's authorization value.
func (a *Anchor) Attester() (*tpmquote.Attester, error) {
	if a.t == nil {
		return nil, fmt.Errorf("anchor: level %s has no TPM and cannot be enrolled", a.level)
	}
	return tpmquote.NewAttester(a.t, a.key, a.secret[:], nil)
}

// Close forgets the secrets and flushes what is loaded. Quotes that wait end
// with an error.
func (a *Anchor) Close() error {
	close(a.done)
	clear(a.keyRoot[:])
	clear(a.secret[:])
	if a.quoter == nil {
		return nil
	}
	return a.quoter.Close()
}
