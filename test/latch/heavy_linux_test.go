// SPDX-License-Identifier: Apache-2.0

//go:build linux

package latch

import (
	"fmt"
	"os"
	"os/exec"
	"testing"
	"time"

	"holdfast/test/host"
	"holdfast/test/netns"
)

// TestHeavyClients: Java as client and as server, and Chromium. They take
// seconds to start, so they run in `make test-full` only.
func TestHeavyClients(t *testing.T) {
	if os.Getenv("HOLDFAST_TEST_FULL") == "" {
		t.Skip("SKIP[full]: a long test: set HOLDFAST_TEST_FULL=1, as make test-full does")
	}
	t.Run("java", func(t *testing.T) {
		host.Need(t, "java", "openssl")
		l := newLab(t)
		l.serveGo()
		l.serveNginx()
		l.serveJava()
		l.write("Client.java", javaClient)
		for _, port := range []string{goPort, nginxPort, javaPort} {
			l.forget()
			out, err := l.long("java", l.path("Client.java"), netns.ServerV4, port, name, l.path("cert.pem"))
			if e := l.events("released", "refused"); !answered(out) || len(e) != 1 || e[0].Msg != "released" {
				t.Errorf("Java client, port %s: %v %s; the gate says %+v", port, err, out, e)
			}
		}
		for _, c := range clients {
			l.forget()
			out, err := l.run(c.args(l, netns.ServerV4, javaPort)...)
			if e := l.events("released", "refused"); !answered(out) || len(e) != 1 || e[0].Msg != "released" {
				t.Errorf("%s with a Java server: %v %s; the gate says %+v", c.name, err, out, e)
			}
		}
	})
	t.Run("chromium", func(t *testing.T) {
		host.Need(t, "chromium")
		l := newLab(t)
		l.serveGo()
		chromium := func(policy string) (string, error) {
			// A mount namespace of its own, so that the machine's policies stay as they are.
			return l.long("unshare", "-m", "sh", "-c", fmt.Sprintf(`mount -t tmpfs none /etc/chromium && mkdir -p /etc/chromium/policies/managed && echo '%s' >/etc/chromium/policies/managed/p.json &&
exec chromium --headless=new --no-sandbox --disable-gpu --disable-dev-shm-usage --no-first-run --disable-background-networking --disable-component-update --user-data-dir=%s/profile --ignore-certificate-errors --host-resolver-rules='MAP %s %s' --timeout=20000 --dump-dom https://%s:%s/`,
				policy, l.dir, name, netns.ServerV4, name, goPort))
		}
		out, err := chromium(`{"EncryptedClientHelloEnabled": false}`)
		released := false
		for _, e := range l.events("released", "refused") {
			released = released || e.Msg == "released" && e.Service == name
		}
		if !answered(out) || !released {
			t.Errorf("without Encrypted ClientHello: %v %s", err, out)
		}
		// As it comes it sends the extension, which the gate refuses.
		l.forget()
		wire := watch(t, l.server)
		out, err = chromium(`{}`)
		if answered(out) {
			t.Errorf("with Encrypted ClientHello: %v %s", err, out)
		}
		ech := false
		for _, e := range l.events("refused") {
			ech = ech || e.Reason == "ech"
		}
		if !ech {
			t.Errorf("no refusal for Encrypted ClientHello: %v %s\n%s", err, out, l.gate.Output())
		}
		for src, b := range wire.streams(t, 8443) {
			if err := onlyHellos(b); err != nil {
				t.Errorf("%v has sent %v", src, err)
			}
		}
	})
}

// long runs a client that takes its time.
func (l *lab) long(args ...string) (string, error) {
	return l.client.RunCommand(netns.Command{Args: args, Group: l.gated, Time: 90 * time.Second})
}

func (l *lab) serveJava() *netns.Process {
	l.t.Helper()
	if out, err := exec.Command("openssl", "pkcs12", "-export", "-in", l.path("cert.pem"), "-inkey", l.path("key.pem"), "-out", l.path("server.p12"), "-passout", "pass:secret").CombinedOutput(); err != nil {
		l.t.Fatalf("%v %s", err, out)
	}
	l.write("Server.java", javaServer)
	p := l.start(l.server, netns.Command{Args: []string{"java", l.path("Server.java"), javaPort, l.path("server.p12")}, Group: l.service, Time: 5 * time.Minute})
	if err := p.WaitOutput("ready", 60*time.Second); err != nil {
		l.t.Fatalf("%v %s", err, p.Output())
	}
	return p
}

const javaServer = `
import com.sun.net.httpserver.*;
import java.io.*;
import java.net.*;
import java.security.*;
import javax.net.ssl.*;

public class Server {
  public static void main(String[] a) throws Exception {
    KeyStore ks = KeyStore.getInstance("PKCS12");
    ks.load(new FileInputStream(a[1]), "secret".toCharArray());
    KeyManagerFactory kmf = KeyManagerFactory.getInstance("SunX509");
    kmf.init(ks, "secret".toCharArray());
    SSLContext c = SSLContext.getInstance("TLS");
    c.init(kmf.getKeyManagers(), null, null);
    HttpsServer s = HttpsServer.create(new InetSocketAddress(Integer.parseInt(a[0])), 0);
    s.setHttpsConfigurator(new HttpsConfigurator(c));
    s.createContext("/", x -> { byte[] b = "hello by Java\n".getBytes(); x.sendResponseHeaders(200, b.length); x.getResponseBody().write(b); x.close(); });
    s.start();
    System.out.println("ready");
  }
}
`

const javaClient = `
import java.io.*;
import java.security.*;
import java.security.cert.*;
import java.util.*;
import javax.net.ssl.*;

public class Client {
  public static void main(String[] a) throws Exception {
    KeyStore ks = KeyStore.getInstance(KeyStore.getDefaultType());
    ks.load(null, null);
    ks.setCertificateEntry("root", CertificateFactory.getInstance("X.509").generateCertificate(new FileInputStream(a[3])));
    TrustManagerFactory tmf = TrustManagerFactory.getInstance("PKIX");
    tmf.init(ks);
    SSLContext c = SSLContext.getInstance("TLS");
    c.init(null, tmf.getTrustManagers(), null);
    SSLSocket s = (SSLSocket) c.getSocketFactory().createSocket(a[0], Integer.parseInt(a[1]));
    SSLParameters p = s.getSSLParameters();
    p.setServerNames(List.of(new SNIHostName(a[2])));
    s.setSSLParameters(p);
    s.getOutputStream().write(("GET / HTTP/1.1\r\nHost: " + a[2] + "\r\nConnection: close\r\n\r\n").getBytes());
    System.out.println(new String(s.getInputStream().readAllBytes()));
  }
}
`
