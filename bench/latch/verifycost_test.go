// SPDX-License-Identifier: Apache-2.0

package latch

import (
	"testing"
	"time"
)

func TestVerifyCosts(t *testing.T) {
	cs, err := VerifyCosts(20 * time.Millisecond)
	if err != nil {
		t.Fatal(err)
	}
	if len(cs) != 6 {
		t.Errorf("%d kinds of evidence, expected 6", len(cs))
	}
	for _, c := range cs {
		if c.What == "" || c.Micro.Median < 1 || c.Micro.Low > c.Micro.Median || c.Micro.High < c.Micro.Median {
			t.Errorf("%+v", c)
		}
		t.Logf("%s: %v µs", c.What, c.Micro)
	}
}
