package proxy_test

import (
	"cmp"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"precept/proxy"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	dto "github.com/prometheus/client_model/go"
)

// What alerts look at is there before it happens: a series that begins at one has not grown.
func TestSeriesBeginAtZero(t *testing.T) {
	reg := prometheus.NewRegistry()
	proxy.NewMetrics(reg)
	families, err := reg.Gather()
	if err != nil {
		t.Fatal(err)
	}
	there := map[string]int{}
	for _, f := range families {
		there[f.GetName()] = len(f.GetMetric())
		for _, m := range f.GetMetric() {
			if m.GetCounter().GetValue() != 0 {
				t.Errorf("%s begins at %v", f.GetName(), m.GetCounter().GetValue())
			}
		}
	}
	for name := range strings.FieldsSeq(`precept_requests_total precept_feedback_total precept_sessions_total
		precept_fail_open_total precept_uninspected_total precept_injection_rejected_total`) {
		if there[name] == 0 {
			t.Errorf("%s is not there before it happens", name)
		}
	}
}

// So is every step whose fault is counted, in whichever package it is taken.
func TestStepsBeginAtZero(t *testing.T) {
	m := proxy.NewMetrics(prometheus.NewRegistry())
	before := testutil.CollectAndCount(m.Series("fail_open"))
	named := regexp.MustCompile(`\b(?:guard|[fF]ailed|FailedOpen|[pP]anicked|Step)\("([a-z ]+)"`)
	found := 0
	err := filepath.WalkDir("..", func(path string, d fs.DirEntry, err error) error {
		switch {
		case err != nil, d.IsDir() && (d.Name() == "admin" || d.Name() == ".cache"): // its steps are those of number fields
			return cmp.Or(err, filepath.SkipDir)
		case d.IsDir(), filepath.Ext(path) != ".go", strings.HasSuffix(path, "_test.go"):
			return nil
		}
		text, err := os.ReadFile(path)
		for _, step := range named.FindAllStringSubmatch(string(text), -1) {
			found++
			m.FailedOpen(step[1])
			if n := testutil.CollectAndCount(m.Series("fail_open")); n != before {
				t.Errorf("%s: the step %q is not there before it fails", path, step[1])
				before = n
			}
		}
		return err
	})
	if err != nil || found < 50 {
		t.Errorf("%d steps were found: %v", found, err)
	}
}

// total is what the series of a counter count together.
func total(c prometheus.Collector) (sum float64) {
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

// Where debug headers are asked for they say of a body that was not understood why it was not.
func TestUninspectedSaysWhy(t *testing.T) {
	flags := certain()
	flags["debug_headers"], flags["limits.inspect_bytes"] = "true", "100"
	r := newRig(t, newUpstream(t, model(t)), "", bookOf(t, "one: alpha"), flags)
	for body, want := range map[string]string{
		`{"messages":[` + strings.Repeat(" ", 100) + `]}`: "size",
		`{"messages":"alpha"}`:                            "list_type",
		`{"messages":[`:                                   "invalid_json",
	} {
		if res, _ := r.send(t, "POST", chatPath, bearer("k"), body); res.Header.Get("Precept-Skip") != want {
			t.Errorf("%.20s: %q, want %q", body, res.Header.Get("Precept-Skip"), want)
		}
	}
	if res, _ := r.send(t, "POST", "/v1/embeddings", bearer("k"), `{"input":"alpha"}`); res.Header.Get("Precept-Skip") != "" {
		t.Error("a path that is not rewritten has one")
	}
}
