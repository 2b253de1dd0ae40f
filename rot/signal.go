// SPDX-License-Identifier: Apache-2.0

package rot

// The reconciliation of Ding, Xie and Lin (2012): from nearly equal polynomials
// two parties get equal bits, with the help of a public signal. Time is constant:
// masks and comparisons without branches, over all coefficients.

// signal sets w[i] to 1 where the centred k[i] lies outside [-t, t], t = q/4
// rounded down. The scheme's second signal function, for a random bit r, uses
// (q+1)/4, which for both moduli is the same number: so there is no r here.
func (p *Params) signal(w, k *poly) {
	t := p.q / 4
	for i := range w {
		v := uint32(k[i])
		w[i] = uint16(below(t, v) & below(v, p.q-t))
	}
}

// mod2 sets sk[i] to the parity of the centred (k[i] + w[i]*(q-1)/2 mod q).
func (p *Params) mod2(sk, k, w *poly) {
	half := p.q / 2
	for i := range sk {
		v := p.reduceOnce(uint32(k[i]) + half*uint32(w[i]))
		// Above half the centred value is v-q, of the other parity.
		sk[i] = uint16(v&1 ^ below(half, v))
	}
}
