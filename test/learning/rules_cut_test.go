package learning

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	"precept/bandit/report"
	"precept/store/storetest"
	"precept/test/harness"
)

// The sections of a rules file. For each session, precept decides at random which sections to cut from the requests.
// newRulesServer configures the shares so that cutSection is always cut, keptSection is never cut, and halfSection is
// cut in half of the sessions.
const (
	cutSection  = "## Voice\n\n- Speak \"plainly\" of <tags> in the café.\n\n"
	keptSection = "## Tests\n\nRun the suite.\n\n"
	halfSection = "## Half\n\n- One of two.\n\n"
	agentPrompt = "You are opencode.\nInstructions from: /shop/AGENTS.md\n# Shop\n\nA shop.\n\n" + cutSection + keptSection + halfSection + "## Last\n\nEnd.\n"
)

// rulesModel is a model that records the requests. It refuses a request that contains "please refuse with STATUS" but
// lacks cutSection.
type rulesModel struct {
	*httptest.Server
	mu     sync.Mutex
	bodies []string
}

func newRulesModel(t *testing.T) *rulesModel {
	t.Helper()
	m := &rulesModel{}
	m.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		raw, _ := io.ReadAll(r.Body)
		body := string(raw)
		m.mu.Lock()
		m.bodies = append(m.bodies, body)
		n := len(m.bodies)
		m.mu.Unlock()
		if _, status, ok := strings.Cut(body, "please refuse with "); ok && !strings.Contains(body, "the café") {
			code, _ := strconv.Atoi(status[:3])
			harness.ReplyJSON(w, code, map[string]any{"error": map[string]any{"message": "no"}})
			return
		}
		if strings.Contains(body, `"stream":true`) {
			w.Header().Set("Content-Type", "text/event-stream")
			_, _ = io.WriteString(w, replyStream(r.URL.Path, n))
			return
		}
		w.Header().Set("Content-Type", "application/json")
		_, _ = io.WriteString(w, replyBody(r.URL.Path, n))
	}))
	t.Cleanup(m.Close)
	return m
}

func replyBody(path string, n int) string {
	switch {
	case strings.HasSuffix(path, "/messages"):
		return fmt.Sprintf(`{"id":"msg_%d","type":"message","role":"assistant","model":"m","content":[{"type":"text","text":"Fine %d."}],"stop_reason":"end_turn","usage":{"input_tokens":3,"output_tokens":1}}`, n, n)
	case strings.HasSuffix(path, "/responses"):
		return fmt.Sprintf(`{"id":"resp_%d","object":"response","status":"completed","output":[{"type":"message","id":"msg_%d","role":"assistant","content":[{"type":"output_text","text":"Fine %d."}]}],"usage":{"input_tokens":3,"output_tokens":1}}`, n, n, n)
	}
	return harness.ChatReply(fmt.Sprint("c", n), fmt.Sprintf("Fine %d.", n))
}

func replyStream(path string, n int) string {
	switch {
	case strings.HasSuffix(path, "/messages"):
		return fmt.Sprintf("event: message_start\ndata: {\"type\":\"message_start\",\"message\":{\"id\":\"msg_%d\",\"role\":\"assistant\",\"content\":[],\"usage\":{\"input_tokens\":3}}}\n\n", n) +
			"event: content_block_start\ndata: {\"type\":\"content_block_start\",\"index\":0,\"content_block\":{\"type\":\"text\",\"text\":\"\"}}\n\n" +
			"event: content_block_delta\ndata: {\"type\":\"content_block_delta\",\"index\":0,\"delta\":{\"type\":\"text_delta\",\"text\":\"Fine.\"}}\n\n" +
			"event: message_stop\ndata: {\"type\":\"message_stop\"}\n\n"
	case strings.HasSuffix(path, "/responses"):
		return "event: response.output_text.delta\ndata: {\"type\":\"response.output_text.delta\",\"delta\":\"Fine.\"}\n\n" +
			"event: response.completed\ndata: {\"type\":\"response.completed\",\"response\":" + replyBody(path, n) + "}\n\n"
	}
	return fmt.Sprintf("data: {\"id\":\"c%d\",\"choices\":[{\"index\":0,\"delta\":{\"role\":\"assistant\",\"content\":\"Fine.\"},\"finish_reason\":\"stop\"}]}\n\ndata: [DONE]\n\n", n)
}

func (m *rulesModel) takeBodies() []string {
	m.mu.Lock()
	defer m.mu.Unlock()
	out := m.bodies
	m.bodies = nil
	return out
}

// jsonString returns s as a JSON string. Like agents, it does not escape <, > and &.
func jsonString(s string) string {
	var b strings.Builder
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	_ = enc.Encode(s)
	return strings.TrimSuffix(b.String(), "\n")
}

