package distill_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"precept/distill"
	"precept/inject/bank"
	"precept/inject/lesson"
)

// judgeByText is a judge that maps the text of a message to a judgement.
type judgeByText map[string]distill.Judgement

func (judgeByText) Name() string { return "by text" }

func (j judgeByText) Judge(_ context.Context, s *distill.Session, _ []*lesson.Lesson) (distill.Judgement, error) {
	for _, e := range s.Content.Events() {
		if answer, ok := j[e.Text]; ok {
			return answer, nil
		}
	}
	return distill.Judgement{}, nil
}

func newDraft(slug string, keywords ...string) distill.Draft {
	return distill.Draft{
		Slug: slug, Title: "Take care of " + strings.ReplaceAll(slug, "-", " ") + ".", Applies: "It is done.", Advice: []string{"Do it with care."}, Keywords: keywords, Outcome: "mixed",
	}
}

// crashingBank is a bank that calls beforeStep before each write, and fails with its error.
type crashingBank struct {
	distill.Bank
	beforeStep func(step string) error
}

func (c crashingBank) Propose(ctx context.Context, p bank.Proposal) (bank.Result, error) {
	if err := c.beforeStep("propose"); err != nil {
		return bank.Result{}, err
	}
	return c.Bank.Propose(ctx, p)
}

func (c crashingBank) Act(ctx context.Context, slug string, d bank.Decision) (bank.Result, error) {
	if err := c.beforeStep("act"); err != nil {
		return bank.Result{}, err
	}
	return c.Bank.Act(ctx, slug, d)
}

func (c crashingBank) Cite(ctx context.Context, slug string, e []lesson.Evidence, count int, by string) (*lesson.Lesson, error) {
	if err := c.beforeStep("cite"); err != nil {
		return nil, err
	}
	return c.Bank.Cite(ctx, slug, e, count, by)
}

var errKilled = errors.New("the process is dead")

// The test kills a run at each possible step. The next run must complete the work, and a third run must change nothing.
func TestRunResumesAfterKillAtAnyStep(t *testing.T) {
	judge := judgeByText{
		"Find hotels, one.":   {Drafts: []distill.Draft{newDraft("warm-the-cache", "cold cache"), newDraft("pin-the-page", "page moves")}, Opinions: distill.Opinions{"old-advice": "followed"}},
		"Sleep here, two.":    {Drafts: []distill.Draft{newDraft("warm-the-cache", "cold cache")}, Opinions: distill.Opinions{"old-advice": "ignored"}},
		"Whence I am, three.": {Drafts: []distill.Draft{newDraft("name-the-region", "which region")}},
	}
	for name, j := range map[string]distill.Judge{"rules": nil, "judge": judge} {
		t.Run(name, func(t *testing.T) {
			// The step failAt and all later steps fail. If failAt is 0, no step fails.
			run := func(f *fixture, owner string, failAt int) (steps int, err error) {
				store := f.store.(*memoryStore)
				step := func(string) error {
					if steps++; failAt > 0 && steps >= failAt {
						return errKilled
					}
					return nil
				}
				store.beforeStep = step
				defer func() { store.beforeStep = func(string) error { return nil } }()
				_, err = f.tryRunDistiller(t.Context(), func(o *distill.Options) {
					o.Judge, o.Auto, o.Owner, o.Bank = j, true, owner, crashingBank{f.bank, step}
				})
				return steps, err
			}
			newFixtureWithSessions := func() *fixture {
				f := newFixture(t)
				writeLesson(t, f, "old-advice")
				for i, task := range []string{"Find hotels, one.", "Sleep here, two.", "Whence I am, three."} {
					events := []event{user(task), call("find_hotels", `{"stars":"four"}`, `{"error":"stars must be an integer: four"}`), call("find_hotels", `{"stars":"4"}`, `{"hotels":[]}`)}
					if i == 2 {
						events = []event{user(task), call("book_room", `{"day":"Thursday"}`, `{"error":"day must be an ISO date"}`), call("book_room", `{"day":"2031-05-08"}`, `{"ok":true}`)}
					}
					f.caller = fmt.Sprint("caller-", i)
					f.addTenantSession("default", fmt.Sprint("s", i), injected("old-advice"), events...)
				}
				return f
			}
			results := func(f *fixture) (out []string) {
				for _, l := range f.lessons() {
					out = append(out, fmt.Sprint(l.Slug, " ", l.State, " ", l.Evidence))
				}
				slices.Sort(out)
				answer, err := distill.ReadOpinions(t.Context(), f.store, "default")
				if err != nil {
					t.Fatal(err)
				}
				return append(out, fmt.Sprint(answer))
			}
			complete := newFixtureWithSessions()
			steps, err := run(complete, "one", 0)
			if err != nil {
				t.Fatal(err)
			}
			if steps < 10 {
				t.Fatalf("uninterrupted run: steps = %d, want at least 10", steps)
			}
			want := results(complete)
			if all := fmt.Sprint(want); !strings.Contains(all, string(lesson.Trial)) {
				t.Fatalf("uninterrupted run = %q, want substring %q", all, string(lesson.Trial))
			} else if !strings.Contains(all, string(lesson.Quarantined)) {
				t.Fatalf("uninterrupted run = %q, want substring %q", all, string(lesson.Quarantined))
			}
			for killed := 1; killed <= steps; killed++ {
				f := newFixtureWithSessions()
				if _, err := run(f, "one", killed); !errors.Is(err, errKilled) {
					t.Fatalf("run killed at step %d: err = %v, want %v", killed, err, errKilled)
				}
				if killed > 2 && killed < steps { // the killed run still has the claim on the tenant
					if sum := f.runDistiller(func(o *distill.Options) { o.Judge, o.Owner = j, "two" }); len(sum.Busy) != 1 {
						t.Errorf("second run after a kill at step %d: Busy = %q, want 1 item", killed, sum.Busy)
					} else if sum.Read != 0 {
						t.Errorf("second run after a kill at step %d: Read = %d, want 0", killed, sum.Read)
					}
				}
				f.now = f.now.Add(3 * time.Minute)
				if _, err := run(f, "two", 0); err != nil {
					t.Fatalf("run after a kill at step %d: %v", killed, err)
				}
				checkEqual(t, fmt.Sprintf("lessons and opinions after a kill at step %d", killed), results(f), want)
				if sum := f.runDistiller(func(o *distill.Options) { o.Judge, o.Auto = j, true }); sum.Unchanged != 3 {
					t.Errorf("third run after a kill at step %d: Unchanged = %d, want 3", killed, sum.Unchanged)
				} else if sum.Candidates != 0 {
					t.Errorf("third run after a kill at step %d: Candidates = %d, want 0", killed, sum.Candidates)
				}
			}
		})
	}
}

