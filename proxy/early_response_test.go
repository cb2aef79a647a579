package proxy_test

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

type sender struct {
	net.Conn
	*bufio.Reader
}

func dial(t *testing.T, base string) *sender {
	t.Helper()
	c, err := net.Dial("tcp", strings.TrimPrefix(base, "http://"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	return &sender{c, bufio.NewReader(c)}
}

// The upstream responds before it has read the body. The proxy must not read the rest of the body as another request.
func TestEarlyResponseReachesSendingClient(t *testing.T) {
	part := strings.Repeat("x", 100<<10)
	for name, tc := range map[string]struct{ head, sent string }{
		"forwarded, Content-Length": {"POST /v1/files HTTP/1.1\r\nHost: x\r\nContent-Length: 20000000\r\n\r\n", part},
		"forwarded, short":          {"POST /v1/files HTTP/1.1\r\nHost: x\r\nContent-Length: 2000\r\n\r\n", "x"},
		"forwarded, chunked":        {"POST /v1/files HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n", "19000\r\n" + part + "\r\n"},
		"forwarded, HTTP/1.0":       {"POST /v1/files HTTP/1.0\r\nContent-Length: 20000000\r\n\r\n", part},
		"inspected, too long":       {"POST /v1/chat/completions HTTP/1.1\r\nHost: x\r\nContent-Length: 20000000\r\n\r\n", strings.Repeat("x", 9<<20)},
	} {
		for _, secure := range []bool{false, true} {
			t.Run(fmt.Sprint(name, ", TLS=", secure), func(t *testing.T) {
				t.Parallel()
				done := make(chan struct{})
				u := newRawUpstream(t, secure, func(_ int, c net.Conn, _ *http.Request) bool {
					_, _ = io.WriteString(c, "HTTP/1.1 413 Content Too Large\r\nContent-Length: 3\r\nX-Own: yes\r\n\r\nbig")
					<-done
					return false
				})
				defer close(done)
				c := dial(t, startProxy(t, u.url))
				_, _ = io.WriteString(c, tc.head+tc.sent)
				if s := readReply(c.Reader, "POST"); s.status != 413 {
					t.Errorf("early response: status = %d, want 413", s.status)
				} else if s.body != "big" {
					t.Errorf(`early response: body = %q, want "big"`, s.body)
				} else if !strings.Contains(s.header, "X-Own") {
					t.Errorf(`early response: header = %q, want substring "X-Own"`, s.header)
				}
				_, _ = io.WriteString(c, "\r\n0\r\n\r\nGET /v1/smuggled HTTP/1.1\r\nHost: x\r\n\r\n")
				if b, _ := io.ReadAll(c.Reader); len(b) > 0 {
					t.Errorf("the upstream = %d bytes, want none", len(b))
				} else if u.requests.Load() != 1 {
					t.Errorf("the upstream: requests = %d, want 1", u.requests.Load())
				}
			})
		}
	}
}

func TestRefusalIsSentBeforeBody(t *testing.T) {
	up := httptest.NewServer(http.NotFoundHandler())
	defer up.Close()
	for name, tc := range map[string]struct {
		head   string
		status int
	}{
		"inspected, too long":            {"POST /v1/chat/completions HTTP/1.1\r\nHost: x\r\nContent-Length: 20000000\r\n\r\n", 413},
		"forwarded, too long":            {"POST /v1/files HTTP/1.1\r\nHost: x\r\nContent-Length: 20000000\r\n\r\n", 413},
		"websocket":                      {"GET /v1/responses HTTP/1.1\r\nHost: x\r\nConnection: Upgrade\r\nUpgrade: websocket\r\nContent-Length: 100\r\n\r\n", 426},
		"Expect: 100-continue, too long": {"POST /v1/files HTTP/1.1\r\nHost: x\r\nExpect: 100-continue\r\nContent-Length: 20000000\r\n\r\n", 413},
	} {
		t.Run(name, func(t *testing.T) {
			c := dial(t, startProxy(t, up.URL, "limits.body_bytes=1MiB"))
			_, _ = io.WriteString(c, tc.head)
			if s := readReply(c.Reader, "POST"); s.status != tc.status {
				t.Errorf("the client: status = %d, want %d", s.status, tc.status)
			} else if len(s.interim) > 0 {
				t.Errorf("the client: interim = %q, want none", s.interim)
			} else if !strings.Contains(s.body, "precept_error") {
				t.Errorf(`the client: body = %q, want substring "precept_error"`, s.body)
			}
		})
	}
}

func TestStreamStartsBeforeBodyEnds(t *testing.T) {
	for _, secure := range []bool{false, true} {
		u := newRawUpstream(t, secure, func(_ int, c net.Conn, r *http.Request) bool {
			_, _ = io.WriteString(c, "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\r\ndata: first\n\n")
			b, _ := io.ReadAll(r.Body)
			fmt.Fprintf(c, "data: %d\n\n", len(b))
			return false
		})
		c := dial(t, startProxy(t, u.url))
		_, _ = io.WriteString(c, "POST /v1/audio/transcriptions HTTP/1.1\r\nHost: x\r\nContent-Length: 300000\r\n\r\n"+strings.Repeat("x", 1000))
		res, err := http.ReadResponse(c.Reader, nil)
		if err != nil {
			t.Fatal(err)
		}
		body := bufio.NewReader(res.Body)
		if line, err := body.ReadString('\n'); err != nil {
			t.Fatal(err)
		} else if line != "data: first\n" {
			t.Fatalf(`first stream line = %q, want "data: first\n"`, line)
		}
		_, _ = io.WriteString(c, strings.Repeat("x", 299000))
		if rest, err := io.ReadAll(body); err != nil {
			t.Error(err)
		} else if string(rest) != "\ndata: 300000\n\n" {
			t.Errorf(`rest of the stream = %q, want "\ndata: 300000\n\n"`, string(rest))
		}
		_ = res.Body.Close()
	}
}

// A client that sends Expect: 100-continue gets either the upstream's status 100 or the upstream's refusal.
func TestExpectIsForwardedToUpstream(t *testing.T) {
	for status, firstResponse := range map[int]string{
		401: "HTTP/1.1 401 Unauthorized\r\nContent-Length: 2\r\n\r\nno",
		200: "HTTP/1.1 100 Continue\r\n\r\n",
	} {
		u := newRawUpstream(t, false, func(_ int, c net.Conn, r *http.Request) bool {
			_, _ = io.WriteString(c, firstResponse)
			if status != 200 {
				return false
			}
			b, _ := io.ReadAll(r.Body)
			fmt.Fprintf(c, "HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%s", len(b), b)
			return true
		})
		c := dial(t, startProxy(t, u.url))
		_, _ = io.WriteString(c, "POST /v1/files HTTP/1.1\r\nHost: x\r\nExpect: 100-continue\r\nContent-Length: 5\r\n\r\n")
		if status == 200 {
			if line, err := c.ReadString('\n'); err != nil {
				t.Fatal(err)
			} else if !strings.Contains(line, "100") {
				t.Fatalf(`status line = %q, want substring "100"`, line)
			}
			_, _ = c.ReadString('\n')
			_, _ = io.WriteString(c, "hello")
		}
		// net/http may wait for a refused request's body, to keep the connection open.
		if s := readReply(c.Reader, "POST"); s.status != status || status == 200 && s.body != "hello" {
			t.Errorf("request with Expect: the client got %+v, want status %d and, for status 200, body \"hello\"", s, status)
		}
	}
}

// A body that stalls for limits.client_write_timeout gets a 408. A slow body and an idle connection between two
// requests are allowed.
func TestStalledBodyEndsRequest(t *testing.T) {
	// These are the statuses for complete requests, because the feedback is invalid and the upstream is down.
	for path, status := range map[string]int{"/v1/feedback": http.StatusBadRequest, "/v1/chat/completions": http.StatusBadGateway} {
		synctest.Test(t, func(t *testing.T) {
			const limit = time.Minute
			l := &pipeListener{dialled: make(chan net.Conn)}
			srv := &http.Server{Handler: newHandler(t, "http://127.0.0.1:1", "limits.client_write_timeout=1m"), ReadHeaderTimeout: limit}
			go func() { _ = srv.Serve(l) }()
			defer func() { _ = srv.Close() }()
			c := l.dial()
			br := bufio.NewReader(c)
			_, _ = io.WriteString(c, "POST "+path+" HTTP/1.1\r\nHost: x\r\nContent-Length: 500\r\n\r\nx")
			for range 5 {
				time.Sleep(limit - time.Second)
				_, _ = io.WriteString(c, "x")
			}
			lastByte := time.Now()
			if s := readReply(br, "POST"); s.status != http.StatusRequestTimeout {
				t.Errorf("stalled body to %s: status = %d, want 408", path, s.status)
			} else if time.Since(lastByte) != limit {
				t.Errorf("stalled body to %s: duration = %v, want %v", path, time.Since(lastByte), limit)
			}
			c = l.dial()
			br = bufio.NewReader(c)
			for range 3 {
				_, _ = io.WriteString(c, "POST "+path+" HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\n\r\nhello")
				if s := readReply(br, "POST"); s.status != status {
					t.Errorf("request to %s on an idle connection: got %+v, want status %d", path, s, status)
				}
				time.Sleep(10 * limit)
			}
			_ = c.Close()
		})
	}
	// The path is not inspected, so the body is forwarded while it arrives.
	up := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { _, _ = io.Copy(io.Discard, r.Body) }))
	defer up.Close()
	c := dial(t, startProxy(t, up.URL, "limits.client_write_timeout=300ms"))
	_, _ = io.WriteString(c, "POST /v1/files HTTP/1.1\r\nHost: x\r\nContent-Length: 500\r\n\r\nx")
	if s := readReply(c.Reader, "POST"); s.status != http.StatusRequestTimeout {
		t.Errorf("stalled body, forwarded request: got %+v, want status 408", s)
	}
}

