// SPDX-License-Identifier: Apache-2.0

//go:build linux

package esr

import (
	"context"
	"net"
	"path/filepath"
	"testing"
	"time"

	"holdfast/latch/channel"
)

// refuser answers every announcement with a refusal and remembers it.
type refuser struct{ got chan channel.Announcement }

func (r refuser) Announced(c *channel.Conn, batch []channel.Announcement) {
	for _, a := range batch {
		r.got <- a
		_ = c.Refuse([]channel.Refused{{CH: a.CH, Code: "not-observed", Text: "no such session"}})
	}
}
func (refuser) Closed(*channel.Conn) {}

func TestAskAgent(t *testing.T) {
	cert, _ := service(t)
	h := refuser{make(chan channel.Announcement, 1)}
	s, err := channel.NewServer(h, channel.ServerOptions{Software: "test"})
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "agent.sock")
	l, err := net.Listen("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	go s.Serve(l)
	defer s.Close()
	ctx, stop := context.WithTimeout(context.Background(), 20*time.Second)
	defer stop()
	a, err := AskAgent(ctx, "unix", path, cert)
	if err != nil || a.Attested || a.Code != "not-observed" {
		t.Errorf("answer %+v, %v", a, err)
	}
	if got := <-h.got; got.CH == [32]byte{} || got.Random == [32]byte{} {
		t.Errorf("announced %+v", got)
	}
}
