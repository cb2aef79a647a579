package distill_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"precept/bandit/feedback"
	"precept/distill"
	"precept/inject/bank"
	"precept/inject/lesson"
	"precept/internal/sample"
	"precept/internal/session"
)

// recordingJudge is a judge that proposes nothing. It records the name and the agent of each session, and how many
// lessons were injected.
type recordingJudge struct{ sessions []string }

func (*recordingJudge) Name() string { return "recording" }

func (j *recordingJudge) Judge(_ context.Context, s *distill.Session, injected []*lesson.Lesson) (distill.Judgement, error) {
	j.sessions = append(j.sessions, fmt.Sprint(strings.TrimRight(string(unhex(s.ID)), " "), " of ", s.Content.Exchanges[0].Agent, " with ", len(injected)))
	return distill.Judgement{Usage: distill.Usage{Input: 10, Output: 5}}, nil
}

func unhex(s string) (out []byte) {
	_, _ = fmt.Sscanf(s, "%x", &out)
	return out
}

// A run judges only sessions that have changed. Options can also limit it to sessions after a time, or to closed
// sessions. Options.Progress counts sessions without content, whereas Summary.Read does not.
func TestRunJudgesOnlyChangedSessions(t *testing.T) {
	f := newFixture(t)
	writeLesson(t, f, "old-advice")
	f.agent = "writer"
	f.addTenantSession("default", "one", append(injected("old-advice", "old-advice", "gone"), sample.Lesson{Slug: "another", State: "withheld"}), user("Task one."))
	f.addSession("two", user("Task two."))
	var open, empty session.ID
	copy(open[:], "open            ")
	copy(empty[:], "empty           ")
	for id, closed := range map[session.ID]bool{open: false, empty: true} {
		if err := f.store.Write(t.Context(), session.Batch{Rows: []session.Row{{Tenant: "default", ID: id, Started: f.now, Seen: f.now, Closed: closed}}}); err != nil {
			t.Fatal(err)
		}
	}
	f.now = f.now.Add(48 * time.Hour)
	f.addSession("late", user("Task three."))
	run := func(change func(o *distill.Options)) (string, distill.Summary, int) {
		judge, read := &recordingJudge{}, 0
		sum := f.runDistiller(func(o *distill.Options) { o.Judge, o.Progress = judge, func(n int) { read += n } }, change)
		return strings.Join(judge.sessions, ", "), sum, read
	}
	judged, sum, read := run(func(o *distill.Options) { o.DryRun, o.Select.Since = true, f.now.Add(-time.Hour) })
	checkEqual(t, "run since an hour ago: judged sessions, Read, progress", []any{judged, sum.Read, read}, []any{"late of writer with 0", 1, 1})
	judged, sum, read = run(func(o *distill.Options) { o.Select.ClosedOnly = true })
	checkEqual(t, "run over closed sessions: judged sessions, Read, Judged, progress", []any{judged, sum.Read, sum.Judged, read}, []any{"one of writer with 1, two of writer with 0, late of writer with 0", 3, 3, 4})
	judged, sum, read = run(func(*distill.Options) {})
	checkEqual(t, "second run: judged sessions, Read, Unchanged, progress", []any{judged, sum.Read, sum.Unchanged, read}, []any{"", 3, 3, 5})

	f.addSession("two", user("Task two.")) // a later request without new content
	judged, sum, _ = run(func(*distill.Options) {})
	checkEqual(t, "run after a request without new content: judged sessions, Unchanged", []any{judged, sum.Unchanged}, []any{"", 3})
	store := f.store.(*memoryStore)
	var two session.ID
	copy(two[:], "two             ")
	store.ratings[two] = []feedback.Entry{{ID: "f", At: f.now, Source: "user", Type: "score", Score: 1}}
	f.addSession("two", user("Task two."))
	judged, _, _ = run(func(*distill.Options) {})
	checkEqual(t, "sessions judged after new feedback", judged, "two of writer with 0")
	store.ratings[two][0].Score = 0
	f.addSession("two", user("Task two."))
	judged, _, _ = run(func(*distill.Options) {})
	checkEqual(t, "sessions judged after changed feedback", judged, "two of writer with 0")
	checkEqual(t, "Judged with a different judge", f.runDistiller().Judged, 3)

	for id := range store.sessionNotes {
		store.sessionNotes[id] = []byte(`{"recording":`)
	}
	store.tenantNotes["default"]["case|x"], store.tenantNotes["default"]["opinion|x"] = []byte(`{`), []byte(`{`)
	judged, _, _ = run(func(*distill.Options) {})
	checkEqual(t, "sessions judged after notes became unreadable", judged, "one of writer with 1, two of writer with 0, late of writer with 0")
}

