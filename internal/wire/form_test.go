package wire

import "testing"

func TestForm(t *testing.T) {
	for _, c := range []struct {
		d              Dialect
		more           string
		shaped, forced bool
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
		list := map[bool]string{true: `"input":"a"`, false: `"messages":[{"role":"user","content":"a"}]`}[c.d == Responses]
		for _, body := range []string{"{" + c.more + "," + list + "}", "{" + list + "," + c.more + "}"} {
			r := must(t, c.d, body)
			if r.Shaped() != c.shaped || r.Forced() != c.forced {
				t.Errorf("%s: shaped %v, forced %v", body, r.Shaped(), r.Forced())
			}
		}
	}
}
