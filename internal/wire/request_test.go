package wire

import (
	"encoding/json"
	"errors"
	"reflect"
	"strings"
	"testing"

	"precept/internal/label"
)

func mustParse(tb testing.TB, d Dialect, body string) *Request {
	tb.Helper()
	r, err := Parse(d, []byte(body))
	if err != nil {
		tb.Fatalf("Parse(%s, %s): %v", d, body, err)
	}
	return r
}

func TestParseRejectsUninspectableBodies(t *testing.T) {
	deep := strings.Repeat("[", 10_000) + strings.Repeat("]", 10_000)
	keys := strings.Repeat(`"k":1,`, 300)
	for _, tc := range []struct {
		name    string
		dialect Dialect
		body    string
		want    string
	}{
		{"empty body", Chat, ``, "invalid_json"},
		{"blank body", Chat, " \n", "invalid_json"},
		{"truncated body", Chat, `{"messages":[{"role":"user","content":"a"}]`, "invalid_json"},
		{"truncated in an item", Chat, `{"messages":[{"role":"user"`, "invalid_json"},
		{"truncated in a block", Messages, `{"messages":[{"role":"user","content":[{"type":"text"`, "invalid_json"},
		{"truncated after a key", Messages, `{"messages":[{"role":"user","content":[{"type"`, "invalid_json"},
		{"truncated before the list", Chat, `{"messages":`, "invalid_json"},
		{"text after the object", Chat, `{"messages":[{"role":"user","content":"a"}]} x`, "invalid_json"},
		{"byte order mark", Chat, "\ufeff" + `{"messages":[{"role":"user","content":"a"}]}`, "invalid_json"},
		{"control character", Chat, "{\"messages\":[{\"role\":\"user\",\"content\":\"a\nb\"}]}", "invalid_json"},
		{"deep member", Chat, `{"messages":[{"role":"user","content":"a"}],"x":` + deep + `}`, "depth"},
		{"deep value in an item", Chat, `{"messages":[{"role":"user","content":` + deep + `}]}`, "depth"},
		{"deep value that is never closed", Messages, strings.Repeat("[", 1<<20), "depth"},
		{"body is an array", Chat, `[{"messages":[]}]`, "no_list"},
		{"body is a string", Chat, `"messages"`, "no_list"},
		{"no list", Chat, `{"model":"m","input":"a"}`, "no_list"},
		{"no dialect", NoDialect, `{"messages":[{"role":"user","content":"a"}]}`, "no_list"},
		{"list is null", Chat, `{"messages":null}`, "list_type"},
		{"list is a string", Chat, `{"messages":"a"}`, "list_type"},
		{"list is a string in the Messages API", Messages, `{"messages":"a"}`, "list_type"},
		{"list is an object", Chat, `{"messages":{"role":"user"}}`, "list_type"},
		{"list with a string", Chat, `{"messages":[{"role":"user","content":"a"},"b"]}`, "list_type"},
		{"list with null", Responses, `{"input":[null]}`, "list_type"},
		{"empty list", Chat, `{"messages":[]}`, "list_type"},
		{"list is a number", Responses, `{"input":12}`, "list_type"},
		{"list twice", Chat, `{"messages":[{"role":"user","content":"a"}],"messages":[{"role":"user","content":"b"}]}`, "duplicate_key"},
		{"list twice, one key escaped", Chat, `{"messages":[{"role":"user","content":"a"}],"mess\u0061ges":[]}`, "duplicate_key"},
		{"list twice, one key capitalised", Chat, `{"messages":[{"role":"user","content":"a"}],"Messages":[]}`, "duplicate_key"},
		{"model twice", Chat, `{"model":"a","messages":[{"role":"user","content":"a"}],"model":"b"}`, "duplicate_key"},
		{"model twice among many keys", Chat, `{` + keys + `"MODEL":"a","messages":[{"role":"user","content":"a"}],"mod\u0065l":"b"}`, "duplicate_key"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			_, err := Parse(tc.dialect, []byte(tc.body))
			var u *Uninspected
			if !errors.As(err, &u) || string(u.Reason) != tc.want {
				t.Errorf("Parse: error %v, want an Uninspected error with reason %s", err, tc.want)
			}
		})
	}
}

