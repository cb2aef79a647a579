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
	toolList := func(names ...string) (out []obj) {
		for _, n := range names {
			out = append(out, obj{"type": "function", "function": obj{"name": n}})
		}
		return out
	}
	type step struct {
		system string // prompt
		tools  []obj
		text   string // user message; "" for a step that sends a tool result
	}
	for name, tc := range map[string]struct {
		steps      []step
		lastLesson string // expected in the last step; "" for none
	}{
		"different tools in each step": {steps: []step{{"S", toolList("a", "b"), ""}, {"S", toolList("c"), ""}, {"S", toolList("a"), ""}, {"S", toolList("b", "c"), ""}, {"S", toolList("a", "b"), ""}}},
		"plan once, then act":          {steps: []step{{"S", toolList("plan"), ""}, {"S", toolList("bash", "edit"), "Act."}, {"S", toolList("bash", "edit"), ""}, {"S", toolList("bash", "edit"), ""}}},
		"different agent":              {steps: []step{{"S", toolList("to_b"), ""}, {"Agent B", toolList("x", "y"), ""}, {"Agent B", toolList("x", "y"), ""}, {"Agent B", toolList("x", "y"), "And test the parser."}}, lastLesson: "[two]"},
		"different agent and back":     {steps: []step{{"S", toolList("to_b"), ""}, {"Agent B", toolList("x"), ""}, {"Agent B", toolList("x"), ""}, {"S", toolList("to_b"), "And test the parser."}}, lastLesson: "[two]"},
		"two agents alternate":         {steps: []step{{"S", toolList("to_b"), ""}, {"Agent B", toolList("x"), ""}, {"S", toolList("to_b"), "Go on."}, {"Agent B", toolList("x"), "Go on."}, {"S", toolList("to_b"), "And test the parser."}}, lastLesson: "[two]"},
		"no tools at the end":          {steps: []step{{"S", toolList("a", "b"), ""}, {"S", toolList("a", "b"), ""}, {"S", nil, ""}}},
		"question without tools":       {steps: []step{{"S", toolList("a", "b"), ""}, {"S", nil, "What have you done?"}, {"S", toolList("a", "b"), "Go on."}}},
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
				_, _ = io.WriteString(w, jsonReply(r.URL.Path, int64(n), randomCallID(int64(n))))
			})
			f := newFixture(t, up, "", newBook(t, "one: fix the build", "two: test the parser"), injectAll())
			var list []obj
			previous, session := "", ""
			for i, s := range tc.steps {
				if i == 0 {
					list = []obj{{"role": "user", "content": "Please fix the build"}}
				} else if s.text != "" {
					list = append(list, obj{"role": "assistant", "content": fmt.Sprintf("This is the answer number %d, in its own words.", n)}, obj{"role": "user", "content": s.text})
				} else {
					id := randomCallID(int64(n))
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
				if i == len(tc.steps)-1 && tc.lastLesson != "" && strings.Count(got, tc.lastLesson) != 1 {
					t.Errorf("last step: the upstream got %s, want %s exactly once", got, tc.lastLesson)
				}
			}
		})
	}
}
