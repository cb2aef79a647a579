package inject

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"precept/bandit"
	"precept/bandit/trial"
	"precept/inject/lesson"
)

func lessonLines(block, slug string) string {
	var out []string
	in := false
	for part := range strings.SplitSeq(block, "\n") {
		if strings.HasPrefix(part, "- [") {
			in = strings.HasPrefix(part, "- ["+slug+"] ")
		}
		if in && (strings.HasPrefix(part, "- [") || strings.HasPrefix(part, linePrefix)) {
			out = append(out, part)
		}
	}
	return strings.Join(out, "\n")
}

// An injected lesson has the same text, whichever other lessons match. The only effect of other lessons is that they
// can leave too little room for the lesson.
func TestLessonTextIgnoresOtherMatches(t *testing.T) {
	long := strings.Repeat("Read what it says before you go on. ", 30)
	first, injected, notFitting := map[string]string{}, 0, 0
	for n := range 9 {
		var list []*lesson.Lesson
		for i := range n + 1 {
			l := activeLesson(fmt.Sprint("lesson-", i), "deploy", "x")
			l.Title = "About " + l.Slug + ", which has a title as long as some have them that people write when they are in a hurry."
			l.Advice = fmt.Sprint("Number ", i, ". ") + long[:600+40*i]
			list = append(list, l)
		}
		s := newTestSession(t, plainChat, injectAll(), newBook(list...), fmt.Sprint("s", n))
		s.agent.addUserMessage("deploy")
		p := s.send()
		for _, e := range p.Edits {
			if len(e.Text) > defaultBudget {
				t.Fatalf("block has %d bytes, want at most %d", len(e.Text), defaultBudget)
			}
			for _, slug := range p.Injected {
				got := lessonLines(e.Text, slug)
				if first[slug] == "" {
					first[slug] = got
				}
				if got != first[slug] || got == "" {
					t.Errorf("%s: text with %d other lessons =\n%s\nwant the text with fewer lessons\n%s", slug, n, got, first[slug])
				}
				injected++
			}
		}
		if len(p.Injected) < min(n+1, injectAll().Bandit.K) {
			notFitting++
		}
	}
	if injected < 10 || notFitting == 0 {
		t.Errorf("got %d injections and %d plans with a lesson that did not fit, want at least 10 and 1", injected, notFitting)
	}
}

func TestArmIncludesPresentation(t *testing.T) {
	l := activeLesson("a", "deploy", "x")
	l.ContentHash = "0123456789abcdef"
	l.Advice = strings.Repeat("Look before you leap. ", 40)
	failed := activeLesson("a", "deploy", "x")
	*failed = *l
	failed.Outcome = "failure"
	worse := fixedCounts{better: 1, worse: 2}
	for want, tc := range map[string]struct {
		cfg Config
		l   *lesson.Lesson
		p   armEvidence
	}{
		"a@0123456789ab":                                  {Config{}, l, nil},
		"a@0123456789ab.caution":                          {Config{}, l, worse},
		"a@0123456789ab.pitfalls":                         {Config{Style: Pitfalls}, l, nil},
		"a@0123456789ab.pitfalls.system":                  {Config{Style: Pitfalls, Placement: InSystem}, l, nil},
		"a@0123456789ab.system.caution":                   {Config{Placement: InSystem}, l, worse},
		"a@0123456789ab.cut":                              {Config{BudgetBytes: 600}, l, nil},
		"a@0123456789ab (outcome: failure)":               {Config{}, failed, nil},
		"a@0123456789ab (outcome: failure, worse counts)": {Config{}, failed, worse},
	} {
		text := tc.l.Text()
		got := tc.cfg.Present(tc.l, &text, tc.p)
		name, _, _ := strings.Cut(want, " ")
		if string(got.Arm) != name && (name[len(name)-4:] != ".cut" || !strings.HasPrefix(string(got.Arm), name)) {
			t.Errorf("arm = %q, want %q", got.Arm, want)
		}
		if got.Arm.Slug() != "a" || got.Caution != (strings.HasSuffix(name, ".caution") || tc.l == failed) {
			t.Errorf("%q: presentation = %+v, want slug a, and a caution if the arm ends in .caution or the lesson is about a failure", want, got)
		}
	}
}

