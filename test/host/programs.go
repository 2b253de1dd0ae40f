// SPDX-License-Identifier: Apache-2.0

package host

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"math/big"
	"net"
	"os"
	"os/exec"
	"regexp"
	"strings"
	"time"
)

var programProbes = []probe{
	program("nginx", "the demo's server", "nginx", "-v"),
	program("haproxy", "tests behind a load balancer", "haproxy", "-v"),
	program("nats-server", "tests of the rendezvous", "nats-server", "-v"),
	program("curl", "the demo's client", "curl", "--version"),
	program("openssl", "the demo's certificates, and TLS tests", "openssl", "version"),
	{"tls-x25519mlkem768", "a quantum-safe key exchange between the system's TLS programs", func() (string, error) { return opensslGroup("X25519MLKEM768", tls.X25519MLKEM768) }},
	program("gnutls", "tests with a GnuTLS client", "gnutls-cli", "--version"),
	program("python3", "tests with a Python client", "python3", "--version"),
	program("node", "tests with a Node.js client", "node", "--version"),
	program("java", "tests with a Java client and server", "java", "--version"),
	program("chromium", "tests with a Chromium client", "chromium", "--version"),
	program("lighttpd", "tests with a lighttpd server", "lighttpd", "-v"),
	program("nft", "tests in which another program changes netfilter rules", "nft", "--version"),
	program("conntrack", "tests in which connection tracking is flushed", "conntrack", "--version"),
	program("tpm2-tools", "tests of the TPM with Debian's tools", "tpm2_quote", "--version"),
	program("swtpm", "the peer of the TPM benchmarks and tests", "swtpm", "--version"),
	program("qemu", "test machines with a distribution's kernel", "qemu-system-x86_64", "--version"),
	{"vm-kernel", "the kernel that test machines boot", probeStockKernel},
	{"ovmf", "test machines with UEFI firmware", probeOVMF},
	program("qemu-user-arm", "tests of the TPM's ARMv7 build", "qemu-arm-static", "--version"),
	program("qemu-user-riscv64", "tests of the TPM's RISC-V build", "qemu-riscv64-static", "--version"),
	{"clang-14", "`make generate` and the comparison of the shipped eBPF objects with their sources; nobody else needs it", probeClang},
	program("spin", "the model of gate and agent is checked (with gcc)", "spin", "-V"),
	program("binutils", "the test enclave is compared with its source", "objcopy", "--version"),
	{"musl", "the SDK's trusted runtime and its samples (with gcc)", probeMusl},
	{"mbedtls", "the SDK's cryptography and the sample that seals", probeMbedTLS},
	program("gcc", "the race detector in `make test` and `make test-full`", "gcc", "--version"),
}

// SearchPath is PATH with the folders of system programs, which an ordinary
// user's PATH lacks on Debian.
func SearchPath() string { return os.Getenv("PATH") + ":/usr/local/sbin:/usr/sbin:/sbin" }

// LookPath finds a program in [SearchPath].
func LookPath(name string) (string, error) {
	if p, err := exec.LookPath(name); err == nil {
		return p, nil
	}
	for _, dir := range []string{"/usr/local/sbin", "/usr/sbin", "/sbin"} {
		if p, err := exec.LookPath(dir + "/" + name); err == nil {
			return p, nil
		}
	}
	return "", fmt.Errorf("program %s is not installed", name)
}

// version has two numbers at least, as in "1.22" or "3.0.19".
var version = regexp.MustCompile(`[0-9]+(\.[0-9]+)+[a-z0-9.-]*`)

// program runs a program's version option, for what is there but broken is
// not there.
func program(name, gives, file string, args ...string) probe {
	return probe{name, gives, func() (string, error) {
		path, err := LookPath(file)
		if err != nil {
			return "", err
		}
		ctx, stop := context.WithTimeout(context.Background(), 5*time.Second)
		defer stop()
		out, err := exec.CommandContext(ctx, path, args...).CombinedOutput()
		if err != nil {
			return "", fmt.Errorf("%s %s: %w", path, strings.Join(args, " "), err)
		}
		if v := version.FindString(string(out)); v != "" {
			return file + " " + v, nil
		}
		return path, nil
	}}
}

