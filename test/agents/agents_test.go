package agents

import (
	"bytes"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"time"

	"precept/inject/bank/banktest"
	"precept/test/harness"
)

// agentScript is the loop, then what the follow-up gets.
func agentScript() []harness.Step {
	return append(loopScript(), harness.Step{Command: "sh ./other.sh"}, harness.Step{Text: "The other script works."})
}

// faultScript is short: its faults are what counts.
func faultScript() []harness.Step {
	return []harness.Step{{Command: "sh ./build.sh --target demo"}, {Command: "sh ./other.sh"}, {Command: "cat README.md"}, {Text: "Done."}}
}

// agentFaults hit the first request, the second, the third, and the last: refused, failed, cut,
// ended without an end.
func agentFaults() []harness.Fault {
	return []harness.Fault{
		{Name: "429", At: 1, Times: 1, Status: 429},
		{Name: "500", At: 3, Times: 1, Status: 500},
		{Name: "cut", At: 5, Times: 1, Cut: true},
		{Name: "end", At: 7, Times: 1, Nothing: true},
	}
}

// TestAgents drives real agents directly against the scripted model and through precept, and prints
// what holds for each. It installs nothing (tools/agents.sh does), takes many minutes, and runs
// only when asked for.
func TestAgents(t *testing.T) {
	if os.Getenv("PRECEPT_AGENTS") == "" {
		t.Skip("set PRECEPT_AGENTS=1, or say make agents")
	}
	if signal.Ignored(os.Interrupt) { // by the shell that started us in the background: agents would inherit it, and some are interrupted
		signal.Notify(make(chan os.Signal, 1), os.Interrupt)
	}
	var rows []*row
	for _, a := range agents(agentsHome(t)) {
		t.Run(a.name, func(t *testing.T) {
			if a.program != "" {
				if _, err := os.Stat(a.program); err != nil {
					t.Skipf("skipped: %s is not installed; tools/agents.sh says why", a.name)
				}
			}
			r := &row{name: a.name}
			rows = append(rows, r)
			defer r.report(t)
			r.measure(t, &a)
			fmt.Println(r.line()) // a run takes hours: what is known is not to be lost with the rest
		})
	}
	fmt.Print(matrix(rows)) // not t.Log: the matrix is what the run is for
}

// measure runs an agent as often as its row needs.
func (r *row) measure(t *testing.T, a *agent) {
	t.Helper()
	direct := newBoxed(t, a, harness.NewModel(t, agentScript()))
	direct.turns()
	through := newBoxed(t, a, harness.NewModel(t, agentScript()))
	good := through.proxied(t)
	through.turns()
	r.outcome(direct, through)
	r.lists(through)
	r.blocks(through)
	r.sideRequests(through)
	r.sessions(through)
	through.ask(loopTask, false)
	r.newSession(through)
	r.counted("counts", counters(t, good), 2, map[bool]int{false: 2}[a.edits])

	failing := newBoxed(t, a, harness.NewModel(t, faultScript(), agentFaults()...))
	failing.ask(loopTask, false)
	faulty := newBoxed(t, a, harness.NewModel(t, faultScript(), agentFaults()...))
	p := faulty.proxied(t)
	faulty.ask(loopTask, false)
	r.retries(failing, faulty)
	seen := counters(t, p)
	if a.forgets {
		seen["precept_sessions_total"]--
	}
	r.counted("counts", seen, 1, 0)
	if a.inProcess || a.single {
		r.none("restart")
		r.none("interrupt")
	} else {
		p.Stops()
		faulty.tap.lead(t, harness.Start(t, p.Dir, p.Flags...).Data)
		faulty.ask(followUp, true)
		r.restart(faulty)
		r.measureInterrupt(t, a)
	}
	if a.inProcess {
		r.none("compact")
	} else {
		r.measureCompaction(t, a)
	}
	r.measureRefused(t, a)
	r.measureParallel(t, a)
}

// measureRefused puts an upstream behind precept that takes nothing from it.
func (r *row) measureRefused(t *testing.T, a *agent) {
	t.Helper()
	tr := newBoxed(t, a, harness.NewModel(t, faultScript(), harness.Fault{Name: "strict", Status: 400, Strict: true}))
	p := tr.proxied(t)
	tr.ask(loopTask, false)
	r.refused(tr, counters(t, p)["precept_injection_rejected_total"])
}

// measureParallel starts two agents at once; a second lesson fires on the error that both will see.
func (r *row) measureParallel(t *testing.T, a *agent) {
	t.Helper()
	one := newBoxed(t, a, harness.NewModel(t, agentScript()))
	p := one.proxied(t, errorText)
	two := newBoxed(t, a, one.model)
	two.tap.lead(t, p.Data)
	var both sync.WaitGroup
	both.Go(func() { one.ask(loopTask, false) })
	both.Go(func() { two.ask(loopTask, false) })
	both.Wait()
	r.parallel(one, two)
	r.onError(one)
}

// measureInterrupt has a person press ^C while the second reply is on its way, and go on
// afterwards.
func (r *row) measureInterrupt(t *testing.T, a *agent) {
	t.Helper()
	tr := newBoxed(t, a, harness.NewModel(t, agentScript(), harness.Fault{Name: "hang", At: 2, Times: 1, Hang: true}))
	tr.proxied(t)
	tr.interrupt = tr.model.Hung
	tr.ask(loopTask, false)
	left := time.Now()
	tr.ask(followUp, true)
	r.interrupt(tr, left)
}

