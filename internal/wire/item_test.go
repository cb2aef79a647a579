package wire

import (
	"fmt"
	"reflect"
	"testing"
)

func TestItemsAreReadInEachDialect(t *testing.T) {
	for _, tc := range []struct {
		name    string
		dialect Dialect
		item    string
		want    Item
	}{
		{"chat system", Chat, `{"role":"developer","content":[{"type":"text","text":"a"},{"type":"text","text":"b"}]}`, Item{Role: RoleSystem, Text: "a\nb"}},
		{"chat user", Chat, `{"role":"user","content":"\"go\""}`, Item{Role: RoleUser, Text: `"go"`, UserText: "go", HasText: true}},
		{
			"chat user in parts", Chat, `{"role":"user","content":[{"type":"text","text":"<system-reminder>r</system-reminder>"},{"type":"text","text":"go"},{"type":"image_url"},{"type":"text","text":"on"}]}`,
			Item{Role: RoleUser, Text: "<system-reminder>r</system-reminder>\ngo\non", UserText: "go\non", HasText: true},
		},
		{"chat user with only an image", Chat, `{"role":"user","content":[{"type":"image_url"}]}`, Item{Role: RoleUser}},
		{"chat user with null content", Chat, `{"role":"user","content":null}`, Item{Role: RoleUser}},
		{
			"chat assistant", Chat, `{"role":"assistant","content":"I\u0020will","refusal":null,"tool_calls":[{"id":"call_1","type":"function","function":{"name":"sh","arguments":"{\"a\":\"\\n\"}"}},{"id":"call_2","type":"custom","custom":{"name":"p","input":"x"}}]}`,
			Item{Role: RoleAssistant, Text: "I will", Calls: []Call{{"call_1", "sh", `{"a":"\n"}`}, {"call_2", "p", "x"}}},
		},
		{"chat legacy call", Chat, `{"role":"assistant","content":null,"function_call":{"name":"f","arguments":"{}"}}`, Item{Role: RoleAssistant, Calls: []Call{{"f", "f", "{}"}}}},
		{"chat legacy result", Chat, `{"role":"function","name":"f","content":"out"}`, Item{Role: RoleTool, Results: []Result{{CallID: "f", Text: "out"}}}},
		{"chat malformed calls", Chat, `{"role":"assistant","tool_calls":[3,{}]}`, Item{Role: RoleAssistant, Calls: []Call{{ID: "~2"}, {ID: "~3"}}}},
		{"chat tool", Chat, `{"role":"tool","tool_call_id":"call_1","content":"out","__copilotMessageSource":"x"}`, Item{Role: RoleTool, Results: []Result{{CallID: "call_1", Text: "out"}}}},
		{"chat tool in parts", Chat, `{"role":"tool","tool_call_id":"call_1","content":[{"type":"text","text":"a"},{"type":"text","text":"b"}]}`, Item{Role: RoleTool, Results: []Result{{CallID: "call_1", Text: "a\nb"}}}},
		{"chat with an unknown role", Chat, `{"role":"robot","content":"x"}`, Item{Text: "x"}},
		{"chat without a role", Chat, `{}`, Item{}},
		{"responses message without type", Responses, `{"role":"user","content":"go"}`, Item{Role: RoleUser, Text: "go", UserText: "go", HasText: true}},
		{
			"responses environment", Responses, `{"type":"message","id":"msg_1","role":"user","content":[{"type":"input_text","text":"<environment_context>x</environment_context>"}]}`,
			Item{Kind: "message", Role: RoleUser, ID: "msg_1", Text: "<environment_context>x</environment_context>", HasText: true},
		},
		{"responses assistant", Responses, `{"type":"message","id":"msg_2","role":"assistant","content":[{"type":"output_text","text":"a"}]}`, Item{Kind: "message", Role: RoleAssistant, ID: "msg_2", Text: "a"}},
		{"responses call", Responses, `{"type":"function_call","id":"fc_1","call_id":"call_1","name":"exec","arguments":"{\"cmd\":\"ls\"}"}`, Item{Kind: "function_call", Role: RoleAssistant, ID: "fc_1", Calls: []Call{{"call_1", "exec", `{"cmd":"ls"}`}}}},
		{"responses custom call", Responses, `{"type":"custom_tool_call","call_id":"call_2","name":"apply_patch","input":"*** Begin"}`, Item{Kind: "custom_tool_call", Role: RoleAssistant, Calls: []Call{{"call_2", "apply_patch", "*** Begin"}}}},
		{"responses local shell", Responses, `{"type":"local_shell_call","id":"ls_1","action":{"command":["ls"]}}`, Item{Kind: "local_shell_call", Role: RoleAssistant, ID: "ls_1", Calls: []Call{{"ls_1", "local_shell", `{"command":["ls"]}`}}}},
		{"responses shell", Responses, `{"type":"shell_call","call_id":"c","action":{}}`, Item{Kind: "shell_call", Role: RoleAssistant, Calls: []Call{{"c", "shell", `{}`}}}},
		{"responses patch", Responses, `{"type":"apply_patch_call","call_id":"c","operation":{"a":1}}`, Item{Kind: "apply_patch_call", Role: RoleAssistant, Calls: []Call{{"c", "apply_patch", `{"a":1}`}}}},
		{"responses search", Responses, `{"type":"web_search_call","id":"ws_1","action":{}}`, Item{Kind: "web_search_call", Role: RoleAssistant, ID: "ws_1"}},
		{"responses reasoning", Responses, `{"type":"reasoning","id":"rs_1","summary":[]}`, Item{Kind: "reasoning", Role: RoleAssistant, ID: "rs_1"}},
		{"responses compaction", Responses, `{"type":"compaction","id":"cmp_1","encrypted_content":"x"}`, Item{Kind: "compaction", Role: RoleAssistant, ID: "cmp_1"}},
		{"responses reference", Responses, `{"type":"item_reference","id":"msg_1"}`, Item{Kind: "item_reference", Role: RoleAssistant, ID: "msg_1", IsReference: true}},
		{"responses output", Responses, `{"type":"function_call_output","id":"fco_1","call_id":"call_1","output":"out"}`, Item{Kind: "function_call_output", Role: RoleTool, ID: "fco_1", Results: []Result{{CallID: "call_1", Text: "out"}}}},
		{"responses output in parts", Responses, `{"type":"custom_tool_call_output","call_id":"call_1","output":[{"type":"input_text","text":"a"},{"type":"input_image"}]}`, Item{Kind: "custom_tool_call_output", Role: RoleTool, Results: []Result{{CallID: "call_1", Text: "a"}}}},
		{"responses null output", Responses, `{"type":"function_call_output","call_id":"call_1","output":null}`, Item{Kind: "function_call_output", Role: RoleTool, Results: []Result{{CallID: "call_1"}}}},
		{"responses shell output", Responses, `{"type":"shell_call_output","call_id":"c","output":[{"stdout":"x"}]}`, Item{Kind: "shell_call_output", Role: RoleTool, Results: []Result{{CallID: "c", Text: "x"}}}},
		{
			"responses shell output with exit codes", Responses, `{"type":"shell_call_output","call_id":"c","output":[{"stdout":"","stderr":"no rule","outcome":{"type":"exit","exit_code":2}},{"stdout":"y","stderr":"","outcome":{"type":"timeout"}}]}`,
			Item{Kind: "shell_call_output", Role: RoleTool, Results: []Result{{CallID: "c", Text: "no rule\nExit code: 2\ny\nCommand timed out"}}},
		},
		{"responses shell without outputs", Responses, `{"type":"shell_call_output","call_id":"c","output":[]}`, Item{Kind: "shell_call_output", Role: RoleTool, Results: []Result{{CallID: "c"}}}},
		{"responses local shell output", Responses, `{"type":"local_shell_call_output","id":"ls_1","output":"x"}`, Item{Kind: "local_shell_call_output", Role: RoleTool, ID: "ls_1", Results: []Result{{CallID: "ls_1", Text: "x"}}}},
		{"responses patch output", Responses, `{"type":"apply_patch_call_output","call_id":"c","status":"failed","output":"no context"}`, Item{Kind: "apply_patch_call_output", Role: RoleTool, Results: []Result{{CallID: "c", Text: "no context", IsError: 1}}}},
		{"responses patch without output", Responses, `{"type":"apply_patch_call_output","call_id":"c","status":"completed"}`, Item{Kind: "apply_patch_call_output", Role: RoleTool, Results: []Result{{CallID: "c", IsError: -1}}}},
		{"responses screenshot", Responses, `{"type":"computer_call_output","call_id":"c","output":{"type":"computer_screenshot"}}`, Item{Kind: "computer_call_output", Role: RoleTool, Results: []Result{{CallID: "c", Text: `{"type":"computer_screenshot"}`}}}},
		{"responses unknown", Responses, `{"type":"mystery","id":"m_1","role":"user","content":"x"}`, Item{Kind: "mystery", ID: "m_1"}},
		{"messages user", Messages, `{"role":"user","content":"go"}`, Item{Role: RoleUser, Text: "go", UserText: "go", HasText: true}},
		{
			"messages results", Messages, `{"role":"user","content":[{"type":"tool_result","tool_use_id":"a","is_error":true,"content":"x"},{"tool_use_id":"b","type":"tool_result","content":[{"type":"text","text":"y"},{"type":"image"},{"type":"text","text":"z"}],"is_error":false},{"type":"tool_result","tool_use_id":"c"}]}`,
			Item{Role: RoleTool, Results: []Result{{CallID: "a", Text: "x", IsError: 1}, {CallID: "b", Text: "y\nz", IsError: -1, Block: 1}, {CallID: "c", Block: 2}}},
		},
		{
			"messages results and text", Messages, `{"role":"user","content":[{"type":"tool_result","tool_use_id":"a","content":"x"},{"type":"text","text":"go on"}]}`,
			Item{Role: RoleUser, Text: "go on", UserText: "go on", HasText: true, Results: []Result{{CallID: "a", Text: "x"}}},
		},
		{
			"messages assistant", Messages, `{"role":"assistant","content":[{"type":"thinking","thinking":"t"},{"type":"text","text":"I will"},{"type":"tool_use","id":"toolu_1","name":"Bash","input":{ "command" : "ls" }}]}`,
			Item{Role: RoleAssistant, Text: "I will", Calls: []Call{{"toolu_1", "Bash", `{ "command" : "ls" }`}}},
		},
		{
			"messages call answered by the provider", Messages, `{"role":"assistant","content":[{"type":"server_tool_use","id":"srv_1","name":"web_search","input":{}},{"type":"web_search_tool_result","tool_use_id":"srv_1","content":[]},{"type":"text","text":"so"}]}`,
			Item{Role: RoleAssistant, Text: "so", ProviderIDs: []string{"srv_1"}},
		},
		{"messages system in the list", Messages, `{"role":"system","content":"agents"}`, Item{Role: RoleSystem, Text: "agents"}},
		{"messages result from an assistant", Messages, `{"role":"assistant","content":[{"type":"tool_result","tool_use_id":"a"}]}`, Item{Role: RoleAssistant}},
		{"messages with duplicate content", Messages, `{"role":"user","content":[{"type":"tool_result","tool_use_id":"a"}],"content":"b"}`, Item{Role: RoleUser, Text: "b", UserText: "b", HasText: true}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			r := mustParse(t, tc.dialect, `{"`+tc.dialect.listKey()+`":[{"role":"user","content":"first"},`+tc.item+`]}`)
			tc.want.Index = 1
			got := *r.Item(1)
			for i := range got.Results {
				got.Results[i].MediaHash = 0 // see TestMediaHashDistinguishesResults
			}
			if !reflect.DeepEqual(got, tc.want) {
				t.Errorf("Item(1):\n got %+v\nwant %+v", got, tc.want)
			}
			if r.Role(1) != tc.want.Role {
				t.Errorf("Role(1) = %d, want %d", r.Role(1), tc.want.Role)
			}
			if first, second := r.Item(1), r.Item(1); first != second {
				t.Errorf("two calls of Item = %p, %p, want the same pointer", first, second)
			}
		})
	}
}

