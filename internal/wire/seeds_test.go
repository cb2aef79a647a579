package wire

type seed struct {
	dialect Dialect
	body    string
}

// seeds returns bodies for the fuzz tests.
func seeds() []seed {
	return []seed{
		{Chat, `{"model":"m","messages":[{"role":"system","content":"be brief"},{"role":"user","content":"\"fix the build\""}],"stream":true}`},
		{Chat, `{"messages":[{"role":"developer","content":"d"},{"content":[{"type":"text","text":"<system-reminder>r</system-reminder>"},{"type":"text","text":"go"}],"role":"user"},
		{"role":"assistant","content":null,"tool_calls":[{"id":"call_a","type":"function","function":{"name":"sh","arguments":"{\"command\":\"make\"}"}},
		{"id":"call_b","type":"function","function":{"name":"sh","arguments":"{}"}}]},
		{"role":"tool","tool_call_id":"call_a","content":"make: *** [all] Error 2"},{"role":"tool","tool_call_id":"call_b","content":[{"type":"text","text":"ok"}]}]}`},
		{Chat, `{"messages":[{"role":"user","content":[]},{"role":"user","content":null},{"role":"user"},{"role":"tool","content":[ ],"tool_call_id":"x"},
		{"role":"function","name":"f","content":""},{"role":"robot","content":{}},{},{"role":7,"content":7}]}`},
		{Chat, `{"messages":[{"role":"user","content":[{"type":"text","text":"what is it"},{"type":"image_url","image_url":{"url":"data:image/png;base64,iVBORw0KGgo="}}]}]}`},
		{Chat, `{"messages":[{"role":"user","content":"Observation\nQuestion: go\nThought: so\nAction: f\nAction Input: {\"a\": 1}\nObservation: no\nThought: so\nAction: g[\\\\nObservation]\nObservation 2:  \u00e9\nThought:"}]}`},
		{Messages, `{"messages":[{"role":"user","content":"go"},{"role":"assistant","content":"{\"name\":\"f\",\"args\":{}}"},{"role":"user","content":[{"type":"text","text":"no 1"}]},
		{"role":"assistant","content":"<think>x</think>{\"args\":{},\"name\":\"f\"}"},{"role":"user","content":"no 2"}]}`},
		{Responses, `{"input":"hello","instructions":"be brief","tools":[{"type":"function","name":"a"}]}`},
		{Responses, `{"input":[{"role":"developer","content":"d"},{"type":"message","role":"user","content":[{"type":"input_text","text":"<environment_context>e</environment_context>"}]},
		{"type":"message","role":"user","content":[{"type":"input_text","text":"go"}]},{"type":"reasoning","id":"rs_1","summary":[],"encrypted_content":"x"},
		{"type":"function_call","id":"fc_1","call_id":"call_1","name":"exec","arguments":"{\"cmd\":\"ls\"}"},{"type":"function_call_output","call_id":"call_1","output":"out"},
		{"type":"custom_tool_call","call_id":"call_2","name":"apply_patch","input":"*** Begin"},{"type":"custom_tool_call_output","call_id":"call_2","output":[{"type":"input_text","text":"done"}]},
		{"type":"item_reference","id":"msg_1"},{"type":"local_shell_call","id":"ls_1","call_id":"c3","action":{"command":["ls"]}},{"type":"local_shell_call_output","id":"c3","output":"{}"},
		{"type":"mystery","role":"user","content":"x"},{"role":"user","content":"again"}],"store":false}`},
		{Responses, `{"previous_response_id":"resp_1","input":[{"type":"function_call_output","call_id":"call_9","output":[]},{"type":"function_call_output","call_id":"call_9","output":null}]}`},
		{Messages, `{"system":[{"type":"text","text":"x-anthropic-billing-header: v=1"},{"type":"text","text":"be brief","cache_control":{"type":"ephemeral"}}],
		"messages":[{"role":"user","content":[{"type":"text","text":"<system-reminder>\nr\n</system-reminder>"},{"type":"text","text":"run it","cache_control":{"type":"ephemeral"}}]},
		{"role":"system","content":"agents"},{"role":"assistant","content":[{"type":"thinking","thinking":"hm","signature":"s"},{"type":"text","text":"I will."},
		{"type":"tool_use","id":"toolu_1","name":"Bash","input":{"command":"make"}}]},
		{"role":"user","content":[{"type":"tool_result","tool_use_id":"toolu_1","is_error":true,"content":"Exit code 2"}]}]}`},
		{Messages, `{"messages":[{"role":"user","content":[{"tool_use_id":"a","type":"tool_result"},{"type":"tool_result","tool_use_id":"b","content":[{"type":"text","text":"t"},{"type":"image","source":{}}],"is_error":false},
		{"type":"tool_result","tool_use_id":"c","content":[]},{"type":"tool_result","tool_use_id":"d","content":null},{"type":"text","text":"go on"}]},{"role":"user","content":"yes"},{"role":"user","content":"yes"},
		{"role":"user","content":[{"content" :"x","type":"tool_result","tool_use_id":"e"}]}]}`},
	}
}