// pipeListener is a listener in memory. net.Pipe has no buffer, so a write blocks until the other end reads.
type pipeListener struct{ dialled chan net.Conn }

func (p *pipeListener) dial() net.Conn {
	clientEnd, serverEnd := net.Pipe()
	p.dialled <- serverEnd
	return clientEnd
}

func (p *pipeListener) Accept() (net.Conn, error) {
	c, ok := <-p.dialled
	if !ok {
		return nil, net.ErrClosed
	}
	return c, nil
}

func (p *pipeListener) Close() error   { close(p.dialled); return nil }
func (p *pipeListener) Addr() net.Addr { return &net.TCPAddr{} }

// The race detector fails the test if two goroutines access the response headers.
func TestEarlyResponseToLongBodyHasNoRace(t *testing.T) {
	part := fmt.Sprintf("%x\r\n%s\r\n", 65_000, strings.Repeat("x", 65_000))
	u := newRawUpstream(t, false, func(_ int, c net.Conn, _ *http.Request) bool {
		_, _ = io.WriteString(c, "HTTP/1.1 401 Unauthorized\r\nContent-Length: 3\r\n"+strings.Repeat("X-A: b\r\n", 200)+"\r\nbig")
		_, _ = io.Copy(io.Discard, c)
		return false
	})
	base := startProxy(t, u.url, "limits.body_bytes=100KiB")
	for range 20 {
		c := dial(t, base)
		_, _ = io.WriteString(c, "POST /v1/files HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n"+part+part)
		if s := readReply(c.Reader, "POST"); s.status != 401 && s.status != 413 {
			t.Errorf("early response = %+v, want status 401 or 413", s)
		}
		_ = c.Close()
	}
}
