// SPDX-License-Identifier: Apache-2.0

//go:build !linux

package gate

// loop exists on Linux only.
type loop struct{ turning bool }

func (g *Gate) startLoop() bool { return false }

func (l *loop) wake() {}

func (k *link) serve(c agentClient, up func()) error { return k.serveHere(c, up) }
