package proxy_test

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/textproto"
	"strings"
	"testing"

	"precept/proxy"
)

func TestUnusualBodyIsForwardedByteForByte(t *testing.T) {
	bodies := map[string]string{
		"unusual JSON":          `{ "messages":[{"role":"user","content":"a\u0000b \ud800 caf\u00e9 </x>"}],"n":1E400,"big":123456789012345678901234567890,"f":1.0,  "zz":{"b":1,"a":2}}`,
		"truncated JSON":        `{"messages":[{"role":"user","content":"hi"`,
		"text after JSON":       `{"messages":[{"role":"user","content":"hi"}]} x`,
		"byte order mark":       "\xef\xbb\xbf" + `{"messages":[{"role":"user","content":"hi"}]}`,
		"null messages":         `{"messages":null}`,
		"messages as a string":  `{"messages":"alpha"}`,
		"messages as an object": `{"messages":{}}`,
		"wrong message type":    `{"messages":[1,{"role":"user","content":"alpha"}]}`,
		"no messages":           `{"messages":[]}`,
		"duplicate key":         `{"messages":[{"role":"user","content":"alpha"}],"messages":[]}`,
		"deep nesting":          `{"messages":[{"role":"user","content":"alpha"}],"x":` + strings.Repeat("[", 10000) + strings.Repeat("]", 10000) + `}`,
		"invalid UTF-8":         "{\"messages\":[{\"role\":\"user\",\"content\":\"\xff\xfe\"}]}",
		"not JSON":              "hello",
	}
	up := newUpstream(t, nil)
	f := newFixture(t, up, "", newBook(t, "one: alpha"), injectAll())
	for name, body := range bodies {
		t.Run(name, func(t *testing.T) {
			f.chat(t, http.Header{"Content-Type": {"application/json"}}, body)
			if got := up.lastRequest(t); string(got.body) != body {
				t.Errorf("the upstream got %q, want %q", got.body, body)
			}
		})
	}
	t.Run("8 MiB of brackets", func(t *testing.T) {
		body := `{"messages":` + strings.Repeat("[", 8<<20-20)
		f.chat(t, nil, body)
		if got := up.lastRequest(t); string(got.body) != body {
			t.Errorf("the upstream got %d bytes %.100q, want %d bytes %.100q", len(got.body), got.body, len(body), body)
		}
	})
	t.Run("above the inspection limit", func(t *testing.T) {
		body := `{"messages":[{"role":"user","content":"alpha ` + strings.Repeat("x", 9<<20) + `"}]}`
		f.chat(t, nil, body)
		if got := up.lastRequest(t); string(got.body) != body {
			t.Errorf("the upstream: body = %q, want %q", string(got.body), body)
		} else if got.length != int64(len(body)) {
			t.Errorf("the upstream: length = %d, want %d", got.length, int64(len(body)))
		}
	})
}

// precept forwards a body with a digest or a signature unchanged, because the upstream can check it. precept also keeps
// Accept-Encoding, because a signature can cover this header.
func TestSignedBodyIsForwardedUnchanged(t *testing.T) {
	const body = `{"messages":[{"role":"user","content":"alpha"}]}`
	up := newUpstream(t, newModel(t))
	flags := injectAll()
	flags["debug_headers"] = "true"
	f := newFixture(t, up, "", newBook(t, "one: alpha"), flags)
	signed := 0
	for _, tc := range []struct {
		header, value string
		isSigned      bool
	}{
		{"Content-Digest", "sha-256=:X48E9qOokqqrvdts8nOJRJN3OWDUoyWxBf7kbu9DBPE=:", true},
		{"Repr-Digest", "sha-256=:X48E9qOokqqrvdts8nOJRJN3OWDUoyWxBf7kbu9DBPE=:", true},
		{"Digest", "SHA-256=X48E9qOokqqrvdts8nOJRJN3OWDUoyWxBf7kbu9DBPE=", true},
		{"Content-MD5", "Q2hlY2sgSW50ZWdyaXR5IQ==", true},
		{"Authorization", "AWS4-HMAC-SHA256 Credential=AKID/20261129/us-east-1/bedrock/aws4_request, SignedHeaders=host, Signature=00", true},
		{"Authorization", "TC3-HMAC-SHA256 Credential=AKID/2026-11-29/tc3_request, SignedHeaders=host, Signature=00", true},
		{"X-Amz-Content-Sha256", "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855", true},
		{"X-Content-Sha256", "47DEQpj8HBSa+/TImW+5JCeuQeRkm5NMpJWZG3hSuFU=", true},
		{"X-Amz-Content-Sha256", "UNSIGNED-PAYLOAD", false},
		{"Want-Content-Digest", "sha-256=1", false},
		{"Authorization", "Bearer AWS4-HMAC-SHA256", false},
	} {
		res, _ := f.send(t, "POST", chatPath, http.Header{tc.header: {tc.value}, "Accept-Encoding": {"gzip"}}, body)
		got := up.lastRequest(t)
		if isUnchanged := string(got.body) == body; isUnchanged != tc.isSigned || (res.Header.Get("Precept-Skip") == "signed") != tc.isSigned {
			t.Errorf("request with %s: %s: got body unchanged = %v, Precept-Skip = %q, want an unchanged body and Precept-Skip \"signed\" = %v", tc.header, tc.value, isUnchanged, res.Header.Get("Precept-Skip"), tc.isSigned)
		}
		if tc.isSigned {
			signed++
			if encoding := got.header.Get("Accept-Encoding"); encoding != "gzip" {
				t.Errorf("%s %s: got Accept-Encoding = %q, want gzip", tc.header, tc.value, encoding)
			}
		}
	}
	if n := f.counter("uninspected", "signed"); n != float64(signed) {
		t.Errorf("uninspected_total{reason=signed} = %v, want %d", n, signed)
	}
}

