// SPDX-License-Identifier: Apache-2.0

// Package demo is `holdfast demo`: the main job on real programs. [Run] makes
// three network namespaces (client, router, server), runs the distribution's
// nginx and curl in them, with a software TPM as root of trust, an agent
// beside nginx and a gate beside curl, and plays the same request four times:
//
//	               plain TLS          through the gate
//	genuine        answered           attested, released, answered
//	relay          the adversary      refused; not a byte of the
//	               reads the request  request leaves the client
//
// The adversary owns the router and a copy of the service's certificate key
// (package test/esr). Every outcome is checked; [Result] lists what was not as
// promised.
package demo