// The tokens of each answer are subtracted from the budget before the next request, whichever tenant it is for.
func TestBudgetEndsARunAcrossTenants(t *testing.T) {
	for name, tc := range map[string]struct {
		budget distill.Budget
		judged int
		reason string // prefix of Stopped; "" for none
	}{
		"no limit":               {distill.Budget{InputPrice: 1e6, OutputPrice: 1e6}, 6, ""},
		"token limit exceeded":   {distill.Budget{Tokens: 31}, 3, "distill.max_tokens"},
		"token limit reached":    {distill.Budget{Tokens: 30}, 2, "distill.max_tokens"},
		"input cost":             {distill.Budget{Cost: 20, InputPrice: 1e6}, 2, "distill.max_cost"},
		"input and output cost":  {distill.Budget{Cost: 20, InputPrice: 1e6, OutputPrice: 2e6}, 1, "distill.max_cost"},
		"limits above the total": {distill.Budget{Tokens: 91, Cost: 61, InputPrice: 1e6}, 6, ""},
	} {
		f := newFixture(t)
		for i := range 6 {
			f.addTenantSession([]string{"blue", "red"}[i/3], fmt.Sprint("s", i), nil, user(fmt.Sprint("Task ", i)))
		}
		sum := f.runDistiller(func(o *distill.Options) { o.Judge, o.Budget = &recordingJudge{}, tc.budget })
		if sum.Judged != tc.judged || !strings.HasPrefix(sum.Stopped, tc.reason) || (sum.Stopped == "") != (tc.reason == "") || sum.Tokens != int64(15*tc.judged) {
			t.Errorf("%s: summary = %+v, want Judged = %d, Tokens = %d, and Stopped with the prefix %q (if empty: Stopped empty)", name, sum, tc.judged, 15*tc.judged, tc.reason)
		}
	}
}

func TestRunReadsOnlySelectedTenants(t *testing.T) {
	f := newFixture(t)
	for _, tenant := range []string{"blue", "green", "red"} {
		f.addTenantSession(tenant, tenant, nil, user("Task of "+tenant))
	}
	distillTenants := func(names ...string) distill.Summary {
		return f.runDistiller(func(o *distill.Options) { o.Judge, o.Select.Tenants = &recordingJudge{}, append([]string{}, names...) })
	}
	checkEqual(t, "Judged with no tenant selected", distillTenants().Judged, 0)
	checkEqual(t, "Judged with tenant red selected", distillTenants("red").Judged, 1)
	checkEqual(t, "Judged by a later run over all tenants", f.runDistiller(func(o *distill.Options) { o.Judge = &recordingJudge{} }).Judged, 2)
}

// The session continues after each of four runs, so each run judges the session again. The lesson must still count it
// only once.
func TestContinuedSessionCountsOnceForALesson(t *testing.T) {
	failing := func(n int) event {
		return call("change_order", fmt.Sprintf(`{"order_id":"W7781%d"}`, n), `{"error":"a delivered order cannot be changed again"}`)
	}
	f := newFixture(t)
	look := call("get_order", `{"order_id":"W77811"}`, `{"state":"delivered"}`)
	events := []event{user("Change it."), failing(1), failing(1), look}
	for i := range 4 {
		f.addSession("one", events...)
		f.runDistiller()
		events = append(events, user(fmt.Sprint("And more, ", i)))
	}
	if l := f.lessonBySlug("check-with-get-order-first"); len(l.Evidence) != 1 {
		t.Errorf("lesson: Evidence = %+v, want 1 item", l.Evidence)
	} else if l.Support() != 1 {
		t.Errorf("lesson: Support = %d, want 1", l.Support())
	}
}

// panickingBank is a bank that panics when the lesson break-the-bank is proposed.
type panickingBank struct{ distill.Bank }

func (b panickingBank) Propose(ctx context.Context, p bank.Proposal) (bank.Result, error) {
	if p.Lesson.Slug == "break-the-bank" {
		panic("a defect")
	}
	return b.Bank.Propose(ctx, p)
}

