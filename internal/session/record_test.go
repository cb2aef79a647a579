package session

import (
	"encoding/json"
	"fmt"
	"reflect"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"precept/bandit/trial"
	"precept/internal/label"
	"precept/internal/wire"
)

func newRecord() *Record {
	return NewRecord("default", Claim{Agent: "coder"}, Resolved{ID: scopedID(1), Name: "s_1", Method: ByNew}, noon)
}

func tools(names ...string) obj {
	list := make([]obj, 0, len(names))
	for _, n := range names {
		list = append(list, obj{"type": "function", "function": obj{"name": n, "parameters": obj{}}})
	}
	return obj{"tools": list}
}

func TestRecordRoundTrip(t *testing.T) {
	r := newRecord()
	r.Begin(parse(t, wire.Chat, "messages", []obj{userMessage("go")}, tools("a", "b")), noon)
	r.Lessons.Blocks = []Block{{Anchor: wire.Anchor{Role: wire.RoleUser, Hash: 1<<64 - 1, Index: 3}, Text: "x\n\n", Slugs: []string{"s"}, Turn: 1}}
	r.Lessons.Matched = []string{"s"}
	r.Assignment = trial.Assignment{Decided: true, Category: "c", Picks: []trial.Pick{{Slug: "s", Injected: true}}}
	r.Lessons.Loops.WarnedCalls = map[string]bool{"call_1": true}
	r.AddReply(&wire.Reply{Complete: true, Calls: []wire.Call{{ID: "call_1", Name: "bash", Args: "{}"}}})
	row, err := r.Row(func(s string) (string, bool) { return s, true })
	if err != nil {
		t.Fatal(err)
	}
	decoded, err := Decode(row.ID, row.Data)
	if err != nil {
		t.Fatal(err)
	}
	decoded.State.Dirty = r.State.Dirty
	if !reflect.DeepEqual(decoded, r) {
		t.Errorf("decoded record:\n%+v\nwant\n%+v", decoded, r)
	}
	if row.Tenant != "default" || row.ID != r.Identity.ID || !row.Started.Equal(noon) || row.Closed {
		t.Errorf("got row %+v, want Tenant = default, ID = %v, Started = %v, Closed = false", row, r.Identity.ID, noon)
	}
}

func TestDecodeUnknownAndInvalidData(t *testing.T) {
	r, err := Decode(scopedID(2), []byte(`{"tenant":"t","agent":"a","turns":3,"from_the_future":{"x":[1]}}`))
	if err != nil || r.Thread.Turns != 3 || r.Identity.ID != scopedID(2) {
		t.Errorf("Decode = %+v, %v, want Thread.Turns = 3, Identity.ID = %v, no error", r, err, scopedID(2))
	}
	for _, bad := range []string{"", "null?", `{"turns":"three"}`, `[`} {
		if _, err := Decode(scopedID(2), []byte(bad)); err == nil || !strings.Contains(err.Error(), "session: decode") {
			t.Errorf(`Decode(%q): err = %v, want an error with "session: decode"`, bad, err)
		}
	}
}

