// SPDX-License-Identifier: Apache-2.0

package tpmtools

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"holdfast/test/host"
)

// cli runs `holdfast tpm` against one TPM.
type cli struct {
	*testing.T
	spec, dir string
	pq        bool // a TPM of ours, with the post-quantum commands
}

func (c *cli) exec(line string) (string, int) {
	c.Helper()
	args := strings.Fields(line)
	name := args[0]
	if name == "tpm" || name == "attest" {
		name = holdfast(c)
	} else {
		args = args[1:]
	}
	ctx, cancel := context.WithTimeout(context.Background(), 60*time.Second)
	defer cancel()
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.Dir = c.dir
	cmd.Env = append(os.Environ(), "HOLDFAST_TPM="+c.spec)
	var out, errs bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errs
	err := cmd.Run()
	if cmd.ProcessState == nil {
		c.Fatalf("%s: %v", line, err)
	}
	code := cmd.ProcessState.ExitCode()
	if code != 0 {
		return errs.String(), code
	}
	return out.String(), 0
}

// run runs lines, each of which must succeed, and returns the last output.
func (c *cli) run(script string) string {
	c.Helper()
	last := ""
	for _, line := range strings.Split(script, "\n") {
		if line = strings.TrimSpace(line); line == "" {
			continue
		}
		out, code := c.exec(line)
		if code != 0 {
			c.Fatalf("%s: status %d: %s", line, code, out)
		}
		last = out
	}
	return last
}

// fails runs a line that must end with a status.
func (c *cli) fails(status int, line, text string) {
	c.Helper()
	if out, code := c.exec(line); code != status || !strings.Contains(out, text) {
		c.Fatalf("%s: status %d (%s), expected %d with %q", line, code, out, status, text)
	}
}

func (c *cli) file(name string, content ...string) string {
	c.Helper()
	p := filepath.Join(c.dir, name)
	if len(content) > 0 {
		if err := os.WriteFile(p, []byte(content[0]), 0o600); err != nil {
			c.Fatal(err)
		}
	}
	b, err := os.ReadFile(p)
	if err != nil {
		c.Fatal(err)
	}
	return string(b)
}

// TestCommands drives every command of `holdfast tpm`, over all transports
// against our TPM, and the classic ones against swtpm too.
func TestCommands(t *testing.T) {
	host.Need(t, "openssl")
	t.Run("inproc", func(t *testing.T) {
		commands(&cli{T: t, spec: "inproc:" + filepath.Join(t.TempDir(), "state"), dir: t.TempDir(), pq: true})
	})
	t.Run("mssim", func(t *testing.T) {
		a, stop := serve(t, "--ephemeral", "--startup", "clear", "--mssim", "127.0.0.1:0")
		commands(&cli{T: t, spec: a[0], dir: t.TempDir(), pq: true})
		stop()
	})
	t.Run("swtpm protocol", func(t *testing.T) {
		a, stop := serve(t, "--ephemeral", "--startup", "clear", "--swtpm", "unix:"+filepath.Join(t.TempDir(), "s"))
		commands(&cli{T: t, spec: a[0], dir: t.TempDir(), pq: true})
		stop()
	})
	t.Run("oracle", func(t *testing.T) {
		host.Need(t, "swtpm")
		dir := t.TempDir()
		sock := filepath.Join(dir, "s")
		cmd := exec.Command("swtpm", "socket", "--tpm2", "--tpmstate", "dir="+dir, "--flags", "not-need-init,startup-clear",
			"--server", "type=unixio,path="+sock, "--ctrl", "type=unixio,path="+filepath.Join(dir, "c"))
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		defer func() { cmd.Process.Kill(); cmd.Wait() }()
		for end := time.Now().Add(20 * time.Second); ; time.Sleep(20 * time.Millisecond) {
			if _, err := os.Stat(sock); err == nil {
				break
			}
			if time.Now().After(end) {
				t.Fatal("swtpm did not come up")
			}
		}
		commands(&cli{T: t, spec: "swtpm:unix:" + sock, dir: t.TempDir()})
	})
}

func commands(c *cli) {
	if out := strings.TrimSpace(c.run("tpm getrandom --hex 100")); len(out) != 200 {
		c.Fatalf("%q", out)
	}
	c.run("tpm readclock")
	for _, n := range []string{"algorithms", "commands", "pcrs", "properties-fixed", "properties-variable", "ecc-curves", "handles-permanent"} {
		var lines []string
		if err := json.Unmarshal([]byte(c.run("tpm getcap --json "+n)), &lines); err != nil || len(lines) == 0 {
			c.Fatalf("getcap %s: %v", n, err)
		}
	}
	c.fails(2, "tpm getcap nonsense", "expected one of")
	c.fails(2, "tpm getrandom x", "expected 1 to")
	c.pcrs()
	for _, alg := range []string{"rsa", "ecc"} {
		c.classic(alg)
	}
	c.nv()
	if c.pq {
		c.postQuantum()
	}
	if out := c.run("tpm getcap handles-transient"); strings.TrimSpace(out) != "" {
		c.Fatalf("left behind: %s", out)
	}
}

