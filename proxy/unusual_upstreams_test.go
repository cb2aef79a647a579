package proxy_test

import (
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
)

const eventStreamHead = "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\r\n"

// unusualResponses are responses from an upstream. If want is empty, precept must answer like Go's ReverseProxy.
// Otherwise the answer's status and body must begin with want.
var unusualResponses = map[string]struct{ response, want string }{ //nolint:gochecknoglobals // a table
	"Content-Length":                {response: "HTTP/1.1 200 OK\r\nContent-Type: a/b\r\nContent-Length: 5\r\n\r\nhello"},
	"chunked":                       {response: "HTTP/1.1 200 OK\r\nContent-Type: a/b\r\nTransfer-Encoding: chunked\r\n\r\n5;x=y\r\nhello\r\n0\r\n\r\n"},
	"until the connection closes":   {response: "HTTP/1.1 200 OK\r\nContent-Type: a/b\r\n\r\nhello"},
	"HTTP/1.0":                      {response: "HTTP/1.0 200 OK\r\nContent-Type: a/b\r\n\r\nhello"},
	"trailers":                      {response: "HTTP/1.1 200 OK\r\nContent-Type: a/b\r\nTrailer: X-Sum\r\nTransfer-Encoding: chunked\r\n\r\n1\r\na\r\n0\r\nX-Sum: 4\r\n\r\n"},
	"unannounced trailers":          {response: "HTTP/1.1 200 OK\r\nContent-Type: a/b\r\nTransfer-Encoding: chunked\r\n\r\n1\r\na\r\n0\r\nX-Sum: 4\r\n\r\n"},
	"trailers without a body":       {response: "HTTP/1.1 200 OK\r\nContent-Type: a/b\r\nTransfer-Encoding: chunked\r\n\r\n0\r\nX-Sum: 4\r\n\r\n"},
	"shorter than Content-Length":   {response: "HTTP/1.1 200 OK\r\nContent-Type: a/b\r\nContent-Length: 9\r\n\r\nhello"},
	"cut in a chunk":                {response: "HTTP/1.1 200 OK\r\nContent-Type: a/b\r\nTransfer-Encoding: chunked\r\n\r\n9\r\nhello"},
	"cut after a chunk":             {response: "HTTP/1.1 200 OK\r\nContent-Type: a/b\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n"},
	"bad chunk size":                {response: "HTTP/1.1 200 OK\r\nContent-Type: a/b\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\nxyz\r\n"},
	"bad chunk end":                 {response: "HTTP/1.1 200 OK\r\nContent-Type: a/b\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nhello\r\n0\r\n\r\n"},
	"huge chunk size":               {response: "HTTP/1.1 200 OK\r\nContent-Type: a/b\r\nTransfer-Encoding: chunked\r\n\r\n" + strings.Repeat("f", 40) + "\r\nhello"},
	"no response":                   {response: ""},
	"cut in the headers":            {response: "HTTP/1.1 200 OK\r\nContent-Le"},
	"SSH server":                    {response: "SSH-2.0-OpenSSH_9.9\r\n"},
	"204 with a body":               {response: "HTTP/1.1 204 No Content\r\nContent-Length: 5\r\n\r\nhello"},
	"304 with a body":               {response: "HTTP/1.1 304 Not Modified\r\nEtag: \"x\"\r\nContent-Length: 5\r\n\r\nhello"},
	"204 chunked":                   {response: "HTTP/1.1 204 No Content\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n"},
	"empty":                         {response: "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n"},
	"empty, chunked":                {response: "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n"},
	"empty error":                   {response: "HTTP/1.1 503 Service Unavailable\r\nContent-Length: 0\r\nRetry-After: 7\r\n\r\n"},
	"Content-Length and chunked":    {response: "HTTP/1.1 200 OK\r\nContent-Type: a/b\r\nContent-Length: 3\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n"},
	"two different Content-Lengths": {response: "HTTP/1.1 200 OK\r\nContent-Length: 5\r\nContent-Length: 6\r\n\r\nhello!"},
	"two equal Content-Lengths":     {response: "HTTP/1.1 200 OK\r\nContent-Type: a/b\r\nContent-Length: 5\r\nContent-Length: 5\r\n\r\nhello"},
	"negative Content-Length":       {response: "HTTP/1.1 200 OK\r\nContent-Length: -5\r\n\r\nhello"},
	"unknown Transfer-Encoding":     {response: "HTTP/1.1 200 OK\r\nTransfer-Encoding: br\r\n\r\nhello"},
	"no Content-Type":               {response: "HTTP/1.1 200 OK\r\nContent-Length: 15\r\n\r\n<html>hi</html>", want: "200 <html>hi</html>"},
	"no Content-Type, chunked":      {response: "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\n{\"a\":\r\n2\r\n1}\r\n0\r\n\r\n", want: "200 {\"a\":1}"},
	"empty Content-Type":            {response: "HTTP/1.1 200 OK\r\nContent-Type:\r\nContent-Length: 5\r\n\r\nhello"},
	"100 Continue":                  {response: "HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200 OK\r\nContent-Type: a/b\r\nContent-Length: 5\r\n\r\nhello"},
	"103 Early Hints":               {response: "HTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\nHTTP/1.1 200 OK\r\nContent-Type: a/b\r\nContent-Length: 5\r\n\r\nhello"},
	"twenty 102":                    {response: strings.Repeat("HTTP/1.1 102 Processing\r\n\r\n", 20) + "HTTP/1.1 200 OK\r\nContent-Type: a/b\r\nContent-Length: 5\r\n\r\nhello"},
	"103 without a response":        {response: "HTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\n"},
	"101":                           {response: "HTTP/1.1 101 Switching Protocols\r\nUpgrade: x\r\nConnection: Upgrade\r\n\r\n", want: "502"},
	"101 without Upgrade":           {response: "HTTP/1.1 101 Switching Protocols\r\n\r\nhello", want: "502"},
	"status 099":                    {response: "HTTP/1.1 099 Odd\r\nContent-Length: 5\r\n\r\nhello", want: "502"},
	"status 999":                    {response: "HTTP/1.1 999 Odd\r\nContent-Type: a/b\r\nContent-Length: 5\r\n\r\nhello"},
	"status abc":                    {response: "HTTP/1.1 abc Odd\r\nContent-Length: 5\r\n\r\nhello"},
	"no reason phrase":              {response: "HTTP/1.1 200\r\nContent-Type: a/b\r\nContent-Length: 5\r\n\r\nhello"},
	"large headers":                 {response: "HTTP/1.1 200 OK\r\nContent-Type: a/b\r\nContent-Length: 5\r\nX-Big: " + strings.Repeat("x", 900<<10) + "\r\n\r\nhello"},
	"too large headers":             {response: "HTTP/1.1 200 OK\r\nContent-Length: 5\r\nX-Big: " + strings.Repeat("x", 2<<20) + "\r\n\r\nhello"},
	"many headers":                  {response: "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n" + strings.Repeat("X-A: b\r\n", 200<<10) + "\r\nhello"},
	"folded header":                 {response: "HTTP/1.1 200 OK\r\nContent-Type: a/b\r\nContent-Length: 5\r\nX-A: b\r\n c\r\n\r\nhello"},
	"header without colon":          {response: "HTTP/1.1 200 OK\r\nContent-Length: 5\r\nnonsense\r\n\r\nhello"},
	"header name with space":        {response: "HTTP/1.1 200 OK\r\nContent-Type: a/b\r\nContent-Length: 5\r\nX A: b\r\n\r\nhello"},
	"cookies":                       {response: "HTTP/1.1 200 OK\r\nContent-Type: a/b\r\nContent-Length: 5\r\nSet-Cookie: a=1\r\nSet-Cookie: b=2\r\n\r\nhello"},
	"hop-by-hop headers":            {response: "HTTP/1.1 200 OK\r\nContent-Type: a/b\r\nContent-Length: 5\r\nConnection: X-Hop, close\r\nX-Hop: 1\r\nKeep-Alive: timeout=5\r\n\r\nhello"},
	"unrequested gzip":              {response: "HTTP/1.1 200 OK\r\nContent-Type: a/b\r\nContent-Encoding: gzip\r\nContent-Length: 5\r\n\r\n\x1f\x8b\x08xx"},
	"precept header":                {response: "HTTP/1.1 200 OK\r\nContent-Type: a/b\r\nContent-Length: 5\r\nPrecept-Session: evil\r\n\r\nhello"},
	"events, CRLF":                  {response: eventStreamHead + "data: {}\r\n\r\ndata: [DONE]\r\n\r\n"},
	"events, lone CR":               {response: eventStreamHead + "data: {}\r\rdata: [DONE]\r\r"},
	"events, BOM, comments":         {response: eventStreamHead + "\xef\xbb\xbf: hello\n\n:\nid: 1\nretry: 5\nevent: x\ndata\n\ndata: [DONE]\n\n"},
	"events, cut in a line":         {response: eventStreamHead + "data: {}\n\ndata: {\"choi"},
	"events, one 3 MiB long":        {response: eventStreamHead + "data: {\"choices\":[{\"delta\":{\"content\":\"" + strings.Repeat("x", 3<<20) + "\"}}]}\n\n"},
	"events, invalid UTF-8":         {response: eventStreamHead + "data: \xff\xfe\x00\n\ndata: {\"choices\":1}\n\ndata: [\n\n"},
	"events in zstd":                {response: "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nContent-Encoding: zstd\r\n\r\n\x28\xb5\x2f\xfdxxxx"},
	"brotli, cut":                   {response: "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Encoding: br\r\nContent-Length: 9\r\n\r\n\x0b\x02\x80"},
	"surplus after Content-Length":  {response: "HTTP/1.1 200 OK\r\nContent-Type: a/b\r\nContent-Length: 5\r\n\r\nhelloHTTP/1.1 200 OK\r\nContent-Length: 6\r\n\r\nstolen"},
	"surplus after chunks":          {response: "HTTP/1.1 200 OK\r\nContent-Type: a/b\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 6\r\n\r\nstolen"},
}