func TestMediaHashDistinguishesResults(t *testing.T) {
	for _, tc := range []struct {
		dialect Dialect
		item    string
	}{
		{Chat, `{"role":"tool","tool_call_id":"a","content":[{"type":"text","text":"shown"}%s]}`},
		{Responses, `{"type":"function_call_output","call_id":"a","output":[{"type":"input_text","text":"shown"}%s]}`},
		{Messages, `{"role":"user","content":[{"type":"tool_result","tool_use_id":"a","content":[{"type":"text","text":"shown"}%s]}]}`},
	} {
		seen := map[uint64]bool{}
		for _, more := range []string{"", `,{"type":"image","data":"AA"}`, `,{"type":"image","data":"AB"}`} {
			r := mustParse(t, tc.dialect, `{"`+tc.dialect.listKey()+`":[`+fmt.Sprintf(tc.item, more)+`]}`)
			sum := r.Item(0).Results[0].MediaHash
			if (sum == 0) != (more == "") || seen[sum] {
				t.Errorf("%s with %q: got MediaHash %x, want a different hash for each image, 0 for none", tc.dialect, more, sum)
			}
			seen[sum] = true
		}
	}
}

func TestStringInputIsUserItem(t *testing.T) {
	r := mustParse(t, Responses, `{"input":"<system-reminder>x</system-reminder>go"}`)
	want := Item{Role: RoleUser, Text: "<system-reminder>x</system-reminder>go", UserText: "go", HasText: true}
	if got := *r.Item(0); !reflect.DeepEqual(got, want) || r.LastUser() != 0 || r.FirstNew() != 0 {
		t.Errorf("Item(0) = %+v, LastUser = %d, FirstNew = %d, want %+v, 0, 0", got, r.LastUser(), r.FirstNew(), want)
	}
}