func TestPathsAndMethodsAreForwarded(t *testing.T) {
	up := newUpstream(t, func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("X-Method", r.Method)
		w.WriteHeader(http.StatusTeapot)
		_, _ = io.WriteString(w, "tea")
	})
	f := newDefaultFixture(t, up)
	for _, tc := range []struct{ method, path, want string }{
		{"GET", "/v1/models", "/v1/models"},
		{"GET", "/v1/models?a=1;b&c=%zz&&d", "/v1/models?a=1;b&c=%zz&&d"},
		{"GET", "/v1/models?", "/v1/models?"},
		{"POST", "/v1/embeddings", "/v1/embeddings"},
		{"DELETE", "/v1/files/a%2Fb", "/v1/files/a%2Fb"},
		{"OPTIONS", "/v1/zzz", "/v1/zzz"},
		{"PROPFIND", "/v1/zzz", "/v1/zzz"},
		{"post", "/v1/chat/completions", "/v1/chat/completions"},
		{"GET", "/v1/chat/completions", "/v1/chat/completions"},
		{"PUT", "/v1/feedback2", "/v1/feedback2"},
		{"GET", "/models", "/v1/models"},
		{"GET", "/p/agent=coder,session=ci-42/v1/models", "/v1/models"},
	} {
		t.Run(tc.method+" "+tc.path, func(t *testing.T) {
			res, body := f.send(t, tc.method, tc.path, nil, "")
			got := up.lastRequest(t)
			if got.uri != tc.want {
				t.Errorf("the upstream: uri = %q, want %q", got.uri, tc.want)
			}
			if got.method != tc.method {
				t.Errorf("the upstream: method = %q, want %q", got.method, tc.method)
			}
			if res.StatusCode != http.StatusTeapot {
				t.Errorf("the client: status = %d, want 418, body %s", res.StatusCode, body)
			}
			if string(body) != "tea" {
				t.Errorf(`the client: body = %q, want "tea"`, string(body))
			}
			if res.Header.Get("Precept-Session") != "" {
				t.Errorf("Precept-Session = %q on an uninspected path", res.Header.Get("Precept-Session"))
			}
		})
	}
	t.Run("multipart", func(t *testing.T) {
		body := "--b\r\nContent-Disposition: form-data; name=\"file\"\r\n\r\n\x00\x01\r\n--b--\r\n"
		f.send(t, "POST", "/v1/audio/transcriptions", http.Header{"Content-Type": {"multipart/form-data; boundary=b"}}, body)
		if got := up.lastRequest(t); string(got.body) != body {
			t.Errorf("the upstream: body = %q, want %q", string(got.body), body)
		} else if got.header.Get("Content-Type") != "multipart/form-data; boundary=b" {
			t.Errorf(`the upstream: Content-Type = %q, want "multipart/form-data; boundary=b"`, got.header.Get("Content-Type"))
		}
	})
	t.Run("HEAD /", func(t *testing.T) {
		res, _ := f.send(t, "HEAD", "/", nil, "")
		if res.StatusCode != http.StatusTeapot {
			t.Errorf("HEAD /: status = %d, want 418", res.StatusCode)
		}
		if up.lastRequest(t).method != "HEAD" {
			t.Errorf(`HEAD /: method = %q, want "HEAD"`, up.lastRequest(t).method)
		}
	})
}