func (c *cli) pcrs() {
	c.run("tpm pcrreset 16")
	c.file("event", "an event")
	c.run("tpm pcrextend 16:sha256=" + strings.Repeat("11", 32) + "\ntpm pcrevent 16 event\ntpm pcrread")
	var banks map[string]map[string]string
	if err := json.Unmarshal([]byte(c.run("tpm pcrread --json sha256:0,16")), &banks); err != nil || len(banks["sha256"]["16"]) != 64 {
		c.Fatal(err, banks)
	}
	c.fails(2, "tpm pcrread sha256:24", "0 to 23")
	c.fails(1, "tpm pcrreset 0", "TPM_RC_LOCALITY")
}

func (c *cli) classic(alg string) {
	c.file("m", "the message")
	c.file("bad", "another message")
	c.file("secret", "up to 32 bytes")
	ak := map[string]string{"rsa": "rsa", "ecc": "ecc"}[alg]
	c.run(fmt.Sprintf(`
		tpm createprimary -C o -G %[1]s -c p.ctx
		tpm create -C p.ctx -G %[1]s -p pw -u k.pub -r k.priv
		tpm load -C p.ctx -u k.pub -r k.priv -c k.ctx
		tpm readpublic -c k.ctx -f pem -o k.pem -n k.name
		tpm sign -c k.ctx -p pw -o sig m
		tpm verifysignature -c k.ctx -m m -s sig
		openssl pkey -pubin -in k.pem -noout -text`, alg))
	c.fails(1, "tpm verifysignature -c k.ctx -m bad -s sig", "TPM_RC_SIGNATURE")
	c.fails(1, "tpm sign -c k.ctx -p wrong -o x m", "TPM_RC_AUTH_FAIL")
	c.run(fmt.Sprintf(`
		tpm createek -G %[1]s -c ek.ctx -u ek.pub
		tpm createak -C ek.ctx -G %[2]s -p pw -c ak.ctx -u ak.pub -r ak.priv -n ak.name
		tpm quote -c ak.ctx -p pw -l sha256:0,16 -q aabb -m q.msg -s q.sig -o q.pcrs
		tpm checkquote -u ak.pub -m q.msg -s q.sig -f q.pcrs -q aabb
		tpm makecredential -u ek.pub -n ak.name -s secret -o cred
		tpm activatecredential -c ak.ctx -p pw -C ek.ctx -i cred -o got
		tpm certify -c k.ctx -P pw -C ak.ctx -p pw -o cert.msg -s cert.sig`, alg, ak))
	if c.file("got") != c.file("secret") {
		c.Fatal("the credential's secret is another one")
	}
	c.fails(1, "tpm checkquote -u ak.pub -m q.msg -s q.sig -q aabc", "qualifying data")
	c.fails(1, "tpm checkquote -u k.pub -m q.msg -s q.sig -q aabb", "not restricted")
	c.file("other.pcrs", "values of another machine")
	c.fails(1, "tpm checkquote -u ak.pub -m q.msg -s q.sig -f other.pcrs -q aabb", "PCR digest")
	c.seal()
	c.run(`
		tpm evictcontrol -C o -c p.ctx 0x81000030
		tpm readpublic -c 0x81000030
		tpm create -C 0x81000030 -G ecc -c child.ctx
		tpm sign -c child.ctx -o sig m
		tpm evictcontrol -C o 0x81000030`)
	c.fails(1, "tpm readpublic -c 0x81000030", "TPM_RC_HANDLE")
	if alg == "rsa" {
		c.run(`
			tpm create -C p.ctx -G rsa -u e.pub -r e.priv -c e.ctx
			tpm rsaencrypt -c e.ctx -s oaep -i m -o enc
			tpm rsadecrypt -c e.ctx -s oaep -i enc -o dec`)
		if c.file("dec") != c.file("m") {
			c.Fatal("RSA")
		}
	}
}

