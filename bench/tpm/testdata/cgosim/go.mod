module cgosim

go 1.26.0

require (
	github.com/google/go-tpm-tools v0.4.7
	holdfast v0.0.0
)

require (
	filippo.io/bigmod v0.1.0 // indirect
	filippo.io/edwards25519 v1.2.0 // indirect
	filippo.io/mldsa v1.0.0 // indirect
	filippo.io/nistec v0.0.4 // indirect
	github.com/cloudflare/circl v1.6.5 // indirect
	github.com/emmansun/gmsm v0.44.0 // indirect
	github.com/google/go-tpm v0.9.8 // indirect
	github.com/klauspost/cpuid/v2 v2.0.9 // indirect
	golang.org/x/crypto v0.57.0 // indirect
	golang.org/x/sys v0.48.0 // indirect
	lukechampine.com/blake3 v1.4.1 // indirect
)

replace holdfast => ../../../..
