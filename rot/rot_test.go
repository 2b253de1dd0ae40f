// SPDX-License-Identifier: Apache-2.0

package rot

import (
	"bytes"
	"crypto/rand"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"math/big"
	"os"
	"testing"
)

type hexBytes []byte

func (h *hexBytes) UnmarshalText(b []byte) (err error) {
	*h, err = hex.DecodeString(string(b))
	return err
}

// transcript is one run of the artifact. A field named x_ntt is in the NTT
// domain; eX2 is 2e.
type transcript struct {
	B1, A1, B byte
	Sid       uint32
	M         hexBytes `json:"m_ntt"`
	SRn       hexBytes `json:"sR_ntt"`
	ER2n      hexBytes `json:"eR2_ntt"`
	ER12      hexBytes `json:"eR1_2"`
	SR        hexBytes `json:"sR"`
	ER2       hexBytes `json:"eR2"`
	SSn       hexBytes `json:"sS_ntt"`
	SS        hexBytes `json:"sS"`
	ES2       hexBytes `json:"eS2"`
	ES12      hexBytes `json:"eS1_2"`
	Rsid      hexBytes `json:"r_sid"`
	S0, S1    hexBytes
	HS0       hexBytes `json:"hS0"`
	HS1       hexBytes `json:"hS1"`
	H         hexBytes `json:"h_ntt"`
	P0        hexBytes `json:"p0_ntt"`
	PS        hexBytes `json:"pS_ntt"`
	Signal0   hexBytes
	Signal1   hexBytes
	SkS0      hexBytes `json:"skS0"`
	SkS1      hexBytes `json:"skS1"`
	U         hexBytes
	Hma0      hexBytes
	Hma1      hexBytes
	Mb        hexBytes
	M0, M1    hexBytes
}

func transcripts(t *testing.T) map[int][]transcript {
	t.Helper()
	out := map[int][]transcript{}
	for _, q := range []int{Q13313, Q15361} {
		b, err := os.ReadFile(fmt.Sprintf("testdata/kat%d.json", q))
		if err != nil {
			t.Fatal(err)
		}
		var f struct {
			Q, N  int
			Cases []transcript
		}
		if err := json.Unmarshal(b, &f); err != nil {
			t.Fatal(err)
		}
		if f.Q != q || f.N != N || len(f.Cases) != 4 {
			t.Fatalf("kat%d.json: q=%d n=%d, %d cases", q, f.Q, f.N, len(f.Cases))
		}
		out[q] = f.Cases
	}
	return out
}

func mustPoly(t *testing.T, p *Params, b []byte) poly {
	t.Helper()
	var a poly
	if !a.decode(p, b) {
		t.Fatalf("vector is no polynomial mod %d: %d octets", p.q, len(b))
	}
	return a
}

func same(t *testing.T, name string, got, want []byte) {
	t.Helper()
	if !bytes.Equal(got, want) {
		t.Errorf("%s: got %x..., want %x...", name, got[:min(16, len(got))], want[:min(16, len(want))])
	}
}

func wire(a *poly) []byte { return a.append(nil) }

