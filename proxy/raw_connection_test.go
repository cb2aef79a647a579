package proxy_test

import (
	"bufio"
	"crypto/rand"
	"crypto/tls"
	"fmt"
	"io"
	"log"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/textproto"
	"net/url"
	"runtime"
	"sort"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"precept/bandit"
	"precept/configs"
	"precept/inject/lesson"
	"precept/internal/label"
	"precept/proxy"
	"precept/store"
)

const chatRequestFormat = `{"model":"m","messages":[{"role":"user","content":"number %d"}]}`

// newHandler returns a proxy that stores nothing. Each flag has the form KEY=VALUE.
func newHandler(t *testing.T, upstream string, flags ...string) http.Handler {
	t.Helper()
	all := map[string]string{"upstream": upstream + "/v1"}
	for _, f := range flags {
		k, v, _ := strings.Cut(f, "=")
		all[k] = v
	}
	cfg, err := configs.Parse(configs.Sources{Flags: all})
	if err != nil {
		t.Fatal(err)
	}
	st, err := store.Open(t.Context(), store.Options{
		Now: time.Now, Backend: store.NullBackend{}, LookupTimeout: time.Second, Queue: store.QueueOptions{MaxMemoryBytes: 64 << 20}, Content: store.ContentOptions{StoreContent: true},
		Hooks: store.Hooks{OnFailure: func(label.Step, error) {}, OnPanic: func(step label.Step, v any) { t.Errorf("step %s panicked: %v", step, v) }},
	})
	if err != nil {
		t.Fatal(err)
	}
	book, beliefs := lesson.NewBook(nil), bandit.New()
	p, err := proxy.New(proxy.Options{
		Config: cfg, Store: st, Tally: &st.Metrics, Chooser: func(string) *bandit.Chooser { return beliefs }, Book: func() *lesson.Book { return book }, Now: time.Now, Rand: rand.Reader,
		Fleet: proxy.FleetKeys{Salt: "test", Secret: []byte("secret")}, Log: slog.New(slog.DiscardHandler), Metrics: proxy.NewMetrics(prometheus.NewRegistry()),
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		p.Close()
		if err := st.Close(); err != nil {
			t.Error(err)
		}
	})
	return p.Handler()
}

func startProxy(t *testing.T, upstream string, flags ...string) string {
	t.Helper()
	srv := httptest.NewUnstartedServer(newHandler(t, upstream, flags...))
	srv.Config.ErrorLog = log.New(io.Discard, "", 0)
	srv.Start()
	t.Cleanup(srv.Close)
	return srv.URL
}

// startPlainProxy starts a server with Go's ReverseProxy, for comparison with precept.
func startPlainProxy(t *testing.T, upstream string) string {
	t.Helper()
	u, err := url.Parse(upstream)
	if err != nil {
		t.Fatal(err)
	}
	tr := &http.Transport{DisableCompression: true, ForceAttemptHTTP2: true, DisableKeepAlives: true, MaxResponseHeaderBytes: 1 << 20}
	srv := httptest.NewUnstartedServer(&httputil.ReverseProxy{
		Rewrite:   func(pr *httputil.ProxyRequest) { pr.SetURL(u) },
		Transport: tr, FlushInterval: -1, ErrorLog: log.New(io.Discard, "", 0),
	})
	srv.Config.ErrorLog = log.New(io.Discard, "", 0)
	srv.Start()
	t.Cleanup(func() { srv.Close(); tr.CloseIdleConnections() })
	return srv.URL
}

// rawUpstream is an upstream that writes raw bytes, so that a test can send malformed HTTP.
type rawUpstream struct {
	url      string
	requests atomic.Int64
	open     atomic.Int64 // open connections
}

// waitClosed waits until all connections are closed, so that the next request opens a new connection.
func (u *rawUpstream) waitClosed(t *testing.T) {
	t.Helper()
	for end := time.Now().Add(time.Minute); u.open.Load() > 0; runtime.Gosched() {
		if time.Now().After(end) {
			t.Fatalf("%d connections are still open after a minute", u.open.Load())
		}
	}
}

