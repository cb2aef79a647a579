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

// injected returns the entries that a stored session has for its injected lessons.
func injected(slugs ...string) (list []sample.Lesson) {
	for _, s := range slugs {
		list = append(list, sample.Lesson{Slug: s, State: "injected"})
	}
	return list
}

// proposeDrafts runs the distiller once for each draft. Each run reads one new session.
func proposeDrafts(f *fixture, drafts []distill.Draft, change ...func(*distill.Options)) (sums []distill.Summary) {
	f.Helper()
	for i, d := range drafts {
		task := fmt.Sprint("Task number ", i)
		f.addSession(fmt.Sprint("draft ", i), user(task))
		sums = append(sums, f.runDistiller(append(change, func(o *distill.Options) { o.Judge = judgeByText{task: {Drafts: []distill.Draft{d}}} })...))
	}
	return sums
}

// The name of each case says what the second draft has in common with the first.
func TestOnlySimilarDraftsAreMerged(t *testing.T) {
	with := func(d distill.Draft, change func(d *distill.Draft)) distill.Draft { change(&d); return d }
	first := newDraft("warm-the-disk-cache-before-measure-twice", "cold cache", "disk is slow", "bench begins")
	for _, tc := range []struct {
		name   string
		second distill.Draft
		merged bool
	}{
		{"same slug", newDraft("warm-the-disk-cache-before-measure-twice", "another thing"), true},
		{"half of the triggers, 3 of 7 slug words", newDraft("warm-disk-cache-before-lunch-today", "cold cache", "lunch is near"), true},
		{"half of the triggers, 1 slug word", newDraft("warm-soup-needs-salt-now", "cold cache", "lunch is near"), false},
		{"all triggers, different slug", newDraft("name-the-region", "cold cache", "disk is slow", "bench begins"), false},
		{"a third of the triggers, 3 of 7 slug words", newDraft("warm-disk-cache-before-lunch-today", "cold cache", "lunch is near", "noon has come"), false},
		{"1 of 3 triggers, 3 of 5 slug words", newDraft("warm-disk-cache", "cold cache", "lunch is near", "noon has come"), true},
		{"no trigger, 3 of 5 slug words", newDraft("warm-disk-cache", "lunch is near"), false},
		{"1 of 3 triggers, 2 of 5 slug words", newDraft("warm-disk", "cold cache", "lunch is near", "noon has come"), false},
		{"triggers that differ in case and spaces", newDraft("warm-disk-cache-before-lunch-today", "Cold  Cache", "lunch is near"), true},
		{"all triggers, only stop words in the slug", newDraft("use-the-lunch-before-and-after", "cold cache", "disk is slow"), false},
		{"opposite outcome", with(newDraft("warm-disk-cache", "cold cache", "disk is slow"), func(d *distill.Draft) { d.Outcome = "success" }), false},
		{"1 slug word and the same tool", with(newDraft("warm-soup-needs-salt-now", "cold cache"), func(d *distill.Draft) { d.Tools = []string{"run_bench"} }), true},
		{"no slug word and the same tool", with(newDraft("name-that-region", "cold cache"), func(d *distill.Draft) { d.Tools = []string{"run_bench"} }), false},
	} {
		f := newFixture(t)
		one := with(first, func(d *distill.Draft) { d.Tools = tc.second.Tools })
		sum := proposeDrafts(f, []distill.Draft{one, tc.second})[1]
		if merged := sum.Merged == 1 && sum.Proposed == 0; merged != tc.merged {
			t.Errorf("%s: merged = %v, want %v", tc.name, merged, tc.merged)
		} else if sum.Merged+sum.Proposed != 1 {
			t.Errorf("%s: sum.Merged+sum.Proposed = %d, want 1", tc.name, sum.Merged+sum.Proposed)
		}
		if tc.merged {
			checkEqual(t, tc.name+": MergedInto", sum.MergedInto, []string{first.Slug})
			if n := len(f.lessonBySlug(first.Slug).Evidence); n != 2 {
				t.Errorf("%s: the merged lesson has evidence from %d sessions, want 2", tc.name, n)
			}
		}
	}
}

