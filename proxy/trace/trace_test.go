package trace

import (
	"context"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"
	"google.golang.org/protobuf/proto"

	common "go.opentelemetry.io/proto/otlp/common/v1"
	wire "go.opentelemetry.io/proto/otlp/trace/v1"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

type collector struct {
	*httptest.Server
	mu       sync.Mutex
	spans    []*wire.Span
	resource []*common.KeyValue
	headers  http.Header
	requests int
	answer   func(n int, w http.ResponseWriter) // writes the response to request n, counted from 1; nil means status 200
}

func newCollector(t *testing.T, answer func(n int, w http.ResponseWriter)) *collector {
	t.Helper()
	c := &collector{answer: answer}
	c.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		var data wire.TracesData
		if err != nil {
			return // the tracer has given up
		}
		if err := proto.Unmarshal(body, &data); err != nil {
			t.Error(err)
		} else if r.URL.Path != "/v1/traces" {
			t.Errorf(`the collector: Path = %q, want "/v1/traces"`, r.URL.Path)
		} else if r.Header.Get("Content-Type") != "application/x-protobuf" {
			t.Errorf(`the collector: Content-Type = %q, want "application/x-protobuf"`, r.Header.Get("Content-Type"))
		}
		c.mu.Lock()
		c.requests++
		n := c.requests
		c.mu.Unlock()
		code := http.StatusOK
		if c.answer != nil {
			rec := &statusRecorder{ResponseWriter: w, code: http.StatusOK}
			c.answer(n, rec)
			code = rec.code
		}
		if code != http.StatusOK {
			return
		}
		c.mu.Lock()
		defer c.mu.Unlock()
		c.headers = r.Header
		for _, rs := range data.GetResourceSpans() {
			c.resource = rs.GetResource().GetAttributes()
			for _, ss := range rs.GetScopeSpans() {
				c.spans = append(c.spans, ss.GetSpans()...)
			}
		}
	}))
	t.Cleanup(c.Close)
	return c
}

type statusRecorder struct {
	http.ResponseWriter
	code int
}

func (s *statusRecorder) WriteHeader(code int) {
	s.code = code
	s.ResponseWriter.WriteHeader(code)
}

func eventually(t *testing.T, ok func() bool) {
	t.Helper()
	for end := time.Now().Add(time.Minute); !ok(); time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatal("condition not met within a minute")
		}
	}
}

// startTracer starts a tracer. The function stop also sends the remaining spans.
func startTracer(t *testing.T, o Options) (tr *Tracer, stop func()) {
	t.Helper()
	tr, err := New(o)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	var wg sync.WaitGroup
	wg.Go(func() { _ = tr.Run(ctx) })
	eventually(t, func() bool { return tr.queue.batches.Load() != nil })
	stop = sync.OnceFunc(func() { cancel(); wg.Wait() })
	t.Cleanup(stop)
	return tr, stop
}

func attributes(all []*common.KeyValue) map[string]string {
	out := map[string]string{}
	for _, kv := range all {
		v := kv.GetValue()
		switch {
		case v.GetArrayValue() != nil:
			var parts []string
			for _, e := range v.GetArrayValue().GetValues() {
				parts = append(parts, e.GetStringValue())
			}
			out[kv.GetKey()] = "[" + strings.Join(parts, " ") + "]"
		case v.GetStringValue() != "":
			out[kv.GetKey()] = v.GetStringValue()
		default:
			out[kv.GetKey()] = fmt.Sprint(v.GetIntValue())
		}
	}
	return out
}

const parentHeader = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"

