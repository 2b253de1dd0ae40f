// SPDX-License-Identifier: Apache-2.0

package tlshello

import (
	"bytes"
	"errors"
	"testing"
)

// hello is a ClientHello in pieces that a test may change.
type hello struct {
	random  byte
	session []byte
	suites  []uint16
	ext     []Extension
	legacy  uint16
	comp    []byte
}

func share(group uint16, n int) []byte { return join(be16(group), vec(2, make([]byte, n))) }

func clientHello() *hello {
	return &hello{random: 7, session: make([]byte, 32), suites: []uint16{0x0a0a, 0x1301, 0x1302}, legacy: 0x0303, comp: []byte{0}, ext: []Extension{
		{0x1a1a, nil},
		{extServerName, vec(2, []byte{0}, vec(2, []byte("Service.Test")))},
		{extSupportedGroups, vec(2, be16(0x2a2a, X25519, P256, P384))},
		{extKeyShare, vec(2, share(0x2a2a, 1), share(X25519, 32))},
		{extSupportedVersions, vec(1, be16(0x3a3a, 0x0304, 0x0303))},
		{extPSKModes, []byte{1, PSKModeDHEKE}},
	}}
}

func (h *hello) set(t uint16, data []byte) *hello {
	for i := range h.ext {
		if h.ext[i].Type == t {
			h.ext[i].Data = data
			return h
		}
	}
	h.ext = append(h.ext, Extension{t, data})
	return h
}

func (h *hello) del(t uint16) *hello {
	for i := range h.ext {
		if h.ext[i].Type == t {
			h.ext = append(h.ext[:i], h.ext[i+1:]...)
			break
		}
	}
	return h
}

func extensions(list []Extension) (b []byte) {
	for _, e := range list {
		b = append(b, join(be16(e.Type), vec(2, e.Data))...)
	}
	return vec(2, b)
}

func (h *hello) msg() []byte {
	return message(typeClientHello, join(be16(h.legacy), bytes.Repeat([]byte{h.random}, 32), vec(1, h.session), vec(2, be16(h.suites...)), vec(1, h.comp), extensions(h.ext)))
}

// answer is a ServerHello in pieces.
type answer struct {
	random  [32]byte
	session []byte
	suite   uint16
	ext     []Extension
	legacy  uint16
	comp    byte
}

func serverHello() *answer {
	return &answer{random: [32]byte{1}, session: make([]byte, 32), suite: 0x1301, legacy: 0x0303,
		ext: []Extension{{extSupportedVersions, be16(0x0304)}, {extKeyShare, share(X25519, 32)}}}
}

func retry(group uint16) *answer {
	a := serverHello()
	a.random = retryRandom
	a.ext[1].Data = be16(group)
	return a
}

func (a *answer) with(e ...Extension) *answer { a.ext = append(a.ext, e...); return a }

func (a *answer) msg() []byte {
	return message(typeServerHello, join(be16(a.legacy), a.random[:], vec(1, a.session), be16(a.suite), []byte{a.comp}, extensions(a.ext)))
}

var psk = join(vec(2, vec(2, []byte("ticket")), []byte{0, 0, 0, 1}), vec(2, vec(1, make([]byte, 32))))

