package proxy_test

import (
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
)

// newBlockedUpstream returns an upstream that sends request bodies to arrived, and answers once answer is called.
func newBlockedUpstream(t *testing.T) (up *upstream, arrived chan string, answer func()) {
	t.Helper()
	arrived, next := make(chan string, 64), make(chan struct{})
	up = &upstream{Server: httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		b, _ := io.ReadAll(r.Body)
		arrived <- string(b)
		select {
		case <-next:
		case <-r.Context().Done():
		}
		_, _ = io.WriteString(w, chatReply("c", "fine"))
	}))}
	t.Cleanup(up.Close)
	return up, arrived, sync.OnceFunc(func() { close(next) })
}

// limits.inspect_total_bytes bounds the bodies of all requests in progress.
func TestBodiesAboveTotalLimitAreForwardedUnchanged(t *testing.T) {
	up, arrived, answer := newBlockedUpstream(t)
	flags := injectAll()
	flags["limits.inspect_total_bytes"] = "7MiB"
	f := newFixture(t, up, "", newBook(t, "one: alpha"), flags)
	long := `{"messages":[{"role":"user","content":"do alpha"}],"metadata":{"x":"` + strings.Repeat("x", 1<<20) + `"}}`
	var all sync.WaitGroup
	sendBody := func(body io.Reader) string {
		all.Go(func() {
			req, _ := http.NewRequestWithContext(t.Context(), http.MethodPost, f.url+chatPath, body)
			res, err := client(t).Do(req)
			if err != nil {
				t.Error(err)
				return
			}
			if _, err := io.Copy(io.Discard, res.Body); err != nil {
				t.Error(err)
			} else if res.StatusCode != http.StatusOK {
				t.Errorf("request in progress: status = %d, want 200", res.StatusCode)
			}
			_ = res.Body.Close()
		})
		return <-arrived
	}
	for i := range 2 {
		if got := sendBody(strings.NewReader(long)); !strings.Contains(got, "- [one]") {
			t.Errorf("request %d below limits.inspect_total_bytes: the upstream got no lesson, want one", i)
		}
	}
	for _, body := range []io.Reader{strings.NewReader(long), io.NopCloser(strings.NewReader(long))} { // with a known, then an unknown length
		if got := sendBody(body); got != long {
			t.Errorf("above limits.inspect_total_bytes: body = %d bytes, want the original %d", len(got), len(long))
		}
	}
	if n := f.counter("uninspected", "busy"); n != 2 {
		t.Errorf("uninspected_total{reason=busy} = %v, want 2", n)
	}
	answer()
	all.Wait()
	if n := f.bodyBytes(); n != 0 {
		t.Errorf("request body bytes in memory after all requests = %d, want 0", n)
	}
	if got := sendBody(strings.NewReader(long)); !strings.Contains(got, "- [one]") {
		t.Error("no lesson after all other bodies were released")
	}
	all.Wait()
}

// A body of a few hundred compressed bytes can occupy megabytes of memory until the response begins.
func TestUncompressedSizeCountsTowardTotalLimit(t *testing.T) {
	up, arrived, answer := newBlockedUpstream(t)
	flags := injectAll()
	flags["limits.inspect_bytes"], flags["limits.inspect_total_bytes"] = "2MiB", "9MiB"
	f := newFixture(t, up, "", newBook(t, "one: alpha"), flags)
	packed := func(n int) string {
		return gzipped(`{"messages":[{"role":"user","content":"do alpha"}],"metadata":{"x":"` + strings.Repeat("x", n) + `"}}`)
	}
	below, above := packed(3<<19), packed(3<<20) // uncompressed sizes below and above limits.inspect_bytes
	var all sync.WaitGroup
	sendBody := func(body string) string {
		all.Go(func() {
			if res, _ := f.send(t, http.MethodPost, chatPath, http.Header{"Content-Encoding": {"gzip"}}, body); res.StatusCode != http.StatusOK {
				t.Errorf("gzip body: got status %d, want 200", res.StatusCode)
			}
		})
		return <-arrived
	}
	for i := range 2 {
		if got := sendBody(below); !strings.Contains(got, "- [one]") {
			t.Errorf("request %d below limits.inspect_total_bytes: the upstream got no lesson, want one", i)
		}
	}
	if got := sendBody(above); got != above {
		t.Errorf("above limits.inspect_bytes: body = %d bytes, want the original %d", len(got), len(above))
	}
	if got := sendBody(below); got != below {
		t.Errorf("above limits.inspect_total_bytes: body = %d bytes, want the original %d", len(got), len(below))
	}
	for reason, want := range map[string]float64{"size": 0, "busy": 2} {
		if n := f.counter("uninspected", reason); n != want {
			t.Errorf("uninspected_total{reason=%s} = %v, want %v", reason, n, want)
		}
	}
	answer()
	all.Wait()
	if n := f.bodyBytes(); n != 0 {
		t.Errorf("request body bytes in memory after all requests = %d, want 0", n)
	}
	if got := sendBody(above); got != above {
		t.Errorf("above limits.inspect_bytes: body = %d bytes, want the original %d", len(got), len(above))
	}
	all.Wait()
	if n := f.counter("uninspected", "size"); n != 1 {
		t.Errorf("uninspected_total{reason=size} = %v, want 1", n)
	}
}

// If limits.requests requests are in progress, the proxy refuses other requests. Health checks still get an answer.
func TestRequestsAboveLimitAreRefused(t *testing.T) {
	up, arrived, answer := newBlockedUpstream(t)
	f := newFixture(t, up, "", nil, map[string]string{"limits.requests": "3"})
	const body = `{"messages":[{"role":"user","content":"hi"}]}`
	var all sync.WaitGroup
	for range 3 {
		all.Go(func() { f.chat(t, nil, body) })
		<-arrived
	}
	for path, want := range map[string]string{chatPath: `"type":"precept_error"`, "/v1/messages": `"type":"error"`, "/v1/models": "limits.requests"} {
		res, b := f.send(t, http.MethodPost, path, nil, body)
		if res.StatusCode != http.StatusServiceUnavailable {
			t.Errorf("%s: status = %d, want 503, body %s", path, res.StatusCode, b)
		}
		if res.Header.Get("Retry-After") == "" {
			t.Errorf("%s: Retry-After is empty", path)
		}
		if !strings.Contains(string(b), want) {
			t.Errorf("%s: got %q, want substring %q", path, string(b), want)
		}
	}
	if res, b := f.send(t, http.MethodGet, "/healthz", nil, ""); res.StatusCode != http.StatusOK {
		t.Errorf("/healthz: got status %d, body %s, want status 200", res.StatusCode, b)
	}
	answer()
	all.Wait()
	f.chat(t, nil, body)
	eventually(t, func() bool { return f.inFlightCount() == 0 })
}
