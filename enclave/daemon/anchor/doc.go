// SPDX-License-Identifier: Apache-2.0

// Package anchor ties an enclave monitor to a TPM: it keeps the monitor's root
// secret (Kroot) sealed to the measured monitor, makes the monitor's attestation
// key (hapk), closes the TPM's PCRs behind both, and signs what enclaves report.
//
// A launcher measures the monitor's image with [Measure] before it starts it.
// The monitor calls [Open] first of all, takes the secret of EGETKEY from
// [Anchor.KeyRoot], and asks [Anchor.Quote] for evidence. [Inproc] is the same
// without a TPM, for development; its evidence proves nothing and says so.
//
// What Open does, in this order (the seed's section 3.3):
//
//  1. the key PCR must be as at the TPM's reset: no monitor ran since;
//  2. Kroot is unsealed, or at the first start drawn from the TPM's random
//     number generator and sealed to the monitor PCR, the key PCR as it is
//     now, and further PCRs of choice;
//  3. the attestation key of the TPM (AK) is loaded; its authorization value
//     derives from Kroot, so that only this monitor can quote with it;
//  4. hapk is made, its record goes into the key PCR;
//  5. both PCRs get a separator. From here on, until the TPM is reset, nobody
//     can unseal Kroot, the monitor neither: Open tries, and fails if it can.
//
// Source: TPM Library Part 3 (TPM2_PolicyPCR, TPM2_Unseal, TPM2_Quote); the
// formats are those of attest/evidence.
package anchor
