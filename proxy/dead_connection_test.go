package proxy_test

import (
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// silentRelay drops all data on the first silentUntil connections, like a firewall that has lost its state.
type silentRelay struct {
	net.Listener
	target      string
	silentUntil atomic.Int64
	accepted    atomic.Int64
	open        atomic.Int64
	conns       sync.WaitGroup
}

func newSilentRelay(t *testing.T, target string) *silentRelay {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	r := &silentRelay{Listener: l, target: target}
	r.conns.Go(func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			r.relay(c, r.accepted.Add(1))
		}
	})
	t.Cleanup(func() { _ = l.Close(); r.conns.Wait() })
	return r
}

func (r *silentRelay) relay(c net.Conn, n int64) {
	up, err := net.Dial("tcp", r.target)
	if err != nil {
		_ = c.Close()
		return
	}
	r.open.Add(1)
	forward := func(to, from net.Conn) {
		defer func() { _, _ = to.Close(), from.Close() }()
		b := make([]byte, 32<<10)
		for {
			k, err := from.Read(b)
			if err != nil {
				return
			}
			if n > r.silentUntil.Load() {
				if _, err := to.Write(b[:k]); err != nil {
					return
				}
			}
		}
	}
	r.conns.Go(func() { forward(up, c) })
	r.conns.Go(func() { forward(c, up); r.open.Add(-1) })
}

// Only HTTP/2 pings detect a connection that loses data without an error. The next request gets a new connection.
func TestDeadConnectionIsClosedByPings(t *testing.T) {
	begun := make(chan struct{}, 1)
	srv := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		b, _ := io.ReadAll(r.Body)
		if r.ProtoMajor != 2 {
			t.Errorf("the upstream got a request over %s, want HTTP/2", r.Proto)
		}
		_, _ = io.WriteString(w, "data: {}\n\n")
		_ = http.NewResponseController(w).Flush()
		if strings.Contains(string(b), "stream") {
			<-r.Context().Done()
		}
	}))
	srv.EnableHTTP2, srv.Config.ErrorLog = true, log.New(io.Discard, "", 0)
	srv.StartTLS()
	t.Cleanup(srv.Close)
	relay := newSilentRelay(t, srv.Listener.Addr().String())
	f := newDefaultFixture(t, upstreamAt("https://"+relay.Addr().String()))
	if c := f.transport().HTTP2; c == nil {
		t.Fatal("HTTP/2 settings = nil")
	} else if c.SendPingTimeout <= 0 {
		t.Fatalf("HTTP/2 settings: SendPingTimeout = %v, want above 0", c.SendPingTimeout)
	} else if c.PingTimeout <= 0 {
		t.Fatalf("HTTP/2 settings: PingTimeout = %v, want above 0", c.PingTimeout)
	} else if c.SendPingTimeout+c.PingTimeout > time.Minute {
		t.Fatalf("HTTP/2 settings: c.SendPingTimeout+c.PingTimeout = %v, want at most %v", c.SendPingTimeout+c.PingTimeout, time.Minute)
	}
	f.transport().HTTP2.SendPingTimeout, f.transport().HTTP2.PingTimeout = 50*time.Millisecond, 100*time.Millisecond

	f.chat(t, nil, `{"messages":[{"role":"user","content":"hi"}]}`)
	ended := make(chan error, 1)
	go func() {
		res, err := client(t).Post(f.url+chatPath, "application/json", strings.NewReader(`{"stream":true,"messages":[]}`))
		if err == nil {
			_, _ = res.Body.Read(make([]byte, 1))
			begun <- struct{}{}
			_, err = io.Copy(io.Discard, res.Body)
			_ = res.Body.Close()
		}
		ended <- err
	}()
	<-begun
	if n := relay.accepted.Load(); n != 1 {
		t.Errorf("got %d connections to the upstream before the first one went silent, want 1", n)
	}
	relay.silentUntil.Store(1)
	if err := <-ended; err == nil {
		t.Error("the stream ended without an error")
	}
	f.chat(t, nil, `{"messages":[{"role":"user","content":"hi again"}]}`)
	if n := relay.accepted.Load(); n != 2 {
		t.Errorf("got %d connections to the upstream after the first one went silent, want 2", n)
	}
}

func TestIdleUpstreamConnectionsAreClosed(t *testing.T) {
	for _, secure := range []bool{false, true} {
		srv := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "{}") }))
		scheme := "http://"
		if srv.EnableHTTP2 = secure; secure {
			scheme = "https://"
			srv.StartTLS()
		} else {
			srv.Start()
		}
		relay := newSilentRelay(t, srv.Listener.Addr().String())
		f := newDefaultFixture(t, upstreamAt(scheme+relay.Addr().String()))
		if d := f.transport().IdleConnTimeout; d <= 0 {
			t.Fatalf("IdleConnTimeout = %v, want above 0", d)
		} else if d > 2*time.Minute {
			t.Fatalf("IdleConnTimeout = %v, want at most %v", d, 2*time.Minute)
		}
		f.transport().IdleConnTimeout = 50 * time.Millisecond
		f.chat(t, nil, `{"messages":[{"role":"user","content":"hi"}]}`)
		if relay.accepted.Load() != 1 {
			t.Errorf("got %d connections to the upstream, want 1", relay.accepted.Load())
		}
		eventually(t, func() bool { return relay.open.Load() == 0 })
		srv.Close()
	}
}

// A reset of an HTTP/2 stream is valid HTTP, so precept must not call the upstream's response malformed.
func TestUpstreamResetIsNotReportedAsMalformed(t *testing.T) {
	t.Parallel()
	srv := httptest.NewUnstartedServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }))
	srv.EnableHTTP2, srv.Config.ErrorLog = true, log.New(io.Discard, "", 0)
	srv.StartTLS()
	t.Cleanup(srv.Close)
	f := newDefaultFixture(t, upstreamAt(srv.URL))
	res, err := client(t).Post(f.url+chatPath, "application/json", strings.NewReader(`{"messages":[]}`))
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close() //nolint:errcheck // only read
	body, _ := io.ReadAll(res.Body)
	if res.StatusCode != http.StatusBadGateway {
		t.Errorf("the upstream resets the stream: status = %d, want 502, body %s", res.StatusCode, body)
	}
	if !strings.Contains(string(body), "cancelled the request") {
		t.Errorf(`the upstream resets the stream: body = %q, want substring "cancelled the request"`, string(body))
	}
}
