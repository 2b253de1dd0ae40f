// SPDX-License-Identifier: Apache-2.0

package ops

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"time"
)

// Subject is what a server tells about.
type Subject struct {
	Status  func() any   // for GET /status, as JSON
	Reload  func() error // for POST /reload
	Metrics http.Handler // for GET /metrics
}

// Server answers on the configured addresses.
type Server struct {
	listeners []net.Listener
	servers   []*http.Server
}

// Serve opens the configured addresses and answers until Close.
func Serve(c Config, s Subject) (_ *Server, err error) {
	out := &Server{}
	defer func() {
		if err != nil {
			out.Close()
		}
	}()
	if c.Control != "" {
		m := http.NewServeMux()
		m.HandleFunc("GET /status", func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "application/json")
			if err := json.NewEncoder(w).Encode(s.Status()); err != nil {
				slog.Debug("status", "error", err)
			}
		})
		m.HandleFunc("POST /reload", func(w http.ResponseWriter, _ *http.Request) {
			if err := s.Reload(); err != nil {
				http.Error(w, err.Error(), http.StatusConflict)
			}
		})
		m.Handle("GET /metrics", s.Metrics)
		if err := out.start("unix:"+c.Control, m); err != nil {
			return nil, fmt.Errorf("operations.control: %w", err)
		}
	}
	if c.Metrics != "" {
		m := http.NewServeMux()
		m.Handle("GET /metrics", s.Metrics)
		if err := out.start(c.Metrics, m); err != nil {
			return nil, fmt.Errorf("operations.metrics: %w", err)
		}
	}
	return out, nil
}

func (s *Server) start(addr string, h http.Handler) error {
	l, err := listen(addr)
	if err != nil {
		return err
	}
	srv := &http.Server{Handler: h, ReadHeaderTimeout: 5 * time.Second, ReadTimeout: 10 * time.Second, WriteTimeout: 30 * time.Second, IdleTimeout: time.Minute,
		MaxHeaderBytes: 8 << 10}
	s.listeners, s.servers = append(s.listeners, l), append(s.servers, srv)
	go func() {
		if err := srv.Serve(l); !errors.Is(err, http.ErrServerClosed) {
			slog.Error("operations", "address", addr, "error", err)
		}
	}()
	return nil
}

// Addrs are the open addresses, the control socket first.
func (s *Server) Addrs() (out []net.Addr) {
	for _, l := range s.listeners {
		out = append(out, l.Addr())
	}
	return out
}

// Close stops answering.
func (s *Server) Close() error {
	var err error
	for _, x := range s.servers {
		err = errors.Join(err, x.Close())
	}
	return err
}

// Call asks a running program over its control socket: Call(ctx, path, "GET",
// "/status"), or "POST", "/reload". It returns the body.
func Call(ctx context.Context, path, method, what string) ([]byte, error) {
	t := &http.Transport{DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		var d net.Dialer
		return d.DialContext(ctx, "unix", path)
	}}
	defer t.CloseIdleConnections()
	r, err := http.NewRequestWithContext(ctx, method, "http://control"+what, nil)
	if err != nil {
		return nil, err
	}
	a, err := t.RoundTrip(r)
	if err != nil {
		return nil, fmt.Errorf("control socket %s: %w", path, err)
	}
	defer a.Body.Close()
	b, err := io.ReadAll(io.LimitReader(a.Body, 64<<20))
	if err == nil && a.StatusCode != http.StatusOK {
		err = fmt.Errorf("control socket %s: %s: %s", path, a.Status, b)
	}
	return b, err
}
