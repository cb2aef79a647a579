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

// agentScript returns the steps in loopScript and a follow-up turn. The follow-up repeats no command, because gptme
// asks for the next step itself, and a repetition would then be a second loop.
func agentScript() []harness.Step {
	return append(loopScript(), harness.Step{Command: "cat README.md"}, harness.Step{Text: "The other script works."})
}

func faultScript() []harness.Step {
	return []harness.Step{{Command: "sh ./build.sh --target demo"}, {Command: "sh ./other.sh"}, {Command: "cat README.md"}, {Text: "Done."}}
}

func agentFaults() []harness.Fault {
	return []harness.Fault{
		{Name: "429", FirstRequest: 1, Times: 1, Status: 429},
		{Name: "500", FirstRequest: 3, Times: 1, Status: 500},
		{Name: "cut", FirstRequest: 5, Times: 1, Cut: true},
		{Name: "end", FirstRequest: 7, Times: 1, Unfinished: true},
	}
}

// TestAgents runs each real agent twice, directly against the scripted model and through precept, and prints a row of
// results. It takes hours. The script tools/agents.sh installs the agents.
func TestAgents(t *testing.T) {
	if os.Getenv("PRECEPT_AGENTS") == "" {
		t.Skip("set PRECEPT_AGENTS=1, or run make agents")
	}
	if signal.Ignored(os.Interrupt) { // a background shell ignores SIGINT, and agents would inherit the setting
		signal.Notify(make(chan os.Signal, 1), os.Interrupt)
	}
	var rows []*row
	for _, a := range agents(agentsHome(t)) {
		t.Run(a.name, func(t *testing.T) {
			if a.program != "" {
				if _, err := os.Stat(a.program); err != nil {
					t.Skipf("%s is not installed; tools/agents.sh prints the reason", a.name)
				}
			}
			r := &row{name: a.name}
			rows = append(rows, r)
			defer r.report(t)
			if os.Getenv("AGENTS_RULES") == "" {
				r.measure(t, &a)
			}
			r.measureRules(t, &a)
			fmt.Println(r.line()) // printed at once, because a run takes hours and may be aborted
		})
	}
	fmt.Print(matrix(rows)) // not with t.Log, because the matrix is the result of the run
}

func (r *row) measure(t *testing.T, a *agent) {
	t.Helper()
	direct := newSandboxedAgent(t, a, harness.NewModel(t, agentScript()))
	direct.runTurns()
	through := newSandboxedAgent(t, a, harness.NewModel(t, agentScript()))
	proxied := through.startPrecept(t)
	through.runTurns()
	r.checkOutcome(direct, through)
	r.checkLists(through)
	r.checkBlocks(through)
	r.checkSideRequests(through)
	r.checkSessions(through)
	through.ask(loopTask, false)
	r.checkNewSession(through)
	const conversations = 2
	loops := conversations // one loop in each
	if a.editsWithoutTools {
		loops = 0
	}
	r.checkCounts("counts", readCounters(t, proxied), conversations, loops)

	directFaulty := newSandboxedAgent(t, a, harness.NewModel(t, faultScript(), agentFaults()...))
	directFaulty.ask(loopTask, false)
	throughFaulty := newSandboxedAgent(t, a, harness.NewModel(t, faultScript(), agentFaults()...))
	p := throughFaulty.startPrecept(t)
	throughFaulty.ask(loopTask, false)
	r.checkRetries(directFaulty, throughFaulty)
	seen := readCounters(t, p)
	if a.dropsFailedTurn {
		seen["precept_sessions_total"]--
	}
	r.checkCounts("counts", seen, 1, 0) // one conversation without a loop
	if a.inProcess || a.cannotResume {
		r.notApplicable("restart")
		r.notApplicable("interrupt")
	} else {
		p.Stop()
		throughFaulty.tap.redirect(t, harness.Start(t, p.Dir, p.Flags...).DataURL)
		throughFaulty.ask(followUp, true)
		r.checkRestart(throughFaulty)
		r.measureInterrupt(t, a)
	}
	if a.inProcess {
		r.notApplicable("compact")
	} else {
		r.measureCompaction(t, a)
	}
	r.measureRefused(t, a)
	r.measureParallel(t, a)
}

func (r *row) measureRefused(t *testing.T, a *agent) {
	t.Helper()
	agentRun := newSandboxedAgent(t, a, harness.NewModel(t, faultScript(), harness.Fault{Name: "strict", Status: 400, RefuseLessons: true}))
	p := agentRun.startPrecept(t)
	agentRun.ask(loopTask, false)
	r.checkRefused(agentRun, readCounters(t, p)["precept_injection_rejected_total"])
}

// measureParallel runs two copies of an agent at the same time. Both get a tool error that a second lesson matches.
func (r *row) measureParallel(t *testing.T, a *agent) {
	t.Helper()
	one := newSandboxedAgent(t, a, harness.NewModel(t, agentScript()))
	p := one.startPrecept(t, errorText)
	two := newSandboxedAgent(t, a, one.model)
	two.tap.redirect(t, p.DataURL)
	var both sync.WaitGroup
	both.Go(func() { one.ask(loopTask, false) })
	both.Go(func() { two.ask(loopTask, false) })
	both.Wait()
	r.checkParallel(one, two)
	r.checkErrorLesson(one)
}

func (r *row) measureInterrupt(t *testing.T, a *agent) {
	t.Helper()
	agentRun := newSandboxedAgent(t, a, harness.NewModel(t, agentScript(), harness.Fault{Name: "hang", FirstRequest: 2, Times: 1, Hang: true}))
	agentRun.startPrecept(t)
	agentRun.interrupt = agentRun.model.Hung
	agentRun.ask(loopTask, false)
	agentEnded := time.Now()
	agentRun.ask(followUp, true)
	r.checkInterrupt(agentRun, agentEnded)
}

