// SPDX-License-Identifier: Apache-2.0

package tpmtools

import (
	"bytes"
	"encoding/pem"
	"path/filepath"
	"strings"
	"testing"

	"filippo.io/mldsa"

	"holdfast/test/host"
	"holdfast/tpm2"
	"holdfast/tss/keyfile"
)

// TestKeyFiles: keys come in and go out as PEM and TSS2 PRIVATE KEY, OpenSSL
// reads the classic ones and verifies their signatures.
func TestKeyFiles(t *testing.T) {
	host.Need(t, "openssl")
	c := &cli{T: t, spec: "inproc:" + filepath.Join(t.TempDir(), "state"), dir: t.TempDir(), pq: true}
	c.file("m", "the message")
	for _, parent := range []string{"rsa", "ecc", "mlkem768"} {
		c.run("tpm createprimary -G " + parent + " -c p.ctx\ntpm evictcontrol -c p.ctx 0x81000001")
		for name, generate := range map[string]string{
			"rsa":   "openssl genpkey -algorithm RSA -pkeyopt rsa_keygen_bits:2048 -out k.pem",
			"ecc":   "openssl genpkey -algorithm EC -pkeyopt ec_paramgen_curve:P-256 -out k.pem",
			"sec1":  "openssl ecparam -name secp384r1 -genkey -noout -out k.pem",
			"pkcs1": "openssl genrsa -traditional -out k.pem 2048",
		} {
			c.run(generate + `
				openssl pkey -in k.pem -pubout -out k.pub.pem
				tpm import -C 0x81000001 -i k.pem -p pw -u k.pub -r k.priv -c k.ctx -o k.tss2 --exportable
				tpm export -c k.ctx -o pub.pem
				tpm export -u k.pub -o pub2.pem`)
			if w := c.file("k.pub.pem"); c.file("pub.pem") != w || c.file("pub2.pem") != w {
				t.Fatalf("%s below %s: OpenSSL and we write different public keys", name, parent)
			}
			if name != "sec1" { // its hash is not the usual one
				scheme := map[string]string{"ecc": "ecdsa"}[name]
				if scheme == "" {
					scheme = "rsassa"
				}
				c.run("tpm sign -c k.ctx -p pw -s " + scheme + " -f plain -o sig m\nopenssl dgst -sha256 -verify k.pub.pem -signature sig m")
			}
			// Out again, in the clear; only with the password.
			c.fails(1, "tpm export -c k.ctx --private -p wrong -o out.pem", "TPM_RC_AUTH_FAIL")
			c.run(`
				tpm export -c k.ctx --private -p pw -o out.pem
				openssl pkey -in out.pem -check -noout
				openssl pkey -in out.pem -pubout -out out.pub.pem`)
			if c.file("out.pub.pem") != c.file("k.pub.pem") {
				t.Fatalf("%s: another key came out", name)
			}
			// The same key by its TSS2 file.
			if out := c.run("openssl asn1parse -i -in k.tss2"); !strings.Contains(out, "2.23.133.10.1.3") {
				t.Fatal(out)
			}
			c.run("tpm import -i k.tss2 -c again.ctx\ntpm export -c again.ctx -o pub.pem\ntpm dictionarylockout -c")
			if c.file("pub.pem") != c.file("k.pub.pem") {
				t.Fatalf("%s: the TSS2 file holds another key", name)
			}
			// A public key verifies what the TPM signed.
			c.run("tpm import -i k.pub.pem -c pub.ctx\ntpm export -c pub.ctx -o pub.pem")
			if c.file("pub.pem") != c.file("k.pub.pem") {
				t.Fatalf("%s: another public key", name)
			}
		}
		c.run("tpm evictcontrol 0x81000001")
	}
	// Keys of the TPM as TSS2 files, below the hierarchy's own primary key.
	c.run("tpm createprimary -G ecc -c p.ctx\ntpm create -C p.ctx -G ecc -u k.pub -r k.priv -c k.ctx\ntpm export -u k.pub -r k.priv -C o -o k.tss2")
	c.fails(1, "tpm import -i k.tss2 -c x.ctx", "TPM_RC_") // another primary key: unique of zeros
	c.run("tpm import -C p.ctx -i k.tss2 -c x.ctx")
	c.fails(1, "tpm export -c k.ctx --private", "was not made to be exported")
	c.fails(2, "tpm import -i k.tss2 -p pw", "TSS2 PRIVATE KEY")
	c.run("openssl genpkey -algorithm EC -pkeyopt ec_paramgen_curve:P-256 -out k.pem")
	c.fails(2, "tpm import -i k.pem", "parent")
	c.fails(2, "tpm import -C o -i k.pem", "not a hierarchy")
	c.fails(2, "tpm import -C p.ctx -i k.pem -o x", "persistent handle")
	c.fails(1, "tpm import -C p.ctx -i m", "PEM")
}

