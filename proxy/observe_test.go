package proxy_test

import (
	"context"
	"encoding/hex"
	"io"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"precept/proxy"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"
	otlp "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/protobuf/proto"

	"precept/proxy/trace"
)

// addTracer adds a tracer with a simulated collector. stop stops the fixture and returns the spans at the collector.
func addTracer(t *testing.T, f *fixture, sample float64) (stop func() []*otlp.Span) {
	t.Helper()
	var mu sync.Mutex
	var spans []*otlp.Span
	var raw string // request bodies at the collector
	c := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, req *http.Request) {
		body, _ := io.ReadAll(req.Body)
		var data otlp.TracesData
		if err := proto.Unmarshal(body, &data); err != nil {
			t.Error(err)
		}
		mu.Lock()
		defer mu.Unlock()
		raw += string(body)
		for _, rs := range data.GetResourceSpans() {
			for _, ss := range rs.GetScopeSpans() {
				spans = append(spans, ss.GetSpans()...)
			}
		}
	}))
	t.Cleanup(c.Close)
	tr, err := trace.New(trace.Options{Endpoint: c.URL, Sample: sample, OnFailure: func(err error) { t.Error(err) }})
	if err != nil {
		t.Fatal(err)
	}
	f.Options().Tracer = tr
	ctx, cancel := context.WithCancel(context.Background())
	var wg sync.WaitGroup
	wg.Go(func() { _ = tr.Run(ctx) })
	endRun := sync.OnceFunc(func() { cancel(); wg.Wait() })
	t.Cleanup(endRun)
	eventually(t, func() bool { // wait for Run: the tracer drops spans that end earlier
		dropped := tr.Dropped()
		tr.Start(ctx, http.Header{"Traceparent": {tracedParent}}, time.Now()).End(time.Now(), &trace.Facts{})
		return tr.Dropped() == dropped
	})
	return func() []*otlp.Span {
		f.stop() // a handler ends the span when it returns
		endRun()
		if strings.Contains(raw, "canary") {
			t.Errorf("spans contain conversation content: %q", raw)
		}
		return spans[min(1, len(spans)):] // without the span from the wait for Run
	}
}

// spanAttributes returns a span's attributes as strings. In a list, each value ends with a semicolon.
func spanAttributes(s *otlp.Span) map[string]string {
	out := map[string]string{}
	for _, kv := range s.GetAttributes() {
		v := kv.GetValue()
		out[kv.GetKey()] = v.GetStringValue()
		for _, e := range v.GetArrayValue().GetValues() {
			out[kv.GetKey()] += e.GetStringValue() + ";"
		}
		if n := v.GetIntValue(); n != 0 {
			out[kv.GetKey()] = strconv.FormatInt(n, 10)
		}
	}
	return out
}

const tracedParent = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"

