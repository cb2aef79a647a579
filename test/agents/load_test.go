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

// crowd is the number of simultaneous conversations with the same words.
const crowd = 50

// TestAgentsLoad begins fifty conversations of each framework with the same words at once, and
// compares the requests at the model, the counts of precept and the report.
func TestAgentsLoad(t *testing.T) {
	if os.Getenv("PRECEPT_AGENTS") == "" {
		t.Skip("set PRECEPT_AGENTS=1, or run make agents")
	}
	for _, a := range pythonAgents(agentsHome(t)) {
		t.Run(a.name, func(t *testing.T) {
			if _, err := os.Stat(a.program); err != nil {
				t.Skipf("skipped: %s is not installed; tools/agents.sh prints the reason", a.name)
			}
			a.load(t)
		})
	}
}

// load runs a crowd of copies of the agent at once and checks sessions, counters and rewards.
func (a *agent) load(t *testing.T) {
	t.Helper()
	m := harness.NewModel(t, agentScript())
	m.Gather(crowd)
	tr := newSandboxedAgent(t, a, m)
	p := harness.Start(t, t.TempDir(), append(harness.Always(m, harness.LessonDir(t)), "--reward-close-after", "5s")...)
	tr.tap.redirect(t, p.Data)
	argv := a.ask(tr.box, loopTask, false)
	here, err := filepath.Abs(filepath.Join("testdata", "agents", "load.py"))
	if err != nil {
		t.Fatal(err)
	}
	tr.box.env, tr.box.limit = append(tr.box.env, "LOAD="+strconv.Itoa(crowd)), 4*tr.box.limit
	code, out := tr.box.call(slices.Insert(argv, 1, here), nil)
	if code != 0 {
		t.Fatalf("the crowd of agents ended with exit code %d, want 0; output %s", code, out)
	}
	names, seen := tr.sessionsOfCrowd(t)
	got := counters(t, p)
	for name, want := range map[string]int{
		"precept_sessions_total": crowd, "precept_lessons_injected_total": seen.blocks, "precept_loops_total": seen.loops,
		"precept_lessons_withheld_total": 0, "precept_sessions_excluded_total": 0, "precept_uninspected_total": 0,
	} {
		if got[name] != want {
			t.Errorf("counter %s is %d, want %d", name, got[name], want)
		}
	}
	if n := got["precept_fail_open_total"]; n > 0 { // a look-up has 25 ms, and fifty programs may take the machine for longer
		t.Logf("%d steps failed open", n)
	}
	reward(t, p, names)
	fmt.Printf("%-26s %d sessions, %d blocks, %d warnings\n", a.name, len(names), seen.blocks, seen.loops)
}

// inserted counts the insertions that the model received, each block once for any number of repetitions.
type inserted struct{ blocks, loops int }

// sessionsOfCrowd groups the requests at the model by the first answer of the model, and returns the sessions.
func (tr *sandboxedAgent) sessionsOfCrowd(t *testing.T) (names []string, seen inserted) {
	t.Helper()
	lessons, loops, owner, first := map[string]bool{}, map[string]bool{}, map[string]string{}, map[string]int{}
	for _, r := range tr.mainRequests() {
		name := tr.tap.of(&r).session
		began := strings.Index(r.Raw, "step_0_")
		if n := strings.Count(r.Raw, taskSlug); n != 1 && (!tr.agent.delta || r.Step == 0) {
			t.Errorf("session %s, step %d: got the lesson %d times, want once", name, r.Step, n)
		}
		if !equalWithoutBlocks(r.Raw, string(tr.tap.of(&r).body)) {
			t.Errorf("session %s: the request of step %d without the inserted blocks differs from the agent's request, want equal bytes", name, r.Step)
		}
		if strings.Contains(r.Raw, loopLabel) {
			loops[name] = true
		}
		lessons[name] = true
		if began < 0 {
			first[name]++
			continue
		}
		mark := harness.StepMark.FindString(r.Raw[began:])
		if tr.agent.delta && r.Step > 1 {
			continue // only the first result contains the mark
		}
		if was := owner[mark]; was != "" && was != name {
			t.Errorf("conversation %s: got session %s, want %s as in its earlier requests", mark, name, was)
		}
		owner[mark] = name
	}
	for _, name := range owner {
		names = append(names, name)
	}
	slices.Sort(names)
	if n := len(slices.Compact(slices.Clone(names))); n != crowd || len(owner) != crowd || len(first) != crowd {
		t.Errorf("the model has seen %d conversations, %d sessions and %d sessions with a first request, want %d each", len(owner), n, len(first), crowd)
	}
	if want := map[bool]int{false: crowd}[tr.agent.edits]; len(loops) != want {
		t.Errorf("the model has seen %d sessions with a loop warning, want %d", len(loops), want)
	}
	return names, inserted{blocks: len(lessons) + len(loops), loops: len(loops)}
}

// reward posts a reward for each session, and waits until the report counts all rewards.
func reward(t *testing.T, r *harness.Process, names []string) {
	t.Helper()
	for _, name := range names {
		status, body := harness.Post(t, r.Data+"/v1/feedback", http.Header{"Content-Type": {"application/json"}}, fmt.Sprintf(`{"session_id":%q,"source":"user","type":"score","score":1}`, name))
		if status != http.StatusAccepted || !strings.Contains(body, "joined") {
			t.Fatalf("feedback on %s: got status %d, want 202 and joined; body %s", name, status, body)
		}
	}
	reported(t, r, "", len(names))
}
