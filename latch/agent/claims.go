// SPDX-License-Identifier: Apache-2.0

//go:build linux

package agent

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"os"
	"path"
	"slices"
	"strings"
	"sync"

	"golang.org/x/sys/unix"

	"holdfast/latch/binder"
	"holdfast/latch/flow"
	"holdfast/latch/observe"
)

// Executable names a program: by digest, or by the path of the file on this
// machine, whose digest is read anew whenever the file changes.
type Executable struct {
	Digest [32]byte // SHA-256; used when Path is empty
	Path   string   // absolute
}

// ParseExecutable reads "sha256:HEX" or an absolute path.
func ParseExecutable(s string) (Executable, error) {
	if h, ok := strings.CutPrefix(s, "sha256:"); ok {
		b, err := hex.DecodeString(h)
		if err != nil || len(b) != 32 || h != strings.ToLower(h) {
			return Executable{}, fmt.Errorf("executable %q: expected 64 lower-case hexadecimal digits behind sha256:", s)
		}
		return Executable{Digest: [32]byte(b)}, nil
	}
	if !path.IsAbs(s) {
		return Executable{}, fmt.Errorf("executable %q: expected an absolute path or sha256:HEX", s)
	}
	return Executable{Path: s}, nil
}

// interpreters run whatever they are told to, so that their digest identifies
// nothing without a unit.
var interpreters = []string{"python", "perl", "ruby", "node", "nodejs", "php", "java", "bash", "sh", "dash", "busybox", "lua", "deno", "bun",
	"tclsh", "guile", "erl", "beam.smp", "mono", "dotnet", "socat", "ncat", "nc", "openresty-cli", "ld-linux", "ld.so", "qemu"}

// interpreter says whether a path's name is one of interpreters, with or
// without a version behind it.
func interpreter(p string) bool {
	base := strings.TrimSuffix(path.Base(p), " (deleted)")
	for _, i := range interpreters {
		if rest, ok := strings.CutPrefix(base, i); ok && (strings.Trim(rest, "0123456789.-") == "" || strings.HasPrefix(i, "ld")) {
			return true
		}
	}
	return false
}

// pathDigests remembers the digests of the files named in Service.Executables.
type pathDigests struct {
	mu sync.Mutex
	m  map[string]pathDigest
}

type pathDigest struct {
	st     [5]int64
	digest [32]byte
}

func (d *pathDigests) of(p string) (none [32]byte, err error) {
	var st unix.Stat_t
	if err := unix.Stat(p, &st); err != nil {
		return none, fmt.Errorf("executable %s: %w", p, err)
	}
	key := [5]int64{int64(st.Dev), int64(st.Ino), st.Size, st.Mtim.Nano(), st.Ctim.Nano()}
	d.mu.Lock()
	defer d.mu.Unlock()
	if e, ok := d.m[p]; ok && e.st == key {
		return e.digest, nil
	}
	f, err := os.Open(p)
	if err != nil {
		return none, fmt.Errorf("executable %s: %w", p, err)
	}
	defer f.Close()
	h := sha256.New()
	if _, err := io.Copy(h, f); err != nil {
		return none, fmt.Errorf("executable %s: %w", p, err)
	}
	if d.m == nil {
		d.m = map[string]pathDigest{}
	}
	e := pathDigest{key, [32]byte(h.Sum(nil))}
	d.m[p] = e
	return e.digest, nil
}

// refusal is a code with a sentence.
type refusal struct {
	code flow.Reason
	text string
}

// claim is what is signed about the sessions of one listener, encoded once.
type claim struct {
	id      *observe.Identity
	encoded []byte
	digest  [32]byte
}

// claimer decides whether a listener may be vouched for and what is claimed.
type claimer struct {
	o     *Options
	hostN string // net:[INODE] of the host's network namespace
	paths pathDigests
	cache map[claimKey]*claim
}

type claimKey struct {
	l *observe.Listener
	s *Service
}

func newClaimer(o *Options) *claimer {
	n, _ := os.Readlink("/proc/1/ns/net")
	return &claimer{o: o, hostN: n, cache: map[claimKey]*claim{}}
}

// check returns the service of a session and the claims, or why there are none.
// Both nil: the identity is still being found out.
func (c *claimer) check(e *observe.Event) (*claim, *refusal) {
	l := e.Listener
	id, err := l.Identity()
	if err != nil {
		return nil, &refusal{flow.UnknownIdentity, err.Error()}
	}
	if id == nil {
		return nil, nil
	}
	s := c.service(e)
	if s == nil {
		return nil, &refusal{flow.NotProtected, flow.NotProtected.Text()}
	}
	key := claimKey{l, s}
	if k, ok := c.cache[key]; ok && k.id == id {
		return k, nil
	}
	if r := c.allowed(s, id); r != nil {
		return nil, r
	}
	listener := "tcp " + l.Addr.String()
	if id.Found {
		listener += " found"
	} else if id.Inherited {
		listener += " inherited"
	}
	ns := id.NetNS
	if ns == c.hostN {
		ns = "host"
	}
	claims := binder.Claims{Service: s.Name, Listener: listener, NetNS: ns, Executable: hex.EncodeToString(id.Executable[:]), Unit: id.Unit,
		AgentVersion: c.o.Version, Class: binder.Machine}
	if s.Config != [32]byte{} {
		claims.Config = hex.EncodeToString(s.Config[:])
	}
	b, err := claims.Append(nil)
	if err != nil {
		return nil, &refusal{flow.ClaimsInvalid, err.Error()}
	}
	k := &claim{id: id, encoded: b, digest: sha256.Sum256(b)}
	if len(c.cache) >= 4096 {
		clear(c.cache)
	}
	c.cache[key] = k
	return k, nil
}

// service is the configured service that the connection's local address belongs to.
func (c *claimer) service(e *observe.Event) *Service {
	var any *Service
	for i := range c.o.Services {
		s := &c.o.Services[i]
		if observe.Match(s.Address, e.Local) {
			if !s.Address.Addr().IsUnspecified() {
				return s
			}
			any = s
		}
	}
	return any
}

func (c *claimer) allowed(s *Service, id *observe.Identity) *refusal {
	if len(s.Units) > 0 && !slices.Contains(s.Units, id.Unit) {
		return &refusal{flow.UnknownIdentity, fmt.Sprintf("the listener was made in unit %q, service %s allows %q", id.Unit, s.Name, s.Units)}
	}
	// An executable alone says nothing about a process of a stranger, who runs it
	// with his own configuration and with LD_PRELOAD.
	users := s.Users
	if len(users) == 0 && len(s.Units) == 0 {
		users = []uint32{0}
	}
	if len(users) > 0 && !slices.Contains(users, id.UID) {
		return &refusal{flow.UnknownIdentity, fmt.Sprintf("the listener was made by user %d, service %s allows %d: list the user or the unit", id.UID, s.Name, users)}
	}
	if len(s.Units) == 0 && interpreter(id.Path) {
		return &refusal{flow.UnknownIdentity, fmt.Sprintf("%s is an interpreter, which is no identity by itself: list the unit of service %s", path.Base(id.Path), s.Name)}
	}
	if len(s.Executables) == 0 {
		return nil
	}
	for _, x := range s.Executables {
		want := x.Digest
		if x.Path != "" {
			d, err := c.paths.of(x.Path)
			if err != nil {
				continue
			}
			want = d
		}
		if want == id.Executable {
			return nil
		}
	}
	return &refusal{flow.UnknownIdentity, fmt.Sprintf("the listener was made by %s (sha256:%x), which service %s does not list", id.Path, id.Executable, s.Name)}
}
