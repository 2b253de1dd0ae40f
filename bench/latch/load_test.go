// SPDX-License-Identifier: Apache-2.0

package latch

import (
	"context"
	"io"
	"path/filepath"
	"testing"
	"time"
)

func TestLoad(t *testing.T) {
	ctx, stop := context.WithCancel(context.Background())
	cert := filepath.Join(t.TempDir(), "cert.pem")
	r, w := io.Pipe()
	done := make(chan error, 1)
	go func() { done <- Serve(ctx, "127.0.0.1:14430", cert, w) }()
	if _, err := r.Read(make([]byte, 6)); err != nil {
		t.Fatal(err)
	}
	o := LoadOptions{Address: "127.0.0.1:14430", CertFile: cert, Group: "x25519mlkem768", Concurrency: 4, Time: 300 * time.Millisecond}
	s, err := Load(ctx, o)
	if err != nil || s.Connections == 0 || s.Errors != 0 || s.CPU <= 0 || s.P95 < s.P50 || s.Rate <= 0 {
		t.Errorf("sample %+v, %v", s, err)
	}
	stop()
	if err := <-done; err != nil {
		t.Error(err)
	}
	if s, err = Load(context.Background(), o); err != nil || s.Connections != 0 || s.Errors == 0 || s.FirstError == "" {
		t.Errorf("without a server: %+v, %v", s, err)
	}
}
