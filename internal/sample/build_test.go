package sample_test

import (
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"

	"precept/internal/sample"
	"precept/internal/wire"
)

// script builds a session in the chat dialect turn by turn.
type script struct {
	session       sample.Session
	now           time.Time
	sentItems     int      // items that the agent has sent
	repeatedReply []string // last reply, as items for the next request
}

func newScript() *script {
	return &script{session: sample.Session{Tenant: "default", Agent: "coder", Name: "ci-42", ID: "00ff"}, now: time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)}
}

// addTurn adds an exchange with the request's new items and the reply.
func (s *script) addTurn(reply sample.Reply, items ...string) *sample.Exchange {
	turn := len(s.session.Exchanges) + 1
	e := sample.Exchange{
		ID: uuid.NewSHA1(uuid.Nil, fmt.Append(nil, turn)).String(), Tenant: "default", Agent: "coder", Session: "00ff", Turn: turn,
		At: s.now, Dialect: "chat", Model: "m-1", Status: 200, Outcome: sample.Complete, FirstNew: s.sentItems, Reply: reply, LatencyMS: 1000,
	}
	for _, raw := range append(s.repeatedReply, items...) {
		e.New = append(e.New, json.RawMessage(raw))
		s.sentItems++
	}
	s.repeatedReply = nil
	if reply.Text != "" || len(reply.Calls) > 0 {
		m := map[string]any{"role": "assistant", "content": reply.Text}
		var calls []any
		for _, call := range reply.Calls {
			calls = append(calls, map[string]any{"id": call.ID, "type": "function", "function": map[string]any{"name": call.Name, "arguments": call.Args}})
		}
		if calls != nil {
			m["tool_calls"] = calls
		}
		raw, _ := json.Marshal(m)
		s.repeatedReply = []string{string(raw)}
	}
	s.now = s.now.Add(time.Minute)
	s.session.Exchanges = append(s.session.Exchanges, e)
	return &s.session.Exchanges[len(s.session.Exchanges)-1]
}

func messageJSON(role, text string) string {
	raw, _ := json.Marshal(map[string]string{"role": role, "content": text})
	return string(raw)
}

func resultJSON(id, text string) string {
	raw, _ := json.Marshal(map[string]string{"role": "tool", "tool_call_id": id, "content": text})
	return string(raw)
}

func callReply(id, name, args string) sample.Reply {
	return sample.Reply{Calls: []sample.Call{{ID: id, Name: name, Args: args}}, Finish: "tool_calls", InputTokens: 100, OutputTokens: 10}
}

func families(samples []sample.Sample) string {
	var names []string
	for _, s := range samples {
		names = append(names, s.Family)
	}
	return strings.Join(names, " ")
}

// isFailure is a sample.FailureFunc that replaces package detect.
func isFailure(_, _, text string, _ int8) bool { return strings.HasPrefix(text, "error") }

