package proxy_test

import (
	"fmt"
	"strings"
	"testing"
)

func TestTooManyItemsAreForwardedUnchanged(t *testing.T) {
	up := newUpstream(t, nil)
	flags := injectAll()
	flags["limits.items"] = "50"
	flags["debug_headers"] = "true"
	f := newFixture(t, up, "", newBook(t, "one: alpha"), flags)
	repeat := func(n int, piece string) string {
		return strings.TrimSuffix(strings.Repeat(piece+",", n), ",")
	}
	keys := ""
	for i := range 60 {
		keys += fmt.Sprintf(`"k%d":1,`, i)
	}
	text := `{"role":"user","content":"alpha"}`
	for name, tc := range map[string]struct {
		path, body  string
		uninspected bool
	}{
		"below the limit":    {chatPath, `{"messages":[` + repeat(40, text) + `]}`, false},
		"messages":           {chatPath, `{"messages":[` + repeat(60, text) + `]}`, true},
		"parts":              {chatPath, `{"messages":[{"role":"user","content":[` + repeat(60, `{"type":"text","text":"alpha"}`) + `]}]}`, true},
		"tool calls":         {chatPath, `{"messages":[{"role":"assistant","tool_calls":[` + repeat(60, `{}`) + `]},` + text + `]}`, true},
		"tools":              {chatPath, `{"tools":[` + repeat(60, `{"name":"t"}`) + `],"messages":[` + text + `]}`, true},
		"JSON keys":          {chatPath, `{` + keys + `"messages":[` + text + `]}`, true},
		"tools and messages": {chatPath, `{"tools":[` + repeat(30, `{"name":"t"}`) + `],"messages":[` + repeat(30, text) + `]}`, true},
		"content blocks":     {"/v1/messages", `{"messages":[{"role":"user","content":[` + repeat(60, `{"type":"text","text":"alpha"}`) + `]}]}`, true},
		"parts in a result":  {"/v1/messages", `{"messages":[{"role":"user","content":[{"type":"tool_result","tool_use_id":"t","content":[` + repeat(60, `{"type":"text","text":"alpha"}`) + `]},{"type":"text","text":"alpha"}]}]}`, true},
		"input items":        {"/v1/responses", `{"input":[` + repeat(60, text) + `]}`, true},
	} {
		res, _ := f.send(t, "POST", tc.path, nil, tc.body)
		unchanged := string(up.lastRequest(t).body) == tc.body
		if unchanged != tc.uninspected {
			t.Errorf("%s: unchanged = %v, want %v", name, unchanged, tc.uninspected)
		}
		if (res.Header.Get("Precept-Lessons") == "one") == tc.uninspected {
			t.Errorf("%s: Precept-Lessons = %q, uninspected = %v", name, res.Header.Get("Precept-Lessons"), tc.uninspected)
		}
	}
	if n := f.counter("uninspected", "items"); n != 9 {
		t.Errorf("uninspected_total{reason=items} = %v, want 9", n)
	}
}