func TestClientHelloRefused(t *testing.T) {
	for name, tc := range map[string]struct {
		h    *hello
		code Code
	}{
		"good":                 {clientHello(), ""},
		"psk":                  {clientHello().set(extPreSharedKey, psk), ""},
		"no shares yet":        {clientHello().set(extKeyShare, vec(2)), ""},
		"ech":                  {clientHello().set(extECH, make([]byte, 200)), ""},
		"early data":           {clientHello().set(extEarlyData, nil).set(extPreSharedKey, psk), EarlyData},
		"early data alone":     {clientHello().set(extEarlyData, nil), EarlyData},
		"psk_ke only":          {clientHello().set(extPSKModes, []byte{1, PSKModeKE}).set(extPreSharedKey, psk), PSKWithoutShare},
		"no key_share":         {clientHello().del(extKeyShare), PSKWithoutShare},
		"only TLS 1.2":         {clientHello().set(extSupportedVersions, vec(1, be16(0x0303))), TLS12},
		"no versions":          {clientHello().del(extSupportedVersions), TLS12},
		"TLS 1.0":              {func() *hello { h := clientHello(); h.legacy = 0x0301; return h }(), TLS12},
		"legacy 0x0304":        {func() *hello { h := clientHello(); h.legacy = 0x0304; return h }(), Malformed},
		"compression":          {func() *hello { h := clientHello(); h.comp = []byte{1, 0}; return h }(), Malformed},
		"no compression":       {func() *hello { h := clientHello(); h.comp = nil; return h }(), Malformed},
		"session id of 33":     {func() *hello { h := clientHello(); h.session = make([]byte, 33); return h }(), Malformed},
		"no suites":            {func() *hello { h := clientHello(); h.suites = nil; return h }(), Malformed},
		"extension twice":      {func() *hello { h := clientHello(); h.ext = append(h.ext, h.ext[0]); return h }(), Malformed},
		"psk not last":         {clientHello().set(extPreSharedKey, psk).set(0x7777, nil), Malformed},
		"psk without modes":    {clientHello().del(extPSKModes).set(extPreSharedKey, psk), Malformed},
		"psk binder short":     {clientHello().set(extPreSharedKey, join(vec(2, vec(2, []byte("t")), []byte{0, 0, 0, 1}), vec(2, vec(1, make([]byte, 31))))), Malformed},
		"psk two binders":      {clientHello().set(extPreSharedKey, join(vec(2, vec(2, []byte("t")), []byte{0, 0, 0, 1}), vec(2, vec(1, make([]byte, 32)), vec(1, make([]byte, 32))))), Malformed},
		"psk empty":            {clientHello().set(extPreSharedKey, join(vec(2), vec(2))), Malformed},
		"two names":            {clientHello().set(extServerName, vec(2, []byte{0}, vec(2, []byte("a")), []byte{0}, vec(2, []byte("b")))), Malformed},
		"other name type":      {clientHello().set(extServerName, vec(2, []byte{1}, vec(2, []byte("a")))), Malformed},
		"empty name":           {clientHello().set(extServerName, vec(2, []byte{0}, vec(2))), Malformed},
		"name with dot":        {clientHello().set(extServerName, vec(2, []byte{0}, vec(2, []byte("a.")))), Malformed},
		"name with two dots":   {clientHello().set(extServerName, vec(2, []byte{0}, vec(2, []byte("a..b")))), Malformed},
		"name with zero byte":  {clientHello().set(extServerName, vec(2, []byte{0}, vec(2, []byte("a\x00b")))), Malformed},
		"share not supported":  {clientHello().set(extKeyShare, vec(2, share(X448, 56))), Malformed},
		"share twice":          {clientHello().set(extKeyShare, vec(2, share(X25519, 32), share(X25519, 32))), Malformed},
		"share of 31":          {clientHello().set(extKeyShare, vec(2, share(X25519, 31))), Malformed},
		"share empty":          {clientHello().set(extKeyShare, vec(2, share(0x2a2a, 0))), Malformed},
		"share without groups": {clientHello().del(extSupportedGroups), Malformed},
		"groups odd":           {clientHello().set(extSupportedGroups, vec(2, []byte{0, 29, 0})), Malformed},
		"versions trailing":    {clientHello().set(extSupportedVersions, append(vec(1, be16(0x0304)), 0)), Malformed},
		"ALPN empty name":      {clientHello().set(extALPN, vec(2, vec(1))), Malformed},
		"cookie without retry": {clientHello().set(extCookie, vec(2, []byte{1})), Malformed},
		"cookie empty":         {clientHello().set(extCookie, vec(2)), Malformed},
		"too large":            {clientHello().set(21, make([]byte, MaxMessage)), HelloTooLarge},
		"129 extensions": {func() *hello {
			h := clientHello()
			for i := range 130 {
				h.ext = append(h.ext, Extension{uint16(0x4000 + i), nil})
			}
			return h
		}(), HelloTooLarge},
	} {
		t.Run(name, func(t *testing.T) {
			var x Exchange
			msg := tc.h.msg()
			stream := hs(msg)
			if len(msg) > maxFragment { // needs two records
				stream = append(hs(msg[:maxFragment]), hs(msg[maxFragment:])...)
			}
			err := x.Client(stream)
			if CodeOf(err) != tc.code {
				t.Fatalf("%v, want %q", err, tc.code)
			}
			if (x.First() != nil) != (tc.code == "") {
				t.Fatal("First")
			}
			if f := x.First(); f != nil && string(f.ServerName) != "service.test" {
				t.Fatalf("name %q", f.ServerName)
			}
			if again := x.Client(stream); (again == nil) != (tc.code == "") {
				t.Fatal("the refusal does not stick")
			}
		})
	}
}