func TestRunThatLostClaimWritesNothing(t *testing.T) {
	f := newFixture(t)
	f.addSession("one", user("Find hotels."), call("find_hotels", `{"stars":"four"}`, `{"error":"stars must be an integer: four"}`), call("find_hotels", `{"stars":"4"}`, `{"hotels":[]}`))
	store := f.store.(*memoryStore)
	store.beforeStep = func(step string) error {
		if step == "exchanges" { // a second distiller claims the tenant while this distiller reads
			store.claimant, store.claimUntil = "distill:defaultanother", f.now.Add(time.Hour)
		}
		return nil
	}
	_, err := f.tryRunDistiller(t.Context())
	if err == nil {
		t.Fatal("run that lost the claim: error = nil, want an error")
	}
	if !strings.Contains(err.Error(), "another distiller took over") {
		t.Errorf(`run that lost the claim: error = %q, want substring "another distiller took over"`, err.Error())
	}
	if len(f.slugs()) != 0 {
		t.Errorf("run that lost the claim: slugs = %q, want none", f.slugs())
	}
	if len(store.sessionNotes) != 0 {
		t.Errorf("run that lost the claim: sessionNotes = %+v, want none", store.sessionNotes)
	}
	if store.claimant != "distill:defaultanother" {
		t.Errorf(`run that lost the claim: claimant = %q, want "distill:defaultanother"`, store.claimant)
	}
}

// A long run writes the notes that mark sessions as read after every 64 sessions, and not only at the end.
func TestLongRunSavesProgress(t *testing.T) {
	f := newFixture(t)
	for i := range 150 {
		f.addSession(fmt.Sprint("s", i), user(fmt.Sprint("Task ", i)))
	}
	store := f.store.(*memoryStore)
	var noted []int
	store.beforeStep = func(step string) error {
		if step == "write notes" {
			noted = append(noted, len(store.sessionNotes))
		}
		return nil
	}
	sum := f.runDistiller()
	if checkEqual(t, "session notes before each write", noted, []int{0, 64, 128}); sum.Judged != 150 {
		t.Errorf("Judged = %d, want 150", sum.Judged)
	} else if len(store.sessionNotes) != 150 {
		t.Errorf("sessionNotes = %+v, want 150 items", store.sessionNotes)
	}
}
