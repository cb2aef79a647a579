package server_test

import (
	"bytes"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
)

// startDistillingServer starts a server that distils lessons, and sends one session for distillation. model is the URL
// of both the upstream and the judge, the model that rates sessions. key and value are an additional setting.
func startDistillingServer(t *testing.T, model, key, value string) *runningServer {
	t.Helper()
	s := startServer(t, newFlagSource(t, map[string]string{
		"upstream": model + "/v1", "reward.close_after": "1s", key: value,
		"distill.enabled": "true", "distill.every": "1s", "distill.judge": model + "/v1", "distill.model": "judge",
	}))
	res, err := http.Post(s.dataURL+"/v1/chat/completions", "application/json", //nolint:noctx // the test waits for the answer
		strings.NewReader(`{"model":"m","messages":[{"role":"user","content":"Mend the build, please."}]}`))
	if err != nil {
		t.Fatal(err)
	}
	_ = res.Body.Close()
	return s
}

// The judge in this test responds to every request with status 401.
func TestOverviewReportsFailedDistiller(t *testing.T) {
	const token = "0123456789abcdef"
	model := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if body, err := io.ReadAll(r.Body); err != nil || bytes.Contains(body, []byte(`"model":"judge"`)) {
			w.WriteHeader(http.StatusUnauthorized)
			return
		}
		w.Header().Set("Content-Type", "application/json")
		_, _ = io.WriteString(w, `{"id":"chatcmpl-1","choices":[{"index":0,"finish_reason":"stop","message":{"role":"assistant","content":"done"}}]}`)
	}))
	defer model.Close()
	s := startDistillingServer(t, model.URL, "admin.tokens", token)
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, s.adminURL+"/", nil)
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Authorization", "Bearer "+token)
	eventually(t, "distiller failure on the overview", func() bool {
		res, err := http.DefaultClient.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		defer res.Body.Close()
		page, err := io.ReadAll(res.Body)
		return err == nil && bytes.Contains(page, []byte("Distiller: the last run failed: distill: the judge answered with status 401"))
	})
	if err := s.stopAndWait(); err != nil {
		t.Error(err)
	}
}

// The judge's reply in this test is not a judgement, so the distill step fails.
func TestDistillerFailureMetricOmitsSessionName(t *testing.T) {
	model := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		_, _ = io.WriteString(w, `{"id":"chatcmpl-1","choices":[{"index":0,"finish_reason":"stop","message":{"role":"assistant","content":"no judgement"}}]}`)
	}))
	defer model.Close()
	s := startDistillingServer(t, model.URL, "metrics.public", "true")
	var metrics []byte
	eventually(t, "counted failure", func() bool {
		res, err := http.Get(s.adminURL + "/metrics") //nolint:noctx // the test waits for the answer
		if err != nil {
			t.Fatal(err)
		}
		defer res.Body.Close()
		metrics, err = io.ReadAll(res.Body)
		return err == nil && bytes.Contains(metrics, []byte(`precept_fail_open_total{step="distill"} `))
	})
	if bytes.Contains(metrics, []byte(`step="session`)) {
		t.Errorf("step labels: got a label with the name of a session, want none; metrics:\n%s", metrics)
	}
	if err := s.stopAndWait(); err != nil {
		t.Error(err)
	}
}
