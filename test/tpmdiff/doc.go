// SPDX-License-Identifier: Apache-2.0

//go:build linux

// Package tpmdiff compares our TPM with swtpm, command by command. It makes
// sequences of classic commands, mostly valid ones with one thing changed
// (handles, sizes, attributes, sessions, names, bytes), sends the same sequence to both and
// compares the response codes with their positions, and the data of the responses
// where a TPM has no choice in it. Where they differ, the difference must be in
// the list of known ones (known.go), each with its reason in the specification;
// any other one is shrunk to a short sequence and reported.
//
// The two TPMs have other keys, nonces and contexts, so a sequence does not
// hold bytes of commands: a step names what goes in, and values from earlier
// responses by step and field; side.go forms the command for each TPM.
//
//	go test ./test/tpmdiff                                     # a short run, the same each time
//	go test ./test/tpmdiff -run Differential -diff.sequences 0 -diff.time 10m -diff.seed 1000 -diff.most 50
package tpmdiff