func unquotedJSON(s string) string { return strings.Trim(jsonString(s), `"`) }

const toolsJSON = `,"tools":[{"type":"function","function":{"name":"bash","parameters":{}}}]`

// dialectRequest returns the path and the body of a request. Each message consists of a role and a text.
func dialectRequest(dialect, system string, stream bool, messages ...[2]string) (path, body string) {
	var list []string
	for _, m := range messages {
		list = append(list, fmt.Sprintf(`{"role":%q,"content":%s}`, m[0], jsonString(m[1])))
	}
	switch dialect {
	case "messages":
		return "/v1/messages", fmt.Sprintf(`{"model":"m","max_tokens":9,"stream":%t,"system":[{"type":"text","text":%s}],"tools":[{"name":"bash","input_schema":{}}],"messages":[%s]}`, stream, jsonString(system), strings.Join(list, ","))
	case "responses":
		return "/v1/responses", fmt.Sprintf(`{"model":"m","stream":%t,"instructions":%s,"tools":[{"type":"function","name":"bash","parameters":{}}],"input":[%s]}`, stream, jsonString(system), strings.Join(list, ","))
	}
	list = slices.Insert(list, 0, fmt.Sprintf(`{"role":"system","content":%s}`, jsonString(system)))
	return "/v1/chat/completions", fmt.Sprintf(`{"model":"m","stream":%t,"messages":[%s]%s}`, stream, strings.Join(list, ","), toolsJSON)
}

type rulesServer struct {
	*harness.Process
	t     *testing.T
	model *rulesModel
	args  []string
}

// newRulesServer starts a server that measures three sections in an AGENTS.md.
func newRulesServer(t *testing.T) *rulesServer {
	t.Helper()
	lessons, data := t.TempDir(), t.TempDir()
	file := filepath.Join(t.TempDir(), "AGENTS.md")
	if err := os.WriteFile(file, []byte(agentPrompt[strings.Index(agentPrompt, "# Shop"):]), 0o600); err != nil {
		t.Fatal(err)
	}
	// A share of 0 or 1 is invalid, so the test uses the nearest valid values.
	for section, share := range map[string]string{"Voice": "0.99999", "Tests": "0.00001", "Half": "0.5"} {
		harness.MustRun(t, "rules", "measure", file, "--section", section, "--share", share, "--data-dir", data, "--lessons", lessons)
	}
	s := &rulesServer{t: t, model: newRulesModel(t)}
	s.args = []string{"--upstream", s.model.URL + "/v1", "--lessons", lessons, "--bandit-control", "0", "--reward-close-after", "2s", "--learning-opt-out-agents", "private"}
	s.Process = harness.Start(t, data, s.args...)
	return s
}

func (s *rulesServer) send(header http.Header, path, body string) []string {
	s.t.Helper()
	s.model.takeBodies()
	if status, answer := harness.Post(s.t, s.DataURL+path, header, body); status != http.StatusOK || !strings.Contains(answer, "Fine") {
		s.t.Fatalf("POST %s: got status %d, answer %s, want 200 and the model's answer", path, status, answer)
	}
	return s.model.takeBodies()
}

// bodyAfterCuts returns the body that the model should receive if the client sends body. sent lists the bodies that the
// model actually received. halfCut is true if the first body in sent lacks halfSection.
func bodyAfterCuts(body string, sent []string) (want string, halfCut bool) {
	want = strings.Replace(body, unquotedJSON(cutSection), "", 1)
	if halfCut = len(sent) > 0 && !strings.Contains(sent[0], "One of two"); halfCut {
		want = strings.Replace(want, unquotedJSON(halfSection), "", 1)
	}
	return want, halfCut
}

