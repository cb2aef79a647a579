package distill_test

import (
	"context"
	"fmt"
	"testing"

	"precept/distill"
	"precept/inject/bank"
	"precept/inject/lesson"
	"precept/internal/sample"
)

// injected returns the record of lessons that a session received.
func injected(slugs ...string) (list []sample.Lesson) {
	for _, s := range slugs {
		list = append(list, sample.Lesson{Slug: s, State: "injected"})
	}
	return list
}

// proposeDrafts lets a judge propose each draft in a session and a run of its own. proposeDrafts returns the summaries
// of the runs.
func proposeDrafts(b *bench, drafts []distill.Draft, change ...func(*distill.Options)) (sums []distill.Summary) {
	b.Helper()
	for i, d := range drafts {
		task := fmt.Sprint("Task number ", i)
		b.session(fmt.Sprint("draft ", i), user(task))
		sums = append(sums, b.distil(append(change, func(o *distill.Options) { o.Judge = judgeByWords{task: {Drafts: []distill.Draft{d}}} })...))
	}
	return sums
}

// A draft is merged into a lesson with a similar slug and enough equal triggers. A similar slug alone, or equal
// triggers alone, are not enough.
func TestDuplicateNeedsSimilarNameAndTrigger(t *testing.T) {
	with := func(d distill.Draft, change func(d *distill.Draft)) distill.Draft { change(&d); return d }
	first := newDraft("warm-the-disk-cache-before-measure-twice", "cold cache", "disk is slow", "bench begins")
	for _, c := range []struct {
		name   string
		second distill.Draft
		merged bool
	}{
		{"the same name", newDraft("warm-the-disk-cache-before-measure-twice", "another thing"), true},
		{"half of the triggers, and three words of seven", newDraft("warm-disk-cache-before-lunch-today", "cold cache", "lunch is near"), true},
		{"half of the triggers, and one word", newDraft("warm-soup-needs-salt-now", "cold cache", "lunch is near"), false},
		{"all triggers, and another name", newDraft("name-the-region", "cold cache", "disk is slow", "bench begins"), false},
		{"a third of the triggers, and three words of seven", newDraft("warm-disk-cache-before-lunch-today", "cold cache", "lunch is near", "noon has come"), false},
		{"three words of five, and one trigger of three", newDraft("warm-disk-cache", "cold cache", "lunch is near", "noon has come"), true},
		{"three words of five, and no trigger", newDraft("warm-disk-cache", "lunch is near"), false},
		{"two words of five, and one trigger of three", newDraft("warm-disk", "cold cache", "lunch is near", "noon has come"), false},
		{"triggers in other letters and blanks", newDraft("warm-disk-cache-before-lunch-today", "Cold  Cache", "lunch is near"), true},
		{"words that every name has", newDraft("use-the-lunch-before-and-after", "cold cache", "disk is slow"), false},
		{"the opposite outcome", with(newDraft("warm-disk-cache", "cold cache", "disk is slow"), func(d *distill.Draft) { d.Outcome = "success" }), false},
		{"one word and the same tool", with(newDraft("warm-soup-needs-salt-now", "cold cache"), func(d *distill.Draft) { d.Tools = []string{"run_bench"} }), true},
		{"no word and the same tool", with(newDraft("name-that-region", "cold cache"), func(d *distill.Draft) { d.Tools = []string{"run_bench"} }), false},
	} {
		b := newBench(t)
		one := with(first, func(d *distill.Draft) { d.Tools = c.second.Tools })
		sum := proposeDrafts(b, []distill.Draft{one, c.second})[1]
		if merged := sum.Merged == 1 && sum.Proposed == 0; merged != c.merged || sum.Merged+sum.Proposed != 1 {
			t.Errorf("%s: the second run ends with %+v and lessons %v, want the draft merged: %v (otherwise proposed)", c.name, sum, b.slugs(), c.merged)
		}
		if c.merged {
			equal(t, c.name+": merged into", sum.MergedInto, []string{first.Slug})
			if n := len(b.toLesson(first.Slug).Evidence); n != 2 {
				t.Errorf("%s: the merged lesson has evidence of %d sessions, want 2", c.name, n)
			}
		}
	}
}

// A lesson counts each of its sessions once, and references at most 50 sessions. This holds for several runs of the
// distiller, with the rules and with a model as the judge.
func TestEvidenceIsBoundedAndCounted(t *testing.T) {
	for name, judge := range map[string]distill.Judge{"rules": nil, "model": everyRun{newDraft("warm-the-cache", "cold cache")}} {
		b := newBench(t)
		n := 0
		check := func(when string, total int) {
			t.Helper()
			list := b.lessons()
			if len(list) != 1 || len(list[0].Evidence) > 50 || list[0].Support() != total {
				t.Fatalf("%s, %s: the lessons are %v, the first with %d references and %d sessions; want one lesson, at most 50 references, %d sessions", name, when, b.slugs(), len(list[0].Evidence), list[0].Support(), total)
			}
		}
		for _, more := range []int{3, 57, 10} {
			for range more {
				n++ // the second error has the same repair in the same session
				b.session(fmt.Sprint("session ", n), user("Find hotels."), call("find_hotels", `{"stars":"four"}`, `{"error":"stars must be an integer: four"}`),
					call("find_hotels", `{"stars":"4"}`, `{"hotels":[]}`), call("find_hotels", `{"stars":"five"}`, `{"error":"the parameter stars is not of the type integer: five"}`), call("find_hotels", `{"stars":"5"}`, `{"hotels":[]}`))
			}
			b.distil(func(o *distill.Options) { o.Judge = judge })
			check(fmt.Sprint("after ", n), n)
			b.distil(func(o *distill.Options) { o.Judge = judge })
			check(fmt.Sprint("a second run after ", n), n)
		}
	}
}

