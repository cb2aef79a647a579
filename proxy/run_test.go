package proxy_test

import (
	"encoding/json"
	"fmt"
	"hash/fnv"
	"io"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"

	"precept/internal/session"
)

// countingModel returns a model that replies with a tool call and counts the requests in n.
func countingModel(n *int) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		*n++
		_, _ = io.WriteString(w, jsonReply(r.URL.Path, int64(*n), randomCallID(int64(*n))))
	}
}

type agentConversation struct {
	system string
	tools  []string
	list   []obj
}

func (c *agentConversation) body() string {
	var tools []obj
	for _, n := range c.tools {
		tools = append(tools, obj{"type": "function", "function": obj{"name": n}})
	}
	b, _ := json.Marshal(obj{"messages": append([]obj{{"role": "system", "content": c.system}}, c.list...), "tools": tools})
	return string(b)
}

func (c *agentConversation) addCall(n int, args, output string) {
	id := randomCallID(int64(n))
	c.list = append(c.list, obj{"role": "assistant", "content": nil, "tool_calls": []obj{{"id": id, "type": "function", "function": obj{"name": "bash", "arguments": args}}}},
		obj{"role": "tool", "tool_call_id": id, "content": output})
}

// waitForUnit waits until a unit (a run, or a named session with sub-agents) has the given number of members, and
// returns a copy of the unit's record.
func waitForUnit(t *testing.T, f *fixture, id session.ID, members int) *session.Record {
	t.Helper()
	var rec *session.Record
	eventually(t, func() bool {
		if ses := f.Options().Store.AcquireInMemory(id); ses != nil {
			ses.Record.Mutex.Lock()
			data, _ := ses.Record.Encode()
			ses.Record.Mutex.Unlock()
			f.Options().Store.Release(ses, 0)
			rec, _ = session.Decode(id, data)
		}
		return rec != nil && rec.Unit.Members == members
	})
	return rec
}