// seal uses PCR 14, since PCR 16 is not kept when a TPM in process is closed
// and opened again, which each command does.
func (c *cli) seal() {
	c.file("data", "the sealed data")
	c.run(`
		tpm createpolicy -l sha256:0,14 -L policy
		tpm seal -C p.ctx -L policy -i data -u s.pub -r s.priv -c s.ctx
		tpm unseal -c s.ctx -p pcr:sha256:0,14 -o out`)
	if c.file("out") != c.file("data") {
		c.Fatal("sealed data")
	}
	c.fails(1, "tpm unseal -c s.ctx", "TPM_RC_")
	c.run("tpm pcrextend 14:sha256=" + strings.Repeat("33", 32))
	c.fails(1, "tpm unseal -c s.ctx -p pcr:sha256:0,14", "TPM_RC_POLICY_FAIL")
	c.run(`
		tpm createpolicy -l sha256:14 --auth-value -L policy2
		tpm seal -C p.ctx -L policy2 -p pin -i data -c s2.ctx
		tpm unseal -c s2.ctx -p pcr:sha256:14=pin -o out2`)
	c.fails(1, "tpm unseal -c s2.ctx -p pcr:sha256:14=nip", "TPM_RC_AUTH_FAIL")
	c.run("tpm dictionarylockout -c")
	if c.file("out2") != c.file("data") {
		c.Fatal("sealed data")
	}
}

func (c *cli) nv() {
	c.file("data", "0123456789abcdef")
	c.run(`
		tpm nvdefine 0x01500040 -s 16 -p idx
		tpm nvwrite 0x01500040 -P idx -i data
		tpm nvread 0x01500040 -C o -o out
		tpm nvreadpublic
		tpm nvdefine 0x01500041 -a ownerread|ownerwrite|nt=counter
		tpm nvincrement 0x01500041 -C o
		tpm nvread 0x01500041 -C o -o count
		tpm nvundefine 0x01500041
		tpm nvdefine 0x01500042 -s 32 -a ownerread|ownerwrite|nt=extend
		tpm nvextend 0x01500042 -C o -i data
		tpm nvundefine 0x01500042`)
	if c.file("out") != c.file("data") {
		c.Fatal("NV")
	}
	c.fails(1, "tpm nvread 0x01500040 -P wrong -o x", "TPM_RC_")
	c.run("tpm nvundefine 0x01500040")
	c.fails(1, "tpm nvread 0x01500040 -C o", "TPM_RC_HANDLE")
	c.fails(2, "tpm nvread 0x81000000", "NV index")
}

func (c *cli) postQuantum() {
	c.file("m", strings.Repeat("a long message ", 300))
	c.file("secret", "up to 32 bytes")
	c.run(`
		tpm createprimary -C o -G mlkem768 -c p.ctx
		tpm create -C p.ctx -G mlkem768 -p pw -u k.pub -r k.priv
		tpm load -C p.ctx -u k.pub -r k.priv -c k.ctx
		tpm encapsulate -c k.ctx -o ss1 -e ct
		tpm decapsulate -c k.ctx -p pw -i ct -o ss2
		tpm create -C p.ctx -G mldsa87 -p pw -c s.ctx -u s.pub -r s.priv
		tpm sign -c s.ctx -p pw -o sig m
		tpm verify -c s.ctx -m m -s sig
		tpm sign -c s.ctx -p pw --context ctx -o sig2 m
		tpm verify -c s.ctx --context ctx -m m -s sig2
		tpm readpublic -c s.ctx -f pem -o s.pem
		tpm createek -G mlkem768 -c ek.ctx -u ek.pub
		tpm createak -C ek.ctx -G mldsa65 -p hex:00112233 -c ak.ctx -u ak.pub -n ak.name
		tpm quote -c ak.ctx -p hex:00112233 -l sha256:0,16+sha384:0 -q 0102 -m q.msg -s q.sig -o q.pcrs
		tpm checkquote -u ak.pub -m q.msg -s q.sig -f q.pcrs -q 0102
		tpm makecredential -u ek.pub -n ak.name -s secret -o cred
		tpm activatecredential -c ak.ctx -p hex:00112233 -C ek.ctx -i cred -o got`)
	if c.file("ss1") != c.file("ss2") || len(c.file("ss1")) != 32 || c.file("got") != c.file("secret") {
		c.Fatal("secrets differ")
	}
	c.file("d", strings.Repeat("x", 1024))
	for _, alg := range []string{"mlkem512", "mlkem768", "mlkem1024", "rsa"} {
		if alg == "rsa" {
			c.file("d", "up to 190 bytes")
		}
		c.run("tpm create -C p.ctx -G " + alg + ` -p pw -c e.ctx
			tpm encrypt -c e.ctx -i d -o enc -l label
			tpm decrypt -c e.ctx -p pw -i enc -o dec -l label`)
		if c.file("dec") != c.file("d") {
			c.Fatal("another message came out of " + alg)
		}
		if out, code := c.exec("tpm decrypt -c e.ctx -p pw -i enc -o dec -l Label"); code != 1 || !strings.Contains(out, "TPM_RC_") {
			c.Fatal(out)
		}
	}
	c.file("d", strings.Repeat("x", 1025))
	c.fails(2, "tpm encrypt -c k.ctx -i d", "at most 1024")
	c.fails(1, "tpm decrypt -c k.ctx -p pw -i d", "two buffers")
	c.fails(1, "tpm verify -c s.ctx -m m -s sig2", "TPM_RC_SIGNATURE")
	c.fails(1, "tpm quote -c ak.ctx -l sha256:0 -q 00", "TPM_RC_AUTH_FAIL")
}

