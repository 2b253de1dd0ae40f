// SPDX-License-Identifier: Apache-2.0

package tdx

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/sha256"
	"crypto/x509"
	"crypto/x509/pkix"
	encasn1 "encoding/asn1"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"encoding/pem"
	"maps"
	"math/big"
	"net/url"
	"slices"
	"testing"
	"time"

	"github.com/google/go-tdx-guest/pcs"
	"golang.org/x/crypto/cryptobyte"
	"golang.org/x/crypto/cryptobyte/asn1"

	"holdfast/attest/collateral"
	"holdfast/attest/evidence"
)

// ownTime is the time of the test's own chips.
var ownTime = time.Date(2026, 11, 30, 12, 0, 0, 0, time.UTC)

var ownChip = slices.Repeat([]byte{0xc1}, 16)

const ownFMSPC = "90c06f000000"

// pair is a certificate with its key.
type pair struct {
	*x509.Certificate
	key *ecdsa.PrivateKey
}

func newKey(t testing.TB) *ecdsa.PrivateKey {
	t.Helper()
	k, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	return k
}

var serials = int64(100)

func issue(t testing.TB, name string, by *pair, change func(*x509.Certificate)) *pair {
	t.Helper()
	serials++
	c := &x509.Certificate{Subject: pkix.Name{CommonName: name, Organization: []string{"Not Intel, a test of Holdfast"}}, SerialNumber: big.NewInt(serials),
		NotBefore: ownTime.AddDate(-1, 0, 0), NotAfter: ownTime.AddDate(5, 0, 0), BasicConstraintsValid: true, KeyUsage: x509.KeyUsageDigitalSignature,
		CRLDistributionPoints: []string{RootCRLURL}, SubjectKeyId: []byte{byte(serials)}}
	if change != nil {
		change(c)
	}
	p := &pair{key: newKey(t)}
	parent, key := c, p.key
	if by != nil {
		parent, key = by.Certificate, by.key
	}
	der, err := x509.CreateCertificate(rand.Reader, c, parent, &p.key.PublicKey, key)
	if err != nil {
		t.Fatal(err)
	}
	if p.Certificate, err = x509.ParseCertificate(der); err != nil {
		t.Fatal(err)
	}
	return p
}

func authority(c *x509.Certificate) {
	c.IsCA, c.KeyUsage = true, x509.KeyUsageCertSign|x509.KeyUsageCRLSign
}

// sgxExtension is the extension of a PCK certificate (Intel SGX PCK Certificate
// and CRL Profile, 1.3.5): chip, levels of the processor, PCE and platform.
func sgxExtension(ppid, cpusvn []byte, pcesvn int64, fmspc string) pkix.Extension {
	oid := func(n ...int) encasn1.ObjectIdentifier {
		return append(encasn1.ObjectIdentifier{1, 2, 840, 113741, 1, 13, 1}, n...)
	}
	var b cryptobyte.Builder
	entry := func(b *cryptobyte.Builder, value func(*cryptobyte.Builder), n ...int) {
		b.AddASN1(asn1.SEQUENCE, func(b *cryptobyte.Builder) { b.AddASN1ObjectIdentifier(oid(n...)); value(b) })
	}
	octets := func(v []byte) func(*cryptobyte.Builder) {
		return func(b *cryptobyte.Builder) { b.AddASN1OctetString(v) }
	}
	number := func(v int64) func(*cryptobyte.Builder) { return func(b *cryptobyte.Builder) { b.AddASN1Int64(v) } }
	platform, _ := hex.DecodeString(fmspc)
	b.AddASN1(asn1.SEQUENCE, func(b *cryptobyte.Builder) {
		entry(b, octets(ppid), 1)
		entry(b, func(b *cryptobyte.Builder) {
			b.AddASN1(asn1.SEQUENCE, func(b *cryptobyte.Builder) {
				for i, v := range cpusvn {
					entry(b, number(int64(v)), 2, i+1)
				}
				entry(b, number(pcesvn), 2, 17)
				entry(b, octets(cpusvn), 2, 18)
			})
		}, 2)
		entry(b, octets([]byte{0, 0}), 3)
		entry(b, octets(platform), 4)
		entry(b, func(b *cryptobyte.Builder) { b.AddASN1Enum(1) }, 5)
	})
	return pkix.Extension{Id: oid(), Value: b.BytesOrPanic()}
}

// maker is a maker of chips of the test's own: all that Intel has, with one chip.
type maker struct {
	root, middle, pck, signing *pair
	attestation                *ecdsa.PrivateKey
}

var ownSVN = slices.Concat([]byte{7, 7, 3, 3, 4, 1, 0, 5}, make([]byte, 8))

