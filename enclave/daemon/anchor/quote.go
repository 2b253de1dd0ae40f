// SPDX-License-Identifier: Apache-2.0

package anchor

import (
	"context"
	"errors"
	"fmt"
	"time"

	"holdfast/attest/evidence"
	"holdfast/enclave/sgx"
)

// ErrClosed says that the anchor was closed.
var ErrClosed = errors.New("anchor: closed")

// maxBatch bounds the reports that share one TPM quote.
const maxBatch = 256

// request is one report that waits to be signed.
type request struct {
	mode string
	body []byte
	out  chan answer
}

type answer struct {
	b   *evidence.Bundle
	err error
}

// Quote makes evidence that an enclave of this monitor, running in mode, made
// the report. The caller has checked that (monitor.VerifyReport). Reports that
// arrive while the TPM works share the next quote.
func (a *Anchor) Quote(ctx context.Context, mode string, r *sgx.Report) (*evidence.Bundle, error) {
	if err := context.Cause(ctx); err != nil {
		return nil, err // select would choose by chance
	}
	q := &request{mode, r.AppendBody(nil), make(chan answer, 1)}
	select {
	case a.queue <- q:
	case <-a.done:
		return nil, ErrClosed
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
	select {
	case x := <-q.out:
		return x.b, x.err
	case <-a.done:
		return nil, ErrClosed
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
}

// run signs what waits, one batch after the other.
func (a *Anchor) run() {
	for {
		var batch []*request
		select {
		case q := <-a.queue:
			batch = append(batch, q)
		case <-a.done:
			return
		}
	more:
		for len(batch) < maxBatch {
			select {
			case q := <-a.queue:
				batch = append(batch, q)
			default:
				break more
			}
		}
		if err := a.sign(batch); err != nil {
			for _, q := range batch {
				q.out <- answer{err: err}
			}
		}
	}
}

func (a *Anchor) sign(batch []*request) error {
	leaves := make([][32]byte, len(batch))
	for i, q := range batch {
		leaves[i] = evidence.EnclaveLeaf(q.mode, q.body)
	}
	root, path := evidence.EnclaveTree(leaves)
	s := evidence.EnclaveStatement{Level: a.level, Made: uint64(time.Now().UnixMilli()), Root: root}
	sig, err := a.hapk.sign(s.SignedBytes())
	if err != nil {
		return fmt.Errorf("anchor: %w", err)
	}
	key := a.hapk.pub.Endorsement()
	endorsements := []evidence.Endorsement{key}
	var tpm []byte
	if a.quoter != nil {
		ctx := context.Background()
		r, err := a.quoter.Report(ctx, s.TPMData(a.keyHash))
		if err != nil {
			return fmt.Errorf("anchor: %w", err)
		}
		es, err := a.quoter.Endorsements(ctx)
		if err != nil {
			return fmt.Errorf("anchor: %w", err)
		}
		tpm = r.Body
		// The AK first, then the monitor's key, then the logs.
		endorsements = append([]evidence.Endorsement{es[0], key}, es[1:]...)
	}
	for i, q := range batch {
		body := evidence.EnclaveQuote{Mode: q.mode, Report: q.body, Index: uint64(i), Size: uint64(len(batch)), Path: path(i), Statement: s, Signature: sig, TPM: tpm}
		r := evidence.Report{Type: evidence.TypeEnclaveQuote, Body: body.Encode()}
		for _, e := range endorsements {
			r.Needs = append(r.Needs, e.Hash())
		}
		q.out <- answer{b: &evidence.Bundle{Report: r, Endorsements: endorsements}}
	}
	return nil
}
