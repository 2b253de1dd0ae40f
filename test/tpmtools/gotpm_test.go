// SPDX-License-Identifier: Apache-2.0

package tpmtools

import (
	"net"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-tpm/tpm2"
	"github.com/google/go-tpm/tpm2/transport/tcp"
)

// TestGoTPM: go-tpm's client over its own transport for the simulator protocol.
func TestGoTPM(t *testing.T) {
	addresses, stop := serve(t, "--ephemeral", "--mssim", "127.0.0.1:0")
	defer stop()
	command := strings.TrimPrefix(addresses[0], "mssim:")
	h, p, _ := net.SplitHostPort(command)
	port, _ := strconv.Atoi(p)
	tpm, err := tcp.Open(tcp.Config{CommandAddress: command, PlatformAddress: net.JoinHostPort(h, strconv.Itoa(port+1))})
	if err != nil {
		t.Fatal(err)
	}
	defer tpm.Close()
	if err := tpm.PowerOn(); err != nil {
		t.Fatal(err)
	}
	if _, err := (tpm2.Startup{StartupType: tpm2.TPMSUClear}).Execute(tpm); err != nil {
		t.Fatal(err)
	}
	defer tpm2.Shutdown{ShutdownType: tpm2.TPMSUClear}.Execute(tpm)
	srk, err := tpm2.CreatePrimary{PrimaryHandle: tpm2.TPMRHOwner, InPublic: tpm2.New2B(tpm2.ECCSRKTemplate)}.Execute(tpm)
	if err != nil {
		t.Fatal(err)
	}
	// Seal with a salted, encrypting session, and unseal likewise.
	pub, err := srk.OutPublic.Contents()
	if err != nil {
		t.Fatal(err)
	}
	session := func() tpm2.Session {
		return tpm2.HMAC(tpm2.TPMAlgSHA256, 16, tpm2.AESEncryption(128, tpm2.EncryptInOut), tpm2.Salted(srk.ObjectHandle, *pub))
	}
	made, err := tpm2.Create{
		ParentHandle: tpm2.AuthHandle{Handle: srk.ObjectHandle, Name: srk.Name, Auth: session()},
		InSensitive: tpm2.TPM2BSensitiveCreate{Sensitive: &tpm2.TPMSSensitiveCreate{
			UserAuth: tpm2.TPM2BAuth{Buffer: []byte("pin")},
			Data:     tpm2.NewTPMUSensitiveCreate(&tpm2.TPM2BSensitiveData{Buffer: []byte("sealed")}),
		}},
		InPublic: tpm2.New2B(tpm2.TPMTPublic{Type: tpm2.TPMAlgKeyedHash, NameAlg: tpm2.TPMAlgSHA256,
			ObjectAttributes: tpm2.TPMAObject{FixedTPM: true, FixedParent: true, UserWithAuth: true, NoDA: true}}),
	}.Execute(tpm)
	if err != nil {
		t.Fatal(err)
	}
	item, err := tpm2.Load{ParentHandle: tpm2.AuthHandle{Handle: srk.ObjectHandle, Name: srk.Name, Auth: session()},
		InPrivate: made.OutPrivate, InPublic: made.OutPublic}.Execute(tpm)
	if err != nil {
		t.Fatal(err)
	}
	unseal := func(pin string) (*tpm2.UnsealResponse, error) {
		return tpm2.Unseal{ItemHandle: tpm2.AuthHandle{Handle: item.ObjectHandle, Name: item.Name,
			Auth: tpm2.HMAC(tpm2.TPMAlgSHA256, 16, tpm2.Auth([]byte(pin)), tpm2.AESEncryption(128, tpm2.EncryptOut), tpm2.Salted(srk.ObjectHandle, *pub))}}.Execute(tpm)
	}
	if r, err := unseal("pin"); err != nil || string(r.OutData.Buffer) != "sealed" {
		t.Fatal(err)
	}
	if _, err := unseal("wrong"); err == nil {
		t.Fatal("unsealed with a wrong authorization value")
	}
	if err := tpm.Reset(); err != nil {
		t.Fatal(err)
	}
	if _, err := unseal("pin"); err == nil {
		t.Fatal("the object survived a reset")
	}
}