func TestBuildReturnsOneSampleForOneTurn(t *testing.T) {
	tests := []struct {
		name   string
		turn   func(c *script)
		want   string // sample family
		output string // a part of the output
	}{
		{"plain chat", func(c *script) {
			c.addTurn(sample.Reply{Text: "Paris."}, messageJSON("system", "Be brief."), messageJSON("user", "Capital of France?"))
		}, sample.DialogResponse, "Paris."},
		{"one call", func(c *script) { c.addTurn(callReply("c1", "bash", "ls"), messageJSON("user", "List files")) }, sample.IntentResolution, "called bash"},
		{"many calls in one reply", func(c *script) {
			r := callReply("c0", "bash", "ls")
			for i := range 40 {
				r.Calls = append(r.Calls, sample.Call{ID: fmt.Sprint("d", i), Name: "bash", Args: "ls"})
			}
			e := c.addTurn(r, messageJSON("user", "List files"))
			e.Loops = 3
		}, sample.IntentResolution, "called bash"},
		{"upstream error", func(c *script) {
			e := c.addTurn(sample.Reply{Error: "overloaded"}, messageJSON("user", "Hi"))
			e.Outcome, e.Status = sample.Failed, 529
		}, sample.DialogResponse, "overloaded"},
		{"no reply", func(c *script) { c.addTurn(sample.Reply{}, messageJSON("user", "Hi")).Outcome = sample.Aborted }, sample.DialogResponse, sample.Aborted},
		{"no user message", func(c *script) { c.addTurn(sample.Reply{Text: "ok"}, messageJSON("system", "x")) }, sample.DialogResponse, "ok"},
		{"unreadable items", func(c *script) { c.addTurn(sample.Reply{Text: "ok"}, `{"type":"reasoning"}`, `7`, `{"role":"user"}`) }, sample.DialogResponse, "ok"},
	}
	for _, tc := range tests {
		t.Run(tc.name, func(t *testing.T) {
			s := newScript()
			tc.turn(s)
			got := sample.Build(s.session)
			if len(got) != 1 || got[0].Family != tc.want {
				t.Fatalf("got families %q, want %q", families(got), tc.want)
			}
			if out := fmt.Sprint(got[0].Output); !strings.Contains(out, tc.output) {
				t.Errorf("got output %s, want it to contain %q", out, tc.output)
			}
			if !reflect.DeepEqual(got[0].Feedback, sample.Unrated()) {
				t.Errorf("got feedback %v, want %v", got[0].Feedback, sample.Unrated())
			}
			if err := validateSample(got[0]); err != nil {
				t.Errorf("schema check: %v", err)
			}
		})
	}
	if got := sample.Build(sample.Session{}); got != nil {
		t.Errorf("empty session: got samples %v, want none", got)
	}
}

func TestBuildReplacesRetriedTurn(t *testing.T) {
	s := newScript()
	first := s.addTurn(sample.Reply{}, messageJSON("user", "Hi"))
	first.Outcome = sample.Incomplete
	retry := s.addTurn(sample.Reply{Text: "Hello"}, messageJSON("user", "Hi"))
	retry.Turn, retry.FirstNew = first.Turn, 0
	s.session.Exchanges[0].Turn = retry.Turn
	if got := sample.Build(s.session); len(got) != 1 || got[0].Output["response_text"] != "Hello" || got[0].Output["outcome"] != sample.Complete {
		t.Errorf("got samples %v, want one complete sample with the text Hello", got)
	}
	// Build keeps a failed turn that the agent did not retry.
	s = newScript()
	s.addTurn(sample.Reply{Error: "boom"}, messageJSON("user", "Hi")).Outcome = sample.Failed
	s.addTurn(sample.Reply{Text: "Hello"}, messageJSON("user", "Are you there?"))
	if got := sample.Build(s.session); families(got) != sample.DialogResponse+" "+sample.DialogResponse || got[0].Output["outcome"] != sample.Failed {
		t.Errorf("got samples %v, want two dialog_response samples, the first of them failed", got)
	}
}

// If the exchanges have no recorded items, Build does not treat two exchanges in one turn as a request and its retry.
func TestBuildDoesNotMergeExchangesWithoutItems(t *testing.T) {
	withoutItems := func(id string) sample.Exchange {
		return sample.Exchange{ID: id, Session: "s", Turn: 1, At: time.Unix(1e9, 0).UTC(), Outcome: sample.Incomplete}
	}
	const one, two = "0b0e1c9e-5f0c-4c43-9a43-6f6a3b1a0001", "0b0e1c9e-5f0c-4c43-9a43-6f6a3b1a0002"
	s := sample.Session{Tenant: "t", ID: "s", Exchanges: []sample.Exchange{withoutItems(one), withoutItems(two)}}
	var events []string
	for _, m := range sample.Build(s) {
		ids, _ := m.Meta["source_event_ids"].([]string)
		events = append(events, ids...)
	}
	if slices.Sort(events); !slices.Equal(events, []string{one, two}) {
		t.Errorf("got samples for exchanges %v, want %v", events, []string{one, two})
	}
}

