// SPDX-License-Identifier: Apache-2.0

package binder

import "crypto/sha256"

const (
	mutualLabel = label + "/mutual"
	coreLabel   = mutualLabel + "/core"
)

// MutualCore is what both binders of a mutual session are about: the group,
// both key shares (the client's first) and both hellos.
//
//	core = SHA-256("holdfast/latch/v1/mutual/core" ‖ group u16 ‖ len u16 ‖ client share ‖ len u16 ‖ server share ‖ transcript)
//
// Arguments are as for [Compute]; client is the key exchange field of the
// ClientHello that server answers. The two shares of a KEM differ in length.
func MutualCore(group uint16, client, server []byte, transcript [32]byte) [32]byte {
	if len(client) > MaxShare || len(server) > MaxShare {
		panic("binder: key share longer than TLS allows")
	}
	var room [4096]byte
	b := append(room[:0], coreLabel...)
	b = append(b, byte(group>>8), byte(group), byte(len(client)>>8), byte(len(client)))
	b = append(b, client...)
	b = append(b, byte(len(server)>>8), byte(len(server)))
	b = append(b, server...)
	b = append(b, transcript[:]...)
	return sha256.Sum256(b)
}

// MutualClient is the binder that the client's machine attests:
//
//	SHA-256("holdfast/latch/v1/mutual" ‖ role u8 = 2 ‖ core)
func MutualClient(core [32]byte) [32]byte {
	b := append([]byte(mutualLabel), byte(Client))
	return sha256.Sum256(append(b, core[:]...))
}

// MutualServer is the combined binder that the server's machine attests after
// it has verified the client's evidence:
//
//	SHA-256("holdfast/latch/v1/mutual" ‖ role u8 = 1 ‖ core ‖ client leaf)
//
// clientLeaf is the leaf of the client's binder with the client's claims, so
// that the server signs which client it accepted.
func MutualServer(core, clientLeaf [32]byte) [32]byte {
	b := append([]byte(mutualLabel), byte(Server))
	b = append(b, core[:]...)
	return sha256.Sum256(append(b, clientLeaf[:]...))
}
