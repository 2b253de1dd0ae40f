// SPDX-License-Identifier: Apache-2.0

package gate

import (
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"
)

// again loads the world's configuration with some of its files changed.
func (w *world) again(t *testing.T, change map[string]string) error {
	t.Helper()
	dir := filepath.Dir(w.gate.config.Services["shop.example"].Policy)
	for name, text := range change {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	c, err := LoadConfig(filepath.Join(dir, "gate.yaml"))
	if err != nil {
		return err
	}
	return w.gate.Reload(c)
}

// A session that was announced under the old policy is judged by the new one.
func TestReload(t *testing.T) {
	w := newWorld(t, worldOptions{})
	stricter := strings.Replace(goodPolicy, "units: [shop.service]", "units: [other.service]", 1)
	h := handshake(t, "shop.example")
	out, in := h.records(1)
	w.hold.put(true, out)
	w.hold.put(false, in)
	w.announced(1)
	if err := w.again(t, map[string]string{"policy.yaml": stricter}); err != nil {
		t.Fatal(err)
	}
	w.agent.events <- w.events(goodClaims, h)
	w.ends(0, "policy")
	if err := w.again(t, map[string]string{"policy.yaml": goodPolicy}); err != nil {
		t.Fatal(err)
	}
	h = handshake(t, "shop.example")
	out, in = h.records(2)
	w.hold.put(true, out)
	w.hold.put(false, in)
	w.announced(1)
	w.agent.events <- w.events(goodClaims, h)
	w.ends(1, "policy")
}

// Anything wrong leaves everything as it was; what a reload cannot change is
// said.
func TestReloadRefused(t *testing.T) {
	w := newWorld(t, worldOptions{})
	before := w.gate.services
	good := "services: {shop.example: {agents: ['unix:/nowhere'], trust: trust.yaml, policy: policy.yaml}}\n"
	for want, change := range map[string]map[string]string{
		"policy":          {"policy.yaml": "nonsense: 1"},
		"no such file":    {"policy.yaml": goodPolicy, "gate.yaml": strings.Replace(good, "trust.yaml", "gone.yaml", 1)},
		"services":        {"gate.yaml": "services: {}"},
		"start the gate":  {"gate.yaml": good + "deadline: 7s\n"},
		"start the gate ": {"gate.yaml": good + "operations: {control: /run/x}\n"},
		"message system":  {"gate.yaml": strings.Replace(good, "unix:/nowhere", "nats:127.0.0.1:4222", 1)},
	} {
		if err := w.again(t, change); err == nil || !strings.Contains(err.Error(), strings.TrimSpace(want)) {
			t.Errorf("%s: %v", want, err)
		}
		if w.gate.services != before {
			t.Fatalf("%s: the services changed", want)
		}
	}
}

// A name that leaves the configuration while its session waits is refused, and
// so is an agent's word; an agent that comes back is asked again.
func TestReloadAgents(t *testing.T) {
	w := newWorld(t, worldOptions{})
	h := handshake(t, "shop.example")
	out, in := h.records(1)
	w.hold.put(true, out)
	w.hold.put(false, in)
	w.announced(1)
	old := w.agent
	w.mu.Lock()
	w.agent = newFakeAgent()
	w.mu.Unlock()
	text := "services: {shop.example: {agents: ['unix:/other'], trust: trust.yaml, policy: policy.yaml}}"
	if err := w.again(t, map[string]string{"gate.yaml": text}); err != nil {
		t.Fatal(err)
	}
	old.events <- w.events(goodClaims, h)
	w.ends(0, "agent-lost")
	for end := time.Now().Add(3 * time.Second); ; time.Sleep(time.Millisecond) {
		if l := w.gate.Links(); len(l) == 1 && l[0].Agent == "unix:/other" && l[0].Connected {
			break
		} else if time.Now().After(end) {
			t.Fatalf("%+v", l)
		}
	}
	h = handshake(t, "shop.example")
	out, in = h.records(2)
	w.hold.put(true, out)
	w.hold.put(false, in)
	w.announced(1)
	w.agent.events <- w.events(goodClaims, h)
	w.ends(1, "agent-lost")
	w.mu.Lock()
	w.agent = newFakeAgent()
	w.mu.Unlock()
	if err := w.again(t, map[string]string{"gate.yaml": strings.Replace(text, "other", "nowhere", 1)}); err != nil {
		t.Fatal(err)
	}
	for end := time.Now().Add(3 * time.Second); len(w.gate.Links()) != 1 || !w.gate.Links()[0].Connected; time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("%+v", w.gate.Links())
		}
	}
	if n := len(w.gate.links); n != 2 {
		t.Errorf("%d links, expected that the first one's place was used again", n)
	}
}

// Reloads under load: every session is decided, none falls between two
// configurations, and the watcher is told of each one once.
func TestReloadUnderLoad(t *testing.T) {
	w := newWorld(t, worldOptions{})
	stop := make(chan struct{})
	var wg sync.WaitGroup
	reloads := 0
	wg.Go(func() {
		for {
			select {
			case <-stop:
				return
			default:
			}
			if err := w.again(t, nil); err != nil {
				t.Error(err)
				return
			}
			reloads++
		}
	})
	const n = 60
	for i := uint64(1); i <= n; i++ {
		h := handshake(t, "shop.example")
		out, in := h.records(i)
		w.hold.put(true, out)
		w.hold.put(false, in)
		w.announced(1)
		w.agent.events <- w.events(goodClaims, h)
	}
	w.ends(n)
	close(stop)
	wg.Wait()
	if reloads < 10 {
		t.Errorf("only %d reloads", reloads)
	}
}
