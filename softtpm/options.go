// SPDX-License-Identifier: Apache-2.0

package softtpm

import (
	"fmt"
	"time"

	"holdfast/tpm2"
)

// Options tunes a TPM. The zero value is a good default.
type Options struct {
	// CommandSize is the largest command and response in bytes: 8192 (the
	// default), or 4096 for kernels and machine emulators with 4 KiB buffers; a response
	// that does not fit then fails with TPM_RC_SIZE and no effect.
	CommandSize int
	// Objects is the number of slots for transient objects and sequences, 3
	// to 64, default 8.
	Objects int
	// Sessions is the number of slots for loaded sessions, 3 to 64, default 64.
	Sessions int
	// PersistentObjects bounds the objects made persistent, 7 to 256, default 64.
	PersistentObjects int
	// NVIndices bounds the number of NV indices, 16 to 1024, default 128.
	NVIndices int
	// NVBytes bounds the data in all NV indices together, default 65536.
	NVBytes int
	// Components are the attached components (Part 1, "Attached Component"):
	// the first one has the handle 0x90000000, the next 0x90000001. At most 16.
	Components []Component
	// OnACT is called when an authenticated countdown timer, 0 to 3, starts or
	// stops to signal: on expiry, at TPM2_ACT_SetTimeout, at Startup. It runs
	// inside a command and must not call the TPM. Without it the signal can be
	// read only (TPM.ACTSignaled, TPM_CAP_ACT).
	OnACT func(timer int, signaled bool)
	// Profile is ProfileFull, the default, or ProfileClassic.
	Profile Profile
	// Now is the clock, default time.Now. Only differences count.
	Now func() time.Time
}

// Profile chooses what TPM_CAP_ALGS and TPM_CAP_ECC_CURVES tell, and how policies
// compare negative numbers.
type Profile string

// Profiles.
const (
	// ProfileFull names all algorithms.
	ProfileFull Profile = "full"
	// ProfileClassic leaves out SHA-3 and what came after version 1.59 of the
	// specification, for clients that try each algorithm that is named and stop at one that their own
	// library does not know (tpm2-tools 5.4 with tpm2-tss 3). They work all the same.
	// PolicyNV and the like compare two negative numbers as sign and magnitude, as
	// TPMs did before version 1.83; the text says two's complement (Part 2, 6.8).
	ProfileClassic Profile = "classic"
)

// names says whether TPM_CAP_ALGS names an algorithm.
func (p Profile) names(a tpm2.Alg) bool {
	return p != ProfileClassic || a <= tpm2.AlgECB && a != tpm2.AlgSHA3_256 && a != tpm2.AlgSHA3_384 && a != tpm2.AlgSHA3_512
}

// namesCurve says whether TPM_CAP_ECC_CURVES names a curve.
func (p Profile) namesCurve(c tpm2.Curve) bool {
	return p != ProfileClassic || c != tpm2.Curve25519 && c != tpm2.Curve448
}

// Largest numbers of slots; the arrays of the state have these sizes.
const (
	maxObjects  = 64
	maxSessions = 64
)

// withDefaults fills in zero fields and refuses values out of range.
func (o Options) withDefaults() (Options, error) {
	for _, f := range []struct {
		name           string
		v              *int
		def, low, high int
	}{
		{"CommandSize", &o.CommandSize, 8192, 4096, 8192},
		{"Objects", &o.Objects, 8, 3, maxObjects},
		{"Sessions", &o.Sessions, maxSessions, 3, maxSessions},
		{"PersistentObjects", &o.PersistentObjects, 64, 7, 256},
		{"NVIndices", &o.NVIndices, 128, 16, 1024},
		{"NVBytes", &o.NVBytes, 65536, 2048, 1 << 20},
	} {
		if *f.v == 0 {
			*f.v = f.def
		}
		if *f.v < f.low || *f.v > f.high {
			return o, fmt.Errorf("softtpm: option %s is %d, must be from %d to %d", f.name, *f.v, f.low, f.high)
		}
	}
	if o.CommandSize != 4096 && o.CommandSize != 8192 {
		return o, fmt.Errorf("softtpm: option CommandSize is %d, must be 4096 or 8192", o.CommandSize)
	}
	if len(o.Components) > maxComponents {
		return o, fmt.Errorf("softtpm: option Components has %d, must be at most %d", len(o.Components), maxComponents)
	}
	switch o.Profile {
	case "":
		o.Profile = ProfileFull
	case ProfileFull, ProfileClassic:
	default:
		return o, fmt.Errorf("softtpm: option Profile is %q, must be full or classic", o.Profile)
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	return o, nil
}
