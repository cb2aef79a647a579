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
	"sort"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"precept/bandit"
	"precept/configs"
	"precept/lesson"
	"precept/proxy"
	"precept/store"
)

// conversation is a turn that precept looks at.
const conversation = `{"model":"m","messages":[{"role":"user","content":"number %d"}]}`

// face starts precept before an upstream.
func face(t *testing.T, upstream string, flags ...string) string {
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
		Now: time.Now, Backend: store.Volatile{}, Lookup: time.Second, HoldBytes: 64 << 20, Learn: true,
		Failed: func(string, error) {}, Panicked: func(step string, v any) { t.Errorf("step %s panicked: %v", step, v) },
	})
	if err != nil {
		t.Fatal(err)
	}
	book, beliefs := lesson.NewBook(nil), bandit.New()
	p, err := proxy.New(proxy.Options{
		Config: cfg, Store: st, Beliefs: func(string) *bandit.Chooser { return beliefs }, Book: func() *lesson.Book { return book }, Now: time.Now, Rand: rand.Reader, Salt: "test",
		Secret: []byte("secret"), Log: slog.New(slog.DiscardHandler), Metrics: proxy.NewMetrics(prometheus.NewRegistry()),
	})
	if err != nil {
		t.Fatal(err)
	}
	srv := httptest.NewUnstartedServer(p.Handler())
	srv.Config.ErrorLog = log.New(io.Discard, "", 0)
	srv.Start()
	t.Cleanup(func() {
		srv.Close()
		p.Close()
		if err := st.Close(); err != nil {
			t.Error(err)
		}
	})
	return srv.URL
}