func newMaker(t testing.TB) *maker {
	t.Helper()
	m := &maker{attestation: newKey(t)}
	m.root = issue(t, "Intel SGX Root CA", nil, authority)
	m.middle = issue(t, "Intel SGX PCK Platform CA", m.root, authority)
	m.signing = issue(t, tcbSigning, m.root, nil)
	m.pck = issue(t, "Intel SGX PCK Certificate", m.middle, func(c *x509.Certificate) {
		c.ExtraExtensions = []pkix.Extension{sgxExtension(ownChip, ownSVN, 13, ownFMSPC)}
	})
	return m
}

// verifier is one whose root is the maker's and that pins chip.
func (m *maker) verifier(t testing.TB, chip []byte, s *collateral.Store) *Verifier {
	t.Helper()
	v := New(roots(t, chip), s)
	sum := sha256.Sum256(m.root.Raw)
	v.root = hex.EncodeToString(sum[:])
	return v
}

// signRS signs as quotes and Intel's JSON do: R ‖ S, 32 bytes each.
func signRS(t testing.TB, k *ecdsa.PrivateKey, b []byte) []byte {
	t.Helper()
	h := sha256.Sum256(b)
	r, s, err := ecdsa.Sign(rand.Reader, k, h[:])
	if err != nil {
		t.Fatal(err)
	}
	return append(r.FillBytes(make([]byte, 32)), s.FillBytes(make([]byte, 32))...)
}

func pemOf(certs ...*pair) (b []byte) {
	for _, c := range certs {
		b = append(b, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: c.Raw})...)
	}
	return b
}

// Where the fields lie in header and TD report, and in the enclave's report.
const (
	atSVN, atSeamSigner, atSeamAttributes, atAttributes, atMRTD, atData = 48, 48 + 0x40, 48 + 0x70, 48 + 0x78, 48 + 0x88, 48 + 0x208
	qeMisc, qeAttributes, qeSigner, qeProduct, qeSVN                    = 16, 48, 128, 256, 258
)

var qeMRSigner = slices.Repeat([]byte{0xdc}, 32)

// quote makes a quote of version 4 over data. change alters header and TD
// report, and the report of the quoting enclave, before each is signed.
func (m *maker) quote(t testing.TB, data evidence.ReportData, change func(td, qe []byte)) []byte {
	t.Helper()
	td := make([]byte, 48+584)
	binary.LittleEndian.PutUint16(td, 4)
	binary.LittleEndian.PutUint16(td[2:], 2)
	binary.LittleEndian.PutUint32(td[4:], 0x81)
	copy(td[12:], "\x93\x9a\x72\x33\xf7\x9c\x4c\xa9\x94\x0a\x0d\xb3\x95\x7f\x06\x07")
	copy(td[atSVN:], []byte{5, 1, 3})
	copy(td[atMRTD:], slices.Repeat([]byte{0xaa}, 48))
	copy(td[atData:], data[:])
	qe := make([]byte, 384)
	qe[qeAttributes] = 0x15
	copy(qe[qeSigner:], qeMRSigner)
	qe[qeProduct], qe[qeSVN] = 2, 6
	auth := []byte("authentication data of the enclave")
	public := append(m.attestation.X.FillBytes(make([]byte, 32)), m.attestation.Y.FillBytes(make([]byte, 32))...)
	h := sha256.Sum256(slices.Concat(public, auth))
	copy(qe[320:], h[:])
	if change != nil {
		change(td, qe)
	}
	le16 := func(n int) []byte { return binary.LittleEndian.AppendUint16(nil, uint16(n)) }
	le32 := func(n int) []byte { return binary.LittleEndian.AppendUint32(nil, uint32(n)) }
	chain := pemOf(m.pck, m.middle, m.root)
	inner := slices.Concat(qe, signRS(t, m.pck.key, qe), le16(len(auth)), auth, le16(5), le32(len(chain)), chain)
	signed := slices.Concat(signRS(t, m.attestation, td), public, le16(6), le32(len(inner)), inner)
	return slices.Concat(td, le32(len(signed)), signed)
}

type object = map[string]any

// published is what the maker publishes; a test changes it before it is signed.
type published struct {
	tcb, qe                 object
	rootRevoked, pckRevoked []*big.Int
	listUntil               time.Time // of both lists
	signing                 *pair     // of TCB information and QE identity
	listSigner              *pair     // of the list of PCK certificates
	without                 string    // address that nothing is stored for
}