// everyRun is a judge that returns the same draft for every session.
type everyRun struct{ draft distill.Draft }

func (everyRun) Name() string { return "model:test" }

func (e everyRun) Judge(context.Context, *distill.Session, []*lesson.Lesson) (distill.Judgement, error) {
	return distill.Judgement{Drafts: []distill.Draft{e.draft}}, nil
}

// A draft has the triggers of a lesson and the opposite outcome. The proposal names the slug of that lesson, which is
// active or waits for approval.
func TestContradictingDraftNamesTheOtherLesson(t *testing.T) {
	for _, active := range []bool{false, true} {
		b := newBench(t)
		one, two := newDraft("warm-the-cache", "cold cache"), newDraft("never-touch-it", "cold cache")
		one.Outcome, two.Outcome = "success", "failure"
		sum := proposeDrafts(b, []distill.Draft{one})[0]
		equal(t, "contradictions of the first draft", sum.Contradictions, 0)
		if active {
			if _, err := b.bank.Act(t.Context(), one.Slug, bank.Decision{Action: lesson.Approve, By: "me", Force: true}); err != nil {
				t.Fatal(err)
			}
		}
		b.session("two", user("The second."))
		sum = b.distil(func(o *distill.Options) { o.Judge = judgeByWords{"The second.": {Drafts: []distill.Draft{two}}} })
		if sum.Proposed != 1 || sum.Drafts[0].Contradicts != one.Slug || sum.Contradictions != 1 {
			t.Errorf("first lesson active: %t: run: got summary %+v, want one proposed draft that contradicts %s", active, sum, one.Slug)
		}
	}
}

// A draft is refused if a person rejected or retired the same lesson in this tenant. If the lesson is approved, the
// draft is merged into the lesson. In a different tenant, the draft is proposed.
func TestRetiredLessonIsNotProposedAgain(t *testing.T) {
	const archived = "an equal lesson is archived"
	act := func(a lesson.Action) func(ctx context.Context, b *bank.Bank, slug string) error {
		return func(ctx context.Context, b *bank.Bank, slug string) error {
			_, err := b.Act(ctx, slug, bank.Decision{Action: a, By: "me", Force: true})
			return err
		}
	}
	for name, c := range map[string]struct {
		do      func(ctx context.Context, b *bank.Bank, slug string) error
		refused string
	}{
		"rejected": {act(lesson.Reject), "an equal lesson was rejected"},
		"retired":  {act(lesson.Retire), archived},
		"archived": {func(ctx context.Context, b *bank.Bank, slug string) error {
			_, err := b.Act(ctx, slug, bank.Decision{Action: lesson.Retire, By: "me"})
			return err
		}, archived},
		"approved": {act(lesson.Approve), ""},
	} {
		b := newBench(t)
		d := newDraft("warm-the-cache", "cold cache")
		proposeDrafts(b, []distill.Draft{d})
		if err := c.do(t.Context(), b.bank, d.Slug); err != nil {
			t.Fatalf("%s: the decision of the person fails with %v, want no error", name, err)
		}
		log := b.log()
		b.session("again", user("Once more."))
		sum := b.distil(func(o *distill.Options) { o.Judge = judgeByWords{"Once more.": {Drafts: []distill.Draft{d}}} })
		if c.refused == "" {
			if equal(t, name+": merged drafts and evidence", []int{sum.Merged, len(b.toLesson(d.Slug).Evidence)}, []int{1, 2}); len(sum.Refused) > 0 {
				t.Errorf("%s: the refusals are %v, want none", name, sum.Refused)
			}
			continue
		}
		equal(t, name+": refusals", sum.Refused, map[string]int{c.refused: 1})
		if sum.Drafts[0].State != "refused" || sum.Drafts[0].Reason != c.refused || b.log() != log {
			t.Errorf(`%s: got drafts %+v and log %q, want the draft refused for %q and log %q`, name, sum.Drafts, b.log(), c.refused, log)
		}
		b.tenantSession("red", "theirs", nil, user("Once more."))
		sum = b.distil(func(o *distill.Options) {
			o.Judge, o.Select.Tenant = judgeByWords{"Once more.": {Drafts: []distill.Draft{d}}}, "red"
		})
		equal(t, name+": proposed and refused drafts of another tenant", []int{sum.Proposed, len(sum.Refused)}, []int{1, 0})
	}
}