// precept forwards headers except precept's own headers and hop-by-hop headers.
func TestForwardedHeaders(t *testing.T) {
	up := newUpstream(t, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Add("Set-Cookie", "a=1")
		w.Header().Add("Set-Cookie", "b=2")
		w.Header().Set("X-Ratelimit-Remaining", "7")
		_, _ = io.WriteString(w, chatReply("c1", "x"))
	})
	f := newDefaultFixture(t, up)
	res, _ := f.send(t, "POST", chatPath+"?beta=true", http.Header{
		"X-Foo": {"bar"}, "Openai-Organization": {"org"}, "Anthropic-Beta": {"a,b"}, "Cookie": {"a=1", "b=2"},
		"Connection": {"X-Hop"}, "X-Hop": {"1"}, "X-Forwarded-For": {"1.2.3.4"}, "Forwarded": {"for=1.2.3.4"},
		"Precept-Session": {"mine"}, "Precept-Tags": {"x"}, "Authorization": {"Bearer sk-1"}, "Accept-Encoding": {"gzip, br"},
	}, `{"messages":[{"role":"user","content":"hi"}]}`)
	got := up.lastRequest(t)
	for k, want := range map[string]string{
		"X-Foo": "bar", "Openai-Organization": "org", "Anthropic-Beta": "a,b", "X-Forwarded-For": "1.2.3.4",
		"Forwarded": "for=1.2.3.4", "Authorization": "Bearer sk-1", "Accept-Encoding": "identity", "X-Hop": "", "Connection": "",
		"Precept-Session": "", "Precept-Tags": "", "X-Forwarded-Host": "", "User-Agent": "Go-http-client/1.1",
	} {
		if v := got.header.Get(k); v != want {
			t.Errorf("the upstream got header %s: %q, want %q", k, v, want)
		}
	}
	if c := got.header["Cookie"]; strings.Join(c, "; ") != "a=1; b=2" {
		t.Errorf("the upstream got cookies %q, want \"a=1; b=2\"", c)
	}
	if got.uri != chatPath+"?beta=true" {
		t.Errorf("the upstream got path %s, want %s?beta=true", got.uri, chatPath)
	}
	if c := res.Header["Set-Cookie"]; len(c) != 2 {
		t.Errorf("reply headers = %q, want 2 items", c)
	} else if res.Header.Get("X-Ratelimit-Remaining") != "7" {
		t.Errorf(`reply headers: X-Ratelimit-Remaining = %q, want "7"`, res.Header.Get("X-Ratelimit-Remaining"))
	}
	if res.Header.Get("Precept-Session") != "mine" {
		t.Errorf(`reply headers: Precept-Session = %q, want "mine"`, res.Header.Get("Precept-Session"))
	}
	if !strings.HasPrefix(res.Header.Get("Precept-Request-Id"), "req_") {
		t.Errorf(`reply headers: Precept-Request-Id = %q, want prefix "req_"`, res.Header.Get("Precept-Request-Id"))
	}
	for _, k := range []string{"Precept-Lessons", "Precept-Withheld", "Precept-Skip"} {
		if res.Header.Get(k) != "" {
			t.Errorf("reply has header %s without debug_headers", k)
		}
	}
}

func TestUpstreamStatusIsForwarded(t *testing.T) {
	for _, tc := range []struct {
		code        int
		contentType string
		body        string
	}{{429, "application/json", `{"error":{"message":"slow down"}}`}, {500, "text/html", "<h1>oops</h1>"}, {503, "", ""}, {418, "text/plain", "tea"}, {204, "", ""}} {
		up := newUpstream(t, func(w http.ResponseWriter, _ *http.Request) {
			if tc.contentType != "" {
				w.Header().Set("Content-Type", tc.contentType)
			}
			w.Header().Set("Retry-After", "7")
			w.WriteHeader(tc.code)
			_, _ = io.WriteString(w, tc.body)
		})
		f := newDefaultFixture(t, up)
		res, body := f.send(t, "POST", chatPath, nil, `{"messages":[{"role":"user","content":"hi"}],"stream":true}`)
		if res.StatusCode != tc.code || string(body) != tc.body || res.Header.Get("Retry-After") != "7" || res.Header.Get("Content-Type") != tc.contentType && tc.contentType != "" {
			t.Errorf("upstream status %d: the client got status %d, body %q, headers %v, want the upstream's status, body %q, Retry-After 7 and Content-Type %q", tc.code, res.StatusCode, body, res.Header, tc.body, tc.contentType)
		}
		if up.requestCount() != 1 {
			t.Errorf("upstream status %d: the upstream got %d requests, want 1", tc.code, up.requestCount())
		}
	}
}

