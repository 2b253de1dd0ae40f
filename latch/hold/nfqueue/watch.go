// SPDX-License-Identifier: Apache-2.0

//go:build linux

package nfqueue

import (
	"encoding/binary"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/google/nftables"
	"github.com/mdlayher/netlink"
	"golang.org/x/sys/unix"
)

// watcher looks at the ruleset after each change that anyone makes, and puts
// our tables back.
type watcher struct {
	h        *Hold
	events   *netlink.Conn
	mu       sync.Mutex
	want     map[string][]uint64 // rule handles and flags of our tables, as installed
	restored atomic.Uint64
	closed   atomic.Bool
	done     chan struct{}
}

const groupNFTables = 7 // NFNLGRP_NFTABLES

func watch(h *Hold) (*watcher, error) {
	w := &watcher{h: h, done: make(chan struct{})}
	var err error
	if w.events, err = netlink.Dial(unix.NETLINK_NETFILTER, nil); err != nil {
		return nil, fmt.Errorf("netfilter monitor: %w", err)
	}
	if err := w.events.JoinGroup(groupNFTables); err != nil {
		w.events.Close()
		return nil, fmt.Errorf("netfilter monitor: %w", err)
	}
	if c, err := w.events.SyscallConn(); err == nil {
		c.Control(func(fd uintptr) { unix.SetsockoptInt(int(fd), unix.SOL_SOCKET, unix.SO_RCVBUFFORCE, 4<<20) })
	}
	if w.want, err = h.put(); err != nil {
		w.events.Close()
		return nil, err
	}
	go w.run()
	return w, nil
}

func (w *watcher) close() {
	if w.closed.CompareAndSwap(false, true) {
		w.events.Close()
		<-w.done
	}
}

func (w *watcher) run() {
	defer close(w.done)
	for {
		_, err := w.events.Receive()
		if w.closed.Load() {
			return
		}
		var op *netlink.OpError
		if err != nil && errors.As(err, &op) && !op.Temporary() && !errors.Is(err, unix.ENOBUFS) {
			slog.Error("the netfilter rules are not watched any more; they are looked at twice a minute", "error", err)
			return
		}
		if err := w.look(); err != nil {
			slog.Error("netfilter rules", "error", err)
		}
	}
}

// look compares the tables with what was installed, and installs them again if
// anything differs.
func (w *watcher) look() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.closed.Load() {
		return nil
	}
	have, err := snapshot(&w.h.rules)
	if err == nil && same(have, w.want) {
		return nil
	}
	if err != nil {
		slog.Error("the netfilter rules could not be read; installing them again", "error", err)
	}
	began := time.Now()
	if w.want, err = w.h.put(); err != nil {
		return fmt.Errorf("another program changed our netfilter rules and they could not be put back: %w", err)
	}
	w.restored.Add(1)
	slog.Warn("another program changed our netfilter rules; they were put back", "took", time.Since(began).Round(time.Microsecond).String(), "guarded", w.h.owner)
	return nil
}

// put installs the rules and reads them back. What was read is what later looks
// compare with, so it must be whole: another flush may come right behind.
func (h *Hold) put() (map[string][]uint64, error) {
	for try := 0; ; try++ {
		if err := h.install(); err != nil {
			return nil, err
		}
		have, err := snapshot(&h.rules)
		if err == nil && h.rules.whole(have, h.owner) {
			return have, nil
		}
		if try == 20 {
			return nil, errors.Join(err, errors.New("another program takes them away as fast as they are put back"))
		}
	}
}

// whole says whether a snapshot has every chain with every rule.
func (r *rules) whole(have map[string][]uint64, owner bool) bool {
	n := 0
	for _, guard := range []bool{false, true} {
		name, flags := r.table(), uint64(0)
		if guard {
			name = r.guard()
			if owner {
				flags = tableOwner
			}
		}
		if f := have[name]; len(f) != 1 || f[0] != flags {
			return false
		}
		n++
		for _, c := range r.chains(guard) {
			if len(have[name+"/"+c.name]) != 2+len(c.rules) {
				return false
			}
			n++
		}
	}
	return n == len(have)
}

func same(a, b map[string][]uint64) bool {
	for k, v := range b {
		if !slices.Equal(a[k], v) {
			return false
		}
	}
	return len(a) == len(b)
}

// snapshot lists what our tables hold: flags, chains and the handles of their
// rules, which a table never gives twice.
func snapshot(r *rules) (map[string][]uint64, error) {
	c, err := nftables.New()
	if err != nil {
		return nil, fmt.Errorf("netfilter rules: %w", err)
	}
	tables, err := c.ListTablesOfFamily(nftables.TableFamilyINet)
	if err != nil {
		return nil, fmt.Errorf("netfilter tables: %w", err)
	}
	out := map[string][]uint64{}
	for _, t := range tables {
		if t.Name == r.table() || t.Name == r.guard() {
			// The library reads the flags in the host's order; they come in network order.
			out[t.Name] = []uint64{uint64(binary.BigEndian.Uint32(word(t.Flags)))}
		}
	}
	chains, err := c.ListChainsOfTableFamily(nftables.TableFamilyINet)
	if err != nil {
		return nil, fmt.Errorf("netfilter chains: %w", err)
	}
	for _, ch := range chains {
		if out[ch.Table.Name] == nil {
			continue
		}
		rs, err := c.GetRules(&nftables.Table{Name: ch.Table.Name, Family: nftables.TableFamilyINet}, &nftables.Chain{Name: ch.Name})
		if err != nil {
			return nil, fmt.Errorf("netfilter rules of %s: %w", ch.Table.Name, err)
		}
		list := []uint64{0, 0}
		if ch.Hooknum != nil {
			list[0] = uint64(*ch.Hooknum) + 1
		}
		if ch.Priority != nil {
			list[1] = uint64(int64(*ch.Priority))
		}
		for _, x := range rs {
			list = append(list, x.Handle)
		}
		out[ch.Table.Name+"/"+ch.Name] = list
	}
	return out, nil
}
