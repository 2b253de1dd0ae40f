// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"holdfast/test/esr"
)

func init() {
	register(func(g *globals) *cobra.Command {
		var f esrFlags
		c := &cobra.Command{
			Use: "esr", Hidden: true, Args: cobra.NoArgs,
			Short: "Run the endpoint-substitution relay, the adversary of the demo and the tests",
			Long: `Run the endpoint-substitution relay: end TLS sessions with a stolen certificate key,
open sessions to the genuine server and relay between them. With --capture it takes
connections to an address that is another host's, as a router can. It prints
READY when it listens and, when it is told to end (SIGTERM), what it has read, as JSON.`,
			RunE: func(cmd *cobra.Command, _ []string) error { return runESR(cmd.Context(), f) },
		}
		c.Flags().StringVar(&f.listen, "listen", "0.0.0.0:443", "address to listen on")
		c.Flags().StringVar(&f.cert, "cert", "", "the service's certificate chain, PEM")
		c.Flags().StringVar(&f.key, "key", "", "the stolen private key, PEM")
		c.Flags().StringVar(&f.genuine, "genuine", "", "address of the genuine server (default: the one that the client dialled)")
		c.Flags().StringVar(&f.capture, "capture", "", "take connections to this HOST:PORT, which is another host's")
		c.Flags().StringVar(&f.device, "device", "eth0", "device on which captured connections come in")
		c.AddCommand(askAgent(), esrLab(g))
		c.Flags().BoolVar(&f.decoy, "decoy", false, "also pass the client's own ClientHello to the genuine server")
		return c
	})
}

type esrFlags struct {
	listen, cert, key, genuine, capture, device string
	decoy                                       bool
}

// esrReport is what the relay prints at its end.
type esrReport struct {
	esr.Seen
	Request string `json:"request"`
}

func runESR(ctx context.Context, f esrFlags) (err error) {
	cert, err := tls.LoadX509KeyPair(f.cert, f.key)
	if err != nil {
		return usageError(fmt.Errorf("--cert and --key: %w", err))
	}
	relay, err := esr.New(esr.Options{Certificate: cert, Genuine: f.genuine, Decoy: f.decoy})
	if err != nil {
		return usageError(err)
	}
	var l net.Listener
	if f.capture == "" {
		l, err = net.Listen("tcp", f.listen)
	} else {
		l, err = esr.Listen(ctx, "tcp", f.listen)
	}
	if err != nil {
		return err
	}
	if f.capture != "" {
		address, err := netip.ParseAddrPort(f.capture)
		if err != nil {
			return usageError(fmt.Errorf("--capture: %w", err))
		}
		c, err := esr.NewCapture(f.device, address)
		if err != nil {
			return err
		}
		defer func() { err = errors.Join(err, c.Close()) }()
	}
	fmt.Fprintln(os.Stderr, "READY")
	if err := relay.Serve(ctx, l); err != nil {
		return err
	}
	return printJSON(esrReport{relay.Seen(), string(relay.Request())})
}

// askAgent is the attempt of a process without privileges.
func askAgent() *cobra.Command {
	var agent, cert, key string
	c := &cobra.Command{
		Use: "ask-agent", Hidden: true, Args: cobra.NoArgs,
		Short: "End a TLS session of one's own and ask an agent to attest it; exit status 0 if it does, 1 if it refuses",
		RunE: func(cmd *cobra.Command, _ []string) error {
			network, address, _ := strings.Cut(agent, ":")
			own, err := tls.LoadX509KeyPair(cert, key)
			if err != nil {
				return usageError(fmt.Errorf("--cert and --key: %w", err))
			}
			ctx, stop := context.WithTimeout(cmd.Context(), 20*time.Second)
			defer stop()
			answer, err := esr.AskAgent(ctx, network, address, own)
			if err != nil {
				return usageError(err) // no answer is another outcome than a refusal
			}
			if err := printJSON(answer); err != nil {
				return err
			}
			if !answer.Attested {
				return refusedError(errors.New(answer.Code + ": " + answer.Text))
			}
			return nil
		},
	}
	c.Flags().StringVar(&agent, "agent", "", "tcp:HOST:PORT or unix:PATH")
	c.Flags().StringVar(&cert, "cert", "", "certificate of the session, PEM")
	c.Flags().StringVar(&key, "key", "", "its private key, PEM")
	return c
}
