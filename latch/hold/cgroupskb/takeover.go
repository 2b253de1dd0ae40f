// SPDX-License-Identifier: Apache-2.0

//go:build linux

package cgroupskb

import "errors"

// Inherited reports whether Attach took over the hold of a gate that died.
func (h *Hold) Inherited() bool { return h.inherited }

// ResetHeld resets every connection of the cgroup that is held at this moment,
// so that its program learns at once that nothing will come of it. A gate that
// took over a hold calls it before it starts: what the dead one held, this one
// never saw the beginning of, and could neither release nor refuse.
// Connections that began since Attach are reset too.
func (h *Hold) ResetHeld() error {
	conns := h.objs.coll.Maps["conns"].FD()
	err := flushEverywhere(conns, h.passes)
	for _, n := range h.ns.known {
		err = errors.Join(err, flush(n.diag, conns, h.passes))
	}
	return err
}