func TestParseReadsTopLevelMembers(t *testing.T) {
	r := mustParse(t, Responses, `{"model":"m\u0031","stream" : true,"generate":false,"input":"hi","prompt_cache_key":"k",
		"metadata":{"session_id":"s","user_id":"{\"device_id\":\"d\",\"session_id\":\"u\"}"},"previous_response_id":"resp_1",
		"conversation":{"id":"conv_1"},"tools":[{"type":"web_search"},{"type":"function","name":"b"},
		{"type":"namespace","name":"ns","tools":[{"type":"function","name":"a"}]},{"type":"custom","name":"patch"},7]}`)
	if r.Model != "m1" || !r.NoGeneration || !r.Delta {
		t.Errorf("Model = %q, NoGeneration = %v, Delta = %v, want Model = m1, and NoGeneration and Delta true", r.Model, r.NoGeneration, r.Delta)
	}
	if want := (Hints{"s", "u", "k", "resp_1", "conv_1"}); r.Hints != want {
		t.Errorf("Hints = %+v, want %+v", r.Hints, want)
	}
	if want := []string{"a", "b", "patch", "web_search"}; !reflect.DeepEqual(r.Tools, want) {
		t.Errorf("Tools = %q, want %q", r.Tools, want)
	}
}

// For some models, Codex sends the tools in a list item.
func TestParseReadsToolsInList(t *testing.T) {
	for body, want := range map[string][]string{
		`{"input":[{"type":"additional_tools","role":"developer","tools":[{"type":"function","name":"b"},{"type":"custom","name":"a"}]},{"role":"user","content":"x"}]}`:               {"a", "b"},
		`{"tools":[{"name":"a"},{"name":"c"}],"input":[{"tools":[{"type":"function","name":"b"},{"type":"namespace","name":"ns","tools":[{"name":"a"}]}],"type":"additional_tools"}]}`: {"a", "b", "c"},
		`{"input":[{"type":"additional_tools","tools":[{"name":"a"}]},{"type":"additional_tools","tools":[{"name":"a"}]}],"tools":[{"name":"z"}]}`:                                     {"a", "z"},
		`{"input":[{"type":"mcp_list_tools","tools":[{"name":"far"}]},{"role":"user","tools":[{"name":"odd"}],"content":"x"},{"type":"additional_tools","tools":7}]}`:                  {},
	} {
		if r := mustParse(t, Responses, body); !reflect.DeepEqual(r.Tools, want) {
			t.Errorf("%s: got tools %q, want %q", body, r.Tools, want)
		}
	}
	if r := mustParse(t, Chat, `{"messages":[{"type":"additional_tools","tools":[{"name":"a"}]},{"role":"user","content":"x"}]}`); len(r.Tools) > 0 {
		t.Errorf("chat item: got tools %q, want none", r.Tools)
	}
	_, err := NewParseCache().Parse(7, Responses, []byte(`{"input":[{"type":"additional_tools","tools":[`+strings.Repeat(`{"name":"a"},`, 50)+`{"name":"b"}]}]}`), 20)
	if u := (*Uninspected)(nil); !errors.As(err, &u) || u.Reason != label.UninspectedItems {
		t.Errorf("Parse(51 tools, limit 20) error = %v, want an Uninspected error with reason %s", err, label.UninspectedItems)
	}
}

func TestParseDetectsCompaction(t *testing.T) {
	for _, tc := range []struct {
		name    string
		dialect Dialect
		body    string
		want    bool
	}{
		{"trigger is the last item", Responses, `{"input":[{"role":"user","content":"a"},{"type":"compaction_trigger"}]}`, true},
		{"only the trigger, after a previous response", Responses, `{"previous_response_id":"r","input":[{"type":"compaction_trigger"}]}`, true},
		{"trigger is not the last item", Responses, `{"input":[{"type":"compaction_trigger"},{"role":"user","content":"a"}]}`, false},
		{"compacted history", Responses, `{"input":[{"role":"user","content":"a"},{"type":"compaction","id":"c"}]}`, false},
		{"empty list", Responses, `{"input":[]}`, false},
		{"string input", Responses, `{"input":"compaction_trigger"}`, false},
		{"another dialect", Chat, `{"messages":[{"type":"compaction_trigger"}]}`, false},
	} {
		if got := mustParse(t, tc.dialect, tc.body).RequestsCompaction; got != tc.want {
			t.Errorf("%s: got RequestsCompaction = %v, want %v", tc.name, got, tc.want)
		}
	}
}

