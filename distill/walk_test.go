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

// recordingJudge is a judge that proposes no lesson. For each session, recordingJudge records the name, the agent and
// the number of received lessons.
type recordingJudge struct{ sessions []string }

func (*recordingJudge) Name() string { return "counting" }

func (j *recordingJudge) Judge(_ context.Context, s *distill.Session, injected []*lesson.Lesson) (distill.Judgement, error) {
	j.sessions = append(j.sessions, fmt.Sprint(strings.TrimRight(string(unhex(s.ID)), " "), " of ", s.Content.Exchanges[0].Agent, " with ", len(injected)))
	return distill.Judgement{Usage: distill.Usage{Input: 10, Output: 5}}, nil
}

// unhex decodes hexadecimal digits.
func unhex(s string) (out []byte) {
	_, _ = fmt.Sscanf(s, "%x", &out)
	return out
}

// A run judges only sessions with content that changed since the last run. Options limit a run to sessions since a time
// or to closed sessions.
func TestRunReadsClosedAndChangedSessionsOnly(t *testing.T) {
	b := newBench(t)
	writeLesson(t, b, "old-advice")
	b.agent = "writer"
	b.tenantSession("default", "one", append(injected("old-advice", "old-advice", "gone"), sample.Lesson{Slug: "another", State: "withheld"}), user("Task one."))
	b.session("two", user("Task two."))
	var open, empty session.ID
	copy(open[:], "open            ")
	copy(empty[:], "empty           ")
	for id, closed := range map[session.ID]bool{open: false, empty: true} {
		if err := b.store.Write(t.Context(), session.Batch{Rows: []session.Row{{Tenant: "default", ID: id, Started: b.now, Seen: b.now, Closed: closed}}}); err != nil {
			t.Fatal(err)
		}
	}
	b.now = b.now.Add(48 * time.Hour)
	b.session("late", user("Task three."))
	run := func(change func(o *distill.Options)) (string, distill.Summary, int) {
		judge, read := &recordingJudge{}, 0
		sum := b.distil(func(o *distill.Options) { o.Judge, o.Progress = judge, func(n int) { read += n } }, change)
		return strings.Join(judge.sessions, ", "), sum, read
	}
	ids, sum, read := run(func(o *distill.Options) { o.DryRun, o.Select.Since = true, b.now.Add(-time.Hour) })
	equal(t, "sessions of the last hour, read sessions, progress", []any{ids, sum.Read, read}, []any{"late of writer with 0", 1, 1})
	ids, sum, read = run(func(o *distill.Options) { o.Select.Settled = true })
	equal(t, "closed sessions, read, judged, progress", []any{ids, sum.Read, sum.Judged, read}, []any{"one of writer with 1, two of writer with 0, late of writer with 0", 4, 3, 4})
	ids, sum, read = run(func(*distill.Options) {})
	equal(t, "sessions of a second run, read, unchanged, progress", []any{ids, sum.Read, sum.Unchanged, read}, []any{"", 5, 5, 5})

	b.session("two", user("Task two.")) // a later request without new content
	ids, sum, _ = run(func(*distill.Options) {})
	equal(t, "sessions after a request without new content, unchanged", []any{ids, sum.Unchanged}, []any{"", 5})
	store := b.store.(*memory)
	var two session.ID
	copy(two[:], "two             ")
	store.ratings[two] = []feedback.Entry{{ID: "f", At: b.now, Source: "user", Type: "score", Score: 1}}
	b.session("two", user("Task two."))
	ids, _, _ = run(func(*distill.Options) {})
	equal(t, "sessions after new feedback", ids, "two of writer with 0")
	store.ratings[two][0].Score = 0
	b.session("two", user("Task two."))
	ids, _, _ = run(func(*distill.Options) {})
	equal(t, "sessions after changed feedback", ids, "two of writer with 0")
	equal(t, "sessions judged with another judge", b.distil().Judged, 3)

	for id := range store.sessionNotes {
		store.sessionNotes[id] = []byte(`{"counting":`)
	}
	store.tenantNotes["default"]["case|x"], store.tenantNotes["default"]["opinion|x"] = []byte(`{`), []byte(`{`)
	ids, _, _ = run(func(*distill.Options) {})
	equal(t, "sessions with unreadable notes", ids, "one of writer with 1, two of writer with 0, late of writer with 0")
}