func TestSpanHasAttributesParentAndResource(t *testing.T) {
	c := newCollector(t, nil)
	tr, stop := startTracer(t, Options{Endpoint: c.URL + "/", Headers: http.Header{"Authorization": {"Bearer k"}}, Sample: 1, Version: "v9"})
	start := time.UnixMilli(1_700_000_000_123)
	h := http.Header{"Traceparent": {parentHeader}, "Tracestate": {"a=b"}}
	span := tr.Start(t.Context(), h, start)
	out := h.Clone()
	span.Forward(t.Context(), out)
	span.End(start.Add(1500*time.Millisecond), &Facts{
		Request:      Request{Provider: "anthropic", Model: "m1", Server: "api.example", Port: 443},
		Reply:        Reply{Status: 200, Model: "m1-2026", ID: "msg_1", Finish: "end_turn", Input: 7, Cached: 0, Output: -1},
		Conversation: &Conversation{Session: "beef", Agent: "coder", Turn: 2, Injected: []string{"a", "b"}},
	})
	stop()
	if len(c.spans) != 1 {
		t.Fatalf("the collector: spans = %+v, want 1 span", c.spans)
	}
	if tr.Sent() != 1 {
		t.Fatalf("the collector: Sent = %d, want 1", tr.Sent())
	}
	if tr.Dropped() != 0 {
		t.Fatalf("the collector: Dropped = %d, want 0", tr.Dropped())
	}
	s := c.spans[0]
	id := fmt.Sprintf("%x", s.GetSpanId())
	if s.GetName() != "chat m1" {
		t.Errorf(`span: name = %q, want "chat m1"`, s.GetName())
	}
	if s.GetKind() != wire.Span_SPAN_KIND_CLIENT {
		t.Errorf("span: kind = %v, want %v", s.GetKind(), wire.Span_SPAN_KIND_CLIENT)
	}
	if fmt.Sprintf("%x", s.GetTraceId()) != "0af7651916cd43dd8448eb211c80319c" {
		t.Errorf(`span: trace id = %q, want "0af7651916cd43dd8448eb211c80319c"`, fmt.Sprintf("%x", s.GetTraceId()))
	}
	if fmt.Sprintf("%x", s.GetParentSpanId()) != "b7ad6b7169203331" {
		t.Errorf(`span: parent span id = %q, want "b7ad6b7169203331"`, fmt.Sprintf("%x", s.GetParentSpanId()))
	}
	if s.GetTraceState() != "a=b" {
		t.Errorf(`span: trace state = %q, want "a=b"`, s.GetTraceState())
	}
	if s.GetStartTimeUnixNano() != uint64(start.UnixNano()) {
		t.Errorf("start = %d, want %d", s.GetStartTimeUnixNano(), uint64(start.UnixNano()))
	}
	if s.GetEndTimeUnixNano()-s.GetStartTimeUnixNano() != 1_500_000_000 {
		t.Errorf("duration = %d, want 1_500_000_000", s.GetEndTimeUnixNano()-s.GetStartTimeUnixNano())
	}
	if got, want := out.Get("Traceparent"), "00-0af7651916cd43dd8448eb211c80319c-"+id+"-01"; got != want {
		t.Errorf("forwarded traceparent = %q, want %q", got, want)
	} else if out.Get("Tracestate") != "a=b" {
		t.Errorf(`forwarded traceparent: Tracestate = %q, want "a=b"`, out.Get("Tracestate"))
	}
	got := attributes(s.GetAttributes())
	for k, want := range map[string]string{
		"gen_ai.operation.name": "chat", "gen_ai.provider.name": "anthropic", "gen_ai.request.model": "m1", "gen_ai.response.model": "m1-2026",
		"gen_ai.response.id": "msg_1", "gen_ai.response.finish_reasons": "[end_turn]", "gen_ai.usage.input_tokens": "7",
		"gen_ai.usage.cache_read.input_tokens": "0", "server.address": "api.example", "server.port": "443", "gen_ai.conversation.id": "beef",
		"gen_ai.agent.name": "coder", "precept.turn": "2", "precept.lessons.injected": "[a b]", "precept.lessons.withheld": "[]",
	} {
		if got[k] != want {
			t.Errorf("attribute %s = %q, want %q", k, got[k], want)
		}
	}
	if _, ok := got["gen_ai.usage.output_tokens"]; ok {
		t.Error("attributes: ok = true, want false")
	} else if c.headers.Get("Authorization") != "Bearer k" {
		t.Errorf(`attributes: Authorization = %q, want "Bearer k"`, c.headers.Get("Authorization"))
	}
	if r := attributes(c.resource); r["service.name"] != "precept" {
		t.Errorf(`resource["service.name"] = %q, want "precept"`, r["service.name"])
	} else if r["service.version"] != "v9" {
		t.Errorf(`resource["service.version"] = %q, want "v9"`, r["service.version"])
	}
}