// A sub-agent that sends the parent's session name gets a separate session in the parent's unit, even after a restart.
func TestSubAgentWithParentNameSharesUnit(t *testing.T) {
	n := 0
	up := newUpstream(t, countingModel(&n))
	dir, book, flags := t.TempDir(), newBook(t, "one: fix the build", "two: find the parser"), injectAll()
	flags["debug_headers"] = "true"
	f := newFixture(t, up, dir, book, flags)
	h := http.Header{"X-Claude-Code-Session-Id": {"uuid-1"}, "Authorization": {"Bearer k"}}
	send := func(body string) (skip, sent string) {
		t.Helper()
		res, _ := f.send(t, "POST", chatPath, h, body)
		if name := res.Header.Get("Precept-Session"); name != "uuid-1" {
			t.Errorf("Precept-Session = %q, want \"uuid-1\"", name)
		}
		return res.Header.Get("Precept-Skip"), string(up.lastRequest(t).body)
	}
	main := &agentConversation{system: "You build.", tools: []string{"bash", "task"}, list: []obj{{"role": "user", "content": "Please fix the build"}}}
	sub := &agentConversation{system: "You search.", tools: []string{"bash"}, list: []obj{{"role": "user", "content": "Please find the parser"}}}
	if _, sent := send(main.body()); strings.Count(sent, "[one]") != 1 {
		t.Fatalf("parent's first turn: the upstream got %s, want [one] exactly once", sent)
	}
	main.addCall(n, `{"command":"ls"}`, "README.md")
	if skip, sent := send(sub.body()); skip != "" {
		t.Fatalf(`sub-agent's first turn: skip = %q, want ""`, skip)
	} else if strings.Count(sent, "[two]") != 1 {
		t.Fatalf(`sub-agent's first turn: count of "[two]" = %d, want 1`, strings.Count(sent, "[two]"))
	} else if strings.Contains(sent, "[one]") {
		t.Fatalf(`sub-agent's first turn: sent = %q, want no "[one]"`, sent)
	}
	sub.addCall(n, `{"command":"sh build.sh"}`, "Error: no rule to make target\nexit status 2")
	if skip, sent := send(`{"messages":[{"role":"system","content":"You are a title generator."},{"role":"user","content":"find the parser"}]}`); !strings.HasPrefix(skip, "side:") {
		t.Errorf(`title request: skip = %q, want prefix "side:"`, skip)
	} else if strings.Contains(sent, "[two]") {
		t.Errorf(`title request: sent = %q, want no "[two]"`, sent)
	}
	if _, sent := send(main.body()); strings.Count(sent, "[one]") != 1 {
		t.Fatalf("parent's second turn: the upstream got %s, want [one] exactly once", sent)
	}
	main.addCall(n, `{"command":"cat README.md"}`, "text")
	memoryLibrary := &agentConversation{system: "Keep notes.", tools: []string{"remember"}, list: append(main.list[:3:3], obj{"role": "user", "content": "Write down what matters to find the parser."})}
	if skip, _ := send(memoryLibrary.body()); skip != "side:other_tools" {
		t.Errorf("memory library request: Precept-Skip = %q, want \"side:other_tools\"", skip)
	}
	for i := range 4 {
		skip, sent := send(sub.body())
		if strings.Count(sent, "[two]") != 1 || (i > 0) != strings.Contains(sent, "[LOOP DETECTED]") || strings.Contains(sent, "[one]") {
			t.Errorf("sub-agent's repeated turn %d (Precept-Skip %q): the upstream got %s, want [two] exactly once, no [one], and a loop warning after turn 0", i, skip, sent)
		}
		sub.addCall(n, `{"command":"sh build.sh"}`, "Error: no rule to make target\nexit status 2")
		if i == 1 {
			f.stop()
			f = newFixture(t, up, dir, book, flags)
		}
	}
	if _, sent := send(main.body()); strings.Count(sent, "[one]") != 1 {
		t.Errorf(`parent's third turn: count of "[one]" = %d, want 1`, strings.Count(sent, "[one]"))
	} else if strings.Contains(sent, "[two]") {
		t.Errorf(`parent's third turn: sent = %q, want no "[two]"`, sent)
	}
	unit := waitForUnit(t, f, session.NamedID("default", session.NamespaceClaude, "uuid-1"), 1)
	if a := unit.Assignment; len(a.Picks) != 3 || len(a.Matched) != 2 { // two lessons and the loop warning
		t.Errorf("parent's assignment = %+v, want 3 picks and 2 matched lessons", a)
	}
	if x := storedExchangesIn(t, f, session.NamespaceClaude, "uuid-1")["default"]; len(x) != 3 {
		t.Errorf("parent has %d stored exchanges, want 3", len(x))
	}
}

