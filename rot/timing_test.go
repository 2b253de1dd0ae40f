// SPDX-License-Identifier: Apache-2.0

package rot

import (
	"crypto/rand"
	"math"
	mrand "math/rand/v2"
	"slices"
	"testing"
	"time"
)

// The timing test is after "dudect" (Reparaz, Balasch, Verbauwhede 2017): time a
// function on two classes of secrets, one fixed and one random, and ask with
// Welch's t-test whether the two sets of times have the same mean. Machines are
// noisy, so that the slowest tenth is thrown away, and a function is called
// leaky only if every one of a few attempts says so. A leaky function is tested
// too: the test must be able to see.

// welch returns Welch's t of two samples.
func welch(a, b []float64) float64 {
	stat := func(x []float64) (mean, v float64) {
		for _, y := range x {
			mean += y
		}
		mean /= float64(len(x))
		for _, y := range x {
			v += (y - mean) * (y - mean)
		}
		return mean, v / float64(len(x)-1)
	}
	ma, va := stat(a)
	mb, vb := stat(b)
	return (ma - mb) / math.Sqrt(va/float64(len(a))+vb/float64(len(b))+1e-9)
}

// attempt times run on n inputs of random class and returns |t|. prepare sets
// up an input of a class and is not timed.
func attempt(n int, prepare func(class int), run func()) float64 {
	times := make([]float64, n)
	classes := make([]int, n)
	for i := range times {
		classes[i] = mrand.IntN(2)
		prepare(classes[i])
		start := time.Now()
		run()
		times[i] = float64(time.Since(start))
	}
	sorted := slices.Sorted(slices.Values(times))
	limit := sorted[n*9/10]
	var set [2][]float64
	for i, d := range times {
		if d <= limit {
			set[classes[i]] = append(set[classes[i]], d)
		}
	}
	if len(set[0]) < n/10 || len(set[1]) < n/10 {
		return math.Inf(1) // one class fell off: they are far apart
	}
	return math.Abs(welch(set[0], set[1]))
}

// leaks says whether all attempts find a difference. 10 is far above the 4.5
// that dudect takes for suspicious: the samples of a busy machine are not independent.
func leaks(prepare func(class int), run func()) (bool, float64) {
	least := math.Inf(1)
	for range 6 {
		if t := attempt(1500, prepare, run); t < 10 {
			return false, t
		} else {
			least = min(least, t)
		}
	}
	return true, least
}

// leakyGaussian is gaussian with the early exit that it must not have.
func leakyGaussian(hi uint64) int32 {
	for i := range thresholds {
		if hi < thresholds[i][0] {
			return int32(i)
		}
	}
	return int32(len(thresholds))
}

// TestConstantTime: no function that handles secrets tells an all-zero or
// extreme secret from random ones by its time, and the method sees one that does.
func TestConstantTime(t *testing.T) {
	p := Standard(Q13313)
	var fixed, in, out, w poly
	var random [32]poly
	for i := range random {
		for j := range random[i] {
			random[i][j] = uint16(mrand.IntN(int(p.q)))
		}
	}
	for i := range w {
		w[i] = uint16(i & 1)
	}
	pick := func(class int) {
		if class == 0 {
			in = fixed
		} else {
			in = random[mrand.IntN(len(random))]
		}
	}
	var octets [N * sampleOctets]byte
	pickOctets := func(class int) {
		rand.Read(octets[:]) // drawn in both classes, so that caches are alike
		if class == 0 {
			clear(octets[:])
		}
	}
	var sink int32
	draws := func() *receiverSecrets {
		d := &receiverSecrets{sR: random[0], eR: random[1], eR1: random[2]}
		return d
	}
	d := draws()
	for _, c := range []struct {
		name    string
		leaky   bool
		prepare func(class int)
		run     func()
	}{
		{"a sampler with an early exit", true, pickOctets, func() {
			for i := 0; i < len(octets); i += sampleOctets {
				sink += leakyGaussian(uint64(octets[i+7]) << 56)
			}
		}},
		{"gaussian", false, pickOctets, func() {
			for i := 0; i < len(octets); i += sampleOctets {
				sink += gaussian(octets[i:])
			}
		}},
		{"ntt", false, pick, func() { p.ntt(&in) }},
		{"inverseNTT", false, pick, func() { p.inverseNTT(&in) }},
		{"mul", false, pick, func() { p.mul(&out, &in, p.m) }},
		{"add and sub", false, pick, func() { p.add(&out, &in, p.m); p.sub(&out, &in, p.m) }},
		{"signal", false, pick, func() { p.signal(&out, &in) }},
		{"mod2", false, pick, func() { p.mod2(&out, &in, &w) }},
		{"message 1, by b1", false, func(class int) { d.b1 = byte(class) }, func() { startReceiver(p, 1, d) }},
	} {
		leaky, stat := leaks(c.prepare, c.run)
		t.Logf("%s: |t| = %.1f", c.name, stat)
		if leaky != c.leaky {
			t.Errorf("%s: leaks %v (|t| = %.1f), want %v", c.name, leaky, stat, c.leaky)
		}
	}
	if sink == 1 {
		t.Log("kept") // the compiler must not drop the calls
	}
}
