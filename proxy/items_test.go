package proxy_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus/testutil"
)

// A body whose items, parts, calls, tools and keys together are more than limits.items is forwarded byte for byte and
// counted. A body within the limit gets its lesson.
func TestBodiesWithTooManyItemsAreForwardedUnchanged(t *testing.T) {
	up := newUpstream(t, nil)
	flags := injectAll()
	flags["limits.items"] = "50"
	flags["debug_headers"] = "true"
	r := newFixture(t, up, "", newBook(t, "one: alpha"), flags)
	repeat := func(n int, piece string) string {
		return strings.TrimSuffix(strings.Repeat(piece+",", n), ",")
	}
	keys := ""
	for i := range 60 {
		keys += fmt.Sprintf(`"k%d":1,`, i)
	}
	text := `{"role":"user","content":"alpha"}`
	for name, c := range map[string]struct {
		path, body  string
		uninspected bool
	}{
		"few":       {chatPath, `{"messages":[` + repeat(40, text) + `]}`, false},
		"messages":  {chatPath, `{"messages":[` + repeat(60, text) + `]}`, true},
		"parts":     {chatPath, `{"messages":[{"role":"user","content":[` + repeat(60, `{"type":"text","text":"alpha"}`) + `]}]}`, true},
		"calls":     {chatPath, `{"messages":[{"role":"assistant","tool_calls":[` + repeat(60, `{}`) + `]},` + text + `]}`, true},
		"tools":     {chatPath, `{"tools":[` + repeat(60, `{"name":"t"}`) + `],"messages":[` + text + `]}`, true},
		"keys":      {chatPath, `{` + keys + `"messages":[` + text + `]}`, true},
		"together":  {chatPath, `{"tools":[` + repeat(30, `{"name":"t"}`) + `],"messages":[` + repeat(30, text) + `]}`, true},
		"blocks":    {"/v1/messages", `{"messages":[{"role":"user","content":[` + repeat(60, `{"type":"text","text":"alpha"}`) + `]}]}`, true},
		"in result": {"/v1/messages", `{"messages":[{"role":"user","content":[{"type":"tool_result","tool_use_id":"t","content":[` + repeat(60, `{"type":"text","text":"alpha"}`) + `]},{"type":"text","text":"alpha"}]}]}`, true},
		"input":     {"/v1/responses", `{"input":[` + repeat(60, text) + `]}`, true},
	} {
		res, _ := r.send(t, "POST", c.path, nil, c.body)
		same := string(up.last(t).body) == c.body
		if same != c.uninspected || (res.Header.Get("Precept-Lessons") == "one") == c.uninspected {
			t.Errorf("%s: forwarded unchanged: %t, want %t; Precept-Lessons is %q, want one: %t", name, same, c.uninspected, res.Header.Get("Precept-Lessons"), !c.uninspected)
		}
	}
	if n := testutil.ToFloat64(r.Options().Metrics.Series("uninspected").WithLabelValues("items")); n != 9 {
		t.Errorf("the metric counts %v uninspected requests with the reason items, want 9", n)
	}
}
