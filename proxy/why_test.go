package proxy_test

import (
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
)

// raw is an upstream that does to each connection what it is told.
func raw(t *testing.T, do func(c net.Conn)) (url string) {
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
				do(c)
			}()
		}
	}()
	return "http://" + l.Addr().String()
}

// Whoever reads why there was no answer must look in the right place: at the network, at TLS, or at
// the upstream itself.
func TestWhyThereIsNoAnswer(t *testing.T) {
	t.Parallel()
	gone, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	nobody := gone.Addr().String()
	_ = gone.Close()
	says := func(text string) string {
		return raw(t, func(c net.Conn) {
			_, _ = c.Read(make([]byte, 4096))
			_, _ = io.WriteString(c, text)
		})
	}
	for name, c := range map[string]struct{ url, want string }{
		"nobody listens":     {"http://" + nobody, "could not be reached"},
		"no such name":       {"http://no-such-host.invalid", "could not be reached"},
		"it hangs up":        {says(""), "closed the connection before it answered"},
		"half a header":      {says("HTTP/1.1 200 OK\r\nContent-Le"), "not HTTP as it should be"},
		"another protocol":   {says("220 mail.example.org ESMTP\r\n"), "not HTTP as it should be"},
		"two lengths":        {says("HTTP/1.1 200 OK\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\nab"), "not HTTP as it should be"},
		"an unasked switch":  {says("HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: x\r\n\r\n"), "switched protocols"},
		"plain behind https": {strings.Replace(says("HTTP/1.1 400 Bad Request\r\n\r\n"), "http:", "https:", 1), "TLS with it failed"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got := ask(t, face(t, c.url), "POST /v1/chat/completions HTTP/1.1", fmt.Sprintf(conversation, 1))
			if got.status != http.StatusBadGateway || !strings.Contains(got.body, c.want) || !strings.Contains(got.body, "precept_error") {
				t.Errorf("%d %s, want %q", got.status, got.body, c.want)
			}
			if c.want != "could not be reached" && strings.Contains(got.body, "could not be reached") {
				t.Errorf("it was reached: %s", got.body)
			}
		})
	}
}
