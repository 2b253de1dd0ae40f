// SPDX-License-Identifier: Apache-2.0

// Package soak runs the latch for a long time under load while parts of it are
// killed, and looks for what must never happen:
//
//   - a byte behind the ClientHello at a receiver that no agent vouches for;
//   - a request at the genuine server from a session that began and was served
//     while its agent, or its gate, was dead;
//   - an attempt that takes longer than the gate's deadline;
//   - memory of gate or agent that grows.
//
// `make soak` is the long run; `make test-full` runs half a minute of it. The
// parts, all real programs in network namespaces: four gates on a control group
// each, in which a client process keeps its share of the live sessions; two
// servers with an agent and a software TPM each; and one host of the adversary,
// with a relay that holds the certificate's key, a relay that also passes the
// client's hello on to the genuine server, servers that answer nonsense, and a
// peer that sends nonsense to the agents. Four in a hundred attempts of each
// client goes to these or is itself malformed.
//
// Gate 0 and agent b are never killed, so that their memory can be watched over
// the whole run; the others are killed with SIGKILL at random moments.
package soak
