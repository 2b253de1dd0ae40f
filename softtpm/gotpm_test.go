// SPDX-License-Identifier: Apache-2.0

package softtpm

import (
	"bytes"
	"crypto"
	"crypto/ecdsa"
	"crypto/rand"
	"crypto/rsa"
	"crypto/sha256"
	"errors"
	"math/big"
	"testing"

	gotpm "github.com/google/go-tpm/tpm2"
)

// gotpmTransport makes go-tpm, a client that shares no code with us, talk to the engine.
type gotpmTransport struct{ p *TPM }

func (g gotpmTransport) Send(cmd []byte) ([]byte, error) { return g.p.Execute(0, cmd), nil }

func gotpmTPM(t testing.TB) gotpmTransport { return gotpmTransport{newTPM(t, Options{})} }

func must[T any](t testing.TB) func(T, error) T {
	return func(v T, err error) T {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
}

func primary(t testing.TB, g gotpmTransport, h gotpm.TPMHandle, template gotpm.TPMTPublic) (gotpm.NamedHandle, *gotpm.CreatePrimaryResponse) {
	t.Helper()
	rsp, err := gotpm.CreatePrimary{PrimaryHandle: h, InPublic: gotpm.New2B(template)}.Execute(g)
	if err != nil {
		t.Fatal(err)
	}
	return gotpm.NamedHandle{Handle: rsp.ObjectHandle, Name: rsp.Name}, rsp
}

// TestGoTPMSealUnseal: storage keys of both kinds, sealing, salted and bound
// sessions with parameter encryption.
func TestGoTPMSealUnseal(t *testing.T) {
	for name, template := range map[string]gotpm.TPMTPublic{"RSA": gotpm.RSASRKTemplate, "ECC": gotpm.ECCSRKTemplate} {
		t.Run(name, func(t *testing.T) {
			g := gotpmTPM(t)
			srk, rsp := primary(t, g, gotpm.TPMRHOwner, template)
			srkPub, err := rsp.OutPublic.Contents()
			if err != nil {
				t.Fatal(err)
			}
			secret := []byte("a sealed secret")
			auth := []byte("p@ssw0rd")
			created, err := gotpm.Create{
				ParentHandle: gotpm.AuthHandle{Handle: srk.Handle, Name: srk.Name,
					Auth: gotpm.HMAC(gotpm.TPMAlgSHA256, 16, gotpm.AESEncryption(128, gotpm.EncryptIn), gotpm.Salted(srk.Handle, *srkPub))},
				InSensitive: gotpm.TPM2BSensitiveCreate{Sensitive: &gotpm.TPMSSensitiveCreate{
					UserAuth: gotpm.TPM2BAuth{Buffer: auth},
					Data:     gotpm.NewTPMUSensitiveCreate(&gotpm.TPM2BSensitiveData{Buffer: secret}),
				}},
				InPublic: gotpm.New2B(gotpm.TPMTPublic{Type: gotpm.TPMAlgKeyedHash, NameAlg: gotpm.TPMAlgSHA256,
					ObjectAttributes: gotpm.TPMAObject{FixedTPM: true, FixedParent: true, UserWithAuth: true, NoDA: true}}),
			}.Execute(g)
			if err != nil {
				t.Fatal(err)
			}
			loaded, err := gotpm.Load{ParentHandle: srk, InPrivate: created.OutPrivate, InPublic: created.OutPublic}.Execute(g)
			if err != nil {
				t.Fatal(err)
			}
			item := gotpm.NamedHandle{Handle: loaded.ObjectHandle, Name: loaded.Name}
			for what, s := range map[string]gotpm.Session{
				"password":           gotpm.PasswordAuth(auth),
				"HMAC":               gotpm.HMAC(gotpm.TPMAlgSHA256, 16, gotpm.Auth(auth)),
				"encrypted":          gotpm.HMAC(gotpm.TPMAlgSHA256, 16, gotpm.Auth(auth), gotpm.AESEncryption(128, gotpm.EncryptOut)),
				"salted, encrypted":  gotpm.HMAC(gotpm.TPMAlgSHA384, 16, gotpm.Auth(auth), gotpm.AESEncryption(256, gotpm.EncryptOut), gotpm.Salted(srk.Handle, *srkPub)),
				"bound to itself":    gotpm.HMAC(gotpm.TPMAlgSHA256, 16, gotpm.Auth(auth), gotpm.Bound(item.Handle, item.Name, auth)),
				"bound to the SRK":   gotpm.HMAC(gotpm.TPMAlgSHA256, 16, gotpm.Auth(auth), gotpm.Bound(srk.Handle, srk.Name, nil)),
				"bound and salted":   gotpm.HMAC(gotpm.TPMAlgSHA512, 16, gotpm.Auth(auth), gotpm.Bound(item.Handle, item.Name, auth), gotpm.Salted(srk.Handle, *srkPub)),
				"bound, encrypted":   gotpm.HMAC(gotpm.TPMAlgSHA256, 16, gotpm.Auth(auth), gotpm.Bound(item.Handle, item.Name, auth), gotpm.AESEncryption(128, gotpm.EncryptOut)),
				"SHA-1, salted only": gotpm.HMAC(gotpm.TPMAlgSHA1, 16, gotpm.Auth(auth), gotpm.Salted(srk.Handle, *srkPub)),
			} {
				got, err := gotpm.Unseal{ItemHandle: gotpm.AuthHandle{Handle: item.Handle, Name: item.Name, Auth: s}}.Execute(g)
				if err != nil {
					t.Errorf("%s: %v", what, err)
				} else if !bytes.Equal(got.OutData.Buffer, secret) {
					t.Errorf("%s: %x", what, got.OutData.Buffer)
				}
			}
			_, err = gotpm.Unseal{ItemHandle: gotpm.AuthHandle{Handle: item.Handle, Name: item.Name, Auth: gotpm.PasswordAuth([]byte("wrong"))}}.Execute(g)
			if !errors.Is(err, gotpm.TPMRCBadAuth) {
				t.Errorf("wrong password: %v", err)
			}
			// A separate session encrypts while a password authorizes.
			got, err := gotpm.Unseal{ItemHandle: gotpm.AuthHandle{Handle: item.Handle, Name: item.Name, Auth: gotpm.PasswordAuth(auth)}}.Execute(g,
				gotpm.HMAC(gotpm.TPMAlgSHA256, 16, gotpm.AESEncryption(128, gotpm.EncryptOut), gotpm.Salted(srk.Handle, *srkPub)))
			if err != nil || !bytes.Equal(got.OutData.Buffer, secret) {
				t.Errorf("extra session: %v", err)
			}
		})
	}
}

// TestGoTPMSignQuote: classic signatures and a quote, verified by Go's own crypto.
func TestGoTPMSignQuote(t *testing.T) {
	g := gotpmTPM(t)
	attrs := gotpm.TPMAObject{FixedTPM: true, FixedParent: true, SensitiveDataOrigin: true, UserWithAuth: true, SignEncrypt: true}
	ecc := func(restricted bool) gotpm.TPMTPublic {
		a := attrs
		a.Restricted = restricted
		return gotpm.TPMTPublic{Type: gotpm.TPMAlgECC, NameAlg: gotpm.TPMAlgSHA256, ObjectAttributes: a,
			Parameters: gotpm.NewTPMUPublicParms(gotpm.TPMAlgECC, &gotpm.TPMSECCParms{CurveID: gotpm.TPMECCNistP256,
				Scheme: gotpm.TPMTECCScheme{Scheme: gotpm.TPMAlgECDSA, Details: gotpm.NewTPMUAsymScheme(gotpm.TPMAlgECDSA, &gotpm.TPMSSigSchemeECDSA{HashAlg: gotpm.TPMAlgSHA256})}})}
	}
	rsaTemplate := gotpm.TPMTPublic{Type: gotpm.TPMAlgRSA, NameAlg: gotpm.TPMAlgSHA256, ObjectAttributes: attrs,
		Parameters: gotpm.NewTPMUPublicParms(gotpm.TPMAlgRSA, &gotpm.TPMSRSAParms{KeyBits: 2048})}
	msg := []byte("a message")
	digest := sha256.Sum256(msg)
	none := gotpm.TPMTTKHashCheck{Tag: gotpm.TPMSTHashCheck, Hierarchy: gotpm.TPMRHNull}

	key, rsp := primary(t, g, gotpm.TPMRHOwner, ecc(false))
	pub := must[*gotpm.TPMTPublic](t)(rsp.OutPublic.Contents())
	eccUnique := must[*gotpm.TPMSECCPoint](t)(pub.Unique.ECC())
	eccKey := must[*ecdsa.PublicKey](t)(gotpm.ECDSAPub(must[*gotpm.TPMSECCParms](t)(pub.Parameters.ECCDetail()), eccUnique))
	sig, err := gotpm.Sign{KeyHandle: key, Digest: gotpm.TPM2BDigest{Buffer: digest[:]}, InScheme: gotpm.TPMTSigScheme{Scheme: gotpm.TPMAlgNull}, Validation: none}.Execute(g)
	if err != nil {
		t.Fatal(err)
	}
	es := must[*gotpm.TPMSSignatureECC](t)(sig.Signature.Signature.ECDSA())
	if !ecdsa.Verify(eccKey, digest[:], new(big.Int).SetBytes(es.SignatureR.Buffer), new(big.Int).SetBytes(es.SignatureS.Buffer)) {
		t.Error("ECDSA signature does not verify")
	}
	if _, err := (gotpm.VerifySignature{KeyHandle: key, Digest: gotpm.TPM2BDigest{Buffer: digest[:]}, Signature: sig.Signature}).Execute(g); err != nil {
		t.Error(err)
	}
	digest[0] ^= 1
	if _, err := (gotpm.VerifySignature{KeyHandle: key, Digest: gotpm.TPM2BDigest{Buffer: digest[:]}, Signature: sig.Signature}).Execute(g); !errors.Is(err, gotpm.TPMRCSignature) {
		t.Errorf("wrong digest: %v", err)
	}
	digest[0] ^= 1

	rkey, rrsp := primary(t, g, gotpm.TPMRHEndorsement, rsaTemplate)
	rpub := must[*gotpm.TPMTPublic](t)(rrsp.OutPublic.Contents())
	rsaKey := must[*rsa.PublicKey](t)(gotpm.RSAPub(must[*gotpm.TPMSRSAParms](t)(rpub.Parameters.RSADetail()), must[*gotpm.TPM2BPublicKeyRSA](t)(rpub.Unique.RSA())))
	for _, alg := range []gotpm.TPMAlgID{gotpm.TPMAlgRSASSA, gotpm.TPMAlgRSAPSS} {
		d := gotpm.NewTPMUSigScheme(alg, &gotpm.TPMSSchemeHash{HashAlg: gotpm.TPMAlgSHA256})
		sig, err := gotpm.Sign{KeyHandle: rkey, Digest: gotpm.TPM2BDigest{Buffer: digest[:]}, InScheme: gotpm.TPMTSigScheme{Scheme: alg, Details: d}, Validation: none}.Execute(g)
		if err != nil {
			t.Fatal(err)
		}
		if alg == gotpm.TPMAlgRSASSA {
			err = rsa.VerifyPKCS1v15(rsaKey, crypto.SHA256, digest[:], must[*gotpm.TPMSSignatureRSA](t)(sig.Signature.Signature.RSASSA()).Sig.Buffer)
		} else {
			err = rsa.VerifyPSS(rsaKey, crypto.SHA256, digest[:], must[*gotpm.TPMSSignatureRSA](t)(sig.Signature.Signature.RSAPSS()).Sig.Buffer, nil)
		}
		if err != nil {
			t.Errorf("%v: %v", alg, err)
		}
	}

	ak, arsp := primary(t, g, gotpm.TPMRHEndorsement, ecc(true))
	apub := must[*gotpm.TPMTPublic](t)(arsp.OutPublic.Contents())
	akKey := must[*ecdsa.PublicKey](t)(gotpm.ECDSAPub(must[*gotpm.TPMSECCParms](t)(apub.Parameters.ECCDetail()), must[*gotpm.TPMSECCPoint](t)(apub.Unique.ECC())))
	if _, err := (gotpm.Sign{KeyHandle: ak, Digest: gotpm.TPM2BDigest{Buffer: digest[:]}, InScheme: gotpm.TPMTSigScheme{Scheme: gotpm.TPMAlgNull}, Validation: none}).Execute(g); !errors.Is(err, gotpm.TPMRCTicket) {
		t.Errorf("restricted key signs a foreign digest: %v", err)
	}
	q, err := gotpm.Quote{SignHandle: ak, QualifyingData: gotpm.TPM2BData{Buffer: []byte("nonce")}, InScheme: gotpm.TPMTSigScheme{Scheme: gotpm.TPMAlgNull},
		PCRSelect: gotpm.TPMLPCRSelection{PCRSelections: []gotpm.TPMSPCRSelection{{Hash: gotpm.TPMAlgSHA256, PCRSelect: gotpm.PCClientCompatible.PCRs(0, 7, 16)}}}}.Execute(g)
	if err != nil {
		t.Fatal(err)
	}
	qs := must[*gotpm.TPMSSignatureECC](t)(q.Signature.Signature.ECDSA())
	qd := sha256.Sum256(q.Quoted.Bytes())
	if !ecdsa.Verify(akKey, qd[:], new(big.Int).SetBytes(qs.SignatureR.Buffer), new(big.Int).SetBytes(qs.SignatureS.Buffer)) {
		t.Error("quote does not verify")
	}
	att := must[*gotpm.TPMSAttest](t)(q.Quoted.Contents())
	info := must[*gotpm.TPMSQuoteInfo](t)(att.Attested.Quote())
	zero := sha256.Sum256(make([]byte, 96))
	if !bytes.Equal(info.PCRDigest.Buffer, zero[:]) || string(att.ExtraData.Buffer) != "nonce" {
		t.Errorf("quote holds %x %q", info.PCRDigest.Buffer, att.ExtraData.Buffer)
	}
}

// TestGoTPMCredential: a credential made outside for the TPM's EK, and one
// made inside, come out of ActivateCredential.
func TestGoTPMCredential(t *testing.T) {
	for name, ekTemplate := range map[string]gotpm.TPMTPublic{"RSA": gotpm.RSAEKTemplate, "ECC": gotpm.ECCEKTemplate} {
		t.Run(name, func(t *testing.T) {
			g := gotpmTPM(t)
			ek, ekRsp := primary(t, g, gotpm.TPMRHEndorsement, ekTemplate)
			srk, _ := primary(t, g, gotpm.TPMRHOwner, gotpm.ECCSRKTemplate)
			secret := make([]byte, 32)
			rand.Read(secret)
			in, err := gotpm.MakeCredential{Handle: ek.Handle, Credential: gotpm.TPM2BDigest{Buffer: secret}, ObjectName: srk.Name}.Execute(g)
			if err != nil {
				t.Fatal(err)
			}
			pub := must[*gotpm.TPMTPublic](t)(ekRsp.OutPublic.Contents())
			labeled := must[gotpm.LabeledEncapsulationKey](t)(gotpm.ImportEncapsulationKey(pub))
			idObject, encSecret, err := gotpm.CreateCredential(rand.Reader, labeled, srk.Name.Buffer, secret)
			if err != nil {
				t.Fatal(err)
			}
			for what, c := range map[string][2][]byte{"inside": {in.CredentialBlob.Buffer, in.Secret.Buffer}, "outside": {idObject, encSecret}} {
				sess, done, err := gotpm.PolicySession(g, gotpm.TPMAlgSHA256, 16)
				if err != nil {
					t.Fatal(err)
				}
				if _, err := (gotpm.PolicySecret{AuthHandle: gotpm.TPMRHEndorsement, PolicySession: sess.Handle(), NonceTPM: sess.NonceTPM()}).Execute(g); err != nil {
					t.Fatal(err)
				}
				rsp, err := gotpm.ActivateCredential{ActivateHandle: srk, KeyHandle: gotpm.AuthHandle{Handle: ek.Handle, Name: ek.Name, Auth: sess},
					CredentialBlob: gotpm.TPM2BIDObject{Buffer: c[0]}, Secret: gotpm.TPM2BEncryptedSecret{Buffer: c[1]}}.Execute(g)
				if err != nil {
					t.Errorf("%s: %v", what, err)
				} else if !bytes.Equal(rsp.CertInfo.Buffer, secret) {
					t.Errorf("%s: wrong secret", what)
				}
				done()
			}
		})
	}
}
