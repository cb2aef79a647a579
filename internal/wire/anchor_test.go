package wire

import (
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"
)

func newChat(t *testing.T, items ...string) *Request {
	t.Helper()
	return mustParse(t, Chat, `{"messages":[`+strings.Join(items, ",")+`]}`)
}

const (
	systemItem = `{"role":"system","content":"s"}`
	goItem     = `{"role":"user","content":"go"}`
	yesItem    = `{"role":"user","content":"yes"}`
	answerItem = `{"role":"assistant","content":"done"}`
)

func toolItem(id string) string { return `{"role":"tool","tool_call_id":"` + id + `","content":"x"}` }

// An anchor must identify a message in later requests, in which the index can differ.
func TestFindMessageAnchor(t *testing.T) {
	r := newChat(t, systemItem, goItem, answerItem, yesItem, answerItem, yesItem, answerItem, yesItem)
	first, second, third := r.AnchorAt(3, ""), r.AnchorAt(5, ""), r.AnchorAt(7, "")
	if first.Nth != 0 || second.Nth != 1 || third.Nth != 2 {
		t.Fatalf("got anchors %+v, %+v and %+v, want Nth = 0, 1 and 2", first, second, third)
	}
	for _, tc := range []struct {
		name   string
		list   []string
		anchor Anchor
		want   int // -1: not found
	}{
		{"the same list", []string{systemItem, goItem, answerItem, yesItem, answerItem, yesItem, answerItem, yesItem}, second, 5},
		{"one more turn", []string{systemItem, goItem, answerItem, yesItem, answerItem, yesItem, answerItem, yesItem, answerItem, goItem}, second, 5},
		{"one more system message", []string{systemItem, systemItem, goItem, answerItem, yesItem, answerItem, yesItem, answerItem, yesItem}, second, 6},
		{"first of three identical messages at the old index of the second", []string{systemItem, systemItem, systemItem, goItem, answerItem, yesItem, answerItem, yesItem, answerItem, yesItem}, first, 5},
		{"third of three identical messages at the old index of the second", []string{goItem, yesItem, answerItem, yesItem, answerItem, yesItem}, second, 3},
		{"one of three identical messages removed", []string{systemItem, yesItem, answerItem, yesItem}, third, -1},
		{"list shorter than the old index", []string{goItem}, first, -1},
		{"message removed", []string{systemItem, goItem, answerItem}, first, -1},
	} {
		t.Run(tc.name, func(t *testing.T) {
			item, block, ok := newChat(t, tc.list...).Find(tc.anchor)
			if ok != (tc.want >= 0) || ok && (item != tc.want || block != -1) {
				t.Errorf("Find = item %d, block %d, %v, want item %d (-1: not found), block -1", item, block, ok, tc.want)
			}
		})
	}
}

func TestFindResultAnchor(t *testing.T) {
	r := newChat(t, goItem, answerItem, toolItem("a"), answerItem, toolItem("b"), answerItem, toolItem("a"))
	if a := r.AnchorAt(2, "a"); a != (Anchor{CallID: "a", Hash: r.Hash(2), Index: 2}) {
		t.Errorf("first result: anchor = %+v, want %+v", a, (Anchor{CallID: "a", Hash: r.Hash(2), Index: 2}))
	}
	second := r.AnchorAt(6, "a")
	if second.Nth != 1 {
		t.Errorf("second result for the call: anchor = %+v, want Nth = 1", second)
	}
	for _, tc := range []struct {
		name   string
		list   []string
		anchor Anchor
		want   int
	}{
		{"the same list", []string{goItem, answerItem, toolItem("a"), answerItem, toolItem("b"), answerItem, toolItem("a")}, second, 6},
		{"a different index", []string{systemItem, goItem, answerItem, toolItem("a"), answerItem, toolItem("a")}, second, 5},
		{"result removed", []string{goItem, answerItem, toolItem("b")}, second, -1},
		{"another result for the call at the old index", []string{goItem, toolItem("a"), toolItem("a")}, Anchor{CallID: "a", Index: 2}, 1},
		{"null content", []string{goItem, `{"role":"tool","tool_call_id":"a","content":null}`}, Anchor{CallID: "a", Index: 1}, 1},
		{"a number as content", []string{goItem, `{"role":"tool","tool_call_id":"a","content":7}`}, Anchor{CallID: "a", Index: 1}, -1},
	} {
		t.Run(tc.name, func(t *testing.T) {
			item, block, ok := newChat(t, tc.list...).Find(tc.anchor)
			if ok != (tc.want >= 0) || ok && (item != tc.want || block != 0) {
				t.Errorf("Find = item %d, block %d, %v, want item %d (-1: not found), block 0", item, block, ok, tc.want)
			}
		})
	}
}

