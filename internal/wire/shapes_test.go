package wire_test

import (
	"fmt"
	"strings"
	"testing"

	"precept/internal/wire"
)

// describeItems formats each item as
//   - the first letter of the role (other, system, user, assistant, tool), and "+" if precept can insert text
//   - the text, the calls and the results
//   - "@" with the id of each call that the provider answered
//
// Each result is followed by "!" if precept cannot insert text there, by IsError unless it is 0, and by "*" if the
// result has images or files.
func describeItems(r *wire.Request) string {
	var out []string
	for i := range r.Len() {
		it := r.Item(i)
		s := string("osuat"[it.Role])
		if it.HasText && it.Role == wire.RoleUser {
			s += "+"
		}
		if it.Text != "" {
			s += fmt.Sprintf("%q", it.Text)
		}
		for _, c := range it.Calls {
			s += fmt.Sprintf(" %s(%s)%s", c.Name, c.Args, c.ID)
		}
		for _, res := range it.Results {
			s += fmt.Sprintf(" %s=%q", res.CallID, res.Text)
			if !acceptsText(r, i, res) {
				s += "!"
			}
			if res.IsError != 0 {
				s += fmt.Sprint(res.IsError)
			}
			if res.MediaHash != 0 {
				s += "*"
			}
		}
		for _, id := range it.ProviderIDs {
			s += " @" + id
		}
		out = append(out, s)
	}
	return strings.Join(out, " | ")
}

