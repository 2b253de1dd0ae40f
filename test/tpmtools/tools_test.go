// SPDX-License-Identifier: Apache-2.0

package tpmtools

import (
	"fmt"
	"strings"
	"testing"
)

// part runs f as a subtest of the same TPM.
func (t *tools) part(name string, f func(t *tools)) {
	t.Run(name, func(sub *testing.T) {
		n := *t
		n.T, n.dir = sub, sub.TempDir()
		f(&n)
	})
}

// TestTools runs the scripts below against every target.
func TestTools(t *testing.T) {
	targets(t, func(t *tools) {
		t.part("getrandom", getrandom)
		t.part("getcap", getcap)
		t.part("pcr", pcr)
		for _, alg := range []string{"rsa", "ecc", "ecc384"} {
			t.part("keys "+alg, func(t *tools) { keys(t, alg) })
		}
		for _, alg := range []string{"rsa", "ecc"} {
			t.part("quote "+alg, func(t *tools) { quote(t, alg) })
			t.part("credential "+alg, func(t *tools) { credential(t, alg) })
		}
		t.part("nv", nv)
		t.part("seal", seal)
		t.part("evictcontrol", evictcontrol)
		t.part("sessions", sessions)
		t.part("changeauth", changeauth)
		t.part("rsa encryption", rsaEncryption)
		t.part("hash", hashes)
		t.part("clear", func(t *tools) {
			t.run("tpm2_changeauth -c o ownerpw\ntpm2_clear\ntpm2_createprimary -C o -G ecc -c p.ctx")
		})
	})
}

func getrandom(t *tools) {
	a, b := t.run("tpm2_getrandom --hex 32"), t.run("tpm2_getrandom --hex 32")
	if len(strings.TrimSpace(a)) != 64 || a == b {
		t.Fatalf("%q %q", a, b)
	}
}

func getcap(t *tools) {
	for _, c := range []string{"algorithms", "commands", "properties-fixed", "properties-variable", "ecc-curves", "pcrs", "handles-persistent", "handles-permanent", "handles-pcr"} {
		if out := t.run("tpm2_getcap " + c); len(out) < 4 && c != "handles-persistent" {
			t.Fatalf("%s: %q", c, out)
		}
	}
	if out := t.run("tpm2_getcap properties-fixed"); !strings.Contains(out, `value: "2.0"`) {
		t.Fatal(out)
	}
	t.run("tpm2_selftest -f\ntpm2_readclock\ntpm2_testparms rsa2048 ecc256 aes128cfb")
}

func pcr(t *tools) {
	t.run("tpm2_pcrreset 16")
	zero := t.run("tpm2_pcrread sha256:16")
	if !strings.Contains(zero, "0x"+strings.Repeat("0", 64)) {
		t.Fatal(zero)
	}
	t.run("tpm2_pcrextend 16:sha256=" + strings.Repeat("11", 32))
	// SHA-256 of 32 bytes 00 and 32 bytes 11.
	const want = "0x8878B15A7D6A3A4F464E8F9F42591DBC0CF4BEDEA0EC309003D2B2EE53655EF8"
	if out := t.run("tpm2_pcrread sha256:16"); !strings.Contains(out, want) {
		t.Fatalf("%s: expected %s", out, want)
	}
	t.write("event", "an event")
	t.run("tpm2_pcrevent 16 event\ntpm2_pcrread sha1:0,1,2+sha256:0,16,23")
	t.run("tpm2_pcrreset 16")
	if t.run("tpm2_pcrread sha256:16") != zero {
		t.Fatal("PCR 16 was not reset")
	}
	t.refused("tpm2_pcrreset 0")
}