// All tenants of a run share one budget. The tokens of an answer count before the next request.
func TestBudgetEndsARunAcrossTenants(t *testing.T) {
	for name, c := range map[string]struct {
		budget distill.Budget
		judged int    // sessions
		reason string // prefix of Stopped; "" means the run does not stop
	}{
		"no cap":              {distill.Budget{PerInput: 1e6, PerOut: 1e6}, 6, ""},
		"tokens":              {distill.Budget{Tokens: 31}, 3, "distill.max_tokens"},
		"tokens, just enough": {distill.Budget{Tokens: 30}, 2, "distill.max_tokens"},
		"cost":                {distill.Budget{Cost: 20, PerInput: 1e6}, 2, "distill.max_cost"},
		"cost of both":        {distill.Budget{Cost: 20, PerInput: 1e6, PerOut: 2e6}, 1, "distill.max_cost"},
		"enough for all":      {distill.Budget{Tokens: 91, Cost: 61, PerInput: 1e6}, 6, ""},
	} {
		b := newBench(t)
		for i := range 6 {
			b.tenantSession([]string{"blue", "red"}[i/3], fmt.Sprint("s", i), nil, user(fmt.Sprint("Task ", i)))
		}
		sum := b.distil(func(o *distill.Options) { o.Judge, o.Budget = &recordingJudge{}, c.budget })
		if sum.Judged != c.judged || !strings.HasPrefix(sum.Stopped, c.reason) || (sum.Stopped == "") != (c.reason == "") || sum.Tokens != int64(15*c.judged) {
			t.Errorf(`%s: run: got summary %+v, want %d judged sessions, %d tokens, and Stopped with prefix %q (empty: Stopped is empty)`, name, sum, c.judged, 15*c.judged, c.reason)
		}
	}
}

// A run for some tenants reads no session of another tenant.
func TestRunForSomeTenantsReadsNoOther(t *testing.T) {
	b := newBench(t)
	for _, tenant := range []string{"blue", "green", "red"} {
		b.tenantSession(tenant, tenant, nil, user("Task of "+tenant))
	}
	distilTenants := func(names ...string) distill.Summary {
		return b.distil(func(o *distill.Options) { o.Judge, o.Select.Tenants = &recordingJudge{}, append([]string{}, names...) })
	}
	equal(t, "judged sessions of no tenant", distilTenants().Judged, 0)
	equal(t, "judged sessions of the tenant red", distilTenants("red").Judged, 1)
	equal(t, "judged sessions of a later run over all tenants", b.distil(func(o *distill.Options) { o.Judge = &recordingJudge{} }).Judged, 2)
}

// A session has the same failure twice. The session continues after each run, so that four runs judge the session. The
// lesson counts the session once.
func TestContinuedSessionCountsOnceForALesson(t *testing.T) {
	failing := func(n int) event {
		return call("change_order", fmt.Sprintf(`{"order_id":"W7781%d"}`, n), `{"error":"a delivered order cannot be changed again"}`)
	}
	b := newBench(t)
	look := call("get_order", `{"order_id":"W77811"}`, `{"state":"delivered"}`)
	events := []event{user("Change it."), failing(1), failing(1), look}
	for i := range 4 {
		b.session("one", events...)
		b.distil()
		events = append(events, user(fmt.Sprint("And more, ", i)))
	}
	if l := b.toLesson("check-with-get-order-first"); len(l.Evidence) != 1 || l.Support() != 1 {
		t.Errorf("the lesson counts %d sessions and has %d references, want 1 session and 1 reference", l.Support(), len(l.Evidence))
	}
}

// panickingBank is a bank that panics when the lesson break-the-bank is proposed.
type panickingBank struct{ distill.Bank }

func (f panickingBank) Propose(ctx context.Context, p bank.Proposal) (bank.Result, error) {
	if p.Lesson.Slug == "break-the-bank" {
		panic("a defect")
	}
	return f.Bank.Propose(ctx, p)
}

