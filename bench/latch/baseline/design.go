// SPDX-License-Identifier: Apache-2.0

// Package baseline holds the designs that the latch is measured beside, one
// short file each: both ends of a connection, from the TCP connection to the
// moment at which the client may send. They attest for real, with the SIMULATED
// processor and the Verifier that the latch uses, and each does no more work and
// no more round trips than its design needs (bench/METHOD.md lists what was done
// for each; where a choice was free, it was made in the baseline's favour).
//
// Start with [Designs]; [NewKit] makes what the two ends share.
package baseline

import (
	"fmt"
	"io"
	"net"
	"strings"
)

// A Design makes the two ends of a way to build an attested channel.
type Design struct {
	Name  string // as flags and files have it
	Title string // as tables have it
	// Attests says whether the client's request waits for evidence of the
	// receiver.
	Attests bool

	server func(*Kit) (Server, error)
	client func(*Kit) (Client, error)
}

// Server is the accepting end; many connections at a time.
type Server interface {
	// Accept does the server's part of the set-up. What the returned stream
	// reads is the application's.
	Accept(net.Conn) (io.ReadWriter, error)
}

// Client is the connecting end; many connections at a time.
type Client interface {
	// Connect does the client's part of the set-up, evidence included: a request
	// written to the returned stream has a receiver that was accepted.
	Connect(net.Conn) (Stream, error)
}

// Stream is a client's channel. CloseWrite says that no more will be written.
type Stream interface {
	io.ReadWriter
	Close() error
}

// Designs in the order of the tables. "native" is also what the latch is put
// around: its programs know nothing of evidence.
var Designs = []Design{native, nested, raTLS, tlsRA, tlsRABatched, gateway, mutualInOrder, mutualAtOnce}

// Find returns a design by its name.
func Find(name string) (*Design, error) {
	var names []string
	for i := range Designs {
		if Designs[i].Name == name {
			return &Designs[i], nil
		}
		names = append(names, Designs[i].Name)
	}
	return nil, fmt.Errorf("design %q, expected one of %s", name, strings.Join(names, ", "))
}

// Server prepares the accepting end. It may leave endorsements in the kit, for
// clients that are started then.
func (d *Design) Server(k *Kit) (Server, error) { return d.server(k) }

// Client prepares the connecting end.
func (d *Design) Client(k *Kit) (Client, error) { return d.client(k) }