// TestPostQuantumKeyFiles: ML-DSA and ML-KEM keys with the forms of RFC 9881
// and RFC 9935 come in, work, and go out as they were.
func TestPostQuantumKeyFiles(t *testing.T) {
	c := &cli{T: t, spec: "inproc:" + filepath.Join(t.TempDir(), "state"), dir: t.TempDir(), pq: true}
	c.run("tpm createprimary -G mlkem768 -c p.ctx")
	c.file("m", "the message")
	for name, p := range map[string]tpm2.Public{
		"ML-DSA-44":   {Type: tpm2.AlgMLDSA, Parms: tpm2.Parms{MLDSA: tpm2.MLDSA44}},
		"ML-DSA-65":   {Type: tpm2.AlgMLDSA, Parms: tpm2.Parms{MLDSA: tpm2.MLDSA65}},
		"ML-DSA-87":   {Type: tpm2.AlgMLDSA, Parms: tpm2.Parms{MLDSA: tpm2.MLDSA87}},
		"ML-KEM-512":  {Type: tpm2.AlgMLKEM, Parms: tpm2.Parms{MLKEM: tpm2.MLKEM512}},
		"ML-KEM-768":  {Type: tpm2.AlgMLKEM, Parms: tpm2.Parms{MLKEM: tpm2.MLKEM768}},
		"ML-KEM-1024": {Type: tpm2.AlgMLKEM, Parms: tpm2.Parms{MLKEM: tpm2.MLKEM1024}},
	} {
		der := seedPKCS8(t, &p)
		c.file("k.pem", string(keyfile.Encode(keyfile.PEMPrivate, der)))
		c.run(`
			tpm import -C p.ctx -i k.pem -p pw -c k.ctx --exportable
			tpm export -c k.ctx -o pub.pem
			tpm import -i pub.pem -c pub.ctx
			tpm export -c k.ctx --private -p pw -o out.pem`)
		if c.file("out.pem") != c.file("k.pem") {
			t.Fatalf("%s: another private key came out", name)
		}
		if p.Type == tpm2.AlgMLDSA {
			c.run("tpm sign -c k.ctx -p pw -o sig m\ntpm verify -c pub.ctx -m m -s sig")
			continue
		}
		c.run("tpm encapsulate -c pub.ctx -o ss1 -e ct\ntpm decapsulate -c k.ctx -p pw -i ct -o ss2")
		if c.file("ss1") != c.file("ss2") {
			t.Fatalf("%s: shared secrets differ", name)
		}
	}
}

// seedPKCS8 makes the PKCS #8 file of p's kind for a fixed seed, octet by octet.
func seedPKCS8(t *testing.T, p *tpm2.Public) []byte {
	t.Helper()
	family, n, size := byte(4), byte(p.Parms.MLKEM), 64 // 2.16.840.1.101.3.4.4.n
	if p.Type == tpm2.AlgMLDSA {
		family, n, size = 3, 16+byte(p.Parms.MLDSA), mldsa.PrivateKeySize
	}
	b := []byte{0x30, byte(20 + size), 2, 1, 0, 0x30, 11, 6, 9, 0x60, 0x86, 0x48, 1, 0x65, 3, 4, family, n, 4, byte(2 + size), 0x80, byte(size)}
	for i := range size {
		b = append(b, byte(i))
	}
	if _, _, err := keyfile.ParsePrivate(b); err != nil {
		t.Fatal(err)
	}
	return b
}

// TestTSS2OfTools: a key file that tpm2-tools writes is read, and ours is the
// same to the byte but for one flag.
func TestTSS2OfTools(t *testing.T) {
	host.Need(t, "tpm2-tools")
	addresses, stop := serve(t, "--ephemeral", "--startup", "clear", "--mssim", "127.0.0.1:0")
	defer stop()
	h, port, _ := strings.Cut(strings.TrimPrefix(addresses[0], "mssim:"), ":")
	tools := &tools{T: t, ours: true, dir: t.TempDir(), tcti: "mssim:host=" + h + ",port=" + port}
	c := &cli{T: t, spec: addresses[0], dir: tools.dir}
	c.run(`
		tpm createprimary -G rsa -c p.ctx
		tpm evictcontrol -c p.ctx 0x81000001
		tpm create -C 0x81000001 -G ecc -u k.pub -r k.priv
		tpm export -u k.pub -r k.priv -C 0x81000001 -o ours.pem`)
	tools.run("tpm2_encodeobject -C 0x81000001 -u k.pub -r k.priv -o theirs.pem")
	ours, _ := pem.Decode([]byte(c.file("ours.pem")))
	theirs, _ := pem.Decode([]byte(c.file("theirs.pem")))
	if ours == nil || theirs == nil || ours.Type != theirs.Type {
		t.Fatalf("tpm2-tools wrote\n%s\nwe wrote\n%s", c.file("theirs.pem"), c.file("ours.pem"))
	}
	// The tools say without -p that the key may have a password: emptyAuth FALSE.
	i := bytes.Index(theirs.Bytes, []byte{0xa0, 3, 1, 1, 0})
	if i < 0 {
		t.Fatal("emptyAuth is not where it was expected")
	}
	theirs.Bytes[i+4] = 0xff
	if !bytes.Equal(ours.Bytes, theirs.Bytes) {
		t.Fatalf("tpm2-tools wrote\n%s\nwe wrote\n%s", c.file("theirs.pem"), c.file("ours.pem"))
	}
	c.run("tpm import -i theirs.pem -c k.ctx\ntpm readpublic -c k.ctx")
}