// A request's Traceparent says whether the trace is sampled. Without a valid Traceparent, the Sample option decides.
func TestSamplingFollowsTraceparent(t *testing.T) {
	never, err := New(Options{Endpoint: "http://127.0.0.1:1", Sample: 0})
	if err != nil {
		t.Fatal(err)
	}
	always, err := New(Options{Endpoint: "http://127.0.0.1:1", Sample: 1})
	if err != nil {
		t.Fatal(err)
	}
	unsampled := strings.TrimSuffix(parentHeader, "01") + "00"
	for _, tc := range []struct {
		name    string
		tracer  *Tracer
		parent  string
		sampled bool
		changed bool // Forward replaces the Traceparent
	}{
		{"nil tracer", nil, parentHeader, false, false},
		{"no parent, sample 0", never, "", false, false},
		{"no parent, sample 1", always, "", true, false},
		{"sampled parent", never, parentHeader, true, true},
		{"unsampled parent", always, unsampled, false, false},
		{"invalid parent", always, "00-zz-yy-01", true, false},
	} {
		h := http.Header{}
		if tc.parent != "" {
			h.Set("Traceparent", tc.parent)
		}
		span := tc.tracer.Start(t.Context(), h, time.Unix(1, 0))
		if (span != nil) != tc.sampled {
			t.Errorf("%s: span is set = %v, want %v", tc.name, span != nil, tc.sampled)
		}
		if (span.TraceID() != "") != tc.sampled {
			t.Errorf("%s: TraceID is set = %v, want %v", tc.name, span.TraceID() != "", tc.sampled)
		}
		span.Forward(t.Context(), h)
		if (h.Get("Traceparent") != tc.parent) != tc.changed || len(h.Values("Traceparent")) > 1 {
			t.Errorf("%s: forwarded headers = %q, want a changed traceparent: %t", tc.name, h, tc.changed)
		}
		span.End(time.Unix(2, 0), &Facts{})
	}
	if always.Dropped() != 2 {
		t.Errorf("without Run: Dropped() = %d, want 2", always.Dropped())
	}
}

// If the collector hangs, the tracer drops and counts the spans that do not fit into the queue, and stop returns within
// a bounded time.
func TestHangingCollectorDoesNotBlock(t *testing.T) {
	release := make(chan struct{})
	c := newCollector(t, func(int, http.ResponseWriter) { <-release })
	defer close(release)
	var mu sync.Mutex
	var reports []string
	tr, stop := startTracer(t, Options{Endpoint: c.URL, Sample: 1, OnFailure: func(err error) {
		mu.Lock()
		defer mu.Unlock()
		reports = append(reports, err.Error())
	}})
	const all = 3 * maxSpans
	for range all {
		tr.Start(t.Context(), nil, time.Unix(1, 0)).End(time.Unix(2, 0), &Facts{})
	}
	if d := tr.Dropped(); d < all-maxSpans {
		t.Errorf("%d of %d spans dropped before stop, want at least %d", d, all, all-maxSpans)
	}
	stop()
	if tr.Sent() != 0 {
		t.Errorf("after stop: Sent = %d, want 0", tr.Sent())
	}
	if tr.Dropped() != all {
		t.Errorf("after stop: Dropped = %d, want %d", tr.Dropped(), all)
	}
	if len(reports) == 0 {
		t.Error("after stop: got none")
	}
}

func TestUnsentSpansAreDropped(t *testing.T) {
	c := newCollector(t, nil)
	c.Close()
	tr, stop := startTracer(t, Options{Endpoint: c.URL, Sample: 1})
	tr.Start(t.Context(), nil, time.Unix(1, 0)).End(time.Unix(2, 0), &Facts{})
	stop()
	if tr.Dropped() != 1 {
		t.Errorf("without a collector: Dropped() = %d, want 1", tr.Dropped())
	}
	tr.Start(t.Context(), nil, time.Unix(1, 0)).End(time.Unix(2, 0), &Facts{})
	if tr.Dropped() != 2 {
		t.Errorf("after one more span: Dropped() = %d, want 2", tr.Dropped())
	}
}