// plain starts Go's own reverse proxy before an upstream, as precept is measured by it.
func plain(t *testing.T, upstream string) string {
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

// rawUpstream speaks for itself: serve is called for each request, behind its headers, and says
// whether to go on with the connection. n counts the requests from 1.
type rawUpstream struct {
	url   string
	asked atomic.Int64
}

func newRaw(t *testing.T, secure bool, serve func(n int, c net.Conn, r *http.Request) (more bool)) *rawUpstream {
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
				defer func() { _ = c.Close() }()
				br := bufio.NewReader(c)
				for {
					r, err := http.ReadRequest(br)
					if err != nil || !serve(int(u.asked.Add(1)), c, r) {
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

// certificates are those of httptest's servers.
func certificates(t *testing.T) []tls.Certificate {
	t.Helper()
	srv := httptest.NewTLSServer(nil)
	defer srv.Close()
	return srv.TLS.Certificates
}

// seen is a reply as a client sees it.
type seen struct {
	interim []string
	status  int
	header  string
	body    string
	trailer string
	end     string // whole, cut, none
}

// ask sends one request on a connection of its own and reads all that comes.
func ask(t *testing.T, base, head, body string) seen {
	t.Helper()
	c, err := net.Dial("tcp", strings.TrimPrefix(base, "http://"))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = c.Close() }()
	_ = c.SetDeadline(time.Now().Add(10 * time.Second))
	go func() {
		_, _ = io.WriteString(c, head+"\r\nHost: x\r\nContent-Length: "+fmt.Sprint(len(body))+"\r\n\r\n"+body)
	}()
	return readReply(bufio.NewReader(c), strings.Fields(head)[0])
}

func readReply(br *bufio.Reader, method string) (s seen) {
	for {
		res, err := http.ReadResponse(br, &http.Request{Method: method})
		if err != nil {
			s.end = "none"
			return s
		}
		if res.StatusCode < 200 && res.StatusCode != 101 {
			s.interim = append(s.interim, fmt.Sprint(res.StatusCode, lines(res.Header)))
			continue
		}
		b, err := io.ReadAll(res.Body)
		_ = res.Body.Close()
		s.status, s.header, s.body, s.trailer, s.end = res.StatusCode, lines(res.Header), string(b), lines(res.Trailer), "whole"
		if err != nil {
			s.end = "cut"
		}
		return s
	}
}

// lines are headers in one order, without those that precept adds and the clock's.
func lines(h http.Header) string {
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

// reply is an upstream that reads the whole request and answers with these bytes.
func reply(wire string, more bool) func(int, net.Conn, *http.Request) bool {
	return func(_ int, c net.Conn, r *http.Request) bool {
		_, _ = io.Copy(io.Discard, r.Body)
		_, _ = io.WriteString(c, wire)
		return more
	}
}

// strangeWires are answers as an upstream may write them. Where want is empty precept does what
// Go's ReverseProxy does; elsewhere that one is no measure, and want is the status and the body.
var strangeWires = map[string]struct{ wire, want string }{ //nolint:gochecknoglobals // a table
	"by length":             {wire: "HTTP/1.1 200 OK\r\nContent-Type: a/b\r\nContent-Length: 5\r\n\r\nhello"},
	"chunked":               {wire: "HTTP/1.1 200 OK\r\nContent-Type: a/b\r\nTransfer-Encoding: chunked\r\n\r\n5;x=y\r\nhello\r\n0\r\n\r\n"},
	"until close":           {wire: "HTTP/1.1 200 OK\r\nContent-Type: a/b\r\n\r\nhello"},
	"http 1.0":              {wire: "HTTP/1.0 200 OK\r\nContent-Type: a/b\r\n\r\nhello"},
	"trailers":              {wire: "HTTP/1.1 200 OK\r\nContent-Type: a/b\r\nTrailer: X-Sum\r\nTransfer-Encoding: chunked\r\n\r\n1\r\na\r\n0\r\nX-Sum: 4\r\n\r\n"},
	"trailers unannounced":  {wire: "HTTP/1.1 200 OK\r\nContent-Type: a/b\r\nTransfer-Encoding: chunked\r\n\r\n1\r\na\r\n0\r\nX-Sum: 4\r\n\r\n"},
	"trailers, no body":     {wire: "HTTP/1.1 200 OK\r\nContent-Type: a/b\r\nTransfer-Encoding: chunked\r\n\r\n0\r\nX-Sum: 4\r\n\r\n"},
	"cut by length":         {wire: "HTTP/1.1 200 OK\r\nContent-Type: a/b\r\nContent-Length: 9\r\n\r\nhello"},
	"cut in a chunk":        {wire: "HTTP/1.1 200 OK\r\nContent-Type: a/b\r\nTransfer-Encoding: chunked\r\n\r\n9\r\nhello"},
	"cut behind a chunk":    {wire: "HTTP/1.1 200 OK\r\nContent-Type: a/b\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n"},
	"bad chunk size":        {wire: "HTTP/1.1 200 OK\r\nContent-Type: a/b\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\nxyz\r\n"},
	"bad chunk end":         {wire: "HTTP/1.1 200 OK\r\nContent-Type: a/b\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nhello\r\n0\r\n\r\n"},
	"endless chunk size":    {wire: "HTTP/1.1 200 OK\r\nContent-Type: a/b\r\nTransfer-Encoding: chunked\r\n\r\n" + strings.Repeat("f", 40) + "\r\nhello"},
	"nothing":               {wire: ""},
	"half headers":          {wire: "HTTP/1.1 200 OK\r\nContent-Le"},
	"another protocol":      {wire: "SSH-2.0-OpenSSH_9.9\r\n"},
	"204 with a body":       {wire: "HTTP/1.1 204 No Content\r\nContent-Length: 5\r\n\r\nhello"},
	"304 with a body":       {wire: "HTTP/1.1 304 Not Modified\r\nEtag: \"x\"\r\nContent-Length: 5\r\n\r\nhello"},
	"204 chunked":           {wire: "HTTP/1.1 204 No Content\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n"},
	"empty":                 {wire: "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n"},
	"empty, chunked":        {wire: "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n"},
	"empty error":           {wire: "HTTP/1.1 503 Service Unavailable\r\nContent-Length: 0\r\nRetry-After: 7\r\n\r\n"},
	"length and chunks":     {wire: "HTTP/1.1 200 OK\r\nContent-Type: a/b\r\nContent-Length: 3\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n"},
	"two lengths":           {wire: "HTTP/1.1 200 OK\r\nContent-Length: 5\r\nContent-Length: 6\r\n\r\nhello!"},
	"one length twice":      {wire: "HTTP/1.1 200 OK\r\nContent-Type: a/b\r\nContent-Length: 5\r\nContent-Length: 5\r\n\r\nhello"},
	"negative length":       {wire: "HTTP/1.1 200 OK\r\nContent-Length: -5\r\n\r\nhello"},
	"unknown encoding":      {wire: "HTTP/1.1 200 OK\r\nTransfer-Encoding: br\r\n\r\nhello"},
	"no type":               {wire: "HTTP/1.1 200 OK\r\nContent-Length: 15\r\n\r\n<html>hi</html>", want: "200 <html>hi</html>"},
	"no type, chunked":      {wire: "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\n{\"a\":\r\n2\r\n1}\r\n0\r\n\r\n", want: "200 {\"a\":1}"},
	"empty type":            {wire: "HTTP/1.1 200 OK\r\nContent-Type:\r\nContent-Length: 5\r\n\r\nhello"},
	"100":                   {wire: "HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200 OK\r\nContent-Type: a/b\r\nContent-Length: 5\r\n\r\nhello"},
	"103":                   {wire: "HTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\nHTTP/1.1 200 OK\r\nContent-Type: a/b\r\nContent-Length: 5\r\n\r\nhello"},
	"102 many times":        {wire: strings.Repeat("HTTP/1.1 102 Processing\r\n\r\n", 20) + "HTTP/1.1 200 OK\r\nContent-Type: a/b\r\nContent-Length: 5\r\n\r\nhello"},
	"103 and no more":       {wire: "HTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\n"},
	"101":                   {wire: "HTTP/1.1 101 Switching Protocols\r\nUpgrade: x\r\nConnection: Upgrade\r\n\r\n", want: "502"},
	"101 to nothing":        {wire: "HTTP/1.1 101 Switching Protocols\r\n\r\nhello", want: "502"},
	"status 099":            {wire: "HTTP/1.1 099 Odd\r\nContent-Length: 5\r\n\r\nhello", want: "502"},
	"status 999":            {wire: "HTTP/1.1 999 Odd\r\nContent-Type: a/b\r\nContent-Length: 5\r\n\r\nhello"},
	"status abc":            {wire: "HTTP/1.1 abc Odd\r\nContent-Length: 5\r\n\r\nhello"},
	"no reason":             {wire: "HTTP/1.1 200\r\nContent-Type: a/b\r\nContent-Length: 5\r\n\r\nhello"},
	"large headers":         {wire: "HTTP/1.1 200 OK\r\nContent-Type: a/b\r\nContent-Length: 5\r\nX-Big: " + strings.Repeat("x", 900<<10) + "\r\n\r\nhello"},
	"too large headers":     {wire: "HTTP/1.1 200 OK\r\nContent-Length: 5\r\nX-Big: " + strings.Repeat("x", 2<<20) + "\r\n\r\nhello"},
	"many headers":          {wire: "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n" + strings.Repeat("X-A: b\r\n", 200<<10) + "\r\nhello"},
	"folded header":         {wire: "HTTP/1.1 200 OK\r\nContent-Type: a/b\r\nContent-Length: 5\r\nX-A: b\r\n c\r\n\r\nhello"},
	"header without colon":  {wire: "HTTP/1.1 200 OK\r\nContent-Length: 5\r\nnonsense\r\n\r\nhello"},
	"header name with room": {wire: "HTTP/1.1 200 OK\r\nContent-Type: a/b\r\nContent-Length: 5\r\nX A: b\r\n\r\nhello"},
	"cookies":               {wire: "HTTP/1.1 200 OK\r\nContent-Type: a/b\r\nContent-Length: 5\r\nSet-Cookie: a=1\r\nSet-Cookie: b=2\r\n\r\nhello"},
	"headers of one hop":    {wire: "HTTP/1.1 200 OK\r\nContent-Type: a/b\r\nContent-Length: 5\r\nConnection: X-Hop, close\r\nX-Hop: 1\r\nKeep-Alive: timeout=5\r\n\r\nhello"},
	"encoded unasked":       {wire: "HTTP/1.1 200 OK\r\nContent-Type: a/b\r\nContent-Encoding: gzip\r\nContent-Length: 5\r\n\r\n\x1f\x8b\x08xx"},
	"headers of precept":    {wire: "HTTP/1.1 200 OK\r\nContent-Type: a/b\r\nContent-Length: 5\r\nPrecept-Session: evil\r\n\r\nhello"},
	"surplus":               {wire: "HTTP/1.1 200 OK\r\nContent-Type: a/b\r\nContent-Length: 5\r\n\r\nhelloHTTP/1.1 200 OK\r\nContent-Length: 6\r\n\r\nstolen"},
	"surplus behind chunks": {wire: "HTTP/1.1 200 OK\r\nContent-Type: a/b\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 6\r\n\r\nstolen"},
}

// Whatever an upstream writes, over TCP or TLS, a client of precept sees what one of Go's own
// reverse proxy does, or better.
func TestStrangeUpstreams(t *testing.T) {
	heads := map[string]string{"chat": "POST /v1/chat/completions HTTP/1.1", "models": "GET /v1/models HTTP/1.1", "old": "POST /v1/chat/completions HTTP/1.0"}
	for name, k := range strangeWires {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			for _, secure := range []bool{false, true} {
				ours := face(t, newRaw(t, secure, reply(k.wire, strings.HasPrefix(name, "surplus"))).url)
				theirs := plain(t, newRaw(t, secure, reply(k.wire, false)).url)
				for what, head := range heads {
					body := ""
					if what != "models" {
						body = fmt.Sprintf(conversation, 1)
					}
					for range 2 {
						time.Sleep(20 * time.Millisecond) // until the upstream has hung up
						compare(t, fmt.Sprint(what, " secure=", secure), k.want, ask(t, ours, head, body), func() seen { return ask(t, theirs, head, body) })
					}
				}
			}
		})
	}
}

// compare holds what precept's client saw against what is wanted.
func compare(t *testing.T, what, want string, got seen, theirs func() seen) {
	t.Helper()
	if want != "" {
		if s := fmt.Sprint(got.status, " ", got.body); got.end != "whole" || !strings.HasPrefix(s, want) || strings.Contains(got.header, "Content-Type") && got.status == 200 {
			t.Errorf("%s: %+v, want %q", what, got, want)
		}
		return
	}
	ref := theirs()
	if ref.status == http.StatusBadGateway && got.status == http.StatusBadGateway { // the page is our own
		got.header, got.body = ref.header, ref.body
	}
	if got.body == "" && ref.body == "" && (got.status == 0 || ref.status == 0) && got.status != http.StatusBadGateway {
		return // both were cut, one before its headers went out
	}
	if got.body == "" && ref.body == "" { // said or not, as it happens
		got.header, ref.header = strings.Replace(got.header, "Content-Length: 0", "", 1), strings.Replace(ref.header, "Content-Length: 0", "", 1)
	}
	if strings.HasPrefix(what, "old") { // no interim responses for a client that does not know them
		ref.interim = nil
	}
	if fmt.Sprintf("%.2000q", fmt.Sprint(got)) != fmt.Sprintf("%.2000q", fmt.Sprint(ref)) {
		t.Errorf("%s: %.500s\nplain: %.500s", what, fmt.Sprintf("%+v", got), fmt.Sprintf("%+v", ref))
	}
}

// The same over HTTP/2, where the frames are net/http's and the handlers strange.
func TestStrangeUpstreamsHTTP2(t *testing.T) {
	flush := func(w http.ResponseWriter) { _ = http.NewResponseController(w).Flush() }
	for name, handler := range map[string]http.HandlerFunc{
		"plain":    func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "hello") },
		"empty":    func(http.ResponseWriter, *http.Request) {},
		"204":      func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusNoContent) },
		"headers":  func(w http.ResponseWriter, _ *http.Request) { w.Header().Set("X-Big", strings.Repeat("x", 900<<10)) },
		"too many": func(w http.ResponseWriter, _ *http.Request) { w.Header().Set("X-Big", strings.Repeat("x", 2<<20)) },
		"interim": func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Link", "</a>")
			w.WriteHeader(http.StatusEarlyHints)
			_, _ = io.WriteString(w, "hello")
		},
		"trailers": func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Trailer", "X-Sum")
			flush(w)
			_, _ = io.WriteString(w, "hello")
			w.Header().Set("X-Sum", "4")
			w.Header().Set(http.TrailerPrefix+"X-Late", "5")
		},
		"never answers": func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) },
		"cut": func(w http.ResponseWriter, _ *http.Request) {
			_, _ = io.WriteString(w, "hello")
			flush(w)
			panic(http.ErrAbortHandler)
		},
		"refuses": func(w http.ResponseWriter, _ *http.Request) {
			w.WriteHeader(http.StatusTooManyRequests)
			_, _ = io.WriteString(w, "slow down")
		},
	} {
		t.Run(name, func(t *testing.T) {
			var proto atomic.Value
			srv := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				proto.Store(r.Proto)
				_, _ = io.Copy(io.Discard, r.Body) // net/http may cut an answer when its request is left unread
				w.Header().Set("Content-Type", "a/b")
				handler(w, r)
			}))
			srv.EnableHTTP2, srv.Config.ErrorLog = true, log.New(io.Discard, "", 0)
			srv.StartTLS()
			defer srv.Close()
			ours, theirs := face(t, srv.URL), plain(t, srv.URL)
			for _, head := range []string{"POST /v1/chat/completions HTTP/1.1", "GET /v1/models HTTP/1.1"} {
				body := strings.Repeat(" ", 1<<20) + fmt.Sprintf(conversation, 1)
				if strings.HasPrefix(head, "GET") {
					body = ""
				}
				compare(t, head, "", ask(t, ours, head, body), func() seen { return ask(t, theirs, head, body) })
			}
			if proto.Load() != "HTTP/2.0" {
				t.Errorf("asked over %v", proto.Load())
			}
		})
	}
}

