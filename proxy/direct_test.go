package proxy

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strings"
	"sync/atomic"
	"testing"
	"time"
)

// raw is an upstream that speaks for itself, one handler call a connection; n counts from 1.
func raw(t *testing.T, serve func(n int, c net.Conn, r *bufio.Reader)) *url.URL {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan struct{})
	t.Cleanup(func() { _ = l.Close(); <-done })
	go func() {
		defer close(done)
		for n := 1; ; n++ {
			c, err := l.Accept()
			if err != nil {
				return
			}
			serve(n, c, bufio.NewReader(c))
			_ = c.Close()
		}
	}()
	return &url.URL{Scheme: "http", Host: l.Addr().String(), Path: "/v1/x"}
}

// readRequest reads a whole request off the wire.
func readRequest(r *bufio.Reader) (string, error) {
	req, err := http.ReadRequest(r)
	if err != nil {
		return "", err
	}
	b, err := io.ReadAll(req.Body)
	return string(b), err
}

func newTestDirect(t *testing.T, header time.Duration) *direct {
	t.Helper()
	d := newDirect(header, time.Now)
	t.Cleanup(d.CloseIdleConnections)
	return d
}

func ask(ctx context.Context, d *direct, u *url.URL, body string) (*http.Response, string, error) {
	r := &http.Request{Method: "POST", URL: u, Header: http.Header{"User-Agent": {""}, "X-A": {"1", "2"}, "X-Bad": {"a\r\nX-Evil: 1"}}, Body: (&payload{data: []byte(body)}).reader()}
	res, err := d.RoundTrip(r.WithContext(ctx))
	if err != nil {
		return nil, "", err
	}
	defer func() { _ = res.Body.Close() }()
	b, err := io.ReadAll(res.Body)
	return res, string(b), err
}

func answerWith(c net.Conn, body string) {
	fmt.Fprintf(c, "HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%s", len(body), body)
}

func TestDirectKeepsConnections(t *testing.T) {
	var conns atomic.Int64
	u := raw(t, func(n int, c net.Conn, r *bufio.Reader) {
		conns.Store(int64(n))
		for {
			b, err := readRequest(r)
			if err != nil {
				return
			}
			answerWith(c, b)
		}
	})
	d := newTestDirect(t, time.Second)
	for _, body := range []string{"a", strings.Repeat("b", 1<<20), "c"} {
		if _, got, err := ask(t.Context(), d, u, body); err != nil || got != body {
			t.Fatalf("%d bytes back, %v", len(got), err)
		}
	}
	if conns.Load() != 1 {
		t.Errorf("%d connections", conns.Load())
	}
	d.CloseIdleConnections()
}

// A connection that the upstream closed while it was idle is not used; one that it closes under our request, before a byte
// of an answer, is replaced and the request repeated once.
func TestDirectStaleConnections(t *testing.T) {
	for _, polite := range []bool{true, false} {
		u := raw(t, func(n int, c net.Conn, r *bufio.Reader) {
			if _, err := readRequest(r); err != nil {
				return
			}
			answerWith(c, fmt.Sprint("answer ", n))
			if !polite { // read the next request and hang up
				_, _ = readRequest(r)
			}
		})
		d := newTestDirect(t, time.Second)
		for i := 1; i <= 3; i++ {
			_, got, err := ask(t.Context(), d, u, "x")
			if err != nil || got != fmt.Sprint("answer ", i) {
				t.Fatalf("polite=%v: request %d: %q %v", polite, i, got, err)
			}
			time.Sleep(20 * time.Millisecond)
		}
		d.CloseIdleConnections()
	}
}

func TestDirectFreshConnectionThatDiesIsAnError(t *testing.T) {
	var n atomic.Int64
	u := raw(t, func(_ int, _ net.Conn, r *bufio.Reader) {
		n.Add(1)
		_, _ = readRequest(r)
	})
	if _, _, err := ask(t.Context(), newTestDirect(t, time.Second), u, "x"); err == nil || n.Load() != 1 {
		t.Errorf("asked %d times, %v", n.Load(), err)
	}
}

