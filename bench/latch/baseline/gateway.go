// SPDX-License-Identifier: Apache-2.0

package baseline

import (
	"bytes"
	"crypto/aes"
	"crypto/cipher"
	"crypto/ecdh"
	"crypto/hkdf"
	"crypto/hpke"
	"crypto/rand"
	"crypto/sha256"
	"crypto/tls"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"sync"
)

var gateway = Design{
	Name: "gateway", Title: "gateway, body encrypted too", Attests: true,
	server: func(k *Kit) (Server, error) { return newGateway(k) },
	client: func(k *Kit) (Client, error) { return newGatewayClient(k) },
}

// A gateway terminates TLS; the body inside is encrypted again, to a key of the
// worker behind it (HPKE, RFC 9180). The worker's key is attested once; a
// client checks that and sets one secret up with it when it starts (an
// established application key), from which each connection's keys come by a
// salt. Gateway and worker are one process here: the hop between them is left out.
//
//	client: enc (32) ‖ salt (16) ‖ chunks     server: chunks
//	chunk:  u32 length of the ciphertext ‖ AES-128-GCM(≤ 64 KiB), nonce = number of the chunk
type (
	gatewayServer struct {
		conf *tls.Config
		key  hpke.PrivateKey

		mu      sync.Mutex
		secrets map[string][]byte // by enc
	}
	gatewayClient struct {
		conf        *tls.Config
		enc, secret []byte
	}
)

const (
	encSize  = 32
	saltSize = 16
	chunk    = 64 << 10
	sealed   = 16 // bytes that sealing adds
	appInfo  = "bench application key"

	maxSecrets = 1024
)

var kem, kdf, aead = hpke.DHKEM(ecdh.X25519()), hpke.HKDFSHA256(), hpke.AES128GCM()

// workerKeyFile holds the worker's key and the proof for it.
const workerKeyFile = "gateway.key"

func newGateway(k *Kit) (*gatewayServer, error) {
	key, err := kem.GenerateKey()
	if err != nil {
		return nil, err
	}
	r, err := newSerial(k, machine)
	if err != nil {
		return nil, err
	}
	public := key.PublicKey().Bytes()
	p, err := r.prove(leafOf("gateway", public))
	if err != nil {
		return nil, err
	}
	s := &gatewayServer{conf: k.serverTLS(), key: key, secrets: map[string][]byte{}}
	return s, os.WriteFile(filepath.Join(k.Dir, workerKeyFile), append(public, p.encode()...), 0o600)
}

func newGatewayClient(k *Kit) (*gatewayClient, error) {
	b, err := os.ReadFile(filepath.Join(k.Dir, workerKeyFile))
	if err != nil {
		return nil, err
	}
	if len(b) < encSize {
		return nil, errors.New("gateway: no key of a worker")
	}
	public := b[:encSize]
	p, err := readProof(bytes.NewReader(b[encSize:]))
	if err != nil {
		return nil, err
	}
	if err := k.check(machine, p, leafOf("gateway", public)); err != nil {
		return nil, err
	}
	to, err := kem.NewPublicKey(public)
	if err != nil {
		return nil, err
	}
	c := &gatewayClient{conf: k.clientTLS()}
	var sender *hpke.Sender
	if c.enc, sender, err = hpke.NewSender(to, kdf, aead, []byte(appInfo)); err != nil {
		return nil, err
	}
	c.secret, err = sender.Export(appInfo, 32)
	return c, err
}

func (c *gatewayClient) Connect(conn net.Conn) (Stream, error) {
	s := &sealedStream{under: tls.Client(conn, c.conf)}
	salt := make([]byte, saltSize)
	rand.Read(salt)
	s.out = append(append(s.out, c.enc...), salt...) // leaves with the first chunk
	return s, s.keys(c.secret, salt, "request", "reply")
}

// secret finds or opens the secret of a client.
func (s *gatewayServer) secret(enc []byte) ([]byte, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if b := s.secrets[string(enc)]; b != nil {
		return b, nil
	}
	r, err := hpke.NewRecipient(enc, s.key, kdf, aead, []byte(appInfo))
	if err != nil {
		return nil, err
	}
	b, err := r.Export(appInfo, 32)
	if err != nil {
		return nil, err
	}
	if len(s.secrets) >= maxSecrets {
		clear(s.secrets)
	}
	s.secrets[string(enc)] = b
	return b, nil
}

func (s *gatewayServer) Accept(conn net.Conn) (io.ReadWriter, error) {
	t := tls.Server(conn, s.conf)
	var head [encSize + saltSize]byte
	if _, err := io.ReadFull(t, head[:]); err != nil {
		return nil, err
	}
	secret, err := s.secret(head[:encSize])
	if err != nil {
		return nil, err
	}
	st := &sealedStream{under: t}
	return st, st.keys(secret, head[encSize:], "reply", "request")
}

// sealedStream is the second layer of encryption.
type sealedStream struct {
	under       *tls.Conn
	seal, open  cipher.AEAD
	sent, taken uint64
	out, in     []byte // buffers
	left        []byte // of in: opened, not yet read
}

func (s *sealedStream) keys(secret, salt []byte, write, read string) error {
	for name, to := range map[string]*cipher.AEAD{write: &s.seal, read: &s.open} {
		key, err := hkdf.Key(sha256.New, secret, salt, name, 16)
		if err != nil {
			return err
		}
		b, err := aes.NewCipher(key)
		if err != nil {
			return err
		}
		if *to, err = cipher.NewGCM(b); err != nil {
			return err
		}
	}
	return nil
}

func nonce(n *uint64) []byte {
	var b [12]byte
	binary.BigEndian.PutUint64(b[4:], *n)
	*n++
	return b[:]
}

func (s *sealedStream) Write(p []byte) (int, error) {
	total := len(p)
	for len(p) > 0 {
		n := min(len(p), chunk)
		s.out = binary.BigEndian.AppendUint32(s.out, uint32(n+sealed))
		s.out = s.seal.Seal(s.out, nonce(&s.sent), p[:n], nil)
		if _, err := s.under.Write(s.out); err != nil {
			return total - len(p), err
		}
		s.out, p = s.out[:0], p[n:]
	}
	return total, nil
}

func (s *sealedStream) Read(p []byte) (int, error) {
	if len(s.left) == 0 {
		var head [4]byte
		if _, err := io.ReadFull(s.under, head[:]); err != nil {
			return 0, err
		}
		n := binary.BigEndian.Uint32(head[:])
		if n <= sealed || n > chunk+sealed {
			return 0, fmt.Errorf("gateway: a chunk of %d bytes, expected %d to %d", n, sealed+1, chunk+sealed)
		}
		if uint32(cap(s.in)) < n {
			s.in = make([]byte, n)
		}
		s.in = s.in[:n]
		if _, err := io.ReadFull(s.under, s.in); err != nil {
			return 0, err
		}
		var err error
		if s.left, err = s.open.Open(s.in[:0], nonce(&s.taken), s.in, nil); err != nil {
			return 0, fmt.Errorf("gateway: %w", err)
		}
	}
	n := copy(p, s.left)
	s.left = s.left[n:]
	return n, nil
}

func (s *sealedStream) Close() error { return s.under.Close() }