// A gzip body that gets a lesson is forwarded uncompressed.
func TestCompressedBodiesAreForwarded(t *testing.T) {
	models := gzipped(`{"data":[]}`)
	up := newUpstream(t, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Encoding", "gzip")
		_, _ = io.WriteString(w, models)
	})
	f := newFixture(t, up, "", newBook(t, "one: alpha"), injectAll())
	res, body := f.send(t, "GET", "/v1/models", http.Header{"Accept-Encoding": {"gzip"}}, "")
	if res.Header.Get("Content-Encoding") != "gzip" {
		t.Errorf(`the client: Content-Encoding = %q, want "gzip"`, res.Header.Get("Content-Encoding"))
	}
	if string(body) != models {
		t.Errorf("the client: body = %q, want %q", string(body), models)
	}
	noMatch := gzipped(`{"messages":[{"role":"user","content":"no match"}]}`)
	f.send(t, "POST", chatPath, http.Header{"Content-Encoding": {"gzip"}}, noMatch)
	if got := up.lastRequest(t); string(got.body) != noMatch {
		t.Errorf("gzip body without a match = %q, want %q", string(got.body), noMatch)
	} else if got.header.Get("Content-Encoding") != "gzip" {
		t.Errorf(`gzip body without a match: Content-Encoding = %q, want "gzip"`, got.header.Get("Content-Encoding"))
	}
	f.send(t, "POST", chatPath, http.Header{"Content-Encoding": {"gzip"}}, gzipped(alphaRequest))
	if got := up.lastRequest(t); !bytes.Contains(got.body, []byte("[one]")) {
		t.Errorf("gzip body with a match = %s, want substring [one]", got.body)
	} else if got.header.Get("Content-Encoding") != "" {
		t.Errorf(`gzip body with a match: Content-Encoding = %q, want ""`, got.header.Get("Content-Encoding"))
	} else if got.length != int64(len(got.body)) {
		t.Errorf("gzip body with a match: length = %d, want %d", got.length, int64(len(got.body)))
	}
	f.send(t, "POST", chatPath, http.Header{"Content-Encoding": {"zstd"}}, "not zstd")
	if got := up.lastRequest(t); string(got.body) != "not zstd" {
		t.Errorf(`invalid zstd body = %q, want "not zstd"`, string(got.body))
	} else if got.header.Get("Content-Encoding") != "zstd" {
		t.Errorf(`invalid zstd body: Content-Encoding = %q, want "zstd"`, got.header.Get("Content-Encoding"))
	}
}

func TestStreamBytesAreForwardedUnchanged(t *testing.T) {
	text := ": OPENROUTER PROCESSING\r\n\r\ndata:{\"choices\":[{\"index\":0,\"delta\":{\"content\":\"h\xc3\xa9\xe2\x82\xac\"}}]}\r\rdata: {\"choices\":[{\"index\":0,\"delta\":{\"reasoning\":\"x\"},\"finish_reason\":\"stop\"}]}\n\nid: 1\nevent: x\nretry: 5\ndata: a\ndata: b\n\ndata: {\"choices\":[],\"usage\":{\"prompt_tokens\":1}}\n\ndata: [DONE]\n\ndata: [DONE]\n\ndata: late\n\n"
	up := newUpstream(t, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/event-stream")
		for i := range len(text) {
			_, _ = io.WriteString(w, text[i:i+1])
			w.(http.Flusher).Flush()
		}
	})
	f := newDefaultFixture(t, up)
	if got := f.chat(t, nil, `{"stream":true,"messages":[{"role":"user","content":"hi"}]}`); string(got) != text {
		t.Errorf("the client got %q, want %q", got, text)
	}
}

