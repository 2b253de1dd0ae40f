// SPDX-License-Identifier: Apache-2.0

package soak

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	mrand "math/rand/v2"
	"net/netip"
	"os"
	"sync/atomic"
	"time"

	"holdfast/latch/audit"
	"holdfast/latch/ops"
)

// reload has gate 0, and gates that may just be dead, read their
// configuration again every few seconds, under full load.
func (s *stage) reload(ctx context.Context, fault *atomic.Pointer[string]) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-time.After(time.Duration(2000+mrand.IntN(4000)) * time.Millisecond):
		}
		for _, k := range []int{0, 1 + mrand.IntN(gates-1)} {
			if _, err := ops.Call(ctx, s.control(k), "POST", "/reload"); err != nil && k == 0 && ctx.Err() == nil {
				text := "gate 0: reload: " + err.Error()
				fault.Store(&text)
				return
			}
		}
	}
}

// audited compares what the servers saw with what gate 0, which was never
// killed, says that it released: no request may come from a connection that is
// not in its audit log, and nothing may be missing in that.
func (s *stage) audited(r *Result) {
	f, err := os.Open(s.audit(0))
	if err != nil {
		r.Faults = append(r.Faults, err.Error())
		return
	}
	defer f.Close()
	type end struct {
		port   uint16
		server netip.Addr
	}
	released := map[end]int{}
	for l := bufio.NewScanner(f); l.Scan(); {
		var e audit.Event
		if err := json.Unmarshal(l.Bytes(), &e); err != nil {
			r.Faults = append(r.Faults, fmt.Sprintf("audit log of gate 0: %q: %v", l.Text(), err))
			return
		}
		switch e.Event {
		case "released":
			local, remote := netip.MustParseAddrPort(e.Local), netip.MustParseAddrPort(e.Remote)
			released[end{local.Port(), remote.Addr()}]++
			r.Audited++
		case "reload":
			r.Reloads++
			if e.Detail != "good" {
				r.Faults = append(r.Faults, "gate 0: reload: "+e.Detail)
			}
		case "dropped":
			r.Faults = append(r.Faults, fmt.Sprintf("audit log of gate 0: %d events are missing", e.Count))
		}
	}
	for i := range s.server {
		list, err := readServed(s.path("served-" + serverName(i)))
		if err != nil {
			return // judge says so
		}
		server := netip.MustParseAddr(address(1+i, 2))
		for _, x := range list {
			if int(x.Client>>16) != 10 {
				continue
			}
			k := end{uint16(x.Client), server}
			if released[k]--; released[k] < 0 {
				r.Faults = append(r.Faults, fmt.Sprintf("%s served a request from port %d of client 0 that gate 0 does not say it released", serverName(i), k.port))
			}
		}
	}
}