// A panic while a session is judged fails only this session. A run with a failing judge continues until the judge fails
// on three sessions in a row or on all sessions.
func TestFaultOfOneSessionDoesNotStopTheRun(t *testing.T) {
	b := newBench(t)
	judge := judgeByWords{"Task 1": {Drafts: []distill.Draft{newDraft("break-the-bank", "some bank")}}, "Task 2": {Drafts: []distill.Draft{newDraft("warm-the-cache", "cold cache")}}}
	for i := range 4 {
		b.session(fmt.Sprint("s", i), user(fmt.Sprint("Task ", i)))
	}
	var texts []string
	sum := b.distil(func(o *distill.Options) {
		o.Judge, o.Bank, o.Failed = judge, panickingBank{b.bank}, func(_ string, err error) { texts = append(texts, err.Error()) }
	})
	equal(t, "failed sessions, proposed drafts, reported errors", []int{sum.Failed, sum.Proposed, len(texts)}, []int{1, 1, 1})
	equal(t, "lessons", b.slugs(), []string{"warm-the-cache"})

	for pattern, fails := range map[string]bool{"!!.!!.!!": false, "...!!!..": true, "!.!.!.!.": false, ".!!": false, "!!": true} {
		b := newBench(t)
		for i := range len(pattern) {
			b.session(fmt.Sprint("s", i), user("Task "+fmt.Sprint(i)))
		}
		sum, err := b.tryDistil(t.Context(), func(o *distill.Options) { o.Judge = &slowJudge{pattern: pattern} })
		if (err != nil) != fails || !fails && sum.Failed != strings.Count(pattern, "!") {
			t.Errorf("failures %s: run: got summary %+v, error %v, want an error: %v (if not, %d failed sessions)", pattern, sum, err, fails, strings.Count(pattern, "!"))
		}
	}
}

// slowJudge is a judge that exceeds its time limit at each ! in the pattern. Each session takes one character of the
// pattern.
type slowJudge struct {
	pattern string
	judged  int // number of judged sessions
}

func (*slowJudge) Name() string { return "moody" }

func (m *slowJudge) Judge(context.Context, *distill.Session, []*lesson.Lesson) (distill.Judgement, error) {
	m.judged++
	if m.pattern[m.judged-1] == '!' {
		return distill.Judgement{}, errors.Join(errors.New("too slow"), context.DeadlineExceeded)
	}
	return distill.Judgement{}, nil
}

// A run during a turn reads the session without the exchange of the turn: the store has the row already, and gets the
// exchange after the reply. The next run reads the exchange.
func TestExchangeAfterItsRowIsRead(t *testing.T) {
	for name, closed := range map[string]bool{"open session": false, "continued after the close": true} {
		t.Run(name, func(t *testing.T) {
			b := newBench(t)
			var id session.ID
			copy(id[:], "s               ")
			write := func(turn int, data string, exchanges ...sample.Exchange) {
				t.Helper()
				row := session.Row{Tenant: "default", ID: id, Started: b.now, Seen: b.now.Add(time.Duration(turn) * time.Minute), Closed: closed, Data: []byte(data)}
				if err := b.store.Write(t.Context(), session.Batch{Rows: []session.Row{row}, Exchanges: exchanges}); err != nil {
					t.Fatal(err)
				}
			}
			exchange := func(turn int) sample.Exchange {
				return sample.Exchange{
					ID: fmt.Sprint("x", turn), Tenant: "default", Session: id.String(), Turn: turn, At: b.now, Outcome: sample.Complete,
					New: []json.RawMessage{raw(map[string]any{"role": "user", "content": fmt.Sprint("Task ", turn)})},
				}
			}
			judged := func() int {
				t.Helper()
				return b.distil(func(o *distill.Options) { o.Judge = &recordingJudge{} }).Judged
			}
			write(1, `{"turns":1,"replies":1}`, exchange(1))
			equal(t, "judged sessions after the first turn", judged(), 1)
			write(2, `{"turns":2,"replies":1}`)
			equal(t, "judged sessions during the second turn", judged(), 0)
			write(2, `{"turns":2,"replies":2}`, exchange(2))
			equal(t, "judged sessions after the second turn", judged(), 1)
			equal(t, "judged sessions without a further turn", judged(), 0)

			// A failed turn adds no reply to the row. The settlement shows that the store has its exchange.
			write(3, `{"turns":3,"replies":2}`)
			equal(t, "judged sessions during the third turn", judged(), 0)
			write(3, `{"turns":3,"replies":2}`, exchange(3))
			b.store.(*memory).versions = map[session.ID]int64{id: 2}
			equal(t, "judged sessions after the settlement", judged(), 1)
		})
	}
}