func TestSectionsAreCutFromMainRequestsOnly(t *testing.T) {
	t.Parallel()
	s := newRulesServer(t)
	user := func(text string) [2]string { return [2]string{"user", text} }
	sessionName := func(dialect string, stream bool) string { return fmt.Sprintf("%s-stream-%t", dialect, stream) }
	for _, dialect := range []string{"chat", "responses", "messages"} {
		for _, stream := range []bool{false, true} {
			path, body := dialectRequest(dialect, agentPrompt, stream, user("Fix the till."))
			sent := s.send(http.Header{"Precept-Session": {sessionName(dialect, stream)}}, path, body)
			if want, _ := bodyAfterCuts(body, sent); len(sent) != 1 || sent[0] != want {
				t.Errorf("%s, stream %t: the model got\n%s\nwant\n%s", dialect, stream, sent, want)
			}
		}
	}

	path, body := dialectRequest("chat", agentPrompt, unstreamed, user("Fix the door."))
	for name, header := range map[string]http.Header{
		"Precept-Rules: off": {"Precept-Rules": {"off"}, "Precept-Session": {"off"}},
		"Precept-Learn: off": {"Precept-Learn": {"off"}, "Precept-Session": {"unlearned"}},
		"an opted-out agent": {"Precept-Agent": {"private"}, "Precept-Session": {"private"}},
		"Precept-Rules: off in a session that already has cuts": {"Precept-Rules": {"off"}, "Precept-Session": {sessionName("chat", unstreamed)}},
		"Precept-Learn: off, no session":                        {"Precept-Learn": {"off"}},
	} {
		if sent := s.send(header, path, body); len(sent) != 1 || sent[0] != body {
			t.Errorf("%s: the model got\n%s\nwant the unchanged bytes from the client\n%s", name, sent, body)
		}
	}

	// A request for a title is a side request, and precept cuts nothing from side requests.
	path, body = dialectRequest("chat", "Generate a short title for this conversation.\n"+agentPrompt, unstreamed, user("Fix the till."))
	body = strings.Replace(body, toolsJSON, "", 1)
	if sent := s.send(http.Header{"Precept-Session": {sessionName("chat", unstreamed)}}, path, body); len(sent) != 1 || sent[0] != body {
		t.Errorf("side request: the model got\n%s\nwant the unchanged bytes from the client\n%s", sent, body)
	}
}

// precept cuts the same sections from every request in a session, even after a retry, a fork or a compaction of the
// history, and after the server was killed.
func TestSectionCutsAreEqualInSession(t *testing.T) {
	t.Parallel()
	s := newRulesServer(t)
	halfCuts := map[bool]int{}
	wasHalfCut := map[string]bool{}
	turn := func(name, step string, messages ...[2]string) {
		t.Helper()
		for _, dialect := range []string{"chat", "responses", "messages"} {
			session := name + dialect
			path, body := dialectRequest(dialect, agentPrompt, unstreamed, messages...)
			sent := s.send(http.Header{"Precept-Session": {session}}, path, body)
			want, halfCut := bodyAfterCuts(body, sent)
			if before, ok := wasHalfCut[session]; ok && before != halfCut || len(sent) != 1 || sent[0] != want {
				t.Errorf("%s, %s: the model got\n%s\nwant\n%s", session, step, sent, want)
			}
			wasHalfCut[session] = halfCut
			if step == "first" {
				halfCuts[halfCut]++
			}
		}
	}
	const sessions = 4
	sendAll := func(step string, messages ...[2]string) {
		t.Helper()
		for i := range sessions {
			turn(fmt.Sprint("s", i), step, messages...)
		}
	}
	first, answer := [2]string{"user", "Fix the till."}, [2]string{"assistant", "Fine."}
	sendAll("first", first)
	sendAll("a retry", first)
	sendAll("the next turn", first, answer, [2]string{"user", "And the door."})
	sendAll("a fork", first, answer, [2]string{"user", "Or the roof."})
	sendAll("a compaction", [2]string{"user", "Summary: the till works. Go on."})
	s.WaitUntilDrained(s.Dir)
	s.Kill()
	s.Process = harness.Start(t, s.Dir, s.args...)
	sendAll("after a kill", first, answer, [2]string{"user", "And the door."}, answer, [2]string{"user", "And the floor."})
	s.Stop()
	s.Process = harness.Start(t, s.Dir, s.args...)
	sendAll("after a restart", first, answer, [2]string{"user", "Or the roof."}, answer, [2]string{"user", "And the wall."})
	if halfCuts[true] == 0 || halfCuts[false] == 0 {
		t.Errorf("sessions without halfSection: got %d, want 1 to 11 of 12", halfCuts[true])
	}
}