func TestUnusualUpstreamsMatchReverseProxy(t *testing.T) {
	requestLines := map[string]string{"chat": "POST /v1/chat/completions HTTP/1.1", "models": "GET /v1/models HTTP/1.1", "HTTP/1.0": "POST /v1/chat/completions HTTP/1.0"}
	for name, tc := range unusualResponses {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			for _, secure := range []bool{false, true} {
				up := newRawUpstream(t, secure, serveReply(tc.response, strings.HasPrefix(name, "surplus")))
				preceptURL := startProxy(t, up.url)
				plainURL := startPlainProxy(t, newRawUpstream(t, secure, serveReply(tc.response, false)).url)
				for request, head := range requestLines {
					body := ""
					if request != "models" {
						body = fmt.Sprintf(chatRequestFormat, 1)
					}
					for range 2 {
						up.waitClosed(t)
						checkSameReply(t, fmt.Sprint(request, " secure=", secure), tc.want, sendRaw(t, preceptURL, head, body), func() clientReply { return sendRaw(t, plainURL, head, body) })
					}
				}
			}
		})
	}
}

// checkSameReply checks that a reply begins with want or, if want is empty, equals the plain proxy's reply.
func checkSameReply(t *testing.T, name, want string, got clientReply, sendPlain func() clientReply) {
	t.Helper()
	if want != "" {
		if s := fmt.Sprint(got.status, " ", got.body); got.end != "whole" || !strings.HasPrefix(s, want) || strings.Contains(got.header, "Content-Type") && got.status == 200 {
			t.Errorf("%s: got %+v, want a whole response that begins with %q and, for status 200, no Content-Type", name, got, want)
		}
		return
	}
	ref := sendPlain()
	if ref.status == http.StatusBadGateway && got.status == http.StatusBadGateway { // precept writes its own error body
		got.header, got.body = ref.header, ref.body
	}
	if got.body == "" && ref.body == "" && (got.status == 0 || ref.status == 0) && got.status != http.StatusBadGateway {
		return // both responses were truncated, one before the headers were sent
	}
	if got.body == "" && ref.body == "" { // the header is optional for an empty body
		got.header, ref.header = strings.Replace(got.header, "Content-Length: 0", "", 1), strings.Replace(ref.header, "Content-Length: 0", "", 1)
	}
	if strings.HasPrefix(name, "HTTP/1.0") { // HTTP/1.0 has no interim responses
		ref.interim = nil
	}
	if fmt.Sprintf("%.2000q", fmt.Sprint(got)) != fmt.Sprintf("%.2000q", fmt.Sprint(ref)) {
		t.Errorf("%s: got %.500s\nwant the same response as from ReverseProxy, %.500s", name, fmt.Sprintf("%+v", got), fmt.Sprintf("%+v", ref))
	}
}