// Every value of the artifact's transcripts, both moduli, all four (b1, a1).
func TestTranscripts(t *testing.T) {
	for q, cases := range transcripts(t) {
		seen := map[[2]byte]bool{}
		for i, c := range cases {
			t.Run(fmt.Sprintf("%d/%d", q, i), func(t *testing.T) {
				seen[[2]byte{c.B1, c.A1}] = true
				p, err := WithCommonPolynomial(q, c.M)
				if err != nil {
					t.Fatal(err)
				}
				d := receiverSecrets{b1: c.B1, sR: mustPoly(t, p, c.SR), eR: mustPoly(t, p, c.ER2), eR1: mustPoly(t, p, c.ER12)}
				p.ntt(&d.sR)
				p.ntt(&d.eR)
				same(t, "NTT(sR)", wire(&d.sR), c.SRn)
				same(t, "NTT(2eR)", wire(&d.eR), c.ER2n)
				back := d.sR
				p.inverseNTT(&back)
				same(t, "INTT(NTT(sR))", wire(&back), c.SR)
				copy(d.r[:], c.Rsid[4:])
				copy(d.s[0][:], c.S0)
				copy(d.s[1][:], c.S1)
				r, m1 := startReceiver(p, c.Sid, &d)
				same(t, "r_sid", m1.rid[:], c.Rsid)
				same(t, "hS0", m1.hS[0][:], c.HS0)
				same(t, "hS1", m1.hS[1][:], c.HS1)
				same(t, "h", wire(p.rom1(m1.rid[:])), c.H)
				same(t, "p0", wire(&m1.p0), c.P0)

				e := senderSecrets{a1: c.A1, sS: mustPoly(t, p, c.SS), eS: mustPoly(t, p, c.ES2), eS1: mustPoly(t, p, c.ES12)}
				p.ntt(&e.sS)
				p.ntt(&e.eS)
				same(t, "NTT(sS)", wire(&e.sS), c.SSn)
				copy(e.u[:], c.U)
				s, m2 := startSender(p, m1, &e)
				same(t, "pS", wire(&m2.pS), c.PS)
				same(t, "signal0", wire(&m2.w[0]), c.Signal0)
				same(t, "signal1", wire(&m2.w[1]), c.Signal1)
				same(t, "sk0", wire(&s.sk[0]), c.SkS0)
				same(t, "sk1", wire(&s.sk[1]), c.SkS1)
				same(t, "hma0", m2.hma[0][:], c.Hma0)
				same(t, "hma1", m2.hma[1][:], c.Hma1)

				m3, b, mb, err := r.Finish(m2.append(nil))
				if err != nil {
					t.Fatal(err)
				}
				if b != c.B || b != c.B1^c.A1 {
					t.Errorf("b = %d, want %d", b, c.B)
				}
				same(t, "Mb", mb[:], c.Mb)
				o0, o1, err := s.Finish(m3)
				if err != nil {
					t.Fatal(err)
				}
				same(t, "M0", o0[:], c.M0)
				same(t, "M1", o1[:], c.M1)
			})
		}
		if len(seen) != 4 {
			t.Errorf("modulus %d: cases cover %d of the 4 pairs (b1, a1)", q, len(seen))
		}
	}
}

// The known answer of ROM1 in the facts about the artifact.
func TestROM1(t *testing.T) {
	x := make([]byte, 20)
	for i := range x {
		x[i] = byte(i)
	}
	for q, want := range map[int][]uint16{
		Q15361: {3668, 1810, 11367, 9043, 9749, 460, 5, 13658, 4804},
		Q13313: {3668, 1810, 11367, 9043, 9749, 460, 5, 4804},
	} {
		p := Standard(q)
		a := p.rom1(x)
		for i, w := range want {
			if a[i] != w {
				t.Errorf("q=%d: word %d is %d, want %d", q, i, a[i], w)
			}
		}
		last := map[int]uint16{Q15361: 11913, Q13313: 5866}[q]
		if a[N-1] != last {
			t.Errorf("q=%d: last word %d, want %d", q, a[N-1], last)
		}
		h := hashPoly(a)
		start := map[int]string{Q15361: "35fea188", Q13313: "8d0044aa"}[q]
		if got := hex.EncodeToString(h[:4]); got != start {
			t.Errorf("q=%d: hash begins %s, want %s", q, got, start)
		}
	}
}

// The transform against its definition and the product against schoolbook.
func TestNTT(t *testing.T) {
	for _, q := range []int{Q13313, Q15361} {
		p := Standard(q)
		var a, b poly
		src := make([]byte, 8*N)
		rand.Read(src)
		for i := range N {
			a[i] = uint16((int(src[4*i])<<8 | int(src[4*i+1])) % q)
			b[i] = uint16((int(src[4*i+2])<<8 | int(src[4*i+3])) % q)
		}
		want := poly{}
		for i := range N {
			for j := range N {
				v := int64(a[i]) * int64(b[j]) % int64(q)
				k := i + j
				if k >= N {
					k, v = k-N, int64(q)-v
				}
				want[k] = uint16((int64(want[k]) + v) % int64(q))
			}
		}
		at, bt := a, b
		p.ntt(&at)
		p.ntt(&bt)
		r, _ := root(q)
		for _, k := range []int{0, 1, 2, 5, 300, 511} {
			rev := 0
			for i := range 9 {
				rev |= k >> i & 1 << (8 - i)
			}
			x := new(big.Int).Exp(big.NewInt(int64(r)), big.NewInt(int64(2*rev+1)), big.NewInt(int64(q)))
			sum, pow := new(big.Int), big.NewInt(1)
			for i := range N {
				sum.Add(sum, new(big.Int).Mul(pow, big.NewInt(int64(a[i]))))
				pow.Mul(pow, x).Mod(pow, big.NewInt(int64(q)))
			}
			if got := sum.Mod(sum, big.NewInt(int64(q))).Int64(); got != int64(at[k]) {
				t.Errorf("q=%d: value %d is %d, want %d", q, k, at[k], got)
			}
		}
		var prod poly
		p.mul(&prod, &at, &bt)
		p.inverseNTT(&prod)
		if prod != want {
			t.Errorf("q=%d: product differs from schoolbook", q)
		}
	}
}