// If the judgements recorded in an exchange do not match its results, Build calls IsFailure for the results.
func TestBuildUsesRecordedJudgements(t *testing.T) {
	build := func(v *sample.ResultJudgements) (failed any, calls int) {
		s := newScript()
		s.addTurn(callReply("c1", "bash", `{"command":"npm tst"}`), messageJSON("user", "Run the tests"))
		s.addTurn(sample.Reply{Text: "Done."}, resultJSON("c1", "error: unknown command tst")).ResultJudgements = v
		s.session.IsFailure = func(string, string, string, int8) bool { calls++; return true }
		return sample.Build(s.session)[0].Output["failed_calls"], calls
	}
	for name, tc := range map[string]struct {
		judgements *sample.ResultJudgements
		failed     int
		calls      int // number of calls to IsFailure
	}{
		"no judgements":                            {nil, 1, 1},
		"one failed result":                        {&sample.ResultJudgements{Results: 1, Failed: []int{0}}, 1, 0},
		"no failed result":                         {&sample.ResultJudgements{Results: 1}, 0, 0},
		"more judgements than results":             {&sample.ResultJudgements{Results: 2, Failed: []int{1}}, 1, 1},
		"judgements on more results than recorded": {&sample.ResultJudgements{Results: 2}, 1, 1},
		"failed index out of range":                {&sample.ResultJudgements{Results: 1, Failed: []int{7}}, 0, 0},
	} {
		if failed, calls := build(tc.judgements); failed != tc.failed || calls != tc.calls {
			t.Errorf("%s: got %v failed calls, %d calls to IsFailure, want %d, %d", name, failed, calls, tc.failed, tc.calls)
		}
	}
}

func TestRequestSummaryOmitsTemplate(t *testing.T) {
	const template = "Please solve this issue: @\n\nYou can execute bash commands and edit files to implement the necessary changes.\n\n## Steps"
	for message, want := range map[string]string{
		strings.Replace(template, "@", "Run the tests", 1): "Run the tests",
		strings.Replace(template, "@", "", 1):              strings.Replace(template, "@", "", 1),
	} {
		s := newScript()
		text, err := json.Marshal(message)
		if err != nil {
			t.Fatal(err)
		}
		s.addTurn(callReply("c1", "bash", `{"command":"npm test"}`), `{"role":"user","content":`+string(text)+`}`)
		s.addTurn(sample.Reply{Text: "All pass."}, resultJSON("c1", "12 passed"))
		if got := sample.Build(s.session)[0].Input["raw_request_summary"]; got != want {
			t.Errorf("got summary %q, want %q", got, want)
		}
	}
}

