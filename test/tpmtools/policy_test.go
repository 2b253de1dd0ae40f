// SPDX-License-Identifier: Apache-2.0

package tpmtools

import (
	"crypto/sha256"
	"encoding/hex"
	"path/filepath"
	"strings"
	"testing"
)

// TestPolicies drives each policy of `holdfast tpm`: a trial session gives the
// digest of an object's policy, and a policy session that satisfies it, and no
// other, unseals the object.
func TestPolicies(t *testing.T) {
	a, stop := serve(t, "--ephemeral", "--startup", "clear", "--swtpm", "unix:"+filepath.Join(t.TempDir(), "s"))
	defer stop()
	c := &cli{T: t, spec: a[0], dir: t.TempDir(), pq: true}
	c.file("secret", "the secret")
	c.file("nv8", "\x00\x00\x00\x00\x00\x00\x00\x05")
	c.run(`
		tpm createprimary -C o -G ecc -c p.ctx
		tpm create -C p.ctx -G ecc:ecdsa -c sign.ctx
		tpm create -C p.ctx -G ed25519 -c ed.ctx
		tpm readpublic -c ed.ctx -n ed.name
		tpm nvdefine 0x01500050 -s 8 -a ownerwrite|ownerread|authread
		tpm nvwrite 0x01500050 -C o -i nv8
		tpm startauthsession -S t.ses
		tpm policysigned -S t.ses -q 726566 --raw-data tosign
		tpm sign -c sign.ctx -o sig tosign
		tpm sign -c ed.ctx -o edsig tosign`)

	trial := func(assertions string) {
		t.Helper()
		c.run("tpm startauthsession -S t.ses")
		for _, x := range strings.Split(assertions, "\n") {
			if x = strings.TrimSpace(x); x != "" {
				verb, rest, _ := strings.Cut(x, " ")
				c.run("tpm " + verb + " -S t.ses -L pol " + rest)
			}
		}
	}
	last := ""
	satisfied := func(assertions string) {
		t.Helper()
		c.run("tpm startauthsession -S s.ses --policy-session")
		for _, x := range strings.Split(assertions, "\n") {
			if x = strings.TrimSpace(x); x != "" {
				verb, rest, _ := strings.Cut(x, " ")
				last = c.run("tpm " + verb + " -S s.ses " + rest)
			}
		}
	}
	// unseals says that the session unseals what the trial session's policy seals,
	// with the value behind +, and that one without assertions does not.
	unseals := func(assertions, value string) {
		t.Helper()
		trial(assertions)
		c.run("tpm create -C p.ctx -i secret -p pw -L pol -c sealed.ctx")
		satisfied(assertions)
		if got := c.run("tpm unseal -c sealed.ctx -p session:s.ses" + value); got != "the secret" {
			t.Errorf("%s: unsealed %q", assertions, got)
		}
		satisfied("")
		c.fails(1, "tpm unseal -c sealed.ctx -p session:s.ses"+value, "TPM_RC_POLICY_FAIL")
	}
	unseals("policypassword", "+pw")
	c.fails(1, "tpm unseal -c sealed.ctx -p session:t.ses+pw", "trial")
	unseals("policyauthvalue", "+pw")
	unseals("policysecret -c o -q 7265660a\npolicycommandcode unseal", "")
	unseals("policysigned -c ed.ctx -s edsig -q 726566", "")
	// A policy session that the TPM lets make the assertion has the digest of the
	// trial session, so it would unseal too.
	for _, x := range []string{
		"policycommandcode TPM2_CC_Unseal\npolicylocality zero", "policypcr -l sha256:0,16", "policysigned -c sign.ctx -s sig -q 726566",
		"policynv 0x01500050 eq -C o -i nv8", "policynv 0x01500050 ult -C o -i 0000000000000006",
		"policycountertimer --operation ult clock=0x7fffffffffffffff", "policycountertimer resets=0 --operation uge",
		"policycapability 6 0x100 -i 00000100322e3000",
	} {
		trial(x)
		satisfied(x)
		if got := hex.EncodeToString([]byte(c.file("pol"))); got != strings.TrimSpace(last) || got == "" {
			t.Errorf("%s: trial session %s, policy session %s", x, got, last)
		}
	}
	for x, text := range map[string]string{
		"policynv -S s.ses 0x01500050 eq -C o -i 0000000000000006": "TPM_RC_POLICY", "policycountertimer -S s.ses --operation ugt clock=0x7fffffffffffffff": "TPM_RC_POLICY",
		"policysigned -S s.ses -c sign.ctx -s edsig -q 726566": "TPM_RC_SCHEME", "policycapability -S s.ses 6 0x100 -i 00000100322e3001": "TPM_RC_POLICY",
	} {
		c.fails(1, "tpm "+x, text)
	}

	// One of two.
	trial("policycommandcode unseal")
	unsealOnly := c.file("pol")
	trial("policypassword")
	c.file("either", c.file("pol"))
	c.file("unsealonly", unsealOnly)
	trial("policyor -l sha256:unsealonly,either")
	c.run("tpm create -C p.ctx -i secret -p pw -L pol -c sealed.ctx")
	for _, x := range []struct{ assertions, value string }{{"policycommandcode unseal", ""}, {"policypassword", "+pw"}} {
		satisfied(x.assertions + "\npolicyor -l sha256:unsealonly,either")
		c.run("tpm unseal -c sealed.ctx -p session:s.ses" + x.value)
	}
	c.run("tpm startauthsession -S s.ses --policy-session")
	c.fails(1, "tpm policyor -S s.ses -l sha256:unsealonly,either", "TPM_RC_VALUE")

	// A policy that a key approved, the ticket from a verification of an EdDSA signature.
	trial("policyauthorize -i unsealonly -n ed.name")
	c.run(`
		tpm create -C p.ctx -i secret -L pol -c sealed.ctx
		tpm sign -c ed.ctx -o asig unsealonly
		tpm verifysignature -c ed.ctx -m unsealonly -s asig -t ticket`)
	satisfied("policycommandcode unseal\npolicyauthorize -i unsealonly -n ed.name -t ticket")
	c.run("tpm unseal -c sealed.ctx -p session:s.ses")

	// A policy that an NV index holds: TPMT_HA.
	c.file("ha", "\x00\x0b"+unsealOnly)
	c.run("tpm nvdefine 0x01500051 -s 34 -a ownerwrite|ownerread|authread --space2\ntpm nvwrite 0x01500051 -C o -i ha")
	trial("policyauthorizenv 0x01500051 -C o")
	c.run("tpm create -C p.ctx -i secret -L pol -c sealed.ctx")
	satisfied("policycommandcode unseal\npolicyauthorizenv 0x01500051 -C o")
	c.run("tpm unseal -c sealed.ctx -p session:s.ses")
	if a, b := c.run("tpm nvreadpublic 0x01500051"), c.run("tpm nvreadpublic --public2 0x01500051"); a != b || !strings.Contains(a, "size: 34") {
		t.Errorf("NV_ReadPublic says %q, NV_ReadPublic2 %q", a, b)
	}

	// An index that wants a policy of its own: not written yet.
	trial("policynvwritten c")
	c.run("tpm nvdefine 0x01500052 -s 8 -a policywrite|ownerread -L pol")
	satisfied("policynvwritten c")
	c.run("tpm nvwrite 0x01500052 -P session:s.ses -i nv8")
	satisfied("policynvwritten c")
	c.fails(1, "tpm nvwrite 0x01500052 -P session:s.ses -i nv8", "TPM_RC_POLICY_FAIL")

	// The digests that pin a command: each equals the equation of Part 3, 23.
	zero := strings.Repeat("\x00", 32)
	pin := hex.EncodeToString([]byte(strings.Repeat("p", 32)))
	for verb, code := range map[string]string{"policynamehash -n": "\x00\x00\x01\x70", "policycphash -i": "\x00\x00\x01\x6e", "policytemplate -t": "\x00\x00\x01\x90", "policyparameters -i": "\x00\x00\x01\x9c"} {
		trial(verb + " " + pin)
		want := sha256.Sum256([]byte(zero + code + strings.Repeat("p", 32)))
		if c.file("pol") != string(want[:]) {
			t.Errorf("%s: %x, want %x", verb, c.file("pol"), want)
		}
	}
	name := "000b" + pin
	trial("policyduplicationselect -n " + name + " -N " + name + " --include-object")
	raw := "\x00\x0b" + strings.Repeat("p", 32)
	want := sha256.Sum256([]byte(zero + "\x00\x00\x01\x88" + raw + raw + "\x01"))
	if c.file("pol") != string(want[:]) {
		t.Errorf("policyduplicationselect: %x, want %x", c.file("pol"), want)
	}
	c.fails(2, "tpm policylocality five -S t.ses", "zero, one")
	c.fails(2, "tpm policycommandcode fly -S t.ses", "expected a name")
	c.fails(2, "tpm policyor -S t.ses -l sha256:unsealonly", "2 to 8")
	c.fails(2, "tpm policypassword", "-S")
	c.fails(1, "tpm policypassword -S secret", "saved session")
}