func TestReduce(t *testing.T) {
	for _, q := range []int{Q13313, Q15361} {
		p := Standard(q)
		check := func(a uint32) {
			if got := p.reduce(a); got != a%p.q {
				t.Fatalf("%d mod %d = %d", a, q, got)
			}
		}
		for k := uint32(0); k < math.MaxUint32-p.q; k += p.q {
			check(k)
			check(k + p.q - 1)
		}
		check(math.MaxUint32)
	}
}

// The table of the sampler, computed again with 400-bit floats.
func TestThresholds(t *testing.T) {
	const prec = 400
	f := func(x float64) *big.Float { return new(big.Float).SetPrec(prec).SetFloat64(x) }
	// exp(-1/8) by its series, then weights exp(-x^2/8) as powers of it.
	base, term := f(1), f(1)
	for i := 1; i < 120; i++ {
		term.Mul(term, f(-0.125)).Quo(term, f(float64(i)))
		base.Add(base, term)
	}
	weight := make([]*big.Float, 60)
	sum := f(0)
	for x := range weight {
		w := f(1)
		for range x * x {
			w.Mul(w, base)
		}
		if x > 0 {
			w.Mul(w, f(2)) // both signs
		}
		weight[x] = w
		sum.Add(sum, w)
	}
	acc := f(0)
	for i := range 31 {
		acc.Add(acc, weight[i])
		v := new(big.Float).SetPrec(prec).Quo(acc, sum)
		v.SetMantExp(v, 127).Add(v, f(0.5))
		n, _ := v.Int(nil)
		if i >= len(thresholds) {
			if n.BitLen() <= 127 {
				t.Errorf("threshold %d is missing: %x", i, n)
			}
			continue
		}
		got := new(big.Int).SetUint64(thresholds[i][0])
		got.Lsh(got, 63).Add(got, new(big.Int).SetUint64(thresholds[i][1]))
		if got.Cmp(n) != 0 {
			t.Errorf("threshold %d is %x, want %x", i, got, n)
		}
	}
}

func TestGaussian(t *testing.T) {
	low, high := make([]byte, 16), bytes.Repeat([]byte{255}, 16)
	if gaussian(low) != 0 || gaussian(high) != -26 {
		t.Errorf("ends: %d %d", gaussian(low), gaussian(high))
	}
	high[8] = 0xfe
	if gaussian(high) != 26 {
		t.Errorf("sign bit: %d", gaussian(high))
	}
	// Mean, variance and the frequency of each small value, fixed stream.
	stream, err := expand(bytes.NewReader(make([]byte, 32)))
	if err != nil {
		t.Fatal(err)
	}
	const n = 400000
	var sum, sq float64
	count := map[int32]float64{}
	b := make([]byte, 16)
	for range n {
		io.ReadFull(stream, b)
		x := gaussian(b)
		sum += float64(x)
		sq += float64(x) * float64(x)
		count[x]++
	}
	if m, v := sum/n, sq/n; math.Abs(m) > 0.02 || math.Abs(v-4) > 0.05 {
		t.Errorf("mean %f, variance %f, want 0 and 4", m, v)
	}
	for x := int32(-6); x <= 6; x++ {
		want := math.Exp(-float64(x*x)/8) / math.Sqrt(8*math.Pi)
		if got := count[x] / n; math.Abs(got-want) > 5*math.Sqrt(want/n) {
			t.Errorf("P(%d) = %f, want %f", x, got, want)
		}
	}
}

func TestSignalAndMod2(t *testing.T) {
	for _, q := range []int{Q13313, Q15361} {
		p := Standard(q)
		for v := range q {
			c := v
			if c > (q-1)/2 {
				c -= q
			}
			k := poly{uint16(v)}
			var w, sk poly
			p.signal(&w, &k)
			want := uint16(0)
			if c < -(q/4) || c > q/4 {
				want = 1
			}
			if w[0] != want {
				t.Fatalf("q=%d: signal(%d) = %d", q, v, w[0])
			}
			for wi := range uint16(2) {
				w[0] = wi
				p.mod2(&sk, &k, &w)
				x := (v + int(wi)*(q/2)) % q
				if x > (q-1)/2 {
					x -= q
				}
				if int(sk[0]) != x&1 {
					t.Fatalf("q=%d: mod2(%d, %d) = %d", q, v, wi, sk[0])
				}
			}
		}
	}
}

