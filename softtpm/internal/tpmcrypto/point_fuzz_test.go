// SPDX-License-Identifier: Apache-2.0

package tpmcrypto

import (
	"bytes"
	"math/big"
	"testing"
)

// FuzzPoint: a pair of coordinates is a point exactly if big-number arithmetic
// says so: both below p, and on the curve. What is accepted comes back with full
// size and is accepted again.
func FuzzPoint(f *testing.F) {
	for i, id := range CurveIDs() {
		p := CurveByID(id).Parameters()
		f.Add(uint8(i), p.Gx, p.Gy)
		f.Add(uint8(i), p.P, p.Gy)
		f.Add(uint8(i), []byte{}, []byte{})
		f.Add(uint8(i), append([]byte{0}, p.Gx...), p.Gy)
	}
	f.Fuzz(func(t *testing.T, which uint8, x, y []byte) {
		c := CurveByID(CurveIDs()[int(which)%len(CurveIDs())])
		got, err := c.CheckPoint(x, y)
		want := len(x) <= c.Size() && len(y) <= c.Size() && onCurve(&c.domain, new(big.Int).SetBytes(x), new(big.Int).SetBytes(y))
		if want != (err == nil) {
			t.Fatalf("curve %#x, (%x, %x): on the curve %t, yet %v", c.ID, x, y, want, err)
		}
		if err != nil {
			if got.X != nil || got.Y != nil {
				t.Fatalf("a point beside an error: %+v", got)
			}
			return
		}
		again, err := c.CheckPoint(got.X, got.Y)
		if err != nil || !bytes.Equal(again.X, got.X) || !bytes.Equal(again.Y, got.Y) || len(got.X) != c.Size() || new(big.Int).SetBytes(got.X).Cmp(new(big.Int).SetBytes(x)) != 0 {
			t.Fatalf("(%x, %x) became %+v and then %+v, %v", x, y, got, again, err)
		}
	})
}

func onCurve(d *domain, x, y *big.Int) bool {
	if x.Cmp(d.p) >= 0 || y.Cmp(d.p) >= 0 {
		return false
	}
	left := new(big.Int).Exp(y, big.NewInt(2), d.p)
	right := new(big.Int).Mul(x, x)
	right.Add(right, d.a).Mul(right, x).Add(right, d.b).Mod(right, d.p)
	return left.Cmp(right) == 0
}
