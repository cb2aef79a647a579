package sample_test

import (
	"encoding/json"
	"slices"
	"testing"

	"precept/internal/sample"
)

// conversation returns four turns. The second turn reads prod.env. With repeatHistory, each request repeats the
// previous reply.
func conversation(dialect string, repeatHistory bool) []sample.Exchange {
	user := func(text string) json.RawMessage {
		return json.RawMessage(`{"role":"user","content":"` + text + `"}`)
	}
	list := []sample.Exchange{
		{ID: "1", Turn: 1, New: []json.RawMessage{user("hello")}, Reply: sample.Reply{Text: "hi"}},
		{ID: "2", Turn: 2, New: []json.RawMessage{user("read")}, Reply: sample.Reply{Calls: []sample.Call{{ID: "c1", Name: "read", Args: `{"path":"prod.env"}`}}}},
		{ID: "3", Turn: 3, Reply: sample.Reply{Text: "the key is 7"}},
		{ID: "4", Turn: 4, New: []json.RawMessage{user("thanks")}, Reply: sample.Reply{Text: "bye"}},
	}
	call, result, reply := `{"role":"assistant","tool_calls":[{"id":"c1","type":"function","function":{"name":"read","arguments":"{\"path\":\"prod.env\"}"}}]}`,
		`{"role":"tool","tool_call_id":"c1","content":"KEY=7"}`, `{"role":"assistant","content":"the key is 7"}`
	if dialect == "responses" {
		call, result, reply = `{"type":"function_call","call_id":"c1","name":"read","arguments":"{\"path\":\"prod.env\"}"}`,
			`{"type":"function_call_output","call_id":"c1","output":"KEY=7"}`, `{"type":"message","role":"assistant","content":[{"type":"output_text","text":"the key is 7"}]}`
	}
	list[2].New = []json.RawMessage{json.RawMessage(result)}
	if repeatHistory {
		list[2].New = []json.RawMessage{json.RawMessage(call), json.RawMessage(result)}
		list[3].New = slices.Insert(list[3].New, 0, json.RawMessage(reply))
	}
	for i := range list {
		list[i].Dialect, list[i].Agent, list[i].Tenant = dialect, "coder", "default"
	}
	return list
}

func TestHiddenExchangesFollowLaterPathOptOut(t *testing.T) {
	t.Parallel()
	o := newOptOut(t, "*.env")
	for _, dialect := range []string{"chat", "responses"} {
		for _, repeatHistory := range []bool{true, false} {
			list := conversation(dialect, repeatHistory)
			if got, want := o.HiddenExchanges(list), []bool{false, true, true, false}; !slices.Equal(got, want) {
				t.Errorf("%s, repeatHistory = %v: HiddenExchanges = %v, want %v", dialect, repeatHistory, got, want)
			}
			got := o.VisibleExchanges(list)
			if len(got) != 2 || got[1].ID != "4" || len(got[1].New) != 1 {
				t.Errorf("%s, repeatHistory = %v: VisibleExchanges = %+v, want turns 1 and 4, turn 4 with only the user message", dialect, repeatHistory, got)
			}
			if len(list[3].New) == 1 && repeatHistory {
				t.Error("VisibleExchanges changed the argument")
			}
		}
	}
}

// If a sample's exchanges are not stored, HidesSample returns true, because the exchanges cannot be checked. If the
// current patterns already applied when the exchanges were written, HidesSample checks the sample's texts instead.
func TestHidesSampleFromHiddenOrUncheckedExchanges(t *testing.T) {
	t.Parallel()
	o, list := newOptOut(t, "*.env"), conversation("chat", true)
	for name, tc := range map[string]struct {
		ids             any
		list            []sample.Exchange
		input           string
		filteredOnWrite bool
		want            bool
	}{
		"a hidden exchange":  {ids: []any{"1", "2"}, list: list, filteredOnWrite: true, want: true},
		"no hidden exchange": {ids: []any{"1", "4"}, list: list},
		"no ids":             {list: list, want: true},
		"exchange not stored, patterns applied on write, path in the sample": {ids: []any{"7"}, input: "cat prod.env", filteredOnWrite: true, want: true},
		"exchange not stored, patterns applied on write":                     {ids: []any{"7"}, input: "cat notes.txt", filteredOnWrite: true},
		"exchange not stored, patterns not applied on write":                 {ids: []any{"7"}, input: "cat notes.txt", want: true},
		"no ids, exchange not stored, patterns not applied on write":         {input: "cat notes.txt", want: true},
		"one of two exchanges not stored, patterns not applied on write":     {ids: []any{"1", "7"}, list: list, want: true},
	} {
		m := sample.Sample{Input: map[string]any{"user_text": tc.input}, Meta: map[string]any{"source_event_ids": tc.ids}}
		if got := o.HidesSample(&m, tc.list, tc.filteredOnWrite); got != tc.want {
			t.Errorf("%s: got HidesSample = %v, want %v", name, got, tc.want)
		}
	}
}

// A nil OptOut hides nothing.
func TestLaterAgentOrTenantOptOutHidesAll(t *testing.T) {
	t.Parallel()
	list := conversation("chat", true)
	var none *sample.OptOut
	if got := none.VisibleExchanges(list); len(got) != len(list) || none.Hides("a", "b") || none.HidesSample(&sample.Sample{}, list, false) {
		t.Error("nil OptOut hides something, want nothing hidden")
	}
	for _, c := range [][2][]string{{{"cod*"}, nil}, {nil, {"default"}}} {
		o, err := sample.NewOptOut(nil, c[0], c[1])
		if err != nil {
			t.Fatal(err)
		}
		if got := o.VisibleExchanges(list); len(got) != 0 {
			t.Errorf("agents %v, tenants %v: got %d visible exchanges, want 0", c[0], c[1], len(got))
		}
	}
}