func TestServerHelloRefused(t *testing.T) {
	sentinel := func(last byte) (r [32]byte) { copy(r[24:], "DOWNGRD"); r[31] = last; return r }
	old := func(r [32]byte) *answer {
		a := serverHello()
		a.random, a.ext = r, []Extension{{0xff01, []byte{0}}}
		return a
	}
	for name, tc := range map[string]struct {
		a    *answer
		code Code
	}{
		"good":                {serverHello(), ""},
		"resumed":             {serverHello().with(Extension{extPreSharedKey, be16(0)}), ""},
		"psk 1 of 1":          {serverHello().with(Extension{extPreSharedKey, be16(1)}), GroupNotOffered},
		"psk without share":   {func() *answer { a := serverHello(); a.ext[1] = Extension{extPreSharedKey, be16(0)}; return a }(), PSKWithoutShare},
		"TLS 1.2":             {old([32]byte{}), TLS12},
		"TLS 1.2 downgrade":   {old(sentinel(1)), Downgrade},
		"TLS 1.1 downgrade":   {old(sentinel(0)), Downgrade},
		"version 0x0302":      {func() *answer { a := serverHello(); a.legacy = 0x0302; return a }(), TLS12},
		"version 0x0304":      {func() *answer { a := serverHello(); a.legacy = 0x0304; return a }(), Malformed},
		"selects TLS 1.2":     {func() *answer { a := serverHello(); a.ext[0].Data = be16(0x0303); return a }(), Malformed},
		"compression":         {func() *answer { a := serverHello(); a.comp = 1; return a }(), Malformed},
		"session id":          {func() *answer { a := serverHello(); a.session = make([]byte, 31); return a }(), Malformed},
		"suite":               {func() *answer { a := serverHello(); a.suite = 0x1303; return a }(), GroupNotOffered},
		"group without share": {func() *answer { a := serverHello(); a.ext[1].Data = share(P256, 65); return a }(), GroupNotOffered},
		"GREASE group":        {func() *answer { a := serverHello(); a.ext[1].Data = share(0x2a2a, 1); return a }(), Malformed},
		"share of 33":         {func() *answer { a := serverHello(); a.ext[1].Data = share(X25519, 33); return a }(), Malformed},
		"share trailing":      {func() *answer { a := serverHello(); a.ext[1].Data = append(share(X25519, 32), 0); return a }(), Malformed},
		"unknown extension":   {serverHello().with(Extension{extALPN, nil}), Malformed},
		"cookie":              {serverHello().with(Extension{extCookie, vec(2, []byte{1})}), Malformed},
		"share twice":         {serverHello().with(Extension{extKeyShare, share(X25519, 32)}), Malformed},
		"retry group offered": {retry(X25519), RetryGroup},
		"retry group unknown": {retry(P521), RetryGroup},
		"retry GREASE":        {retry(0x2a2a), RetryGroup},
		"retry nothing":       {func() *answer { a := retry(P256); a.ext = a.ext[:1]; return a }(), RetryGroup},
		"retry with a psk":    {retry(P256).with(Extension{extPreSharedKey, be16(0)}), Malformed},
		"retry with a share":  {func() *answer { a := retry(P256); a.ext[1].Data = share(P256, 65); return a }(), Malformed},
		"retry ECH uninvited": {retry(P256).with(Extension{extECH, make([]byte, 8)}), GroupNotOffered},
	} {
		t.Run(name, func(t *testing.T) {
			for _, clientFirst := range []bool{true, false} {
				var x Exchange
				c, s := hs(clientHello().set(extPreSharedKey, psk).msg()), hs(tc.a.msg())
				var err error
				if clientFirst {
					x.Client(c)
					err = x.Server(s)
				} else {
					x.Server(s)
					err = x.Client(c)
				}
				if CodeOf(err) != tc.code {
					t.Fatalf("%v, want %q", err, tc.code)
				}
				if _, sh := x.Hello(); (sh != nil) != (tc.code == "") {
					t.Fatal("Hello")
				}
			}
		})
	}
}