// Some servers give every call the same id. After the agent drops old messages, only the content identifies a result.
func TestFindRepeatedCallIDAfterRemovals(t *testing.T) {
	result := func(n int) string { return fmt.Sprintf(`{"role":"tool","tool_call_id":"a","content":"result %d"}`, n) }
	third := newChat(t, goItem, answerItem, result(1), answerItem, result(2), answerItem, result(3)).AnchorAt(6, "a")
	for name, tc := range map[string]struct {
		list []string
		want int // -1 if not found
	}{
		"one step dropped":          {[]string{goItem, answerItem, result(2), answerItem, result(3), answerItem, result(4)}, 4},
		"two steps dropped":         {[]string{goItem, answerItem, result(3), answerItem, result(4)}, 2},
		"only the result is left":   {[]string{goItem, answerItem, result(3)}, 2},
		"the result itself dropped": {[]string{goItem, answerItem, result(4), answerItem, result(5)}, -1},
		"a different result left":   {[]string{goItem, answerItem, result(4)}, -1},
	} {
		item, block, ok := newChat(t, tc.list...).Find(third)
		if ok != (tc.want >= 0) || ok && (item != tc.want || block != 0) {
			t.Errorf("%s: Find = item %d, block %d, %v, want item %d (-1: not found), block 0", name, item, block, ok, tc.want)
		}
	}
}

func TestFindAnchorInMessageWithBlocks(t *testing.T) {
	r := mustParse(t, Messages, `{"messages":[{"role":"user","content":"go"},{"role":"user","content":[{"type":"tool_result","tool_use_id":"a"},{"type":"tool_result","tool_use_id":"\u0062","content":"x"},{"type":"text","text":"go"}]}]}`)
	if item, block, ok := r.Find(r.AnchorAt(1, "b")); item != 1 || block != 1 || !ok {
		t.Errorf("result b: Find(anchor) = item %d, block %d, %v, want item 1, block 1, true", item, block, ok)
	}
	textAnchor := r.AnchorAt(1, "")
	if item, block, ok := r.Find(textAnchor); item != 1 || block != -1 || !ok || textAnchor.Nth != 0 {
		t.Errorf("text: Find(%+v) = item %d, block %d, %v, want item 1, block -1, true, Nth = 0", textAnchor, item, block, ok)
	}
	if _, _, ok := r.Find(Anchor{CallID: "c"}); ok {
		t.Error("absent call: Find(anchor) = true, want false")
	}
}

func TestFindSystemPromptAnchor(t *testing.T) {
	r := newChat(t, goItem, answerItem)
	if item, block, ok := r.Find(r.AnchorAt(System, "")); item != System || block != -1 || !ok {
		t.Errorf("Find = item %d, block %d, %v, want item %d (System), block -1, true", item, block, ok, System)
	}
	number := mustParse(t, Messages, `{"system":7,"messages":[{"role":"user","content":"a"}]}`)
	if _, _, ok := number.Find(number.AnchorAt(System, "")); ok {
		t.Error("numeric system prompt: Find(anchor) = true, want false")
	}
}

func TestAnchorJSONRoundTrip(t *testing.T) {
	r := newChat(t, goItem, answerItem, toolItem("a"))
	for _, a := range []Anchor{r.AnchorAt(0, ""), r.AnchorAt(2, "a")} {
		raw, err := json.Marshal(a)
		if err != nil {
			t.Fatal(err)
		}
		var decoded Anchor
		if err := json.Unmarshal(raw, &decoded); err != nil || decoded != a {
			t.Errorf("Unmarshal(%s) = %+v, error %v, want %+v", raw, decoded, err, a)
		}
	}
}

// An agent sends a reply back with the next request (an echo). An echo key identifies the reply by "c:" and a call id,
// "i:" and an item id, or "t:" and a hash.
func TestEchoKeysInEachDialect(t *testing.T) {
	for _, tc := range []struct {
		name    string
		dialect Dialect
		item    string
		want    []string
	}{
		{"user message", Chat, `{"role":"user","content":"a"}`, nil},
		{"reply with calls", Chat, `{"role":"assistant","content":"x","tool_calls":[{"id":"a"},{"id":"b"},{"id":""}]}`, []string{"c:a", "c:b", "t:" + CallEchoHash(&Call{})}},
		{"tool result", Chat, `{"role":"tool","tool_call_id":"a","content":"x"}`, []string{"c:a"}},
		{"call item", Responses, `{"type":"function_call","id":"fc_1","call_id":"a"}`, []string{"c:a", "i:fc_1"}},
		{"item reference", Responses, `{"type":"item_reference","id":"msg_1"}`, []string{"i:msg_1"}},
		{"reply text", Responses, `{"role":"assistant","id":"msg_1","content":"done\n"}`, []string{"i:msg_1", "t:" + TextEchoHash("done")}},
		{"calls written as text", Chat, `{"role":"assistant","content":[{"type":"text","text":"Calling tools:\n[{'id': 'call_1', 'function': {}}, {'id': 'call_2'}]"}]}`, []string{"t:" + TextEchoHash("Calling tools:\n[{'id': 'call_1', 'function': {}}, {'id': 'call_2'}]"), "c:call_1", "c:call_2"}},
		{"empty text", Chat, `{"role":"assistant","content":" "}`, nil},
		{"two tool results", Messages, `{"role":"user","content":[{"type":"tool_result","tool_use_id":"a"},{"type":"tool_result","tool_use_id":"b"}]}`, []string{"c:a", "c:b"}},
		{"call answered by the provider", Messages, `{"role":"assistant","content":[{"type":"server_tool_use","id":"srv_1"},{"type":"thinking","thinking":"x"}]}`, []string{"i:srv_1"}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			if got := mustParse(t, tc.dialect, `{"`+tc.dialect.listKey()+`":[`+tc.item+`]}`).EchoKeys(0); !reflect.DeepEqual(got, tc.want) {
				t.Errorf("EchoKeys = %q, want %q", got, tc.want)
			}
		})
	}
}

