package proxy_test

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
)

func TestSessionContinuesIfToolsOrAgentChange(t *testing.T) {
	tool := func(names ...string) (out []obj) {
		for _, n := range names {
			out = append(out, obj{"type": "function", "function": obj{"name": n}})
		}
		return out
	}
	type step struct {
		system string
		tools  []obj
		text   string // user message; "" for a step that sends a tool result
	}
	for name, tc := range map[string]struct {
		steps []step
		last  string // lesson marker in the last step; "" for none
	}{
		"different tools in each step": {steps: []step{{"S", tool("a", "b"), ""}, {"S", tool("c"), ""}, {"S", tool("a"), ""}, {"S", tool("b", "c"), ""}, {"S", tool("a", "b"), ""}}},
		"plan once, then act":          {steps: []step{{"S", tool("plan"), ""}, {"S", tool("bash", "edit"), "Act."}, {"S", tool("bash", "edit"), ""}, {"S", tool("bash", "edit"), ""}}},
		"different agent":              {steps: []step{{"S", tool("to_b"), ""}, {"Agent B", tool("x", "y"), ""}, {"Agent B", tool("x", "y"), ""}, {"Agent B", tool("x", "y"), "And test the parser."}}, last: "[two]"},
		"different agent and back":     {steps: []step{{"S", tool("to_b"), ""}, {"Agent B", tool("x"), ""}, {"Agent B", tool("x"), ""}, {"S", tool("to_b"), "And test the parser."}}, last: "[two]"},
		"two agents alternate":         {steps: []step{{"S", tool("to_b"), ""}, {"Agent B", tool("x"), ""}, {"S", tool("to_b"), "Go on."}, {"Agent B", tool("x"), "Go on."}, {"S", tool("to_b"), "And test the parser."}}, last: "[two]"},
		"no tools at the end":          {steps: []step{{"S", tool("a", "b"), ""}, {"S", tool("a", "b"), ""}, {"S", nil, ""}}},
		"question without tools":       {steps: []step{{"S", tool("a", "b"), ""}, {"S", nil, "What have you done?"}, {"S", tool("a", "b"), "Go on."}}},
	} {
		t.Run(name, func(t *testing.T) {
			n := 0
			up := newUpstream(t, func(w http.ResponseWriter, r *http.Request) {
				b, _ := io.ReadAll(r.Body)
				n++
				if strings.Contains(string(b), `"want_text":true`) {
					_, _ = io.WriteString(w, chatReply(fmt.Sprint("chatcmpl-", n), fmt.Sprintf("This is the answer number %d, in its own words.", n)))
					return
				}
				_, _ = io.WriteString(w, jsonReply(r.URL.Path, int64(n), fmt.Sprintf("call_%024x", uint64(n)*0x9e3779b97f4a7c15)))
			})
			f := newFixture(t, up, "", newBook(t, "one: mend the build", "two: test the parser"), injectAll())
			var list []obj
			previous, session := "", ""
			for i, s := range tc.steps {
				if i == 0 {
					list = []obj{{"role": "user", "content": "Please mend the build"}}
				} else if s.text != "" {
					list = append(list, obj{"role": "assistant", "content": fmt.Sprintf("This is the answer number %d, in its own words.", n)}, obj{"role": "user", "content": s.text})
				} else {
					id := fmt.Sprintf("call_%024x", uint64(n)*0x9e3779b97f4a7c15)
					list = append(list, obj{"role": "assistant", "content": nil, "tool_calls": []obj{{"id": id, "type": "function", "function": obj{"name": "f", "arguments": fmt.Sprintf(`{"n":%d}`, i)}}}}, obj{"role": "tool", "tool_call_id": id, "content": fmt.Sprint("done ", i)})
				}
				body := obj{"messages": append([]obj{{"role": "system", "content": s.system}}, list...), "want_text": i+1 < len(tc.steps) && tc.steps[i+1].text != ""}
				if s.tools != nil {
					body["tools"] = s.tools
				}
				request, _ := json.Marshal(body)
				res, _ := f.send(t, "POST", chatPath, nil, string(request))
				got := string(up.lastRequest(t).body)
				if c := strings.Count(got, "[one]"); c != 1 {
					t.Errorf("step %d: the upstream got [one] %d times, want once: %s", i, c, got)
				}
				var sent struct{ Messages []json.RawMessage }
				_ = json.Unmarshal([]byte(got), &sent)
				if first := string(sent.Messages[1]); previous != "" && first != previous {
					t.Errorf("step %d: message with the block = %s, want %s as in the previous step", i, first, previous)
				} else {
					previous = first
				}
				if name := res.Header.Get("Precept-Session"); session != "" && name != session {
					t.Errorf("step %d: session = %q, want %q", i, name, session)
				} else {
					session = name
				}
				if i == len(tc.steps)-1 && tc.last != "" && strings.Count(got, tc.last) != 1 {
					t.Errorf("last step: the upstream got %s, want %s exactly once", got, tc.last)
				}
			}
		})
	}
}