func TestUnusualHTTP2UpstreamsMatchReverseProxy(t *testing.T) {
	flush := func(w http.ResponseWriter) { _ = http.NewResponseController(w).Flush() }
	for name, handler := range map[string]http.HandlerFunc{
		"plain":            func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "hello") },
		"empty":            func(http.ResponseWriter, *http.Request) {},
		"204":              func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusNoContent) },
		"large header":     func(w http.ResponseWriter, _ *http.Request) { w.Header().Set("X-Big", strings.Repeat("x", 900<<10)) },
		"too large header": func(w http.ResponseWriter, _ *http.Request) { w.Header().Set("X-Big", strings.Repeat("x", 2<<20)) },
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
		"aborted": func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) },
		"cut in the body": func(w http.ResponseWriter, _ *http.Request) {
			_, _ = io.WriteString(w, "hello")
			flush(w)
			panic(http.ErrAbortHandler)
		},
		"429": func(w http.ResponseWriter, _ *http.Request) {
			w.WriteHeader(http.StatusTooManyRequests)
			_, _ = io.WriteString(w, "slow down")
		},
	} {
		t.Run(name, func(t *testing.T) {
			var proto atomic.Value
			srv := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				proto.Store(r.Proto)
				_, _ = io.Copy(io.Discard, r.Body) // otherwise net/http may truncate the response
				w.Header().Set("Content-Type", "a/b")
				handler(w, r)
			}))
			srv.EnableHTTP2, srv.Config.ErrorLog = true, log.New(io.Discard, "", 0)
			srv.StartTLS()
			defer srv.Close()
			preceptURL, plainURL := startProxy(t, srv.URL), startPlainProxy(t, srv.URL)
			for _, head := range []string{"POST /v1/chat/completions HTTP/1.1", "GET /v1/models HTTP/1.1"} {
				body := strings.Repeat(" ", 1<<20) + fmt.Sprintf(chatRequestFormat, 1)
				if strings.HasPrefix(head, "GET") {
					body = ""
				}
				checkSameReply(t, head, "", sendRaw(t, preceptURL, head, body), func() clientReply { return sendRaw(t, plainURL, head, body) })
			}
			if proto.Load() != "HTTP/2.0" {
				t.Errorf("the upstream got the request over %v, want HTTP/2.0", proto.Load())
			}
		})
	}
}