// The provider itself answers a hosted call, such as a web search.
func TestEchoKeysMatchReplyWithHostedCalls(t *testing.T) {
	const hostedCall = `{"type":"server_tool_use","id":"srv_1","name":"web_search","input":{}},{"type":"web_search_tool_result","tool_use_id":"srv_1","content":[]}`
	for _, content := range []string{
		`[` + hostedCall + `]`,
		`[{"type":"text","text":"It is "},{"type":"text","text":"found","citations":[{}]},{"type":"text","text":"."}]`,
		`[{"type":"text","text":"I look."},` + hostedCall + `]`,
	} {
		rep := readReply(Messages, []byte(`{"type":"message","id":"msg_1","role":"assistant","content":`+content+`,"stop_reason":"pause_turn"}`), 1<<20, 7)
		keys := ReplyEchoKeys(rep, "")
		r := mustParse(t, Messages, `{"messages":[{"role":"user","content":"go"},{"role":"assistant","content":`+content+`}]}`)
		echo := r.EchoKeys(1)
		if len(echo) == 0 || !slices.Contains(keys, echo[0]) {
			t.Errorf("%s: EchoKeys = %q, want the first among the reply's keys %q", content, echo, keys)
		}
		if prefilled := r.Prefill(); strings.Contains(content, "srv_1") && prefilled != "" {
			t.Errorf("%s: Prefill = %q, want none, because the provider wrote the text", content, prefilled)
		}
	}
}

func TestEchoKeysMatchUnusualReplies(t *testing.T) {
	chat := func(message string) string {
		return `{"choices":[{"index":0,"message":{"role":"assistant",` + message + `},"finish_reason":"stop"}]}`
	}
	for _, tc := range []struct {
		name        string
		dialect     Dialect
		reply, item string
	}{
		{"refusal", Chat, chat(`"content":null,"refusal":"I cannot."`), `{"role":"assistant","content":null,"refusal":"I cannot."}`},
		{"refusal as a part", Chat, chat(`"content":null,"refusal":"I cannot."`), `{"role":"assistant","content":[{"type":"refusal","refusal":"I cannot."}]}`},
		{"streamed refusal", Chat, "data: {\"choices\":[{\"delta\":{\"refusal\":\"I can\"}}]}\n\ndata: {\"choices\":[{\"delta\":{\"refusal\":\"not.\"}}]}\n\n", `{"role":"assistant","refusal":"I cannot."}`},
		{"refusal without an id", Responses, `{"id":"resp_1","output":[{"type":"message","id":"msg_1","role":"assistant","content":[{"type":"refusal","refusal":"I cannot."}]}]}`, `{"type":"message","role":"assistant","content":[{"type":"refusal","refusal":"I cannot."}]}`},
		{"audio", Chat, chat(`"content":null,"audio":{"id":"audio_1","data":"AA"}`), `{"role":"assistant","audio":{"id":"audio_1"}}`},
		{"thoughts removed", Chat, chat(`"content":"<think>hm</think>\n\nIt is done."`), `{"role":"assistant","content":"It is done."}`},
		{"thoughts kept", Chat, chat(`"content":"hm</think>It is done."`), `{"role":"assistant","content":"hm</think>It is done."}`},
		{"only thoughts", Chat, chat(`"content":"<think>hm</think>"`), `{"role":"assistant","content":"<think>hm</think>"}`},
	} {
		keys := ReplyEchoKeys(readReply(tc.dialect, []byte(tc.reply), 1<<20, 5), "")
		r := mustParse(t, tc.dialect, `{"`+tc.dialect.listKey()+`":[{"role":"user","content":"go"},`+tc.item+`,{"role":"user","content":"on"}]}`)
		if echo := r.EchoKeys(1); len(echo) == 0 || !slices.Contains(keys, echo[0]) {
			t.Errorf("%s: EchoKeys = %q, want the first among the reply's keys %q", tc.name, echo, keys)
		}
	}
}
