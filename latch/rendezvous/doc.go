// SPDX-License-Identifier: Apache-2.0

// Package rendezvous lets gates and agents that do not know each other meet on
// a message system: behind a load balancer a gate cannot tell which machine
// serves its connection, and a list of all agents does not grow for ever.
//
// [Dial] is the gate's end and has the methods of channel.Client; [NewServer]
// is the agent's. Both speak over a [Bus]; [NATS] makes one of a NATS server.
//
// # Subjects
//
//	PREFIX.call                 a gate calls all agents: channel.Call
//	PREFIX.gate.GATE.CH         an agent answers: Session or Refused of the ClientHello with digest CH
//	PREFIX.gate.GATE.report     Report, before the Sessions that refer to it
//	PREFIX.gate.GATE.endorsement
//
// GATE is the gate's token of this connection, CH the digest, both in
// hexadecimal. A message from an agent begins with the agent's token
// (channel.TokenSize bytes), since numbers of reports belong to one agent.
//
// # What is trusted
//
// Nothing. Evidence authenticates itself, so whoever can publish on the bus
// can delay a connection, make a gate verify junk, and learn which digests are
// asked for; he cannot make a gate release anything. Messages may be lost,
// repeated and reordered: a connection whose evidence does not come is refused
// when its deadline passes. Only the agent that observed a session answers;
// the others say nothing.
package rendezvous
