package proxy_test

import (
	"bytes"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// If the handler panics before the response has started, the client gets a 503. A later panic cuts off the response.
func TestHandlerPanicEndsRequest(t *testing.T) {
	f := newDefaultFixture(t, newUpstream(t, nil))
	srv := httptest.NewUnstartedServer(f.WithMiddleware(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/late" {
			_, _ = io.WriteString(w, "half")
			_ = http.NewResponseController(w).Flush()
		}
		panic("oops")
	})))
	srv.Start()
	defer srv.Close()
	for path, want := range map[string]int{"/early": http.StatusServiceUnavailable, "/late": http.StatusOK} {
		req, _ := http.NewRequestWithContext(t.Context(), http.MethodPost, srv.URL+path, strings.NewReader("x"))
		res, err := client(t).Do(req)
		if err != nil {
			t.Fatalf("POST %s: %v", path, err)
		}
		b, err := io.ReadAll(res.Body)
		_ = res.Body.Close()
		if res.StatusCode != want || (err == nil) != (path == "/early") || path == "/early" && (!strings.Contains(string(b), "precept_error") || res.Header.Get("Retry-After") == "") {
			t.Errorf("%s: got status %d, headers %v, body %q, read error %v, want status %d, and for /early a precept_error with Retry-After, and for /late a read error", path, res.StatusCode, res.Header, b, err, want)
		}
	}
	if n := f.counter("fail_open", "handler"); n != 2 {
		t.Errorf("fail_open_total{step=handler} = %v, want 2", n)
	}
}

func TestEachRequestIsCountedOnce(t *testing.T) {
	up := newUpstream(t, func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/v1/dies" {
			panic(http.ErrAbortHandler)
		}
		w.WriteHeader(http.StatusAccepted)
	})
	f := newFixture(t, up, "", nil, map[string]string{"limits.body_bytes": "1KiB"})
	for i, tc := range []struct {
		method, path, body string
		dialect, class     string // labels of precept_requests_total
	}{
		{"GET", "/healthz", "", "precept", "2xx"},
		{"GET", "/readyz", "", "precept", "2xx"},
		{"POST", "/v1/feedback", "{", "precept", "4xx"},
		{"GET", "/v1/models", "", "none", "2xx"},
		{"GET", "/v1/dies", "", "none", "5xx"},
		{"POST", chatPath, alphaRequest, "chat", "2xx"},
		{"POST", "/v1/messages", strings.Repeat("x", 2000), "messages", "4xx"},
		{"DELETE", "/v1/feedback", "", "precept", "4xx"},
		{"DELETE", "/v1/responses", "", "none", "2xx"},
	} {
		before := f.counter("requests", tc.dialect, tc.class)
		f.send(t, tc.method, tc.path, nil, tc.body)
		eventually(t, func() bool { return f.counter("requests", tc.dialect, tc.class) == before+1 })
		sum := 0.0
		for _, d := range []string{"none", "chat", "responses", "messages", "precept"} {
			for _, c := range []string{"none", "2xx", "3xx", "4xx", "5xx"} {
				sum += f.counter("requests", d, c)
			}
		}
		if sum != float64(i+1) {
			t.Errorf("after %s %s: requests_total = %v, want %d", tc.method, tc.path, sum, i+1)
		}
	}
}

func TestRetryWithoutLessonSendsClientBytes(t *testing.T) {
	up := newUpstream(t, func(w http.ResponseWriter, r *http.Request) {
		if b, _ := io.ReadAll(r.Body); bytes.Contains(b, []byte("[one]")) {
			w.WriteHeader(http.StatusUnprocessableEntity)
			_ = http.NewResponseController(w).Flush()
			<-r.Context().Done() // an unfinished error response must not delay the retry
			return
		}
		_, _ = io.WriteString(w, chatReply("c", "fine"))
	})
	f := newFixture(t, up, "", newBook(t, "one: alpha"), injectAll())
	for enc, body := range map[string]string{"gzip": gzipped(alphaRequest), "": alphaRequest} {
		h := http.Header{"Precept-Session": {"s" + enc}}
		if enc != "" {
			h.Set("Content-Encoding", enc)
		}
		res, _ := f.send(t, "POST", chatPath, h, body)
		got := up.lastRequest(t)
		if res.StatusCode != http.StatusOK {
			t.Errorf("encoding %q: status = %d, want 200, body %s", enc, res.StatusCode, body)
		}
		if string(got.body) != body {
			t.Errorf("encoding %q: body = %q, want %q", enc, string(got.body), body)
		}
		if got.header.Get("Content-Encoding") != enc {
			t.Errorf("encoding %q: Content-Encoding = %q, want %q", enc, got.header.Get("Content-Encoding"), enc)
		}
		if got.length != int64(len(body)) {
			t.Errorf("encoding %q: length = %d, want %d", enc, got.length, int64(len(body)))
		}
	}
	if up.requestCount() != 4 {
		t.Errorf("the upstream got %d requests, want 4", up.requestCount())
	}
}

