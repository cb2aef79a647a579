package inject

import (
	"fmt"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"precept/bandit"
	"precept/bandit/trial"
	"precept/inject/rules"
	"precept/internal/session"
	"precept/internal/wire"
)

const (
	testSection  = "## Testing\n\n- Run the tests.\n"
	styleSection = "## Style\n\nUse tabs.\n"
)

// noControl and allControl are probabilities that a session is in the control group.
const noControl, allControl = 0.0, 1.0

// rulesFile is a system prompt that contains testSection and styleSection.
const rulesFile = "You are an agent.\nInstructions from: /shop/AGENTS.md\n# Shop\nA shop.\n\n" + testSection + "\n" + styleSection + "\n## Last\nx"

// newMeasuringRegistry returns a registry with a section for each text. The sections have been measured since noon.
func newMeasuringRegistry(t *testing.T, texts ...string) *rules.Registry {
	t.Helper()
	path := filepath.Join(t.TempDir(), rules.RegistryName)
	err := rules.Update(path, func(list []rules.RegisteredSection) ([]rules.RegisteredSection, error) {
		for _, text := range texts {
			list = append(list, rules.RegisteredSection{
				File: "AGENTS.md", Section: strings.Fields(text)[1], Hash: rules.Hash(text), Text: rules.Normalize(text), CutProbability: 0.5,
				State: rules.Measuring, Began: noon,
			})
		}
		return list, nil
	})
	if err != nil {
		t.Fatal(err)
	}
	r, err := rules.Read(path)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

type sectionSession struct {
	t        *testing.T
	injector *Injector
	rec      *session.Record
	unit     *session.Record
	rules    *rules.Registry
	claim    session.Claim
	now      time.Time

	noLearning bool
}

// newSectionSession returns a session that is in the control group with the probability control.
func newSectionSession(t *testing.T, name string, control float64, registry *rules.Registry) *sectionSession {
	t.Helper()
	id := session.NamedID("default", session.NamespaceSession, name)
	return &sectionSession{
		t: t, injector: New(Config{Bandit: bandit.Config{K: 3, Salt: "s", Control: control}}), rules: registry, now: noon,
		rec: session.NewRecord("default", session.Claim{}, session.Resolved{ID: id, Name: name}, noon),
	}
}

// send sends a request, and returns the system prompt that the upstream gets. The roles of the messages alternate
// between user and assistant.
func (s *sectionSession) send(system string, messages ...string) (string, Plan) {
	s.t.Helper()
	s.now = s.now.Add(time.Second)
	body := append([]byte(`{"messages":[{"role":"system","content":`), wire.AppendString(nil, system)...)
	body = append(body, '}')
	for i, w := range messages {
		body = append(body, fmt.Sprintf(`,{"role":"%s","content":%q}`, []string{"user", "assistant"}[i%2], w)...)
	}
	body = append(body, "]}"...)
	out, p := s.sendBody(wire.Chat, body)
	sent, err := wire.Parse(wire.Chat, out)
	if err != nil {
		s.t.Fatal(err)
	}
	return sent.Head()[0].Text, p
}

func (s *sectionSession) sendBody(d wire.Dialect, body []byte) ([]byte, Plan) {
	s.t.Helper()
	req, err := wire.Parse(d, body)
	if err != nil {
		s.t.Fatal(err)
	}
	p := s.injector.Plan(s.rec, Input{Request: req, Claim: s.claim, Beliefs: bandit.New(), Rules: s.rules, Unit: s.unit, Now: s.now, NoLearning: s.noLearning})
	out, err := req.Splice(nil, p.Edits, p.Cuts...)
	if err != nil {
		s.t.Fatal(err)
	}
	return out, p
}

// promptAfterCuts returns rulesFile without the withheld sections.
func promptAfterCuts(s *sectionSession) string {
	text := rulesFile
	for _, p := range s.rec.Assignment.Picks {
		if !p.Injected {
			text = strings.Replace(text, map[string]string{"rule:AGENTS.md#Testing": testSection + "\n", "rule:AGENTS.md#Style": styleSection + "\n"}[p.Slug], "", 1)
		}
	}
	return text
}

func TestSectionsAreCutIndependentlyPerSession(t *testing.T) {
	registry := newMeasuringRegistry(t, testSection, styleSection)
	prompts := map[string]int{}
	for i := range 200 {
		s := newSectionSession(t, fmt.Sprint(i), noControl, registry)
		first, p := s.send(rulesFile, "a")
		if len(p.Picks) != 2 || first != promptAfterCuts(s) {
			t.Fatalf("session %d: picks = %+v, cuts = %v, prompt = %q, want 2 picks and the prompt without the withheld sections", i, p.Picks, p.Cuts, first)
		}
		prompts[first]++
		for range 2 { // next turn, and retry
			if next, p := s.send(rulesFile, "a", "b", "c"); next != first || len(p.Picks) != 0 {
				t.Fatalf("session %d: next prompt = %[3]q, want %[2]q", i, first, next)
			}
		}
		if compacted, _ := s.send(rulesFile, "summary"); compacted != first {
			t.Fatalf("session %d: prompt after a compaction = %q, want %q", i, compacted, first)
		}
	}
	for prompt, n := range prompts {
		if n < 25 || len(prompts) != 4 {
			t.Errorf("%d of 200 sessions have prompt %q, and there are %d different prompts; want at least 25 sessions for each of 4 prompts", n, prompt, len(prompts))
		}
	}
}

// newCutSession returns a session in which precept cut both sections from the first request.
func newCutSession(t *testing.T, registry *rules.Registry) *sectionSession {
	t.Helper()
	for i := range 100 {
		s := newSectionSession(t, fmt.Sprint(i), noControl, registry)
		if _, p := s.send(rulesFile, "a"); len(p.CutSlugs) == 2 {
			return s
		}
	}
	t.Fatal("no session in 100 lost both sections, want at least one")
	return nil
}

func TestReasonsToKeepSection(t *testing.T) {
	registry := newMeasuringRegistry(t, testSection, styleSection)
	newSession := func(name string) *sectionSession { return newSectionSession(t, name, noControl, registry) }
	for _, tc := range []struct {
		name   string
		start  func() *sectionSession
		prompt string
		picks  int // picks after the request
	}{
		{"section occurs twice", func() *sectionSession { return newSession("x") }, rulesFile + "\n" + testSection + "\n" + styleSection, 0},
		{"section was edited", func() *sectionSession { return newSession("x") }, strings.NewReplacer("tests.", "test.", "tabs", "blanks").Replace(rulesFile), 0},
		{"control session", func() *sectionSession { return newSectionSession(t, "x", allControl, registry) }, rulesFile, 0},
		{"no section is registered", func() *sectionSession { return newSectionSession(t, "x", noControl, &rules.Registry{}) }, rulesFile, 0},
		{"session started before the measurement", func() *sectionSession {
			s := newSession("x")
			s.rec.Identity.Started = noon.Add(-time.Second)
			return s
		}, rulesFile, 0},
		{"client turned cuts off in a later turn", func() *sectionSession {
			s := newCutSession(t, registry)
			s.claim.RulesOff = true
			return s
		}, rulesFile, 2},
		{"session is not learned from", func() *sectionSession {
			s := newSession("x")
			s.noLearning = true
			return s
		}, rulesFile, 0},
		{"session was assigned before the first section", func() *sectionSession {
			s := newSession("x")
			s.rec.Assignment.Decided = true
			return s
		}, rulesFile, 0},
		{"head is too long", func() *sectionSession { return newSession("x") }, rulesFile + strings.Repeat("\nx", rules.MaxHead/2), 0},
		{"sections are the whole message", func() *sectionSession { return newSession("x") }, testSection + "\n" + styleSection, 0},
		{"upstream refused the cuts", func() *sectionSession {
			s := newCutSession(t, registry)
			s.injector.RecordRefusedCuts(s.rec)
			return s
		}, rulesFile, 2},
		{"upstream refused the changed request", func() *sectionSession {
			s := newCutSession(t, registry)
			s.injector.RecordRefusal(s.rec)
			return s
		}, rulesFile, 2},
		{"section occurs twice in a later turn", func() *sectionSession { return newCutSession(t, registry) }, rulesFile + "\n" + testSection + "\n" + styleSection, 2},
	} {
		s := tc.start()
		got, _ := s.send(tc.prompt, "a", "b", "c")
		if got != tc.prompt || len(s.rec.Assignment.Picks) != tc.picks {
			t.Errorf("%s: got %d picks, want %d; prompt = %q, want %q", tc.name, len(s.rec.Assignment.Picks), tc.picks, got, tc.prompt)
		}
	}
}

func TestRunSessionsShareSectionAssignments(t *testing.T) {
	registry := newMeasuringRegistry(t, testSection, styleSection)
	for i := range 20 {
		run := session.NewRun("default", session.Claim{}, "run", session.NamedID("default", session.NamespaceSession, fmt.Sprint("run", i)), noon)
		one, two := newSectionSession(t, fmt.Sprint("one", i), noControl, registry), newSectionSession(t, fmt.Sprint("two", i), noControl, registry)
		one.unit, two.unit = run, run
		first, _ := one.send(rulesFile, "a")
		if second, p := two.send(rulesFile, "other"); second != first || len(p.Picks) != 0 {
			t.Fatalf("run %d: second session's prompt = %[3]q, want %[2]q", i, first, second)
		}
	}
}

func TestSessionsKeepCutsAfterMeasurementStops(t *testing.T) {
	registry := newMeasuringRegistry(t, testSection, styleSection)
	s := newCutSession(t, registry)
	before := promptAfterCuts(s)
	for i := range registry.Sections {
		registry.Sections[i].State = rules.Stopped
	}
	if got, _ := s.send(rulesFile, "a", "b", "c"); got != before {
		t.Errorf("prompt after the measurement stopped = %q, want %q", got, before)
	}
	if _, p := newSectionSession(t, "new", noControl, registry).send(rulesFile, "a"); len(p.Picks) != 0 {
		t.Errorf("new session's picks = %+v, want none", p.Picks)
	}
}

func TestUserMessageIsCutOnlyInRulesFile(t *testing.T) {
	registry := newMeasuringRegistry(t, testSection, styleSection)
	user := func(text string) []byte {
		return append(wire.AppendString([]byte(`{"input":[{"role":"user","content":`), text), "}]}"...)
	}
	for _, tc := range []struct {
		name, text string
		picks      int
	}{
		{"quoted section", "Improve this text:\n" + testSection + "\n" + styleSection, 0},
		{"rules file", "# AGENTS.md instructions for /shop\n\n<INSTRUCTIONS>\n# Shop\nA shop.\n\n" + testSection + "\n" + styleSection + "</INSTRUCTIONS>", 2},
		{"quoted section after a rules file", "# AGENTS.md instructions for /shop\n\n<INSTRUCTIONS>\n# Shop\nA shop.\n</INSTRUCTIONS>\n" + testSection + "\n" + styleSection, 0},
	} {
		_, p := newSectionSession(t, "x", noControl, registry).sendBody(wire.Responses, user(tc.text))
		if len(p.Picks) != tc.picks {
			t.Errorf("%s: got %d picks, want %d", tc.name, len(p.Picks), tc.picks)
		}
	}
	delta := append([]byte(`{"previous_response_id":"r",`), user("# AGENTS.md instructions for /shop\n\n<INSTRUCTIONS>\n# Shop\n" + testSection + "\n" + styleSection + "</INSTRUCTIONS>")[1:]...)
	if _, p := newSectionSession(t, "x", noControl, registry).sendBody(wire.Responses, delta); len(p.Picks) != 0 {
		t.Errorf("delta request: picks = %+v, want none", p.Picks)
	}
}

func TestExcludedSessionKeepsSectionCuts(t *testing.T) {
	s := newCutSession(t, newMeasuringRegistry(t, testSection, styleSection))
	before := promptAfterCuts(s)
	s.rec.Assignment.Excluded = true
	if got, p := s.send(rulesFile, "a", "b", "c"); got != before || p.SkipReason != SkipExcluded {
		t.Errorf("excluded session: prompt = %q, SkipReason = %q, want prompt %q and SkipReason %q", got, p.SkipReason, before, SkipExcluded)
	}
}

// A session with a measured section is left out of the comparison between treated and control sessions.
func TestMeasuredSectionSetsHasMeasuredRules(t *testing.T) {
	registry := newMeasuringRegistry(t, testSection)
	for _, control := range []float64{noControl, allControl} {
		with, without := newSectionSession(t, "x", control, registry), newSectionSession(t, "x", control, registry)
		with.send(rulesFile, "a")
		without.send("You are an agent.", "a")
		if !with.rec.Assignment.HasMeasuredRules || without.rec.Assignment.HasMeasuredRules {
			t.Errorf("control probability %v: HasMeasuredRules = %t with a section and %t without, want true and false", control, with.rec.Assignment.HasMeasuredRules, without.rec.Assignment.HasMeasuredRules)
		}
	}
}

func TestFlipSectionsKeepsEarlierAssignment(t *testing.T) {
	section := []trial.Pick{{Slug: "rule:A#b", Arm: "rule:A#b@1", Eps: 0.5}}
	var a trial.Assignment
	first, _ := bandit.FlipSections(bandit.Config{Salt: "s"}, bandit.New(), &a, "unit", section)
	fresh, earlier := bandit.FlipSections(bandit.Config{Salt: "s"}, bandit.New(), &a, "unit", section)
	if len(first) != 1 || len(fresh) != 0 || len(earlier) != 1 || len(a.Picks) != 1 || earlier[0].Injected != first[0].Injected {
		t.Errorf("first call: picks = %+v; second call: new = %+v, earlier = %+v; assignment has %d picks; want one pick, which the second call returns as earlier", first, fresh, earlier, len(a.Picks))
	}
}