// If the lesson's advice does harm, the lesson is presented as a caution, which warns against the advice. The chooser
// expects harm from the advice, but not from the caution.
func TestCautionStartsANewArm(t *testing.T) {
	c := bandit.New()
	l := activeLesson("a", "deploy", "x")
	text := l.Text()
	advice := Config{}.Present(l, &text, c)
	for i := range 300 { // each session fails with the lesson, and succeeds without it
		a := trial.Assignment{Decided: true, Picks: []trial.Pick{{Slug: "a", Arm: advice.Arm, Eps: 0.2, Injected: i%5 > 0, Centre: 0.5, Offset: 0.7}}}
		y := 0.0
		if !a.Picks[0].Injected {
			y = 1
		}
		c.Add(bandit.Contribution(&a, y, 1))
	}
	caution := Config{}.Present(l, &text, c)
	if !caution.Caution || caution.Arm == advice.Arm {
		t.Fatalf("presentation = %+v, want a caution with an arm other than %+v's", caution, advice)
	}
	k := bandit.Action{Slug: "a", Arm: caution.Arm, Confidence: 0.5}
	adviceMean := c.Posterior(bandit.Action{Slug: "a", Arm: advice.Arm, Confidence: 0.5}).Mean
	if cautionMean := c.Posterior(k).Mean; adviceMean >= 0 || cautionMean <= 0 || cautionMean > 0.01 {
		t.Errorf("advice mean = %v, want < 0; caution mean = %v, want in (0, 0.01]", adviceMean, cautionMean)
	}
}

// A lesson that harms becomes a caution. During a trial with a planned number of picks, and afterwards until a person
// decides about the lesson, the presentation stays the same. In a trial without a planned number, the presentation
// changes as soon as enough sessions have failed.
func TestPlannedTrialKeepsPresentation(t *testing.T) {
	c := bandit.New()
	l := activeLesson("a", "deploy", "x")
	l.State, l.Plan = lesson.Trial, lesson.TrialPlan{Picks: 250, Started: time.Unix(1000, 0)}
	text := l.Text()
	advice := Config{}.Present(l, &text, c)
	// addPicks adds the picks first to end-1. Every second pick is injected. The arguments injected and withheld are
	// the rewards for injected picks and for withheld picks.
	addPicks := func(arm trial.Arm, first, end int, injected, withheld float64) {
		for i := first; i < end; i++ {
			a := trial.Assignment{Decided: true, Picks: []trial.Pick{{
				Slug: "a", Arm: arm, Eps: 0.5, Injected: i%2 > 0, Centre: 0.5, Offset: 0.7, Trial: l.PlannedTrialName(),
			}}}
			y := withheld
			if a.Picks[0].Injected {
				y = injected
			}
			c.Add(append(bandit.Contribution(&a, y, 1), a.TrialEntries(fmt.Sprintf("%08x", i), y)...))
		}
	}
	checkArm := func(when string, want trial.Arm) {
		t.Helper()
		if got := (Config{}).Present(l, &text, c); got.Arm != want || got.Caution != strings.HasSuffix(string(want), ".caution") {
			t.Errorf("%s: presentation = %+v, want arm %s", when, got, want)
		}
	}
	addPicks(advice.Arm, 0, 200, 0, 1)
	if better, worse := c.CautionEvidence(advice.Arm); worse <= better {
		t.Fatalf("200 sessions, all worse with the lesson: got %v sessions above and %v below expectation, want more below", better, worse)
	}
	checkArm("during the trial", advice.Arm)
	addPicks(advice.Arm, 200, 300, 0, 1)
	checkArm("after the trial's end", advice.Arm)
	l.Plan.Picks = 0
	checkArm("trial without planned picks", advice.Arm+".caution")
	l.State = lesson.Active
	checkArm("after a human decision", advice.Arm+".caution")

	l.State, l.Plan = lesson.Trial, lesson.TrialPlan{Picks: 100, Started: time.Unix(2000, 0)}
	checkArm("second trial started", advice.Arm+".caution")
	addPicks(advice.Arm+".caution", 300, 310, 1, 0)
	addPicks(advice.Arm, 310, 311, 1, 0)
	checkArm("second trial with picks as advice", advice.Arm)
	l.Plan.Started = time.Unix(3000, 0)
	addPicks(advice.Arm+".caution", 311, 320, 1, 0)
	l.Plan.Picks = 0
	addPicks(advice.Arm, 320, 3000, 1, 0)
	checkArm("counts that improved", advice.Arm)
	l.Plan.Picks = 100
	checkArm("trial that began as a caution", advice.Arm+".caution")
}
