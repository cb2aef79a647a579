package wire

import "testing"

func firstItemHash(t *testing.T, d Dialect, item string) uint64 {
	t.Helper()
	return mustParse(t, d, `{"`+d.listKey()+`":[`+item+`]}`).Hash(0)
}

func TestHashIgnoresChangesByAgents(t *testing.T) {
	for _, tc := range []struct {
		name    string
		dialect Dialect
		same    []string
	}{
		{"string and parts, cache_control", Messages, []string{
			`{"role":"user","content":"go"}`,
			`{"role":"user","content":[{"type":"text","text":"go"}]}`,
			`{"content":[{"cache_control":{"type":"ephemeral"},"text":"go","type":"text"}],"role":"user"}`,
			`{ "role" : "user", "content" : "\u0067o\n" }`,
		}},
		{"reminders", Chat, []string{
			`{"role":"user","content":[{"type":"text","text":"<system-reminder>Monday</system-reminder>"},{"type":"text","text":"go"}]}`,
			`{"role":"user","content":[{"type":"text","text":"go"}]}`,
			`{"role":"user","content":"<current_datetime>now</current_datetime>\n\ngo"}`,
		}},
		{"results", Messages, []string{
			`{"role":"user","content":[{"type":"tool_result","content":"x","is_error":true,"tool_use_id":"t"}]}`,
			`{"role":"user","content":[{"tool_use_id":"t","type":"tool_result","content":[{"type":"text","text":"x"}],"is_error":true,"cache_control":{"type":"ephemeral"}}]}`,
		}},
		{"reminder after a result", Messages, []string{
			`{"role":"user","content":[{"type":"tool_result","content":"x","tool_use_id":"t"}]}`,
			`{"role":"user","content":[{"type":"tool_result","content":"x","tool_use_id":"t"},{"type":"text","text":"<system-reminder>r</system-reminder>"}]}`,
		}},
		{"text before calls", Chat, []string{
			`{"role":"assistant","content":"I will","tool_calls":[{"id":"a","type":"function","function":{"name":"f","arguments":"{}"}}]}`,
			`{"role":"assistant","content":"","tool_calls":[{"id":"a","type":"function","function":{"arguments":"{}","name":"f"}}],"refusal":null}`,
			`{"role":"assistant","content":null,"tool_calls":[{"id":"a","type":"function","function":{"name":"f","arguments":"{}"}}]}`,
		}},
		{"unknown copilot keys", Chat, []string{
			`{"role":"tool","tool_call_id":"a","content":"x"}`,
			`{"role":"tool","tool_call_id":"a","content":"x","__copilotMessageSource":"tool"}`,
		}},
		{"ids and status", Responses, []string{
			`{"type":"message","role":"assistant","id":"msg_1","status":"completed","content":[{"type":"output_text","text":"a","annotations":[]}]}`,
			`{"role":"assistant","content":[{"type":"output_text","text":"a"}],"internal_chat_message_metadata_passthrough":{"turn_id":"x"}}`,
		}},
		{"unknown items", Responses, []string{
			`{"type":"mystery","id":"m_1","a":[1,{"b":2,"c":3}],"status":"x"}`,
			`{"a":[1, {"c":3,"__x":1,"b":2}],"type":"mystery"}`,
		}},
		{"reasoning", Responses, []string{
			`{"type":"reasoning","id":"rs_1","summary":[],"encrypted_content":"abc"}`,
			`{"encrypted_content":"abc","summary":[],"type":"reasoning","id":"rs_2"}`,
		}},
		{"images", Messages, []string{
			`{"role":"user","content":[{"type":"image","source":{"data":"AAAA","type":"base64"}},{"type":"text","text":"go"}]}`,
			`{"role":"user","content":[{"source":{"type":"base64","data":"AAAA"},"type":"image","cache_control":{}},{"type":"text","text":"go"}]}`,
		}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			want := firstItemHash(t, tc.dialect, tc.same[0])
			for _, s := range tc.same[1:] {
				if firstItemHash(t, tc.dialect, s) != want {
					t.Errorf("got different hashes, want the same hash for:\n%s\n%s", s, tc.same[0])
				}
			}
		})
	}
}