// measureCompaction makes an agent shorten the history. The model either reports that the prompt was long, or refuses a
// request as too long.
func (r *row) measureCompaction(t *testing.T, a *agent) {
	t.Helper()
	script := faultScript()
	var faults []harness.Fault
	if a.compactsOnOverflow {
		faults = []harness.Fault{{Name: "overflow", Status: 400, Overflow: true}}
	} else {
		script[1].Tokens, script[3].Tokens = 395_000, 395_000 // some agents shorten the history during the task, others at the end
	}
	direct := newSandboxedAgent(t, a, harness.NewModel(t, script, faults...))
	direct.runWithCompaction()
	through := newSandboxedAgent(t, a, harness.NewModel(t, script, faults...))
	through.startPrecept(t)
	through.runWithCompaction()
	r.checkCompaction(direct, through)
}

// sandboxedAgent is an agent with its own home directory and project. The tap records the agent's requests and forwards
// them to precept, or in a direct run to the model.
type sandboxedAgent struct {
	t             *testing.T
	agent         *agent
	box           *sandbox
	model         *harness.Model
	tap           *tap
	interrupt     <-chan struct{} // if a value arrives, ask sends ^C to the agent
	exitCodes     []int
	outputs       []string
	requestsAtEnd []int // for each call, how many requests had reached the model when the call ended
}

// newSandboxedAgent returns an agent that sends requests directly to the model until startPrecept is called.
func newSandboxedAgent(t *testing.T, a *agent, m *harness.Model) *sandboxedAgent {
	t.Helper()
	s := &sandboxedAgent{t: t, agent: a, model: m, tap: newTap(t, m.URL)}
	s.box, m.FormatCommand = newSandbox(t, s.tap.URL), a.formatReply
	a.prepare(s.box)
	t.Cleanup(s.saveRecords)
	return s
}

func (s *sandboxedAgent) startPrecept(t *testing.T, keywords ...string) *harness.Process {
	t.Helper()
	lessons := harness.LessonDir(t)
	for _, k := range keywords {
		banktest.WriteLesson(t, lessons, errorSlug, k)
	}
	p := harness.Start(t, t.TempDir(), harness.AlwaysInject(s.model, lessons)...)
	s.tap.redirect(t, p.DataURL)
	return p
}

func (s *sandboxedAgent) runTurns() {
	s.ask(loopTask, false)
	if !s.agent.inProcess && !s.agent.cannotResume {
		s.ask(followUp, true)
	}
}

func (s *sandboxedAgent) runWithCompaction() {
	if s.agent.compactMessage == "" {
		s.runTurns()
		return
	}
	s.ask(loopTask, false)
	s.ask(s.agent.compactMessage, true)
	s.ask(followUp, true)
}

func (s *sandboxedAgent) ask(text string, resume bool) {
	code, out := s.box.call(s.agent.ask(s.box, text, resume), s.interrupt)
	s.exitCodes, s.outputs, s.requestsAtEnd = append(s.exitCodes, code), append(s.outputs, out), append(s.requestsAtEnd, len(s.requests()))
}

// requests returns the requests that reached the model. A request that precept sent twice is returned once.
func (s *sandboxedAgent) requests() []harness.ModelRequest {
	seen := map[int]bool{}
	return slices.DeleteFunc(s.model.GenerationRequests(), func(a harness.ModelRequest) bool {
		n, ours := s.tap.requestNumber(a.Header)
		drop := !ours || seen[n]
		seen[n] = seen[n] || ours
		return drop
	})
}

func (s *sandboxedAgent) mainRequests() []harness.ModelRequest {
	return slices.DeleteFunc(s.requests(), func(a harness.ModelRequest) bool { return !a.IsMain })
}

// requestsByCall returns the main requests, grouped by agent command.
func (s *sandboxedAgent) requestsByCall() (out [][]harness.ModelRequest) {
	all, from := s.requests(), 0
	for _, to := range s.requestsAtEnd {
		out = append(out, slices.DeleteFunc(slices.Clone(all[from:to]), func(a harness.ModelRequest) bool { return !a.IsMain }))
		from = to
	}
	return out
}

// saveRecords writes the requests and outputs to a file in the directory that AGENTS_KEEP names, if this variable is
// set.
func (s *sandboxedAgent) saveRecords() {
	dir := os.Getenv("AGENTS_KEEP")
	if dir == "" {
		return
	}
	var b bytes.Buffer
	for i, a := range s.requests() {
		sent := s.tap.agentRequest(&a)
		fmt.Fprintf(&b, "%d %s main=%v step=%d fault=%v session=%q status=%d\nSENT %s\nGOT  %s\n", i, a.Kind, a.IsMain, a.Step, a.Fault != nil, sent.session, sent.status, sent.body, a.Raw)
	}
	fmt.Fprintf(&b, "OTHERS %q\n", s.model.OtherRequests())
	for i, out := range s.outputs {
		fmt.Fprintf(&b, "CALL %d exit %d\n%s\n", i, s.exitCodes[i], out)
	}
	mode := "through"
	if s.tap.currentTarget().String() == s.model.URL {
		mode = "direct"
	}
	name := fmt.Sprintf("%s-%s-%d-%s.txt", s.agent.name, mode, len(s.model.Faults), s.tap.name)
	if err := os.WriteFile(filepath.Join(dir, name), b.Bytes(), 0o600); err != nil {
		s.t.Log(err)
	}
}
