package server

import (
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

	"precept/test/harness"

	otlp "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/protobuf/proto"
)

func TestTracesReachTheCollectorWithoutContent(t *testing.T) {
	var mu sync.Mutex
	var names []string
	var raw strings.Builder
	collector := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		var data otlp.TracesData
		if err != nil || proto.Unmarshal(body, &data) != nil || r.Header.Get("Authorization") != "Bearer otel-key" {
			t.Errorf("request to the collector: got read error %v, headers %v, want OTLP data and Authorization: Bearer otel-key", err, r.Header)
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
	m := harness.NewModel(t, nil)
	p := harness.Start(t, t.TempDir(), append(harness.AlwaysInject(m, harness.LessonDir(t)),
		"--otel-endpoint", collector.URL, "--otel-headers", "Authorization: Bearer otel-key")...)
	for range 3 {
		p.Chat(t, nil, `{"model":"m1","messages":[{"role":"user","content":"canary-words about the build script"}]}`)
	}
	metrics := p.Metrics(t, "application/openmetrics-text")
	if !strings.Contains(metrics, `# {trace_id="`) || !strings.Contains(metrics, `precept_spans_total{outcome="dropped"} 0`) {
		t.Errorf("/metrics: got\n%s\nwant an exemplar with a trace_id, and 0 dropped spans", metrics)
	}
	p.Stop()
	if len(names) != 3 || names[0] != "chat m1" {
		t.Errorf("span names: got %q, want 3 names, beginning with \"chat m1\"", names)
	}
	if all := raw.String(); strings.Contains(all, "canary") || !strings.Contains(all, "check-the-target") {
		t.Errorf("spans: got %q, want the lesson check-the-target, and no words from the session", all)
	}
	if strings.Contains(p.Log.String(), "otel-key") {
		t.Error("the log contains the key of the collector, want no key")
	}
}
