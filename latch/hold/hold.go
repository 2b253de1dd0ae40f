// SPDX-License-Identifier: Apache-2.0

// Package hold says what a hold adapter gives to the gate and takes from it:
// copies of what the client sent and received while it is held, and verdicts
// that release or reset a connection. The adapters are sub-packages;
// hold/cgroupskb is the one for local sockets on Linux.
//
// An adapter promises: until Release succeeds, nothing of a connection leaves
// this machine but pure TCP control segments and the ClientHello (after a
// HelloRetryRequest also the second one), each byte of which was copied into a
// Record before it left; every inbound payload segment that TCP could take for
// the first 4 KiB of the peer's stream was copied into a Record before TCP saw
// it, or the connection stays shut for ever. Copies are what arrived on the
// wire, before TCP judged them: a copy may have a bad checksum and may never
// become part of the stream. Who examines them refuses two copies that differ
// in any byte of the same sequence range.
package hold

import (
	"net/netip"
	"strconv"
	"time"
)

// Window is the number of bytes at the start of the peer's stream whose
// segments are copied and counted. A ServerHello flight that is needed for a
// verdict ends before it, or the connection is refused.
const Window = 4096

// MaxClientHello is the most bytes that one ClientHello record may have
// (header included) to be let out. Larger ones are refused.
const MaxClientHello = 8192

// ID names one connection: the kernel's socket cookie, and 64 random bits that
// are new for each outgoing SYN, so that a socket that is disconnected and
// connected again is another connection.
type ID struct{ Cookie, Nonce uint64 }

func (i ID) String() string {
	return strconv.FormatUint(i.Cookie, 16) + "-" + strconv.FormatUint(i.Nonce, 16)
}

// Kind says what a Record is.
type Kind uint8

const (
	// Outbound: payload that was let out: a part of the first ClientHello, or
	// of the second one with its change_cipher_spec record. Data is whole.
	Outbound Kind = 1
	// Inbound: payload that arrived from the peer. Data holds the bytes within
	// Window; Len is the length on the wire.
	Inbound Kind = 2
	// Denied: the adapter kept something in that cannot be released at all;
	// Reason says what. The connection should be refused. Data is empty. It
	// may be the first and only record of a connection.
	Denied Kind = 3
	// Released: the adapter opened the connection. No record follows.
	Released Kind = 4
	// Retry: a release was not carried out, since TCP has not yet taken the
	// verified bytes or since segments arrived that were not examined. Drain,
	// examine, and release again.
	Retry Kind = 5
)

// Record is one message of the adapter. Data is valid only until the callback
// that received it returns.
type Record struct {
	Kind   Kind
	Reason Reason // of Denied and Retry
	ID     ID
	Local  netip.AddrPort // the client's end
	Remote netip.AddrPort
	// Seq is the TCP sequence number of the first payload byte.
	Seq uint32
	// Base is the sequence number of the first byte of the stream that this
	// record belongs to: the client's for Outbound (so Seq-Base is the offset
	// in what the client sent), the peer's for Inbound. All arithmetic is
	// modulo 2^32; an inbound segment may start before Base.
	Base uint32
	// Count is, for Inbound, the number of inbound segments counted on this
	// connection, this one included: 1, 2, 3 ... without a gap. Two CPUs may
	// deliver them in another order. The number examined goes into Verdict.
	Count uint32
	// Len is the payload's length in bytes on the wire; len(Data) < Len when
	// the segment reaches beyond what is copied.
	Len  uint32
	Data []byte
	// At is the time at which the record was drained.
	At time.Time
}

// Reason is why the adapter denied something or did not release.
type Reason uint8

// The reasons of a Linux adapter. Text gives the code of latch/flow's vocabulary.
const (
	ReasonNone        Reason = 0
	ReasonNotTLS      Reason = 1  // first payload is no ClientHello
	ReasonEarlyBytes  Reason = 2  // bytes behind the ClientHello in its segment (early data)
	ReasonTooLong     Reason = 3  // ClientHello longer than MaxClientHello
	ReasonSYNData     Reason = 4  // payload in a SYN (TCP Fast Open)
	ReasonMPTCP       Reason = 5  // MPTCP option in a SYN
	ReasonUDP         Reason = 6  // UDP that is not DNS to a listed resolver
	ReasonProtocol    Reason = 7  // any other protocol, or a raw socket
	ReasonNotFromSYN  Reason = 8  // connection opened before the gate, or accepted
	ReasonServerFirst Reason = 9  // the peer spoke first
	ReasonLostCopy    Reason = 10 // a copy could not be stored: poisoned
	ReasonPacket      Reason = 11 // IP or TCP header not understood (IPv6 extension headers)
	ReasonNotTaken    Reason = 12 // Retry: TCP has not taken the verified bytes
	ReasonUnexamined  Reason = 13 // Retry: more segments arrived than were examined
	ReasonWrongKick   Reason = 14 // a release with a wrong id was dropped
	ReasonUrgent      Reason = 15 // the peer marked data as urgent before the release
)

// Verdict releases one connection.
type Verdict struct {
	ID ID
	// End is the sequence number after the last inbound byte that was
	// verified; the adapter opens only if TCP has taken all before it.
	End uint32
	// Examined is the number of Inbound records examined; the adapter opens
	// only if no further segment was counted.
	Examined uint32
}

// Hold is an adapter. One goroutine at a time may call its methods; Wait and
// Interrupt may run beside the others.
type Hold interface {
	// Wait blocks until a ClientHello (or another record that should not wait)
	// is there, or until the deadline; a zero deadline waits for ever. It
	// returns net.ErrClosed after Close. A spurious return is allowed.
	Wait(deadline time.Time) error
	// WantInbound makes Wait return once also for the next Inbound record. The
	// gate calls it when evidence came before the ServerHello.
	WantInbound()
	// Drain hands over all records that are there, those of one connection in
	// causal order (an Outbound before the Inbound that answers it).
	Drain(fn func(*Record)) error
	// Release opens the connections in as few system calls as the adapter can.
	// Success shows as a Released record, failure as Retry, at the next Drain.
	Release(batch []Verdict) error
	// Refuse resets the connections: the application sees an error at once,
	// the peer a RST. Connections that are gone are no error.
	Refuse(batch []ID) error
	// Sweep frees what belongs to processes that have ended. Called about
	// twice a minute.
	Sweep() error
	// Interrupt makes Wait return net.ErrClosed, now and from now on.
	Interrupt() error
	// Close stops reading. What is held stays held.
	Close() error
}