func level(status string, cpu, tdx byte, advisories ...string) object {
	sgx, td := make([]object, 16), make([]object, 16)
	for i := range sgx {
		sgx[i], td[i] = object{"svn": 0}, object{"svn": 0}
	}
	sgx[0]["svn"], td[0]["svn"], td[2]["svn"] = cpu, tdx, 3
	return object{"tcb": object{"sgxtcbcomponents": sgx, "pcesvn": 11, "tdxtcbcomponents": td}, "tcbDate": "2026-05-15T00:00:00Z", "tcbStatus": status, "advisoryIDs": advisories}
}

// isv is a level of a module or of the quoting enclave.
func isv(status string, svn int, advisories ...string) object {
	return object{"tcb": object{"isvsvn": svn}, "tcbDate": "2026-05-15T00:00:00Z", "tcbStatus": status, "advisoryIDs": advisories}
}

func (m *maker) published() *published {
	zeros := hex.EncodeToString(make([]byte, 48))
	date := func(days int) string { return ownTime.AddDate(0, 0, days).Format(time.RFC3339) }
	module := object{"mrsigner": zeros, "attributes": "0000000000000000", "attributesMask": "FFFFFFFFFFFFFFFF"}
	one := maps.Clone(module)
	one["id"], one["tcbLevels"] = "TDX_01", []object{isv("UpToDate", 5), isv("OutOfDate", 2, "INTEL-SA-01036")}
	return &published{
		tcb: object{"id": "TDX", "version": 3, "issueDate": date(-2), "nextUpdate": date(28), "fmspc": ownFMSPC, "pceId": "0000", "tcbType": 0, "tcbEvaluationDataNumber": 18,
			"tdxModule": module, "tdxModuleIdentities": []object{one}, "tcbLevels": []object{level("UpToDate", 7, 5), level("OutOfDate", 5, 3, "INTEL-SA-00837")}},
		qe: object{"id": "TD_QE", "version": 2, "issueDate": date(-2), "nextUpdate": date(28), "tcbEvaluationDataNumber": 18, "miscselect": "00000000", "miscselectMask": "FFFFFFFF",
			"attributes": "11000000000000000000000000000000", "attributesMask": "FBFFFFFFFFFFFFFF0000000000000000", "mrsigner": hex.EncodeToString(qeMRSigner), "isvprodid": 2,
			"tcbLevels": []object{isv("UpToDate", 4), isv("OutOfDate", 1, "INTEL-SA-00615")}},
		listUntil: ownTime.AddDate(0, 0, 20), signing: m.signing, listSigner: m.middle,
	}
}

// store signs and stores what is published; spoil changes what is in the store
// after it was signed.
func (m *maker) store(t testing.TB, change func(*published), spoil func(url string, i *collateral.Item)) *collateral.Store {
	t.Helper()
	p := m.published()
	if change != nil {
		change(p)
	}
	chain := url.QueryEscape(string(pemOf(p.signing, m.root)))
	statement := func(name string, o object) []byte {
		inner, err := json.Marshal(o)
		if err != nil {
			t.Fatal(err)
		}
		return slices.Concat([]byte(`{"`+name+`":`), inner, []byte(`,"signature":"`+hex.EncodeToString(signRS(t, p.signing.key, inner))+`"}`))
	}
	list := func(by *pair, serials []*big.Int) []byte {
		l := &x509.RevocationList{Number: big.NewInt(1), ThisUpdate: ownTime.AddDate(0, 0, -10), NextUpdate: p.listUntil}
		for _, s := range serials {
			l.RevokedCertificateEntries = append(l.RevokedCertificateEntries, x509.RevocationListEntry{SerialNumber: s, RevocationTime: ownTime.AddDate(0, 0, -11)})
		}
		b, err := x509.CreateRevocationList(rand.Reader, l, by.Certificate, by.key)
		if err != nil {
			t.Fatal(err)
		}
		return b
	}
	s, err := collateral.Open(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	for _, i := range []*collateral.Item{
		{URL: pcs.TcbInfoURL(ownFMSPC), Body: statement("tcbInfo", p.tcb), Header: map[string]string{tcbInfoIssuers: chain}},
		{URL: pcs.QeIdentityURL(), Body: statement("enclaveIdentity", p.qe), Header: map[string]string{qeIdentityIssuers: chain}},
		{URL: pcs.PckCrlURL("platform"), Body: list(p.listSigner, p.pckRevoked), Header: map[string]string{"Sgx-Pck-Crl-Issuer-Chain": url.QueryEscape(string(pemOf(m.middle, m.root)))}},
		{URL: RootCRLURL, Body: list(m.root, p.rootRevoked)},
	} {
		i.Fetched = ownTime
		if spoil != nil {
			spoil(i.URL, i)
		}
		if i.URL == p.without {
			continue
		}
		if err := s.Put(i); err != nil {
			t.Fatal(err)
		}
	}
	return s
}
