// SPDX-License-Identifier: Apache-2.0

package baseline

import (
	"bytes"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"errors"
	"io"
	"net"
	"os"
	"path/filepath"
	"reflect"
	"sync"
	"testing"
	"time"
)

func kit(t testing.TB) *Kit {
	t.Helper()
	dir := t.TempDir()
	if err := NewKit(dir); err != nil {
		t.Fatal(err)
	}
	return open(t, dir)
}

func open(t testing.TB, dir string) *Kit {
	t.Helper()
	k, err := OpenKit(dir, "x25519", time.Millisecond)
	if err != nil {
		t.Fatal(err)
	}
	return k
}

// converse runs one connection over loopback. accepted is what the client said
// of the receiver, read what the server got of the request.
func converse(t *testing.T, s Server, c Client, request []byte) (read []byte, accepted, served error) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	var wg sync.WaitGroup
	wg.Go(func() {
		conn, err := l.Accept()
		if err != nil {
			served = err
			return
		}
		defer conn.Close()
		_ = conn.SetDeadline(time.Now().Add(30 * time.Second))
		st, err := s.Accept(conn)
		if err != nil {
			served = err
			return
		}
		read = make([]byte, len(request))
		n, err := io.ReadFull(st, read)
		if read = read[:n]; err != nil {
			served = err
			return
		}
		_, served = st.Write(read)
	})
	conn, err := net.Dial("tcp", l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	_ = conn.SetDeadline(time.Now().Add(30 * time.Second))
	st, accepted := c.Connect(conn)
	if accepted == nil {
		if _, accepted = st.Write(request); accepted == nil {
			back := make([]byte, len(request))
			if _, accepted = io.ReadFull(st, back); accepted == nil && !bytes.Equal(back, request) {
				t.Error("another answer came back")
			}
		}
	}
	conn.Close()
	wg.Wait()
	return read, accepted, served
}

// TestDesigns: each design carries a request of several records there and back.
func TestDesigns(t *testing.T) {
	for _, d := range Designs {
		t.Run(d.Name, func(t *testing.T) {
			k := kit(t)
			s, err := d.Server(k)
			if err != nil {
				t.Fatal(err)
			}
			c, err := d.Client(open(t, k.Dir))
			if err != nil {
				t.Fatal(err)
			}
			request := bytes.Repeat([]byte("request "), 30000)
			for range 3 {
				read, accepted, served := converse(t, s, c, request)
				if accepted != nil || served != nil || !bytes.Equal(read, request) {
					t.Errorf("%d bytes read, %v, %v", len(read), accepted, served)
				}
			}
		})
	}
}

// forger signs with a processor of its own root of the same name: everything
// is right but who made it.
func forger(t *testing.T) *Kit { return kit(t) }

// TestForged: every attesting design refuses a receiver whose evidence another
// root made, and no byte of the request reaches it.
func TestForged(t *testing.T) {
	for _, d := range Designs {
		if !d.Attests {
			continue
		}
		t.Run(d.Name, func(t *testing.T) {
			genuine, forged := kit(t), forger(t)
			// The false receiver owns the service's certificate key.
			forged.cert = genuine.cert
			s, err := d.Server(forged)
			if err != nil {
				t.Fatal(err)
			}
			files, _ := filepath.Glob(filepath.Join(forged.Dir, "*"))
			for _, f := range files { // its endorsements and its worker's key reach the client
				if n := filepath.Base(f); n == workerKeyFile || len(n) > 40 {
					b, err := os.ReadFile(f)
					if err != nil {
						t.Fatal(err)
					}
					if err := os.WriteFile(filepath.Join(genuine.Dir, n), b, 0o600); err != nil {
						t.Fatal(err)
					}
				}
			}
			ck := open(t, genuine.Dir)
			forged.accept, forged.verifier, forged.Dir = ck.accept, ck.verifier, ck.Dir // it believes its client
			c, err := d.Client(ck)
			if err == nil {
				var read []byte
				read, err, _ = converse(t, s, c, []byte("secret"))
				if len(read) > 0 {
					t.Errorf("the receiver got %q", read)
				}
			}
			if err == nil {
				t.Fatal("accepted")
			}
			t.Log(err)
		})
	}
}

// swapped gives another channel's proof.
type swapped struct{ reporter }

func (s swapped) prove(leaf [32]byte) (*proof, error) {
	leaf[0] ^= 1
	return s.reporter.prove(leaf)
}

