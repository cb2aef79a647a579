package proxy_test

import (
	"bytes"
	"compress/gzip"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus/testutil"
)

// A panic of precept is answered with an error, or cuts an answer that has started.
func TestPanicIsAnsweredOrCutsTheStream(t *testing.T) {
	r := newFixture(t, newUpstream(t, nil), "", nil, nil)
	srv := httptest.NewUnstartedServer(r.Front(http.HandlerFunc(func(w http.ResponseWriter, q *http.Request) {
		if q.URL.Path == "/late" {
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
			t.Fatalf("the request to %s fails with %v, want a response", path, err)
		}
		b, err := io.ReadAll(res.Body)
		_ = res.Body.Close()
		if res.StatusCode != want || (err == nil) != (path == "/early") || path == "/early" && (!strings.Contains(string(b), "precept_error") || res.Header.Get("Retry-After") == "") {
			t.Errorf(`%s: got status %d, header %v, body %q, read error %v, want status %d; for /early a precept_error with Retry-After, for /late a read error`, path, res.StatusCode, res.Header, b, err, want)
		}
	}
	if n := testutil.ToFloat64(r.Options().Metrics.Series("fail_open").WithLabelValues("handler")); n != 2 {
		t.Errorf("the metric counts %v failures of the step handler, want 2", n)
	}
}

// Each request is counted once, for any path, method and outcome.
func TestEveryRequestIsCountedOnce(t *testing.T) {
	up := newUpstream(t, func(w http.ResponseWriter, q *http.Request) {
		if q.URL.Path == "/v1/dies" {
			panic(http.ErrAbortHandler)
		}
		w.WriteHeader(http.StatusAccepted)
	})
	r := newFixture(t, up, "", nil, map[string]string{"limits.body_bytes": "1KiB"})
	for i, k := range []struct {
		method, path, body string
		dialect, class     string
	}{
		{"GET", "/healthz", "", "precept", "2xx"},
		{"GET", "/readyz", "", "precept", "2xx"},
		{"POST", "/v1/feedback", "{", "precept", "4xx"},
		{"GET", "/v1/models", "", "none", "2xx"},
		{"GET", "/v1/dies", "", "none", "5xx"},
		{"POST", chatPath, alpha, "chat", "2xx"},
		{"POST", "/v1/messages", strings.Repeat("x", 2000), "messages", "4xx"},
		{"DELETE", "/v1/feedback", "", "precept", "4xx"},
		{"DELETE", "/v1/responses", "", "none", "2xx"},
	} {
		counter := r.Options().Metrics.Series("requests").WithLabelValues(k.dialect, k.class)
		before := testutil.ToFloat64(counter)
		r.send(t, k.method, k.path, nil, k.body)
		eventually(t, func() bool { return testutil.ToFloat64(counter) == before+1 })
		sum := 0.0
		for _, d := range []string{"none", "chat", "responses", "messages", "precept"} {
			for _, c := range []string{"none", "2xx", "3xx", "4xx", "5xx"} {
				sum += testutil.ToFloat64(r.Options().Metrics.Series("requests").WithLabelValues(d, c))
			}
		}
		if sum != float64(i+1) {
			t.Errorf("after %s %s the metric counts %v requests in total, want %d", k.method, k.path, sum, i+1)
		}
	}
}

// When the upstream refuses a changed request, the second attempt sends the client's bytes, with their encoding and
// length.
func TestRetryAfterARefusalSendsTheClientsBytes(t *testing.T) {
	up := newUpstream(t, func(w http.ResponseWriter, q *http.Request) {
		if b, _ := io.ReadAll(q.Body); bytes.Contains(b, []byte("[one]")) {
			w.WriteHeader(http.StatusUnprocessableEntity)
			_ = http.NewResponseController(w).Flush()
			<-q.Context().Done() // an error reply without an end does not delay the second attempt
			return
		}
		_, _ = io.WriteString(w, chatReply("c", "fine"))
	})
	r := newFixture(t, up, "", newBook(t, "one: alpha"), injectAll())
	var zipped bytes.Buffer
	z := gzip.NewWriter(&zipped)
	_, _ = io.WriteString(z, alpha)
	_ = z.Close()
	for enc, body := range map[string]string{"gzip": zipped.String(), "": alpha} {
		h := http.Header{"Precept-Session": {"s" + enc}}
		if enc != "" {
			h.Set("Content-Encoding", enc)
		}
		res, _ := r.send(t, "POST", chatPath, h, body)
		got := up.last(t)
		if res.StatusCode != http.StatusOK || string(got.body) != body || got.header.Get("Content-Encoding") != enc || got.length != int64(len(body)) {
			t.Errorf("encoding %q: got status %d, want 200; the upstream got %q with length %d and header %v, want the client's bytes with their length and encoding", enc, res.StatusCode, got.body, got.length, got.header)
		}
	}
	if up.count() != 4 {
		t.Errorf("the upstream got %d requests, want 4", up.count())
	}
}

// The log of a panic has the id of the request. All production files log through the function that adds the id.
func TestPanicLogNamesTheRequest(t *testing.T) {
	var log bytes.Buffer
	r := newFixture(t, newUpstream(t, nil), "", newBook(t, "one: alpha"), injectAll())
	r.Options().Log = slog.New(slog.NewTextHandler(&log, nil))
	r.BreakDeciding()
	res, _ := r.send(t, http.MethodPost, chatPath, nil, alpha)
	id := res.Header.Get("Precept-Request-Id")
	if !strings.HasPrefix(id, "req_") || !strings.Contains(log.String(), "request="+id) {
		t.Errorf("Precept-Request-Id is %q, want an id with the prefix req_ that is also in the log: %s", id, log.String())
	}
	files, err := filepath.Glob("*.go")
	if err != nil || len(files) < 20 {
		t.Fatalf("the package has the source files %q (error %v), want at least 20 files and no error", files, err)
	}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		if file != "options.go" && !strings.HasSuffix(file, "_test.go") && strings.Contains(string(text), "opts.Log") {
			t.Errorf("%s uses opts.Log, want Options.log of options.go, which adds the id of the request", file)
		}
	}
}

// An unknown key of the path form is logged once, and a client cannot fill the log with keys.
func TestUnknownKeyOfTheBaseURLIsLoggedOnce(t *testing.T) {
	var log bytes.Buffer
	r := newFixture(t, newUpstream(t, nil), "", newBook(t, "one: alpha"), injectAll())
	r.Options().Log = slog.New(slog.NewTextHandler(&log, nil))
	for range 3 {
		res, _ := r.send(t, http.MethodPost, "/p/agent=coder,sesion=one"+chatPath, nil, alpha)
		_, answer := r.send(t, http.MethodPost, "/v1/feedback", nil, `{"request_id":"`+res.Header.Get("Precept-Request-Id")+`","source":"user","type":"approval"}`)
		if res.StatusCode != http.StatusOK || !strings.Contains(string(answer), "joined") {
			t.Fatalf("a misspelt key: got status %d and answer %s to feedback by request, want 200 and joined", res.StatusCode, answer)
		}
	}
	if n := strings.Count(log.String(), "key=sesion"); n != 1 || !strings.Contains(log.String(), "agent, run, session") {
		t.Errorf("the log has %d lines about the key sesion, want one with the known keys:\n%s", n, log.String())
	}
	for _, key := range []string{"sk-proj-planted2abcdefghij1234567890", "planted%40example.org"} {
		r.send(t, http.MethodPost, "/p/agent=coder,"+key+"=1"+chatPath, nil, alpha)
	}
	if got := log.String(); strings.Contains(got, "planted") || strings.Count(got, "key=[REDACTED") != 2 {
		t.Errorf("the log of a key and an address in the path is %s, want two lines with a placeholder", got)
	}
	for i := range 100 {
		r.send(t, http.MethodPost, fmt.Sprintf("/p/agent=coder,x%d=one%s", i, chatPath), nil, alpha)
	}
	if n := strings.Count(log.String(), "has an unknown key"); n != 16 {
		t.Errorf("the log has %d lines about unknown keys, want 16", n)
	}
}