// The span has names, numbers and hashes, but no text from the conversation (here, the word canary).
func TestTurnSpanHasNoContent(t *testing.T) {
	up := newUpstream(t, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		_, _ = io.WriteString(w, chatReply("chatcmpl-7", "canary in the reply"))
	})
	f := newFixture(t, up, "", newBook(t, "try-again: flaky", "read-first: flaky"), injectAll())
	stopTracer := addTracer(t, f, 0)
	header := http.Header{
		"Traceparent": {tracedParent}, "Tracestate": {"vendor=x"}, "Precept-Session": {"canary-session"}, "User-Agent": {"coder/1"},
		"Authorization": {"Bearer canary-key"},
	}
	f.chat(t, header, `{"model":"m-large","messages":[{"role":"user","content":"the canary test is flaky"}]}`)
	forwarded := up.lastRequest(t).header
	f.chat(t, http.Header{"Traceparent": {strings.TrimSuffix(tracedParent, "1") + "0"}}, `{"model":"m","messages":[{"role":"user","content":"x"}]}`)
	if got := up.lastRequest(t).header.Get("Traceparent"); got != strings.TrimSuffix(tracedParent, "1")+"0" {
		t.Errorf("unsampled trace: the upstream got traceparent %q, want it unchanged", got)
	}
	all := stopTracer()
	if len(all) != 1 {
		t.Fatalf("the collector got %d spans, want 1", len(all))
	}
	s, got := all[0], spanAttributes(all[0])
	if want := "00-0af7651916cd43dd8448eb211c80319c-" + hex.EncodeToString(s.GetSpanId()) + "-01"; forwarded.Get("Traceparent") != want {
		t.Errorf("the upstream: Traceparent = %q, want %q", forwarded.Get("Traceparent"), want)
	} else if forwarded.Get("Tracestate") != "vendor=x" {
		t.Errorf(`the upstream: Tracestate = %q, want "vendor=x"`, forwarded.Get("Tracestate"))
	} else if hex.EncodeToString(s.GetParentSpanId()) != "b7ad6b7169203331" {
		t.Errorf(`the upstream: parent span id = %q, want "b7ad6b7169203331"`, hex.EncodeToString(s.GetParentSpanId()))
	} else if s.GetName() != "chat m-large" {
		t.Errorf(`the upstream: name = %q, want "chat m-large"`, s.GetName())
	}
	for k, want := range map[string]string{
		"gen_ai.operation.name": "chat", "gen_ai.provider.name": "openai", "gen_ai.request.model": "m-large", "gen_ai.response.model": "m",
		"gen_ai.response.id": "chatcmpl-7", "gen_ai.response.finish_reasons": "stop;", "gen_ai.usage.input_tokens": "3", "gen_ai.usage.output_tokens": "2",
		"server.address": "127.0.0.1", "http.response.status_code": "200", "gen_ai.agent.name": "coder", "precept.lessons.injected": "read-first;try-again;",
		"precept.lessons.withheld": "", "precept.api": "chat", "precept.turn": "1",
	} {
		if got[k] != want {
			t.Errorf("attribute %s = %q, want %q", k, got[k], want)
		}
	}
	if len(got["gen_ai.conversation.id"]) != 32 {
		t.Errorf(`attributes["gen_ai.conversation.id"] = %d bytes, want 32`, len(got["gen_ai.conversation.id"]))
	}
	if !strings.HasPrefix(got["precept.request_id"], "req_") {
		t.Errorf(`attributes["precept.request_id"] = %q, want prefix "req_"`, got["precept.request_id"])
	}
	if got["error.type"] != "" {
		t.Errorf(`attributes["error.type"] = %q, want ""`, got["error.type"])
	}
}

func TestOptedOutTurnSpanHasNoIDs(t *testing.T) {
	up := newUpstream(t, nil)
	f := newFixture(t, up, "", nil, injectAll())
	stopTracer := addTracer(t, f, 1)
	f.chat(t, http.Header{"Precept-Learn": {"off"}, "Precept-Session": {"s"}}, `{"model":"m","messages":[{"role":"user","content":"x"}]}`)
	if h := up.lastRequest(t).header; h.Get("Traceparent") != "" {
		t.Errorf("the upstream got headers %v, want no Traceparent", h)
	}
	all := stopTracer()
	if len(all) != 1 {
		t.Fatalf("the collector got %d spans, want 1", len(all))
	}
	got := spanAttributes(all[0])
	for _, k := range []string{"gen_ai.conversation.id", "gen_ai.agent.name", "gen_ai.response.id", "precept.request_id", "precept.lessons.injected"} {
		if v, ok := got[k]; ok {
			t.Errorf("span has attribute %s = %q, want none", k, v)
		}
	}
	if got["gen_ai.usage.input_tokens"] != "3" {
		t.Errorf("attributes = %q, want gen_ai.usage.input_tokens = 3", got)
	}
}