func TestEachStreamChunkIsFlushed(t *testing.T) {
	next := make(chan string)
	up := newUpstream(t, func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "text/event-stream")
		for s := range next {
			_, _ = io.WriteString(w, s)
			w.(http.Flusher).Flush()
		}
	})
	f := newDefaultFixture(t, up)
	req, _ := http.NewRequestWithContext(t.Context(), "POST", f.url+chatPath, strings.NewReader(`{"stream":true,"messages":[{"role":"user","content":"hi"}]}`))
	done := make(chan struct{})
	go func() {
		defer close(done)
		next <- "data: 0\n\n"
	}()
	res, err := client(t).Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	<-done
	br := bufio.NewReader(res.Body)
	for i := range 5 {
		if i > 0 {
			next <- fmt.Sprintf("data: %d\n\n", i)
		}
		line, err := br.ReadString('\n')
		if err != nil {
			t.Fatalf("chunk %d: %v", i, err)
		}
		if line != fmt.Sprintf("data: %d\n", i) {
			t.Fatalf("chunk %d = %q, want %q", i, line, fmt.Sprintf("data: %d\n", i))
		}
		_, _ = br.ReadString('\n')
	}
	close(next)
}

func TestFiveMegabyteStreamLineIsForwarded(t *testing.T) {
	args := strings.Repeat("x", 5<<20)
	line := `data: {"choices":[{"index":0,"delta":{"tool_calls":[{"index":0,"id":"call_1","function":{"name":"f","arguments":"` + args + `"}}]}}]}` + "\n\n"
	up := newUpstream(t, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/event-stream")
		_, _ = io.WriteString(w, line+"data: [DONE]\n\n")
	})
	f := newDefaultFixture(t, up)
	if got := f.chat(t, nil, `{"stream":true,"messages":[{"role":"user","content":"hi"}]}`); string(got) != line+"data: [DONE]\n\n" {
		t.Errorf("the client got %d bytes that end in %.20q, want the line of %d bytes and [DONE]", len(got), got[max(0, len(got)-20):], len(line))
	}
}

func TestCutStreamIsCutForClient(t *testing.T) {
	up := newUpstream(t, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/event-stream")
		_, _ = io.WriteString(w, "data: {\"choices\":[{\"index\":0,\"delta\":{\"content\":\"par\"}}]}\n\n")
		w.(http.Flusher).Flush()
		panic(http.ErrAbortHandler)
	})
	f := newDefaultFixture(t, up)
	req, _ := http.NewRequestWithContext(t.Context(), "POST", f.url+chatPath, strings.NewReader(`{"stream":true,"messages":[{"role":"user","content":"hi"}]}`))
	res, err := client(t).Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	got, err := io.ReadAll(res.Body)
	if !errors.Is(err, io.ErrUnexpectedEOF) {
		t.Errorf("cut stream ended with error %v after %q, want %v", err, got, io.ErrUnexpectedEOF)
	}
	if strings.Contains(string(got), "DONE") {
		t.Errorf("cut stream = %q, want no [DONE], because the upstream sent none", got)
	}
}

// If the upstream request is not cancelled, the test hangs.
func TestClientDisconnectCancelsUpstreamRequest(t *testing.T) {
	for _, begun := range []bool{false, true} { // whether the response has begun
		cancelled := make(chan struct{})
		started := make(chan struct{})
		up := newUpstream(t, func(w http.ResponseWriter, r *http.Request) {
			if begun {
				w.Header().Set("Content-Type", "text/event-stream")
				_, _ = io.WriteString(w, "data: 1\n\n")
				w.(http.Flusher).Flush()
			}
			close(started)
			<-r.Context().Done()
			close(cancelled)
		})
		f := newDefaultFixture(t, up)
		ctx, cancel := context.WithCancel(t.Context())
		req, _ := http.NewRequestWithContext(ctx, "POST", f.url+chatPath, strings.NewReader(`{"messages":[{"role":"user","content":"hi"}]}`))
		go func() {
			res, err := client(t).Do(req)
			if err == nil {
				_, _ = io.ReadAll(res.Body)
				_ = res.Body.Close()
			}
		}()
		<-started
		cancel()
		<-cancelled
	}
}

