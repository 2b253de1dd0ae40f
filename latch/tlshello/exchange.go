// SPDX-License-Identifier: Apache-2.0

package tlshello

import "crypto/sha256"

// Phase says how far an [Exchange] has come.
type Phase uint8

// Phases of an exchange. A retry (HelloRetryRequest) is the detour through the
// two Second phases.
const (
	WantClientHello Phase = iota
	WantServerHello
	WantSecondClientHello
	WantSecondServerHello
	Complete
)

func (p Phase) String() string {
	return [...]string{"WantClientHello", "WantServerHello", "WantSecondClientHello", "WantSecondServerHello", "Complete"}[p]
}

// Exchange follows the hello messages of one connection. Feed it the in-order
// beginning of each direction with [Exchange.Client] and [Exchange.Server], in
// any interleaving and again whenever it grew. It keeps copies of the messages
// and checks them against each other (RFC 8446 sections 4.1.2 to 4.1.4).
//
// The zero value is ready. An Exchange must not be copied. Reset allows the
// next use without new memory.
type Exchange struct {
	client, server stream
	ch             [2]ClientHello
	sh             [2]ServerHello
	raw            [4][]byte // copies: CH1, CH2, SH1, SH2
	haveCH, haveSH int
	end            int // offset behind the final ServerHello in the server's stream
	phase          Phase
	err            error
}

// Reset empties x and keeps its memory.
func (x *Exchange) Reset() {
	x.client.reset(fromClient)
	x.server.reset(fromServer)
	for i := range x.ch {
		x.ch[i].reset()
		x.sh[i] = ServerHello{Extensions: x.sh[i].Extensions[:0]}
	}
	x.haveCH, x.haveSH, x.end, x.phase, x.err = 0, 0, 0, WantClientHello, nil
}

// Client takes the client's stream: every byte from the first on that is there
// in order. A longer prefix must begin with the shorter one of an earlier call.
// The error is sticky; an *[Alert] means that the client gave up.
func (x *Exchange) Client(prefix []byte) error {
	for x.err == nil {
		msg, err := x.client.next(prefix)
		if err != nil || msg == nil {
			x.fail(err)
			break
		}
		if x.haveCH == 2 {
			x.fail(fail(HelloChanged, "a third ClientHello"))
			break
		}
		i := x.haveCH
		x.raw[i] = append(x.raw[i][:0], msg...)
		if err := x.ch[i].Parse(x.raw[i]); err != nil {
			x.fail(err)
			break
		}
		x.haveCH++
		x.fail(x.step())
	}
	x.fail(x.cut())
	if x.err == nil && x.client.alert != nil && x.phase != Complete {
		return x.client.alert
	}
	return x.err
}

// Server is [Exchange.Client] for the other direction.
func (x *Exchange) Server(prefix []byte) error {
	x.server.side = fromServer
	for x.err == nil {
		msg, err := x.server.next(prefix)
		if err != nil || msg == nil {
			x.fail(err)
			break
		}
		i := x.haveSH
		if i == 2 || i == 1 && !x.sh[0].Retry {
			x.fail(fail(PlainAfterHello, "a plaintext handshake message behind the ServerHello"))
			break
		}
		x.raw[2+i] = append(x.raw[2+i][:0], msg...)
		if err := x.sh[i].Parse(x.raw[2+i]); err != nil {
			x.fail(err)
			break
		}
		x.haveSH++
		x.end = x.server.off
		x.fail(x.step())
	}
	x.fail(x.cut())
	if x.err == nil && x.server.alert != nil && x.phase != Complete {
		return x.server.alert
	}
	return x.err
}

// cut refuses encrypted records in place of a message that a retry demands.
func (x *Exchange) cut() error {
	switch {
	case x.retries() == 1 && x.haveCH < 2 && x.client.ended && x.client.alert == nil:
		return fail(HelloChanged, "client: an encrypted record instead of the second ClientHello")
	case x.retries() == 1 && x.haveSH < 2 && x.server.ended && x.server.alert == nil:
		return fail(Malformed, "server: an encrypted record instead of the ServerHello behind HelloRetryRequest")
	}
	return nil
}