// TestOtherSession: a genuine report over another session is refused, with and
// without a tree; in mutual sessions by either side.
func TestOtherSession(t *testing.T) {
	for _, d := range []Design{tlsRA, tlsRABatched, mutualInOrder, mutualAtOnce} {
		k := kit(t)
		s, err := d.Server(k)
		if err != nil {
			t.Fatal(err)
		}
		c, err := d.Client(open(t, k.Dir))
		if err != nil {
			t.Fatal(err)
		}
		good := s.(*raServer).own
		s.(*raServer).own = swapped{good}
		if read, accepted, _ := converse(t, s, c, []byte("secret")); accepted == nil || len(read) > 0 {
			t.Errorf("%s: the client accepted a report over another session; the receiver read %q", d.Name, read)
		}
		s.(*raServer).own = good
		if own := c.(*raClient).own; own != nil {
			c.(*raClient).own = swapped{own}
			if _, _, served := converse(t, s, c, []byte("secret")); served == nil {
				t.Errorf("%s: the server accepted a report over another session", d.Name)
			}
		}
	}
}

// TestForeignCertificate: RA-TLS refuses evidence that was made for another key.
func TestForeignCertificate(t *testing.T) {
	k := kit(t)
	s, err := newRAServer(k)
	if err != nil {
		t.Fatal(err)
	}
	leaf, err := x509.ParseCertificate(s.conf.Certificates[0].Certificate[0])
	if err != nil {
		t.Fatal(err)
	}
	cert, err := selfSigned(func(c *x509.Certificate, _ []byte) error {
		for _, e := range leaf.Extensions {
			if e.Id.Equal(evidenceOID) {
				c.ExtraExtensions = []pkix.Extension{e}
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	s.conf.Certificates = []tls.Certificate{cert}
	if read, accepted, _ := converse(t, s, &nativeClient{raClientTLS(k)}, []byte("secret")); accepted == nil || len(read) > 0 {
		t.Errorf("accepted; the receiver read %q", read)
	}
	s.conf.Certificates = []tls.Certificate{k.cert}
	if _, accepted, _ := converse(t, s, &nativeClient{raClientTLS(k)}, []byte("secret")); accepted == nil {
		t.Error("a certificate without evidence was accepted")
	}
}

// TestGrouped: leaves that come together share reports, and each path leads to
// its own leaf only.
func TestGrouped(t *testing.T) {
	k := kit(t)
	k.Latency = 20 * time.Millisecond
	r, err := newGrouped(k, machine)
	if err != nil {
		t.Fatal(err)
	}
	const n = 40
	var wg sync.WaitGroup
	var mu sync.Mutex
	bodies := map[string]int{}
	for i := range n {
		wg.Go(func() {
			p, err := r.prove([32]byte{byte(i)})
			if err != nil {
				t.Error(err)
				return
			}
			if err := k.check(machine, p, [32]byte{byte(i)}); err != nil {
				t.Error(err)
			}
			if err := k.check(machine, p, [32]byte{byte(i), 1}); err == nil {
				t.Error("a proof for another leaf was accepted")
			}
			mu.Lock()
			defer mu.Unlock()
			bodies[string(p.report.Body)]++
		})
	}
	wg.Wait()
	if len(bodies) == n {
		t.Errorf("%d reports for %d leaves, expected fewer", len(bodies), n)
	}
}

func TestSealedStreamRefuses(t *testing.T) {
	k := kit(t)
	s, err := newGateway(k)
	if err != nil {
		t.Fatal(err)
	}
	c, err := newGatewayClient(k)
	if err != nil {
		t.Fatal(err)
	}
	c.secret = bytes.Repeat([]byte{1}, 32) // of somebody else
	if read, _, served := converse(t, s, c, []byte("secret")); served == nil || len(read) > 0 {
		t.Errorf("opened %q", read)
	}
}

func TestKitNames(t *testing.T) {
	if _, err := Find("nested"); err != nil {
		t.Error(err)
	}
	if d, err := Find("tunnel"); err == nil || d != nil {
		t.Error("an unknown design was found")
	}
	if _, err := OpenKit(t.TempDir(), "x25519", 0); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("an empty folder: %v", err)
	}
	if _, err := OpenKit(t.TempDir(), "x448", 0); err == nil {
		t.Error("an unknown group")
	}
}

func FuzzProof(f *testing.F) {
	f.Add((&proof{size: 3, index: 1, path: [][32]byte{{1}, {2}}}).encode()[4:])
	f.Add([]byte{})
	f.Fuzz(func(t *testing.T, b []byte) {
		p, err := parseProof(b)
		if err != nil {
			if p != nil {
				t.Error("a result with an error")
			}
			return
		}
		if again := p.encode()[4:]; !bytes.Equal(again, b) {
			t.Errorf("%x became %x", b, again)
		}
		q, err := readProof(bytes.NewReader(p.encode()))
		if err != nil || !reflect.DeepEqual(p, q) {
			t.Errorf("%+v, %v", q, err)
		}
	})
}