func TestBuildReturnsTaskSamples(t *testing.T) {
	s := newScript()
	s.addTurn(callReply("c1", "bash", `{"command":"npm tst"}`), messageJSON("system", "You are..."), messageJSON("user", "<system-reminder>x</system-reminder>Run the tests"))
	s.addTurn(callReply("c2", "bash", `{"command":"npm test"}`), resultJSON("c1", "error: unknown command tst"))
	e := s.addTurn(sample.Reply{Text: "All 12 pass."}, resultJSON("c2", "12 passed"))
	e.Lessons = []sample.Lesson{{Slug: "npm", Arm: "npm@1", State: "injected", Propensity: 0.8}, {Slug: "b", State: "withheld"}}
	e.Config = "cfg-7"
	s.session.Exchanges[0].Lessons = []sample.Lesson{{Slug: "npm", Arm: "npm@1", State: "matched"}}
	s.addTurn(sample.Reply{Text: "Pushed."}, messageJSON("user", "Now push"))
	s.session.IsFailure = isFailure
	got := sample.Build(s.session)
	if families(got) != "intent_resolution dialog_response error_correction" {
		t.Fatalf("got families %s, want intent_resolution dialog_response error_correction", families(got))
	}
	intent, dialog, fix := got[0], got[1], got[2]
	if intent.Input["raw_request_summary"] != "Run the tests" || intent.Output["final_intent_summary"] != "Pushed." || intent.Input["dialog_turns_count"] != 2 {
		t.Errorf("got intent with input %v and output %v, want the first user message, the last reply and 2 dialog turns", intent.Input, intent.Output)
	}
	if intent.Output["tool_calls"] != 2 || intent.Output["failed_calls"] != 1 {
		t.Errorf("got intent output %v, want 2 tool calls and 1 failed call", intent.Output)
	}
	want := []sample.Lesson{{Slug: "b", State: "withheld"}, {Slug: "npm", Arm: "npm@1", State: "injected", Propensity: 0.8}}
	if !reflect.DeepEqual(intent.Meta["lessons"], want) {
		t.Errorf("got lessons %v, want %v", intent.Meta["lessons"], want)
	}
	if tokens := intent.Meta["tokens"].(map[string]any); tokens["input"] != 200 || tokens["output"] != 20 {
		t.Errorf("got tokens %v, want input 200, output 20", tokens)
	}
	if dialog.Input["user_text"] != "Now push" || dialog.Input["turn"] != 4 {
		t.Errorf("got dialog %v, want \"Now push\" at turn 4", dialog.Input)
	}
	if fix.Input["error"] != "error: unknown command tst" || fix.Output["corrected_call"].(map[string]any)["arguments"] != `{"command":"npm test"}` {
		t.Errorf("got correction with input %v and output %v, want the npm tst error and the npm test call", fix.Input, fix.Output)
	}
	for _, s := range got {
		if err := validateSample(s); err != nil {
			t.Errorf("validateSample(%s) error = %v", s.Family, err)
		}
	}
	for i, j := 0, len(s.session.Exchanges)-1; i < j; i, j = i+1, j-1 {
		s.session.Exchanges[i], s.session.Exchanges[j] = s.session.Exchanges[j], s.session.Exchanges[i]
	}
	if second := sample.Build(s.session); !reflect.DeepEqual(second, got) {
		t.Errorf("exchanges in reverse order: got samples %v, want %v", second, got)
	}
	s.session.Tenant = "other"
	if other := sample.Build(s.session); other[0].ID == got[0].ID {
		t.Errorf("different tenant: got the same sample id %s, want a different one", other[0].ID)
	}
}

func TestBuildFindsCorrectionsInEachDialect(t *testing.T) {
	tests := []struct {
		name, dialect, reply, result string
	}{
		{"responses", "responses", `{"type":"function_call","call_id":"c1","name":"run","arguments":"{\"a\":1}"}`, `{"type":"function_call_output","call_id":"c1","output":"error: no"}`},
		{"custom", "responses", `{"type":"custom_tool_call","call_id":"c1","name":"run","input":"{\"a\":1}"}`, `{"type":"custom_tool_call_output","call_id":"c1","output":[{"type":"input_text","text":"error: no"}]}`},
		{"messages", "messages", `{"role":"assistant","content":[{"type":"text","text":"I try"},{"type":"tool_use","id":"c1","name":"run","input":{"a":1}}]}`, `{"role":"user","content":[{"type":"tool_result","tool_use_id":"c1","is_error":true,"content":[{"type":"text","text":"error: no"}]}]}`},
		{"chat", "chat", `{"role":"assistant","content":null,"tool_calls":[{"id":"c1","function":{"name":"run","arguments":"{\"a\":1}"}}]}`, `{"role":"tool","tool_call_id":"c1","content":[{"type":"text","text":"error: no"}]}`},
	}
	for _, tc := range tests {
		t.Run(tc.name, func(t *testing.T) {
			s := newScript()
			s.session.IsFailure = isFailure
			s.addTurn(callReply("c1", "run", `{"a":1}`), messageJSON("user", "go"))
			s.repeatedReply = nil
			s.addTurn(callReply("c2", "run", `{"a":2}`), tc.reply, tc.result).Dialect = tc.dialect
			s.addTurn(sample.Reply{Text: "done"}, resultJSON("c2", "fine"))
			got := sample.Build(s.session)
			if families(got) != "intent_resolution error_correction" {
				t.Fatalf("got families %s, want intent_resolution error_correction", families(got))
			}
			if f := got[1].Input["failed_call"].(map[string]any); f["arguments"] != `{"a":1}` || f["name"] != "run" {
				t.Errorf("got failed call %v, want run with {\"a\":1}", f)
			}
			if got[1].Input["error"] != "error: no" {
				t.Errorf("got error %v, want \"error: no\"", got[1].Input["error"])
			}
		})
	}
}

