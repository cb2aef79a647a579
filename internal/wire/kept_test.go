package wire

import (
	"encoding/json"
	"reflect"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

func TestStoredItemsAreReadLikeRequestItems(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		d := rapid.SampledFrom([]Dialect{Chat, Responses, Messages}).Draw(t, "dialect")
		c := drawConversation(t, d)
		r, err := Parse(d, c)
		if err != nil {
			t.Fatal(err)
		}
		from := rapid.IntRange(0, r.Len()-1).Draw(t, "from")
		stored := StoredItems[json.RawMessage]{Dialect: d, From: from}
		for i := from; i < r.Len(); i++ {
			stored.Items = append(stored.Items, json.RawMessage(r.Raw(i)))
		}
		for n, it := range stored.Read() {
			want := *r.Item(from + n)
			want.Index, want.textCallIndex, it.textCallIndex = n, 0, 0
			if !reflect.DeepEqual(*it, want) {
				t.Fatalf("stored item %d (item %d in the request):\n got %+v\nwant %+v", n, from+n, *it, want)
			}
		}
	})
}

func drawConversation(t *rapid.T, d Dialect) []byte {
	var items []string
	for i := range rapid.IntRange(1, 8).Draw(t, "items") {
		word := rapid.SampledFrom([]string{"go", "<system-reminder>x</system-reminder>", "a\\nb", ""}).Draw(t, "word")
		id := rapid.SampledFrom([]string{"c1", "c2", ""}).Draw(t, "id")
		var forms []string
		switch d {
		case Chat:
			forms = []string{
				`{"role":"user","content":"%w"}`, `{"role":"assistant","content":"%w"}`, `{"role":"tool","tool_call_id":"%i","content":"%w"}`,
				`{"role":"assistant","content":null,"tool_calls":[{"id":"%i","function":{"name":"f","arguments":"{}"}},{"function":{"name":"g","arguments":""}}]}`, `{"role":"system","content":"%w"}`,
			}
		case Responses:
			forms = []string{`{"role":"user","content":"%w"}`, `{"type":"function_call","call_id":"%i","name":"f","arguments":"{}"}`, `{"type":"function_call_output","call_id":"%i","output":"%w"}`, `{"type":"item_reference","id":"%i"}`}
		case Messages, NoDialect:
			forms = []string{`{"role":"user","content":[{"type":"tool_result","tool_use_id":"%i","content":"%w"},{"type":"text","text":"%w"}]}`, `{"role":"assistant","content":[{"type":"tool_use","id":"%i","name":"f","input":{}}]}`}
		}
		if i == 0 { // some lists begin with a user message
			forms = append(forms, `{"role":"user","content":"%w"}`)
		}
		items = append(items, strings.NewReplacer("%w", word, "%i", id).Replace(rapid.SampledFrom(forms).Draw(t, "form")))
	}
	return append(appendListKey(nil, d), "["+strings.Join(items, ",")+"]}"...)
}

func TestStoredItemsReadsInvalidItemsAsEmpty(t *testing.T) {
	deep := strings.Repeat("[", 250) + strings.Repeat("]", 250)
	tooDeep := strings.Repeat("[", 255) + strings.Repeat("]", 255)
	stored := StoredItems[json.RawMessage]{Items: []json.RawMessage{
		[]byte(` "hello" `), []byte("7"), nil, []byte(`{"role":`), []byte(`{"role":"user","content":"hi","x":` + deep + `}`), []byte(`{"role":"user","content":"lost","x":` + tooDeep + `}`),
	}}
	var got []string
	for i, it := range stored.Read() {
		if it.Index != i {
			t.Errorf("item %d: got Index = %d, want %d", i, it.Index, i)
		}
		got = append(got, it.UserText)
	}
	if want := []string{"hello", "", "", "", "hi", ""}; !reflect.DeepEqual(got, want) {
		t.Errorf("stored items: UserText = %q, want %q", got, want)
	}
	if n := len((StoredItems[[]byte]{}).Read()); n != 0 {
		t.Errorf("empty list: got %d items, want 0", n)
	}
}