// With Auto, sessions of two callers start a trial, unless the sessions belong to one run. A lesson that a person
// paused stays paused.
func TestSessionsOfTwoCallersStartATrial(t *testing.T) {
	type seen struct{ caller, task, run string }
	for name, c := range map[string]struct {
		one, two seen
		trial    bool
	}{
		"one caller, one task":      {seen{"a", "Find it.", ""}, seen{"a", "Find it.", ""}, false},
		"one caller, another task":  {seen{"a", "Find it.", ""}, seen{"a", "Lose it.", ""}, false},
		"two callers, one task":     {seen{"a", "Find it.", ""}, seen{"b", "Find it.", ""}, true},
		"two callers, another task": {seen{"a", "Find it.", ""}, seen{"b", "Lose it.", ""}, true},
		"two callers of one run":    {seen{"a", "Find it.", "ci-1"}, seen{"b", "Lose it.", "ci-1"}, false},
		"two callers of two runs":   {seen{"a", "Find it.", "ci-1"}, seen{"b", "Lose it.", "ci-2"}, true},
		"no credential":             {seen{"", "Find it.", ""}, seen{"", "Lose it.", ""}, false},
		"one without a credential":  {seen{"a", "Find it.", ""}, seen{"", "Lose it.", ""}, false},
	} {
		b := newBench(t)
		for i, s := range []seen{c.one, c.two} {
			b.caller, b.run = s.caller, s.run
			b.session(fmt.Sprint("s", i), user(s.task), call("find_hotels", `{"stars":"four"}`, `{"error":"stars must be an integer: four"}`), call("find_hotels", `{"stars":"4"}`, `{"hotels":[]}`))
		}
		b.distil(func(o *distill.Options) { o.Auto = true })
		if state := b.lessons()[0].State; state == lesson.Trial != c.trial {
			t.Errorf("%s: got state %s, want a trial: %v", name, state, c.trial)
		}
	}

	b := newBench(t)
	drafts := []distill.Draft{newDraft("warm-the-cache", "cold cache"), newDraft("warm-the-cache", "cold cache"), newDraft("warm-the-cache", "cold cache")}
	auto := func(o *distill.Options) { o.Auto = true }
	proposeDrafts(b, drafts[:1], auto)
	for _, a := range []lesson.Action{lesson.Approve, lesson.Pause} {
		if _, err := b.bank.Act(t.Context(), "warm-the-cache", bank.Decision{Action: a, By: "me", Force: true}); err != nil {
			t.Fatal(err)
		}
	}
	paused := b.toLesson("warm-the-cache").State
	proposeDrafts(b, drafts, auto)
	equal(t, "state of the lesson that a person paused", b.toLesson("warm-the-cache").State, paused)
}

// A trigger is dropped if it matches the errors of many programs. A draft without any other trigger is not proposed.
func TestTriggerThatMatchesManyErrorsIsDropped(t *testing.T) {
	for others, want := range map[int]string{3: "[run-make-with-offline]", 4: "[]"} {
		b := newBench(t)
		const errorText = "the layout engine is missing, nothing was written"
		b.session("one", user("Draw it."), ran("make graph", errorText, 2), ran("make graph --offline", "ok", 0))
		for i, program := range []string{"bazel", "cmake", "ninja", "meson"}[:others] {
			b.session(fmt.Sprint("other ", i), user(fmt.Sprint("Draw it with ", i)), ran(program+" graph", errorText, 2))
		}
		b.distil()
		if got := fmt.Sprint(b.slugs()); got != want {
			t.Errorf("with the error in %d other programs the lessons are %s, want %s", others, got, want)
		}
	}
}

// A dry run counts proposed and merged drafts, even drafts that merge with each other, and writes nothing. A summary
// lists at most 500 drafts.
func TestDryRunReportsDraftsAndWritesNothing(t *testing.T) {
	b := newBench(t)
	proposeDrafts(b, []distill.Draft{newDraft("warm-the-cache", "cold cache")})
	b.session("many", user("All of it."))
	store := b.store.(*memory)
	notes, log := len(store.sessionNotes), b.log()
	answers := distill.Judgement{Drafts: []distill.Draft{newDraft("warm-the-cache", "cold cache")}}
	for i := range 501 {
		answers.Drafts = append(answers.Drafts, newDraft(fmt.Sprintf("thing%d-comes-first%d", i, i), fmt.Sprint("thing number ", i)))
	}
	answers.Drafts = append(answers.Drafts, answers.Drafts[5])
	sum := b.distil(func(o *distill.Options) { o.DryRun, o.Judge = true, judgeByWords{"All of it.": answers} })
	equal(t, "candidates, proposed, merged and listed drafts", []int{sum.Candidates, sum.Proposed, sum.Merged, len(sum.Drafts)}, []int{503, 501, 2, 500})
	if len(b.slugs()) != 1 || len(b.toLesson("warm-the-cache").Evidence) != 1 || len(store.sessionNotes) != notes || b.log() != log {
		t.Errorf("after a dry run the lessons are %v, the log is %s, and there are %d session notes; want the lesson warm-the-cache with evidence of 1 session, log %s and %d notes", b.slugs(), b.log(), len(store.sessionNotes), log, notes)
	}
}