func TestParseIgnoresMistypedMembers(t *testing.T) {
	r := mustParse(t, Chat, `{"model":7,"stream":"true","generate":0,"metadata":[],"tools":{"a":1},"previous_response_id":"x",
		"prompt_cache_key":null,"conversation":3,"system":5,"functions":[{"name":"old"}],"messages":[{"role":"user","content":"a"}]}`)
	if r.Model != "" || r.NoGeneration || r.Delta || r.Hints != (Hints{PreviousID: "x"}) {
		t.Errorf("Parse = %+v, want empty Model, NoGeneration = false, Delta = false, Hints = %+v", r, (Hints{PreviousID: "x"}))
	}
	if !reflect.DeepEqual(r.Tools, []string{"old"}) {
		t.Errorf("Tools = %q, want old", r.Tools)
	}
}

func TestUserSession(t *testing.T) {
	for id, want := range map[string]string{
		`{"session_id":"abc"}`:                   "abc",
		`{"session_id":7}`:                       "",
		`{"session_id":"abc"`:                    "",
		`user_0a_account_1b_session_2c-3d`:       "2c-3d",
		`someone`:                                "",
		``:                                       "",
		`{` + strings.Repeat(`"a":{`, 1000):      "",
		`{"device":"d","session_id":"x\u002dy"}`: "x-y",
		`[{"session_id":"abc"}]`:                 "",
		`user_session_`:                          "",
		`{"session_id":"1","session_id":"two"}`:  "two",
	} {
		if got := userSession(id); got != want {
			t.Errorf("userSession(%q) = %q, want %q", id, got, want)
		}
	}
}

func TestToolNamesAreSameInAllDialects(t *testing.T) {
	chat := mustParse(t, Chat, `{"messages":[{"role":"user","content":"a"}],"tools":[{"type":"function","function":{"description":"d","name":"z"}},
		{"type":"custom","custom":{"name":"c"}},{"type":"function","function":{"name":"b"}}]}`)
	messages := mustParse(t, Messages, `{"messages":[{"role":"user","content":"a"}],"tools":[{"name":"b","input_schema":{"name":"no"}},
		{"name":"z"},{"name":"c","type":"x_20250101"}]}`)
	if want := []string{"b", "c", "z"}; !reflect.DeepEqual(chat.Tools, want) || !reflect.DeepEqual(messages.Tools, want) {
		t.Errorf("Tools = %q in chat and %q in messages, want %q for both", chat.Tools, messages.Tools, want)
	}
	if chat.ToolsHash != messages.ToolsHash {
		t.Errorf("same tool names: got ToolsHash %x and %x, want the same hash", chat.ToolsHash, messages.ToolsHash)
	}
	if none := mustParse(t, Chat, `{"messages":[{"role":"user","content":"a"}],"tools":[]}`); len(none.Tools) != 0 || none.ToolsHash == chat.ToolsHash {
		t.Errorf("empty tool list: got tools %q, ToolsHash %x, want no tools and a different hash", none.Tools, none.ToolsHash)
	}
}

func TestListHashCoversOnlyTheList(t *testing.T) {
	a := mustParse(t, Chat, `{"messages":[{"role":"user","content":"a"}],"x":1}`)
	b := mustParse(t, Chat, `{"y":[2],"messages":[{"role":"user","content":"a"}]}`)
	c := mustParse(t, Chat, `{"messages":[{"role":"user","content":"b"}],"x":1}`)
	if a.ListHash != b.ListHash || a.ListHash == c.ListHash {
		t.Errorf("ListHash = %x, %x and %x, want the first two equal and the third different", a.ListHash, b.ListHash, c.ListHash)
	}
	// Stored sessions contain this hash.
	if a.ListHash != 0x73b892c991e6ffbe {
		t.Errorf("ListHash = %#x, want 0x73b892c991e6ffbe, as in earlier releases", a.ListHash)
	}
}

func TestRawReturnsItemBytes(t *testing.T) {
	r := mustParse(t, Chat, `{"messages":[ {"role":"user","content":"a"} , { "role":"assistant" } ]}`)
	if string(r.Raw(0)) != `{"role":"user","content":"a"}` || string(r.Raw(1)) != `{ "role":"assistant" }` {
		t.Errorf("Raw = %s and %s, want the body's items without surrounding white space", r.Raw(0), r.Raw(1))
	}
	if s := mustParse(t, Responses, `{"input": "a\"b" }`); s.Len() != 1 || string(s.Raw(0)) != `"a\"b"` || s.Role(0) != RoleUser {
		t.Errorf("string input: got %d items, first %s with role %v, want one user item with the string", s.Len(), s.Raw(0), s.Role(0))
	}
	if e := mustParse(t, Responses, `{"input":[]}`); e.Len() != 0 || e.FirstNew() != 0 || e.LastUser() != -1 {
		t.Errorf("empty input: got %d items, FirstNew = %d, LastUser = %d, want 0, 0, -1", e.Len(), e.FirstNew(), e.LastUser())
	}
}

