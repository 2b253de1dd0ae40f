// SPDX-License-Identifier: Apache-2.0

// Package agent is the server side of the latch: it attests, for each session
// that a gate announced, what package observe saw of it on this machine.
//
// New takes the parts (a Source of observations and a way to open the
// security processor), Serve answers gates, Run is the loop. ParseConfig and
// Open make an agent from a configuration file.
//
// # What it attests
//
// Only a session that both sides brought: a gate announced its ClientHello, and
// the observer saw a local process on a protected listener answer it. There is
// no message that asks for evidence over something else. Announcements and
// observations wait for each other for Options.Park, bounded in number; then the
// gate hears not-observed.
//
// # Group commit
//
// Reports are serial. The sessions that become ready while one is made are the
// leaves of the next tree; its root is the next report's data, and each gate
// gets the report once with a path for each of its sessions. The more sessions
// are under way, the further apart reports start, up to Options.Gap, so that a
// fast signer and the verifiers do not eat a processor; an idle agent starts at
// once.
//
// After the report is made every session is looked at again: one whose socket
// has left the state ESTABLISHED, or whose listener has another identity now, is
// refused.
package agent
