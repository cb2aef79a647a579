package main

import (
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

	otlp "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/protobuf/proto"
)

// The real binary sends a span a turn to the collector of its configuration, what is left of them
// when it stops, and no content.
func TestTracesEndToEnd(t *testing.T) {
	var mu sync.Mutex
	var names []string
	var raw strings.Builder
	collector := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		var data otlp.TracesData
		if err != nil || proto.Unmarshal(body, &data) != nil || r.Header.Get("Authorization") != "Bearer otel-key" {
			t.Errorf("%v %v", err, r.Header)
		}
		mu.Lock()
		defer mu.Unlock()
		raw.Write(body)
		for _, rs := range data.GetResourceSpans() {
			for _, ss := range rs.GetScopeSpans() {
				for _, s := range ss.GetSpans() {
					names = append(names, s.GetName())
				}
			}
		}
	}))
	defer collector.Close()
	m := newModel(t, nil)
	r := start(t, t.TempDir(), append(always(m, lessonDir(t)),
		"--otel-endpoint", collector.URL, "--otel-headers", "Authorization: Bearer otel-key")...)
	for range 3 {
		post(t, r.Data+"/v1/chat/completions", nil, `{"model":"m1","messages":[{"role":"user","content":"canary-words about the build script"}]}`)
	}
	metrics := r.metrics(t, "application/openmetrics-text")
	if !strings.Contains(metrics, `# {trace_id="`) || !strings.Contains(metrics, `precept_spans_total{outcome="dropped"} 0`) {
		t.Errorf("metrics without exemplars or spans:\n%s", metrics)
	}
	r.stop(t)
	if len(names) != 3 || names[0] != "chat m1" {
		t.Errorf("spans %q", names)
	}
	if all := raw.String(); strings.Contains(all, "canary") || !strings.Contains(all, "check-the-target") {
		t.Errorf("spans %q", all)
	}
	if strings.Contains(r.log.String(), "otel-key") {
		t.Error("the key is in the log")
	}
}

// metrics reads /metrics in a form.
func (r *running) metrics(t *testing.T, accept string) string {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, r.Admin+"/metrics", nil)
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Accept", accept)
	req.Header.Set("Authorization", "Bearer e2e-token")
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = res.Body.Close() }()
	b, err := io.ReadAll(res.Body)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}
