// SPDX-License-Identifier: Apache-2.0

package sigma

import (
	"crypto/mlkem"
	"encoding/binary"
	"errors"
	"fmt"
)

// Sizes in bytes. Shares are as in TLS (draft-ietf-tls-ecdhe-mlkem, 4): the
// ML-KEM part first.
const (
	nonceSize  = 32
	xSize      = 32
	shareV     = mlkem.EncapsulationKeySize768 + xSize
	shareA     = mlkem.CiphertextSize768 + xSize
	macSize    = 32
	maxBlob    = 1 << 20 // evidence
	maxSig     = 1 << 13
	headerSize = 4
)

// ErrMalformed is wrapped by every error about the form of a message.
var ErrMalformed = errors.New("sigma: malformed message")

// Headers: "HFS", and the number of the message.
var (
	head1 = [headerSize]byte{'H', 'F', 'S', 1}
	head2 = [headerSize]byte{'H', 'F', 'S', 2}
	head3 = [headerSize]byte{'H', 'F', 'S', 3}
)

// m1 is the first message: header, nonce, share.
type m1 struct {
	nonce [nonceSize]byte
	share [shareV]byte
}

func (m *m1) encode() []byte {
	b := append(head1[:len(head1):len(head1)], m.nonce[:]...)
	return append(b, m.share[:]...)
}

func parse1(b []byte) (*m1, error) {
	m := &m1{}
	if len(b) != headerSize+nonceSize+shareV || [headerSize]byte(b) != head1 {
		return nil, fmt.Errorf("%w: expected a first message of %d bytes, got %d", ErrMalformed, headerSize+nonceSize+shareV, len(b))
	}
	copy(m.nonce[:], b[headerSize:])
	copy(m.share[:], b[headerSize+nonceSize:])
	return m, nil
}

// m2 is the second: header, share, u32 size of the evidence, evidence, MAC.
type m2 struct {
	share    [shareA]byte
	evidence []byte
	mac      [macSize]byte
}

// covered is what the MACs cover of it.
func (m *m2) covered() []byte {
	b := append(head2[:len(head2):len(head2)], m.share[:]...)
	b = binary.BigEndian.AppendUint32(b, uint32(len(m.evidence)))
	return append(b, m.evidence...)
}

func (m *m2) encode() []byte { return append(m.covered(), m.mac[:]...) }

func parse2(b []byte) (*m2, error) {
	const fixed = headerSize + shareA + 4
	if len(b) < fixed+macSize || [headerSize]byte(b) != head2 {
		return nil, fmt.Errorf("%w: expected a second message of at least %d bytes, got %d", ErrMalformed, fixed+macSize, len(b))
	}
	m := &m2{share: [shareA]byte(b[headerSize:])}
	n := binary.BigEndian.Uint32(b[headerSize+shareA:])
	if n == 0 || n > maxBlob || int(n) != len(b)-fixed-macSize {
		return nil, fmt.Errorf("%w: evidence of %d bytes in a message of %d", ErrMalformed, n, len(b))
	}
	m.evidence = b[fixed : fixed+int(n)]
	copy(m.mac[:], b[fixed+int(n):])
	return m, nil
}

// m3 is the third: header, u16 size of the signature (0: none), signature, MAC.
type m3 struct {
	sig []byte
	mac [macSize]byte
}

func (m *m3) covered() []byte {
	b := binary.BigEndian.AppendUint16(head3[:len(head3):len(head3)], uint16(len(m.sig)))
	return append(b, m.sig...)
}

func (m *m3) encode() []byte { return append(m.covered(), m.mac[:]...) }

func parse3(b []byte) (*m3, error) {
	const fixed = headerSize + 2
	if len(b) < fixed+macSize || [headerSize]byte(b) != head3 {
		return nil, fmt.Errorf("%w: expected a third message of at least %d bytes, got %d", ErrMalformed, fixed+macSize, len(b))
	}
	n := int(binary.BigEndian.Uint16(b[headerSize:]))
	if n > maxSig || n != len(b)-fixed-macSize {
		return nil, fmt.Errorf("%w: a signature of %d bytes in a message of %d", ErrMalformed, n, len(b))
	}
	m := &m3{sig: b[fixed : fixed+n]}
	copy(m.mac[:], b[fixed+n:])
	return m, nil
}