// measureCompaction has an agent shorten its history: it is told of a long prompt, or refused one
// that is too long.
func (r *row) measureCompaction(t *testing.T, a *agent) {
	t.Helper()
	script := faultScript()
	var faults []harness.Fault
	if a.overflows {
		faults = []harness.Fault{{Name: "overflow", Status: 400, Overflow: true}}
	} else {
		script[1].Tokens, script[3].Tokens = 395_000, 395_000 // within the task for some agents, at its end for others
	}
	direct := newBoxed(t, a, harness.NewModel(t, script, faults...))
	direct.shorten()
	through := newBoxed(t, a, harness.NewModel(t, script, faults...))
	through.proxied(t)
	through.shorten()
	r.compaction(direct, through)
}

// boxed is one agent in its box, with the model it talks to and, in between, precept or nothing.
type boxed struct {
	t     *testing.T
	agent *agent
	box   *box
	model *harness.Model
	tap   *tap
	// interrupt gets a value when a person is to press ^C
	interrupt <-chan struct{}
	codes     []int
	outs      []string
	ends      []int // how many requests had reached the model at the end of each call
}

// newBoxed is one without precept, until proxied is called.
func newBoxed(t *testing.T, a *agent, m *harness.Model) *boxed {
	t.Helper()
	tr := &boxed{t: t, agent: a, model: m, tap: newTap(t, m.URL)}
	tr.box, m.Form = newBox(t, tr.tap.URL), a.form
	a.prepare(tr.box)
	t.Cleanup(tr.keep)
	return tr
}

// proxied puts a precept of its own between the agent and the model. Its lesson fires on the task;
// a keyword adds another one.
func (tr *boxed) proxied(t *testing.T, keywords ...string) *harness.Process {
	t.Helper()
	lessons := harness.LessonDir(t)
	for _, k := range keywords {
		banktest.WriteLesson(t, lessons, errorSlug, k)
	}
	p := harness.Start(t, t.TempDir(), harness.Always(tr.model, lessons)...)
	tr.tap.lead(t, p.Data)
	return p
}

// turns asks, and asks again in the same conversation.
func (tr *boxed) turns() {
	tr.ask(loopTask, false)
	if !tr.agent.inProcess && !tr.agent.single {
		tr.ask(followUp, true)
	}
}

// shorten asks, has the history shortened where that takes a word, and asks again.
func (tr *boxed) shorten() {
	if tr.agent.compacts == "" {
		tr.turns()
		return
	}
	tr.ask(loopTask, false)
	tr.ask(tr.agent.compacts, true)
	tr.ask(followUp, true)
}

func (tr *boxed) ask(words string, again bool) {
	code, out := tr.box.call(tr.agent.ask(tr.box, words, again), tr.interrupt)
	tr.codes, tr.outs, tr.ends = append(tr.codes, code), append(tr.outs, out), append(tr.ends, len(tr.all()))
}

// all are the requests of this trial's agent that reached the model. What precept sent a second
// time counts once.
func (tr *boxed) all() []harness.Asked {
	seen := map[int]bool{}
	return slices.DeleteFunc(tr.model.All(), func(a harness.Asked) bool {
		n, ours := tr.tap.number(a.Header)
		drop := !ours || seen[n]
		seen[n] = seen[n] || ours
		return drop
	})
}

// mains are those of them that are the conversation.
func (tr *boxed) mains() []harness.Asked {
	return slices.DeleteFunc(tr.all(), func(a harness.Asked) bool { return !a.Main })
}

// calls are the main requests of each command.
func (tr *boxed) calls() (out [][]harness.Asked) {
	all, from := tr.all(), 0
	for _, to := range tr.ends {
		out = append(out, slices.DeleteFunc(slices.Clone(all[from:to]), func(a harness.Asked) bool { return !a.Main }))
		from = to
	}
	return out
}

// keep leaves what was sent and printed in AGENTS_KEEP, for a person to look at.
func (tr *boxed) keep() {
	dir := os.Getenv("AGENTS_KEEP")
	if dir == "" {
		return
	}
	var b bytes.Buffer
	for i, a := range tr.all() {
		s := tr.tap.of(&a)
		fmt.Fprintf(&b, "%d %s main=%v step=%d fault=%v session=%q status=%d\nSENT %s\nGOT  %s\n", i, a.Kind, a.Main, a.Step, a.Fault != nil, s.session, s.status, s.body, a.Raw)
	}
	fmt.Fprintf(&b, "OTHERS %q\n", tr.model.OtherRequests())
	for i, out := range tr.outs {
		fmt.Fprintf(&b, "CALL %d exit %d\n%s\n", i, tr.codes[i], out)
	}
	how := map[bool]string{true: "direct", false: "through"}[tr.tap.to().String() == tr.model.URL]
	name := fmt.Sprintf("%s-%s-%d-%s.txt", tr.agent.name, how, len(tr.model.Faults), tr.tap.name)
	if err := os.WriteFile(filepath.Join(dir, name), b.Bytes(), 0o600); err != nil {
		tr.t.Log(err)
	}
}
