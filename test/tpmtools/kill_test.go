// SPDX-License-Identifier: Apache-2.0

package tpmtools

import (
	"context"
	"encoding/binary"
	"errors"
	"math/rand/v2"
	"os"
	"path/filepath"
	"sync/atomic"
	"testing"
	"time"

	"holdfast/tpm2"
	"holdfast/tpmio/dial"
	"holdfast/tss"
)

// TestKill kills the server by SIGKILL at random moments of a run of writes to
// an NV index and of a counter. After each restart the index holds the last
// acknowledged value or the one in flight, and the counter has not lost an
// acknowledged step.
func TestKill(t *testing.T) {
	rounds := 25
	if os.Getenv("HOLDFAST_TEST_FULL") != "" {
		rounds = 300
	}
	state := filepath.Join(t.TempDir(), "state")
	socket := "unix:" + filepath.Join(t.TempDir(), "s")
	const data, counter = tpm2.Handle(0x01500020), tpm2.Handle(0x01500021)
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	rng := rand.New(rand.NewPCG(seed, 1))
	var acked, sent uint64 // values of the index
	var steps uint64       // acknowledged value of the counter
	total := 0
	for round := range rounds {
		p := start(t, "--state", state, "--startup", "clear", "--swtpm", socket)
		ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
		conn, err := dial.Dial(ctx, "swtpm:"+socket)
		cancel()
		if err != nil {
			t.Fatal(err)
		}
		c := tss.New(conn)
		if round == 0 {
			for _, def := range []tpm2.NVPublic{
				{Index: data, DataSize: 8, Attributes: tpm2.NVAuthRead | tpm2.NVAuthWrite},
				{Index: counter, DataSize: 8, Attributes: (tpm2.NVAuthRead | tpm2.NVAuthWrite).WithType(tpm2.NTCounter)},
			} {
				def.NameAlg = tpm2.AlgSHA256
				if err := c.NVDefine(tss.Owner(nil), nil, def); err != nil {
					t.Fatal(err)
				}
			}
		}
		d, err := c.NVReadPublic(data)
		if err != nil {
			t.Fatalf("round %d: %v", round, err)
		}
		n, err := c.NVReadPublic(counter)
		if err != nil {
			t.Fatalf("round %d: %v", round, err)
		}
		if acked > 0 {
			b, err := c.NVRead(d.Ref(nil), d.Ref(nil), 8, 0)
			if err != nil {
				t.Fatalf("round %d: %v", round, err)
			}
			v := binary.BigEndian.Uint64(b)
			if v != acked && v != sent {
				t.Fatalf("round %d: the index holds %d; acknowledged was %d, in flight %d", round, v, acked, sent)
			}
			acked, sent = v, v // read after the restart, it must not go back any more
		}
		if steps > 0 {
			b, err := c.NVRead(n.Ref(nil), n.Ref(nil), 8, 0)
			if err != nil {
				t.Fatalf("round %d: %v", round, err)
			}
			v := binary.BigEndian.Uint64(b)
			if v != steps && v != steps+1 {
				t.Fatalf("round %d: the counter is %d; acknowledged was %d", round, v, steps)
			}
			steps = v
		}
		var killed atomic.Bool
		timer := time.AfterFunc(time.Duration(rng.IntN(60000))*time.Microsecond, func() {
			killed.Store(true)
			p.cmd.Process.Kill()
		})
		for {
			sent = acked + 1
			err := c.NVWrite(d.Ref(nil), d.Ref(nil), binary.BigEndian.AppendUint64(nil, sent), 0)
			if err == nil {
				acked = sent
				total++
				if err = c.NVIncrement(n.Ref(nil), n.Ref(nil)); err == nil {
					b, e := c.NVRead(n.Ref(nil), n.Ref(nil), 8, 0)
					if err = e; err == nil {
						steps = binary.BigEndian.Uint64(b)
					} else {
						steps++
					}
				}
			}
			if err != nil {
				var rc *tss.Error
				if errors.As(err, &rc) || !killed.Load() {
					t.Fatalf("round %d: %v", round, err)
				}
				break
			}
		}
		timer.Stop()
		conn.Close()
		p.kill()
	}
	if total < rounds/2 {
		t.Fatalf("only %d writes in %d rounds: the kills came too early to say anything", total, rounds)
	}
	t.Logf("%d kills, %d acknowledged writes", rounds, total)
}
