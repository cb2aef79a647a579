package proxy_test

import (
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"precept/configs"
)

type countingUpstream struct {
	*httptest.Server
	mu      sync.Mutex
	open    map[net.Conn]bool
	release chan struct{} // when closed, ends the responses to requests with "wait"
}

func newCountingUpstream(t *testing.T, http2 bool) *countingUpstream {
	t.Helper()
	u := &countingUpstream{open: map[net.Conn]bool{}, release: make(chan struct{})}
	u.Server = httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		b, _ := io.ReadAll(r.Body)
		_, _ = io.WriteString(w, "first")
		if strings.Contains(string(b), "wait") {
			_ = http.NewResponseController(w).Flush()
			<-u.release
		}
		_, _ = io.WriteString(w, ", last")
	}))
	u.EnableHTTP2, u.Config.ErrorLog = http2, log.New(io.Discard, "", 0)
	u.Config.ConnState = func(c net.Conn, s http.ConnState) {
		u.mu.Lock()
		defer u.mu.Unlock()
		switch s {
		case http.StateNew:
			u.open[c] = true
		case http.StateClosed, http.StateHijacked:
			delete(u.open, c)
		default: // the connection stays open
		}
	}
	u.StartTLS()
	t.Cleanup(u.Close)
	return u
}

func (u *countingUpstream) openCount() int {
	u.mu.Lock()
	defer u.mu.Unlock()
	return len(u.open)
}

func (u *countingUpstream) waitForOpen(t *testing.T, want int) {
	t.Helper()
	eventually(t, func() bool { return u.openCount() == want })
}

func parseSettings(t *testing.T, upstream string, extraFlags ...string) *configs.Config {
	t.Helper()
	flags := map[string]string{"upstream": upstream + "/v1"}
	for i := 0; i < len(extraFlags); i += 2 {
		flags[extraFlags[i]] = extraFlags[i+1]
	}
	cfg, err := configs.Parse(configs.Sources{Flags: flags})
	if err != nil {
		t.Fatal(err)
	}
	return cfg
}

// A reload that removes an upstream closes idle connections at once and other connections after the last request.
// HTTP/2 connections are closed after IdleConnTimeout.
func TestReloadClosesUnneededConnections(t *testing.T) {
	for name, http2 := range map[string]bool{"HTTP/1.1": false, "HTTP/2": true} {
		t.Run(name, func(t *testing.T) {
			old, next := newCountingUpstream(t, http2), newCountingUpstream(t, http2)
			f := newDefaultFixture(t, &upstream{Server: old.Server})
			body := `{"model":"m","messages":[{"role":"user","content":"hello"}]}`
			sendRequest := func(f *fixture) {
				t.Helper()
				if got := string(f.chat(t, nil, body)); got != "first, last" {
					t.Fatalf("body = %q, want \"first, last\"", got)
				}
			}
			if http2 {
				f.transport().IdleConnTimeout = 500 * time.Millisecond
			}
			sendRequest(f)
			old.waitForOpen(t, 1)
			if err := f.Configure(parseSettings(t, old.URL, "inject.k", "1")); err != nil { // the same upstream
				t.Fatal(err)
			}
			sendRequest(f)
			if n := old.openCount(); n != 1 {
				t.Errorf("open connections after a reload that changes no upstream = %d, want 1", n)
			}

			req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, f.url+chatPath, strings.NewReader(`{"model":"m","messages":[{"role":"user","content":"wait"}]}`))
			if err != nil {
				t.Fatal(err)
			}
			res, err := client(t).Do(req)
			if err != nil {
				t.Fatal(err)
			}
			defer func() { _ = res.Body.Close() }()
			if err := f.Configure(parseSettings(t, next.URL)); err != nil {
				t.Fatal(err)
			}
			sendRequest(f)
			next.waitForOpen(t, 1)
			old.waitForOpen(t, 1) // the request in progress keeps the connection open
			close(old.release)
			if rest, err := io.ReadAll(res.Body); err != nil {
				t.Error(err)
			} else if string(rest) != "first, last" {
				t.Errorf(`response to the request in progress: rest = %q, want "first, last"`, string(rest))
			}
			old.waitForOpen(t, 0)

			if err := f.Configure(parseSettings(t, old.URL)); err != nil { // the connection to next is idle
				t.Fatal(err)
			}
			next.waitForOpen(t, 0)
			sendRequest(f)
		})
	}
}

func TestReloadAppliesHeaderTimeout(t *testing.T) {
	end := make(chan struct{})
	up := newUpstream(t, func(_ http.ResponseWriter, r *http.Request) {
		select {
		case <-end:
		case <-r.Context().Done():
		}
	})
	t.Cleanup(func() { close(end) })
	f := newDefaultFixture(t, up)
	if err := f.Configure(parseSettings(t, up.URL, "limits.upstream_header_timeout", "50ms")); err != nil {
		t.Fatal(err)
	}
	if res, text := f.send(t, http.MethodPost, chatPath, nil, `{"model":"m","messages":[{"role":"user","content":"hello"}]}`); res.StatusCode != http.StatusGatewayTimeout {
		t.Errorf("after the reload: got status %d, body %s, want 504", res.StatusCode, text)
	}
}

// A server that never answers the TLS handshake is usually a server without TLS.
func TestTLSHandshakeTimeoutNamesHandshake(t *testing.T) {
	up := newUpstream(t, nil)
	f := newDefaultFixture(t, up)
	silent, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = silent.Close() })
	if err := f.Configure(parseSettings(t, "https://"+silent.Addr().String(), "limits.upstream_header_timeout", "1h")); err != nil {
		t.Fatal(err)
	}
	f.transport().TLSHandshakeTimeout = time.Millisecond
	res, text := f.send(t, http.MethodPost, chatPath, nil, `{"model":"m","messages":[{"role":"user","content":"hello"}]}`)
	if res.StatusCode != http.StatusGatewayTimeout {
		t.Errorf("the upstream does not answer the TLS handshake: status = %d, want 504, body %s", res.StatusCode, text)
	}
	if !strings.Contains(string(text), "TLS handshake") {
		t.Errorf(`the upstream does not answer the TLS handshake = %q, want substring "TLS handshake"`, string(text))
	}
}

// transport returns the transport for the test's upstream. The default vendor upstreams have other transports.
func (f *fixture) transport() *http.Transport { return f.Transport("127.0.0.1:") }
