package wire_test

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	"precept/internal/wire"
)

func mustParse(t *testing.T, d wire.Dialect, body string) *wire.Request {
	t.Helper()
	r, err := wire.Parse(d, []byte(body))
	if err != nil {
		t.Fatalf("Parse(%s): %v", body, err)
	}
	return r
}

// If tool results have no ids, precept generates an id for each result, and assigns the results to the calls in order.
func TestResultsWithoutIDsAnswerCallsInOrder(t *testing.T) {
	const calls = `{"role":"assistant","tool_calls":[{"function":{"name":"f","arguments":"{\"n\":1}"}},{"function":{"name":"g","arguments":"{}"}}]}`
	const results = `{"role":"tool","content":"same"},{"role":"tool","content":"same"}`
	const list = `{"role":"user","content":"go"},` + calls + `,` + results + `,` + calls + `,` + results
	r := mustParse(t, wire.Chat, `{"messages":[`+list+`]}`)
	names := map[string]bool{}
	for i, want := range map[int]struct {
		name                string
		callItem, callIndex int
	}{2: {"f", 1, 0}, 3: {"g", 1, 1}, 5: {"f", 4, 0}, 6: {"g", 4, 1}} {
		id := r.Item(i).Results[0].CallID
		c, ok := r.FindCall(id)
		if !ok || c.Name != want.name || !wire.IsGeneratedID(id) || names[id] {
			t.Errorf("result %d, id %q: FindCall = %+v, %v, want the call to %s, and a generated id that no other result has", i, id, c, ok, want.name)
		}
		names[id] = true
		if wantID := wire.GeneratedCallID(want.callItem, want.callIndex); id != wantID {
			t.Errorf("result %d: got id %q, want %q", i, id, wantID)
		}
	}
	longer := mustParse(t, wire.Chat, `{"messages":[{"role":"system","content":"s"},`+list+`,{"role":"user","content":"more"}]}`)
	for _, i := range []int{2, 3, 5, 6} {
		a := r.AnchorAt(i, r.Item(i).Results[0].CallID)
		if item, block, ok := longer.Find(a); !ok || item != i+1 || block != 0 {
			t.Errorf("longer list, Find(%+v) for result %d = item %d, block %d, %v, want item %d, block 0, true", a, i, item, block, ok, i+1)
		}
		if item, _, ok := r.Find(a); !ok || item != i {
			t.Errorf("result %[1]d: Find(anchor) = item %d, %v, want item %[1]d, true", i, item, ok)
		}
	}
	shorter := mustParse(t, wire.Chat, `{"messages":[{"role":"user","content":"go"},`+calls+`,{"role":"tool","content":"same"}]}`)
	if item, _, ok := shorter.Find(r.AnchorAt(6, r.Item(6).Results[0].CallID)); ok {
		t.Errorf("shorter list, fourth result: Find(anchor) = item %d, true, want false", item)
	}
}

// The echo key of a call without an id does not depend on white space and member order in the arguments.
func TestEchoKeyForCallWithoutID(t *testing.T) {
	reader := wire.NewReplyReader(wire.Chat, -1, 1<<20)
	_, _ = reader.Write([]byte(`{"choices":[{"message":{"tool_calls":[{"function":{"name":"f","arguments":"{\"a\": 1, \"b\": [2]}"}},{"function":{"name":"g","arguments":" x "}}]}}]}`))
	keys := wire.ReplyEchoKeys(reader.Reply(), "")
	for args, known := range map[string]bool{`{"b":[2],"a":1}`: true, `{"b":[2],"a":2}`: false, `x`: false, ``: false} {
		raw, _ := json.Marshal(args)
		r := mustParse(t, wire.Chat, fmt.Sprintf(`{"messages":[{"role":"assistant","tool_calls":[{"function":{"name":"f","arguments":%s}}]},{"role":"user","content":"go"}]}`, raw))
		if echo := r.EchoKeys(0); len(echo) != 1 || slices.Contains(keys, echo[0]) != known {
			t.Errorf("arguments %q: got EchoKeys %v, want one key; the key must be among the reply's keys %v: %v", args, echo, keys, known)
		}
	}
	spaced := wire.CallEchoHash(&wire.Call{Name: "g", Args: " x "})
	for c, same := range map[wire.Call]bool{{Name: "g", Args: "x"}: true, {Name: "g", Args: "y"}: false, {Name: "h", Args: "x"}: false} {
		if got := wire.CallEchoHash(&c) == spaced; got != same {
			t.Errorf("call %+v: got the key for g(\" x \") = %v, want %v", c, got, same)
		}
	}
	if !slices.Contains(keys, "t:"+spaced) {
		t.Errorf("ReplyEchoKeys = %v, want the second call's key t:%s among them", keys, spaced)
	}
}

// Agents remove thoughts or the prefilled text, and append text.
func TestEchoKeyForReturnedText(t *testing.T) {
	replyKeys := func(text, prefilled string) []string {
		raw, _ := json.Marshal(map[string]any{"choices": []any{map[string]any{"message": map[string]any{"content": text}}}})
		reader := wire.NewReplyReader(wire.Chat, -1, 1<<20)
		_, _ = reader.Write(raw)
		return wire.ReplyEchoKeys(reader.Reply(), prefilled)
	}
	for _, tc := range []struct {
		reply, prefilled, returned string
		known                      bool // the texts share an echo key
	}{
		{"It is done.", "", " It is done.\n", true},
		{"It is done.", "", "It is not done.", false},
		{"hm</think>It is done.", "", "It is done.", true},
		{"<think>hm</think>\n\nIt is done.", "", "<think>hm</think>\n\nIt is done.", true},
		{"is done.", "It ", "It is done.", true},
		{"is done.", "It ", "is done.", true},
		{"is done.", "", "It is done.", false},
		{"<code>\nf()\n", "", "<code>\nf()\n</code>", true},
		{"I look.", "", "I look.\nCalling tools:\n[{'id': 'call_1', 'function': {'name': 'f', 'arguments': {}}}]", true},
	} {
		r := mustParse(t, wire.Chat, string(mustJSON(map[string]any{"messages": []any{map[string]string{"role": "assistant", "content": tc.returned}, map[string]string{"role": "user", "content": "so"}}})))
		keys := replyKeys(tc.reply, tc.prefilled)
		if got := slices.ContainsFunc(r.EchoKeys(0), func(k string) bool { return slices.Contains(keys, k) }); got != tc.known {
			t.Errorf("reply %q after prefilled %q, returned as %q: got a shared key = %v, want %v", tc.reply, tc.prefilled, tc.returned, got, tc.known)
		}
	}
	listed := mustParse(t, wire.Chat, string(mustJSON(map[string]any{"messages": []any{map[string]string{
		"role": "assistant", "content": "Calling tools:\n[{'id': 'call_1', 'type': 'function'}, {'id': 'call_2'}, {'id': '" + strings.Repeat("x", 300) + "'}]",
	}}})))
	if echo := listed.EchoKeys(0); !slices.Contains(echo, "c:call_1") || !slices.Contains(echo, "c:call_2") || len(echo) != 3 {
		t.Errorf("EchoKeys = %v, want c:call_1, c:call_2 and a third key", echo)
	}
}

func mustJSON(v any) []byte {
	raw, err := json.Marshal(v)
	if err != nil {
		panic(err)
	}
	return raw
}