// The upstream sends a second, unrequested response after each response. The proxy must not use it as the answer to the
// next request on the connection. The next request may fail, and often does on machines with many cores.
func TestSurplusBytesNeverAnswerAnotherRequest(t *testing.T) {
	for _, secure := range []bool{false, true} {
		u := newRawUpstream(t, secure, func(_ int, c net.Conn, r *http.Request) bool {
			b, _ := io.ReadAll(r.Body)
			_, err := fmt.Fprintf(c, "HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%sHTTP/1.1 200 OK\r\nContent-Length: 6\r\n\r\nstolen", len(b), b)
			return err == nil
		})
		base := startProxy(t, u.url)
		var wrong, failed atomic.Int64
		var all sync.WaitGroup
		const clients, each = 12, 40
		for client := range clients {
			all.Go(func() {
				for i := range each {
					body := fmt.Sprintf(chatRequestFormat, client*1000+i)
					if s := sendRaw(t, base, "POST /v1/chat/completions HTTP/1.1", body); s.status == http.StatusBadGateway {
						failed.Add(1)
					} else if s.body != body {
						wrong.Add(1)
					}
				}
			})
		}
		all.Wait()
		if wrong.Load() > 0 {
			t.Errorf("secure=%v: wrong = %d, want 0", secure, wrong.Load())
		}
		if failed.Load() > clients*each/4 {
			t.Errorf("secure=%v: failed = %d, want at most %d", secure, failed.Load(), clients*each/4)
		}
		if u.requests.Load() > clients*each {
			t.Errorf("secure=%v: requests = %d, want at most %d", secure, u.requests.Load(), clients*each)
		}
	}
}

// The proxy must not repeat a request after the connection has broken, because the upstream may have read the request.
func TestRequestOnBrokenConnectionIsSentOnce(t *testing.T) {
	for _, secure := range []bool{false, true} {
		u := newRawUpstream(t, secure, func(n int, c net.Conn, r *http.Request) bool {
			_, _ = io.Copy(io.Discard, r.Body)
			if n%4 == 0 { // close the connection without a response
				return false
			}
			_, _ = io.WriteString(c, "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok")
			return true
		})
		base := startProxy(t, u.url)
		failed := 0
		const n = 40
		for i := range n {
			if s := sendRaw(t, base, "POST /v1/chat/completions HTTP/1.1", fmt.Sprintf(chatRequestFormat, i)); s.status == http.StatusBadGateway {
				failed++
			} else if s.body != "ok" {
				t.Errorf("request %d: got %+v, want body \"ok\" or status 502", i, s)
			}
		}
		if failed != n/4 {
			t.Errorf("secure=%v: failed = %d, want %d", secure, failed, n/4)
		}
		if u.requests.Load() != n {
			t.Errorf("secure=%v: requests = %d, want %d", secure, u.requests.Load(), n)
		}
	}
}