// A lesson lists at most 50 sessions as evidence, but Support counts all sessions.
func TestSupportCountsEachSessionOnce(t *testing.T) {
	for name, judge := range map[string]distill.Judge{"rules": nil, "model": constantJudge{newDraft("warm-the-cache", "cold cache")}} {
		f := newFixture(t)
		n := 0
		check := func(when string, total int) {
			t.Helper()
			list := f.lessons()
			if len(list) != 1 {
				t.Fatalf("%s, %s: got %+v, want 1 lesson", name, when, list)
			}
			if len(list[0].Evidence) > 50 {
				t.Fatalf("%s, %s: Evidence = %+v, want at most 50 items", name, when, list[0].Evidence)
			}
			if list[0].Support() != total {
				t.Fatalf("%s, %s: Support = %d, want %d", name, when, list[0].Support(), total)
			}
		}
		for _, more := range []int{3, 57, 10} {
			for range more {
				n++
				// Both errors have the same repair.
				f.addSession(fmt.Sprint("session ", n), user("Find hotels."), call("find_hotels", `{"stars":"four"}`, `{"error":"stars must be an integer: four"}`),
					call("find_hotels", `{"stars":"4"}`, `{"hotels":[]}`), call("find_hotels", `{"stars":"five"}`, `{"error":"the parameter stars is not of the type integer: five"}`), call("find_hotels", `{"stars":"5"}`, `{"hotels":[]}`))
			}
			f.runDistiller(func(o *distill.Options) { o.Judge = judge })
			check(fmt.Sprintf("after %d sessions", n), n)
			f.runDistiller(func(o *distill.Options) { o.Judge = judge })
			check(fmt.Sprintf("second run after %d sessions", n), n)
		}
	}
}

type constantJudge struct{ draft distill.Draft }

func (constantJudge) Name() string { return "model:test" }

func (j constantJudge) Judge(context.Context, *distill.Session, []*lesson.Lesson) (distill.Judgement, error) {
	return distill.Judgement{Drafts: []distill.Draft{j.draft}}, nil
}

// A draft contradicts a lesson that has the same triggers and the opposite outcome. The summary names this lesson.
func TestContradictingDraftNamesExistingLesson(t *testing.T) {
	for _, active := range []bool{false, true} {
		f := newFixture(t)
		one, two := newDraft("warm-the-cache", "cold cache"), newDraft("never-touch-it", "cold cache")
		one.Outcome, two.Outcome = "success", "failure"
		sum := proposeDrafts(f, []distill.Draft{one})[0]
		checkEqual(t, "Contradictions after the first draft", sum.Contradictions, 0)
		if active {
			if _, err := f.bank.Act(t.Context(), one.Slug, bank.Decision{Action: lesson.Approve, By: "me", Force: true}); err != nil {
				t.Fatal(err)
			}
		}
		f.addSession("two", user("The second."))
		sum = f.runDistiller(func(o *distill.Options) { o.Judge = judgeByText{"The second.": {Drafts: []distill.Draft{two}}} })
		if sum.Proposed != 1 {
			t.Errorf("first lesson active: Proposed = %d, want 1", sum.Proposed)
		}
		if sum.Drafts[0].Contradicts != one.Slug {
			t.Errorf("first lesson active: Contradicts = %q, want %q", sum.Drafts[0].Contradicts, one.Slug)
		}
		if sum.Contradictions != 1 {
			t.Errorf("first lesson active: Contradictions = %d, want 1", sum.Contradictions)
		}
	}
}