func TestParseUnusualBodies(t *testing.T) {
	for _, tc := range []struct {
		dialect wire.Dialect
		items   string
		want    string
	}{
		{wire.Chat, `[{"role":"developer","content":"d"},{"role":"user","content":"u"}]`, `s"d" | u+"u"`},
		{wire.Chat, `[{"role":"user","content":null},{"role":"user"},{"role":"user","content":[]},{"role":"user","content":7},{"role":"user","content":{"text":"x"}}]`, `u | u | u | u | u`},
		{wire.Chat, `[{"content":[{"type":"text","text":"a"},{"type":"input_audio","input_audio":{"data":"AA==","format":"wav"}},{"type":"file","file":{"file_id":"f"}},{"text":"b","type":"text"}],"role":"user"}]`, `u+"a\nb"`},
		{wire.Chat, `[{"role":"user","content":[{"type":"text"},{"type":"text","text":null},{"type":"text","text":7},{"text":"x"},"y",null,7]}]`, `u`},
		{wire.Chat, `[{"role":"user","content":"\ud83d\ude00\ud800\u0000\/\b"}]`, `u+"😀�\x00/\b"`},
		{wire.Chat, `[{"\u0072ole":"\u0075ser","c\u006fntent":"x"}]`, `u+"x"`},
		{wire.Chat, `[{"role":"assistant","role":"user","content":"a","content":"b"}]`, `u+"b"`},
		{wire.Chat, `[{"role":"robot","content":"x"},{"role":"","content":"x"},{"content":"x"},{"role":null},{}]`, `o"x" | o"x" | o"x" | o | o`},
		{wire.Chat, `[{"role":"assistant","content":[{"type":"text","text":"a"},{"type":"refusal","refusal":"no"}]},{"role":"assistant","content":null,"refusal":"never"},{"role":"assistant","content":[{"type":"refusal","refusal":"no"}]}]`, `a"a" | a"never" | a"no"`},
		{wire.Chat, `[{"role":"assistant","audio":{"id":"audio_1"}},{"role":"user","content":"go"}]`, `a @audio_1 | u+"go"`},
		{wire.Chat, `[{"role":"assistant","tool_calls":[{"id":"c","type":"custom","custom":{"name":"p","input":"x"}},{"id":"d","function":null},null]},{"role":"tool","tool_call_id":"c","content":{"a":1}},{"role":"tool","tool_call_id":"d","content":null}]`, `a p(x)c ()d ()~3 | t c=""! | t d=""`},
		{wire.Chat, `[{"role":"assistant","tool_calls":null,"function_call":{"name":"f","arguments":"{}"}},{"role":"function","name":"f","content":"x"}]`, `a f({})f | t f="x"`},
		{wire.Chat, `[{"role":"tool","tool_call_id":"c","content":[{"type":"text","text":"a"},{"type":"image_url","image_url":{"url":"x"}},{"type":"text","text":"b"}]}]`, `t c="a\nb"*`},
		{wire.Responses, `"go"`, `u+"go"`},
		{wire.Responses, `[]`, ``},
		{wire.Responses, `[{"role":"user","content":[{"type":"input_text","text":"a"},{"type":"input_file","file_id":"f"},{"type":"input_image","image_url":"x"},{"type":"input_audio","input_audio":{}}]}]`, `u+"a"`},
		{wire.Responses, `[{"type":"item_reference","id":"msg_1"},{"id":"msg_2"},{"type":"reasoning","id":"rs_1","summary":[{"type":"summary_text","text":"x"}]},{"type":"compaction","id":"c"},{"type":"web_search_call","id":"ws"}]`, `a | o | a | a | a`},
		{wire.Responses, `[{"type":"message","role":"assistant","content":[{"type":"output_text","text":"a","annotations":[]},{"type":"refusal","refusal":"b"}]},{"role":"assistant","content":"c"}]`, `a"a" | a"c"`},
		{wire.Responses, `[{"type":"function_call","call_id":"c","name":"f","arguments":""},{"type":"function_call_output","call_id":"c","output":""},{"type":"function_call_output","call_id":"d","output":null},{"type":"function_call_output","call_id":"e"},{"type":"function_call_output","call_id":"f","output":{"a":1}}]`, `a f()c | t c="" | t d="" | t e=""! | t f="{\"a\":1}"!`},
		{wire.Responses, `[{"type":"custom_tool_call","call_id":"c","name":"p","input":"x"},{"type":"custom_tool_call_output","call_id":"c","output":[{"type":"input_text","text":"a"},{"type":"input_file","file_id":"f"}]}]`, `a p(x)c | t c="a"*`},
		{wire.Responses, `[{"type":"shell_call","call_id":"c","action":{"commands":["ls"]}},{"type":"shell_call_output","call_id":"c","output":[{"stdout":"a","stderr":"b","outcome":{"type":"exit","exit_code":2}},{"stdout":"","outcome":{"type":"timeout"}}]},{"type":"shell_call_output","call_id":"d","output":[]}]`, `a shell({"commands":["ls"]})c | t c="a\nb\nExit code: 2\nCommand timed out" | t d=""!`},
		{wire.Responses, `[{"type":"apply_patch_call","call_id":"c","operation":{"type":"x"}},{"type":"apply_patch_call_output","call_id":"c","status":"failed","output":"no"},{"type":"apply_patch_call_output","call_id":"d","status":"completed"}]`, `a apply_patch({"type":"x"})c | t c="no"1 | t d=""!-1`},
		{wire.Responses, `[{"type":"local_shell_call","id":"l","action":{"command":["ls"]}},{"type":"local_shell_call_output","id":"l","output":"{}"},{"type":"computer_call_output","call_id":"c","output":{"type":"computer_screenshot"}},{"type":"mcp_call_output","call_id":"m","output":"x"}]`, `a local_shell({"command":["ls"]})l | t l="{}" | t c="{\"type\":\"computer_screenshot\"}"! | t m="x"!`},
		{wire.Messages, `[{"role":"user","content":[{"type":"text","text":"a","citations":null},{"type":"image","source":{}},{"type":"document","source":{}},{"type":"search_result","content":[]}]}]`, `u+"a"`},
		{wire.Messages, `[{"role":"assistant","content":[{"type":"thinking","thinking":"x","signature":"s"},{"type":"redacted_thinking","data":"x"},{"type":"text","text":"a"},{"type":"server_tool_use","id":"srv","name":"web_search","input":{}},{"type":"web_search_tool_result","tool_use_id":"srv","content":[]},{"type":"tool_use","id":"t","name":"f","input":{"a":[1]}}]}]`, `a"a" f({"a":[1]})t @srv`},
		{wire.Messages, `[{"role":"user","content":[{"type":"tool_result","tool_use_id":"a","is_error":true},{"type":"tool_result","tool_use_id":"b","content":[{"type":"image","source":{}}],"is_error":false},{"type":"tool_result","tool_use_id":"c","content":null},{"type":"tool_result","content":"x","is_error":null}]}]`, `t a=""1 b=""-1* c="" ="x"`},
		{wire.Messages, `[{"role":"user","content":[{"type":"text","text":"a"},{"type":"tool_result","tool_use_id":"a","content":"x"}]},{"role":"user","content":[{"type":"tool_result","tool_use_id":"b","content":"x"},{"type":"text","text":"b"}]}]`, `u"a" a="x" | u+"b" b="x"`},
		{wire.Messages, `[{"role":"system","content":"s"},{"role":"assistant","content":[{"type":"tool_result","tool_use_id":"a","content":"x"}]},{"role":"tool","content":"x"}]`, `s"s" | a | t`},
	} {
		key := "messages"
		if tc.dialect == wire.Responses {
			key = "input"
		}
		for _, template := range []string{`{"model":"m",%q:%s}`, "\r\n{%[1]q\t:\n%[2]s ,\"n\":-1.5E+400} \n", `{"tools":[],"x":{"messages":1,"input":[[]]},%q:%s,"prompt":{"id":"pmpt_1","variables":{}}}`} {
			body := fmt.Sprintf(template, key, tc.items)
			r := mustParse(t, tc.dialect, body)
			if got := describeItems(r); got != tc.want {
				t.Errorf("%s:\n got %s\nwant %s", body, got, tc.want)
			}
			if out, err := r.Splice(nil, nil); err != nil || string(out) != body {
				t.Errorf("%s: Splice without edits = %s, error %v, want the body unchanged", body, out, err)
			}
			for i := range r.Len() {
				if r.Hash(i) != mustParse(t, tc.dialect, body).Hash(i) {
					t.Errorf("item %d in %s: hash differs after a second parse, want the same hash", i, body)
				}
			}
		}
	}
}

