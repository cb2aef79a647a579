package proxy

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"
)

// counting counts the writes to its connections.
type counting struct {
	net.Listener
	writes atomic.Int64
}

type countedConn struct {
	net.Conn
	of *counting
}

func (l *counting) Accept() (net.Conn, error) {
	c, err := l.Listener.Accept()
	return &countedConn{c, l}, err
}

func (c *countedConn) Write(b []byte) (int, error) {
	c.of.writes.Add(1)
	return c.Conn.Write(b)
}

func corkServer(t *testing.T, h func(*patient)) (string, *counting) {
	t.Helper()
	srv := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		p := &patient{ResponseWriter: w, ctl: http.NewResponseController(w), limit: time.Minute, now: time.Now, conn: corkOf(r.Context())}
		defer p.end()
		h(p)
	}))
	l := &counting{Listener: srv.Listener}
	srv.Listener, srv.Config.ConnContext = Corking(l), ConnContext
	srv.Start()
	t.Cleanup(srv.Close)
	return srv.URL, l
}

func read(t *testing.T, url string) []byte {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, nil)
	if err != nil {
		t.Fatal(err)
	}
	res, err := client(t).Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = res.Body.Close() }()
	b, err := io.ReadAll(res.Body)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func TestLongPiecesLeaveInOne(t *testing.T) {
	const pieces = 5
	want := bytes.Repeat([]byte("0123456789abcdef"), 2<<10)
	url, l := corkServer(t, func(p *patient) {
		for range pieces {
			_, _ = p.Write(want)
			if err := p.FlushError(); err != nil {
				t.Error(err)
			}
		}
	})
	if got := read(t, url); !bytes.Equal(got, bytes.Repeat(want, pieces)) {
		t.Errorf("%d bytes", len(got))
	}
	if n := l.writes.Load(); n != pieces+1 { // and the last chunk
		t.Errorf("%d writes", n)
	}
}

// Nothing stays behind when nobody flushes, and pieces longer than what is held back arrive in order.
func TestCorkLosesNothing(t *testing.T) {
	var want bytes.Buffer
	for i := range 40 {
		fmt.Fprintf(&want, "%d:%s\n", i, strings.Repeat("x", i*i*200))
	}
	pieces, last := bytes.Clone(want.Bytes()), bytes.Repeat([]byte("y"), 5<<10) // short enough to be held back
	url, _ := corkServer(t, func(p *patient) {
		s := bufio.NewScanner(bytes.NewReader(pieces))
		s.Buffer(nil, 1<<20)
		for n := 0; s.Scan(); n++ {
			_, _ = p.Write(append(s.Bytes(), '\n'))
			if n%3 == 1 { // not the last one
				_ = p.FlushError()
			}
		}
		_, _ = p.Write(last)
	})
	want.Write(last)
	if got := read(t, url); !bytes.Equal(got, want.Bytes()) {
		t.Errorf("%d bytes of %d", len(got), want.Len())
	}
}

func TestRelayHeadersAndTrailers(t *testing.T) {
	up := newUpstream(t, func(w http.ResponseWriter, _ *http.Request) {
		h := w.Header()
		h.Set("Connection", "X-Hop")
		h.Set("X-Hop", "1")
		h.Set("Keep-Alive", "timeout=5")
		h["X-Many"] = []string{"a", "b"}
		h.Set("Trailer", "X-Sum")
		_, _ = io.WriteString(w, chatReply("chatcmpl-1", "fine"))
		h.Set("X-Sum", "42")
		h.Set(http.TrailerPrefix+"X-Late", "43")
	})
	r := newRig(t, up, "", nil, nil)
	res, got := r.send(t, http.MethodPost, chatPath, http.Header{"Te": {"gzip, trailers"}, "Connection": {"close, X-Mine"}, "X-Mine": {"1"}, "X-Forwarded-For": {"10.0.0.1"}}, `{"messages":[{"role":"user","content":"hi"}]}`)
	if string(got) != chatReply("chatcmpl-1", "fine") || res.Header.Get("X-Hop") != "" || res.Header.Get("Keep-Alive") != "" || len(res.Header["X-Many"]) != 2 {
		t.Errorf("%s %v", got, res.Header)
	}
	if res.Trailer.Get("X-Sum") != "42" || res.Trailer.Get("X-Late") != "43" {
		t.Errorf("trailers %v", res.Trailer)
	}
	if h := up.last(t).header; h.Get("Te") != "trailers" || h.Get("X-Mine") != "" || h.Get("X-Forwarded-For") != "10.0.0.1" {
		t.Errorf("the upstream got %v", h)
	}
}

// The headers of a reply whose body takes its time reach the client before it.
func TestRelayHeadersGoAhead(t *testing.T) {
	there := make(chan struct{})
	up := newUpstream(t, func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "text/event-stream")
		_ = http.NewResponseController(w).Flush()
		select {
		case <-there:
			_, _ = io.WriteString(w, "data: [DONE]\n\n")
		case <-r.Context().Done():
		case <-time.After(10 * time.Second):
		}
	})
	r := newRig(t, up, "", nil, nil)
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, r.url+chatPath, strings.NewReader(`{"stream":true,"messages":[{"role":"user","content":"hi"}]}`))
	if err != nil {
		t.Fatal(err)
	}
	res, err := client(t).Do(req)
	if err != nil {
		t.Fatalf("no headers: %v", err)
	}
	defer func() { _ = res.Body.Close() }()
	close(there)
	if b, err := io.ReadAll(res.Body); err != nil || string(b) != "data: [DONE]\n\n" {
		t.Errorf("%q %v", b, err)
	}
}

func TestRelayTrailersOfAnEmptyBody(t *testing.T) {
	up := newUpstream(t, func(w http.ResponseWriter, _ *http.Request) {
		_ = http.NewResponseController(w).Flush() // or there is nothing to trail
		w.Header().Set(http.TrailerPrefix+"X-Late", "43")
	})
	r := newRig(t, up, "", nil, nil)
	if res, got := r.send(t, http.MethodPost, chatPath, nil, `{"messages":[{"role":"user","content":"hi"}]}`); len(got) != 0 || res.Trailer.Get("X-Late") != "43" {
		t.Errorf("%q %v", got, res.Trailer)
	}
}

func TestRelayRefusesUnaskedSwitch(t *testing.T) {
	up := newUpstream(t, func(w http.ResponseWriter, _ *http.Request) {
		c, _, err := http.NewResponseController(w).Hijack()
		if err != nil {
			t.Error(err)
			return
		}
		_, _ = io.WriteString(c, "HTTP/1.1 101 Switching Protocols\r\nUpgrade: x\r\nConnection: Upgrade\r\n\r\n")
		_ = c.Close()
	})
	r := newRig(t, up, "", nil, nil)
	if res, got := r.send(t, http.MethodPost, chatPath, nil, `{"messages":[{"role":"user","content":"hi"}]}`); res.StatusCode != http.StatusBadGateway {
		t.Errorf("%d %s", res.StatusCode, got)
	}
}
