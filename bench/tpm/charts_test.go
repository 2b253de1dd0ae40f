// SPDX-License-Identifier: Apache-2.0

package tpm

import (
	"bytes"
	"testing"
)

// TestCharts: each pair of the figures is in the tables that Tables makes, a
// speedup is old over new, and both charts can be drawn.
func TestCharts(t *testing.T) {
	times := []TableRow{
		{"RSA-2048", map[string]float64{"Create": 60000, "Sign": 1000, "Verify": 20, "Encrypt": 20, "Decrypt": 1000}},
		{"ECC P-256", map[string]float64{"Create": 25, "Sign": 30, "Verify": 60}},
		{"ML-KEM-768", map[string]float64{"Create": 200, "Encrypt": 80, "Decrypt": 100, "Encapsulate": 70, "Decapsulate": 80}},
		{"ML-DSA-65", map[string]float64{"Create": 300, "Sign": 500, "Verify": 160}},
	}
	memory := []MemoryRow{{Key: "RSA-2048", Public: 280, Private: 190, Context: 570, Loaded: 4130}, {Key: "ML-DSA-65", Public: 1967, Private: 94, Context: 2100, Loaded: 70000}}
	charts := Charts("test", times, memory)
	fast := charts["speedups"]
	if len(fast.X.Names) != len(speedups) || fast.Series[0].Points[0].Y != 300 || fast.Series[0].Points[3].Y != 2 {
		t.Errorf("%d of %d pairs; %+v", len(fast.X.Names), len(speedups), fast.Series[0].Points)
	}
	if p := charts["key-sizes"].Series; p[0].Points[1].Y != 1967 || p[3].Points[0].Y != 4130 {
		t.Errorf("sizes %+v", p)
	}
	for name, c := range charts {
		if svg, err := c.SVG(); err != nil || !bytes.Contains(svg, []byte("<svg")) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if c := Charts("test", nil, memory)["speedups"]; len(c.Series[0].Points) != 0 {
		t.Error("speedups of nothing")
	}
}
