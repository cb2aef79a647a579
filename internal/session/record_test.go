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
	return NewRecord("default", Claim{Agent: "coder"}, Resolved{ID: idOf(1), Name: "s_1", Method: ByNew}, noon)
}

// tools returns the member tools of a body with these names.
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
		t.Errorf("the decoded record is\n%+v\nwant\n%+v", decoded, r)
	}
	if row.Tenant != "default" || row.ID != r.Identity.ID || !row.Started.Equal(noon) || row.Closed {
		t.Errorf("the row is %+v, want the tenant, ID and start time of the record, and Closed = false", row)
	}
}

func TestDecodeIgnoresUnknownKeysAndRefusesInvalidData(t *testing.T) {
	r, err := Decode(idOf(2), []byte(`{"tenant":"t","agent":"a","turns":3,"from_the_future":{"x":[1]}}`))
	if err != nil || r.Thread.Turns != 3 || r.Identity.ID != idOf(2) {
		t.Errorf("Decode returns %+v and error %v, want no error, Thread.Turns = 3 and Identity.ID = %v", r, err, idOf(2))
	}
	for _, bad := range []string{"", "null?", `{"turns":"three"}`, `[`} {
		if _, err := Decode(idOf(2), []byte(bad)); err == nil || !strings.Contains(err.Error(), "session: decode") {
			t.Errorf(`%q: got %v, want an error with "session: decode"`, bad, err)
		}
	}
}

