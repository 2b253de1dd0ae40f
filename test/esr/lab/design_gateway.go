// SPDX-License-Identifier: Apache-2.0

package lab

import (
	"bufio"
	"context"
	"crypto/aes"
	"crypto/cipher"
	"crypto/hpke"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"strings"

	"holdfast/attest/evidence"
)

var gateway = Design{
	Name: "gateway, application-layer encryption", Identity: "service-restricted (gateway)", Environment: "vendor-attested", Receiving: "the application's private key", Overlap: "no", Scope: "long-lived",
	build: func(w *world) system { return &appGateway{plain: plain{w}} },
}

// appGateway is TLS up to a gateway, and inside it requests that are encrypted
// (HPKE, RFC 9180) to a key of the protected worker, whose evidence comes with
// the key. The key lives as long as the worker.
type appGateway struct {
	plain
	app *appKey
}

// appKey is a worker's key with evidence over it.
type appKey struct {
	private  hpke.PrivateKey
	public   []byte
	evidence []byte
}

func appData(public []byte) (d evidence.ReportData) {
	h := sha256.Sum256(append([]byte("lab/gateway\x00"), public...))
	copy(d[:], h[:])
	return d
}

var (
	kem  = hpke.MLKEM768X25519()
	kdf  = hpke.HKDFSHA256()
	aead = hpke.AES128GCM()
)

const appInfo = "lab request"

func newAppKey(in *environment) (*appKey, error) {
	k, err := kem.GenerateKey()
	if err != nil {
		return nil, err
	}
	a := &appKey{private: k, public: k.PublicKey().Bytes()}
	a.evidence, err = in.attest(appData(a.public))
	return a, err
}

func (s *appGateway) renew() (err error) {
	if s.app == nil {
		s.app, err = newAppKey(s.w.provider)
	}
	return err
}

func (s *appGateway) steal() *loot { return &loot{cert: s.w.service, app: s.app} }

// serve sends the key, opens the request, and seals what app answers.
func (a *appKey) serve(c io.ReadWriter, app func(request string) (string, error)) error {
	if err := writeLine(c, hex.EncodeToString(a.public)+" "+hex.EncodeToString(a.evidence)); err != nil {
		return err
	}
	l, err := readLine(bufio.NewReader(c))
	if err != nil {
		return err
	}
	enc, ct, err := twoHex(l)
	if err != nil {
		return err
	}
	r, err := hpke.NewRecipient(enc, a.private, kdf, aead, []byte(appInfo))
	if err != nil {
		return err
	}
	q, err := r.Open(nil, ct)
	if err != nil {
		return err
	}
	reply, err := app(string(q))
	if err != nil {
		return err
	}
	key, err := r.Export("reply", 16)
	if err != nil {
		return err
	}
	g, err := gcm(key)
	if err != nil {
		return err
	}
	return writeLine(c, hex.EncodeToString(g.Seal(nil, make([]byte, g.NonceSize()), []byte(reply), nil))) // one reply a key
}

func gcm(key []byte) (cipher.AEAD, error) {
	b, err := aes.NewCipher(key)
	if err != nil {
		return nil, err
	}
	return cipher.NewGCM(b)
}

func twoHex(l string) (a, b []byte, err error) {
	x, y, ok := strings.Cut(l, " ")
	if !ok {
		return nil, nil, errors.New("expected two values")
	}
	if a, err = hex.DecodeString(x); err == nil {
		b, err = hex.DecodeString(y)
	}
	return a, b, err
}

func (s *appGateway) genuine(c *conn) error {
	t, err := handshake(c, serverTLS(s.w.service))
	if err != nil {
		return err
	}
	return s.app.serve(t, func(q string) (string, error) {
		if len(q) < 8 {
			return "", errors.New("no request")
		}
		return answer(q), nil
	})
}

func (s *appGateway) client(ctx context.Context, r route, request string) (string, error) {
	c, err := dialTLS(ctx, r.service, s.w.clientTLS())
	if err != nil {
		return "", err
	}
	defer c.Close()
	l, err := readLine(bufio.NewReader(c))
	if err != nil {
		return "", err
	}
	public, bundle, err := twoHex(l)
	if err != nil {
		return "", err
	}
	if err := s.w.accept(s.w.vendor, bundle, appData(public)); err != nil {
		return "", err
	}
	pk, err := kem.NewPublicKey(public)
	if err != nil {
		return "", err
	}
	enc, sender, err := hpke.NewSender(pk, kdf, aead, []byte(appInfo))
	if err != nil {
		return "", err
	}
	ct, err := sender.Seal(nil, []byte(request))
	if err != nil {
		return "", err
	}
	sealed, err := ask(c, hex.EncodeToString(enc)+" "+hex.EncodeToString(ct))
	if err != nil {
		return "", err
	}
	key, err := sender.Export("reply", 16)
	if err != nil {
		return "", err
	}
	g, err := gcm(key)
	if err != nil {
		return "", err
	}
	b, err := hex.DecodeString(sealed)
	if err != nil {
		return "", err
	}
	reply, err := g.Open(nil, make([]byte, g.NonceSize()), b, nil)
	if err != nil {
		return "", fmt.Errorf("reply: %w", err)
	}
	return string(reply), nil
}

func (s *appGateway) attacks(p Power, stolen *loot) []attack {
	keys := map[string]*appKey{}
	add := func(name string, k *appKey, err error) {
		if err == nil {
			keys[name] = k
		}
	}
	if p.has(B) {
		keys["copied application key"] = stolen.app
	}
	if p.has(V) {
		k, err := newAppKey(s.w.other)
		add("own key, evidence of another genuine machine", k, err)
	}
	if p.has(R) {
		k, err := newAppKey(s.w.provider)
		add("own key, evidence of the accepted machine", k, err)
	}
	if len(keys) == 0 {
		k, err := newAppKey(s.w.other)
		if err == nil {
			k.evidence = s.app.evidence // which any client gets
		}
		add("own key, evidence replayed", k, err)
	}
	var out []attack
	for certName, cert := range serviceCerts(s.w, p, stolen) {
		for name, k := range keys {
			out = append(out, attack{certName + ", " + name, func(c *conn, note func(string)) error {
				t, err := handshake(c, serverTLS(cert))
				if err != nil {
					return err
				}
				return k.serve(t, func(q string) (string, error) {
					note(q)
					return s.w.asClient(s)(q)
				})
			}})
		}
	}
	return out
}