// TestServeUsage: wrong use has status 2 and says what was expected.
func TestServeUsage(t *testing.T) {
	c := &cli{T: t, dir: t.TempDir()}
	c.fails(2, "tpm serve --ephemeral --locality-max 3", "0, 1 or 2")
	c.fails(2, "tpm serve --ephemeral --startup maybe", "clear or state")
	c.fails(2, "tpm serve --ephemeral --state x", "one of them")
	c.fails(1, "tpm serve --ephemeral --swtpm nonsense", "HOST:PORT or unix:PATH")
	c.fails(1, "tpm serve --ephemeral --mssim :2321", "name the host")
	c.fails(1, "tpm getrandom 8 --tpm carrier-pigeon:x", "unknown kind")
	if _, err := os.Stat("/dev/vtpmx"); err != nil {
		c.fails(3, "tpm serve --ephemeral --vtpm-proxy", "vtpmx")
	}
	os.Mkdir(filepath.Join(c.dir, "open"), 0o700)
	os.Chmod(filepath.Join(c.dir, "open"), 0o777)
	c.fails(1, "tpm getrandom 8 --tpm inproc:open", "others can replace")
}

// TestStateSurvives: what was made persistent is there after SIGTERM and a new
// start, PCRs go on with --startup state, and a second server is refused.
func TestStateSurvives(t *testing.T) {
	state := filepath.Join(t.TempDir(), "state")
	sock := "unix:" + filepath.Join(t.TempDir(), "s")
	c := &cli{T: t, dir: t.TempDir(), spec: "swtpm:" + sock}
	_, stop := serve(t, "--state", state, "--startup", "clear", "--swtpm", sock)
	c.fails(1, "tpm serve --state "+state+" --mssim 127.0.0.1:0", "in use")
	c.run(`
		tpm createprimary -c p.ctx
		tpm evictcontrol -c p.ctx 0x81000001
		tpm nvdefine 0x01500001 -s 4
		tpm pcrextend 0:sha256=` + strings.Repeat("44", 32))
	before := c.run("tpm pcrread sha256:0") + c.run("tpm readpublic -c 0x81000001")
	stop()
	_, stop = serve(t, "--state", state, "--startup", "state", "--swtpm", sock)
	if after := c.run("tpm pcrread sha256:0") + c.run("tpm readpublic -c 0x81000001"); after != before {
		t.Fatalf("before:\n%s\nafter:\n%s", before, after)
	}
	c.run("tpm nvreadpublic 0x01500001\ntpm readpublic -c p.ctx")
	stop()
}

// TestEncryptedState: with --key-file the state file does not hold what was
// stored, opens with the same key only, and goes on where it was.
func TestEncryptedState(t *testing.T) {
	state := filepath.Join(t.TempDir(), "state")
	sock := "unix:" + filepath.Join(t.TempDir(), "s")
	c := &cli{T: t, dir: t.TempDir(), spec: "swtpm:" + sock}
	c.file("key", strings.Repeat("5a", 32))
	c.file("other", strings.Repeat("5b", 32))
	c.file("data", "something that is easy to find..")
	args := []string{"--state", state, "--startup", "clear", "--swtpm", sock, "--key-file"}
	_, stop := serve(t, append(args, filepath.Join(c.dir, "key"))...)
	c.run("tpm nvdefine 0x01500001 -s 32\ntpm nvwrite 0x01500001 -C o -i data")
	stop()
	b, err := os.ReadFile(filepath.Join(state, "tpm.state"))
	if err != nil || len(b) == 0 || bytes.Contains(b, []byte("easy to find")) {
		t.Fatalf("%d bytes, %v", len(b), err)
	}
	c.fails(1, "tpm serve --state "+state+" --mssim 127.0.0.1:0", "no key was given")
	c.fails(1, "tpm serve --state "+state+" --mssim 127.0.0.1:0 --key-file other", "wrong key")
	c.fails(1, "tpm serve --state "+state+" --mssim 127.0.0.1:0 --key-file data2", "no such file")
	c.fails(2, "tpm serve --ephemeral --key-file key", "no state file")
	_, stop = serve(t, append(args, filepath.Join(c.dir, "key"))...)
	c.run("tpm nvread 0x01500001 -C o -o out")
	if c.file("out") != c.file("data") {
		t.Fatal("another state")
	}
	stop()
}