// newRawUpstream starts an upstream that calls serve after the headers of request n, counted from 1. serve reports
// whether the connection stays open.
func newRawUpstream(t *testing.T, secure bool, serve func(n int, c net.Conn, r *http.Request) (keepOpen bool)) *rawUpstream {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	u := &rawUpstream{url: "http://" + l.Addr().String()}
	if secure {
		u.url = "https://" + l.Addr().String()
		l = tls.NewListener(l, &tls.Config{Certificates: certificates(t)})
	}
	var all sync.WaitGroup
	var mu sync.Mutex
	var open []net.Conn
	all.Go(func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			mu.Lock()
			open = append(open, c)
			mu.Unlock()
			all.Go(func() {
				u.open.Add(1)
				defer func() { _ = c.Close(); u.open.Add(-1) }()
				br := bufio.NewReader(c)
				for {
					r, err := http.ReadRequest(br)
					if err != nil || !serve(int(u.requests.Add(1)), c, r) {
						return
					}
				}
			})
		}
	})
	t.Cleanup(func() {
		_ = l.Close()
		mu.Lock()
		for _, c := range open {
			_ = c.Close()
		}
		mu.Unlock()
		all.Wait()
	})
	return u
}

func certificates(t *testing.T) []tls.Certificate {
	t.Helper()
	srv := httptest.NewTLSServer(nil)
	defer srv.Close()
	return srv.TLS.Certificates
}

type clientReply struct {
	interim []string // 1xx responses
	status  int
	header  string
	body    string
	trailer string
	end     string // "whole", "cut" (the connection ended in the body), or "none" (no response)
}

func sendRaw(t *testing.T, base, head, body string) clientReply {
	t.Helper()
	c, err := net.Dial("tcp", strings.TrimPrefix(base, "http://"))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = c.Close() }()
	go func() {
		_, _ = io.WriteString(c, head+"\r\nHost: x\r\nContent-Length: "+fmt.Sprint(len(body))+"\r\n\r\n"+body)
	}()
	return readReply(bufio.NewReader(c), strings.Fields(head)[0])
}

func readReply(br *bufio.Reader, method string) (s clientReply) {
	for {
		res, err := http.ReadResponse(br, &http.Request{Method: method})
		if err != nil {
			s.end = "none"
			return s
		}
		if res.StatusCode < 200 && res.StatusCode != 101 {
			s.interim = append(s.interim, fmt.Sprint(res.StatusCode, headerLines(res.Header)))
			continue
		}
		b, err := io.ReadAll(res.Body)
		_ = res.Body.Close()
		s.status, s.header, s.body, s.trailer, s.end = res.StatusCode, headerLines(res.Header), string(b), headerLines(res.Trailer), "whole"
		if err != nil {
			s.end = "cut"
		}
		return s
	}
}

// headerLines returns sorted header lines, without Date and precept's headers.
func headerLines(h http.Header) string {
	var out []string
	for k, vv := range h {
		if strings.HasPrefix(k, "Precept-") || k == "Date" {
			continue
		}
		for _, v := range vv {
			out = append(out, k+": "+textproto.TrimString(v))
		}
	}
	sort.Strings(out)
	return strings.Join(out, "\n")
}

// serveReply reads the whole request and then writes response. Without keepOpen, it closes the connection for writing
// and waits until the proxy closes the connection.
func serveReply(response string, keepOpen bool) func(int, net.Conn, *http.Request) bool {
	return func(_ int, c net.Conn, r *http.Request) bool {
		_, _ = io.Copy(io.Discard, r.Body)
		_, _ = io.WriteString(c, response)
		if half, ok := c.(interface{ CloseWrite() error }); ok && !keepOpen {
			_ = half.CloseWrite()
			_, _ = io.Copy(io.Discard, c)
		}
		return keepOpen
	}
}
