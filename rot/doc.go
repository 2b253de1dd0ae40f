// SPDX-License-Identifier: Apache-2.0

// Package rot is Random Oblivious Transfer from Ring-LWE: the protocol ROTed
// (Branco et al., TCHES 2021(4)) as its public artifact computes it. Two
// parties exchange three messages; then the sender holds two random 32-octet
// strings M0 and M1, and the receiver holds a random bit b and M_b. The sender
// does not learn b, the receiver does not learn the other string, and neither
// chooses b.
//
// Call it like this:
//
//	receiver: r, msg1, err := rot.NewReceiver(params, sid, rand.Reader)
//	sender:   s, msg2, err := rot.NewSender(params, msg1, rand.Reader)
//	receiver: msg3, b, mb, err := r.Finish(msg2)
//	sender:   m0, m1, err := s.Finish(msg3)
//
// Files: params.go (moduli, common polynomial), poly.go (arithmetic and number
// theoretic transform), gauss.go (sampler), oracle.go (hashes), signal.go
// (reconciliation), message.go (wire form), receiver.go, sender.go.
//
// Promises:
//   - A Receiver or Sender works once. Finish erases the state whether it
//     succeeds or not; so does Close.
//   - Every number from the peer is range-checked before use; a message that
//     is wrong in any way is refused as a whole.
//   - Time does not depend on secrets. Each function that handles secrets says
//     in its comment why. Public are: message sizes, the modulus, whether a run
//     aborts.
//
// Limits: the hash is BLAKE3, as in the artifact, which is not an algorithm of
// the TPM registry. The security claims (universal composability in the random
// oracle model, 138 bits classically at modulus 15361) are the paper's. A
// sender who corrupts one check value hma can learn b from whether the receiver
// aborts: after an abort the session's outputs must not be used, and a receiver
// should treat repeated aborts as an attack.
package rot
