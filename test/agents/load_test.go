package agents

import (
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"precept/test/harness"
)

const crowdSize = 50 // number of agents that run at the same time

func TestAgentsLoad(t *testing.T) {
	if os.Getenv("PRECEPT_AGENTS") == "" {
		t.Skip("set PRECEPT_AGENTS=1, or run make agents")
	}
	for _, a := range pythonAgents(agentsHome(t)) {
		t.Run(a.name, func(t *testing.T) {
			if _, err := os.Stat(a.program); err != nil {
				t.Skipf("%s is not installed; tools/agents.sh prints the reason", a.name)
			}
			a.runLoad(t)
		})
	}
}

func (a *agent) runLoad(t *testing.T) {
	t.Helper()
	m := harness.NewModel(t, agentScript())
	m.Gather(crowdSize)
	agentRun := newSandboxedAgent(t, a, m)
	p := harness.Start(t, t.TempDir(), append(harness.AlwaysInject(m, harness.LessonDir(t)), "--reward-close-after", "5s")...)
	agentRun.tap.redirect(t, p.DataURL)
	argv := a.ask(agentRun.box, loopTask, false)
	scriptPath, err := filepath.Abs(filepath.Join("testdata", "agents", "load.py"))
	if err != nil {
		t.Fatal(err)
	}
	agentRun.box.env, agentRun.box.limit = append(agentRun.box.env, "LOAD="+strconv.Itoa(crowdSize)), 4*agentRun.box.limit
	code, out := agentRun.box.call(slices.Insert(argv, 1, scriptPath), nil)
	if code != 0 {
		t.Fatalf("%d agents at the same time: got exit code %d, output %s, want 0", crowdSize, code, out)
	}
	names, seen := agentRun.crowdSessions(t)
	got := readCounters(t, p)
	for name, want := range map[string]int{
		"precept_sessions_total": crowdSize, "precept_lessons_injected_total": seen.blocks, "precept_loops_total": seen.loops,
		"precept_lessons_withheld_total": 0, "precept_sessions_excluded_total": 0, "precept_uninspected_total": 0,
	} {
		if got[name] != want {
			t.Errorf("%s = %d, want %d", name, got[name], want)
		}
	}
	if n := got["precept_fail_open_total"]; n > 0 { // so many programs can delay a look-up beyond limits.lookup_timeout
		t.Logf("%d steps failed open", n)
	}
	rewardSessions(t, p, names)
	fmt.Printf("%-26s %d sessions, %d blocks, %d warnings\n", a.name, len(names), seen.blocks, seen.loops)
}

// insertions counts the lesson blocks and loop warnings that precept inserted.
type insertions struct{ blocks, loops int }

// crowdSessions returns the sessions of all agents that ran at the same time, and counts the insertions in their
// requests. The model's first answer identifies an agent: all requests with this answer must be in one session.
func (s *sandboxedAgent) crowdSessions(t *testing.T) (names []string, seen insertions) {
	t.Helper()
	sessions, loops := map[string]bool{}, map[string]bool{}
	owner, first := map[string]string{}, map[string]int{} // session by mark in the first answer; first requests by session
	for _, r := range s.mainRequests() {
		name := s.tap.agentRequest(&r).session
		markStart := strings.Index(r.Raw, "step_0_") // the ids in the first answer contain the mark
		if n := strings.Count(r.Raw, taskSlug); n != 1 && (!s.agent.sendsDeltas || r.Step == 0) {
			t.Errorf("session %s, step %d: got %d lessons, want 1", name, r.Step, n)
		}
		if !equalWithoutBlocks(r.Raw, string(s.tap.agentRequest(&r).body)) {
			t.Errorf("session %s, step %d: the request differs from the agent's request in more than the blocks", name, r.Step)
		}
		if strings.Contains(r.Raw, loopLabel) {
			loops[name] = true
		}
		sessions[name] = true
		if markStart < 0 {
			first[name]++
			continue
		}
		mark := harness.StepMark.FindString(r.Raw[markStart:])
		if s.agent.sendsDeltas && r.Step > 1 {
			continue // only the result of the first call contains the mark
		}
		if earlier := owner[mark]; earlier != "" && earlier != name {
			t.Errorf("conversation %s: got session %s, want %s as in earlier requests", mark, name, earlier)
		}
		owner[mark] = name
	}
	for _, name := range owner {
		names = append(names, name)
	}
	slices.Sort(names)
	if n := len(slices.Compact(slices.Clone(names))); n != crowdSize || len(owner) != crowdSize || len(first) != crowdSize {
		t.Errorf("got %d conversations, %d sessions and %d sessions with a first request, want %d each", len(owner), n, len(first), crowdSize)
	}
	want := crowdSize
	if s.agent.editsWithoutTools {
		want = 0
	}
	if len(loops) != want {
		t.Errorf("sessions with a loop warning: got %d, want %d", len(loops), want)
	}
	return names, insertions{blocks: len(sessions) + len(loops), loops: len(loops)}
}

func rewardSessions(t *testing.T, p *harness.Process, names []string) {
	t.Helper()
	for _, name := range names {
		status, body := harness.Post(t, p.DataURL+"/v1/feedback", http.Header{"Content-Type": {"application/json"}}, fmt.Sprintf(`{"session_id":%q,"source":"user","type":"score","score":1}`, name))
		if status != http.StatusAccepted || !strings.Contains(body, "joined") {
			t.Fatalf("feedback on %s: got status %d, body %s, want 202 and joined", name, status, body)
		}
	}
	waitForReport(t, p, "", len(names))
}