// TestEdwardsTools: EdDSA and X25519 by command line; OpenSSL verifies what the
// TPM signs, and its keys go into the TPM.
func TestEdwardsTools(t *testing.T) {
	a, stop := serve(t, "--ephemeral", "--startup", "clear", "--swtpm", "unix:"+filepath.Join(t.TempDir(), "s"))
	defer stop()
	c := &cli{T: t, spec: a[0], dir: t.TempDir(), pq: true}
	c.file("m", "a message")
	c.run("tpm createprimary -C o -G x25519 -c p.ctx")
	for _, k := range []string{"ed25519", "ed448"} {
		c.run(`
			tpm create -C p.ctx -G ` + k + ` -c k.ctx
			tpm readpublic -c k.ctx -o k.pem -f pem
			tpm sign -c k.ctx -f plain -o plain m
			tpm sign -c k.ctx -o sig m
			tpm verifysignature -c k.ctx -m m -s sig
			openssl pkeyutl -verify -pubin -inkey k.pem -rawin -in m -sigfile plain
			tpm create -C p.ctx -G ` + k + `:hash_eddsa -c h.ctx
			tpm sign -c h.ctx -o hsig m
			tpm verifysignature -c h.ctx -m m -s hsig
			tpm createak -C p.ctx -G ` + k + ` -c ak.ctx -u ak.pub
			tpm quote -c ak.ctx -l sha256:0,7 -q 01020304 -m quote -s qsig -o qpcrs
			tpm checkquote -u ak.pub -m quote -s qsig -q 01020304`)
		c.fails(1, "tpm verifysignature -c k.ctx -m plain -s sig", "TPM_RC_SIGNATURE")
		// OpenSSL's key goes in and signs the same, since EdDSA has no randomness.
		c.run(`
			openssl genpkey -algorithm ` + k + ` -out o.pem
			openssl pkeyutl -sign -inkey o.pem -rawin -in m -out osig
			tpm import -C p.ctx -i o.pem -c o.ctx
			tpm sign -c o.ctx -f plain -o tsig m`)
		if c.file("osig") != c.file("tsig") {
			t.Errorf("%s: OpenSSL and the TPM sign differently with one key", k)
		}
	}
	c.file("long", strings.Repeat("x", 1025))
	c.fails(2, "tpm sign -c k.ctx long", "hash_eddsa")
	c.run("tpm sign -c h.ctx -o hsig long\ntpm verifysignature -c h.ctx -m long -s hsig")
	for _, k := range []string{"x25519", "x448"} {
		c.run(`
			tpm create -C p.ctx -G ` + k + ` -c x.ctx
			tpm readpublic -c x.ctx -o x.pem -f pem
			openssl pkey -pubin -in x.pem -noout
			tpm encapsulate -c x.ctx -o shared -e ct
			tpm decapsulate -c x.ctx -i ct -o again`)
		if c.file("shared") != c.file("again") {
			t.Errorf("%s: another shared secret", k)
		}
	}
	if out := c.run("tpm getcap ecc-curves"); !strings.Contains(out, "25519") || !strings.Contains(out, "448") {
		t.Errorf("curves: %s", out)
	}
}
