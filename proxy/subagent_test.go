package proxy_test

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"

	"precept/bandit/trial"
	"precept/internal/session"
)

// A sub-agent gets the same random choices as the calling session, so both belong to one unit. precept finds the
// calling session by a tool call that contains the sub-agent's task. If two sessions made such a call, or if the
// calling session opted out, the sub-agent shares no unit.
func TestSubAgentSharesCallingSessionUnit(t *testing.T) {
	n := 0
	up := newUpstream(t, func(w http.ResponseWriter, r *http.Request) {
		b, _ := io.ReadAll(r.Body)
		n++
		question := "look for 17 of them"
		if _, rest, ok := strings.Cut(string(b), "delegate: "); ok { // the task in the tool call
			question, _, _ = strings.Cut(rest, `"`)
		}
		args, _ := json.Marshal(obj{"agent": "searcher", "prompt": question})
		quoted, _ := json.Marshal(string(args))
		_, _ = fmt.Fprintf(w, `{"id":"chatcmpl-%024x","choices":[{"index":0,"finish_reason":"tool_calls","message":{"role":"assistant","content":null,"tool_calls":[{"id":%q,"type":"function","function":{"name":"task","arguments":%s}}]}}]}`, n, randomCallID(int64(n)), quoted)
	})
	f := newFixture(t, up, "", newBook(t, "one: parser"), map[string]string{"bandit.objective": "random", "bandit.epsilon": "0.5", "bandit.control": "0", "debug_headers": "true"})
	send := func(system, text string, h http.Header) (ses *session.Record, lessons string) {
		t.Helper()
		if h == nil {
			h = http.Header{}
		}
		h.Set("Authorization", "Bearer k")
		c := &agentConversation{system: system, tools: []string{"task"}, list: []obj{{"role": "user", "content": text}}}
		res, _ := f.send(t, "POST", chatPath, h, c.body())
		name := res.Header.Get("Precept-Session")
		for _, id := range session.IDsByName("default", name) {
			if held := f.Options().Store.AcquireInMemory(id); held != nil {
				defer f.Options().Store.Release(held, 0)
				return held.Record, res.Header.Get("Precept-Lessons") + "/" + res.Header.Get("Precept-Withheld")
			}
		}
		t.Fatalf("session %q is not in memory", name)
		return nil, ""
	}
	outcomes := map[string]int{} // calling sessions by injected and withheld lessons
	for i := range 24 {
		question := fmt.Sprintf("Find the parser that reads case %d and say where", i)
		send("You lead.", fmt.Sprintf("case %d of the parser, please delegate: %s", i, question), nil)
		repeated, _ := send("You lead.", fmt.Sprintf("case %d of the parser, please delegate: %s", i, question), nil)
		if repeated.Unit.ID != "" {
			t.Fatalf("second session with the same task: unit = %q, want none", repeated.Unit.ID)
		}
		h := http.Header{}
		if i%2 > 0 {
			h.Set("X-Session-Id", fmt.Sprint("ses_", i))
		}
		if sub, _ := send("You search.", "Context: none.\n\n"+question+"\n", h); sub.Unit.ID != "" {
			t.Fatalf(`sub-agent called by two sessions: ID = %q, want ""`, sub.Unit.ID)
		} else if !sub.Assignment.Excluded {
			t.Fatal("sub-agent called by two sessions: Excluded = false, want true")
		} else if sub.Assignment.ExcludedFor != trial.ExcludedTwin {
			t.Fatalf("sub-agent called by two sessions: ExcludedFor = %s, want %s", sub.Assignment.ExcludedFor, trial.ExcludedTwin)
		}
		question = fmt.Sprintf("Look where the parser of case %d is called", i)
		lead, lessons := send("You lead.", fmt.Sprintf("other case %d of the parser, please delegate: %s", i, question), nil)
		if i%2 > 0 {
			h.Set("X-Session-Id", fmt.Sprint("ses_below_", i))
		}
		sub, subLessons := send("You search.", question, h)
		if sub.Unit.ID != lead.Identity.ID.String() {
			t.Errorf("case %d: ID = %q, want %q", i, sub.Unit.ID, lead.Identity.ID.String())
		}
		if lessons != subLessons {
			t.Errorf("case %d: lessons = %q, want %q", i, lessons, subLessons)
		}
		outcomes[lessons]++
		question = fmt.Sprintf("Look who wrote the parser of case %d first", i)
		send("You lead.", fmt.Sprintf("silent case %d, please delegate: %s", i, question), http.Header{"Precept-Learn": {"off"}})
		if optedOut, _ := send("You search.", question, nil); optedOut.Unit.ID != "" {
			t.Errorf("opted-out session's sub-agent: unit = %q, want none", optedOut.Unit.ID)
		}
		if other, _ := send("You search.", fmt.Sprintf("Find the parser of no call, number %d", i), nil); other.Unit.ID != "" {
			t.Errorf(`task that no tool call contains: ID = %q, want ""`, other.Unit.ID)
		} else if other.Assignment.Excluded {
			t.Error("task that no tool call contains: Excluded = true, want false")
		}
	}
	if len(outcomes) < 2 {
		t.Errorf("callers' injected and withheld lessons = %v, want at least 2 different outcomes", outcomes)
	}
}
