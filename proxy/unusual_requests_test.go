package proxy_test

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
)

func echoRequest(_ int, c net.Conn, r *http.Request) bool {
	b, err := io.ReadAll(r.Body)
	if err != nil {
		return false
	}
	r.Header.Del("Accept-Encoding") // precept requests identity on inspected paths
	if r.Header.Get("Connection") == "close" {
		r.Header.Del("Connection") // the plain proxy adds this header
	}
	description := fmt.Sprintf("%s %s %s\n%s\nlength %d %q\n%s\n%s", r.Method, r.RequestURI, r.Proto, headerLines(r.Header), r.ContentLength, r.TransferEncoding, b, headerLines(r.Trailer))
	if r.Method == http.MethodHead {
		description = ""
	}
	_, err = fmt.Fprintf(c, "HTTP/1.1 200 OK\r\nContent-Type: a/b\r\nContent-Length: %d\r\n\r\n%s", len(description), description)
	return err == nil
}

func sendBytes(t *testing.T, base, method, bytes string) clientReply {
	t.Helper()
	c, err := net.Dial("tcp", strings.TrimPrefix(base, "http://"))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = c.Close() }()
	go func() { _, _ = io.WriteString(c, bytes) }()
	return readReply(bufio.NewReader(c), method)
}

// An unusual request must reach the upstream in the same form as through Go's ReverseProxy, or with the client's bytes
// where ReverseProxy would change the request.
func TestUnusualRequestsMatchReverseProxy(t *testing.T) {
	up := newRawUpstream(t, false, echoRequest)
	preceptURL, plainURL := startProxy(t, up.url), startPlainProxy(t, up.url)
	hi := fmt.Sprintf(chatRequestFormat, 1)
	chunks := fmt.Sprintf("%x;a=b\r\n%s\r\n%x\r\n%s\r\n0\r\n", 10, hi[:10], len(hi)-10, hi[10:])
	for name, tc := range map[string]struct {
		head     string // request line without HTTP/1.1, and headers
		body     string
		wantLine string // expected request line; "" means the same line as from ReverseProxy
		wantPart string // expected part of the status and the body; "" means the same response as from ReverseProxy
	}{
		"repeated slashes":        {head: "GET /v1/files//models///x/"},
		"escaped slash":           {head: "GET /v1/files/a%2fb%2F..%2Fc"},
		"dot segments":            {head: "GET /v1/files/../models/./x", wantLine: "GET /v1/files/../models/./x HTTP/1.1"},
		"unusual escapes":         {head: "GET /v1/files/%41%7e~%20+%C3%BC%ff"},
		"semicolons in the query": {head: "GET /v1/files?a=1;b=2&c=%3B;", wantLine: "GET /v1/files?a=1;b=2&c=%3B; HTTP/1.1"},
		"empty query":             {head: "GET /v1/files?"},
		"invalid query":           {head: "GET /v1/files?%zz&=&a==b&&", wantLine: "GET /v1/files?%zz&=&a==b&& HTTP/1.1"},
		"absolute URL":            {head: "GET http://elsewhere.example/v1/models"},
		"HEAD":                    {head: "HEAD /v1/models"},
		"OPTIONS":                 {head: "OPTIONS /v1/chat/completions\r\nOrigin: http://a.example\r\nAccess-Control-Request-Method: POST"},
		"GET on inspected path":   {head: "GET /v1/chat/completions?limit=2"},
		"unknown method":          {head: "BREW /v1/models"},
		"GET with a body":         {head: "GET /v1/models", body: "hello"},
		"DELETE with a body":      {head: "DELETE /v1/files/x", body: "hello"},
		"hop-by-hop headers": {
			head: "POST /v1/files\r\nConnection: X-Hop, keep-alive\r\nX-Hop: 1\r\nKeep-Alive: timeout=5\r\nTe: trailers, deflate\r\nProxy-Connection: close\r\nProxy-Authorization: Basic eA==",
			body: "hello",
		},
		"repeated headers":           {head: "GET /v1/models\r\nX-A: 1\r\nX-A: 2\r\nx-a: \t3 \r\nCookie: a=1\r\nCookie: b=2"},
		"empty header":               {head: "GET /v1/models\r\nX-Empty:\r\nAuthorization: "},
		"non-ASCII header value":     {head: "GET /v1/models\r\nX-Bytes: \xff\xc3\xbc"},
		"body not JSON":              {head: "POST /v1/chat/completions\r\nContent-Type: application/json", body: "{\"messages\":[" + strings.Repeat("[", 300)},
		"empty body":                 {head: "POST /v1/chat/completions"},
		"Expect: 100-continue":       {head: "POST /v1/files\r\nExpect: 100-continue", body: "hello"},
		"Content-Length with a plus": {head: "POST /v1/files\r\nContent-Length: +5\r\nX-Body: hello"},
		"chunks with extensions":     {head: "POST /v1/files\r\nTransfer-Encoding: chunked", body: chunks + "\r\n"},
		"chunks and a trailer":       {head: "POST /v1/files\r\nTransfer-Encoding: chunked\r\nTrailer: X-Sum", body: chunks + "X-Sum: 4\r\n\r\n", wantPart: "\nX-Sum: 4"},
		"Content-Length and chunked": {head: "POST /v1/files\r\nContent-Length: 3\r\nTransfer-Encoding: chunked", body: chunks + "\r\n"},
		"two Content-Lengths":        {head: "POST /v1/files\r\nContent-Length: 3\r\nContent-Length: 5", body: "hello"},
		"header name with space":     {head: "GET /v1/models\r\nX A: 1"},
		"invalid chunk size":         {head: "POST /v1/files\r\nTransfer-Encoding: chunked", body: "zz\r\nhello\r\n", wantPart: "400 "},
		"gzip transfer coding":       {head: "POST /v1/files\r\nTransfer-Encoding: gzip, chunked", body: chunks + "\r\n"},
	} {
		t.Run(name, func(t *testing.T) {
			method, _, _ := strings.Cut(tc.head, " ")
			line, headers, _ := strings.Cut(tc.head, "\r\n")
			if headers != "" {
				headers += "\r\n"
			}
			if tc.body != "" && !strings.Contains(headers, "chunked") && !strings.Contains(headers, "Content-Length") {
				headers += fmt.Sprintf("Content-Length: %d\r\n", len(tc.body))
			}
			bytes := line + " HTTP/1.1\r\nHost: x.example\r\n" + headers + "\r\n" + tc.body
			got := sendBytes(t, preceptURL, method, bytes)
			if tc.wantPart != "" {
				if !strings.Contains(fmt.Sprint(got.status, " ", got.body), tc.wantPart) {
					t.Errorf("the client got %+v, want a status and body with %q", got, tc.wantPart)
				}
				return
			}
			ref := sendBytes(t, plainURL, method, bytes)
			if tc.wantLine != "" {
				_, rest, _ := strings.Cut(ref.body, "\n")
				ref.body = tc.wantLine + "\n" + rest
			}
			if got.status >= 400 && got.status == ref.status { // precept writes its own error body
				got.body, got.end = ref.body, ref.end
			}
			got.header = ref.header // contains the body length
			if fmt.Sprint(got) != fmt.Sprint(ref) {
				t.Errorf("the client got %+v, want the same response as from ReverseProxy, %+v", got, ref)
			}
		})
	}
}
