// SPDX-License-Identifier: Apache-2.0

package softtpm

import (
	"encoding/binary"
	goflag "flag"
	"fmt"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"

	"holdfast/tpm2"
)

// Which command was tested with what outcome. The helpers of this package's
// tests record every command that succeeded and every error that a test asked
// for; TestMain compares that with the commands of the table and with
// specErrors when all tests were run.

type outcomes struct {
	sync.Mutex
	good  map[tpm2.CC]bool
	bad   map[tpm2.CC]map[tpm2.RC]bool
	tried map[tpm2.CC]bool // mutants was run

	mutants map[tpm2.CC]int // mutants that were refused as they should be
}

var seen = outcomes{good: map[tpm2.CC]bool{}, bad: map[tpm2.CC]map[tpm2.RC]bool{}, tried: map[tpm2.CC]bool{}, mutants: map[tpm2.CC]int{}}

// bare takes the position out of a response code.
func bare(rc tpm2.RC) tpm2.RC {
	if rc&0x80 != 0 { // format one: handle, session or parameter and its number
		return rc & 0x0BF
	}
	if rc >= tpm2.RCReferenceH0 && rc < tpm2.RCReferenceH0+7 {
		return tpm2.RCReferenceH0
	}
	return rc
}

func (o *outcomes) record(cc tpm2.CC, rc tpm2.RC) {
	o.Lock()
	defer o.Unlock()
	if rc == 0 {
		o.good[cc] = true
		return
	}
	if o.bad[cc] == nil {
		o.bad[cc] = map[tpm2.RC]bool{}
	}
	o.bad[cc][bare(rc)] = true
}

// recordBytes is record for a command as bytes.
func recordBytes(cmd []byte, rc tpm2.RC) {
	if len(cmd) >= tpm2.HeaderSize {
		seen.record(tpm2.CC(binary.BigEndian.Uint32(cmd[6:])), rc)
	}
}

// first says, once per command, that it is the first time.
func (o *outcomes) first(cc tpm2.CC) bool {
	o.Lock()
	defer o.Unlock()
	was := o.tried[cc]
	o.tried[cc] = true
	return !was
}

// again takes first back: the command failed.
func (o *outcomes) again(cc tpm2.CC) {
	o.Lock()
	defer o.Unlock()
	delete(o.tried, cc)
}

// missing lists what no test has shown.
func (o *outcomes) missing() (l []string) {
	for _, m := range commands.sorted {
		if !o.good[m.code] && neverGood[m.code] == "" {
			l = append(l, fmt.Sprintf("%v: no test with good input", m.code))
		}
		want, ok := specErrors[m.code]
		if !ok {
			l = append(l, fmt.Sprintf("%v: not in specErrors", m.code))
		}
		for _, rc := range want {
			if !o.bad[m.code][rc] && unreachable[m.code][rc] == "" {
				l = append(l, fmt.Sprintf("%v: no test of %v", m.code, rc))
			}
			if o.bad[m.code][rc] && unreachable[m.code][rc] != "" {
				l = append(l, fmt.Sprintf("%v: %v is said to be out of reach, but a test got it", m.code, rc))
			}
		}
		if len(o.bad[m.code]) == 0 && o.mutants[m.code] == 0 {
			l = append(l, fmt.Sprintf("%v: no test of an error", m.code))
		}
	}
	for cc := range specErrors {
		if commands.byCode[cc] == nil {
			l = append(l, fmt.Sprintf("%v: in specErrors, but not implemented", cc))
		}
	}
	return l
}

// TestMain fails the run if a command lacks a test with good input or with an
// error that its description names. With HOLDFAST_COMMANDS=FILE it writes the
// table of outcomes.
func TestMain(m *testing.M) {
	code := m.Run()
	all := true
	for _, f := range []string{"test.run", "test.skip", "test.list", "test.fuzz", "test.bench"} {
		all = all && goflag.Lookup(f).Value.String() == ""
	}
	if code == 0 && all && !testing.Short() {
		if l := seen.missing(); len(l) != 0 {
			fmt.Printf("FAIL: commands without tests (coverage_test.go):\n  %s\n", strings.Join(l, "\n  "))
			code = 1
		}
	}
	if name := os.Getenv("HOLDFAST_COMMANDS"); name != "" {
		if err := os.WriteFile(name, []byte(seen.table()), 0o644); err != nil {
			fmt.Println(err)
			code = 1
		}
	}
	os.Exit(code)
}