func (x *Exchange) fail(err error) {
	if err != nil && x.err == nil {
		x.err = err
	}
}

// step goes on as far as the messages at hand allow.
func (x *Exchange) step() error {
	for {
		switch x.phase {
		case WantClientHello:
			if x.haveCH == 0 {
				return nil
			}
			if err := x.ch[0].Check(); err != nil {
				return err
			}
			if x.ch[0].Cookie != nil {
				return fail(Malformed, "ClientHello: a cookie that no server can have sent")
			}
			x.phase = WantServerHello
		case WantServerHello:
			if x.haveSH == 0 {
				return nil
			}
			if x.sh[0].Retry {
				if err := checkRetry(&x.sh[0], &x.ch[0]); err != nil {
					return err
				}
				x.phase = WantSecondClientHello
				continue
			}
			if x.haveCH > 1 {
				return fail(HelloChanged, "a second ClientHello that the server did not ask for")
			}
			if err := checkServerHello(&x.sh[0], &x.ch[0]); err != nil {
				return err
			}
			x.phase = Complete
		case WantSecondClientHello:
			if x.haveCH < 2 {
				return nil
			}
			if err := checkSecond(&x.ch[1], &x.ch[0], &x.sh[0]); err != nil {
				return err
			}
			x.phase = WantSecondServerHello
		case WantSecondServerHello:
			if x.haveSH < 2 {
				return nil
			}
			if err := checkAfterRetry(&x.sh[1], &x.ch[1], &x.sh[0]); err != nil {
				return err
			}
			x.phase = Complete
		case Complete:
			if x.haveCH > 1 && !x.sh[0].Retry {
				return fail(HelloChanged, "a second ClientHello that the server did not ask for")
			}
			return nil
		}
	}
}

// Phase says what is awaited.
func (x *Exchange) Phase() Phase { return x.phase }

// First returns the first ClientHello, or nil while it is not there.
func (x *Exchange) First() *ClientHello {
	if x.phase == WantClientHello {
		return nil
	}
	return &x.ch[0]
}

// Hello returns the ClientHello that the server's share answers, and that
// ServerHello; nil, nil while the exchange is not complete.
func (x *Exchange) Hello() (*ClientHello, *ServerHello) {
	if x.phase != Complete || x.err != nil {
		return nil, nil
	}
	return &x.ch[x.retries()], &x.sh[x.retries()]
}

func (x *Exchange) retries() int {
	if x.haveSH > 0 && x.sh[0].Retry {
		return 1
	}
	return 0
}

// ServerEnd returns how many bytes of the server's stream, from its first byte,
// a complete exchange covers: up to the end of the ServerHello's record.
func (x *Exchange) ServerEnd() int { return x.end }

// Transcript returns SHA-256(CH1 [‖ HRR ‖ CH2] ‖ SH) over the messages with
// their 4-byte headers. ok is false while the exchange is not complete. (TLS
// itself replaces CH1 by its hash after a retry; this digest does not.)
func (x *Exchange) Transcript() (sum [32]byte, ok bool) {
	if x.phase != Complete || x.err != nil {
		return sum, false
	}
	h := sha256.New()
	h.Write(x.raw[0])
	h.Write(x.raw[2])
	if x.retries() == 1 {
		h.Write(x.raw[1])
		h.Write(x.raw[3])
	}
	h.Sum(sum[:0])
	return sum, true
}

// ClientHelloDigest returns SHA-256 of the first ClientHello message with its
// 4-byte header, the name under which gate and agent speak of a session.
func (x *Exchange) ClientHelloDigest() [32]byte { return sha256.Sum256(x.raw[0]) }
