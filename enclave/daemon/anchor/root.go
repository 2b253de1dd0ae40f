// SPDX-License-Identifier: Apache-2.0

package anchor

import (
	"bytes"
	"crypto/hkdf"
	"crypto/rand"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"go.yaml.in/yaml/v3"

	"holdfast/attest/provider/tpmquote"
	"holdfast/attest/trust"
	"holdfast/tpm2"
	"holdfast/tss"
)

// Why a sealed root does not open.
var (
	ErrOtherMonitor = errors.New("the root secret is sealed to another monitor or another state of the machine")
	ErrOtherTPM     = errors.New("the root secret was sealed by another TPM, or by this one before it was cleared")
	ErrNotReset     = errors.New("a monitor ran since the TPM was last reset")
)

// rootSize is the size of Kroot in bytes.
const rootSize = 32

// SealedRoot is the file in which Kroot lives outside the TPM. Only the TPM
// that made it, with the PCRs as they were, gives it back.
type SealedRoot struct {
	Version    int         `yaml:"version"` // 1
	StorageKey tss.Kind    `yaml:"storage-key"`
	Storage    trust.Hex   `yaml:"storage-name"` // TPM Name of the storage key
	PCRs       []string    `yaml:"pcrs"`         // selection, such as sha256:14,15
	Public     trust.Bytes `yaml:"public"`       // TPMT_PUBLIC of the sealed object
	Private    trust.Bytes `yaml:"private"`      // content of its TPM2B_PRIVATE
}

// storageKinds are the kinds of storage keys that a file may name, the best
// first: what withstands a quantum computer, if the TPM has it.
var storageKinds = []tss.Kind{tss.MLKEM768, tss.ECCP256}

// ParseSealedRoot reads such a file. Unknown keys are errors.
func ParseSealedRoot(b []byte) (*SealedRoot, error) {
	s := &SealedRoot{}
	d := yaml.NewDecoder(bytes.NewReader(b))
	d.KnownFields(true)
	if err := d.Decode(s); err != nil {
		return nil, fmt.Errorf("sealed root: %w", err)
	}
	if err := d.Decode(new(any)); !errors.Is(err, io.EOF) {
		return nil, errors.New("sealed root: expected one YAML document")
	}
	if s.Version != 1 {
		return nil, fmt.Errorf("sealed root: version: expected 1, got %d", s.Version)
	}
	if s.StorageKey != tss.MLKEM768 && s.StorageKey != tss.ECCP256 {
		return nil, fmt.Errorf("sealed root: storage-key: expected one of %v, got %q", storageKinds, s.StorageKey)
	}
	if sel, err := tpmquote.ParseSelection(s.PCRs); err != nil || len(sel) == 0 {
		return nil, fmt.Errorf("sealed root: pcrs: expected at least one selection such as sha256:14,15 (%w)", errOr(err))
	}
	if _, err := s.public(); err != nil {
		return nil, err
	}
	if len(s.Private) == 0 || len(s.Storage) == 0 {
		return nil, errors.New("sealed root: private and storage-name must be there")
	}
	return s, nil
}

func errOr(err error) error {
	if err == nil {
		return errors.New("got none")
	}
	return err
}

// Encode writes a file that ParseSealedRoot reads again.
func (s *SealedRoot) Encode() ([]byte, error) {
	var b bytes.Buffer
	e := yaml.NewEncoder(&b)
	e.SetIndent(2)
	err := e.Encode(s)
	return b.Bytes(), err
}

func (s *SealedRoot) public() (*tpm2.Public, error) {
	p := &tpm2.Public{}
	if err := tpm2.Decode(s.Public, p); err != nil {
		return nil, fmt.Errorf("sealed root: public: expected a TPMT_PUBLIC: %w", err)
	}
	return p, nil
}

// storage makes the storage key and a session that encrypts what goes to and
// from the TPM with a secret that only this TPM can learn.
type storage struct {
	t    *tss.TPM
	kind tss.Kind
	key  *tss.Primary
}

func openStorage(t *tss.TPM, kind tss.Kind) (*storage, error) {
	k, err := t.CreatePrimary(tss.Owner(nil), tss.SRKTemplate(kind), nil)
	if err != nil {
		return nil, fmt.Errorf("storage key %s: %w", kind, err)
	}
	return &storage{t, kind, k}, nil
}

// bestStorage takes the first kind that the TPM can make.
func bestStorage(t *tss.TPM) (s *storage, err error) {
	for _, k := range storageKinds {
		if s, err = openStorage(t, k); err == nil {
			return s, nil
		}
	}
	return nil, err
}

func (s *storage) close() { _ = s.t.FlushContext(s.key.Handle) }

func (s *storage) session(kind tpm2.SE) (*tss.Session, error) {
	return s.t.StartSession(tss.SessionOptions{Kind: kind, Symmetric: tss.AES256CFB, SaltKey: s.key.Handle, SaltPublic: &s.key.Key.Public})
}