func FuzzDecode(f *testing.F) {
	f.Add([]byte(`{"turns":1,"blocks":[{"a":{"index":1},"t":"x"}]}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		r, err := Decode(scopedID(1), data)
		if err != nil {
			return
		}
		second, err := r.Encode()
		if err != nil {
			t.Fatalf("Encode(decoded record) error = %v", err)
		}
		if _, err := Decode(scopedID(1), second); err != nil {
			t.Fatalf("Decode(encoded record) error = %v", err)
		}
	})
}

func TestBeginClassifiesTheTurn(t *testing.T) {
	r := newRecord()
	first, second := chat(t, userMessage("go")), chat(t, userMessage("go"), assistantMessage("ok"), userMessage("on"))
	step := func(req *wire.Request, want TurnKind, turns int) {
		t.Helper()
		if got := r.Begin(req, noon.Add(time.Minute)); got != want || r.Thread.Turns != turns {
			t.Errorf("Begin = %d in turn %d, want %d in turn %d", got, r.Thread.Turns, want, turns)
		}
	}
	done := func(complete bool) { r.AddReply(&wire.Reply{Complete: complete}) }
	step(first, NewTurn, 1)
	step(first, Retry, 1)
	done(false)
	step(first, Retry, 1)
	done(true)
	step(first, Repeat, 2)
	step(first, Retry, 2)
	step(second, NewTurn, 3)
	step(first, NewTurn, 4)
	if !r.Identity.Seen.Equal(noon.Add(time.Minute)) || r.Identity.Model != "gpt-x" || r.Identity.Dialect != wire.Chat || r.Thread.Items != 1 || r.Thread.Replied {
		t.Errorf("got record %+v, want Seen = %v, Model = gpt-x, Dialect = chat, Items = 1, Replied = false", r, noon.Add(time.Minute))
	}
}

func TestEachSideRequestHasReason(t *testing.T) {
	system := func(s string) obj { return obj{"role": "system", "content": s} }
	main := parse(t, wire.Chat, "messages", []obj{system("S"), userMessage("go")}, tools("a", "b", "c"))
	longer := []obj{system("S"), userMessage("go"), assistantMessage("ok"), userMessage("on")}
	none := SideDetector{}
	detector := SideDetector{ // a request with seven items is a title request, and opencode is the only product that works with tools
		SideKind:       func(req *wire.Request) string { return map[bool]string{true: "title"}[req.Len() == 7] },
		WorksWithTools: func(product string) bool { return product == "opencode" },
	}
	seven := []obj{userMessage("1"), userMessage("2"), userMessage("3"), userMessage("4"), userMessage("5"), userMessage("6"), userMessage("7")}
	for _, tc := range []struct {
		name     string
		req      *wire.Request
		product  string
		detector SideDetector
		began    bool // whether a main request came before
		want     label.Reason
	}{
		{"never had tools", chat(t, userMessage("hi")), "", none, false, ""},
		{"never had tools, product works with tools", chat(t, userMessage("hi")), "opencode", detector, false, label.SideNoTools},
		{"first request with tools", main, "opencode", detector, false, ""},
		{"the same request again", main, "", none, true, ""},
		{"no tools after a request with tools", chat(t, userMessage("hi")), "", none, true, label.SideNoTools},
		{"empty tools", parse(t, wire.Chat, "messages", []obj{userMessage("x")}, obj{"tools": []obj{}}), "", none, true, label.SideNoTools},
		{"only the system prompt differs", parse(t, wire.Chat, "messages", []obj{system("T"), userMessage("go")}, tools("a", "b", "c")), "", none, true, ""},
		{"tools in a different order", parse(t, wire.Chat, "messages", []obj{system("S"), userMessage("go")}, tools("c", "b", "a")), "", none, true, ""},
		{"other tools, same system prompt and history", parse(t, wire.Chat, "messages", longer, tools("x", "y")), "", none, true, ""},
		{"other tools, a different system prompt", parse(t, wire.Chat, "messages", extend([]obj{system("T")}, longer[1:]...), tools("x", "y")), "", none, true, label.SideTools},
		{"other tools, a different history", parse(t, wire.Chat, "messages", []obj{system("S"), userMessage("sub")}, tools("x", "y")), "", none, true, label.SideTools},
		{"fewer tools, a different system prompt", parse(t, wire.Chat, "messages", extend([]obj{system("T")}, longer[1:]...), tools("a")), "", none, true, label.SideTools},
		{"fewer tools, a different history", parse(t, wire.Chat, "messages", []obj{system("S"), userMessage("sub")}, tools("a")), "", none, true, label.SideTools},
		{"fewer tools, same system prompt and history", parse(t, wire.Chat, "messages", longer, tools("a", "b")), "", none, true, ""},
		{"one more tool, same system prompt and history", parse(t, wire.Chat, "messages", longer, tools("a", "b", "c", "d")), "", none, true, ""},
		{"one more tool, a different system prompt and history", parse(t, wire.Chat, "messages", []obj{system("T"), userMessage("sub")}, tools("a", "b", "c", "d")), "", none, true, label.SideTools},
		{"recognised by SideKind", parse(t, wire.Chat, "messages", seven, tools("a", "b", "c")), "", detector, true, "title"},
		{"compaction by the provider", parse(t, wire.Responses, "input", []obj{userMessage("go"), {"type": "compaction_trigger"}}, tools("a", "b", "c")), "", none, true, label.SideCompact},
		{"warm-up", parse(t, wire.Responses, "input", "x", obj{"generate": false}), "", none, true, label.SideWarmUp},
	} {
		t.Run(tc.name, func(t *testing.T) {
			r := newRecord()
			if tc.began {
				r.Begin(main, noon)
				r.SetLastTurn(main)
			}
			got, side := r.SideReason(tc.req, Claim{Product: tc.product}, tc.detector)
			if got != tc.want || side != (tc.want != "") {
				t.Errorf("SideReason = %q, %v, want %q, %v", got, side, tc.want, tc.want != "")
			}
		})
	}
}

// In a handoff, an agent passes the conversation to another agent with a tool call. Here the second agent has no tools,
// and sends the call's result.
func TestRequestsAfterHandoffAreMain(t *testing.T) {
	r := newRecord()
	list := []obj{{"role": "system", "content": "S"}, userMessage("go")}
	step := func(req *wire.Request) label.Reason {
		reason, side := r.SideReason(req, Claim{}, SideDetector{})
		if !side {
			r.Begin(req, noon)
			r.SetLastTurn(req)
		}
		return reason
	}
	step(parse(t, wire.Chat, "messages", list, tools("a", "to_writer")))
	rep := callReply("call_x7Gh2kQ9")
	r.AddReply(&rep)
	list = append([]obj{{"role": "system", "content": "W"}}, list[1:]...)
	list = append(list, callMessage("call_x7Gh2kQ9", "{}"), resultMessage("call_x7Gh2kQ9", "{}"))
	if got := step(chat(t, list...)); got != "" {
		t.Errorf("first request after the handoff: got side request %s, want a main request", got)
	}
	list = append(list, assistantMessage("a report"), userMessage("shorter"))
	if got := step(chat(t, list...)); got != "" {
		t.Errorf("new agent's next turn: got side request %s, want a main request", got)
	}
	list = append(list, assistantMessage("a line"), userMessage("name it"))
	list[0] = obj{"role": "system", "content": "N"}
	if got := step(chat(t, list...)); got != label.SideNoTools {
		t.Errorf("another agent without tools: got side request %q, want %q", got, label.SideNoTools)
	}
	if got := step(chat(t, obj{"role": "system", "content": "W"}, userMessage("something else"))); got != label.SideNoTools {
		t.Errorf("new agent with a different history: got side request %q, want %q", got, label.SideNoTools)
	}
}

func TestSideRequestIsDetectedByDifferentTools(t *testing.T) {
	r := newRecord()
	begin := func(text string, names ...string) (label.Reason, bool) {
		req := parse(t, wire.Chat, "messages", []obj{userMessage("go"), assistantMessage("ok"), userMessage(text)}, tools(names...))
		reason, side := r.SideReason(req, Claim{}, SideDetector{})
		if !side {
			r.Begin(req, noon)
			r.SetLastTurn(req)
		}
		return reason, side
	}
	for i, names := range [][]string{{"a"}, {"a", "b"}, {"a", "b", "c"}, {"a", "b", "c"}} {
		if reason, side := begin(fmt.Sprint(i), names...); side {
			t.Errorf("tools %v: got side request %s, want a main request", names, reason)
		}
	}
	if _, side := begin("other", "z"); !side {
		t.Error("different tools: got a main request, want a side request")
	}
}

// An agent appends messages to the list with or without a reply in between, edits the list, or compacts it.
func TestIsNewItemAfterGrowthAndEdits(t *testing.T) {
	r := newRecord()
	next := func(list ...obj) (newItems []int) {
		req := chat(t, list...)
		r.Begin(req, noon)
		for i := range req.Len() {
			if r.IsNewItem(req, i) {
				newItems = append(newItems, i)
			}
		}
		r.SetLastTurn(req)
		return newItems
	}
	check := func(subject string, got []int, want ...int) {
		t.Helper()
		if !reflect.DeepEqual(got, want) {
			t.Errorf("%s: got new items %v, want %v", subject, got, want)
		}
	}
	check("first", next(userMessage("a")), 0)
	check("no reply, one more message", next(userMessage("a"), userMessage("b")), 1)
	check("replied", next(userMessage("a"), userMessage("b"), callMessage("c1", "{}"), resultMessage("c1", "x")), 3)
	check("no reply, a message after the result", next(userMessage("a"), userMessage("b"), callMessage("c1", "{}"), resultMessage("c1", "x"), userMessage("stop")), 4)
	check("no reply, a different message after the result", next(userMessage("a"), userMessage("b"), callMessage("c1", "{}"), resultMessage("c1", "x"), userMessage("go on")), 4)
	check("shorter after a compaction", next(userMessage("summary"), userMessage("go on")), 0, 1)
}

// Without a reply in between, repeated items are not new.
func TestIsNewItemInRequestsWithoutHistory(t *testing.T) {
	r := newRecord()
	isNew := func(previous string) bool {
		req, err := wire.Parse(wire.Responses, []byte(`{"conversation":"conv_1","previous_response_id":"`+previous+`","input":[{"role":"user","content":"continue"},{"type":"function_call_output","call_id":"c1","output":"x"}]}`))
		if err != nil {
			t.Fatal(err)
		}
		r.Begin(req, noon)
		item, result := r.IsNewItem(req, 0), r.IsNewResult(req, 1, "c1")
		r.SetLastTurn(req)
		if item != result {
			t.Errorf("previous response %q: IsNewItem = %v and IsNewResult = %v, want equal values", previous, item, result)
		}
		return item
	}
	for i, tc := range []struct {
		previous  string
		isReplied bool // before the next request
		want      bool
	}{{"", true, true}, {"", false, true}, {"", true, false}, {"resp_1", true, true}, {"resp_2", true, true}} {
		if got := isNew(tc.previous); got != tc.want {
			t.Errorf("request %d: got new items = %v, want %v", i+1, got, tc.want)
		}
		if tc.isReplied {
			r.AddReply(&wire.Reply{Complete: true})
		}
	}
}

// If an agent adds text to a result that it sent before, the item is new and the result is not.
func TestIsNewResultIgnoresAddedText(t *testing.T) {
	r := newRecord()
	answer := func(id string, more ...obj) *wire.Request {
		parts := append([]obj{{"type": "tool_result", "tool_use_id": id, "content": "x"}}, more...)
		list := []obj{userMessage("go")}
		for range r.Thread.Items/2 + 1 - len(more) {
			list = append(list, obj{"role": "assistant", "content": []obj{{"type": "tool_use", "id": id, "name": "f", "input": obj{}}}},
				obj{"role": "user", "content": parts})
		}
		return parse(t, wire.Messages, "messages", list)
	}
	check := func(subject string, req *wire.Request, item, result bool) {
		t.Helper()
		r.Begin(req, noon)
		last := req.Len() - 1
		if got := r.IsNewItem(req, last); got != item {
			t.Errorf("%s: got IsNewItem = %v, want %v", subject, got, item)
		}
		if got := r.IsNewResult(req, last, "call_1"); got != result {
			t.Errorf("%s: got IsNewResult = %v, want %v", subject, got, result)
		}
		if r.IsNewResult(req, 0, "call_1") {
			t.Errorf("%s: got IsNewResult = true for the first item, want false", subject)
		}
		r.SetLastTurn(req)
	}
	check("first", answer("call_1"), true, true)
	check("no reply, a text after the result", answer("call_1", obj{"type": "text", "text": "stop"}), true, false)
	check("replied, a later call with the same id", answer("call_1"), true, true)
}

func TestNewItemHashesAreBounded(t *testing.T) {
	r := newRecord()
	var list []obj
	for i := range 3 * maxNewItems {
		list = append(list, userMessage(fmt.Sprint(i)))
	}
	req := chat(t, list...)
	r.Begin(req, noon)
	r.SetLastTurn(req)
	if len(r.Thread.LastTurn.Items) != maxNewItems {
		t.Fatalf("got %d new item hashes, want %d", len(r.Thread.LastTurn.Items), maxNewItems)
	}
	longer := chat(t, extend(list, userMessage("new"))...)
	r.Begin(longer, noon)
	if !r.IsNewItem(longer, 3*maxNewItems) || r.IsNewItem(longer, 3*maxNewItems-1) {
		t.Errorf("IsNewItem = %v for the last item and %v for the item before, want true, false", r.IsNewItem(longer, 3*maxNewItems), r.IsNewItem(longer, 3*maxNewItems-1))
	}
}

func TestRecordCallsAreBounded(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		r := newRecord()
		n := rapid.IntRange(0, 80).Draw(t, "n")
		args := rapid.IntRange(0, 2000).Draw(t, "args")
		last := ""
		for i := range n {
			last = fmt.Sprintf("call_%d", i)
			r.AddReply(&wire.Reply{Complete: true, Calls: []wire.Call{{ID: last, Name: "bash", Args: strings.Repeat("x", args)}}})
		}
		data, err := r.Encode()
		if err != nil {
			t.Fatal(err)
		}
		if len(data) > maxCallBytes+4<<10 {
			t.Fatalf("encoded record: got %d bytes, want at most %d", len(data), maxCallBytes+4<<10)
		}
		if len(r.Thread.CallOrder) != len(r.Thread.Calls) {
			t.Fatalf("len(CallOrder) = %d, want the call count %d", len(r.Thread.CallOrder), len(r.Thread.Calls))
		}
		if _, ok := r.Thread.Calls[last]; n > 0 && !ok {
			t.Fatalf("got calls %v, want the newest call %s among them", r.Thread.CallOrder, last)
		}
	})
}

func TestLongArgumentsAreShortenedAndComparable(t *testing.T) {
	r := newRecord()
	long := `{"command":"` + strings.Repeat("x", 5000) + `"}`
	r.AddReply(&wire.Reply{Calls: []wire.Call{{ID: "a", Args: long}, {ID: "b", Args: long}, {ID: "c", Args: long + " "}, {Args: "no id"}}})
	if r.Thread.Replied {
		t.Error("incomplete reply: got Replied = true, want false")
	}
	if len(r.Thread.Calls) != 3 || r.Thread.Calls["a"].Args != r.Thread.Calls["b"].Args || r.Thread.Calls["a"].Args == r.Thread.Calls["c"].Args || !json.Valid([]byte(r.Thread.Calls["a"].Args)) {
		t.Errorf("got calls %+v, want 3 calls, the same valid JSON arguments for a and b, and different ones for c", r.Thread.Calls)
	}
}

func TestFullListRequestDropsStoredCalls(t *testing.T) {
	r := newRecord()
	r.AddReply(&wire.Reply{Complete: true, Calls: []wire.Call{{ID: "a"}}})
	r.Begin(parse(t, wire.Responses, "input", []obj{{"type": "function_call_output", "call_id": "a", "output": "x"}}, obj{"previous_response_id": "resp_1"}), noon)
	if len(r.Thread.Calls) != 1 {
		t.Errorf("after a request with only new items: got %d calls, want 1", len(r.Thread.Calls))
	}
	r.Begin(chat(t, userMessage("go"), callMessage("a", "{}"), resultMessage("a", "x")), noon)
	if len(r.Thread.Calls) != 0 {
		t.Errorf("after a request with the full list: got %d calls, want 0", len(r.Thread.Calls))
	}
}

func TestSharedHistoryBranchStartsNewSession(t *testing.T) {
	f := newFixture(t)
	id := func(n int) string { return fmt.Sprintf("toolu_01A09q90qw90lq9178%02d", n) }
	history := []obj{userMessage("go"), callMessage(id(1), "{}"), resultMessage(id(1), "x")}
	named := func(name string, req *wire.Request) Resolved {
		return f.threads.Resolve(f.scope, Claim{Session: name, Namespace: NamespaceSession, Method: ByHeader}, req, f.now, nil)
	}
	for _, name := range []string{"A", "B"} {
		r := named(name, chat(t, history...))
		f.answer(r, callReply(id(2)+name))
		next := named(name, chat(t, extend(history, callMessage(id(2)+name, "{}"), resultMessage(id(2)+name, "y"))...))
		f.answer(next, textReply("done"))
	}
	c := f.resolve(chat(t, extend(history, userMessage("a third way"))...))
	if !c.New {
		t.Errorf("branch off a shared history: got %+v, want New = true", c)
	}
}

func BenchmarkRecordEncode(b *testing.B) {
	r := newRecord()
	for i := range 3 {
		r.Lessons.Blocks = append(r.Lessons.Blocks, Block{Text: strings.Repeat("a line of advice. ", 60), Slugs: []string{fmt.Sprint(i)}})
	}
	b.ReportAllocs()
	for b.Loop() {
		if _, err := r.Encode(); err != nil {
			b.Fatal(err)
		}
	}
}