// A sub-agent declared in the request headers gets a separate session in the parent's unit, even if the request has the
// parent's tools and history (Codex copies the history to a sub-agent). The copied history keeps the blocks that
// precept inserted for the parent.
func TestDeclaredSubAgentsShareUnit(t *testing.T) {
	for _, tc := range []struct {
		agent     string
		namespace session.Namespace
		main      http.Header
		sub       func(name string) http.Header
	}{
		{
			"codex", session.NamespaceCodexSession,
			http.Header{"User-Agent": {"codex_exec/0.171.0"}, "Session-Id": {"root"}, "Thread-Id": {"root"}},
			func(name string) http.Header {
				return http.Header{"User-Agent": {"codex_exec/0.171.0"}, "Session-Id": {"root"}, "Thread-Id": {name}, "X-Codex-Parent-Thread-Id": {"root"}}
			},
		},
		{
			"claude", session.NamespaceClaude,
			http.Header{"X-Claude-Code-Session-Id": {"root"}},
			func(name string) http.Header {
				return http.Header{"X-Claude-Code-Session-Id": {"root"}, "X-Claude-Code-Agent-Id": {name}}
			},
		},
		{
			"opencode", session.NamespaceXSession,
			http.Header{"X-Session-Id": {"root"}},
			func(name string) http.Header {
				return http.Header{"X-Session-Id": {name}, "X-Parent-Session-Id": {"root"}}
			},
		},
	} {
		t.Run(tc.agent, func(t *testing.T) {
			n := 0
			up := newUpstream(t, countingModel(&n))
			f := newFixture(t, up, "", newBook(t, "one: fix the build", "two: find the parser"), injectAll())
			send := func(h http.Header, c *agentConversation) string {
				t.Helper()
				h.Set("Authorization", "Bearer k")
				f.send(t, "POST", chatPath, h, c.body())
				return string(up.lastRequest(t).body)
			}
			tools := []string{"bash", "spawn_agent"}
			main := &agentConversation{system: "You build.", tools: tools, list: []obj{{"role": "user", "content": "Please fix the build"}}}
			send(tc.main, main)
			main.addCall(n, `{"command":"ls"}`, "README.md")
			send(tc.main, main)
			fork := &agentConversation{system: "You build.", tools: tools, list: append(slices.Clone(main.list), obj{"role": "user", "content": "Please find the parser"})}
			fresh := &agentConversation{system: "You build.", tools: tools, list: []obj{{"role": "user", "content": "Please find the parser"}}}
			for turn := range 2 {
				if sent := send(tc.sub("fork"), fork); strings.Count(sent, "[one]") != 1 {
					t.Errorf(`turn %d of the fork: count of "[one]" = %d, want 1`, turn, strings.Count(sent, "[one]"))
				} else if strings.Count(sent, "[two]") != 1 {
					t.Errorf(`turn %d of the fork: count of "[two]" = %d, want 1`, turn, strings.Count(sent, "[two]"))
				}
				fork.addCall(n, `{"command":"ls src"}`, "parser.go")
				if sent := send(tc.sub("fresh"), fresh); strings.Contains(sent, "[one]") {
					t.Errorf(`turn %d of the fresh sub-agent: sent = %q, want no "[one]"`, turn, sent)
				} else if strings.Count(sent, "[two]") != 1 {
					t.Errorf(`turn %d of the fresh sub-agent: count of "[two]" = %d, want 1`, turn, strings.Count(sent, "[two]"))
				}
				fresh.addCall(n, `{"command":"ls src"}`, "parser.go")
			}
			if sent := send(tc.main, main); strings.Count(sent, "[one]") != 1 {
				t.Errorf(`parent's next turn: count of "[one]" = %d, want 1`, strings.Count(sent, "[one]"))
			} else if strings.Contains(sent, "[two]") {
				t.Errorf(`parent's next turn: sent = %q, want no "[two]"`, sent)
			}
			waitForUnit(t, f, session.NamedID("default", tc.namespace, "root"), 2)
			if x := storedExchangesIn(t, f, tc.namespace, "root")["default"]; len(x) != 3 {
				t.Errorf("parent has %d stored exchanges, want 3", len(x))
			}
		})
	}
}

// A sub-agent may have copied the history of its opted-out parent, so precept does not store the sub-agent either.
func TestDeclaredSubAgentOfOptedOutParentIsNotStored(t *testing.T) {
	f := newFixture(t, newUpstream(t, newModel(t)), "", newBook(t, "one: alpha"), injectAll())
	for parent, learn := range map[string]string{"quiet": "off", "open": "on"} {
		f.chat(t, http.Header{"X-Session-Id": {parent}, "Precept-Learn": {learn}}, `{"messages":[{"role":"user","content":"alpha of the `+parent+` parent"}]}`)
		f.chat(t, http.Header{"X-Session-Id": {parent + "-sub"}, "X-Parent-Session-Id": {parent}}, `{"messages":[{"role":"user","content":"alpha of the `+parent+` sub-agent"}]}`)
	}
	for name, want := range map[string]int{"quiet-sub": 0, "open-sub": 1} {
		if x := storedExchangesIn(t, f, session.NamespaceXSession, name)["default"]; len(x) != want {
			t.Errorf("%s has %d stored exchanges, want %d", name, len(x), want)
		}
	}
}