// A draft that equals a rejected or archived lesson is not proposed to the same tenant again, but is proposed to a
// different tenant. A draft that equals an approved lesson is merged into this lesson.
func TestRetiredLessonIsNotProposedAgain(t *testing.T) {
	const archived = "a lesson with the same advice is archived"
	act := func(a lesson.Action) func(ctx context.Context, b *bank.Bank, slug string) error {
		return func(ctx context.Context, b *bank.Bank, slug string) error {
			_, err := b.Act(ctx, slug, bank.Decision{Action: a, By: "me", Force: true})
			return err
		}
	}
	for name, tc := range map[string]struct {
		do      func(ctx context.Context, b *bank.Bank, slug string) error
		refused string
	}{
		"rejected": {act(lesson.Reject), "a lesson with the same advice was rejected"},
		"retired":  {act(lesson.Retire), archived},
		"archived": {func(ctx context.Context, b *bank.Bank, slug string) error {
			_, err := b.Act(ctx, slug, bank.Decision{Action: lesson.Retire, By: "me"})
			return err
		}, archived},
		"approved": {act(lesson.Approve), ""},
	} {
		f := newFixture(t)
		d := newDraft("warm-the-cache", "cold cache")
		proposeDrafts(f, []distill.Draft{d})
		if err := tc.do(t.Context(), f.bank, d.Slug); err != nil {
			t.Fatalf("%s: decision on the lesson: %v", name, err)
		}
		log := f.log()
		f.addSession("again", user("Once more."))
		sum := f.runDistiller(func(o *distill.Options) { o.Judge = judgeByText{"Once more.": {Drafts: []distill.Draft{d}}} })
		if tc.refused == "" {
			if checkEqual(t, name+": Merged and evidence entries", []int{sum.Merged, len(f.lessonBySlug(d.Slug).Evidence)}, []int{1, 2}); len(sum.Refused) > 0 {
				t.Errorf("%s: refusals = %v, want none", name, sum.Refused)
			}
			continue
		}
		checkEqual(t, name+": refusals", sum.Refused, map[string]int{tc.refused: 1})
		if sum.Drafts[0].State != "refused" {
			t.Errorf(`%s: State = %q, want "refused"`, name, sum.Drafts[0].State)
		}
		if sum.Drafts[0].Reason != tc.refused {
			t.Errorf("%s: Reason = %q, want %q", name, sum.Drafts[0].Reason, tc.refused)
		}
		if f.log() != log {
			t.Errorf("%s: log = %q, want %q", name, f.log(), log)
		}
		f.addTenantSession("red", "theirs", nil, user("Once more."))
		sum = f.runDistiller(func(o *distill.Options) {
			o.Judge, o.Select.Tenant = judgeByText{"Once more.": {Drafts: []distill.Draft{d}}}, "red"
		})
		checkEqual(t, name+": proposed and refused drafts in a different tenant", []int{sum.Proposed, len(sum.Refused)}, []int{1, 0})
	}
}

// A trial starts after sessions by two callers. Two sessions in one run are not enough, and a paused lesson stays
// paused.
func TestSessionsByTwoCallersStartATrial(t *testing.T) {
	type origin struct{ caller, task, run string }
	for name, tc := range map[string]struct {
		one, two origin
		trial    bool
	}{
		"one caller, same task":          {origin{"a", "Find it.", ""}, origin{"a", "Find it.", ""}, false},
		"one caller, different tasks":    {origin{"a", "Find it.", ""}, origin{"a", "Lose it.", ""}, false},
		"two callers, same task":         {origin{"a", "Find it.", ""}, origin{"b", "Find it.", ""}, true},
		"two callers, different tasks":   {origin{"a", "Find it.", ""}, origin{"b", "Lose it.", ""}, true},
		"two callers in one run":         {origin{"a", "Find it.", "ci-1"}, origin{"b", "Lose it.", "ci-1"}, false},
		"two callers in two runs":        {origin{"a", "Find it.", "ci-1"}, origin{"b", "Lose it.", "ci-2"}, true},
		"no credentials":                 {origin{"", "Find it.", ""}, origin{"", "Lose it.", ""}, false},
		"one session without credential": {origin{"a", "Find it.", ""}, origin{"", "Lose it.", ""}, false},
	} {
		f := newFixture(t)
		for i, s := range []origin{tc.one, tc.two} {
			f.caller, f.run = s.caller, s.run
			f.addSession(fmt.Sprint("s", i), user(s.task), call("find_hotels", `{"stars":"four"}`, `{"error":"stars must be an integer: four"}`), call("find_hotels", `{"stars":"4"}`, `{"hotels":[]}`))
		}
		f.runDistiller(func(o *distill.Options) { o.Auto = true })
		if state := f.lessons()[0].State; state == lesson.Trial != tc.trial {
			t.Errorf("%s: state = %s, want a trial: %v", name, state, tc.trial)
		}
	}

	f := newFixture(t)
	drafts := []distill.Draft{newDraft("warm-the-cache", "cold cache"), newDraft("warm-the-cache", "cold cache"), newDraft("warm-the-cache", "cold cache")}
	auto := func(o *distill.Options) { o.Auto = true }
	proposeDrafts(f, drafts[:1], auto)
	for _, a := range []lesson.Action{lesson.Approve, lesson.Pause} {
		if _, err := f.bank.Act(t.Context(), "warm-the-cache", bank.Decision{Action: a, By: "me", Force: true}); err != nil {
			t.Fatal(err)
		}
	}
	paused := f.lessonBySlug("warm-the-cache").State
	proposeDrafts(f, drafts, auto)
	checkEqual(t, "paused lesson's state", f.lessonBySlug("warm-the-cache").State, paused)
}