// What an upstream sends behind its response is nobody's answer, however many clients wait for one.
func TestSurplusIsNobodysAnswer(t *testing.T) {
	for _, secure := range []bool{false, true} {
		u := newRaw(t, secure, func(_ int, c net.Conn, r *http.Request) bool {
			b, _ := io.ReadAll(r.Body)
			_, err := fmt.Fprintf(c, "HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%sHTTP/1.1 200 OK\r\nContent-Length: 6\r\n\r\nstolen", len(b), b)
			return err == nil
		})
		base := face(t, u.url)
		var wrong, failed atomic.Int64
		var all sync.WaitGroup
		const clients, each = 12, 40
		for client := range clients {
			all.Go(func() {
				for i := range each {
					body := fmt.Sprintf(conversation, client*1000+i)
					if s := ask(t, base, "POST /v1/chat/completions HTTP/1.1", body); s.status == http.StatusBadGateway {
						failed.Add(1)
					} else if s.body != body {
						wrong.Add(1)
					}
				}
			})
		}
		all.Wait()
		if wrong.Load() > 0 || failed.Load() > clients*each/20 || u.asked.Load() > clients*each {
			t.Errorf("secure=%v: %d wrong answers, %d failed, %d requests for %d", secure, wrong.Load(), failed.Load(), u.asked.Load(), clients*each)
		}
	}
}

// A request that the upstream may have read is sent once, whatever becomes of its connection.
func TestNothingIsPaidTwice(t *testing.T) {
	for _, secure := range []bool{false, true} {
		u := newRaw(t, secure, func(n int, c net.Conn, r *http.Request) bool {
			_, _ = io.Copy(io.Discard, r.Body)
			if n%4 == 0 { // it has worked, and dies
				return false
			}
			_, _ = io.WriteString(c, "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok")
			return true
		})
		base := face(t, u.url)
		failed := 0
		const n = 40
		for i := range n {
			if s := ask(t, base, "POST /v1/chat/completions HTTP/1.1", fmt.Sprintf(conversation, i)); s.status == http.StatusBadGateway {
				failed++
			} else if s.body != "ok" {
				t.Errorf("%+v", s)
			}
		}
		if failed != n/4 || u.asked.Load() != n {
			t.Errorf("secure=%v: %d failed, %d requests for %d", secure, failed, u.asked.Load(), n)
		}
	}
}
