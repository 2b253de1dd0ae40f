// SPDX-License-Identifier: Apache-2.0

package tpmtools

import (
	"crypto/sha256"
	"crypto/x509"
	"encoding/hex"
	"encoding/pem"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"filippo.io/mldsa"
	mldsax509 "filippo.io/mldsa/x509"

	"holdfast/test/host"
)

// TestProvision: the certificates are where tpm2-tools looks for them, belong
// to the endorsement keys, and chain to the test CA: by OpenSSL for the classic
// ones, by another ML-DSA implementation than the TPM's for the others.
func TestProvision(t *testing.T) {
	host.Need(t, "tpm2-tools")
	host.Need(t, "openssl")
	addresses, stop := serve(t, "--ephemeral", "--startup", "clear", "--mssim", "127.0.0.1:0")
	defer stop()
	h, port, _ := strings.Cut(strings.TrimPrefix(addresses[0], "mssim:"), ":")
	tools := &tools{T: t, ours: true, dir: t.TempDir(), tcti: "mssim:host=" + h + ",port=" + port}
	c := &cli{T: t, spec: addresses[0], dir: tools.dir}

	c.run("tpm provision -d ca --persist")
	tools.run("tpm2_getekcertificate -o rsa.der -o ecc.der")
	for kind, x := range map[string]struct{ file, handle, index string }{
		"rsa2048": {"rsa.der", "0x81010001", "0x01C00002"},
		"ecc256":  {"ecc.der", "0x81010002", "0x01C0000A"},
	} {
		if c.file(x.file) != c.file("ca/ek-"+kind+".der") {
			t.Fatalf("%s: tpm2_getekcertificate reads another certificate", kind)
		}
		c.run("openssl x509 -inform DER -in " + x.file + " -out ek.pem\nopenssl verify -x509_strict -CAfile ca/ca-ecdsa.pem ek.pem\ntpm readpublic -c " + x.handle + " -f pem -o ek.pub")
		if out := c.run("openssl x509 -in ek.pem -noout -pubkey"); out != c.file("ek.pub") {
			t.Fatalf("%s: the certificate is for another key:\n%s", kind, out)
		}
		if out := c.run("openssl x509 -in ek.pem -noout -text"); !strings.Contains(out, "2.23.133.8.1") || !strings.Contains(out, "CA:FALSE") || !strings.Contains(out, "2.23.133.2.1=id:") {
			t.Fatalf("%s: %s", kind, out)
		}
		if out := tools.run("tpm2_nvreadpublic " + x.index); !strings.Contains(out, "writelocked") || !strings.Contains(out, "platformcreate") {
			t.Fatalf("%s: %s", kind, out)
		}
		c.fails(1, "tpm nvwrite "+x.index+" -C p -i ek.pem", "TPM_RC_NV_LOCKED")
	}
	block, _ := pem.Decode([]byte(c.file("ca/ca-mldsa65.pem")))
	root, err := x509.ParseCertificate(block.Bytes)
	if err != nil {
		t.Fatal(err)
	}
	key, err := mldsax509.ParsePKIXPublicKey(root.RawSubjectPublicKeyInfo)
	if err != nil {
		t.Fatal(err)
	}
	check := func(what string, cert *x509.Certificate) {
		t.Helper()
		if err := mldsa.Verify(key.(*mldsa.PublicKey), cert.RawTBSCertificate, cert.Signature, &mldsa.Options{}); err != nil {
			t.Fatalf("%s: %v", what, err)
		}
		if string(cert.RawIssuer) != string(root.RawSubject) || cert != root && string(cert.AuthorityKeyId) != string(root.SubjectKeyId) {
			t.Fatalf("%s: another issuer", what)
		}
	}
	check("root", root)
	for kind, x := range map[string]struct{ handle, index, template string }{
		"mlkem768": {"0x81010062", "0x01c00062", "0x01c00063"},
		"mldsa65":  {"0x81010072", "0x01c00072", "0x01c00073"},
	} {
		c.run("tpm nvread " + x.index + " -C o -o pq.der\ntpm readpublic -c " + x.handle + " -f der -o pq.pub\ntpm nvread " + x.template + " -C o -o pq.template")
		cert, err := x509.ParseCertificate([]byte(c.file("pq.der")))
		if err != nil {
			t.Fatal(kind, err)
		}
		check(kind, cert)
		if string(cert.RawSubjectPublicKeyInfo) != c.file("pq.pub") || cert.IsCA || c.file("pq.template") == "" {
			t.Fatalf("%s: the certificate is for another key", kind)
		}
	}
	// Enrolment records the certificate that it found, and checks who vouches for it.
	c.fails(1, "attest enroll --allow-shared-tpm --tpm "+c.spec+" --name here --key ak --secret ak.secret --trust trust --ek-ca ca/ca-ecdsa.pem", "no authority vouches")
	c.run("attest enroll --allow-shared-tpm --tpm " + c.spec + " --name here --key ak --secret ak.secret --trust trust --ek-ca ca/ca-mldsa65.pem")
	digest := sha256.Sum256([]byte(c.file("ca/ek-mlkem768.der")))
	if trust := c.file("trust"); !strings.Contains(trust, hex.EncodeToString(digest[:])) {
		t.Fatalf("the certificate is not in the trust file:\n%s", trust)
	}
	// Nothing is replaced unasked; the CA stays the same.
	before := c.file("ca/ca-ecdsa.pem")
	c.fails(1, "tpm provision -d ca -G ecc256", "exists")
	c.run("tpm provision -d ca -G ecc256 --replace")
	if c.file("ca/ca-ecdsa.pem") != before {
		t.Fatal("the CA was replaced")
	}
	c.fails(2, "tpm provision -d ca -G rsa3072", "expected rsa2048")
	c.fails(1, "tpm provision -d ca --replace --platform-auth wrong", "TPM_RC_BAD_AUTH")
	for _, n := range []string{"ca/ca-ecdsa.key.pem", "ca/ca-mldsa65.key.pem"} {
		if i, err := os.Stat(filepath.Join(c.dir, n)); err != nil || i.Mode().Perm() != 0o600 {
			t.Fatal(i, err)
		}
	}
	if out := c.run("tpm getcap handles-transient"); strings.TrimSpace(out) != "" {
		t.Fatalf("left behind: %s", out)
	}
}