func TestRetryRefused(t *testing.T) {
	second := func() *hello { return clientHello().set(extKeyShare, vec(2, share(P256, 65))) }
	after := func() *answer { a := serverHello(); a.ext[1].Data = share(P256, 65); return a }
	for name, tc := range map[string]struct {
		hrr  *answer
		ch2  *hello
		sh   *answer
		code Code
	}{
		"good":             {retry(P256), second(), after(), ""},
		"cookie":           {retry(P256).with(Extension{extCookie, vec(2, []byte("c"))}), second().set(extCookie, vec(2, []byte("c"))), after(), ""},
		"padding changes":  {retry(P256), second().set(extPadding, make([]byte, 9)), after(), ""},
		"early data again": {retry(P256), second().set(extEarlyData, nil).set(extPreSharedKey, psk), after(), EarlyData},
		"cookie missing":   {retry(P256).with(Extension{extCookie, vec(2, []byte("c"))}), second(), after(), HelloChanged},
		"cookie other":     {retry(P256).with(Extension{extCookie, vec(2, []byte("c"))}), second().set(extCookie, vec(2, []byte("d"))), after(), HelloChanged},
		"random":           {retry(P256), func() *hello { h := second(); h.random = 8; return h }(), after(), HelloChanged},
		"session":          {retry(P256), func() *hello { h := second(); h.session = nil; return h }(), after(), HelloChanged},
		"suites":           {retry(P256), func() *hello { h := second(); h.suites = h.suites[1:]; return h }(), after(), HelloChanged},
		"suites swapped":   {retry(P256), func() *hello { h := second(); h.suites[1], h.suites[2] = h.suites[2], h.suites[1]; return h }(), after(), HelloChanged},
		"name":             {retry(P256), second().set(extServerName, vec(2, []byte{0}, vec(2, []byte("other.test")))), after(), HelloChanged},
		"name gone":        {retry(P256), second().del(extServerName), after(), HelloChanged},
		"new extension":    {retry(P256), second().set(0x7777, nil), after(), HelloChanged},
		"share kept":       {retry(P256), clientHello(), after(), RetryGroup},
		"two shares":       {retry(P256), clientHello().set(extKeyShare, vec(2, share(X25519, 32), share(P256, 65))), after(), RetryGroup},
		"other group":      {retry(P256), clientHello().set(extKeyShare, vec(2, share(P384, 97))), after(), RetryGroup},
		"server's group":   {retry(P256), second(), serverHello(), RetryGroup},
		"second retry":     {retry(P256), second(), retry(P384), SecondRetry},
		"suite changes":    {retry(P256), second(), func() *answer { a := after(); a.suite = 0x1302; return a }(), HelloChanged},
		"cookie only":      {func() *answer { a := retry(0); a.ext[1] = Extension{extCookie, vec(2, []byte("c"))}; return a }(), clientHello().set(extCookie, vec(2, []byte("c"))), serverHello(), ""},
		"cookie only, other share": {func() *answer { a := retry(0); a.ext[1] = Extension{extCookie, vec(2, []byte("c"))}; return a }(),
			second().set(extCookie, vec(2, []byte("c"))), after(), HelloChanged},
	} {
		t.Run(name, func(t *testing.T) {
			ccs := rec(recordCCS, []byte{1})
			c := join(hs(clientHello().msg()), ccs, hs(tc.ch2.msg()))
			s := join(hs(tc.hrr.msg()), ccs, hs(tc.sh.msg()))
			for order := range 3 {
				var x Exchange
				var err error
				switch order {
				case 0:
					x.Client(c)
					err = x.Server(s)
				case 1:
					x.Server(s)
					err = x.Client(c)
				case 2: // as it happens
					x.Client(hs(clientHello().msg()))
					x.Server(hs(tc.hrr.msg()))
					if x.Phase() != WantSecondClientHello {
						t.Fatalf("phase %v", x.Phase())
					}
					x.Client(c)
					err = x.Server(s)
				}
				if CodeOf(err) != tc.code {
					t.Fatalf("order %d: %v, want %q", order, err, tc.code)
				}
				if sum, ok := x.Transcript(); ok != (tc.code == "") {
					t.Fatal("Transcript")
				} else if ok && (sum == [32]byte{} || x.ServerEnd() != len(s)) {
					t.Fatal("Transcript or end")
				}
			}
		})
	}
	// A second ClientHello that nobody asked for.
	var x Exchange
	x.Client(join(hs(clientHello().msg()), hs(second().msg())))
	if err := x.Server(hs(serverHello().msg())); CodeOf(err) != HelloChanged {
		t.Errorf("unasked second ClientHello: %v", err)
	}
}

