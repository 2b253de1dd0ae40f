// SPDX-License-Identifier: Apache-2.0

// Command cgosim measures our TPM and the simulator of go-tpm-tools (the
// reference implementation in C, by cgo) in one process, command by command, as
// `holdfast bench tpm` measures ours and swtpm over sockets. It is a module of
// its own, so that nothing of that simulator is linked into Holdfast. In this
// folder, with gcc and OpenSSL's headers:
//
//	go run . -csv ../../../results/tpm-inprocess.csv
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"strings"

	"github.com/google/go-tpm-tools/simulator"

	"holdfast/bench/stat"
	"holdfast/bench/tpm"
	"holdfast/softtpm"
	"holdfast/tpmio/inproc"
)

// reference is the simulator as a tss.Transport.
type reference struct{ *simulator.Simulator }

func (r reference) Send(command []byte) ([]byte, error) {
	if _, err := r.Write(command); err != nil {
		return nil, err
	}
	b := make([]byte, 4096)
	n, err := r.Read(b)
	return b[:n], err
}

func main() {
	csv := flag.String("csv", "", "append the rows to this file")
	quick := flag.Bool("quick", false, "a fifth of the calls")
	only := flag.String("only", "", "only commands whose name holds this")
	flag.Parse()
	if err := run(*csv, *only, *quick); err != nil {
		fmt.Fprintln(os.Stderr, "cgosim:", err)
		os.Exit(1)
	}
}

func run(csv, only string, quick bool) error {
	facts := stat.ThisHost("in process")
	ours, err := inproc.Memory(softtpm.Options{})
	if err != nil {
		return err
	}
	defer ours.Close()
	sim, err := simulator.Get()
	if err != nil {
		return err
	}
	defer sim.Close()
	rows, err := tpm.Run(context.Background(), tpm.Options{
		Ours: ours, Peer: reference{sim}, PeerIs: "cgo simulator", Quick: quick,
		Log:    func(format string, a ...any) { fmt.Printf(format+"\n", a...) },
		Filter: func(name string) bool { return strings.Contains(name, only) },
	})
	if err != nil {
		return err
	}
	if b := facts.Busy(); b != "" {
		fmt.Println(b)
	}
	if csv == "" {
		return nil
	}
	return tpm.AppendCSV(csv, facts, rows)
}
