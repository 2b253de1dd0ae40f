// SPDX-License-Identifier: Apache-2.0

package latch

import (
	"context"
	"encoding/json"
	"io"
	"strings"
	"testing"
	"time"

	"holdfast/bench/latch/baseline"
)

// started serves a design on loopback until the test ends.
func started(t *testing.T, design, address string) *baseline.Kit {
	t.Helper()
	dir := t.TempDir()
	if err := baseline.NewKit(dir); err != nil {
		t.Fatal(err)
	}
	k, err := baseline.OpenKit(dir, "x25519mlkem768", time.Millisecond)
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(context.Background())
	r, w := io.Pipe()
	done := make(chan error, 1)
	go func() { done <- Serve(ctx, k, design, address, w) }()
	if _, err := r.Read(make([]byte, 6)); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		stop()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
	return k
}

// TestLoad is a tiny run of every design: small and large requests get through.
func TestLoad(t *testing.T) {
	for _, d := range baseline.Designs {
		t.Run(d.Name, func(t *testing.T) {
			k := started(t, d.Name, "127.0.0.1:14430")
			for _, size := range []int64{smallSize, 300000} {
				o := LoadOptions{Design: d.Name, Address: "127.0.0.1:14430", Concurrency: 4, Time: 100 * time.Millisecond, Size: size}
				s, err := Load(t.Context(), k, o)
				if err != nil || s.Connections == 0 || s.Errors != 0 || s.CPU <= 0 || s.P95 < s.P50 || s.Rate <= 0 {
					t.Errorf("%d bytes: sample %+v, %v", size, s, err)
				}
			}
		})
	}
}

func TestLoadWithoutServer(t *testing.T) {
	k := started(t, "native", "127.0.0.1:14430")
	o := LoadOptions{Design: "native", Address: "127.0.0.1:14431", Concurrency: 1, Time: 50 * time.Millisecond, Size: smallSize}
	if s, err := Load(t.Context(), k, o); err != nil || s.Connections != 0 || s.Errors == 0 || s.FirstError == "" {
		t.Errorf("%+v, %v", s, err)
	}
	o.Size = 10
	if _, err := Load(t.Context(), k, o); err == nil {
		t.Error("a request without room for its head")
	}
}

func TestLive(t *testing.T) {
	k := started(t, "native", "127.0.0.1:14430")
	var out strings.Builder
	if err := Live(k, "native", "127.0.0.1:14430", 100, strings.NewReader(""), &out); err != nil {
		t.Fatal(err)
	}
	var s Sample
	if err := json.Unmarshal([]byte(out.String()), &s); err != nil || s.Connections != 100 || s.Errors != 0 {
		t.Errorf("%+v, %v", s, err)
	}
}
