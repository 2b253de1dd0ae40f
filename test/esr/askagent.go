// SPDX-License-Identifier: Apache-2.0

package esr

import (
	"context"
	"crypto/sha256"
	"crypto/tls"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"time"

	"holdfast/latch/channel"
)

// Answer is what an agent said to a stranger's announcement.
type Answer struct {
	Attested bool   `json:"attested"` // the agent gave evidence
	Code     string `json:"code,omitempty"`
	Text     string `json:"text,omitempty"`
}

// AskAgent is the attempt of a local process without privileges to have a
// session of its own attested: it ends a real TLS session with its own key and
// announces that session's ClientHello to the agent, just as a gate would.
// Whatever the agent then vouched for would pass for the service.
func AskAgent(ctx context.Context, network, address string, own tls.Certificate) (Answer, error) {
	hello, random, err := ownSession(ctx, own)
	if err != nil {
		return Answer{}, err
	}
	c, err := channel.Dial(ctx, network, address, channel.Options{Software: "stranger"})
	if err != nil {
		return Answer{}, err
	}
	stop := context.AfterFunc(ctx, func() { c.Close() })
	defer stop()
	defer c.Close()
	if err := c.Announce([]channel.Announcement{{CH: hello, Random: random, Grade: 1}}); err != nil {
		return Answer{}, err
	}
	var events []channel.Event
	for {
		events, err = c.Recv(events[:0])
		var bye *channel.GoodbyeError
		if errors.As(err, &bye) {
			return Answer{Code: bye.Code, Text: bye.Text}, nil
		}
		if err != nil {
			return Answer{}, fmt.Errorf("the agent's answer: %w", err)
		}
		for _, e := range events {
			switch {
			case e.Kind == channel.KindSession && e.Session.CH == hello:
				return Answer{Attested: true}, nil
			case e.Kind == channel.KindRefused && e.Refused.CH == hello:
				return Answer{Code: e.Refused.Code, Text: e.Refused.Text}, nil
			}
		}
	}
}

// ownSession makes a TLS session with itself over loopback and returns
// SHA-256 and client random of its ClientHello message.
func ownSession(ctx context.Context, own tls.Certificate) (hello, random [32]byte, err error) {
	var lc net.ListenConfig
	lc.SetMultipathTCP(false)
	l, err := lc.Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return hello, random, err
	}
	defer l.Close()
	client := make(chan error, 1)
	go func() {
		d := tls.Dialer{Config: &tls.Config{InsecureSkipVerify: true, MinVersion: tls.VersionTLS13}}
		c, err := d.DialContext(ctx, "tcp", l.Addr().String())
		if err == nil {
			err = c.Close()
		}
		client <- err
	}()
	c, err := l.Accept()
	if err != nil {
		return hello, random, err
	}
	defer c.Close()
	_ = c.SetDeadline(time.Now().Add(10 * time.Second))
	recorded := &recorder{Conn: c}
	var records []byte
	s := tls.Server(recorded, &tls.Config{Certificates: []tls.Certificate{own}, GetConfigForClient: func(*tls.ClientHelloInfo) (*tls.Config, error) {
		records = recorded.stop()
		return nil, nil
	}})
	if err := s.HandshakeContext(ctx); err != nil {
		return hello, random, err
	}
	if err := <-client; err != nil {
		return hello, random, err
	}
	message, err := handshakeMessage(records)
	if err != nil {
		return hello, random, err
	}
	return sha256.Sum256(message), [32]byte(message[6:38]), nil
}

// handshakeMessage takes the ClientHello message out of its records (RFC 8446,
// 5.1 and 4): type, length, legacy version, random.
func handshakeMessage(records []byte) ([]byte, error) {
	var message []byte
	for len(records) >= 5 {
		n := int(binary.BigEndian.Uint16(records[3:5]))
		if records[0] != 22 || len(records) < 5+n {
			break
		}
		message = append(message, records[5:5+n]...)
		records = records[5+n:]
	}
	if len(message) < 38 || message[0] != 1 || len(message) != 4+int(binary.BigEndian.Uint32(append([]byte{0}, message[1:4]...))) {
		return nil, fmt.Errorf("esr: what the client sent is no ClientHello: %w", io.ErrUnexpectedEOF)
	}
	return message, nil
}