// probeClang wants the very version that made the committed objects: another
// one makes other bytes.
func probeClang() (string, error) {
	for _, name := range []string{"clang-14", "llvm-strip-14"} {
		if _, err := LookPath(name); err != nil {
			return "", err
		}
	}
	const header = "/usr/include/bpf/bpf_helpers.h"
	if _, err := os.Stat(header); err != nil {
		return "", fmt.Errorf("%s (package libbpf-dev): %w", header, err)
	}
	return "clang-14, llvm-strip-14 and bpf_helpers.h", nil
}

// probeMbedTLS looks for the version that Debian 12 has: 3 has other names.
func probeMbedTLS() (string, error) {
	const header, archive = "/usr/include/mbedtls/version.h", "/usr/lib/x86_64-linux-gnu/libmbedcrypto.a"
	b, err := os.ReadFile(header)
	if err == nil {
		_, err = os.Stat(archive)
	}
	if err != nil {
		return "", fmt.Errorf("package libmbedtls-dev: %w", err)
	}
	if !regexp.MustCompile(`MBEDTLS_VERSION_MAJOR +2\b`).Match(b) {
		return "", fmt.Errorf("%s is not of Mbed TLS 2", header)
	}
	return "Mbed TLS 2 with its static library", nil
}

// probeMusl looks where Debian has musl for this processor.
func probeMusl() (string, error) {
	for _, name := range []string{"/usr/include/x86_64-linux-musl/stdio.h", "/usr/lib/x86_64-linux-musl/libc.a"} {
		if _, err := os.Stat(name); err != nil {
			return "", fmt.Errorf("%s (package musl-dev): %w", name, err)
		}
	}
	return "musl's headers and libc.a", nil
}

// opensslGroup lets `openssl s_client` make a handshake with a server of ours
// that accepts one group only.
func opensslGroup(name string, id tls.CurveID) (string, error) {
	path, err := LookPath("openssl")
	if err != nil {
		return "", err
	}
	l, err := listenWithGroup(id)
	if err != nil {
		return "", err
	}
	defer l.Close()
	accepted := make(chan error, 1)
	go func() {
		c, err := l.Accept()
		if err == nil {
			defer c.Close()
			_ = c.SetDeadline(time.Now().Add(5 * time.Second))
			err = c.(*tls.Conn).Handshake()
		}
		accepted <- err
	}()
	ctx, stop := context.WithTimeout(context.Background(), 5*time.Second)
	defer stop()
	cmd := exec.CommandContext(ctx, path, "s_client", "-connect", l.Addr().String(), "-groups", name)
	if out, err := cmd.CombinedOutput(); err != nil {
		if strings.Contains(string(out), "-groups") {
			return "", fmt.Errorf("the system's OpenSSL does not know the group %s", name)
		}
		return "", fmt.Errorf("openssl s_client with the group %s: %w", name, err)
	}
	if err := <-accepted; err != nil {
		return "", fmt.Errorf("handshake with the group %s: %w", name, err)
	}
	return "openssl s_client made a handshake with " + name, nil
}

func listenWithGroup(id tls.CurveID) (net.Listener, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, err
	}
	t := &x509.Certificate{SerialNumber: big.NewInt(1), NotAfter: time.Now().Add(time.Hour), DNSNames: []string{"localhost"}}
	der, err := x509.CreateCertificate(rand.Reader, t, t, &key.PublicKey, key)
	if err != nil {
		return nil, errors.Join(errors.New("make a certificate"), err)
	}
	return tls.Listen("tcp", "127.0.0.1:0", &tls.Config{
		Certificates: []tls.Certificate{{Certificate: [][]byte{der}, PrivateKey: key}}, MinVersion: tls.VersionTLS13, CurvePreferences: []tls.CurveID{id},
	})
}
