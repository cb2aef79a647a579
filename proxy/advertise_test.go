package proxy_test

import (
	"maps"
	"net/http"
	"strings"
	"testing"
)

// With writ.advertise, precept describes the /lesson commands to the model, unless the commands in the reply would not
// be executed.
func TestOnlyExecutedCommandsAreAdvertised(t *testing.T) {
	for name, tc := range map[string]struct {
		flags  map[string]string
		header http.Header
		want   bool
	}{
		"defaults":                    {nil, nil, true},
		"Precept-Learn: off":          {nil, http.Header{"Precept-Learn": {"off"}}, false},
		"limits.capture_bytes: 0":     {map[string]string{"limits.capture_bytes": "0"}, nil, false},
		"learning.enabled: false":     {map[string]string{"learning.enabled": "false"}, nil, false},
		"learning.opt_out_agents":     {map[string]string{"learning.opt_out_agents": "quiet"}, http.Header{"Precept-Agent": {"quiet"}}, false},
		"agent that is not opted out": {map[string]string{"learning.opt_out_agents": "quiet"}, http.Header{"Precept-Agent": {"other"}}, true},
	} {
		t.Run(name, func(t *testing.T) {
			up := newUpstream(t, nil)
			flags := injectAll()
			flags["writ.enabled"], flags["writ.advertise"] = "true", "true"
			maps.Copy(flags, tc.flags)
			f := newFixture(t, up, "", newBook(t, "one: alpha"), flags)
			header := http.Header{"Precept-Session": {"s"}}
			maps.Copy(header, tc.header)
			f.chat(t, header, `{"messages":[{"role":"user","content":"hello there"}]}`)
			body := string(up.lastRequest(t).body)
			if got := strings.Contains(body, "/lesson SIGNATURE"); got != tc.want {
				t.Errorf("request describes the commands = %v, want %v; request: %s", got, tc.want, body)
			}
		})
	}
}