func TestDifferentItemsHaveDifferentHashes(t *testing.T) {
	seen := map[uint64]string{}
	for _, tc := range []struct {
		dialect Dialect
		item    string
	}{
		{Chat, `{"role":"user","content":"a"}`},
		{Chat, `{"role":"user","content":"b"}`},
		{Chat, `{"role":"system","content":"a"}`},
		{Chat, `{"role":"assistant","content":"a"}`},
		{Chat, `{"role":"user","content":""}`},
		{Chat, `{"role":"assistant","content":""}`},
		{Chat, `{"role":"tool","tool_call_id":"a","content":"x"}`},
		{Chat, `{"role":"tool","tool_call_id":"b","content":"x"}`},
		{Chat, `{"role":"tool","tool_call_id":"a","content":"y"}`},
		{Chat, `{"role":"assistant","tool_calls":[{"id":"a","function":{"name":"f","arguments":"{}"}}]}`},
		{Chat, `{"role":"assistant","tool_calls":[{"id":"b","function":{"name":"f","arguments":"{}"}}]}`},
		{Chat, `{"role":"assistant","tool_calls":[{"id":"a","function":{"name":"g","arguments":"{}"}}]}`},
		{Chat, `{"role":"user","content":[{"type":"text","text":"a"},{"type":"image_url","image_url":{"url":"1"}}]}`},
		{Chat, `{"role":"user","content":[{"type":"text","text":"a"},{"type":"image_url","image_url":{"url":"2"}}]}`},
		{Responses, `{"type":"item_reference","id":"a"}`},
		{Responses, `{"type":"item_reference","id":"b"}`},
		{Responses, `{"type":"mystery","a":1}`},
		{Responses, `{"type":"mystery","a":2}`},
		{Responses, `{"type":"mystery","b":1}`},
		{Responses, `{"type":"mystery","a":[1,2]}`},
		{Responses, `{"type":"mystery","a":[2,1]}`},
		{Responses, `{"type":"mystery","a":{"1":2}}`},
	} {
		h := firstItemHash(t, tc.dialect, tc.item)
		if other, ok := seen[h]; ok {
			t.Errorf("%s and %s have the same hash, want different hashes", tc.item, other)
		}
		seen[h] = tc.item
	}
}

// Anchors in stored sessions contain the hash, so the hash must never change.
func TestHashIsStableAcrossReleases(t *testing.T) {
	for _, tc := range []struct {
		dialect Dialect
		item    string
		want    uint64
	}{
		{Chat, `{"role":"user","content":"fix the build"}`, 0x1057b849881bf6ab},
		{Responses, `{"type":"mystery","a":[1,{"b":null}]}`, 0x1b33c9c8c024d118},
	} {
		if got := firstItemHash(t, tc.dialect, tc.item); got != tc.want {
			t.Errorf("Hash(%s) = %#x, want %#x", tc.item, got, tc.want)
		}
	}
}

func TestSystemHashIsSameInAllDialects(t *testing.T) {
	system := func(d Dialect, body string) uint64 { return mustParse(t, d, body).SystemHash }
	user := `{"role":"user","content":"a"}`
	base := system(Messages, `{"system":"be brief","messages":[`+user+`]}`)
	for name, h := range map[string]uint64{
		"parts":                  system(Messages, `{"system":[{"type":"text","text":"be brief","cache_control":{}}],"messages":[`+user+`]}`),
		"a billing header":       system(Messages, `{"messages":[`+user+`],"system":[{"type":"text","text":"x-anthropic-billing-header: v=2;"},{"type":"text","text":"be brief"}]}`),
		"chat":                   system(Chat, `{"messages":[{"role":"system","content":"be brief"},`+user+`]}`),
		"developer":              system(Responses, `{"input":[{"role":"developer","content":[{"type":"input_text","text":"be brief"}]},`+user+`]}`),
		"instructions":           system(Responses, `{"instructions":"be brief","input":"a"}`),
		"a later system message": system(Messages, `{"system":"be brief","messages":[`+user+`,{"role":"system","content":"more"}]}`),
	} {
		if h != base {
			t.Errorf("%s: got SystemHash %x, want %x, the hash of \"system\":\"be brief\"", name, h, base)
		}
	}
	if system(Chat, `{"messages":[{"role":"system","content":"be long"},`+user+`]}`) == base {
		t.Error("system prompt \"be long\": got the SystemHash of \"be brief\", want a different hash")
	}
	if system(Chat, `{"messages":[`+user+`]}`) == base {
		t.Error("no system prompt: got the SystemHash of \"be brief\", want a different hash")
	}
	two := system(Chat, `{"messages":[{"role":"system","content":"be"},{"role":"system","content":" brief"},`+user+`]}`)
	if two == base {
		t.Error("\"be brief\" in two messages: got the SystemHash of one message, want a different hash")
	}
}

func TestHashCoversTextResults(t *testing.T) {
	a, b := `{"role":"user","content":"Observation:\none"}`, `{"role":"user","content":"Observation:\ntwo"}`
	if firstItemHash(t, Chat, a) == firstItemHash(t, Chat, b) {
		t.Error("different observations: got the same hash, want different hashes")
	}
	if firstItemHash(t, Chat, a) != firstItemHash(t, Chat, `{"role":"user","content":[{"type":"text","text":"Observation:\none"}]}`) {
		t.Error("the same observation as a string and as a part: got different hashes, want the same hash")
	}
}
