package proxy_test

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"io"
	"log"
	"math/big"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"time"

	"precept/store/storetest"
)

func startTCPServer(t *testing.T, handle func(c net.Conn)) (url string) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go func() {
				defer func() { _ = c.Close() }()
				handle(c)
			}()
		}
	}()
	return "http://" + l.Addr().String()
}

func startTextServer(t *testing.T, text string) string {
	t.Helper()
	return startTCPServer(t, func(c net.Conn) {
		_, _ = c.Read(make([]byte, 4096))
		_, _ = io.WriteString(c, text)
	})
}

func TestConnectionErrorNamesServerAndRemedy(t *testing.T) {
	t.Parallel()
	secure := func(url string) string { return strings.Replace(url, "http:", "https:", 1) }
	unknownAuthority := httptest.NewUnstartedServer(http.NotFoundHandler())
	unknownAuthority.Config.ErrorLog = log.New(io.Discard, "", 0)
	unknownAuthority.TLS = &tls.Config{Certificates: []tls.Certificate{selfSigned(t, time.Now().Add(time.Hour))}}
	unknownAuthority.StartTLS()
	t.Cleanup(unknownAuthority.Close)
	expired := httptest.NewUnstartedServer(http.NotFoundHandler())
	expired.Config.ErrorLog = log.New(io.Discard, "", 0)
	expired.TLS = &tls.Config{Certificates: []tls.Certificate{selfSigned(t, time.Now().Add(-time.Hour))}}
	expired.StartTLS()
	t.Cleanup(expired.Close)
	trusted := httptest.NewUnstartedServer(http.NotFoundHandler())
	trusted.Config.ErrorLog = log.New(io.Discard, "", 0)
	trusted.StartTLS()
	t.Cleanup(trusted.Close)
	_, port, _ := net.SplitHostPort(trusted.Listener.Addr().String())
	statusReply := func(status string) string {
		return startTextServer(t, "HTTP/1.1 "+status+"\r\nContent-Length: 0\r\n\r\n")
	}
	const httpsUpstream, httpUpstream = "https://api.example.test", "http://api.example.test"
	for name, tc := range map[string]struct {
		url, forwardProxy string
		want              []string
	}{
		"connection refused":                   {"http://127.0.0.1:" + storetest.FreePort(t), "", []string{"the upstream default (127.0.0.1:", "could not be reached: connection refused", "correct the port in upstream"}},
		"unknown host":                         {"http://no-such-host.invalid", "", []string{"the upstream default (no-such-host.invalid) could not be reached", "DNS"}},
		"closed connection":                    {startTextServer(t, ""), "", []string{"the upstream default (", "closed the connection without an answer", "try again"}},
		"truncated header":                     {startTextServer(t, "HTTP/1.1 200 OK\r\nContent-Le"), "", []string{"the upstream default (", "malformed HTTP response"}},
		"SMTP server":                          {startTextServer(t, "220 mail.example.org ESMTP\r\n"), "", []string{"malformed HTTP response", "names an HTTP server's port"}},
		"two Content-Lengths":                  {startTextServer(t, "HTTP/1.1 200 OK\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\nab"), "", []string{"malformed HTTP response"}},
		"101 without a request":                {startTextServer(t, "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: x\r\n\r\n"), "", []string{"the upstream default (", "switched protocols"}},
		"large headers":                        {startTextServer(t, "HTTP/1.1 200 OK\r\nX: "+strings.Repeat("x", 2<<20)+"\r\n\r\n"), "", []string{"the upstream default (", "more than 1 MiB of response headers"}},
		"HTTP server, https URL":               {secure(startTextServer(t, "HTTP/1.1 400 Bad Request\r\n\r\n")), "", []string{"does not speak TLS", "write http:// in upstream"}},
		"TLS server, http URL":                 {startTextServer(t, "\x15\x03\x01\x00\x02\x02\x50"), "", []string{"speaks TLS on this port", "write https:// in upstream"}},
		"closed during the TLS handshake":      {secure(startTextServer(t, "")), "", []string{"closed the connection in the TLS handshake"}},
		"TLS alert":                            {secure(startTextServer(t, "\x15\x03\x01\x00\x02\x02\x28")), "", []string{"ended the TLS handshake", "TLS 1.2"}},
		"unknown authority":                    {unknownAuthority.URL, "", []string{"unknown authority", "SSL_CERT_FILE"}},
		"expired certificate":                  {expired.URL, "", []string{"certificate"}},
		"certificate for a different host":     {"https://localhost:" + port, "", []string{"certificate for another host", "correct the host in upstream"}},
		"forward proxy, 403":                   {httpsUpstream, statusReply("403 Blocked"), []string{"the proxy 127.0.0.1:", "refused the connection to api.example.test with status 403 Forbidden", "NO_PROXY"}},
		"forward proxy, 407":                   {httpsUpstream, statusReply("407 Whoever"), []string{"the proxy 127.0.0.1:", "status 407 Proxy Authentication Required", "put the user and the password into HTTPS_PROXY"}},
		"forward proxy, 502":                   {httpsUpstream, statusReply("502 Oops"), []string{"the proxy 127.0.0.1:", "status 502 Bad Gateway", "could not reach this host"}},
		"forward proxy, 503":                   {httpsUpstream, statusReply("503 Oops"), []string{"the proxy 127.0.0.1:", "status 503 Service Unavailable"}},
		"forward proxy, 301":                   {httpsUpstream, statusReply("301 Away"), []string{"the proxy 127.0.0.1:", "status 301 Moved Permanently"}},
		"forward proxy, unknown status":        {httpsUpstream, statusReply("599 Odd"), []string{"the proxy 127.0.0.1:", "status 599;"}},
		"forward proxy, connection refused":    {httpsUpstream, "http://127.0.0.1:" + storetest.FreePort(t), []string{"the proxy 127.0.0.1:", "could not be reached: connection refused", "HTTPS_PROXY"}},
		"forward proxy, unknown host":          {httpsUpstream, "http://no-such-proxy.invalid:3128", []string{"the proxy no-such-proxy.invalid:3128 could not be reached", "HTTPS_PROXY"}},
		"forward proxy, closed connection":     {httpsUpstream, startTextServer(t, ""), []string{"the proxy 127.0.0.1:", "closed the connection without an answer to CONNECT"}},
		"forward proxy, SSH server":            {httpsUpstream, startTextServer(t, "SSH-2.0-x\r\n"), []string{"the proxy 127.0.0.1:", "did not answer CONNECT with HTTP", "HTTPS_PROXY"}},
		"forward proxy, https URL without TLS": {httpsUpstream, secure(startTextServer(t, "HTTP/1.1 400 Bad Request\r\n\r\n")), []string{"the proxy 127.0.0.1:", "does not speak TLS", "HTTPS_PROXY"}},
		"forward proxy, SOCKS URL":             {httpsUpstream, strings.Replace(startTextServer(t, "\x05\xff"), "http:", "socks5:", 1), []string{"the proxy 127.0.0.1:", "HTTPS_PROXY"}},
		"forward proxy, http upstream, 407":    {httpUpstream, statusReply("407 Whoever"), []string{"the proxy 127.0.0.1:", "status 407", "put the user and the password into HTTP_PROXY"}},
		"forward proxy, tunnel closed at once": {httpsUpstream, startTextServer(t, "HTTP/1.1 200 OK\r\n\r\n"), []string{"the upstream default (api.example.test) closed the connection in the TLS handshake", "the proxy 127.0.0.1:"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := newDefaultFixture(t, upstreamAt(tc.url))
			if tc.forwardProxy != "" {
				u, err := url.Parse(strings.Replace(tc.forwardProxy, "//", "//user:canary@", 1))
				if err != nil {
					t.Fatal(err)
				}
				f.Transport("api.example.test").Proxy = http.ProxyURL(u)
			}
			res, body := f.send(t, "POST", chatPath, nil, `{"messages":[{"role":"user","content":"hi"}]}`)
			for _, want := range append(tc.want, "precept_error") {
				if !strings.Contains(string(body), want) {
					t.Errorf("error = %s, want it to contain %q", body, want)
				}
			}
			if res.StatusCode != http.StatusBadGateway {
				t.Errorf("status = %d, want 502, body %s", res.StatusCode, body)
			}
			if strings.Contains(string(body), "canary") {
				t.Errorf(`body = %q, want no "canary"`, string(body))
			}
		})
	}
}

// selfSigned returns a certificate that is valid for the two hours before end.
func selfSigned(t *testing.T, end time.Time) tls.Certificate {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{SerialNumber: big.NewInt(1), NotBefore: end.Add(-2 * time.Hour), NotAfter: end, IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	if err != nil {
		t.Fatal(err)
	}
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}
}