// The tracer sends the spans to a busy collector again. Spans that the collector rejects count as dropped.
func TestSpansAreCountedByCollectorResponse(t *testing.T) {
	for _, tc := range []struct {
		name          string
		answer        func(n int, w http.ResponseWriter)
		requests      int
		sent, dropped int64
		reports       string // part of the reported errors
		wait          bool   // stop after the spans are sent or dropped
	}{
		{name: "busy at first", requests: 2, sent: 3, wait: true, answer: func(n int, w http.ResponseWriter) {
			if n == 1 {
				w.Header().Set("Retry-After", "1")
				w.WriteHeader(http.StatusServiceUnavailable)
			}
		}},
		{name: "refused", requests: 1, dropped: 3, reports: "401 Unauthorized", answer: func(_ int, w http.ResponseWriter) {
			w.WriteHeader(http.StatusUnauthorized)
		}},
		{name: "redirected", requests: 1, dropped: 3, reports: "307", answer: func(_ int, w http.ResponseWriter) {
			w.Header().Set("Location", "http://127.0.0.1:1/")
			w.WriteHeader(http.StatusTemporaryRedirect)
		}},
		{name: "partly accepted", requests: 1, sent: 1, dropped: 2, reports: "rejected 2 spans: too old", answer: func(_ int, w http.ResponseWriter) { _, _ = w.Write(partialResponse(2, "too old")) }},
		{name: "response is not protobuf", requests: 1, sent: 3, answer: func(_ int, w http.ResponseWriter) { _, _ = w.Write([]byte("fine")) }},
	} {
		t.Run(tc.name, func(t *testing.T) {
			c := newCollector(t, tc.answer)
			var reports []string
			tr, stop := startTracer(t, Options{Endpoint: c.URL + "/v1/traces", Sample: 1, OnFailure: func(err error) { reports = append(reports, err.Error()) }})
			for range 3 {
				tr.Start(t.Context(), nil, time.Unix(1, 0)).End(time.Unix(2, 0), &Facts{})
			}
			if tc.wait {
				eventually(t, func() bool { return tr.Sent() > 0 || tr.Dropped() > 0 })
			}
			stop()
			if c.requests != tc.requests {
				t.Errorf("the collector: requests = %d, want %d", c.requests, tc.requests)
			}
			if tr.Sent() != tc.sent {
				t.Errorf("the collector: Sent = %d, want %d", tr.Sent(), tc.sent)
			}
			if tr.Dropped() != tc.dropped {
				t.Errorf("the collector: Dropped = %d, want %d", tr.Dropped(), tc.dropped)
			}
			if (tc.reports == "") != (len(reports) == 0) || !strings.Contains(strings.Join(reports, " "), tc.reports) {
				t.Errorf("reported errors = %q, want %q", reports, tc.reports)
			}
		})
	}
}

// The tracer shortens long texts and escapes invalid ones, because a collector would refuse a whole batch with one such
// text.
func TestLongAndInvalidTextsAreSanitized(t *testing.T) {
	c := newCollector(t, nil)
	tr, stop := startTracer(t, Options{Endpoint: c.URL, Sample: 1})
	tr.Start(t.Context(), nil, time.Unix(1, 0)).End(time.Unix(2, 0), &Facts{
		Request: Request{Model: strings.Repeat("ä", 300)},
		Reply:   Reply{Model: strings.Repeat("m", maxTextBytes), Finish: "\xff", Status: 503, Failure: "503"},
	})
	stop()
	if len(c.spans) != 1 {
		t.Fatalf("the collector got %d spans, want 1", len(c.spans))
	}
	got := attributes(c.spans[0].GetAttributes())
	if got["gen_ai.request.model"] != strings.Repeat("ä", maxTextBytes/2) {
		t.Errorf(`attributes["gen_ai.request.model"] = %q, want %q`, got["gen_ai.request.model"], strings.Repeat("ä", maxTextBytes/2))
	}
	if got["gen_ai.response.finish_reasons"] != `["\xff"]` {
		t.Errorf(`attributes["gen_ai.response.finish_reasons"] = %q, want "[\"\\xff\"]"`, got["gen_ai.response.finish_reasons"])
	}
	if len(got["gen_ai.response.model"]) != maxTextBytes {
		t.Errorf(`attributes["gen_ai.response.model"] = %d bytes, want %d`, len(got["gen_ai.response.model"]), maxTextBytes)
	}
	if c.spans[0].GetStatus().GetCode() != wire.Status_STATUS_CODE_ERROR {
		t.Errorf("status: code = %v, want %v", c.spans[0].GetStatus().GetCode(), wire.Status_STATUS_CODE_ERROR)
	}
	if got["error.type"] != "503" {
		t.Errorf(`status["error.type"] = %q, want "503"`, got["error.type"])
	}
	if _, ok := got["gen_ai.conversation.id"]; ok {
		t.Error("span without a conversation has attribute gen_ai.conversation.id")
	}
}