func keys(t *tools, alg string) {
	t.write("message", "the message")
	t.write("other", "another message")
	t.run(`
		tpm2_createprimary -C o -g sha256 -G ` + alg + ` -c parent.ctx
		tpm2_create -C parent.ctx -g sha256 -G ` + alg + ` -p secret -u key.pub -r key.priv
		tpm2_load -C parent.ctx -u key.pub -r key.priv -c key.ctx
		tpm2_readpublic -c key.ctx -o key.pem -f pem
		tpm2_sign -c key.ctx -p secret -g sha256 -o sig.tss message
		tpm2_verifysignature -c key.ctx -g sha256 -m message -s sig.tss
		tpm2_sign -c key.ctx -p secret -g sha256 -f plain -o sig.der message
		openssl dgst -sha256 -verify key.pem -signature sig.der message
		tpm2_sign -c key.ctx -p secret -g sha384 -f plain -o sig384.der message
		openssl dgst -sha384 -verify key.pem -signature sig384.der message`)
	t.refused("tpm2_verifysignature -c key.ctx -g sha256 -m other -s sig.tss")
	t.refused("tpm2_sign -c key.ctx -p wrong -g sha256 -o x message")
	// Clears the count of failed authorizations.
	t.run("tpm2_dictionarylockout -c")
	// A key of OpenSSL, loaded as an external one.
	t.run("openssl pkey -pubin -in key.pem -outform DER -out key.der\ntpm2_loadexternal -C n -G " + strings.TrimSuffix(strings.TrimSuffix(alg, "384"), "256") + " -u key.pem -c ext.ctx\ntpm2_verifysignature -c ext.ctx -g sha256 -m message -s sig.tss")
}

func quote(t *tools, alg string) {
	scheme := map[string]string{"rsa": "rsassa", "ecc": "ecdsa"}[alg]
	t.run(`
		tpm2_createek -c ek.ctx -G ` + alg + ` -u ek.pub
		tpm2_createak -C ek.ctx -c ak.ctx -G ` + alg + ` -g sha256 -s ` + scheme + ` -u ak.pem -f pem -n ak.name
		tpm2_quote -c ak.ctx -l sha256:0,7,16 -q 00112233 -m q.msg -s q.sig -o q.pcrs -g sha256
		tpm2_checkquote -u ak.pem -m q.msg -s q.sig -f q.pcrs -g sha256 -q 00112233`)
	t.refused("tpm2_checkquote -u ak.pem -m q.msg -s q.sig -f q.pcrs -g sha256 -q 00112234")
	t.write("q.bad", t.read("q.msg")[:len(t.read("q.msg"))-1]+"x")
	t.refused("tpm2_checkquote -u ak.pem -m q.bad -s q.sig -g sha256 -q 00112233")
	if out := t.run("tpm2_print -t TPMS_ATTEST q.msg"); !strings.Contains(out, "00112233") {
		t.Fatal(out)
	}
	t.run("tpm2_createprimary -C o -G " + alg + " -c o.ctx\ntpm2_certify -c o.ctx -C ak.ctx -g sha256 -o c.msg -s c.sig")
}

func credential(t *tools, alg string) {
	t.write("secret", "a secret of up to 32 bytes")
	name := func() string { return fmt.Sprintf("%x", t.read("ak.name")) }
	t.run(`
		tpm2_createek -c ek.ctx -G ` + alg + ` -u ek.pub
		tpm2_createak -C ek.ctx -c ak.ctx -G ` + alg + ` -g sha256 -s ` + map[string]string{"rsa": "rsassa", "ecc": "ecdsa"}[alg] + ` -u ak.pub -n ak.name`)
	activate := func(file, out string) string {
		return `
		tpm2_startauthsession --policy-session -S s.ctx
		tpm2_policysecret -S s.ctx -c e
		tpm2_activatecredential -c ak.ctx -C ek.ctx -i ` + file + ` -o ` + out + ` -P session:s.ctx
		tpm2_flushcontext s.ctx`
	}
	t.run("tpm2_makecredential -u ek.pub -s secret -n " + name() + " -o cred.tpm")
	t.run(activate("cred.tpm", "out1"))
	t.same("secret", "out1")
	// Without a TPM: in tpm2-tools' software.
	t.run("tpm2_makecredential -T none -u ek.pub -s secret -n " + name() + " -o cred.soft")
	t.run(activate("cred.soft", "out2"))
	t.same("secret", "out2")
}

