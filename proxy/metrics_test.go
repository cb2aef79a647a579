package proxy_test

import (
	"strings"
	"testing"

	"precept/internal/label"
	"precept/proxy"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	dto "github.com/prometheus/client_model/go"
)

// Prometheus's increase() misses the first event in a series that starts at 1.
func TestAlertSeriesStartAtZero(t *testing.T) {
	reg := prometheus.NewRegistry()
	proxy.NewMetrics(reg)
	families, err := reg.Gather()
	if err != nil {
		t.Fatal(err)
	}
	series := map[string]int{} // series count by metric
	for _, f := range families {
		series[f.GetName()] = len(f.GetMetric())
		for _, m := range f.GetMetric() {
			if m.GetCounter().GetValue() != 0 {
				t.Errorf("%s starts at %v, want 0", f.GetName(), m.GetCounter().GetValue())
			}
		}
	}
	for name := range strings.FieldsSeq(`precept_requests_total precept_feedback_total precept_sessions_total
		precept_fail_open_total precept_uninspected_total precept_injection_rejected_total`) {
		if series[name] == 0 {
			t.Errorf("metric %s has no series before the first event", name)
		}
	}
}

func TestFailOpenHasSeriesForEachStep(t *testing.T) {
	m := proxy.NewMetrics(prometheus.NewRegistry())
	series := testutil.CollectAndCount(m.Series("fail_open"))
	for _, step := range label.Steps() {
		m.FailedOpen(step)
	}
	if n := testutil.CollectAndCount(m.Series("fail_open")); n != series {
		t.Errorf("series = %d, want %d as at startup", n, series)
	} else if n != len(label.Steps()) {
		t.Errorf("series = %d, want %d", n, len(label.Steps()))
	}
}

func counterTotal(c prometheus.Collector) (sum float64) {
	series := make(chan prometheus.Metric)
	go func() {
		defer close(series)
		c.Collect(series)
	}()
	for s := range series {
		var m dto.Metric
		if err := s.Write(&m); err == nil {
			sum += m.GetCounter().GetValue()
		}
	}
	return sum
}

func TestPreceptSkipNamesReason(t *testing.T) {
	flags := injectAll()
	flags["debug_headers"], flags["limits.inspect_bytes"] = "true", "100"
	f := newFixture(t, newUpstream(t, newModel(t)), "", newBook(t, "one: alpha"), flags)
	for body, want := range map[string]string{
		`{"messages":[` + strings.Repeat(" ", 100) + `]}`: "size",
		`{"messages":"alpha"}`:                            "list_type",
		`{"messages":[`:                                   "invalid_json",
	} {
		if res, _ := f.send(t, "POST", chatPath, bearerHeader("k"), body); res.Header.Get("Precept-Skip") != want {
			t.Errorf("body %.20s: Precept-Skip = %q, want %q", body, res.Header.Get("Precept-Skip"), want)
		}
	}
	if res, _ := f.send(t, "POST", "/v1/embeddings", bearerHeader("k"), `{"input":"alpha"}`); res.Header.Get("Precept-Skip") != "" {
		t.Errorf("path that is not inspected: Precept-Skip = %q, want none", res.Header.Get("Precept-Skip"))
	}
}