func TestStreamIsCutAfterIdleTimeout(t *testing.T) {
	up := newUpstream(t, func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "text/event-stream")
		_, _ = io.WriteString(w, ": keep-alive\n\n")
		w.(http.Flusher).Flush()
		<-r.Context().Done()
	})
	f := newFixture(t, up, "", nil, map[string]string{"limits.stream_idle_timeout": "300ms"})
	req, _ := http.NewRequestWithContext(t.Context(), "POST", f.url+chatPath, strings.NewReader(`{"stream":true,"messages":[{"role":"user","content":"hi"}]}`))
	res, err := client(t).Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	if got, err := io.ReadAll(res.Body); err == nil {
		t.Error("error = nil, want an error")
	} else if string(got) != ": keep-alive\n\n" {
		t.Errorf(`string = %q, want ": keep-alive\n\n"`, string(got))
	}
}

func TestChunkedBodyAndTrailerAreForwarded(t *testing.T) {
	up := newUpstream(t, nil)
	f := newFixture(t, up, "", newBook(t, "one: alpha"), injectAll())
	body := `{"messages":[{"role":"user","content":"alpha"}]}`
	c, err := net.Dial("tcp", strings.TrimPrefix(f.url, "http://"))
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	fmt.Fprintf(c, "POST %s HTTP/1.1\r\nHost: x\r\nExpect: 100-continue\r\nTransfer-Encoding: chunked\r\nTrailer: X-Sum\r\n\r\n", chatPath)
	tp := textproto.NewReader(bufio.NewReader(c))
	if line, err := tp.ReadLine(); err != nil {
		t.Fatal(err)
	} else if !strings.Contains(line, "100") {
		t.Fatalf(`first status line = %q, want substring "100"`, line)
	}
	_, _ = tp.ReadLine()
	fmt.Fprintf(c, "%x\r\n%s\r\n0\r\nX-Sum: 42\r\n\r\n", len(body), body)
	if line, err := tp.ReadLine(); err != nil {
		t.Fatal(err)
	} else if !strings.Contains(line, "200") {
		t.Fatalf(`second status line = %q, want substring "200"`, line)
	}
	got := up.lastRequest(t)
	if got.trailer.Get("X-Sum") != "42" {
		t.Errorf(`the upstream: X-Sum = %q, want "42"`, got.trailer.Get("X-Sum"))
	}
	if !bytes.Contains(got.body, []byte("[one]")) {
		t.Errorf("the upstream: body = %s, want substring [one]", got.body)
	}
}

// precept drops the trailers that net/http refuses to send. It also drops trailers with the prefix Precept-, which only
// precept itself may send.
func TestForbiddenTrailersAreDropped(t *testing.T) {
	up := newUpstream(t, nil)
	f := newFixture(t, up, "", newBook(t, "one: alpha"), injectAll())
	body := `{"messages":[{"role":"user","content":"alpha"}]}`
	for _, trailer := range []string{"Transfer-Encoding: chunked", "Content-Length: 3", "Trailer: X-Sum", "Precept-Session: evil"} {
		c, err := net.Dial("tcp", strings.TrimPrefix(f.url, "http://"))
		if err != nil {
			t.Fatal(err)
		}
		fmt.Fprintf(c, "POST %s HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n%x\r\n%s\r\n0\r\nX-Sum: 42\r\n%s\r\n\r\n", chatPath, len(body), body, trailer)
		line, err := textproto.NewReader(bufio.NewReader(c)).ReadLine()
		_ = c.Close()
		if err != nil {
			t.Fatalf("trailer %s: %v", trailer, err)
			continue
		}
		if !strings.Contains(line, "200") {
			t.Errorf(`trailer %s = %q, want substring "200"`, trailer, line)
			continue
		}
		got := up.lastRequest(t)
		if len(got.trailer) != 1 {
			t.Fatalf("trailer %s = %+v, want 1 item", trailer, got.trailer)
		}
		if got.trailer.Get("X-Sum") != "42" {
			t.Errorf(`trailer %s: X-Sum = %q, want "42"`, trailer, got.trailer.Get("X-Sum"))
		}
		if !bytes.Contains(got.body, []byte("[one]")) {
			t.Errorf("trailer %s: body = %s, want substring [one]", trailer, got.body)
		}
	}
}

