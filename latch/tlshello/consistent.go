// SPDX-License-Identifier: Apache-2.0

package tlshello

import "bytes"

// checkAnswer checks what ServerHello and HelloRetryRequest have in common.
func checkAnswer(sh *ServerHello, ch *ClientHello) error {
	if !bytes.Equal(sh.SessionID, ch.SessionID) {
		return fail(Malformed, "ServerHello: does not echo the session id")
	}
	if !containsU16(ch.CipherSuites, sh.CipherSuite) {
		return fail(GroupNotOffered, "ServerHello: cipher suite %#04x was not offered", sh.CipherSuite)
	}
	if sh.ECH && !ch.ECH {
		return fail(GroupNotOffered, "HelloRetryRequest: encrypted_client_hello was not offered")
	}
	return nil
}

func checkServerHello(sh *ServerHello, ch *ClientHello) error {
	if err := checkAnswer(sh, ch); err != nil {
		return err
	}
	offered := false
	for i := range ch.KeyShares {
		offered = offered || ch.KeyShares[i].Group == sh.Group
	}
	if !offered {
		return fail(GroupNotOffered, "ServerHello: share for group %#04x, for which the client sent none", sh.Group)
	}
	if sh.PSK && int(sh.PSKID) >= len(ch.PSKs) {
		return fail(GroupNotOffered, "ServerHello: chose pre-shared key %d of %d", sh.PSKID, len(ch.PSKs))
	}
	return nil
}

// checkRetry checks a HelloRetryRequest (RFC 8446 section 4.1.4): it must ask
// for a group that the client supports and has sent no share for.
func checkRetry(hrr *ServerHello, ch *ClientHello) error {
	if err := checkAnswer(hrr, ch); err != nil {
		return err
	}
	if hrr.Group == 0 {
		return nil
	}
	if !containsU16(ch.Groups, hrr.Group) || grease(hrr.Group) {
		return fail(RetryGroup, "HelloRetryRequest: group %#04x, which the client does not support", hrr.Group)
	}
	for _, s := range ch.KeyShares {
		if s.Group == hrr.Group {
			return fail(RetryGroup, "HelloRetryRequest: group %#04x, for which the client sent a share", hrr.Group)
		}
	}
	return nil
}

// mayChange lists the extensions that may differ between the two ClientHellos
// (RFC 8446 section 4.1.2; RFC 9849 for encrypted_client_hello).
func mayChange(t uint16) bool {
	switch t {
	case extKeyShare, extEarlyData, extCookie, extPreSharedKey, extPadding, extECH:
		return true
	}
	return false
}

// checkSecond checks the ClientHello that answers a HelloRetryRequest.
func checkSecond(second, first *ClientHello, hrr *ServerHello) error {
	if err := second.Check(); err != nil {
		return err
	}
	switch {
	case second.Random != first.Random:
		return fail(HelloChanged, "second ClientHello: another random")
	case !bytes.Equal(second.SessionID, first.SessionID):
		return fail(HelloChanged, "second ClientHello: another session id")
	case len(second.CipherSuites) != len(first.CipherSuites):
		return fail(HelloChanged, "second ClientHello: other cipher suites")
	case !bytes.Equal(second.Cookie, hrr.Cookie):
		return fail(HelloChanged, "second ClientHello: does not return the server's cookie")
	case second.ECH != first.ECH:
		return fail(HelloChanged, "second ClientHello: encrypted_client_hello came or went")
	}
	for i := range first.CipherSuites {
		if second.CipherSuites[i] != first.CipherSuites[i] {
			return fail(HelloChanged, "second ClientHello: other cipher suites")
		}
	}
	if err := sameExtensions(second, first); err != nil {
		return err
	}
	if hrr.Group == 0 { // a cookie only: the shares stay
		if !sameShares(second.KeyShares, first.KeyShares) {
			return fail(HelloChanged, "second ClientHello: other key shares although the server named no group")
		}
		return nil
	}
	if len(second.KeyShares) != 1 || second.KeyShares[0].Group != hrr.Group {
		return fail(RetryGroup, "second ClientHello: want one key share, for group %#04x", hrr.Group)
	}
	return nil
}

func sameExtensions(second, first *ClientHello) error {
	fixed := func(m *ClientHello) (n int) {
		for _, e := range m.Extensions {
			if !mayChange(e.Type) {
				n++
			}
		}
		return n
	}
	if fixed(second) != fixed(first) {
		return fail(HelloChanged, "second ClientHello: an extension came or went")
	}
	for _, e := range first.Extensions {
		if mayChange(e.Type) {
			continue
		}
		if d, ok := find(second.Extensions, e.Type); !ok || !bytes.Equal(d, e.Data) {
			return fail(HelloChanged, "second ClientHello: extension %#04x differs", e.Type)
		}
	}
	return nil
}

func sameShares(a, b []KeyShare) bool {
	if len(a) != len(b) {
		return false
	}
	for i := range a {
		if a[i].Group != b[i].Group || !bytes.Equal(a[i].Share, b[i].Share) {
			return false
		}
	}
	return true
}

// checkAfterRetry checks the ServerHello behind a HelloRetryRequest.
func checkAfterRetry(sh *ServerHello, ch *ClientHello, hrr *ServerHello) error {
	switch {
	case sh.Retry:
		return fail(SecondRetry, "a second HelloRetryRequest")
	case hrr.Group != 0 && sh.Group != hrr.Group:
		return fail(RetryGroup, "ServerHello: group %#04x after asking for %#04x", sh.Group, hrr.Group)
	case sh.CipherSuite != hrr.CipherSuite:
		return fail(HelloChanged, "ServerHello: cipher suite %#04x after HelloRetryRequest with %#04x", sh.CipherSuite, hrr.CipherSuite)
	}
	return checkServerHello(sh, ch)
}