func TestStoredItemsDetectsDialect(t *testing.T) {
	for d, item := range map[Dialect]string{
		Chat: `{"role":"assistant","tool_calls":[{"id":"c","function":{"name":"f","arguments":"x"}}]}`, Responses: `{"type":"function_call","call_id":"c","name":"f","arguments":"x"}`,
		Messages: `{"role":"assistant","content":[{"type":"tool_use","id":"c","name":"f","input":"x"}]}`,
	} {
		it := StoredItems[[]byte]{Items: [][]byte{[]byte(item)}}.Read()[0]
		if len(it.Calls) != 1 || it.Calls[0].ID != "c" || it.Calls[0].Name != "f" {
			t.Errorf(`%s: got %+v, want one call with ID = "c" and Name = "f"`, d, it)
		}
		if DialectNamed(d.String()) != d {
			t.Errorf("DialectNamed(%q) = %v, want %v", d.String(), DialectNamed(d.String()), d)
		}
	}
	if DialectNamed("none") != NoDialect || DialectNamed("") != NoDialect {
		t.Errorf(`DialectNamed("none") = %v, DialectNamed("") = %v, want NoDialect`, DialectNamed("none"), DialectNamed(""))
	}
}

// Some models write calls as text. If the first stored item is the result of such a call, the call is in ModelText, the
// model's text before this item.
func TestStoredResultAnswersCallInModelText(t *testing.T) {
	stored := StoredItems[[]byte]{Dialect: Chat, From: 2, ModelText: "Action: ls\nAction Input: .", Items: [][]byte{[]byte(`{"role":"user","content":"Observation: a.go"}`)}}
	withoutText := stored
	withoutText.ModelText = ""
	r := mustParse(t, Chat, `{"messages":[{"role":"user","content":"go"},{"role":"assistant","content":"Action: ls\nAction Input: ."},{"role":"user","content":"Observation: a.go"}]}`)
	if got, want := stored.Read()[0].Results, r.Item(2).Results; !reflect.DeepEqual(got, want) {
		t.Errorf("stored item: got results %+v, want %+v", got, want)
	}
	if withoutText.Read()[0].Results[0].CallID == r.Item(2).Results[0].CallID {
		t.Error("without ModelText: got the call's id, want a different id")
	}
}

func TestCallsInRefusesInvalidJSON(t *testing.T) {
	pieces := []string{`{`, `}`, `[`, `]`, `"`, `,`, `:`, `\\`, `"type"`, `"x_call"`, `"tool_calls"`, `"content"`, `"tool_use"`, `"input"`, `7`, ` `, `{"type":"tool_use","input":7}`, `null`}
	rapid.Check(t, func(t *rapid.T) {
		item := []byte(strings.Join(rapid.SliceOfN(rapid.SampledFrom(pieces), 0, 20).Draw(t, "item"), ""))
		calls, ok := CallsIn(item)
		if ok != json.Valid(item) {
			t.Fatalf("CallsIn(%s): ok = %v, want %v", item, ok, json.Valid(item))
		}
		for _, call := range calls {
			if !strings.Contains(string(item), string(call)) {
				t.Fatalf("CallsIn(%s) returned %s, want a part of the item", item, call)
			}
		}
	})
}

func TestElementsMatchesEncodingJSON(t *testing.T) {
	pieces := []string{`{"a" : 1.0}`, `{`, `]`, `[`, `"`, `,`, `"x"`, ` `, `null`, `[[],7]`, "\n"}
	rapid.Check(t, func(t *rapid.T) {
		array := "[" + strings.Join(rapid.SliceOfN(rapid.SampledFrom(pieces), 0, 8).Draw(t, "array"), rapid.SampledFrom([]string{"", ","}).Draw(t, "between")) + "]"
		var want []json.RawMessage
		err := json.Unmarshal([]byte(array), &want)
		got, ok := Elements[json.RawMessage]([]byte(array))
		if ok != (err == nil) {
			t.Fatalf("Elements(%s): got ok = %v, want %v (json.Unmarshal: %v)", array, ok, err == nil, err)
		}
		if ok && !slices.EqualFunc(got, want, func(x, y json.RawMessage) bool { return string(x) == string(y) }) {
			t.Fatalf("Elements(%s) = %q, want %q", array, got, want)
		}
	})
	for _, none := range []string{"", " ", "null", "{}", "7", "[1", "[1] 2"} {
		if _, ok := Elements[[]byte]([]byte(none)); ok {
			t.Errorf("Elements(%q): got ok = true, want false", none)
		}
	}
}
