// SPDX-License-Identifier: Apache-2.0

package tpm

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"time"

	"holdfast/bench/stat"
	"holdfast/softtpm"
	"holdfast/tpm2"
	"holdfast/tpmio/inproc"
	"holdfast/tss"
)

// secret is the string that the seed's evaluation encrypts and signs.
var secret = []byte("My super secret. Please don’t share.\n")

// TableRow is a row of the seed's Tables 1 and 2: an algorithm and what its
// commands take, medians in microseconds; 0 where the algorithm has no such
// command. ROT has the two ends instead: the receiver's is ROT_MSG1 and
// ROT_MSG3, the sender's ROT_MSG2 and ROT_MSG4.
type TableRow struct {
	Algorithm string             `json:"algorithm"`
	Micros    map[string]float64 `json:"us"`
}

// TableColumns are the seed's operations, in its order.
var TableColumns = []string{"Create", "Sign", "Verify", "Encrypt", "Decrypt", "Encapsulate", "Decapsulate", "ROT receiver", "ROT sender"}

// Tables runs the operations of the seed's evaluation on a TPM in this process
// and returns the rows of its Tables 1 and 2 for this processor. Keys are made by
// TPM2_Create under an RSA or P-256 storage parent, signed messages are hashed
// with SHA3-256, and each median is of `runs` calls (the seed: 100).
func Tables(ctx context.Context, runs int) (out []TableRow, err error) {
	m, err := inproc.Memory(softtpm.Options{})
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, m.Close()) }()
	t := tss.New(m)
	parent, err := t.CreatePrimary(tss.Owner(nil), storageKey(), nil)
	if err != nil {
		return nil, err
	}
	hash, ticket, err := t.Hash(secret, tpm2.AlgSHA3_256, tpm2.RHOwner)
	if err != nil {
		return nil, err
	}
	for _, a := range []struct {
		name          string
		sign, decrypt func() tpm2.Public
		pq            bool
	}{
		{"RSA-2048", func() tpm2.Public {
			return rsaKey(tpm2.ObjectSignEncrypt, tpm2.Scheme{Alg: tpm2.AlgRSASSA, Hash: tpm2.AlgSHA3_256}, nil)
		}, func() tpm2.Public { return rsaKey(tpm2.ObjectDecrypt, oaep, nil) }, false},
		{"ECC P-256", func() tpm2.Public {
			k := eccKey(0)
			k.Parms.Scheme.Hash = tpm2.AlgSHA3_256
			return k
		}, nil, false},
		{"ML-KEM-768", nil, mlkemKey, true},
		{"ML-DSA-65", func() tpm2.Public { return mldsaKey(0) }, nil, true},
	} {
		row := TableRow{a.name, map[string]float64{}}
		time := func(column string, call func() error) error { return median(ctx, row.Micros, column, runs, call) }
		if a.sign != nil {
			err = signRows(t, parent.Ref(nil), a.sign(), a.pq, hash, ticket, time)
		}
		if err == nil && a.decrypt != nil {
			err = decryptRows(t, parent.Ref(nil), a.decrypt(), a.pq, time)
		}
		if err != nil {
			return nil, fmt.Errorf("%s: %w", a.name, err)
		}
		out = append(out, row)
	}
	row, err := rotRow(ctx, t, runs)
	if err != nil {
		return nil, fmt.Errorf("ROT: %w", err)
	}
	return append(out, row), nil
}

// median measures a call runs times.
func median(ctx context.Context, into map[string]float64, column string, runs int, call func() error) error {
	times := make([]float64, 0, runs)
	for range runs {
		if err := ctx.Err(); err != nil {
			return err
		}
		start := time.Now()
		if err := call(); err != nil {
			return fmt.Errorf("%s: %w", column, err)
		}
		times = append(times, float64(time.Since(start).Nanoseconds())/1e3)
	}
	into[column] = stat.Median(times)
	return nil
}

// created makes a key, which is what Create measures, and loads the last one.
func created(t *tss.TPM, parent tss.Ref, template tpm2.Public, measure func(string, func() error) error) (*tss.Key, error) {
	var c *tss.Created
	if err := measure("Create", func() (err error) { c, err = t.Create(parent, template, nil); return err }); err != nil {
		return nil, err
	}
	return t.Load(parent, c.Private, &c.Public)
}