func TestRecordsRefused(t *testing.T) {
	ch, sh := clientHello().msg(), serverHello().msg()
	good := hs(sh)
	for name, tc := range map[string]struct {
		c, s []byte
		code Code
	}{
		"in pieces":              {join(hs(ch[:1]), hs(ch[1:40]), hs(ch[40:])), join(hs(sh[:3]), hs(sh[3:])), ""},
		"ccs behind":             {append(hs(ch), rec(20, []byte{1})...), join(good, rec(20, []byte{1}), rec(20, []byte{1}), rec(23, make([]byte, 30))), ""},
		"ccs before":             {hs(ch), join(rec(20, []byte{1}), good), Malformed},
		"ccs before a retry":     {hs(ch), join(rec(20, []byte{1}), hs(retry(P256).msg())), Malformed},
		"record version 3.1":     {append([]byte{22, 3, 1}, hs(ch)[3:]...), good, ""},
		"sh and ee in one":       {hs(ch), hs(append(bytes.Clone(sh), 8, 0, 0, 2, 0, 0)), RecordBoundary},
		"sh in pieces and ee":    {hs(ch), join(hs(sh[:9]), hs(append(bytes.Clone(sh[9:]), 8))), RecordBoundary},
		"ch and more in one":     {hs(append(bytes.Clone(ch), 0)), nil, RecordBoundary},
		"plain ee":               {hs(ch), join(good, hs([]byte{8, 0, 0, 2, 0, 0})), PlainAfterHello},
		"sh twice":               {hs(ch), join(good, good), PlainAfterHello},
		"empty record":           {hs(ch), join(rec(22, nil), good), Malformed},
		"empty record, client":   {rec(22, nil), nil, Malformed},
		"long record":            {hs(ch), []byte{22, 3, 3, 0x40, 1}, Malformed},
		"long data":              {hs(ch), join(good, []byte{23, 3, 3, 0x41, 1}), Malformed},
		"data first":             {hs(ch), rec(23, []byte{1}), Malformed},
		"type 24":                {hs(ch), rec(24, []byte{1}), Malformed},
		"ccs inside a hello":     {hs(ch), join(hs(sh[:9]), rec(20, []byte{1}), hs(sh[9:])), Malformed},
		"ccs of two bytes":       {hs(ch), join(rec(20, []byte{1, 1}), good), Malformed},
		"ccs with 2":             {hs(ch), join(rec(20, []byte{2}), good), Malformed},
		"ccs before ClientHello": {join(rec(20, []byte{1}), hs(ch)), nil, NotTLS},
		"server key exchange":    {hs(ch), hs([]byte{12, 0, 0, 1, 0}), Malformed},
		"server sends ch":        {hs(ch), hs(ch), Malformed},
		"client sends sh":        {good, nil, Malformed},
		"record version 2.0":     {[]byte{22, 2, 0, 0, 10}, nil, NotTLS},
		"sh in a TLS 1.0 record": {hs(ch), append([]byte{22, 3, 1}, good[3:]...), TLS12},
		"message too large":      {hs(ch), hs([]byte{2, 1, 0, 0}), HelloTooLarge},
		"http":                   {[]byte("G"), nil, NotTLS},
		"sslv2":                  {[]byte{0x80, 0x2e, 1}, nil, SSLv2},
		"high bit":               {[]byte{0xff, 0xff, 0xff}, nil, NotTLS},
		"data instead of retry":  {join(hs(ch), rec(23, []byte{1})), hs(retry(P256).msg()), HelloChanged},
		"data behind a retry":    {hs(ch), join(hs(retry(P256).msg()), rec(23, []byte{1})), Malformed},
	} {
		t.Run(name, func(t *testing.T) {
			var x Exchange
			err := x.Client(tc.c)
			if e := x.Server(tc.s); e != nil {
				err = e
			}
			if CodeOf(err) != tc.code {
				t.Fatalf("%v, want %q", err, tc.code)
			}
			if _, ok := x.Transcript(); ok != (tc.code == "") {
				t.Fatal("Transcript")
			}
		})
	}
}

func TestAlert(t *testing.T) {
	var x Exchange
	x.Client(hs(clientHello().msg()))
	var a *Alert
	if err := x.Server(rec(21, []byte{2, 40})); !errors.As(err, &a) || a.Level != 2 || a.Description != 40 {
		t.Fatalf("%v", err)
	}
	// What follows an alert is not read.
	if err := x.Server(join(rec(21, []byte{2, 40}), hs(serverHello().msg()))); !errors.As(err, &a) || x.Phase() == Complete {
		t.Fatalf("%v, %v", err, x.Phase())
	}
	x.Reset()
	if err := x.Client(join(hs(clientHello().msg()), rec(21, []byte{2, 40}))); !errors.As(err, &a) {
		t.Fatalf("client: %v", err)
	}
	x.Reset()
	x.Client(hs(clientHello().msg()))
	if err := x.Server(rec(21, []byte{2})); CodeOf(err) != Malformed {
		t.Fatalf("short alert: %v", err)
	}
	if CodeOf(errors.New("other")) != Malformed || CodeOf(nil) != "" {
		t.Error("CodeOf")
	}
}