// assertMethodsDoNotPanic calls the methods of Request, and checks that Find finds each item's anchor.
func assertMethodsDoNotPanic(t *testing.T, r *Request) {
	t.Helper()
	_, _, _ = r.NewUserTexts(), r.NewResults(), r.LastUser()
	for i := range r.Len() {
		if !json.Valid(r.Raw(i)) {
			t.Fatalf("Raw(%d) = %q, want valid JSON", i, r.Raw(i))
		}
		it := r.Item(i)
		_ = r.EchoKeys(i)
		if a := r.AnchorAt(i, ""); it.HasText {
			if j, block, ok := r.Find(a); !ok || j != i || block != -1 {
				t.Fatalf("item %d: Find(anchor) = item %d, block %d, %v, want item %[1]d, block -1, true", i, j, block, ok)
			}
		}
		for _, res := range it.Results {
			_, _ = r.FindCall(res.CallID)
			if _, _, ok := r.Find(r.AnchorAt(i, res.CallID)); !ok && r.acceptsText(i, res) && res.CallID != "" {
				t.Fatalf("result %q in item %d: Find(anchor) = false, want true", res.CallID, i)
			}
		}
	}
}

func FuzzParse(f *testing.F) {
	for _, s := range seeds() {
		f.Add(uint8(s.dialect), []byte(s.body))
	}
	f.Add(uint8(Chat), []byte(`{"messages":[{"role":"user","content":"\ud800`+"\xff"+`"}],"n":1E400}`))
	f.Fuzz(func(t *testing.T, d uint8, body []byte) {
		r, err := Parse(Dialect(d%4), body)
		var u *Uninspected
		if err != nil && !errors.As(err, &u) {
			t.Fatalf("Parse: error %v, want an Uninspected error", err)
		}
		switch ok := json.Valid(body); {
		case err == nil && !ok:
			t.Fatalf("Parse(%q) = nil error, want an error, as encoding/json returns one", body)
		case err != nil && ok && u.Reason == label.UninspectedInvalid:
			t.Fatalf("Parse(%q) = %v, want no error, because encoding/json accepts the body", body, err)
		case err == nil:
			assertMethodsDoNotPanic(t, r)
		}
	})
}

func TestRequiresJSONAndRequiresToolInEachDialect(t *testing.T) {
	for _, tc := range []struct {
		d                          Dialect
		members                    string
		requiresJSON, requiresTool bool
	}{
		{Chat, `"x":1`, false, false},
		{Chat, `"response_format":{"type":"text"},"tool_choice":"auto"`, false, false},
		{Chat, `"response_format":{"type":"json_object"},"tool_choice":"required"`, true, true},
		{Chat, `"tool_choice":{"type":"function","function":{"name":"f"}},"response_format":{"json_schema":{},"type":"json_schema"}`, true, true},
		{Chat, `"response_format":"json","tool_choice":"none"`, false, false},
		{Chat, `"response_format":null,"tool_choice":{"type":"allowed_tools","allowed_tools":{}}`, false, false},
		{Responses, `"text":{"format":{"type":"json_schema","schema":{"type":"object"}},"verbosity":"low"},"tool_choice":{"type":"function","name":"f"}`, true, true},
		{Responses, `"text":{"format":{"type":"text"}}`, false, false},
		{Messages, `"output_format":{"type":"json_schema"},"tool_choice":{"type":"any"}`, true, true},
		{Messages, `"output_config":{"effort":"low","format":{"type":"json_schema"}},"tool_choice":{"type":"auto"}`, true, false},
	} {
		list := map[bool]string{true: `"input":"a"`, false: `"messages":[{"role":"user","content":"a"}]`}[tc.d == Responses]
		for _, body := range []string{"{" + tc.members + "," + list + "}", "{" + list + "," + tc.members + "}"} {
			r := mustParse(t, tc.d, body)
			if r.RequiresJSON() != tc.requiresJSON || r.RequiresTool() != tc.requiresTool {
				t.Errorf("%s: got RequiresJSON = %v, RequiresTool = %v, want %v, %v", body, r.RequiresJSON(), r.RequiresTool(), tc.requiresJSON, tc.requiresTool)
			}
		}
	}
}