// A run name, even a hostile one, identifies the same run in a header, in the path and in feedback.
func TestHostileRunNameIdentifiesOneRun(t *testing.T) {
	up := newUpstream(t, newModel(t))
	f := newFixture(t, up, "", newBook(t, "one: alpha"), injectAll())
	long := strings.Repeat("a", 10<<10)
	for i, tc := range []struct{ header, path, name string }{
		{long, "", long},
		{"", "/p/run=" + long, long},
		{"../../etc/passwd", "", "../../etc/passwd"},
		{"", "/p/run=..%2F..%2Fetc%2Fpasswd", "../../etc/passwd"},
		{"a,b=c;{}*:$(id)'\"<img>", "", "a,b=c;{}*:$(id)'\"<img>"},
		{"", "/p/run=a%0d%0aX-Evil:%201", "a\r\nX-Evil: 1"},
		{"", "/p/run=%00", "\x00"},
		{"\xff\xfe", "", "\xff\xfe"},
		{"", "/p/RUN=x,run=y", "x"},
	} {
		h := http.Header{"Authorization": {"Bearer k"}}
		if tc.header != "" {
			h["Precept-Run"] = []string{tc.header}
		}
		before := 0
		if ses := f.Options().Store.AcquireInMemory(session.RunID("default", tc.name)); ses != nil {
			before = ses.Record.Unit.Members
			f.Options().Store.Release(ses, 0)
		}
		res, _ := f.send(t, "POST", tc.path+chatPath, h, fmt.Sprintf(`{"messages":[{"role":"user","content":"alpha %d"}]}`, i))
		if res.StatusCode != http.StatusOK {
			t.Errorf("run name %.40q: status = %d, want 200", tc.name, res.StatusCode)
		}
		if res.Header.Get("X-Evil") != "" {
			t.Errorf(`run name %.40q: X-Evil = %q, want ""`, tc.name, res.Header.Get("X-Evil"))
		}
		got := up.lastRequest(t)
		for k := range got.header {
			if strings.HasPrefix(k, "Precept-") || k == "X-Evil" {
				t.Errorf("run name %.40q: the upstream got header %s", tc.name, k)
			}
		}
		if got.uri != chatPath {
			t.Errorf("run name %.40q: the upstream got path %s, want %s", tc.name, got.uri, chatPath)
		}
		unit := waitForUnit(t, f, session.RunID("default", tc.name), before+1)
		if len(unit.Identity.Name) > session.MaxName || strings.ContainsAny(unit.Identity.Name, "\r\n\x00") {
			t.Errorf("run name %.40q: stored name = %q, want at most %d plain bytes", tc.name, unit.Identity.Name, session.MaxName)
		}
		body, _ := json.Marshal(obj{"run_id": tc.name, "type": "approval"})
		if strings.Contains(tc.name, "\xff") {
			continue
		}
		if res, answer := f.send(t, "POST", "/v1/feedback", h, string(body)); res.StatusCode != http.StatusAccepted {
			t.Errorf("run name %.40q: status = %d, want 202, body %s", tc.name, res.StatusCode, answer)
		} else if !strings.Contains(string(answer), "joined") {
			t.Errorf(`run name %.40q: body = %q, want substring "joined"`, tc.name, string(answer))
		}
	}
	if ses := f.Options().Store.AcquireInMemory(session.RunID("other", "x")); ses != nil {
		t.Error("one tenant's run exists in a different tenant")
	}
}