func signRows(t *tss.TPM, parent tss.Ref, template tpm2.Public, pq bool, hash []byte, ticket tpm2.Ticket, measure func(string, func() error) error) error {
	k, err := created(t, parent, template, measure)
	if err != nil {
		return err
	}
	defer t.FlushContext(k.Handle)
	var s *tpm2.Signature
	if pq { // ML-DSA hashes by itself
		if err := measure("Sign", func() (err error) { s, err = t.SignMessage(k.Ref(nil), nil, secret); return err }); err != nil {
			return err
		}
		return measure("Verify", func() error { return t.VerifyMessage(k.Ref(nil), nil, secret, s) })
	}
	if err := measure("Sign", func() (err error) { s, err = t.Sign(k.Ref(nil), hash, tpm2.NoScheme, ticket); return err }); err != nil {
		return err
	}
	return measure("Verify", func() error { _, err := t.VerifySignature(k.Ref(nil), hash, s); return err })
}

func decryptRows(t *tss.TPM, parent tss.Ref, template tpm2.Public, pq bool, measure func(string, func() error) error) error {
	k, err := created(t, parent, template, measure)
	if err != nil {
		return err
	}
	defer t.FlushContext(k.Handle)
	var sealed, c []byte
	if !pq {
		if err := measure("Encrypt", func() (err error) { c, err = t.RSAEncrypt(k.Ref(nil), secret, tpm2.NoScheme, nil); return err }); err != nil {
			return err
		}
		return measure("Decrypt", func() error { _, err := t.RSADecrypt(k.Ref(nil), c, tpm2.NoScheme, nil); return err })
	}
	if err := measure("Encrypt", func() (err error) { sealed, c, err = t.KEMEncrypt(k.Ref(nil), secret, nil); return err }); err != nil {
		return err
	}
	if err := measure("Decrypt", func() error { _, err := t.KEMDecrypt(k.Ref(nil), sealed, c, nil); return err }); err != nil {
		return err
	}
	if err := measure("Encapsulate", func() (err error) { _, c, err = t.Encapsulate(k.Ref(nil)); return err }); err != nil {
		return err
	}
	return measure("Decapsulate", func() error { _, err := t.Decapsulate(k.Ref(nil), c); return err })
}

// rotRow runs whole transfers between two ends on one TPM and adds up what each
// end's two commands took.
func rotRow(ctx context.Context, t *tss.TPM, runs int) (TableRow, error) {
	row := TableRow{"ROT, q = 13313", map[string]float64{}}
	var receiver, sender []float64
	for i := range runs {
		if err := ctx.Err(); err != nil {
			return row, err
		}
		at := time.Now()
		lap := func() float64 {
			d := time.Since(at)
			at = time.Now()
			return float64(d.Nanoseconds()) / 1e3
		}
		r, m1, err := t.ROT1(nil, 0, uint32(i))
		if err != nil {
			return row, err
		}
		r1 := lap()
		s, m2, err := t.ROT2(nil, 0, m1)
		if err != nil {
			return row, err
		}
		s2 := lap()
		_, m3, err := t.ROT3(r, m2)
		if err != nil {
			return row, err
		}
		r3 := lap()
		if _, err := t.ROT4(s, m3); err != nil {
			return row, err
		}
		receiver, sender = append(receiver, r1+r3), append(sender, s2+lap())
	}
	row.Micros["ROT receiver"], row.Micros["ROT sender"] = stat.Median(receiver), stat.Median(sender)
	return row, nil
}

// MemoryRow is what a kind of key takes, in bytes.
type MemoryRow struct {
	Key     string `json:"key"`
	Public  int    `json:"public"`        // TPMT_PUBLIC
	Private int    `json:"private"`       // TPM2B_PRIVATE's content: encrypted and with integrity
	Context int    `json:"saved_context"` // TPMS_CONTEXT's content
	Loaded  int    `json:"loaded"`        // growth of the heap for each loaded object, used once
	State   int    `json:"state"`         // growth of the permanent state when it is made persistent
	Create  int    `json:"create"`        // allocated in all, and freed again, by one TPM2_Create
	Use     int    `json:"use"`           // the same for one signature or decapsulation
}

// persistentHandle is where Memory makes keys persistent.
const persistentHandle tpm2.Handle = 0x81010020