func TestTriggerThatMatchesManyProgramsIsDropped(t *testing.T) {
	for others, want := range map[int]string{3: "[run-make-with-offline]", 4: "[]"} {
		f := newFixture(t)
		const errorText = "the layout engine is missing, nothing was written"
		f.addSession("one", user("Draw it."), bashCall("make graph", errorText, 2), bashCall("make graph --offline", "ok", 0))
		for i, program := range []string{"bazel", "cmake", "ninja", "meson"}[:others] {
			f.addSession(fmt.Sprint("other ", i), user(fmt.Sprint("Draw it with ", i)), bashCall(program+" graph", errorText, 2))
		}
		f.runDistiller()
		if got := fmt.Sprint(f.slugs()); got != want {
			t.Errorf("same error from %d other programs: lessons = %s, want %s", others, got, want)
		}
	}
}

// A dry run changes neither lessons nor notes. Its summary lists at most 500 drafts.
func TestDryRunOnlyReportsDrafts(t *testing.T) {
	f := newFixture(t)
	proposeDrafts(f, []distill.Draft{newDraft("warm-the-cache", "cold cache")})
	f.addSession("many", user("All of it."))
	store := f.store.(*memoryStore)
	notes, log := len(store.sessionNotes), f.log()
	answers := distill.Judgement{Drafts: []distill.Draft{newDraft("warm-the-cache", "cold cache")}}
	for i := range 501 {
		answers.Drafts = append(answers.Drafts, newDraft(fmt.Sprintf("thing%d-comes-first%d", i, i), fmt.Sprint("thing number ", i)))
	}
	answers.Drafts = append(answers.Drafts, answers.Drafts[5])
	sum := f.runDistiller(func(o *distill.Options) { o.DryRun, o.Judge = true, judgeByText{"All of it.": answers} })
	checkEqual(t, "Candidates, Proposed, Merged and draft count", []int{sum.Candidates, sum.Proposed, sum.Merged, len(sum.Drafts)}, []int{503, 501, 2, 500})
	if len(f.slugs()) != 1 {
		t.Errorf("after a dry run: slugs = %q, want 1 item", f.slugs())
	}
	if len(f.lessonBySlug("warm-the-cache").Evidence) != 1 {
		t.Errorf("after a dry run: Evidence = %+v, want 1 item", f.lessonBySlug("warm-the-cache").Evidence)
	}
	if len(store.sessionNotes) != notes {
		t.Errorf("after a dry run: sessionNotes = %+v, want %d items", store.sessionNotes, notes)
	}
	if f.log() != log {
		t.Errorf("after a dry run: log = %q, want %q", f.log(), log)
	}
}