func nv(t *tools) {
	t.write("data", "data of the index, 32 bytes long")
	t.run(`
		tpm2_nvdefine 0x1500010 -C o -s 32 -a ownerread|ownerwrite|authread|authwrite -p index
		tpm2_nvwrite 0x1500010 -C o -i data
		tpm2_nvread 0x1500010 -C 0x1500010 -P index -s 32 -o out`)
	t.same("data", "out")
	if out := t.run("tpm2_nvreadpublic 0x1500010"); !strings.Contains(out, "size: 32") {
		t.Fatal(out)
	}
	t.refused("tpm2_nvread 0x1500010 -C 0x1500010 -P wrong -s 32 -o x")
	t.run("tpm2_dictionarylockout -c\ntpm2_nvundefine 0x1500010 -C o")
	t.refused("tpm2_nvread 0x1500010 -C o -s 32 -o x")
	t.run(`
		tpm2_nvdefine 0x1500011 -C o -a ownerread|ownerwrite|nt=counter
		tpm2_nvincrement 0x1500011 -C o
		tpm2_nvread 0x1500011 -C o -s 8 -o c1
		tpm2_nvincrement 0x1500011 -C o
		tpm2_nvread 0x1500011 -C o -s 8 -o c2
		tpm2_nvundefine 0x1500011 -C o
		tpm2_nvdefine 0x1500012 -C o -a ownerread|ownerwrite|nt=extend
		tpm2_nvextend 0x1500012 -C o -i data
		tpm2_nvread 0x1500012 -C o -o e1
		tpm2_nvundefine 0x1500012 -C o
		tpm2_nvdefine 0x1500013 -C o -a ownerread|ownerwrite|nt=bits
		tpm2_nvsetbits 0x1500013 -C o -i 0xbadc0de
		tpm2_nvread 0x1500013 -C o -o b1
		tpm2_nvundefine 0x1500013 -C o
		tpm2_nvdefine 0x1500014 -C o -s 8 -a ownerread|ownerwrite|write_stclear|read_stclear
		tpm2_nvwrite 0x1500014 -C o -i c2
		tpm2_nvreadlock 0x1500014 -C o
		tpm2_nvwritelock 0x1500014 -C o`)
	t.refused("tpm2_nvread 0x1500014 -C o -s 8 -o x")
	t.refused("tpm2_nvwrite 0x1500014 -C o -i c1")
	t.run("tpm2_nvundefine 0x1500014 -C o")
	if c1, c2 := t.read("c1"), t.read("c2"); c2[7] != c1[7]+1 {
		t.Fatalf("counter: %x, then %x", c1, c2)
	}
	if b := t.read("b1"); b[4:] != "\x0b\xad\xc0\xde" {
		t.Fatalf("bits: %x", b)
	}
}

func seal(t *tools) {
	t.write("data", "the sealed data")
	t.run(`
		tpm2_pcrreset 16
		tpm2_createprimary -C o -G ecc -c parent.ctx
		tpm2_createpolicy --policy-pcr -l sha256:0,16 -L policy
		tpm2_create -C parent.ctx -L policy -i data -u seal.pub -r seal.priv
		tpm2_load -C parent.ctx -u seal.pub -r seal.priv -c seal.ctx
		tpm2_unseal -c seal.ctx -p pcr:sha256:0,16 -o out`)
	t.same("data", "out")
	t.refused("tpm2_unseal -c seal.ctx -o x")
	t.run("tpm2_pcrextend 16:sha256=" + strings.Repeat("22", 32))
	t.refused("tpm2_unseal -c seal.ctx -p pcr:sha256:0,16 -o x")
	t.run("tpm2_pcrreset 16\ntpm2_unseal -c seal.ctx -p pcr:sha256:0,16 -o out2")
	t.same("data", "out2")
	// A password, and a policy of either PCRs or an authorization value.
	t.run(`
		tpm2_create -C parent.ctx -p pin -i data -u pin.pub -r pin.priv -c pin.ctx
		tpm2_unseal -c pin.ctx -p pin -o out3
		tpm2_startauthsession -S trial.ctx
		tpm2_policyauthvalue -S trial.ctx -L auth.policy
		tpm2_flushcontext trial.ctx
		tpm2_startauthsession -S trial.ctx
		tpm2_policyor -S trial.ctx -L or.policy sha256:policy,auth.policy
		tpm2_flushcontext trial.ctx
		tpm2_create -C parent.ctx -p pin -L or.policy -i data -u or.pub -r or.priv -c or.ctx
		tpm2_startauthsession --policy-session -S s.ctx
		tpm2_policyauthvalue -S s.ctx
		tpm2_policyor -S s.ctx sha256:policy,auth.policy
		tpm2_unseal -c or.ctx -p session:s.ctx+pin -o out4
		tpm2_flushcontext s.ctx`)
	t.same("data", "out3")
	t.same("data", "out4")
}