func exchange(t *testing.T, p *Params, sid uint32) (b byte) {
	t.Helper()
	r, m1, err := NewReceiver(p, sid, rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	s, m2, err := NewSender(p, m1, rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	m3, b, mb, err := r.Finish(m2)
	if err != nil {
		t.Fatal(err)
	}
	m0, o1, err := s.Finish(m3)
	if err != nil {
		t.Fatal(err)
	}
	if len(m1) != Message1Size || len(m2) != Message2Size || len(m3) != Message3Size {
		t.Errorf("sizes %d %d %d", len(m1), len(m2), len(m3))
	}
	both := [2][32]byte{m0, o1}
	if b > 1 || both[b] != mb || both[1-b] == mb || m0 == ([32]byte{}) {
		t.Errorf("b=%d: the receiver does not hold M_b alone", b)
	}
	if _, _, _, err := r.Finish(m2); err != ErrUsed {
		t.Errorf("receiver used twice: %v", err)
	}
	if _, _, err := s.Finish(m3); err != ErrUsed {
		t.Errorf("sender used twice: %v", err)
	}
	return b
}

func TestExchange(t *testing.T) {
	for _, q := range []int{Q13313, Q15361} {
		count := [2]int{}
		for i := range uint32(60) {
			count[exchange(t, Standard(q), i)]++
		}
		if count[0] < 8 || count[1] < 8 { // below 2^-30 for a fair bit
			t.Errorf("q=%d: b was 0 %d times and 1 %d times", q, count[0], count[1])
		}
	}
}

func TestWrongMessages(t *testing.T) {
	p := Standard(Q13313)
	start := func() (*Receiver, []byte, *Sender, []byte) {
		r, m1, err := NewReceiver(p, 7, rand.Reader)
		if err != nil {
			t.Fatal(err)
		}
		s, m2, err := NewSender(p, m1, rand.Reader)
		if err != nil {
			t.Fatal(err)
		}
		return r, m1, s, m2
	}
	change := func(b []byte, at int, v ...byte) []byte {
		c := append([]byte(nil), b...)
		copy(c[at:], v)
		return c
	}
	_, m1, _, _ := start()
	for name, m := range map[string][]byte{
		"empty":             nil,
		"short":             m1[1:],
		"long":              append(m1[:len(m1):len(m1)], 0),
		"coefficient q":     change(m1, 4, 0x01, 0x34), // 13313
		"last coefficient":  change(m1, 4+1022, 0xff, 0xff),
		"other session":     change(m1, 0, 8),
		"r_sid of other id": change(m1, 4+1024, 8),
	} {
		if s, out, err := NewSender(p, m, rand.Reader); !errors.Is(err, ErrMessage) || s != nil || out != nil {
			t.Errorf("message 1, %s: %v", name, err)
		}
	}
	u := 4 + 1024 + 128
	for name, c := range map[string]struct {
		f    func(m []byte) []byte
		want error
	}{
		"empty":         {func(m []byte) []byte { return nil }, ErrMessage},
		"short":         {func(m []byte) []byte { return m[1:] }, ErrMessage},
		"coefficient":   {func(m []byte) []byte { return change(m, 4+2, 0xff, 0x3f) }, ErrMessage},
		"other session": {func(m []byte) []byte { return change(m, 0, 9) }, ErrAbort},
		"both checks":   {func(m []byte) []byte { return change(m, u+16, make([]byte, 64)...) }, ErrAbort},
		"equal checks":  {func(m []byte) []byte { return change(m, u+48, m[u+16:u+48]...) }, ErrAbort},
		"other pS":      {func(m []byte) []byte { return change(m, 4, bytes.Repeat([]byte{1}, 64)...) }, ErrAbort},
	} {
		r, _, _, m2 := start()
		bad := c.f(m2)
		m3, _, mb, err := r.Finish(bad)
		if !errors.Is(err, c.want) || m3 != nil || mb != ([32]byte{}) {
			t.Errorf("message 2, %s: %v", name, err)
		}
		if _, _, _, err := r.Finish(m2); err != ErrUsed {
			t.Errorf("message 2, %s: the receiver lives on after an error: %v", name, err)
		}
		if r.receiverSecrets != (receiverSecrets{}) {
			t.Errorf("message 2, %s: secrets remain", name)
		}
	}
	for name, c := range map[string]struct {
		at   int
		want error
	}{"session": {0, ErrAbort}, "S0": {4, ErrAbort}, "S0 end": {19, ErrAbort}, "S1": {20, ErrAbort}, "S1 end": {35, ErrAbort}, "size": {-1, ErrMessage}} {
		r, _, s, m2 := start()
		m3, _, _, err := r.Finish(m2)
		if err != nil {
			t.Fatal(err)
		}
		bad := append([]byte(nil), m3...)
		if c.at < 0 {
			bad = bad[1:]
		} else {
			bad[c.at] ^= 1
		}
		m0, o1, err := s.Finish(bad)
		if !errors.Is(err, c.want) || m0 != ([32]byte{}) || o1 != ([32]byte{}) {
			t.Errorf("message 3, %s: %v", name, err)
		}
		if _, _, err := s.Finish(m3); err != ErrUsed {
			t.Errorf("message 3, %s: the sender lives on after an error: %v", name, err)
		}
		if s.sk != ([2]poly{}) {
			t.Errorf("message 3, %s: keys remain", name)
		}
	}
	r, _, s, m2 := start()
	r.Close()
	s.Close()
	if _, _, _, err := r.Finish(m2); err != ErrUsed {
		t.Errorf("closed receiver: %v", err)
	}
	if _, _, err := s.Finish(make([]byte, Message3Size)); err != ErrUsed {
		t.Errorf("closed sender: %v", err)
	}
	broken := bytes.NewReader(nil)
	if _, _, err := NewReceiver(p, 1, broken); err == nil {
		t.Error("a receiver without randomness")
	}
	if _, _, err := NewSender(p, m1, broken); err == nil {
		t.Error("a sender without randomness")
	}
}

func TestParams(t *testing.T) {
	if Standard(12289) != nil || Standard(0) != nil {
		t.Error("an unknown modulus has parameters")
	}
	for _, q := range []int{Q13313, Q15361} {
		p := Standard(q)
		if p.Modulus() != q || p.m == nil || *p.m == (poly{}) {
			t.Errorf("modulus %d", p.Modulus())
		}
		m := wire(p.m)
		o, err := WithCommonPolynomial(q, m)
		if err != nil || *o.m != *p.m {
			t.Errorf("own common polynomial: %v", err)
		}
		m[0], m[1] = 0xff, 0xff
		if _, err := WithCommonPolynomial(q, m); err == nil {
			t.Error("coefficient not below q accepted")
		}
		if _, err := WithCommonPolynomial(q, m[2:]); err == nil {
			t.Error("short polynomial accepted")
		}
	}
	if _, err := WithCommonPolynomial(7681, make([]byte, 1024)); err == nil {
		t.Error("unknown modulus accepted")
	}
}

// FuzzMessages: what decodes, encodes to the same octets; nothing panics.
func FuzzMessages(f *testing.F) {
	p := Standard(Q13313)
	r, m1, err := NewReceiver(p, 1, bytes.NewReader(make([]byte, 32)))
	if err != nil {
		f.Fatal(err)
	}
	_, m2, err := NewSender(p, m1, bytes.NewReader(make([]byte, 32)))
	if err != nil {
		f.Fatal(err)
	}
	m3, _, _, err := r.Finish(m2)
	if err != nil {
		f.Fatal(err)
	}
	f.Add(m1)
	f.Add(m2)
	f.Add(m3)
	f.Add([]byte{})
	f.Fuzz(func(t *testing.T, b []byte) {
		var a message1
		if a.decode(p, b) == nil && !bytes.Equal(a.append(nil), b) {
			t.Error("message 1 does not encode to itself")
		}
		var c message2
		if c.decode(p, b) == nil && !bytes.Equal(c.append(nil), b) {
			t.Error("message 2 does not encode to itself")
		}
		var d message3
		if d.decode(b) == nil && !bytes.Equal(d.append(nil), b) {
			t.Error("message 3 does not encode to itself")
		}
		if s, out, err := NewSender(p, b, bytes.NewReader(make([]byte, 32))); err != nil && (s != nil || out != nil) {
			t.Error("an error with a result")
		}
	})
}

func BenchmarkROT(b *testing.B) {
	p := Standard(Q13313)
	b.Run("MSG1", func(b *testing.B) {
		for b.Loop() {
			NewReceiver(p, 1, rand.Reader)
		}
	})
	_, m1, _ := NewReceiver(p, 1, rand.Reader)
	b.Run("MSG2", func(b *testing.B) {
		for b.Loop() {
			NewSender(p, m1, rand.Reader)
		}
	})
	b.Run("Full", func(b *testing.B) {
		for b.Loop() {
			r, m1, _ := NewReceiver(p, 1, rand.Reader)
			s, m2, _ := NewSender(p, m1, rand.Reader)
			m3, _, _, _ := r.Finish(m2)
			if _, _, err := s.Finish(m3); err != nil {
				b.Fatal(err)
			}
		}
	})
}