// Memory measures each kind of key on a fresh TPM in this process (the seed's
// Figure 4 and its analysis of memory).
func Memory() (out []MemoryRow, err error) {
	for _, k := range []struct {
		name     string
		template tpm2.Public
		use      func(t *tss.TPM, k tss.Ref) error
	}{
		{"RSA-2048", rsaKey(tpm2.ObjectSignEncrypt, rsassa, nil), signDigest},
		{"ECC P-256", eccKey(0), signDigest},
		{"ML-KEM-512", kem(tpm2.MLKEM512), decapsulateOnce},
		{"ML-KEM-768", kem(tpm2.MLKEM768), decapsulateOnce},
		{"ML-KEM-1024", kem(tpm2.MLKEM1024), decapsulateOnce},
		{"ML-DSA-44", dsa(tpm2.MLDSA44), signMessage},
		{"ML-DSA-65", dsa(tpm2.MLDSA65), signMessage},
		{"ML-DSA-87", dsa(tpm2.MLDSA87), signMessage},
	} {
		row, err := memoryRow(k.name, k.template, k.use)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", k.name, err)
		}
		out = append(out, row)
	}
	return out, nil
}

func kem(set tpm2.MLKEMSet) tpm2.Public {
	k := mlkemKey()
	k.Parms.MLKEM = set
	return k
}

func dsa(set tpm2.MLDSASet) tpm2.Public {
	k := mldsaKey(0)
	k.Parms.MLDSA = set
	return k
}

func signDigest(t *tss.TPM, k tss.Ref) error {
	_, err := t.Sign(k, digest[:], tpm2.NoScheme, tss.NullHashcheck)
	return err
}

func signMessage(t *tss.TPM, k tss.Ref) error { _, err := t.SignMessage(k, nil, digest[:]); return err }

func decapsulateOnce(t *tss.TPM, k tss.Ref) error {
	_, c, err := t.Encapsulate(k)
	if err == nil {
		_, err = t.Decapsulate(k, c)
	}
	return err
}

// heap is what lives after a collection.
func heap() int {
	var m runtime.MemStats
	runtime.GC()
	runtime.GC()
	runtime.ReadMemStats(&m)
	return int(m.HeapAlloc)
}

// allocated is what a call allocates in all.
func allocated(call func() error) (int, error) {
	var a, b runtime.MemStats
	runtime.ReadMemStats(&a)
	err := call()
	runtime.ReadMemStats(&b)
	return int(b.TotalAlloc - a.TotalAlloc), err
}

func memoryRow(name string, template tpm2.Public, use func(*tss.TPM, tss.Ref) error) (row MemoryRow, err error) {
	const objects = 40
	row.Key = name
	m, err := inproc.Memory(softtpm.Options{Objects: 64})
	if err != nil {
		return row, err
	}
	defer func() { err = errors.Join(err, m.Close()) }()
	t := tss.New(m)
	parent, err := t.CreatePrimary(tss.Owner(nil), storageKey(), nil)
	if err != nil {
		return row, err
	}
	var c *tss.Created
	if row.Create, err = allocated(func() (err error) { c, err = t.Create(parent.Ref(nil), template, nil); return err }); err != nil {
		return row, err
	}
	var w tpm2.Writer
	c.Public.Marshal(&w)
	row.Public, row.Private = len(w.Bytes()), len(c.Private)
	keys := make([]*tss.Key, 0, objects)
	load := func() error {
		k, err := t.Load(parent.Ref(nil), c.Private, &c.Public)
		if err != nil {
			return err
		}
		keys = append(keys, k)
		return use(t, k.Ref(nil))
	}
	if err := load(); err != nil { // what the first use of an algorithm sets up
		return row, err
	}
	before := heap()
	for range objects - 1 {
		if err := load(); err != nil {
			return row, err
		}
	}
	row.Loaded = max(heap()-before, 0) / (objects - 1)
	if row.Use, err = allocated(func() error { return use(t, keys[0].Ref(nil)) }); err != nil {
		return row, err
	}
	saved, err := t.ContextSave(keys[0].Handle)
	if err != nil {
		return row, err
	}
	row.Context = len(saved.Blob)
	old, err := m.Engine().PermanentState()
	if err != nil {
		return row, err
	}
	if err := t.EvictControl(tss.Owner(nil), keys[0].Ref(nil), persistentHandle); err != nil {
		return row, err
	}
	now, err := m.Engine().PermanentState()
	row.State = len(now) - len(old)
	runtime.KeepAlive(keys)
	return row, err
}