func evictcontrol(t *tools) {
	t.run(`
		tpm2_createprimary -C o -G ecc -c p.ctx
		tpm2_evictcontrol -C o -c p.ctx 0x81000020
		tpm2_readpublic -c 0x81000020
		tpm2_create -C 0x81000020 -G ecc -u k.pub -r k.priv`)
	if out := t.run("tpm2_getcap handles-persistent"); !strings.Contains(out, "0x81000020") {
		t.Fatal(out)
	}
	t.run("tpm2_evictcontrol -C o -c 0x81000020")
	t.refused("tpm2_readpublic -c 0x81000020")
}

// sessions: an HMAC session salted by a key, with parameter encryption, kept
// over several tools.
func sessions(t *tools) {
	t.write("data", "over an encrypted session")
	t.run(`
		tpm2_createprimary -C o -G ecc -c p.ctx
		tpm2_startauthsession --hmac-session --tpmkey-context p.ctx -S s.ctx
		tpm2_sessionconfig --enable-encrypt --enable-decrypt s.ctx
		tpm2_create -C p.ctx -P session:s.ctx -i data -u d.pub -r d.priv
		tpm2_load -C p.ctx -P session:s.ctx -u d.pub -r d.priv -c d.ctx
		tpm2_unseal -c d.ctx -p session:s.ctx -o out
		tpm2_getrandom -S s.ctx --hex 16
		tpm2_flushcontext s.ctx`)
	t.same("data", "out")
}

func changeauth(t *tools) {
	t.write("data", "data")
	t.run(`
		tpm2_changeauth -c o ownerpw
		tpm2_createprimary -C o -P ownerpw -G ecc -c p.ctx`)
	t.refused("tpm2_createprimary -C o -P wrong -G ecc -c x.ctx")
	t.run(`
		tpm2_changeauth -c o -p ownerpw
		tpm2_create -C p.ctx -p old -i data -u d.pub -r d.priv
		tpm2_load -C p.ctx -u d.pub -r d.priv -c d.ctx
		tpm2_changeauth -c d.ctx -C p.ctx -p old -r new.priv new
		tpm2_load -C p.ctx -u d.pub -r new.priv -c n.ctx
		tpm2_unseal -c n.ctx -p new -o out`)
	t.same("data", "out")
}

func rsaEncryption(t *tools) {
	t.write("data", "to be encrypted")
	t.run(`
		tpm2_createprimary -C o -G rsa -c p.ctx
		tpm2_create -C p.ctx -G rsa -u k.pub -r k.priv
		tpm2_load -C p.ctx -u k.pub -r k.priv -c k.ctx
		tpm2_rsaencrypt -c k.ctx -o enc data
		tpm2_rsadecrypt -c k.ctx -o out enc
		tpm2_rsaencrypt -c k.ctx -s oaep -o enc2 data
		tpm2_rsadecrypt -c k.ctx -s oaep -o out2 enc2`)
	t.same("data", "out")
	t.same("data", "out2")
}

func hashes(t *tools) {
	t.write("data", strings.Repeat("0123456789", 500))
	t.run("tpm2_hash -C o -g sha256 --hex -o h1 data")
	out := t.run("openssl dgst -sha256 -r data")
	if !strings.HasPrefix(out, t.read("h1")) {
		t.Fatalf("%s, %s", out, t.read("h1"))
	}
	t.run(`
		tpm2_createprimary -C o -G ecc -c p.ctx
		tpm2_create -C p.ctx -G hmac -u k.pub -r k.priv
		tpm2_load -C p.ctx -u k.pub -r k.priv -c k.ctx
		tpm2_hmac -c k.ctx -o m1 data
		tpm2_hmac -c k.ctx -o m2 data`)
	t.same("m1", "m2")
}