func TestHashIgnoresFormatAndReminders(t *testing.T) {
	hash := func(d wire.Dialect, item string) uint64 {
		key := map[bool]string{true: "input", false: "messages"}[d == wire.Responses]
		return mustParse(t, d, `{"`+key+`":[`+item+`]}`).Hash(0)
	}
	for _, tc := range []struct {
		dialect wire.Dialect
		a, b    string
		same    bool
	}{
		{wire.Chat, `{"role":"user","content":"a"}`, `{"content":[{"type":"text","text":"a"}],"role":"user","name":"bob"}`, true},
		{wire.Chat, `{"role":"user","content":"a"}`, `{"role":"user","content":"<system-reminder>x</system-reminder>a"}`, true},
		{wire.Chat, `{"role":"user","content":"a"}`, `{"role":"user","content":"Lessons from past experience:\n- x\nEnd of lessons.\n\na"}`, true},
		{wire.Chat, `{"role":"user","content":"a"}`, `{"role":"user","content":"b"}`, false},
		{wire.Chat, `{"role":"user","content":"a"}`, `{"role":"assistant","content":"a"}`, false},
		{wire.Chat, `{"role":"system","content":"a"}`, `{"role":"assistant","content":"a"}`, false},
		{wire.Chat, `{"role":"user","content":[{"type":"image_url","image_url":{"url":"x"}}]}`, `{"role":"user","content":[{"type":"image_url","image_url":{"url":"y"}}]}`, false},
		{wire.Chat, `{"role":"user","content":[{"type":"image_url","image_url":{"url":"x","detail":"low"}}]}`, `{"role":"user","content":[{"image_url":{"detail":"low" , "url":"x"},"type":"image_url"}]}`, true},
		{wire.Chat, `{"role":"user","content":"Observation: 1"}`, `{"role":"user","content":"Observation: 2"}`, false},
		{wire.Chat, `{"role":"tool","tool_call_id":"a","content":"x"}`, `{"role":"tool","tool_call_id":"b","content":"x"}`, false},
		{wire.Chat, `{"role":"tool","tool_call_id":"a","content":"x"}`, `{"role":"tool","tool_call_id":"a","content":" x\n"}`, true},
		{wire.Chat, `{"role":"robot","x":1,"__y":2}`, `{"__y":3,"id":"z","role":"robot","x":1,"status":"s","refusal":null,"cache_control":{},"internal_chat_message_metadata_passthrough":7}`, true},
		{wire.Chat, `{"role":"robot","x":[1,2]}`, `{"role":"robot","x":[2,1]}`, false},
		{wire.Messages, `{"role":"user","content":[{"type":"text","text":"a"}]}`, `{"role":"user","content":[{"type":"text","text":"a","cache_control":{"type":"ephemeral"}}]}`, true},
		{wire.Messages, `{"role":"assistant","content":[{"type":"text","text":"so"},{"type":"tool_use","id":"t","name":"f","input":{}}]}`, `{"role":"assistant","content":[{"type":"tool_use","id":"t","name":"f","input":{}}]}`, true},
		{wire.Messages, `{"role":"assistant","content":[{"type":"tool_use","id":"t","name":"f","input":{}}]}`, `{"role":"assistant","content":[{"type":"tool_use","id":"t","name":"f","input":{"a":1}}]}`, false},
		{wire.Responses, `{"type":"item_reference","id":"a"}`, `{"type":"item_reference","id":"b"}`, false},
		{wire.Responses, `{"type":"reasoning","id":"a","summary":[]}`, `{"summary":[],"type":"reasoning","id":"b","status":"completed"}`, true},
	} {
		if got := hash(tc.dialect, tc.a) == hash(tc.dialect, tc.b); got != tc.same {
			t.Errorf("%s and %s: got same hash = %v, want %v", tc.a, tc.b, got, tc.same)
		}
	}
}