func TestInvalidEndpointIsRefused(t *testing.T) {
	for _, bad := range []string{"", "127.0.0.1:4318", "grpc://h:4317", "http://", "http://%"} {
		if _, err := New(Options{Endpoint: bad}); err == nil {
			t.Errorf("New with endpoint %q: error = nil, want an error", bad)
		} else if !strings.Contains(err.Error(), "http or https") {
			t.Errorf(`New with endpoint %q: error = %q, want substring "http or https"`, bad, err.Error())
		}
	}
}

func TestFactsBecomeSpanAttributes(t *testing.T) {
	for name, tc := range map[string]struct {
		facts Facts
		want  map[string]string
	}{
		"all facts": {
			Facts{
				Request:      Request{Provider: "openai", API: "responses", Server: "api.example", Port: 8443, Model: "m"},
				Reply:        Reply{Status: 200, Failure: "cut", Model: "m-2", ID: "r", Finish: "stop", Input: 9, Cached: 3, Written: 2, Output: 4},
				Conversation: &Conversation{RequestID: "q", Session: "s", Agent: "coder", Turn: 2, Injected: []string{"a", "b"}, Withheld: []string{"c"}, Loops: 5},
				Skip:         "control",
			},
			map[string]string{
				"gen_ai.operation.name": "chat", "gen_ai.provider.name": "openai", "gen_ai.request.model": "m", "gen_ai.response.model": "m-2", "gen_ai.response.id": "r",
				"gen_ai.response.finish_reasons": "[stop]", "gen_ai.usage.input_tokens": "9", "gen_ai.usage.cache_read.input_tokens": "3", "gen_ai.usage.cache_creation.input_tokens": "2", "gen_ai.usage.output_tokens": "4",
				"server.address": "api.example", "server.port": "8443", "http.response.status_code": "200", "error.type": "cut", "precept.api": "responses", "precept.skip": "control",
				"gen_ai.conversation.id": "s", "gen_ai.agent.name": "coder", "precept.request_id": "q", "precept.turn": "2", "precept.lessons.injected": "[a b]", "precept.lessons.withheld": "[c]", "precept.loops": "5",
			},
		},
		"without a conversation": {
			Facts{Reply: Reply{Input: 0, Cached: -1, Output: -1}},
			map[string]string{"gen_ai.operation.name": "chat", "gen_ai.usage.input_tokens": "0"},
		},
		"empty conversation": {
			Facts{Reply: Reply{Input: -1, Cached: -1, Output: -1}, Conversation: &Conversation{}},
			map[string]string{"gen_ai.operation.name": "chat", "precept.lessons.injected": "[]", "precept.lessons.withheld": "[]"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			col := newCollector(t, nil)
			tr, stop := startTracer(t, Options{Endpoint: col.URL, Sample: 1})
			tr.Start(t.Context(), nil, time.Unix(1, 0)).End(time.Unix(2, 0), &tc.facts)
			stop()
			if len(col.spans) != 1 {
				t.Fatalf("the collector got %d spans, want 1", len(col.spans))
			}
			if got := attributes(col.spans[0].GetAttributes()); !maps.Equal(got, tc.want) {
				t.Errorf("attributes:\n%v\nwant\n%v", got, tc.want)
			}
			wantName := "chat"
			if tc.facts.Request.Model != "" {
				wantName = "chat " + tc.facts.Request.Model
			}
			if got := col.spans[0].GetName(); got != wantName {
				t.Errorf("span name = %q, want %q", got, wantName)
			}
			if agent := col.headers.Get("User-Agent"); agent != "precept" {
				t.Errorf("User-Agent = %q, want \"precept\"", agent)
			}
		})
	}
}
