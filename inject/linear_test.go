//go:build !race

package inject_test

import (
	"bytes"
	"fmt"
	"strings"
	"testing"
	"time"

	"precept/bandit"
	"precept/detect"
	"precept/inject"
	"precept/inject/lesson"
	"precept/internal/session"
	"precept/internal/wire"
)

// shape is a form of request with n repeated parts.
type shape struct {
	name    string
	dialect wire.Dialect
	body    func(n int) string
}

func repeatNumbered(n int, piece string) string {
	var b strings.Builder
	for i := range n {
		if i > 0 {
			b.WriteByte(',')
		}
		b.WriteString(strings.ReplaceAll(piece, "%d", fmt.Sprint(i)))
	}
	return b.String()
}

// requestWithCalls returns a request with n failed tool calls. idFormat is the call id, with %d in place of the call's
// number. If interleaved is true, each call is followed by its result. Otherwise, all calls come first, and then all
// results.
func requestWithCalls(d wire.Dialect, n int, idFormat string, interleaved bool) string {
	call, result := `{"id":"`+idFormat+`","type":"function","function":{"name":"sh","arguments":"{\"command\":\"make %d\"}"}}`, `{"role":"tool","tool_call_id":"`+idFormat+`","content":"make: *** [all] Error 2\nboom"}`
	before, open, end := `{"role":"user","content":"go"}`, `{"role":"assistant","tool_calls":[`, `]}`
	key := "messages"
	switch d {
	case wire.Messages:
		call, result = `{"type":"tool_use","id":"`+idFormat+`","name":"sh","input":{"command":"make %d"}}`, `{"type":"tool_result","tool_use_id":"`+idFormat+`","is_error":true,"content":"boom"}`
		open = `{"role":"assistant","content":[`
	case wire.Responses:
		call, result = `{"type":"function_call","call_id":"`+idFormat+`","name":"sh","arguments":"{\"command\":\"make %d\"}"}`, `{"type":"function_call_output","call_id":"`+idFormat+`","output":"{\"output\":\"boom\",\"metadata\":{\"exit_code\":2}}"}`
		key, open, end = "input", "", ""
	case wire.Chat, wire.NoDialect:
	}
	wrap := func(results string) string {
		if d == wire.Messages {
			return `{"role":"user","content":[` + results + `]}`
		}
		return results
	}
	list := before + "," + open + repeatNumbered(n, call) + end + "," + wrap(repeatNumbered(n, result))
	if interleaved {
		list = before + "," + repeatNumbered(n, open+call+end+","+wrap(result))
		list = strings.ReplaceAll(list, "make ", "make all #") // different calls with a long common prefix
	}
	return `{"` + key + `":[` + list + `]}`
}

func shapes() []shape {
	chat := func(name, format string) shape {
		return shape{name, wire.Chat, func(n int) string { return `{"messages":[` + repeatNumbered(n, format) + `]}` }}
	}
	text := func(name, piece string) shape {
		return shape{name, wire.Chat, func(n int) string {
			return `{"messages":[{"role":"user","content":"` + strings.Repeat(piece, n) + `"}]}`
		}}
	}
	all := []shape{
		chat("empty objects", `{}`),
		chat("equal messages", `{"role":"user","content":"use the alpha"}`),
		chat("different messages", `{"role":"user","content":"use the alpha %d"}`),
		chat("answers", `{"role":"assistant","content":"%d"}`),
		chat("questions and answers", `{"role":"assistant","content":"shall I?"},{"role":"user","content":"yes, %d"}`),
		chat("calls as JSON text", `{"role":"assistant","content":"{\"name\":\"f\",\"arguments\":{\"a\":%d}}"},{"role":"user","content":"Error: boom"}`),
		chat("equal calls as JSON text", `{"role":"assistant","content":"{\"name\":\"f\"}"},{"role":"user","content":"Error: boom"}`),
		text("scratchpad", `Action: f\nAction Input: {{{\nObservation: Error: boom\nThought:\n`),
		chat("orphaned results", `{"role":"tool","tool_call_id":"c%d","content":"Error: boom"}`),
		chat("results without ids", `{"role":"tool","content":"Error: boom"}`),
		chat("system items", `{"role":"system","content":"be good"}`),
		chat("refusals", `{"role":"tool","tool_call_id":"c%d","content":"The user rejected permission to use this specific tool call."}`),
		text("precept's blocks", `Lessons from past experience:\n- [a] b\nEnd of lessons.\n`),
		text("unclosed blocks", `Lessons from past experience:\n`),
		text("reminders", `<system-reminder>x</system-reminder>`),
		text("unclosed reminders", `<system-reminder><environment_context>[LOOP DETECTED]`),
		{"parts", wire.Chat, func(n int) string {
			return `{"messages":[{"role":"user","content":[` + repeatNumbered(n, `{"type":"text","text":"alpha %d"}`) + `]}]}`
		}},
		{"image parts", wire.Messages, func(n int) string {
			return `{"messages":[{"role":"user","content":[` + repeatNumbered(n, `{"type":"image","source":{"a":[[[%d]]]}}`) + `,{"type":"text","text":"alpha"}]}]}`
		}},
		{"deeply nested part", wire.Chat, func(n int) string {
			return `{"messages":[{"role":"user","content":[{"type":"image","x":` + strings.Repeat("[", 200) + repeatNumbered(20*n, "1") + strings.Repeat("]", 200) + `},{"type":"text","text":"alpha"}]}]}`
		}},
		{"tool definitions", wire.Chat, func(n int) string {
			return `{"messages":[{"role":"user","content":"alpha beta"}],"tools":[` + repeatNumbered(n, `{"type":"function","function":{"name":"t%d"}}`) + `]}`
		}},
		{"top-level keys", wire.Chat, func(n int) string {
			return `{` + repeatNumbered(n, `"key%d":1`) + `,"messages":[{"role":"user","content":"alpha"}]}`
		}},
		{"large arguments", wire.Chat, func(n int) string {
			return `{"messages":[` + repeatNumbered(4, `{"role":"assistant","tool_calls":[{"id":"c%d","function":{"name":"sh","arguments":"{\"command\":[`+repeatNumbered(n, `{}`)+`]}"}}]},{"role":"tool","tool_call_id":"c%d","content":"Exit code 1"}`) + `]}`
		}},
	}
	for _, d := range []wire.Dialect{wire.Chat, wire.Responses, wire.Messages} {
		for _, id := range []string{"call_%d", "same", ""} {
			for _, interleaved := range []bool{false, true} {
				name := fmt.Sprintf("%s calls, ids %q, one by one %t", d, id, interleaved)
				all = append(all, shape{name, d, func(n int) string { return requestWithCalls(d, n, id, interleaved) }})
			}
		}
	}
	return all
}

