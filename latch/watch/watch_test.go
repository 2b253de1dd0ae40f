// SPDX-License-Identifier: Apache-2.0

package watch

import (
	"strings"
	"testing"
	"time"
)

func TestConfig(t *testing.T) {
	c, err := ParseConfig([]byte(Example))
	if err != nil {
		t.Fatal(err)
	}
	if c.Deadline != 11*time.Second || c.Action != "alarm" || len(c.Services["shop.example"].Agents) != 2 || len(c.Plain) != 1 || c.Scope.Cgroup == "" {
		t.Errorf("%+v", c)
	}
	for what, change := range map[string][2]string{
		"unknown key":   {"deadline:", "dedline:"},
		"no services":   {"services:\n", "other:\n"},
		"action":        {"action: alarm ", "action: shout "},
		"rendezvous":    {"tcp:192.0.2.10:7443", "nats:192.0.2.10:4222"},
		"upper case":    {"shop.example", "Shop.example"},
		"no policy":     {"    policy: policy.yaml\n", ""},
		"long deadline": {"11s  ", "11h  "},
	} {
		text := strings.Replace(Example, change[0], change[1], 1)
		if text == Example {
			t.Fatalf("%s changes nothing", what)
		}
		if c, err := ParseConfig([]byte(text)); err == nil || c != nil {
			t.Errorf("%s was accepted", what)
		}
	}
	if _, err := ParseConfig(nil); err == nil {
		t.Error("an empty file was accepted")
	}
}