// draw makes a root from the TPM's random numbers and the system's, so that
// a bad generator alone does not make a bad root.
func (s *storage) draw() ([]byte, error) {
	e, err := s.session(tpm2.SEHMAC)
	if err != nil {
		return nil, err
	}
	defer s.t.Close(e)
	ours := make([]byte, rootSize)
	if _, err := rand.Read(ours); err != nil {
		return nil, err
	}
	theirs, err := s.t.With(e).GetRandom(rootSize)
	if err != nil {
		return nil, fmt.Errorf("random numbers of the TPM: %w", err)
	}
	both := append(append(make([]byte, 0, 2*rootSize), theirs...), ours...)
	clear(ours)
	clear(theirs)
	defer clear(both)
	return hkdf.Extract(sha256.New, both, []byte("holdfast/enclave/kroot/v1"))
}

// seal puts root into an object that opens only while the PCRs have their
// present values.
func (s *storage) seal(root []byte, pcrs []string) (*SealedRoot, error) {
	sel, err := tpmquote.ParseSelection(pcrs)
	if err != nil {
		return nil, err
	}
	digest, err := s.t.PCRDigest(tpm2.AlgSHA256, sel)
	if err != nil {
		return nil, err
	}
	d := tpm2.NewPolicyDigest(tpm2.AlgSHA256)
	d.PCR(sel, digest)
	e, err := s.session(tpm2.SEHMAC)
	if err != nil {
		return nil, err
	}
	defer s.t.Close(e)
	c, err := s.t.With(e).Create(s.key.Ref(nil), tss.SealTemplate(d.Sum()), &tss.Secret{Data: root})
	if err != nil {
		return nil, fmt.Errorf("seal: %w", err)
	}
	pub, err := tpm2.Encode(&c.Public)
	if err != nil {
		return nil, err
	}
	return &SealedRoot{Version: 1, StorageKey: s.kind, Storage: s.key.Name, PCRs: pcrs, Public: pub, Private: c.Private}, nil
}

// Unseal asks the TPM for the root. ErrOtherTPM and ErrOtherMonitor say why it
// refuses.
func (s *SealedRoot) Unseal(t *tss.TPM) ([]byte, error) {
	st, err := openStorage(t, s.StorageKey)
	if err != nil {
		return nil, err
	}
	defer st.close()
	if !bytes.Equal(st.key.Name, s.Storage) {
		return nil, fmt.Errorf("%w: its storage key has the Name %x, the file names %x", ErrOtherTPM, st.key.Name, []byte(s.Storage))
	}
	pub, err := s.public()
	if err != nil {
		return nil, err
	}
	sel, err := tpmquote.ParseSelection(s.PCRs)
	if err != nil {
		return nil, err
	}
	k, err := t.Load(st.key.Ref(nil), s.Private, pub)
	if errors.Is(err, tpm2.RCIntegrity) {
		return nil, fmt.Errorf("%w: %v", ErrOtherTPM, err)
	}
	if err != nil {
		return nil, fmt.Errorf("sealed root: %w", err)
	}
	defer func() { _ = t.FlushContext(k.Handle) }()
	p, err := st.session(tpm2.SEPolicy)
	if err != nil {
		return nil, err
	}
	defer t.Close(p)
	if err := t.PolicyPCR(p, nil, sel); err != nil {
		return nil, err
	}
	root, err := t.Unseal(k.Use(p.With(nil)))
	if errors.Is(err, tpm2.RCPolicyFail) {
		return nil, fmt.Errorf("%w: PCRs %v are not as they were when it was sealed", ErrOtherMonitor, s.PCRs)
	}
	if err != nil {
		return nil, fmt.Errorf("unseal: %w", err)
	}
	if len(root) != rootSize {
		clear(root)
		return nil, fmt.Errorf("sealed root: expected a secret of %d bytes, got %d", rootSize, len(root))
	}
	return root, nil
}

// Purposes of what derives from Kroot. Each key is HKDF-Expand(SHA-256, Kroot,
// "holdfast/enclave/kroot/v1/" ‖ purpose): none tells anything of another.
const (
	purposeKeys = "egetkey" // root of EGETKEY and of the MACs of reports
	purposeAK   = "ak-auth" // authorization value of the AK
)

func deriveRoot(root []byte, purpose string) (out [32]byte, err error) {
	k, err := hkdf.Expand(sha256.New, root, "holdfast/enclave/kroot/v1/"+purpose, len(out))
	if err != nil {
		return out, err
	}
	copy(out[:], k)
	clear(k)
	return out, nil
}

// replaceFile writes a file of mode 0600 at once or not at all.
func replaceFile(path string, b []byte) error {
	f, err := os.CreateTemp(filepath.Dir(path), ".new-*")
	if err != nil {
		return err
	}
	_, err = f.Write(b)
	if err = errors.Join(err, f.Sync(), f.Close()); err == nil {
		err = os.Rename(f.Name(), path)
	}
	if err != nil {
		return errors.Join(err, os.Remove(f.Name()))
	}
	dir, err := os.Open(filepath.Dir(path))
	if err != nil {
		return err
	}
	return errors.Join(dir.Sync(), dir.Close())
}
