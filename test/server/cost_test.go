package server

import (
	"io"
	"math"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"precept/store"
	"precept/test/harness"
)

// The model of the sub-agent costs a fifth of the parent's model. Both agents write to the prompt cache.
func TestSessionCostFollowsEachModel(t *testing.T) {
	model := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		name, written := "claude-opus-4-5", `"cache_creation_input_tokens":300000,"cache_creation":{"ephemeral_5m_input_tokens":200000,"ephemeral_1h_input_tokens":100000}`
		if strings.Contains(string(body), "haiku") {
			name, written = "claude-haiku-4-5", `"cache_creation_input_tokens":400000,"cache_creation":{"ephemeral_5m_input_tokens":400000,"ephemeral_1h_input_tokens":0}`
		}
		w.Header().Set("Content-Type", "text/event-stream")
		_, _ = io.WriteString(w, "event: message_start\ndata: {\"type\":\"message_start\",\"message\":{\"id\":\"msg_"+harness.RandomHex(8)+"\",\"type\":\"message\",\"role\":\"assistant\",\"model\":\""+name+"\",\"content\":[],"+
			"\"usage\":{\"input_tokens\":100000,\"cache_read_input_tokens\":600000,"+written+",\"output_tokens\":1}}}\n\n"+
			"event: content_block_start\ndata: {\"type\":\"content_block_start\",\"index\":0,\"content_block\":{\"type\":\"text\",\"text\":\"\"}}\n\n"+
			"event: content_block_delta\ndata: {\"type\":\"content_block_delta\",\"index\":0,\"delta\":{\"type\":\"text_delta\",\"text\":\"Done by "+name+".\"}}\n\n"+
			"event: content_block_stop\ndata: {\"type\":\"content_block_stop\",\"index\":0}\n\n"+
			"event: message_delta\ndata: {\"type\":\"message_delta\",\"delta\":{\"stop_reason\":\"end_turn\"},\"usage\":{\"output_tokens\":10000}}\n\n"+
			"event: message_stop\ndata: {\"type\":\"message_stop\"}\n\n")
	}))
	t.Cleanup(model.Close)
	dir := t.TempDir()
	file := filepath.Join(dir, "precept.yaml")
	if err := os.WriteFile(file, []byte("prices:\n  - {model: claude-opus-4-5*, input: 5, cached: 0.5, output: 25}\n"+
		"  - {model: claude-haiku-4-5*, input: 1, cached: 0.1, cache_write: 1.5, output: 5}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	p := harness.Start(t, dir, "--config", file, "--upstream", model.URL+"/v1")
	header := http.Header{"X-Claude-Code-Session-Id": {"uuid-1"}, "Anthropic-Version": {"2023-06-01"}}
	send := func(model, system, tool, text string) {
		t.Helper()
		status, body := harness.Post(t, p.DataURL+"/v1/messages", header, `{"model":"`+model+`","max_tokens":64,"stream":true,"system":"`+system+
			`","tools":[{"name":"`+tool+`","input_schema":{"type":"object"}}],"messages":[{"role":"user","content":"`+text+`"}]}`)
		if status != http.StatusOK {
			t.Fatalf("%s: got status %d, %s", model, status, body)
		}
	}
	send("claude-opus-4-5", "You build.", "Task", "Fix the build, please.")
	send("claude-haiku-4-5-20251001", "You search.", "Grep", "Find the parser in this tree.")

	const opus = 0.1*5 + 0.6*0.5 + 0.2*6.25 + 0.1*10 + 0.01*25
	const haiku = 0.1*1 + 0.6*0.1 + 0.4*1.5 + 0.01*5
	var x store.Transcript
	harness.Eventually(t, "both models in the parent session", func() bool {
		return p.GetAdmin(t, "/api/sessions/uuid-1", &x) == http.StatusOK && len(x.Models) == 2 && len(x.TurnItems) == 1
	})
	if x.Cost == nil || math.Abs(*x.Cost-opus-haiku) > 1e-9 || x.Input != 2_100_000 || x.Written != 700_000 {
		t.Errorf("parent session: got %+v, want cost %v, 2100000 input tokens, and 700000 written to the cache", x.SessionItem, opus+haiku)
	}
	for _, m := range x.Models {
		want := store.ModelUsage{Model: "claude-opus-4-5", Input: 1_000_000, Cached: 600_000, Written: 300_000, WrittenHour: 100_000, Output: 10_000}
		cost := opus
		if m.Model != want.Model {
			want = store.ModelUsage{Model: "claude-haiku-4-5-20251001", Input: 1_100_000, Cached: 600_000, Written: 400_000, Output: 10_000}
			cost = haiku
		}
		if m.Cost == nil || math.Abs(*m.Cost-cost) > 1e-9 {
			t.Errorf("%s: got cost %v, want %v", m.Model, m.Cost, cost)
		}
		if m.Cost = nil; m != want {
			t.Errorf("tokens: got %+v, want %+v", m, want)
		}
	}
	var traffic struct {
		Sum struct {
			Sessions int
			Input    int64 `json:"input_tokens"`
			Cost     float64
		}
	}
	harness.Eventually(t, "both sessions on the Traffic page", func() bool {
		return p.GetAdmin(t, "/api/traffic", &traffic) == http.StatusOK && traffic.Sum.Sessions == 2
	})
	if got := traffic.Sum; got.Input != 2_100_000 || math.Abs(got.Cost-opus-haiku) > 1e-9 {
		t.Errorf("traffic: got %+v, want 2100000 input tokens and cost %v, without counting the sub-agent twice", got, opus+haiku)
	}
	var page string
	p.GetAdmin(t, "/sessions/uuid-1", &page)
	for _, want := range []string{"By model", "claude-haiku-4-5-20251001", "700,000 written to the cache"} {
		if !strings.Contains(page, want) {
			t.Errorf("the page of the session lacks %q", want)
		}
	}
	if metrics := p.Metrics(t, "text/plain"); !strings.Contains(metrics, `precept_upstream_tokens_total{type="cache_write"} 700000`) {
		t.Errorf("/metrics lacks 700000 tokens of the type cache_write:\n%s", metrics)
	}
}
