// SPDX-License-Identifier: Apache-2.0

//go:build linux

package latch

import (
	"context"
	"crypto/ecdh"
	"crypto/rand"
	"crypto/sha256"
	"crypto/tls"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

func init() {
	helpers["vpn"] = vpnHelper
	helpers["late"] = func(a []string) error { return lateHelper(a, 0) }
	helpers["narrow"] = func(a []string) error { return lateHelper(a, 2304) }
	helpers["alive"] = aliveHelper
	helpers["pour"] = pourHelper
	helpers["ech-serve"] = echServeHelper
	helpers["ech-get"] = echGetHelper
}

// vpnHelper LISTEN PEER ADDRESS/BITS makes a TUN device and carries its packets
// in datagrams to and from the peer.
func vpnHelper(a []string) error {
	fd, err := unix.Open("/dev/net/tun", unix.O_RDWR|unix.O_CLOEXEC, 0)
	if err != nil {
		return err
	}
	req, err := unix.NewIfreq("tunnel")
	if err != nil {
		return err
	}
	req.SetUint16(unix.IFF_TUN | unix.IFF_NO_PI)
	if err := unix.IoctlIfreq(fd, unix.TUNSETIFF, req); err != nil {
		return err
	}
	for _, args := range [][]string{{"addr", "add", a[2], "dev", "tunnel"}, {"link", "set", "tunnel", "mtu", "1400", "up"}} {
		if out, err := exec.Command("ip", args...).CombinedOutput(); err != nil {
			return fmt.Errorf("ip %v: %w %s", args, err, out)
		}
	}
	peer, err := net.ResolveUDPAddr("udp4", a[1])
	if err != nil {
		return err
	}
	here, err := net.ResolveUDPAddr("udp4", a[0])
	if err != nil {
		return err
	}
	c, err := net.ListenUDP("udp4", here)
	if err != nil {
		return err
	}
	fmt.Println("up")
	tun := os.NewFile(uintptr(fd), "tun")
	go func() {
		b := make([]byte, 2048)
		for {
			n, err := tun.Read(b)
			if err != nil {
				return
			}
			c.WriteToUDP(b[:n], peer) // the other end may not be there yet
		}
	}()
	b := make([]byte, 2048)
	for {
		n, err := c.Read(b)
		if errors.Is(err, syscall.ECONNREFUSED) {
			continue
		}
		if err != nil {
			return err
		}
		if _, err := tun.Write(b[:n]); err != nil {
			return err
		}
	}
}

// lateHelper LISTEN CERT KEY PAUSE is a TLS server that waits before it reads
// the ClientHello and again before it reads what follows the handshake. It answers
// with the count and the digest of all it read until the client's end. Its
// sockets probe every second whether the client is there.
func lateHelper(a []string, receiveBuffer int) error {
	cert, err := tls.LoadX509KeyPair(a[1], a[2])
	if err != nil {
		return err
	}
	pause, err := time.ParseDuration(a[3])
	if err != nil {
		return err
	}
	lc := net.ListenConfig{KeepAliveConfig: net.KeepAliveConfig{Enable: true, Idle: time.Second, Interval: time.Second, Count: 20}}
	lc.SetMultipathTCP(false)
	lc.Control = func(_, _ string, rc syscall.RawConn) (err error) {
		if receiveBuffer > 0 {
			e := rc.Control(func(fd uintptr) { err = unix.SetsockoptInt(int(fd), unix.SOL_SOCKET, unix.SO_RCVBUF, receiveBuffer) })
			err = errors.Join(err, e)
		}
		return err
	}
	l, err := lc.Listen(context.Background(), "tcp", a[0])
	if err != nil {
		return err
	}
	for {
		c, err := l.Accept()
		if err != nil {
			return err
		}
		go func() {
			defer c.Close()
			time.Sleep(pause)
			t := tls.Server(c, &tls.Config{Certificates: []tls.Certificate{cert}})
			if t.Handshake() != nil {
				return
			}
			time.Sleep(pause)
			h := sha256.New()
			n, err := io.Copy(h, t)
			fmt.Fprintf(t, "hello, %d bytes %x %v\n", n, h.Sum(nil), err)
			t.CloseWrite()
		}()
	}
}

func dialAlive(addr, server string) (*tls.Conn, error) {
	d := net.Dialer{Timeout: 10 * time.Second, KeepAliveConfig: net.KeepAliveConfig{Enable: true, Idle: time.Second, Interval: time.Second, Count: 20}}
	d.SetMultipathTCP(false)
	c, err := d.Dial("tcp", addr)
	if err != nil {
		return nil, err
	}
	c.SetDeadline(time.Now().Add(40 * time.Second))
	return tls.Client(c, clientTLS(server)), nil
}

// aliveHelper ADDRESS NAME opens a session that probes every second whether the
// server is there.
func aliveHelper(a []string) error {
	t, err := dialAlive(a[0], a[1])
	if err != nil {
		return err
	}
	if _, err := io.WriteString(t, "a request"); err != nil {
		return err
	}
	if err := t.CloseWrite(); err != nil {
		return err
	}
	b, err := io.ReadAll(t)
	fmt.Printf("%s", b)
	return err
}

// pourHelper ADDRESS NAME sends 256 KiB and compares what the server says of
// them.
func pourHelper(a []string) error {
	t, err := dialAlive(a[0], a[1])
	if err != nil {
		return err
	}
	b := make([]byte, 256<<10)
	rand.Read(b)
	if _, err := t.Write(b); err != nil {
		return err
	}
	if err := t.CloseWrite(); err != nil {
		return err
	}
	got, err := io.ReadAll(t)
	if err != nil {
		return err
	}
	if want := fmt.Sprintf("hello, %d bytes %x <nil>\n", len(b), sha256.Sum256(b)); string(got) != want {
		return fmt.Errorf("expected %q, got %q", want, got)
	}
	fmt.Println("all of it arrived")
	return nil
}

// echConfig is an ECHConfig (RFC 9849, section 4): DHKEM(X25519, HKDF-SHA256),
// HKDF-SHA256, AES-128-GCM.
func echConfig(public []byte, name string) []byte {
	var b []byte
	b = append(b, 7)                           // config_id
	b = binary.BigEndian.AppendUint16(b, 0x20) // kem_id
	b = binary.BigEndian.AppendUint16(b, uint16(len(public)))
	b = append(b, public...)
	b = append(b, 0, 4, 0, 1, 0, 1, 32, byte(len(name)))
	b = append(b, name...)
	b = append(b, 0, 0)
	return append([]byte{0xfe, 0x0d, byte(len(b) >> 8), byte(len(b))}, b...)
}

// echServeHelper LISTEN CERT KEY FILE is a server that accepts Encrypted
// ClientHello and writes its configuration, in hex, to FILE.
func echServeHelper(a []string) error {
	cert, err := tls.LoadX509KeyPair(a[1], a[2])
	if err != nil {
		return err
	}
	key, err := ecdh.X25519().GenerateKey(rand.Reader)
	if err != nil {
		return err
	}
	config := echConfig(key.PublicKey().Bytes(), name)
	if err := os.WriteFile(a[3], []byte(hex.EncodeToString(config)), 0o644); err != nil {
		return err
	}
	l, err := net.Listen("tcp", a[0])
	if err != nil {
		return err
	}
	for {
		c, err := l.Accept()
		if err != nil {
			return err
		}
		go func() {
			defer c.Close()
			t := tls.Server(c, &tls.Config{Certificates: []tls.Certificate{cert}, EncryptedClientHelloKeys: []tls.EncryptedClientHelloKey{{Config: config, PrivateKey: key.Bytes()}}})
			if t.Handshake() != nil {
				return
			}
			s := t.ConnectionState()
			fmt.Fprintf(t, "hello to %s, %s\n", s.ServerName, map[bool]string{true: "encrypted", false: "in the clear"}[s.ECHAccepted])
		}()
	}
}

// echGetHelper ADDRESS NAME FILE asks for NAME inside an encrypted ClientHello.
func echGetHelper(a []string) error {
	text, err := os.ReadFile(a[2])
	if err != nil {
		return err
	}
	config, err := hex.DecodeString(strings.TrimSpace(string(text)))
	if err != nil {
		return err
	}
	list := append(binary.BigEndian.AppendUint16(nil, uint16(len(config))), config...)
	c := clientTLS(a[1])
	c.EncryptedClientHelloConfigList, c.MinVersion = list, tls.VersionTLS13
	d := net.Dialer{Timeout: 8 * time.Second}
	d.SetMultipathTCP(false)
	nc, err := d.Dial("tcp", a[0])
	if err != nil {
		return err
	}
	nc.SetDeadline(time.Now().Add(20 * time.Second))
	t := tls.Client(nc, c)
	b, err := io.ReadAll(t)
	fmt.Printf("%s", b)
	return err
}
