package proxy_test

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
)

// A conversation whose tools or agent change is one session: the block keeps its place in every turn.
func TestChangingToolsKeepTheSession(t *testing.T) {
	tool := func(names ...string) (out []obj) {
		for _, n := range names {
			out = append(out, obj{"type": "function", "function": obj{"name": n}})
		}
		return out
	}
	type step struct {
		system string
		tools  []obj
		words  string // the user's next words; "" means the result of a call follows
	}
	for name, k := range map[string]struct {
		steps []step
		last  string // marker of the lesson that the words of the last step match; "" if none
	}{
		"a tool for each step":     {steps: []step{{"S", tool("a", "b"), ""}, {"S", tool("c"), ""}, {"S", tool("a"), ""}, {"S", tool("b", "c"), ""}, {"S", tool("a", "b"), ""}}},
		"plan once, then act":      {steps: []step{{"S", tool("plan"), ""}, {"S", tool("bash", "edit"), "Act."}, {"S", tool("bash", "edit"), ""}, {"S", tool("bash", "edit"), ""}}},
		"another agent":            {steps: []step{{"S", tool("to_b"), ""}, {"Agent B", tool("x", "y"), ""}, {"Agent B", tool("x", "y"), ""}, {"Agent B", tool("x", "y"), "And test the parser."}}, last: "[two]"},
		"another agent and back":   {steps: []step{{"S", tool("to_b"), ""}, {"Agent B", tool("x"), ""}, {"Agent B", tool("x"), ""}, {"S", tool("to_b"), "And test the parser."}}, last: "[two]"},
		"two agents alternate":     {steps: []step{{"S", tool("to_b"), ""}, {"Agent B", tool("x"), ""}, {"S", tool("to_b"), "Go on."}, {"Agent B", tool("x"), "Go on."}, {"S", tool("to_b"), "And test the parser."}}, last: "[two]"},
		"no tools at the end":      {steps: []step{{"S", tool("a", "b"), ""}, {"S", tool("a", "b"), ""}, {"S", nil, ""}}},
		"a question without tools": {steps: []step{{"S", tool("a", "b"), ""}, {"S", nil, "What have you done?"}, {"S", tool("a", "b"), "Go on."}}},
	} {
		t.Run(name, func(t *testing.T) {
			n := 0
			up := newUpstream(t, func(w http.ResponseWriter, r *http.Request) {
				b, _ := io.ReadAll(r.Body)
				n++
				if strings.Contains(string(b), `"want_text":true`) { // else the reply is a call
					_, _ = io.WriteString(w, chatReply(fmt.Sprint("chatcmpl-", n), fmt.Sprintf("This is the answer number %d, in its own words.", n)))
					return
				}
				_, _ = io.WriteString(w, wholeReply(r.URL.Path, int64(n), fmt.Sprintf("call_%024x", n*7919)))
			})
			r := newFixture(t, up, "", newBook(t, "one: mend the build", "two: test the parser"), injectAll())
			var list []obj
			previous, session := "", ""
			for i, s := range k.steps {
				if i == 0 {
					list = []obj{{"role": "user", "content": "Please mend the build"}}
				} else if s.words != "" {
					list = append(list, obj{"role": "assistant", "content": fmt.Sprintf("This is the answer number %d, in its own words.", n)}, obj{"role": "user", "content": s.words})
				} else {
					id := fmt.Sprintf("call_%024x", n*7919)
					list = append(list, obj{"role": "assistant", "content": nil, "tool_calls": []obj{{"id": id, "type": "function", "function": obj{"name": "f", "arguments": fmt.Sprintf(`{"n":%d}`, i)}}}}, obj{"role": "tool", "tool_call_id": id, "content": fmt.Sprint("done ", i)})
				}
				body := obj{"messages": append([]obj{{"role": "system", "content": s.system}}, list...), "want_text": i+1 < len(k.steps) && k.steps[i+1].words != ""}
				if s.tools != nil {
					body["tools"] = s.tools
				}
				text, _ := json.Marshal(body)
				res, _ := r.send(t, "POST", chatPath, nil, string(text))
				got := string(up.last(t).body)
				if c := strings.Count(got, "[one]"); c != 1 {
					t.Errorf("step %d: the upstream got lesson one %d times, want 1: %s", i, c, got)
				}
				var sent struct{ Messages []json.RawMessage }
				_ = json.Unmarshal([]byte(got), &sent)
				if first := string(sent.Messages[1]); previous != "" && first != previous {
					t.Errorf("step %d: the message with the block is %s, want %s as in the step before", i, first, previous)
				} else {
					previous = first
				}
				if name := res.Header.Get("Precept-Session"); session != "" && name != session {
					t.Errorf("step %d has session %q, want %q", i, name, session)
				} else {
					session = name
				}
				if i == len(k.steps)-1 && k.last != "" && strings.Count(got, k.last) != 1 {
					t.Errorf("the last step is %s at the upstream, want lesson %s once", got, k.last)
				}
			}
		})
	}
}