func TestRunsDoNotShareSessions(t *testing.T) {
	n, fail := 0, true
	up := newUpstream(t, func(w http.ResponseWriter, r *http.Request) {
		n++
		if fail {
			w.WriteHeader(http.StatusInternalServerError)
			return
		}
		_, _ = io.WriteString(w, chatReply(fmt.Sprint("chatcmpl-", n), fmt.Sprintf("This is the answer number %d, which is long enough to be one conversation's own.", n)))
	})
	f := newFixture(t, up, "", newBook(t, "one: alpha"), injectAll())
	send := func(run, name, body string) string {
		t.Helper()
		h := http.Header{"Authorization": {"Bearer k"}, "Precept-Run": {run}}
		if name != "" {
			h.Set("Precept-Session", name)
		}
		res, _ := f.send(t, "POST", chatPath, h, body)
		return res.Header.Get("Precept-Session")
	}
	first := `{"messages":[{"role":"user","content":"alpha"}]}`
	firstSession := send("a", "", first)
	fail = false
	if other := send("b", "", first); other == firstSession {
		t.Errorf("retry in a different run: got session %s, as in the first run, want a new session", other)
	}
	if second := send("a", "", first); second != firstSession {
		t.Errorf("retry in the same run: got session %s, want %s", second, firstSession)
	}
	for _, run := range []string{"a", "b"} {
		if got := send(run, "reviewer", first); got != "reviewer" {
			t.Errorf(`agent reviewer in run %s: got session %q, want "reviewer"`, run, got)
		}
	}
	waitForUnit(t, f, session.RunID("default", "a"), 2)
	waitForUnit(t, f, session.RunID("default", "b"), 2)
	answerText := fmt.Sprintf("This is the answer number %d, which is long enough to be one conversation's own.", 3)
	next := fmt.Sprintf(`{"messages":[{"role":"user","content":"alpha"},{"role":"assistant","content":%q},{"role":"user","content":"go on"}]}`, answerText)
	if continued := send("a", "", next); continued != firstSession {
		t.Errorf("conversation continued in the same run: got session %s, want %s", continued, firstSession)
	}
	if elsewhere := send("c", "", next); elsewhere == firstSession {
		t.Errorf("conversation continued in a different run: got session %s, as in the first run, want a new session", elsewhere)
	}
	waitForUnit(t, f, session.RunID("default", "c"), 1)
}

func TestRunWithOptedOutMembers(t *testing.T) {
	up := newUpstream(t, newModel(t))
	dir := t.TempDir()
	f := newFixture(t, up, dir, newBook(t, "one: alpha"), injectAll())
	send := func(run, learn, text string) {
		h := http.Header{"Authorization": {"Bearer k"}, "Precept-Run": {run}}
		if learn != "" {
			h.Set("Precept-Learn", learn)
		}
		f.chat(t, h, fmt.Sprintf(`{"messages":[{"role":"user","content":"alpha %s"}]}`, text))
		if !strings.Contains(string(up.lastRequest(t).body), "[one]") {
			t.Errorf("Precept-Learn %q: the upstream got %s, want lesson one", learn, up.lastRequest(t).body)
		}
	}
	send("silent-canary-1", "off", "x")
	send("mixed", "off", "secret-canary-2")
	send("mixed", "", "open")
	send("silent-canary-1", "off", "y")
	f.stop()
	f = newFixture(t, up, dir, newBook(t, "one: alpha"), injectAll())
	stored := func(run string) *session.Record {
		ses, _ := f.Options().Store.Acquire(t.Context(), "default", session.RunID("default", run))
		if ses == nil {
			return nil
		}
		defer f.Options().Store.Release(ses, 0)
		return ses.Record
	}
	if rec := stored("silent-canary-1"); rec != nil {
		t.Errorf("run with only opted-out members: got record %+v, want none", rec)
	}
	if rec := stored("mixed"); rec == nil {
		t.Error("the run has no record")
	} else if len(rec.Assignment.Picks) != 1 {
		t.Errorf("Picks = %+v, want 1 pick", rec.Assignment.Picks)
	} else if rec.Assignment.Picks[0].Arm.Slug() != "one" {
		t.Errorf(`Slug = %q, want "one"`, rec.Assignment.Picks[0].Arm.Slug())
	} else if rec.Unit.Members != 2 {
		t.Errorf("Members = %d, want 2", rec.Unit.Members)
	}
}

// The upstream refuses the first member's request because of the inserted lesson. precept notes the refusal in the
// run's record, but other members still get lessons.
func TestRefusedMemberMarksRunRefused(t *testing.T) {
	strict := true
	up := newUpstream(t, func(w http.ResponseWriter, r *http.Request) {
		b, _ := io.ReadAll(r.Body)
		if strict && strings.Contains(string(b), "End of lessons.") {
			w.WriteHeader(http.StatusBadRequest)
			return
		}
		_, _ = io.WriteString(w, chatReply("chatcmpl-1", "fine"))
	})
	f := newFixture(t, up, "", newBook(t, "one: alpha"), injectAll())
	h := http.Header{"Authorization": {"Bearer k"}, "Precept-Run": {"ci-1"}}
	f.chat(t, h, `{"messages":[{"role":"user","content":"alpha, says the first"}]}`)
	strict = false
	f.chat(t, h, `{"messages":[{"role":"user","content":"alpha, says the second"}]}`)
	if !strings.Contains(string(up.lastRequest(t).body), "[one]") {
		t.Errorf("second member: the upstream got %s, want lesson one", up.lastRequest(t).body)
	}
	if unit := waitForUnit(t, f, session.RunID("default", "ci-1"), 2); !unit.Assignment.Refused {
		t.Error("run assignment: Refused = false, want true")
	} else if len(unit.Assignment.Picks) != 1 {
		t.Errorf("run assignment: Picks = %+v, want 1 pick", unit.Assignment.Picks)
	}
}

