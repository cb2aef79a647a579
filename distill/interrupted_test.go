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

// judgeByWords is a judge whose answer depends on the first words of the user.
type judgeByWords map[string]distill.Judgement

func (judgeByWords) Name() string { return "spoken" }

func (j judgeByWords) Judge(_ context.Context, s *distill.Session, _ []*lesson.Lesson) (distill.Judgement, error) {
	for _, e := range s.Content.Events() {
		if answer, ok := j[e.Text]; ok {
			return answer, nil
		}
	}
	return distill.Judgement{}, nil
}

// drafted returns a draft of a lesson with the given keywords.
func drafted(slug string, keywords ...string) distill.Draft {
	return distill.Draft{
		Slug: slug, Title: "Take care of " + strings.ReplaceAll(slug, "-", " ") + ".", Applies: "It is done.", Advice: []string{"Do it with care."}, Keywords: keywords, Outcome: "mixed",
	}
}

// crashingBank is a bank whose process may die before any of its writes.
type crashingBank struct {
	distill.Bank
	before func(step string) error
}

func (m crashingBank) Propose(ctx context.Context, p bank.Proposal) (bank.Result, error) {
	if err := m.before("propose"); err != nil {
		return bank.Result{}, err
	}
	return m.Bank.Propose(ctx, p)
}

func (m crashingBank) Act(ctx context.Context, slug string, d bank.Decision) (bank.Result, error) {
	if err := m.before("act"); err != nil {
		return bank.Result{}, err
	}
	return m.Bank.Act(ctx, slug, d)
}

func (m crashingBank) Cite(ctx context.Context, slug string, e []lesson.Evidence, count int, by string) (*lesson.Lesson, error) {
	if err := m.before("cite"); err != nil {
		return nil, err
	}
	return m.Bank.Cite(ctx, slug, e, count, by)
}

var errDead = errors.New("the process is dead")