func TestReplicasCutSameSections(t *testing.T) {
	t.Parallel()
	url := storetest.StartRedis(t).URL()
	model := newRulesModel(t)
	args := []string{"--upstream", model.URL + "/v1", "--store-url", url, "--lessons", "redis://", "--bandit-control", "0"}
	servers := []*rulesServer{{t: t, model: model}, {t: t, model: model}}
	for _, s := range servers {
		s.Process = harness.Start(t, t.TempDir(), args...)
	}
	file := filepath.Join(t.TempDir(), "AGENTS.md")
	if err := os.WriteFile(file, []byte(agentPrompt[strings.Index(agentPrompt, "# Shop"):]), 0o600); err != nil {
		t.Fatal(err)
	}
	shared := []string{"--store-url", url, "--lessons", "redis://", "--data-dir", t.TempDir()}
	harness.MustRun(t, append([]string{"rules", "measure", file, "--section", "Half"}, shared...)...)
	if list := harness.MustRun(t, append([]string{"rules", "list"}, shared...)...); !strings.Contains(list, "Half") {
		t.Errorf("rules list = %q, want section Half", list)
	}
	if list := harness.MustRun(t, append([]string{"rules", "list", "--tenant", "other"}, shared...)...); !strings.Contains(list, "Half") || !strings.Contains(list, "0/0") {
		t.Errorf("rules list for a second tenant = %q, want section Half with 0/0 sessions", list)
	}

	path, body := dialectRequest("chat", agentPrompt, unstreamed, [2]string{"user", "Fix the till."})
	next := strings.Replace(body, "]"+toolsJSON, `,{"role":"assistant","content":"Fine."},{"role":"user","content":"And the door."}]`+toolsJSON, 1)
	isCut := func(s *rulesServer, name, body string) bool {
		sent := s.send(http.Header{"Precept-Session": {name}}, path, body)
		return len(sent) == 1 && !strings.Contains(sent[0], "One of two")
	}
	n, seen := 0, map[string]bool{}
	harness.Eventually(t, "sessions with and without the section on each replica", func() bool {
		n++
		name := fmt.Sprint("s", n)
		first, second := servers[n%2], servers[(n+1)%2]
		before := isCut(first, name, body)
		if after := isCut(second, name, next); after != before {
			t.Fatalf("session %s: section cut by the second replica = %[3]t, want %[2]t, as by the first replica", name, before, after)
		}
		seen[fmt.Sprint(first.Dir, before)] = true
		return len(seen) == 4
	})

	harness.MustRun(t, append([]string{"rules", "stop", file}, shared...)...)
	harness.Eventually(t, "new sessions with the section on both replicas", func() bool {
		n++
		return !isCut(servers[0], fmt.Sprint("s", n, "a"), body) && !isCut(servers[1], fmt.Sprint("s", n, "b"), body) && !isCut(servers[0], fmt.Sprint("s", n, "c"), body) && !isCut(servers[1], fmt.Sprint("s", n, "d"), body)
	})
}

// If the model refuses a request from which sections were cut, precept sends the unchanged request once. For the rest
// of the session, precept cuts no sections.
func TestRefusedRequestIsRetriedWithAllSections(t *testing.T) {
	t.Parallel()
	s := newRulesServer(t)
	sessions := 0
	for _, dialect := range []string{"chat", "responses", "messages"} {
		for _, status := range []int{400, 413, 422} {
			sessions++
			header := http.Header{"Precept-Session": {fmt.Sprint("refused-", sessions)}}
			first := [2]string{"user", fmt.Sprintf("Fix it, please refuse with %d.", status)}
			path, body := dialectRequest(dialect, agentPrompt, status == 413, first)
			sent := s.send(header, path, body)
			if want, _ := bodyAfterCuts(body, sent); len(sent) != 2 || sent[0] != want || sent[1] != body {
				t.Errorf("%s %d: the model got\n%q\nwant the request without the sections, and then the unchanged bytes from the client", dialect, status, sent)
			}
			path, body = dialectRequest(dialect, agentPrompt, unstreamed, first, [2]string{"assistant", "Fine."}, [2]string{"user", "And the door."})
			if sent := s.send(header, path, body); len(sent) != 1 || sent[0] != body {
				t.Errorf("%s %d, next turn: the model got\n%q\nwant the unchanged bytes from the client, once", dialect, status, sent)
			}
		}
	}
	path, body := dialectRequest("chat", agentPrompt, unstreamed, [2]string{"user", "Fix it."})
	s.send(http.Header{"Precept-Session": {"accepted"}}, path, body)
	var r report.Report
	row := func(section string) (out report.Row) {
		for i := range r.Lessons {
			if r.Lessons[i].Slug == "rule:AGENTS.md#"+section {
				out = r.Lessons[i]
			}
		}
		return out
	}
	s.Eventually("all sessions to close", func() bool {
		r = report.Report{}
		return s.GetAdmin(t, "/api/report", &r) == http.StatusOK && row("Voice").Picked == int64(sessions)+1
	})
	voice, tests, half := row("Voice"), row("Tests"), row("Half")
	if voice.RefusedWithout != int64(sessions) || voice.RefusedWith != 0 || tests.RefusedWith != int64(sessions) || half.RefusedWith+half.RefusedWithout != int64(sessions) {
		t.Errorf("sessions with a refused request, with/without the section: Voice %d/%d, Tests %d/%d, Half %d/%d; want 0/%d, %d/0, and %d in total",
			voice.RefusedWith, voice.RefusedWithout, tests.RefusedWith, tests.RefusedWithout, half.RefusedWith, half.RefusedWithout, sessions, sessions, sessions)
	}
	if want := fmt.Sprintf("precept_injection_rejected_total %d\n", sessions); !strings.Contains(s.Metrics(t, ""), want) {
		t.Errorf("/metrics lacks %q", want)
	}
}