// table lists for each command the errors that tests got.
func (o *outcomes) table() string {
	var b strings.Builder
	for _, m := range commands.sorted {
		var l []string
		for rc := range o.bad[m.code] {
			l = append(l, strings.TrimPrefix(strings.Fields(rc.Error())[0], "TPM_RC_"))
		}
		slices.Sort(l)
		fmt.Fprintf(&b, "%v\tgood=%v\tmutants=%d\t%s\n", m.code, o.good[m.code], o.mutants[m.code], strings.Join(l, " "))
	}
	return b.String()
}

// mutants sends variants of a good command that each must be refused and must
// leave the TPM as it was, whatever the command means: handles of no entity,
// missing and wrong authorizations, parameters cut or with a byte too many.
func (q request) mutants(t testing.TB, p *TPM) {
	t.Helper()
	m := commands.byCode[q.cc]
	try := func(name string, cmd []byte, want ...tpm2.RC) {
		t.Helper()
		binary.BigEndian.PutUint32(cmd[2:], uint32(len(cmd)))
		perm, vol := p.state.perm, p.state.volatile
		rc := rcOf(t, p.Execute(q.locality, cmd))
		p.state.perm, p.state.volatile, p.failed = perm, vol, false // failed tries do not count here
		ok := false
		for _, w := range want {
			ok = ok || rc == w
		}
		if !ok {
			t.Errorf("%v, %s: %v, want one of %v", q.cc, name, rc, want)
			return
		}
		seen.Lock()
		seen.mutants[q.cc]++
		seen.Unlock()
	}
	good := q.bytes()
	handles := tpm2.HeaderSize + 4*len(q.handles)
	for i := range q.handles {
		c := slices.Clone(good)
		binary.BigEndian.PutUint32(c[tpm2.HeaderSize+4*i:], 0x40000008)
		if q.cc == tpm2.CCFlushContext {
			continue // its handle is a parameter
		}
		try("handle of nothing", c, tpm2.RCValue.Handle(i+1))
	}
	if q.cc == tpm2.CCROTMsg3 || q.cc == tpm2.CCROTMsg4 {
		return // the copy has no transfer: it leaves the TPM in no form
	}
	if q.auth != nil && m.authHandles() > 0 {
		c := slices.Clone(good[:handles])
		c[1] = 1 // TPM_ST_NO_SESSIONS
		size := binary.BigEndian.Uint32(good[handles:])
		try("no authorization", append(c, good[handles+4+int(size):]...), tpm2.RCAuthMissing)
		w := q
		w.auth = slices.Clone(q.auth)
		for i := range w.auth {
			w.auth[i] = "certainly not the password"
		}
		try("wrong password", w.bytes(), tpm2.RCBadAuth.Session(1), tpm2.RCAuthFail.Session(1), tpm2.RCAuthType, tpm2.RCAuthUnavailable)
	}
	if m.has(fNoSessions) {
		c := slices.Clone(good)
		c[1] = 2
		try("sessions", c, tpm2.RCAuthContext)
	}
	try("a byte too many", append(slices.Clone(good), 0), tpm2.RCSize)
	if q.params != nil {
		c := good[:len(good)-1]
		rc := rcOf(t, p.Execute(q.locality, resized(c)))
		if b := bare(rc); b != tpm2.RCInsufficient && b != tpm2.RCSize && b != tpm2.RCAuthSize {
			t.Errorf("%v, a byte short: %v", q.cc, rc)
		}
	}
}

// resized returns a copy of cmd whose header has the right size.
func resized(cmd []byte) []byte {
	c := slices.Clone(cmd)
	binary.BigEndian.PutUint32(c[2:], uint32(len(c)))
	return c
}
