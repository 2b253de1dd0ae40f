// SPDX-License-Identifier: Apache-2.0

package verify

import "slices"

// SM2SM3 is SM2 with SM3 (GB/T 32918.2), which Hygon's chips sign with. JOSE
// has no name for it; this is ours.
const SM2SM3 = "SM2-SM3"

// signatureNames are the algorithms that Result.Signature can have, by their
// JOSE names (RFC 7518, and FIPS 204's own for ML-DSA).
var signatureNames = []string{"ES256", "ES384", "ES512", "RS256", "RS384", "RS512", "PS256", "PS384", "PS512", "ML-DSA-44", "ML-DSA-65", "ML-DSA-87", SM2SM3}

// KnownSignature reports whether evidence can be signed with name.
func KnownSignature(name string) bool { return slices.Contains(signatureNames, name) }
