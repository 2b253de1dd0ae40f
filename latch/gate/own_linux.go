// SPDX-License-Identifier: Apache-2.0

package gate

import (
	"crypto/sha256"
	"encoding/hex"
	"io"
	"os"
	"path/filepath"
	"strings"

	"holdfast/latch/agent"
	"holdfast/latch/hold/cgroupskb"
)

// withOwn opens this machine's security processor when a service is mutual.
func (g *Gate) withOwn(c *Config) error {
	if !c.mutual() {
		return nil
	}
	p, err := agent.ParseProvider(&c.Client.Provider)
	if err != nil {
		return err
	}
	open, err := p.Opener()
	if err != nil {
		return err
	}
	g.own, err = c.openOwn(open, g.ownDone)
	return err
}

// scoped notes what the claims say of the gated programs: their control
// group's path, or for one command, whose group is new each time, a name for all.
func (c *Config) scoped(dir string) {
	root, err := cgroupskb.CgroupRoot()
	if err != nil {
		return
	}
	if rel, err := filepath.Rel(root, dir); err == nil {
		c.unit = filepath.Join("/", rel)
	}
	if strings.HasPrefix(c.unit, "/holdfast/run-") {
		c.unit = "holdfast-run"
	}
}

// command notes the digest of the program that `latch run` starts.
func (c *Config) command(path string) error {
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	defer f.Close()
	h := sha256.New()
	if _, err := io.Copy(h, f); err != nil {
		return err
	}
	c.executable = hex.EncodeToString(h.Sum(nil))
	return nil
}