// A run ends with an error if the judge fails on three sessions in a row or on all sessions, and otherwise continues.
// In a pattern, each character is a session, and ! means that the judge fails.
func TestRunContinuesAfterFailedSession(t *testing.T) {
	f := newFixture(t)
	judge := judgeByText{"Task 1": {Drafts: []distill.Draft{newDraft("break-the-bank", "some bank")}}, "Task 2": {Drafts: []distill.Draft{newDraft("warm-the-cache", "cold cache")}}}
	for i := range 4 {
		f.addSession(fmt.Sprint("s", i), user(fmt.Sprint("Task ", i)))
	}
	var reported []string
	sum := f.runDistiller(func(o *distill.Options) {
		o.Judge, o.Bank, o.OnFailure = judge, panickingBank{f.bank}, func(_ string, err error) { reported = append(reported, err.Error()) }
	})
	checkEqual(t, "Failed, Proposed and reported errors", []int{sum.Failed, sum.Proposed, len(reported)}, []int{1, 1, 1})
	checkEqual(t, "lessons", f.slugs(), []string{"warm-the-cache"})

	for pattern, fails := range map[string]bool{"!!.!!.!!": false, "...!!!..": true, "!.!.!.!.": false, ".!!": false, "!!": true} {
		f := newFixture(t)
		for i := range len(pattern) {
			f.addSession(fmt.Sprint("s", i), user("Task "+fmt.Sprint(i)))
		}
		sum, err := f.tryRunDistiller(t.Context(), func(o *distill.Options) { o.Judge = &slowJudge{pattern: pattern} })
		if (err != nil) != fails || !fails && sum.Failed != strings.Count(pattern, "!") {
			t.Errorf("failures %s: summary = %+v, err = %v, want an error: %v (if false: no error and Failed = %d)", pattern, sum, err, fails, strings.Count(pattern, "!"))
		}
	}
}

// slowJudge is a judge that exceeds the time limit on session n if character n of the pattern is "!".
type slowJudge struct {
	pattern string
	judged  int
}

func (*slowJudge) Name() string { return "slow" }

func (j *slowJudge) Judge(context.Context, *distill.Session, []*lesson.Lesson) (distill.Judgement, error) {
	j.judged++
	if j.pattern[j.judged-1] == '!' {
		return distill.Judgement{}, errors.Join(errors.New("too slow"), context.DeadlineExceeded)
	}
	return distill.Judgement{}, nil
}

// The store gets the session's row at the start of a turn, and the exchange after the reply. The run is in between.
func TestRunReadsExchangeStoredAfterRow(t *testing.T) {
	for name, closed := range map[string]bool{"open session": false, "continued after the close": true} {
		t.Run(name, func(t *testing.T) {
			f := newFixture(t)
			var id session.ID
			copy(id[:], "s               ")
			write := func(turn int, data string, exchanges ...sample.Exchange) {
				t.Helper()
				row := session.Row{Tenant: "default", ID: id, Started: f.now, Seen: f.now.Add(time.Duration(turn) * time.Minute), Closed: closed, Data: []byte(data)}
				if err := f.store.Write(t.Context(), session.Batch{Rows: []session.Row{row}, Exchanges: exchanges}); err != nil {
					t.Fatal(err)
				}
			}
			exchange := func(turn int) sample.Exchange {
				return sample.Exchange{
					ID: fmt.Sprint("x", turn), Tenant: "default", Session: id.String(), Turn: turn, At: f.now, Outcome: sample.Complete,
					New: []json.RawMessage{raw(map[string]any{"role": "user", "content": fmt.Sprint("Task ", turn)})},
				}
			}
			judged := func() int {
				t.Helper()
				return f.runDistiller(func(o *distill.Options) { o.Judge = &recordingJudge{} }).Judged
			}
			write(1, `{"turns":1,"replies":1}`, exchange(1))
			checkEqual(t, "Judged after the first turn", judged(), 1)
			write(2, `{"turns":2,"replies":1}`)
			checkEqual(t, "Judged during the second turn", judged(), 0)
			write(2, `{"turns":2,"replies":2}`, exchange(2))
			checkEqual(t, "Judged after the second turn", judged(), 1)
			checkEqual(t, "Judged without a further turn", judged(), 0)

			// A failed turn adds no reply to the row. Only the settlement shows that the store has the exchange.
			write(3, `{"turns":3,"replies":2}`)
			checkEqual(t, "Judged during the third turn", judged(), 0)
			write(3, `{"turns":3,"replies":2}`, exchange(3))
			f.store.(*memoryStore).versions = map[session.ID]int64{id: 2}
			checkEqual(t, "Judged after the settlement", judged(), 1)
		})
	}
}
