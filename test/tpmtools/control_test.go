// SPDX-License-Identifier: Apache-2.0

package tpmtools

import (
	"encoding/asn1"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"crypto/x509/pkix"
)

// TestNewerCommands drives the commands of `holdfast tpm` for what came after
// version 1.38 of the specification.
func TestNewerCommands(t *testing.T) {
	a, stop := serve(t, "--ephemeral", "--startup", "clear", "--swtpm", "unix:"+filepath.Join(t.TempDir(), "s"))
	defer stop()
	c := &cli{T: t, spec: a[0], dir: t.TempDir(), pq: true}

	// ECC encryption.
	c.file("d", strings.Repeat("text ", 200))
	c.run(`
		tpm createprimary -C o -G ecc -c p.ctx
		tpm create -C p.ctx -G ecc -p pw -c k.ctx
		tpm eccencrypt -c k.ctx -i d -o enc
		tpm eccdecrypt -c k.ctx -p pw -i enc -o dec`)
	if c.file("dec") != c.file("d") {
		t.Fatal("another text came out of eccdecrypt")
	}
	c.fails(1, "tpm eccdecrypt -c k.ctx -p pw -g sha384 -i enc", "TPM_RC_VALUE")
	c.fails(1, "tpm eccdecrypt -c k.ctx -p pw -i d", "expected what eccencrypt writes")
	c.file("long", strings.Repeat("x", 1025))
	c.fails(2, "tpm eccencrypt -c k.ctx -i long", "at most 1024")

	// A certificate: OpenSSL reads what the TPM adds.
	name, err := asn1.Marshal(pkix.Name{CommonName: "holdfast test"}.ToRDNSequence())
	if err != nil {
		t.Fatal(err)
	}
	usage, err := asn1.Marshal(asn1.BitString{Bytes: []byte{0x80}, BitLength: 1}) // digitalSignature
	if err != nil {
		t.Fatal(err)
	}
	partial, err := asn1.Marshal(struct {
		Issuer     asn1.RawValue
		Validity   struct{ From, To time.Time }
		Subject    asn1.RawValue
		Extensions []pkix.Extension `asn1:"explicit,tag:3"`
	}{asn1.RawValue{FullBytes: name}, struct{ From, To time.Time }{time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC), time.Date(2036, 1, 1, 0, 0, 0, 0, time.UTC)},
		asn1.RawValue{FullBytes: name}, []pkix.Extension{{Id: asn1.ObjectIdentifier{2, 5, 29, 15}, Critical: true, Value: usage}}})
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(c.dir, "partial"), partial, 0o600); err != nil {
		t.Fatal(err)
	}
	c.run(`
		tpm create -C p.ctx -G ecc -c x.ctx
		tpm certifyx509 -c x.ctx -C x.ctx -i partial -o added -s sig
		openssl asn1parse -inform DER -in added`)
	c.fails(1, "tpm certifyx509 -c x.ctx -C x.ctx -i d -o added -s sig", "TPM_RC_")

	// Read-only mode.
	c.run("tpm readonly on")
	c.fails(1, "tpm nvdefine 0x01500043 -s 8", "TPM_RC_READ_ONLY")
	c.run("tpm readonly off\ntpm nvdefine 0x01500043 -s 8\ntpm nvundefine 0x01500043")
	c.fails(2, "tpm readonly maybe", "on or off")
	c.fails(1, "tpm readonly on -C o", "TPM_RC_VALUE")

	// Capabilities that can be set.
	c.run("tpm setcapability buffer-size 4096")
	if out := strings.TrimSpace(c.run("tpm getcap buffer-size")); out != "4096" {
		t.Fatalf("buffer size %q", out)
	}
	c.run("tpm setcapability buffer-size 8192")
	c.fails(1, "tpm setcapability buffer-size 1", "TPM_RC_RANGE")
	c.fails(2, "tpm setcapability colour 1", "buffer-size")

	// Timers.
	c.run("tpm actsettimeout 1 1000")
	if out := c.run("tpm getcap act"); !strings.Contains(out, "0x40000111: timeout ") {
		t.Fatalf("timers: %s", out)
	}
	c.fails(1, "tpm actsettimeout 1 stop", "TPM_RC_VALUE") // it does not signal
	c.run("tpm actsettimeout 1 0\ntpm actsettimeout 1 stop")
	c.fails(2, "tpm actsettimeout 16 1", "0 to 15")
	c.fails(1, "tpm actsettimeout 9 1", "TPM_RC_VALUE")

	// Curves and schemes.
	if out := c.run("tpm getcap ecc-curves"); !strings.Contains(out, "bn_p256: 0x10") || !strings.Contains(out, "sm2_p256: 0x20") {
		t.Fatalf("curves: %s", out)
	}
	if out := c.run("tpm getcap algorithms"); !strings.Contains(out, "\nsm2: 0x001b") || !strings.Contains(out, "\necmqv: 0x001d") {
		t.Fatalf("algorithms: %s", out)
	}
}