func TestBuildFindsCorrectedCalls(t *testing.T) {
	type step struct{ tool, args, result string }
	tests := []struct {
		name     string
		steps    []step
		want     int
		attempts int
	}{
		{name: "the same call works later", steps: []step{{"bash", "go test ./a", "error"}, {"bash", "go test ./a", "ok"}}},
		{name: "a different tool works", steps: []step{{"bash", "cat a.go", "error"}, {"read", "a.go", "ok"}}},
		{name: "a different target", steps: []step{{"bash", "go test ./a", "error"}, {"bash", "whoami", "ok"}}},
		{name: "two attempts", steps: []step{{"bash", "go tst ./a", "error"}, {"bash", "go tests ./a", "error"}, {"bash", "go test ./a", "ok"}}, want: 1, attempts: 2},
		{name: "two corrections", steps: []step{{"bash", "go tst ./a", "error"}, {"bash", "go test ./a", "ok"}, {"edit", "f.go 1", "error"}, {"edit", "f.go 2", "ok"}}, want: 2, attempts: 1},
		{name: "one correction, then a call that works", steps: []step{{"bash", "go tst ./a", "error"}, {"bash", "go test ./a", "ok"}, {"bash", "go test ./b", "ok"}}, want: 1, attempts: 1},
		{name: "never works", steps: []step{{"bash", "go tst", "error"}, {"bash", "go tests", "error"}}},
	}
	for _, tc := range tests {
		t.Run(tc.name, func(t *testing.T) {
			c := newScript()
			c.session.IsFailure = isFailure
			items := []string{messageJSON("user", "go")}
			for i, s := range tc.steps {
				id := fmt.Sprint("c", i)
				c.addTurn(callReply(id, s.tool, s.args), items...)
				items = []string{resultJSON(id, s.result)}
			}
			c.addTurn(sample.Reply{Text: "done"}, items...)
			var fixes []sample.Sample
			ids := map[string]bool{}
			for _, s := range sample.Build(c.session) {
				ids[s.ID] = true
				if s.Family == sample.ErrorCorrection {
					fixes = append(fixes, s)
				}
			}
			if len(fixes) != tc.want || (tc.want > 0 && fixes[0].Input["attempts"] != tc.attempts) {
				t.Errorf("got corrections %v, want %d corrections with %v attempts", fixes, tc.want, tc.attempts)
			}
			if len(ids) != 1+tc.want {
				t.Errorf("got ids %v, want %d different ids", ids, 1+tc.want)
			}
		})
	}
}

func TestLongSessionGetsPlanOptimization(t *testing.T) {
	s := newScript()
	items := []string{messageJSON("user", "go")}
	for i := range sample.ManyCalls {
		id := fmt.Sprint("c", i)
		e := s.addTurn(callReply(id, "bash", fmt.Sprint("ls ", i%5)), items...)
		e.LatencyMS = sample.SlowMS / 10
		items = []string{resultJSON(id, "ok")}
	}
	s.session.Exchanges[3].Loops = 1
	s.addTurn(sample.Reply{Text: "done"}, items...)
	got := sample.Build(s.session)
	if families(got) != "intent_resolution plan_optimization" {
		t.Fatalf("got families %s, want intent_resolution plan_optimization", families(got))
	}
	plan := got[1]
	if fmt.Sprint(plan.Input["reasons"]) != "[many_calls loop slow]" {
		t.Errorf("got reasons %v, want [many_calls loop slow]", plan.Input["reasons"])
	}
	if r := plan.Output["repeated_calls"].([]map[string]any); len(r) != 5 || r[0]["count"] != 5 {
		t.Errorf("got repeated calls %v, want 5 different calls, the first with count 5", r)
	}
	if err := validateSample(plan); err != nil {
		t.Errorf("validateSample(plan) error = %v", err)
	}
	if q := plan.Meta["quality_score"]; q != 0.4 {
		t.Errorf("got quality_score %v, want 0.4 for a complete session with a loop", q)
	}
}