func TestFirstNewAndLastUser(t *testing.T) {
	for _, tc := range []struct {
		name               string
		dialect            Dialect
		list               string
		firstNew, lastUser int
		userTexts          []string
		results            []string // call ids
	}{
		{"first turn", Chat, `{"role":"system","content":"s"},{"role":"user","content":"a"}`, 0, 1, []string{"a"}, nil},
		{"tool results", Chat, `{"role":"user","content":"a"},{"role":"assistant","tool_calls":[{"id":"x"},{"id":"y"}]},{"role":"tool","tool_call_id":"x","content":"1"},{"role":"tool","tool_call_id":"y","content":"2"}`, 2, -1, nil, []string{"x", "y"}},
		{"tool result and text", Chat, `{"role":"assistant"},{"role":"tool","tool_call_id":"x","content":"1"},{"role":"user","content":"stop"},{"role":"user","content":"<system-reminder>r</system-reminder>"}`, 1, 2, []string{"stop"}, []string{"x"}},
		{"two user messages", Chat, `{"role":"assistant","content":"a"},{"role":"user","content":"b"},{"role":"user","content":"c"}`, 1, 2, []string{"b", "c"}, nil},
		{"prefilled reply", Chat, `{"role":"assistant","content":"x"},{"role":"user","content":"a"},{"role":"assistant","content":"b"}`, 1, 1, []string{"a"}, nil},
		{"ends with the model's call", Chat, `{"role":"user","content":"a"},{"role":"assistant","content":"b","tool_calls":[{"id":"x"}]}`, 2, -1, nil, nil},
		{"user message with only an image", Chat, `{"role":"user","content":[{"type":"image_url"}]}`, 0, -1, nil, nil},
		{"tool result after a call", Responses, `{"role":"user","content":"a"},{"type":"function_call","call_id":"x"},{"type":"function_call_output","call_id":"x","output":"1"}`, 2, -1, nil, []string{"x"}},
		{"reply as an item reference", Responses, `{"role":"user","content":"a"},{"type":"item_reference","id":"msg_1"},{"role":"user","content":"b"}`, 2, 2, []string{"b"}, nil},
		{"reply with reasoning", Responses, `{"role":"user","content":"a"},{"type":"reasoning","id":"rs"},{"role":"user","content":"b"}`, 2, 2, []string{"b"}, nil},
		{"compacted history", Responses, `{"role":"user","content":"a"},{"type":"compaction","id":"cmp"},{"role":"user","content":"b"}`, 2, 2, []string{"b"}, nil},
		{"first codex turn", Responses, `{"role":"developer","content":"d"},{"role":"user","content":"<environment_context>e</environment_context>"},{"role":"user","content":"go"}`, 0, 2, []string{"go"}, nil},
		{"result and text in one message", Messages, `{"role":"user","content":"a"},{"role":"assistant","content":"b"},{"role":"user","content":[{"type":"tool_result","tool_use_id":"x"},{"type":"text","text":"and"}]}`, 2, 2, []string{"and"}, []string{"x"}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			r := mustParse(t, tc.dialect, `{"`+tc.dialect.listKey()+`":[`+tc.list+`]}`)
			var ids []string
			for _, res := range r.NewResults() {
				ids = append(ids, res.Result.CallID)
			}
			if r.FirstNew() != tc.firstNew || r.LastUser() != tc.lastUser || !reflect.DeepEqual(r.NewUserTexts(), tc.userTexts) || !reflect.DeepEqual(ids, tc.results) {
				t.Errorf("FirstNew = %d, LastUser = %d, user texts %q, results %q, want FirstNew = %d, LastUser = %d, user texts %q, results %q", r.FirstNew(), r.LastUser(), r.NewUserTexts(), ids, tc.firstNew, tc.lastUser, tc.userTexts, tc.results)
			}
		})
	}
	delta := mustParse(t, Responses, `{"previous_response_id":"r","input":[{"type":"item_reference","id":"m"},{"type":"function_call_output","call_id":"x","output":"1"}]}`)
	if delta.FirstNew() != 0 || len(delta.NewResults()) != 1 || delta.NewResults()[0].Item != 1 {
		t.Errorf("delta request: got FirstNew = %d, results %+v, want FirstNew = 0 and the result in item 1", delta.FirstNew(), delta.NewResults())
	}
}

func TestFindCallReturnsNewestCall(t *testing.T) {
	r := mustParse(t, Chat, `{"messages":[{"role":"assistant","tool_calls":[{"id":"a","function":{"name":"first"}},{"id":"b\/c","function":{"name":"slash"}}]},
		{"role":"assistant","content":"a","tool_calls":[{"id":"a","function":{"name":"second"}}]},{"role":"assistant","tool_calls":[{"id":"\u0064","function":{"name":"escaped"}}]},
		{"role":"tool","tool_call_id":"e","content":"x"}]}`)
	for id, want := range map[string]string{"a": "second", "b/c": "slash", "d": "escaped", "e": "", "": "", "z": ""} {
		if c, ok := r.FindCall(id); c.Name != want || ok != (want != "") {
			t.Errorf("FindCall(%q) = %+v, %v, want the call to %q", id, c, ok, want)
		}
	}
}