// The test also checks that each production file logs through Options.log, which adds the request id.
func TestPanicLogContainsRequestID(t *testing.T) {
	var log bytes.Buffer
	f := newFixture(t, newUpstream(t, nil), "", newBook(t, "one: alpha"), injectAll())
	f.Options().Log = slog.New(slog.NewTextHandler(&log, nil))
	f.MakeDecisionsPanic()
	res, _ := f.send(t, http.MethodPost, chatPath, nil, alphaRequest)
	id := res.Header.Get("Precept-Request-Id")
	if !strings.HasPrefix(id, "req_") {
		t.Errorf(`Precept-Request-Id = %q, want prefix "req_"`, id)
	}
	if !strings.Contains(log.String(), "request="+id) {
		t.Errorf("Precept-Request-Id: log = %q, want substring %q", log.String(), "request="+id)
	}
	files, err := filepath.Glob("*.go")
	if err != nil {
		t.Fatal(err)
	}
	if len(files) < 20 {
		t.Fatalf("Glob = %q, want at least 20 items", files)
	}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		if file != "options.go" && !strings.HasSuffix(file, "_test.go") && strings.Contains(string(text), "opts.Log") {
			t.Errorf("%s uses opts.Log, want Options.log, which adds the request id", file)
		}
	}
}

// The path form /p/KEY=VALUE,... names the agent and the session. At most 16 unknown keys are logged, redacted.
func TestUnknownPathFormKeyIsLoggedOnce(t *testing.T) {
	var log bytes.Buffer
	f := newFixture(t, newUpstream(t, nil), "", newBook(t, "one: alpha"), injectAll())
	f.Options().Log = slog.New(slog.NewTextHandler(&log, nil))
	for range 3 {
		res, _ := f.send(t, http.MethodPost, "/p/agent=coder,sesion=one"+chatPath, nil, alphaRequest)
		_, answer := f.send(t, http.MethodPost, "/v1/feedback", nil, `{"request_id":"`+res.Header.Get("Precept-Request-Id")+`","source":"user","type":"approval"}`)
		if res.StatusCode != http.StatusOK {
			t.Fatalf("misspelt key: status = %d, want 200, body %s", res.StatusCode, answer)
		}
		if !strings.Contains(string(answer), "joined") {
			t.Fatalf(`misspelt key: body = %q, want substring "joined"`, string(answer))
		}
	}
	if n := strings.Count(log.String(), "key=sesion"); n != 1 {
		t.Errorf("log lines about the key = %d, want 1", n)
	} else if !strings.Contains(log.String(), "agent, run, session") {
		t.Errorf(`log = %q, want substring "agent, run, session"`, log.String())
	}
	for _, key := range []string{"sk-proj-planted2abcdefghij1234567890", "planted%40example.org"} {
		f.send(t, http.MethodPost, "/p/agent=coder,"+key+"=1"+chatPath, nil, alphaRequest)
	}
	if got := log.String(); strings.Contains(got, "planted") || strings.Count(got, "key=[REDACTED") != 2 {
		t.Errorf("log after an API key and an email address in the path:\n%s\nwant two lines with a placeholder", got)
	}
	for i := range 100 {
		f.send(t, http.MethodPost, fmt.Sprintf("/p/agent=coder,x%d=one%s", i, chatPath), nil, alphaRequest)
	}
	if n := strings.Count(log.String(), "has an unknown key"); n != 16 {
		t.Errorf("got %d log lines about unknown keys, want 16", n)
	}
}