func TestCutDoesNotSplitPlaceholders(t *testing.T) {
	s := strings.Repeat("é", 10) + "[REDACTED:email:1] tail"
	for n := 4; n < len(s); n++ {
		got := sample.Cut(s, n)
		if len(got) > n || !json.Valid(wire.AppendString(nil, got)) || strings.ContainsRune(got, '\ufffd') {
			t.Fatalf("Cut(%q, %d) = %q, want at most %d bytes of valid text", s, n, got, n)
		}
		if rest, found := strings.CutPrefix(got, strings.Repeat("é", 10)); found && strings.Contains(rest, "[REDACTED") && !strings.Contains(rest, ":1]") {
			t.Errorf("Cut(%q, %d) = %q, want no partial placeholder", s, n, got)
		}
	}
}

func FuzzBuild(f *testing.F) {
	f.Add([]byte(`{"role":"user","content":[{"type":"text","text":"x"}]}`), []byte(`{"role":"tool","tool_call_id":"c1","content":7}`), 1)
	f.Add([]byte(`{"type":"function_call","call_id":"c1","name":"n","arguments":{}}`), []byte(`{"type":"function_call_output","call_id":"c1"}`), 0)
	f.Fuzz(func(t *testing.T, a, b []byte, from int) {
		s := newScript()
		s.session.IsFailure = isFailure
		s.addTurn(callReply("c1", "run", string(a)), string(a))
		s.repeatedReply = nil
		s.addTurn(sample.Reply{Text: string(b)}, string(b)).FirstNew = from
		s.session.Ratings = []sample.Rating{{Source: string(a), Type: "score", Correction: b, Details: a, Turn: from}}
		for _, built := range sample.Build(s.session) {
			if err := validateSample(built); err != nil {
				t.Errorf("validateSample(%s) error = %v", built.Family, err)
			}
		}
		s.session.Conversation()
		s.session.Preferences()
	})
}

func TestRebuiltDialogSamplesKeepIDs(t *testing.T) {
	s := newScript()
	s.addTurn(sample.Reply{Text: "Hello."}, messageJSON("user", "Hello there."))
	s.addTurn(sample.Reply{Text: "It is a shed."}, messageJSON("user", "What is it?"))
	s.addTurn(sample.Reply{Calls: []sample.Call{{ID: "c1", Name: "paint", Args: `{"what":"shed"}`}}}, messageJSON("user", "Paint it."))
	s.addTurn(sample.Reply{Text: "It is painted."}, resultJSON("c1", "ok"))
	s.addTurn(sample.Reply{Text: "Bye."}, messageJSON("user", "Thanks, bye."))
	dialogIDs := map[string]string{} // by user text
	for n := 1; n <= len(s.session.Exchanges); n++ {
		s := s.session
		s.Exchanges = s.Exchanges[:n]
		seen := map[string]bool{}
		for _, m := range sample.Build(s) {
			if m.Family != sample.DialogResponse {
				continue
			}
			text := m.Input["user_text"].(string)
			if seen[m.ID] || seen[text] {
				t.Errorf("after %d exchanges: got two dialogs with id %s or text %q, want one", n, m.ID, text)
			}
			seen[m.ID], seen[text] = true, true
			if old := dialogIDs[text]; old != "" && old != m.ID {
				t.Errorf("after %d exchanges: dialog %q: got id %s, want %s", n, text, m.ID, old)
			}
			dialogIDs[text] = m.ID
		}
	}
	if len(dialogIDs) != 4 {
		t.Errorf("got dialogs %v, want 4", dialogIDs)
	}
}
