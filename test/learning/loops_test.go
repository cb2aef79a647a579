package learning

import (
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"precept/test/harness"
)

func TestLoopWarningIsOmittedAfterWait(t *testing.T) {
	t.Parallel()
	var forwarded string
	model := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		b, _ := io.ReadAll(r.Body)
		forwarded = string(b)
		w.Header().Set("Content-Type", "application/json")
		_, _ = io.WriteString(w, harness.ChatReply("c", "ok"))
	}))
	t.Cleanup(model.Close)
	p := harness.StartWithUpstream(t, t.TempDir(), model.URL+"/v1",
		"--bandit-objective", "all", "--bandit-epsilon", "0", "--bandit-control", "0")
	const notFound = "curl: (22) The requested URL returned error: 404\n\nCommand exited with code 22"
	for name, tc := range map[string]struct {
		commands []string
		warned   bool
	}{
		"no wait":                  {[]string{"curl localhost:3000", "curl localhost:3000"}, true},
		"a wait between the calls": {[]string{"curl localhost:3000", "sleep 2", "curl localhost:3000"}, false},
		"a wait in each command":   {[]string{"sleep 2; curl localhost:3000", "sleep 2; curl localhost:3000"}, false},
		"a polling command":        {[]string{"gh pr checks 3", "gh pr checks 3", "gh pr checks 3"}, false},
	} {
		agent := harness.Conversation{T: t, BaseURL: p.DataURL, Dialect: "chat"}
		agent.User("start the shop: " + name)
		for i, command := range tc.commands {
			id, args := harness.RandomHex(8), map[string]string{"command": command}
			text, _ := json.Marshal(args)
			result := notFound
			if command == "sleep 2" {
				result = "(no output)"
			}
			agent.Messages = append(agent.Messages,
				map[string]any{"role": "assistant", "content": nil, "tool_calls": []any{map[string]any{
					"id": id, "type": "function", "function": map[string]any{"name": "bash", "arguments": string(text)},
				}}},
				map[string]any{"role": "tool", "tool_call_id": id, "content": result})
			agent.Send(false)
			if last := i == len(tc.commands)-1; strings.Contains(forwarded, "[LOOP DETECTED]") != (tc.warned && last) {
				t.Errorf("%s, call %d: request to the model contains [LOOP DETECTED] = %t, want %t", name, i+1, !(tc.warned && last), tc.warned && last)
			}
		}
	}
}