func TestPipelinedRequestsAreAnsweredInOrder(t *testing.T) {
	up := newUpstream(t, func(w http.ResponseWriter, r *http.Request) {
		b, _ := io.ReadAll(r.Body)
		_, _ = w.Write(b)
	})
	f := newDefaultFixture(t, up)
	c, err := net.Dial("tcp", strings.TrimPrefix(f.url, "http://"))
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	const n = 200
	go func() {
		for i := range n {
			b := fmt.Sprintf(`{"messages":[{"role":"user","content":"number %d"}]}`, i)
			fmt.Fprintf(c, "POST %s HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n%s", chatPath, len(b), b)
		}
	}()
	br := bufio.NewReader(c)
	for i := range n {
		res, err := http.ReadResponse(br, nil)
		if err != nil {
			t.Fatal(err)
		}
		b, _ := io.ReadAll(res.Body)
		if want := fmt.Sprintf("number %d\"", i); !strings.Contains(string(b), want) {
			t.Fatalf("response %d = %q, want it to contain %q", i, b, want)
		}
	}
}

func TestRefusedRequests(t *testing.T) {
	up := newUpstream(t, nil)
	f := newFixture(t, up, "", nil, map[string]string{"limits.body_bytes": "1KiB"})
	res, body := f.send(t, "POST", chatPath, nil, strings.Repeat("x", 2000))
	if res.StatusCode != 413 {
		t.Errorf("body above limits.body_bytes: status = %d, want 413, body %s", res.StatusCode, body)
	}
	if !strings.Contains(string(body), "precept_error") {
		t.Errorf(`body above limits.body_bytes: body = %q, want substring "precept_error"`, string(body))
	}
	res, _ = f.send(t, "GET", "/v1/responses", http.Header{"Connection": {"Upgrade"}, "Upgrade": {"websocket"}, "Sec-Websocket-Version": {"13"}, "Sec-Websocket-Key": {"x"}}, "")
	if res.StatusCode != http.StatusUpgradeRequired {
		t.Errorf("websocket: got status %d, want 426", res.StatusCode)
	}
	c, err := net.Dial("tcp", strings.TrimPrefix(f.url, "http://"))
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	fmt.Fprint(c, "CONNECT example.org:443 HTTP/1.1\r\nHost: example.org:443\r\n\r\n")
	line, _ := bufio.NewReader(c).ReadString('\n')
	if !strings.Contains(line, "405") {
		t.Errorf("CONNECT: status line = %q, want status 405", line)
	}
	if up.requestCount() != 0 {
		t.Errorf("after three refused requests: the upstream got %d requests, want 0", up.requestCount())
	}
}

func TestUnresponsiveUpstreamCausesGatewayTimeout(t *testing.T) {
	up := newUpstream(t, func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() })
	f := newFixture(t, up, "", nil, map[string]string{"limits.upstream_header_timeout": "100ms"})
	res, body := f.send(t, "POST", chatPath, nil, `{"messages":[{"role":"user","content":"hi"}]}`)
	if res.StatusCode != http.StatusGatewayTimeout {
		t.Errorf("unresponsive upstream: status = %d, want 504, body %s", res.StatusCode, body)
	}
	if !strings.Contains(string(body), "precept_error") {
		t.Errorf(`unresponsive upstream: body = %q, want substring "precept_error"`, string(body))
	}
}

func TestTargetResolve(t *testing.T) {
	for _, tc := range []struct{ base, path, want string }{
		{"https://api.openai.com/v1", "/v1/chat/completions", "https://api.openai.com/v1/chat/completions"},
		{"https://openrouter.ai/api/v1", "/v1/chat/completions", "https://openrouter.ai/api/v1/chat/completions"},
		{"http://127.0.0.1:11434/v1/", "/chat/completions", "http://127.0.0.1:11434/v1/chat/completions"},
		{"https://api.anthropic.com", "/v1/messages", "https://api.anthropic.com/v1/messages"},
		{"https://api.anthropic.com/v1", "/v1/messages", "https://api.anthropic.com/v1/messages"},
		{"https://g.example/v1beta/openai", "/v1/chat/completions", "https://g.example/v1beta/openai/chat/completions"},
		{"http://h:1", "/", "http://h:1/"},
		{"http://h:1/v1", "/v1", "http://h:1/v1"},
	} {
		target, err := proxy.NewTarget("x", tc.base)
		if err != nil {
			t.Fatal(err)
		}
		if got := target.Resolve(tc.path, "", false).String(); got != tc.want {
			t.Errorf("NewTarget(%q).Resolve(%q) = %s, want %s", tc.base, tc.path, got, tc.want)
		}
	}
	for _, bad := range []string{"", "api.openai.com", "ftp://x/v1", "http://", "http://a b"} {
		if _, err := proxy.NewTarget("x", bad); err == nil {
			t.Errorf("NewTarget(%q) returned no error", bad)
		}
	}
}