func FuzzDecode(f *testing.F) {
	f.Add([]byte(`{"turns":1,"blocks":[{"a":{"index":1},"t":"x"}]}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		r, err := Decode(idOf(1), data)
		if err != nil {
			return
		}
		second, err := r.Encode()
		if err != nil {
			t.Fatalf("Encode of a decoded record: got error %v, want none", err)
		}
		if _, err := Decode(idOf(1), second); err != nil {
			t.Fatalf("Decode of an encoded record: got error %v, want none", err)
		}
	})
}

func TestBeginClassifiesTheTurn(t *testing.T) {
	r := newRecord()
	first, second := chat(t, userMessage("go")), chat(t, userMessage("go"), assistantMessage("ok"), userMessage("on"))
	step := func(req *wire.Request, want TurnKind, turns int) {
		t.Helper()
		if got := r.Begin(req, noon.Add(time.Minute)); got != want || r.Thread.Turns != turns {
			t.Errorf("Begin returns kind %d for turn %d, want kind %d for turn %d", got, r.Thread.Turns, want, turns)
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
		t.Errorf(`the record is %+v, want seen at the last turn, the model gpt-x in a chat, 1 item and no reply`, r)
	}
}

func TestSideRequestsHaveAReason(t *testing.T) {
	system := func(s string) obj { return obj{"role": "system", "content": s} }
	main := parse(t, wire.Chat, "messages", []obj{system("S"), userMessage("go")}, tools("a", "b", "c"))
	grown := []obj{system("S"), userMessage("go"), assistantMessage("ok"), userMessage("on")}
	none := Signs{}
	signs := Signs{ // a list of seven items is a title request, and the agent opencode has tools
		Side:           func(req *wire.Request) string { return map[bool]string{true: "title"}[req.Len() == 7] },
		WorksWithTools: func(product string) bool { return product == "opencode" },
	}
	seven := []obj{userMessage("1"), userMessage("2"), userMessage("3"), userMessage("4"), userMessage("5"), userMessage("6"), userMessage("7")}
	for _, c := range []struct {
		name    string
		req     *wire.Request
		product string
		signs   Signs
		began   bool // the session has served the main request
		want    label.Reason
	}{
		{"never had tools", chat(t, userMessage("hi")), "", none, false, ""},
		{"never had tools, agent works with tools", chat(t, userMessage("hi")), "opencode", signs, false, label.SideNoTools},
		{"first with tools", main, "opencode", signs, false, ""},
		{"the same request again", main, "", none, true, ""},
		{"no tools after a request with tools", chat(t, userMessage("hi")), "", none, true, label.SideNoTools},
		{"empty tools", parse(t, wire.Chat, "messages", []obj{userMessage("x")}, obj{"tools": []obj{}}), "", none, true, label.SideNoTools},
		{"another system text alone", parse(t, wire.Chat, "messages", []obj{system("T"), userMessage("go")}, tools("a", "b", "c")), "", none, true, ""},
		{"tools in another order", parse(t, wire.Chat, "messages", []obj{system("S"), userMessage("go")}, tools("c", "b", "a")), "", none, true, ""},
		{"other tools, same system text and history", parse(t, wire.Chat, "messages", grown, tools("x", "y")), "", none, true, ""},
		{"other tools, another system text", parse(t, wire.Chat, "messages", extend([]obj{system("T")}, grown[1:]...), tools("x", "y")), "", none, true, label.SideTools},
		{"other tools, another history", parse(t, wire.Chat, "messages", []obj{system("S"), userMessage("sub")}, tools("x", "y")), "", none, true, label.SideTools},
		{"fewer tools, another system text", parse(t, wire.Chat, "messages", extend([]obj{system("T")}, grown[1:]...), tools("a")), "", none, true, label.SideTools},
		{"fewer tools, another history", parse(t, wire.Chat, "messages", []obj{system("S"), userMessage("sub")}, tools("a")), "", none, true, label.SideTools},
		{"fewer tools, same system text and history", parse(t, wire.Chat, "messages", grown, tools("a", "b")), "", none, true, ""},
		{"one tool more, same system text and history", parse(t, wire.Chat, "messages", grown, tools("a", "b", "c", "d")), "", none, true, ""},
		{"one tool more, another system text and history", parse(t, wire.Chat, "messages", []obj{system("T"), userMessage("sub")}, tools("a", "b", "c", "d")), "", none, true, label.SideTools},
		{"known wording", parse(t, wire.Chat, "messages", seven, tools("a", "b", "c")), "", signs, true, "title"},
		{"compaction by the provider", parse(t, wire.Responses, "input", []obj{userMessage("go"), {"type": "compaction_trigger"}}, tools("a", "b", "c")), "", none, true, label.SideCompact},
		{"warm-up", parse(t, wire.Responses, "input", "x", obj{"generate": false}), "", none, true, label.SideWarmUp},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := newRecord()
			if c.began {
				r.Begin(main, noon)
				r.SetLastTurn(main)
			}
			got, side := r.Side(c.req, Claim{Product: c.product}, c.signs)
			if got != c.want || side != (c.want != "") {
				t.Errorf("got side = %v with reason %q, want reason %q (side = false without a reason)", side, got, c.want)
			}
		})
	}
}

// After a handoff, an agent without tools sends the result of the handoff call. This turn and the later turns of the
// agent are main requests.
func TestAgentAfterAHandoffIsNoSideRequest(t *testing.T) {
	r := newRecord()
	list := []obj{{"role": "system", "content": "S"}, userMessage("go")}
	step := func(req *wire.Request) label.Reason {
		reason, side := r.Side(req, Claim{}, Signs{})
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
		t.Errorf("the agent after the handoff: got side request %s, want a main request", got)
	}
	list = append(list, assistantMessage("a report"), userMessage("shorter"))
	if got := step(chat(t, list...)); got != "" {
		t.Errorf("the next turn of the new agent: got side request %s, want a main request", got)
	}
	list = append(list, assistantMessage("a line"), userMessage("name it"))
	list[0] = obj{"role": "system", "content": "N"}
	if got := step(chat(t, list...)); got != label.SideNoTools {
		t.Errorf("another agent without tools: got side request %q, want %q", got, label.SideNoTools)
	}
	if got := step(chat(t, obj{"role": "system", "content": "W"}, userMessage("something else"))); got != label.SideNoTools {
		t.Errorf("the new agent with another history: got side request %q, want %q", got, label.SideNoTools)
	}
}

func TestOtherToolsMakeASideRequest(t *testing.T) {
	r := newRecord()
	begin := func(text string, names ...string) (label.Reason, bool) {
		req := parse(t, wire.Chat, "messages", []obj{userMessage("go"), assistantMessage("ok"), userMessage(text)}, tools(names...))
		reason, side := r.Side(req, Claim{}, Signs{})
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
		t.Error("a request with other tools: got a main request, want a side request")
	}
}

// IsNewItem is true for the items that the session sends for the first time. The list may have grown after an answer,
// or changed by an edit or a compaction.
func TestNewItemsOfAList(t *testing.T) {
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
	check := func(what string, got []int, want ...int) {
		t.Helper()
		if !reflect.DeepEqual(got, want) {
			t.Errorf("%s: got new items %v, want %v", what, got, want)
		}
	}
	check("first", next(userMessage("a")), 0)
	check("unanswered, one more", next(userMessage("a"), userMessage("b")), 1)
	check("answered", next(userMessage("a"), userMessage("b"), callMessage("c1", "{}"), resultMessage("c1", "x")), 3)
	check("unanswered, more words after the result", next(userMessage("a"), userMessage("b"), callMessage("c1", "{}"), resultMessage("c1", "x"), userMessage("stop")), 4)
	check("unanswered, other words after the result", next(userMessage("a"), userMessage("b"), callMessage("c1", "{}"), resultMessage("c1", "x"), userMessage("go on")), 4)
	check("shorter after a compaction", next(userMessage("summary"), userMessage("go on")), 0, 1)
}

// If an agent adds words after a result that it has sent before, the item is new and the result is not.
func TestNewResultsOfAnItem(t *testing.T) {
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
	check := func(what string, req *wire.Request, item, result bool) {
		t.Helper()
		r.Begin(req, noon)
		last := req.Len() - 1
		if got := r.IsNewItem(req, last); got != item {
			t.Errorf("%s: got IsNewItem = %v, want %v", what, got, item)
		}
		if got := r.IsNewResult(req, last, "call_1"); got != result {
			t.Errorf("%s: got IsNewResult = %v, want %v", what, got, result)
		}
		if r.IsNewResult(req, 0, "call_1") {
			t.Errorf("%s: IsNewResult for the first item = true, want false", what)
		}
		r.SetLastTurn(req)
	}
	check("first", answer("call_1"), true, true)
	check("unanswered, more words after the result", answer("call_1", obj{"type": "text", "text": "stop"}), true, false)
	check("answered, and a later call with the same id", answer("call_1"), true, true)
}

func TestNewItemsOfALongFirstRequest(t *testing.T) {
	r := newRecord()
	var list []obj
	for i := range 3 * maxNew {
		list = append(list, userMessage(fmt.Sprint(i)))
	}
	req := chat(t, list...)
	r.Begin(req, noon)
	r.SetLastTurn(req)
	if len(r.Thread.LastTurn.Items) != maxNew {
		t.Fatalf("got %d hashes of new items, want %d", len(r.Thread.LastTurn.Items), maxNew)
	}
	longer := chat(t, extend(list, userMessage("new"))...)
	r.Begin(longer, noon)
	if !r.IsNewItem(longer, 3*maxNew) || r.IsNewItem(longer, 3*maxNew-1) {
		t.Errorf("got IsNewItem = %v for the last item and %v for the item before, want true, false", r.IsNewItem(longer, 3*maxNew), r.IsNewItem(longer, 3*maxNew-1))
	}
}

func TestCallsOfARecordAreBounded(t *testing.T) {
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
		if len(data) > maxCallSum+4<<10 {
			t.Fatalf("the row has %d bytes, want at most %d", len(data), maxCallSum+4<<10)
		}
		if len(r.Thread.CallOrder) != len(r.Thread.Calls) {
			t.Fatalf("got %d ids in CallOrder and %d calls, want equal numbers", len(r.Thread.CallOrder), len(r.Thread.Calls))
		}
		if _, ok := r.Thread.Calls[last]; n > 0 && !ok {
			t.Fatalf("the record has calls %v, want the newest call %s among them", r.Thread.CallOrder, last)
		}
	})
}

func TestLongArgumentsStayComparable(t *testing.T) {
	r := newRecord()
	long := `{"command":"` + strings.Repeat("x", 5000) + `"}`
	r.AddReply(&wire.Reply{Calls: []wire.Call{{ID: "a", Args: long}, {ID: "b", Args: long}, {ID: "c", Args: long + " "}, {Args: "no id"}}})
	if r.Thread.Replied {
		t.Error("Replied after an incomplete reply = true, want false")
	}
	if len(r.Thread.Calls) != 3 || r.Thread.Calls["a"].Args != r.Thread.Calls["b"].Args || r.Thread.Calls["a"].Args == r.Thread.Calls["c"].Args || !json.Valid([]byte(r.Thread.Calls["a"].Args)) {
		t.Errorf("got calls %+v, want 3 calls, with equal arguments of a and b, other arguments of c, and arguments in JSON", r.Thread.Calls)
	}
}

func TestFullListReplacesKeptCalls(t *testing.T) {
	r := newRecord()
	r.AddReply(&wire.Reply{Complete: true, Calls: []wire.Call{{ID: "a"}}})
	r.Begin(parse(t, wire.Responses, "input", []obj{{"type": "function_call_output", "call_id": "a", "output": "x"}}, obj{"previous_response_id": "resp_1"}), noon)
	if len(r.Thread.Calls) != 1 {
		t.Errorf("after a request with new items only, the record has %d calls, want 1", len(r.Thread.Calls))
	}
	r.Begin(chat(t, userMessage("go"), callMessage("a", "{}"), resultMessage("a", "x")), noon)
	if len(r.Thread.Calls) != 0 {
		t.Errorf("after a request with the full list, the record has %d calls, want none", len(r.Thread.Calls))
	}
}

func TestBranchOfASharedHistoryIsANewSession(t *testing.T) {
	w := newFixture(t)
	id := func(n int) string { return fmt.Sprintf("toolu_01A09q90qw90lq9178%02d", n) }
	past := []obj{userMessage("go"), callMessage(id(1), "{}"), resultMessage(id(1), "x")}
	named := func(name string, req *wire.Request) Resolved {
		return w.threads.Resolve(w.scope, Claim{Session: name, Space: SpaceName, Method: ByHeader}, req, w.now, nil)
	}
	for _, name := range []string{"A", "B"} {
		r := named(name, chat(t, past...))
		w.answer(r, callReply(id(2)+name))
		next := named(name, chat(t, extend(past, callMessage(id(2)+name, "{}"), resultMessage(id(2)+name, "y"))...))
		w.answer(next, textReply("done"))
	}
	c := w.open(chat(t, extend(past, userMessage("a third way"))...))
	if !c.New {
		t.Errorf("a branch of a shared history: got %+v, want New = true", c)
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
