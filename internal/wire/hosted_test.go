package wire

import (
	"slices"
	"testing"
)

// The provider itself answers a hosted call, such as a web search.
func TestReplyHasHostedCallArguments(t *testing.T) {
	for name, tc := range map[string]struct {
		dialect Dialect
		reply   string
		want    string
	}{
		"messages": {
			Messages, `{"type":"message","content":[{"type":"text","text":"hi"},{"type":"mcp_tool_use","id":"m1","name":"read","input":{"path":"a/.env"}},{"type":"mcp_tool_result","tool_use_id":"m1","content":"X=1"}],"stop_reason":"end_turn"}`,
			`{"path":"a/.env"}`,
		},
		"messages stream": {Messages, `data: {"type":"content_block_start","index":0,"content_block":{"type":"text","text":"hi"}}

data: {"type":"content_block_start","index":1,"content_block":{"type":"server_tool_use","id":"s1","name":"bash_code_execution","input":{}}}

data: {"type":"content_block_delta","index":1,"delta":{"type":"input_json_delta","partial_json":"{\"command\":\"cat a/.e"}}

data: {"type":"content_block_delta","index":1,"delta":{"type":"input_json_delta","partial_json":"nv\"}"}}

data: {"type":"message_delta","delta":{"stop_reason":"end_turn"}}

`, `{"command":"cat a/.env"}`},
		"responses": {
			Responses, `{"id":"r1","status":"completed","output":[{"type":"mcp_call","id":"m1","name":"read","arguments":"{\"path\":\"a/.env\"}","output":"X=1"},{"type":"message","id":"t1","content":[{"type":"output_text","text":"hi"}]}]}`,
			`{"path":"a/.env"}`,
		},
		"code interpreter": {
			Responses, `{"id":"r1","status":"completed","output":[{"type":"code_interpreter_call","id":"c1","code":"open('a/.env')"},{"type":"message","id":"t1","content":[{"type":"output_text","text":"hi"}]}]}`,
			`open('a/.env')`,
		},
	} {
		rep := readReply(tc.dialect, []byte(tc.reply), 1<<20, 50)
		if !slices.Equal(rep.HostedArgs, []string{tc.want}) || len(rep.Calls) > 0 || rep.Text != "hi" {
			t.Errorf("%s: got hosted arguments %q, calls %v, text %q, want hosted arguments %q, no calls, the text hi", name, rep.HostedArgs, rep.Calls, rep.Text, tc.want)
		}
	}
}