// If the upstream answers a request that is not JSON, the span has no error.
func TestFailedTurnSpanHasErrorType(t *testing.T) {
	for _, tc := range []struct {
		name, body, want string
		reply            http.HandlerFunc
	}{
		{"upstream refuses", `{"messages":[]}`, "429", func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusTooManyRequests) }},
		{"upstream cuts the stream", `{"messages":[{"role":"user","content":"x"}]}`, "incomplete", func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "text/event-stream")
			_, _ = io.WriteString(w, "data: {\"id\":\"c\",\"choices\":[{\"index\":0,\"delta\":{\"content\":\"canary\"}}]}\n\n")
			w.(http.Flusher).Flush()
			panic(http.ErrAbortHandler)
		}},
		{"request is not JSON", `canary`, "", nil},
	} {
		t.Run(tc.name, func(t *testing.T) {
			f := newDefaultFixture(t, newUpstream(t, tc.reply))
			stopTracer := addTracer(t, f, 1)
			req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, f.url+chatPath, strings.NewReader(tc.body))
			if err != nil {
				t.Fatal(err)
			}
			if res, err := client(t).Do(req); err == nil {
				_, _ = io.Copy(io.Discard, res.Body)
				_ = res.Body.Close()
			}
			all := stopTracer()
			if len(all) != 1 || spanAttributes(all[0])["error.type"] != tc.want || (all[0].GetStatus().GetCode() == otlp.Status_STATUS_CODE_ERROR) != (tc.want != "") {
				t.Errorf("spans = %v, want one with error.type %q, and status ERROR: %t", all, tc.want, tc.want != "")
			}
		})
	}
}

func TestMetricsHaveTokenUsageAndExemplars(t *testing.T) {
	f := newFixture(t, newUpstream(t, nil), "", nil, injectAll())
	reg := prometheus.NewRegistry()
	f.Options().Metrics = proxy.NewMetrics(reg)
	stopTracer := addTracer(t, f, 0)
	body := `{"model":"m","messages":[{"role":"user","content":"x"}]}`
	f.chat(t, nil, body)
	if e := exemplars(t, reg); len(e) != 0 {
		t.Errorf("exemplars after a turn without a sampled trace = %v, want none", e)
	}
	f.chat(t, http.Header{"Traceparent": {tracedParent}}, body)
	stopTracer()
	e := exemplars(t, reg)
	if len(e) != 2 {
		t.Fatalf("exemplars = %q, want 2 items", e)
	}
	if e[0] != "0af7651916cd43dd8448eb211c80319c" {
		t.Errorf(`exemplars[0] = %q, want "0af7651916cd43dd8448eb211c80319c"`, e[0])
	}
	got := gatherMetrics(t, reg)
	n := 0.0
	for _, series := range got["precept_upstream_tokens_total"] {
		n += series.GetCounter().GetValue()
	}
	if n != 10 {
		t.Errorf("precept_upstream_tokens_total = %v, want 10", n)
	}
	if len(got["precept_upstream_tokens_total"]) != 4 {
		t.Errorf(`precept_upstream_tokens_total = %+v, want 4 items`, got["precept_upstream_tokens_total"])
	}
	for name, want := range map[string]uint64{"gen_ai_client_operation_duration_seconds": 2, "gen_ai_client_token_usage": 4} {
		var n uint64
		for _, m := range got[name] {
			n += m.GetHistogram().GetSampleCount()
		}
		if n != want {
			t.Errorf("%s observations = %d, want %d", name, n, want)
		}
	}
}

func gatherMetrics(t *testing.T, reg *prometheus.Registry) map[string][]*dto.Metric {
	t.Helper()
	families, err := reg.Gather()
	if err != nil {
		t.Fatal(err)
	}
	out := map[string][]*dto.Metric{}
	for _, f := range families {
		out[f.GetName()] = f.GetMetric()
	}
	return out
}

func exemplars(t *testing.T, reg *prometheus.Registry) (out []string) {
	t.Helper()
	for _, m := range gatherMetrics(t, reg)["precept_overhead_seconds"] {
		for _, b := range m.GetHistogram().GetBucket() {
			for _, l := range b.GetExemplar().GetLabel() {
				out = append(out, l.GetValue())
			}
		}
	}
	return out
}