func TestConcurrentAgentsInRunShareAssignment(t *testing.T) {
	up := newUpstream(t, func(w http.ResponseWriter, r *http.Request) {
		b, _ := io.ReadAll(r.Body)
		var request struct{ Messages []obj }
		_ = json.Unmarshal(b, &request)
		_, _ = io.WriteString(w, chatReply(fmt.Sprintf("chatcmpl-%x", sumFNV(b)), fmt.Sprintf("This is the answer to %d messages of %v.", len(request.Messages), request.Messages[0]["content"])))
	})
	lessons := make([]string, 12)
	for i := range lessons {
		lessons[i] = fmt.Sprintf("l%02d: topic%02d", i, i)
	}
	f := newFixture(t, up, "", newBook(t, lessons...), map[string]string{"bandit.objective": "random", "bandit.epsilon": "0.5", "bandit.control": "0", "debug_headers": "true"})
	var all sync.WaitGroup
	var mu sync.Mutex
	outcomes := map[string]map[string]bool{} // "given" or "withheld", by run and lesson
	for agent := range 12 {
		all.Go(func() {
			h := http.Header{"Authorization": {"Bearer k"}, "Precept-Run": {fmt.Sprint("run-", agent%2)}}
			if agent%3 > 0 { // sub-agents of one named session
				h.Set("Precept-Session", "lead")
			}
			c := &agentConversation{system: fmt.Sprint("You are agent ", agent), tools: []string{fmt.Sprint("tool", agent)}}
			for turn := range 6 {
				c.list = append(c.list, obj{"role": "user", "content": fmt.Sprintf("agent %d: topic%02d and topic%02d", agent, (agent+turn)%12, (agent+2*turn)%12)})
				res, answer := f.send(t, "POST", chatPath, h, c.body())
				var reply struct{ Choices []struct{ Message obj } }
				if err := json.Unmarshal(answer, &reply); err != nil {
					t.Errorf("agent %d, turn %d: %v", agent, turn, err)
					return
				}
				if len(reply.Choices) != 1 {
					t.Errorf("agent %d, turn %d: Choices = %+v, want 1 item", agent, turn, reply.Choices)
					return
				}
				c.list = append(c.list, reply.Choices[0].Message)
				mu.Lock()
				for field, outcome := range map[string]string{"Precept-Lessons": "given", "Precept-Withheld": "withheld"} {
					for slug := range strings.SplitSeq(res.Header.Get(field), ",") {
						if key := fmt.Sprint(agent%2, slug); slug != "" {
							if outcomes[key] == nil {
								outcomes[key] = map[string]bool{}
							}
							outcomes[key][outcome] = true
						}
					}
				}
				mu.Unlock()
				body, _ := json.Marshal(obj{"run_id": fmt.Sprint("run-", agent%2), "type": "score", "score": 0.5, "rater": fmt.Sprint(agent)})
				f.send(t, "POST", "/v1/feedback", h, string(body))
			}
		})
	}
	all.Wait()
	if len(outcomes) < 6 {
		t.Errorf("got outcomes for %d lessons, want at least 6", len(outcomes))
	}
	for key, seen := range outcomes {
		if len(seen) != 1 {
			t.Errorf("run and lesson %s: outcomes = %v, want the same outcome for all agents", key, seen)
		}
	}
}

func sumFNV(b []byte) uint64 {
	h := fnv.New64a()
	_, _ = h.Write(b)
	return h.Sum64()
}