// After a kill at any step of a run, the next run completes the work: the same lessons in the same
// states with the same evidence, and no session is read a third time.
func TestRunResumesAfterAKillAtAnyStep(t *testing.T) {
	judge := judgeByWords{
		"Find hotels, one.":   {Drafts: []distill.Draft{drafted("warm-the-cache", "cold cache"), drafted("pin-the-page", "page moves")}, Opinions: distill.Opinions{"old-advice": "followed"}},
		"Sleep here, two.":    {Drafts: []distill.Draft{drafted("warm-the-cache", "cold cache")}, Opinions: distill.Opinions{"old-advice": "ignored"}},
		"Whence I am, three.": {Drafts: []distill.Draft{drafted("name-the-region", "which region")}},
	}
	for name, of := range map[string]distill.Judge{"rules": nil, "judge": judge} {
		t.Run(name, func(t *testing.T) {
			// run counts steps, and fails from the step at which the process dies; 0: the process survives.
			run := func(b *bench, owner string, dies int) (steps int, err error) {
				store := b.store.(*memory)
				step := func(string) error {
					if steps++; dies > 0 && steps >= dies {
						return errDead
					}
					return nil
				}
				store.before = step
				defer func() { store.before = func(string) error { return nil } }()
				_, err = b.tryDistil(t.Context(), func(o *distill.Options) {
					o.Judge, o.Auto, o.Owner, o.Bank = of, true, owner, crashingBank{b.bank, step}
				})
				return steps, err
			}
			scene := func() *bench {
				b := newBench(t)
				writeLesson(t, b, "old-advice")
				for i, task := range []string{"Find hotels, one.", "Sleep here, two.", "Whence I am, three."} {
					events := []event{user(task), call("find_hotels", `{"stars":"four"}`, `{"error":"stars must be an integer: four"}`), call("find_hotels", `{"stars":"4"}`, `{"hotels":[]}`)}
					if i == 2 {
						events = []event{user(task), call("book_room", `{"day":"Thursday"}`, `{"error":"day must be an ISO date"}`), call("book_room", `{"day":"2031-05-08"}`, `{"ok":true}`)}
					}
					b.caller = fmt.Sprint("caller-", i)
					b.of("default", fmt.Sprint("s", i), injected("old-advice"), events...)
				}
				return b
			}
			left := func(b *bench) (out []string) {
				for _, l := range b.lessons() {
					out = append(out, fmt.Sprint(l.Slug, " ", l.State, " ", l.Evidence))
				}
				slices.Sort(out)
				answer, err := distill.ReadOpinions(t.Context(), b.store, "default")
				if err != nil {
					t.Fatal(err)
				}
				return append(out, fmt.Sprint(answer))
			}
			whole := scene()
			steps, err := run(whole, "one", 0)
			if err != nil || steps < 10 {
				t.Fatalf("got steps %d, error %v, want no error and steps >= 10", steps, err)
			}
			want := left(whole)
			if all := fmt.Sprint(want); !strings.Contains(all, string(lesson.Trial)) || !strings.Contains(all, string(lesson.Quarantined)) {
				t.Fatalf("the bank has the states %s, want trial and quarantined for this test", all)
			}
			for dies := 1; dies <= steps; dies++ {
				b := scene()
				if _, err := run(b, "one", dies); !errors.Is(err, errDead) {
					t.Fatalf("step %d: the killed run ended with %v, want %v", dies, err, errDead)
				}
				if dies > 2 && dies < steps { // the dead process holds the claim of the tenant
					if sum := b.distil(func(o *distill.Options) { o.Judge, o.Owner = of, "two" }); len(sum.Busy) != 1 || sum.Read != 0 {
						t.Errorf("step %d: with the claim of the killed run the next run does %+v, want one busy tenant and nothing read", dies, sum)
					}
				}
				b.now = b.now.Add(3 * time.Minute)
				if _, err := run(b, "two", 0); err != nil {
					t.Fatalf("after step %d: %v", dies, err)
				}
				equal(t, fmt.Sprint("left after step ", dies), left(b), want)
				if sum := b.distil(func(o *distill.Options) { o.Judge, o.Auto = of, true }); sum.Unchanged != 3 || sum.Candidates != 0 {
					t.Errorf("after step %d a third run does %+v, want 3 unchanged sessions and no candidate", dies, sum)
				}
			}
		})
	}
}

// A worker without a sign of life loses its claim on the tenant to another worker, and writes
// nothing more.
func TestLostClaimWritesNothing(t *testing.T) {
	b := newBench(t)
	b.session("one", user("Find hotels."), call("find_hotels", `{"stars":"four"}`, `{"error":"stars must be an integer: four"}`), call("find_hotels", `{"stars":"4"}`, `{"hotels":[]}`))
	store := b.store.(*memory)
	store.before = func(step string) error {
		if step == "exchanges" { // reading took three minutes, and another distiller claimed the tenant
			store.claimant, store.until = "distill:defaultanother", b.now.Add(time.Hour)
		}
		return nil
	}
	_, err := b.tryDistil(t.Context())
	if err == nil || !strings.Contains(err.Error(), "another distiller has taken the lease") || len(b.slugs()) != 0 || len(store.marks) != 0 || store.claimant != "distill:defaultanother" {
		t.Errorf("a run that lost its claim ended with %v, lessons %v, %d marks and the claimant %s; want an error, none, 0 and the other", err, b.slugs(), len(store.marks), store.claimant)
	}
}

// A long run saves its progress, so that little is read again after a crash.
func TestLongRunSavesItsProgress(t *testing.T) {
	b := newBench(t)
	for i := range 150 {
		b.session(fmt.Sprint("s", i), user(fmt.Sprint("Task ", i)))
	}
	store := b.store.(*memory)
	var noted []int
	store.before = func(step string) error {
		if step == "write notes" {
			noted = append(noted, len(store.marks))
		}
		return nil
	}
	sum := b.distil()
	if equal(t, "marks before each write", noted, []int{0, 64, 128}); sum.Judged != 150 || len(store.marks) != 150 {
		t.Errorf("got %+v with %d marks, want 150 judged sessions with 150 marks", sum, len(store.marks))
	}
}