func TestDirectInterimAndEarlyResponses(t *testing.T) {
	u := raw(t, func(n int, c net.Conn, r *bufio.Reader) {
		switch n {
		case 1:
			_, _ = readRequest(r)
			fmt.Fprint(c, "HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early Hints\r\nLink: x\r\n\r\n")
			answerWith(c, "after the hints")
		case 2: // answers before it has read the body, and closes
			_, _ = r.ReadString('\n')
			fmt.Fprint(c, "HTTP/1.1 413 Too Large\r\nContent-Length: 3\r\nConnection: close\r\n\r\nbig")
			time.Sleep(100 * time.Millisecond)
		}
	})
	d := newTestDirect(t, 5*time.Second)
	if _, got, err := ask(t.Context(), d, u, "x"); err != nil || got != "after the hints" {
		t.Errorf("%q %v", got, err)
	}
	d.CloseIdleConnections()
	d = newTestDirect(t, 5*time.Second)
	res, got, err := ask(t.Context(), d, u, strings.Repeat("x", 64<<10))
	if err != nil || res.StatusCode != 413 || got != "big" {
		t.Errorf("%v %q %v", res, got, err)
	}
}

func TestDirectCutAndFramings(t *testing.T) {
	for name, c := range map[string]struct {
		wire, want string
		cut        bool
	}{
		"chunked":          {"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nab\r\n1\r\nc\r\n0\r\n\r\n", "abc", false},
		"chunked, cut":     {"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nab\r\n5\r\nc", "abc", true},
		"length, cut":      {"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nabc", "abc", true},
		"until close":      {"HTTP/1.0 200 OK\r\n\r\nabc", "abc", false},
		"no content":       {"HTTP/1.1 204 No Content\r\n\r\n", "", false},
		"headers cut":      {"HTTP/1.1 200 OK\r\nContent-", "", true},
		"not http":         {"SSH-2.0-x\r\n", "", true},
		"trailing garbage": {"HTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\naGARBAGE", "a", false},
	} {
		t.Run(name, func(t *testing.T) {
			u := raw(t, func(_ int, conn net.Conn, r *bufio.Reader) {
				_, _ = readRequest(r)
				_, _ = io.WriteString(conn, c.wire)
			})
			d := newTestDirect(t, time.Second)
			_, got, err := ask(t.Context(), d, u, "x")
			if got != c.want || (err != nil) != c.cut {
				t.Errorf("%q %v", got, err)
			}
		})
	}
}

// The end of the context breaks off every kind of waiting, and costs the connection.
func TestDirectCancel(t *testing.T) {
	for _, begun := range []bool{false, true} {
		gone := make(chan error, 1)
		u := raw(t, func(_ int, c net.Conn, r *bufio.Reader) {
			_, _ = readRequest(r)
			if begun {
				fmt.Fprint(c, "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1\r\na\r\n")
			}
			_, err := r.ReadByte()
			gone <- err
		})
		d := newTestDirect(t, time.Minute)
		ctx, cancel := context.WithCancel(t.Context())
		time.AfterFunc(50*time.Millisecond, cancel)
		begin := time.Now()
		_, _, err := ask(ctx, d, u, "x")
		if !errors.Is(err, context.Canceled) || time.Since(begin) > 5*time.Second {
			t.Errorf("begun=%v: %v after %v", begun, err, time.Since(begin))
		}
		if err := <-gone; err == nil {
			t.Error("the upstream was not told")
		}
		cancel()
	}
}

func TestDirectHeaderTimeoutAndHeaders(t *testing.T) {
	silent := raw(t, func(_ int, _ net.Conn, r *bufio.Reader) {
		_, _ = readRequest(r)
		_, _ = r.ReadByte()
	})
	if _, _, err := ask(t.Context(), newTestDirect(t, 50*time.Millisecond), silent, "x"); !isTimeout(err) {
		t.Errorf("a silent upstream: %v", err)
	}
	head := make(chan http.Header, 1)
	u := raw(t, func(_ int, c net.Conn, r *bufio.Reader) {
		req, err := http.ReadRequest(r)
		if err == nil {
			head <- req.Header
			_, _ = io.ReadAll(req.Body)
		}
		answerWith(c, "")
	})
	if _, _, err := ask(t.Context(), newTestDirect(t, time.Second), u, "x"); err != nil {
		t.Fatal(err)
	}
	h := <-head
	if len(h["X-A"]) != 2 || h.Get("X-Evil") != "" || h.Get("User-Agent") != "" {
		t.Errorf("headers %v", h)
	}
}