type pipeline struct {
	injector *inject.Injector
	book     *lesson.Book
}

func newPipeline() pipeline {
	addLesson := func(slug string, tools []string, words ...string) *lesson.Lesson {
		return &lesson.Lesson{
			Slug: slug, Title: "About " + slug, Advice: "Look twice.", State: lesson.Active, Confidence: 0.5, ContentHash: strings.Repeat("0", 64),
			Trigger: lesson.Trigger{Keywords: words, Tools: tools},
		}
	}
	return pipeline{
		injector: inject.New(inject.Config{Bandit: bandit.Config{K: 3, Objective: bandit.All, Salt: "x"}}),
		book:     lesson.NewBook([]*lesson.Lesson{addLesson("one", nil, "alpha"), addLesson("two", nil, "boom"), addLesson("three", []string{"nothing*"}, "beta")}),
	}
}

// process processes a request twice, first with a new history and then with a known history.
func (p pipeline) process(t testing.TB, d wire.Dialect, body []byte) {
	t.Helper()
	now := time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC)
	cache, threads := wire.NewParseCache(), session.NewThreader(func() [16]byte { return [16]byte{1} })
	scope, claim := session.Scope{Tenant: "default"}, session.Claim{Agent: "coder"}
	var rec *session.Record
	for range 2 {
		req, err := cache.Parse(1, d, body, 0)
		if err != nil {
			t.Fatal(err)
		}
		found := threads.Resolve(scope, claim, req, now, nil)
		if rec == nil {
			rec = session.NewRecord("default", claim, found, now)
		}
		var results detect.Results
		rec.SideReason(req, claim, session.SideDetector{SideKind: detect.SideRequestKind, WorksWithTools: detect.AlwaysSendsTools})
		plan := p.injector.Plan(rec, inject.Input{Request: req, Claim: claim, Book: p.book, Beliefs: bandit.New(), Results: &results, Now: now})
		if _, err := req.Splice(nil, plan.Edits); err != nil {
			t.Fatal(err)
		}
		results.Signals(req, nil)
		for _, res := range req.NewResults() {
			req.FindCall(res.Result.CallID)
		}
		threads.RecordEnd(found, true, now)
	}
	if err := detect.Inspect(bytes.NewReader(body), func(detect.Finding) error { return nil }); err != nil {
		t.Fatal(err)
	}
}

// minDuration returns the duration of the shortest of several runs with a request of size n.
func (p pipeline) minDuration(t testing.TB, s shape, n int) time.Duration {
	t.Helper()
	body := []byte(s.body(n))
	shortest, spent := time.Duration(1<<62), time.Duration(0)
	for runs := 0; runs < 2 || runs < 50 && spent < 50*time.Millisecond; runs++ {
		begin := time.Now() //nolint:forbidigo // the ratio of two times is what is measured
		p.process(t, s.dialect, body)
		elapsed := time.Since(begin)
		shortest, spent = min(shortest, elapsed), spent+elapsed
	}
	return shortest
}

// If the cost is linear, a request that is four times as long takes four times as much time. The test allows twice that
// time plus 5 ms, and measures up to six times.
func TestCostIsLinear(t *testing.T) {
	const n, sizeFactor, maxTimeFactor = 1000, 4, 8
	if testing.Short() {
		t.Skip("the test measures times")
	}
	p := newPipeline()
	for _, s := range shapes() {
		t.Run(s.name, func(t *testing.T) {
			var small, large time.Duration
			for range 6 {
				small, large = p.minDuration(t, s, n), p.minDuration(t, s, sizeFactor*n)
				if large <= maxTimeFactor*small+5*time.Millisecond {
					return
				}
			}
			t.Errorf("%d items took %v and %d items took %v, want at most %d times as long", n, small, sizeFactor*n, large, maxTimeFactor)
		})
	}
}

func BenchmarkTurnBySize(b *testing.B) {
	p := newPipeline()
	for _, s := range shapes() {
		for _, n := range []int{10_000, 20_000, 40_000} {
			body := []byte(s.body(n))
			b.Run(fmt.Sprintf("%s/%d", s.name, n), func(b *testing.B) {
				b.SetBytes(int64(len(body)))
				for b.Loop() {
					p.process(b, s.dialect, body)
				}
			})
		}
	}
}
