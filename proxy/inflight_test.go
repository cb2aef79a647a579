package proxy_test

import (
	"compress/gzip"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

	"github.com/prometheus/client_golang/prometheus/testutil"
)

// waiting returns an upstream that answers no request before release, and the number of waiting requests.
func waiting(t *testing.T) (up *upstream, came chan string, answer func()) {
	t.Helper()
	came, next := make(chan string, 64), make(chan struct{})
	up = &upstream{Server: httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		b, _ := io.ReadAll(r.Body)
		came <- string(b)
		select {
		case <-next:
		case <-r.Context().Done():
		}
		_, _ = io.WriteString(w, chatReply("c", "fine"))
	}))}
	t.Cleanup(up.Close)
	return up, came, sync.OnceFunc(func() { close(next) })
}

// Bodies beyond the total limit are forwarded unchanged, and lessons are back when there is room.
func TestBodiesBeyondTheTotalPassUnread(t *testing.T) {
	up, came, answer := waiting(t)
	flags := injectAll()
	flags["limits.inspect_total_bytes"] = "7MiB"
	r := newRig(t, up, "", bookOf(t, "one: alpha"), flags)
	long := `{"messages":[{"role":"user","content":"do alpha"}],"metadata":{"x":"` + strings.Repeat("x", 1<<20) + `"}}`
	var all sync.WaitGroup
	sendBody := func(body io.Reader) string {
		all.Go(func() {
			req, _ := http.NewRequestWithContext(t.Context(), http.MethodPost, r.url+chatPath, body)
			res, err := client(t).Do(req)
			if err != nil {
				t.Error(err)
				return
			}
			if _, err := io.Copy(io.Discard, res.Body); err != nil || res.StatusCode != http.StatusOK {
				t.Errorf("got status %d, error %v, want no error and status 200", res.StatusCode, err)
			}
			_ = res.Body.Close()
		})
		return <-came
	}
	for i := range 2 {
		if got := sendBody(strings.NewReader(long)); !strings.Contains(got, "- [one]") {
			t.Errorf("request %d has no lesson, and there was room", i)
		}
	}
	for _, body := range []io.Reader{strings.NewReader(long), io.NopCloser(strings.NewReader(long))} { // of known length, and not
		if got := sendBody(body); got != long {
			t.Errorf("a body beyond the total has %d bytes at the upstream, want the %d bytes of the client", len(got), len(long))
		}
	}
	if n := testutil.ToFloat64(r.Parts().Metrics.Series("uninspected").WithLabelValues("busy")); n != 2 {
		t.Errorf("got a count of %v, want 2", n)
	}
	answer()
	all.Wait()
	if n := r.held(); n != 0 {
		t.Errorf("%d bytes are charged at the end, want 0", n)
	}
	if got := sendBody(strings.NewReader(long)); !strings.Contains(got, "- [one]") {
		t.Error("after the end of the overload the request has no lesson")
	}
	all.Wait()
}

// A compressed body counts with its uncompressed size until the answer begins: a few hundred bytes may become
// megabytes.
func TestCompressedBodiesCountUncompressed(t *testing.T) {
	up, came, answer := waiting(t)
	flags := injectAll()
	flags["limits.inspect_bytes"], flags["limits.inspect_total_bytes"] = "2MiB", "9MiB"
	r := newRig(t, up, "", bookOf(t, "one: alpha"), flags)
	packed := func(n int) string {
		var b strings.Builder
		z := gzip.NewWriter(&b)
		_, _ = io.WriteString(z, `{"messages":[{"role":"user","content":"do alpha"}],"metadata":{"x":"`+strings.Repeat("x", n)+`"}}`)
		_ = z.Close()
		return b.String()
	}
	bomb, beyond := packed(3<<19), packed(3<<20)
	var all sync.WaitGroup
	sendBody := func(body string) string {
		all.Go(func() {
			if res, _ := r.send(t, http.MethodPost, chatPath, http.Header{"Content-Encoding": {"gzip"}}, body); res.StatusCode != http.StatusOK {
				t.Errorf("got status %d, want 200", res.StatusCode)
			}
		})
		return <-came
	}
	for i := range 2 {
		if got := sendBody(bomb); !strings.Contains(got, "- [one]") {
			t.Errorf("request %d has no lesson, and there was room", i)
		}
	}
	if got := sendBody(beyond); got != beyond {
		t.Error("a body beyond limits.inspect_bytes was changed")
	}
	if got := sendBody(bomb); got != bomb {
		t.Error("a body beyond the memory limit was changed")
	}
	for reason, want := range map[string]float64{"size": 0, "busy": 2} {
		if n := testutil.ToFloat64(r.Parts().Metrics.Series("uninspected").WithLabelValues(reason)); n != want {
			t.Errorf("%v were counted as %s, want %v", n, reason, want)
		}
	}
	answer()
	all.Wait()
	if n := r.held(); n != 0 {
		t.Errorf("%d bytes are charged at the end, want 0", n)
	}
	if got := sendBody(beyond); got != beyond {
		t.Error("a body beyond limits.inspect_bytes was changed")
	}
	all.Wait()
	if n := testutil.ToFloat64(r.Parts().Metrics.Series("uninspected").WithLabelValues("size")); n != 1 {
		t.Errorf("%v were counted as too large, want 1", n)
	}
}

// A request beyond the limit is refused in the shape of its API with Retry-After; precept's own paths and accepted
// requests continue.
func TestTooManyRequestsAreRefused(t *testing.T) {
	up, came, answer := waiting(t)
	r := newRig(t, up, "", nil, map[string]string{"limits.requests": "3"})
	const body = `{"messages":[{"role":"user","content":"hi"}]}`
	var all sync.WaitGroup
	for range 3 {
		all.Go(func() { r.chat(t, nil, body) })
		<-came
	}
	for path, want := range map[string]string{chatPath: `"type":"precept_error"`, "/v1/messages": `"type":"error"`, "/v1/models": "limits.requests"} {
		res, b := r.send(t, http.MethodPost, path, nil, body)
		if res.StatusCode != http.StatusServiceUnavailable || res.Header.Get("Retry-After") == "" || !strings.Contains(string(b), want) {
			t.Errorf(`%s: got status %d, header %v, body %s, want status 503, a header Retry-After and a body with %q`, path, res.StatusCode, res.Header, b, want)
		}
	}
	if res, b := r.send(t, http.MethodGet, "/healthz", nil, ""); res.StatusCode != http.StatusOK {
		t.Errorf("healthz: %d %s, want 200", res.StatusCode, b)
	}
	answer()
	all.Wait()
	r.chat(t, nil, body)
	eventually(t, func() bool { return r.inFlightCount() == 0 })
}
