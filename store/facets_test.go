package store_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"precept/bandit/feedback"
	"precept/bandit/trial"
	"precept/internal/sample"
	"precept/internal/session"
	"precept/store"
)

func TestFacetCountEqualsFilteredListLength(t *testing.T) {
	t.Parallel()
	f := newFixture(t, nil)
	f.writeSessions(90, func(i int, rec *session.Record) {
		rec.Identity.Agent = []string{"coder", "writer"}[i%2]
		rec.Thread.Turns, rec.Facts.Turns = 1, 1
		rec.Facts.Tools = []string{"bash", fmt.Sprint("tool-", i%3)}
		rec.Facts.ErrorKinds = [][]string{nil, {"connection-refused"}}[i%2]
		rec.Lessons.Matched = []string{"a"}
		rec.Assignment.Control = i%10 == 0
		if !rec.Assignment.Control {
			rec.Assignment.Picks = []trial.Pick{{Slug: "a", Arm: "a@1", Injected: i%3 > 0}}
		}
	})
	recent, err := f.archive.Recent(t.Context(), tenantA, time.Time{}, time.Time{})
	if err != nil {
		t.Fatal(err)
	}
	for _, q := range []store.SessionQuery{{}, {Agent: "coder"}, {ErrorKind: "connection-refused"}, {Lesson: "a", Fate: store.FateWithheld}} {
		q.Tenant, q.Limit = tenantA, store.MaxRows
		facets := recent.Facets(&q)
		checkEqual(t, "Facets.Selected", facets.Selected, len(f.browse(q).Sessions))
		for _, v := range facets.Agents {
			filtered := q
			filtered.Agent = v.Value
			checkEqual(t, "sessions with the agent "+v.Value, len(f.browse(filtered).Sessions), v.Sessions)
		}
		for _, v := range facets.Tools {
			filtered := q
			filtered.ToolName = v.Value
			checkEqual(t, "sessions with the tool "+v.Value, len(f.browse(filtered).Sessions), v.Sessions)
		}
		for _, l := range facets.Lessons {
			for fate, n := range map[string]int{store.FateMatched: l.Matched, store.FateInjected: l.Injected, store.FateWithheld: l.Withheld, store.FateControl: l.Control} {
				filtered := q
				filtered.Lesson, filtered.Fate = l.Slug, fate
				checkEqual(t, "sessions with fate "+fate+" for lesson "+l.Slug, len(f.browse(filtered).Sessions), n)
			}
		}
	}
}

// The loop warning and the sections of rules files are only in the session's assignment.
func TestFacetsCountLoopWarningAndSections(t *testing.T) {
	t.Parallel()
	f := newFixture(t, nil)
	const section = "rule:AGENTS.md#Search"
	f.writeSessions(3, func(i int, rec *session.Record) {
		if rec.Assignment.Control = i == 2; rec.Assignment.Control {
			rec.Assignment.Matched = []trial.Match{{Arm: trial.LoopArm}}
			return
		}
		rec.Assignment.Picks = []trial.Pick{
			{Slug: trial.LoopArm.Slug(), Arm: trial.LoopArm, Injected: i == 0}, {Slug: section, Arm: section + "@1"},
		}
	})
	recent, err := f.archive.Recent(t.Context(), tenantA, time.Time{}, time.Time{})
	if err != nil {
		t.Fatal(err)
	}
	facets := recent.Facets(&store.SessionQuery{})
	checkList(t, "lesson facet", facets.Lessons, []store.LessonFacet{
		{Slug: trial.LoopArm.Slug(), Matched: 3, Injected: 1, Withheld: 1, Control: 1}, {Slug: section, Matched: 2, Withheld: 2},
	})
	for _, l := range facets.Lessons {
		q := store.SessionQuery{Tenant: tenantA, Lesson: l.Slug, Fate: store.FateMatched}
		checkEqual(t, "listed sessions matching lesson "+l.Slug, len(f.browse(q).Sessions), l.Matched)
	}
}

// A session's facts are its task, its tools and its errors. Rows from an earlier release do not contain facts.
func TestBrowseListsRowsWithoutFacts(t *testing.T) {
	t.Parallel()
	f := newFixture(t, nil)
	f.writeSessions(3, func(i int, rec *session.Record) {
		if i == 1 {
			rec.Facts = session.Facts{Turns: 1, Task: "fix it", Tools: []string{"bash"}, Errors: 2}
			rec.Thread.Turns = 1
		}
	})
	list := f.browse(store.SessionQuery{})
	for _, x := range list.Sessions {
		hasFacts := x.Name == "s1"
		if (x.Errors != nil) != hasFacts {
			t.Errorf("listed session %s: Errors is set = %v, want %v", x.Name, x.Errors != nil, hasFacts)
		}
		if (x.Task != "") != hasFacts {
			t.Errorf("listed session %s: Task is set = %v, want %v", x.Name, x.Task != "", hasFacts)
		}
		if x.Tools == nil {
			t.Errorf("listed session %s: Tools = nil", x.Name)
		}
	}
}

// The session list must contain the run's sessions, but not the record of the run itself.
func TestBrowseShowsRunAssignmentAndReward(t *testing.T) {
	t.Parallel()
	f := newFixture(t, nil)
	run := session.RunID(tenantA, "nightly")
	f.writeSessions(4, func(i int, rec *session.Record) {
		if i == 0 {
			rec.Identity.ID, rec.Identity.Name, rec.Unit.IsRun, rec.Unit.Members = run, "nightly", true, 3
			rec.Assignment.Picks = []trial.Pick{{Slug: "a", Arm: "a@1", Injected: true}, {Slug: "b", Arm: "b@1"}}
			rec.Assignment.Exclude(trial.ExcludedLate)
			return
		}
		rec.Unit.ID, rec.Unit.RunName = run.String(), "nightly"
		rec.Lessons.Matched = []string{"a"}
	})
	for id, reward := range map[session.ID]float64{run: 0.2, sessionID("s1"): 1} { // session s1 also has feedback of its own
		if _, err := f.backend.Settle(t.Context(), []session.Settlement{{Tenant: tenantA, ID: id, To: session.SettledState{Version: 1, Rewarded: true, Reward: reward, Tier: 2}}}); err != nil {
			t.Fatal(err)
		}
	}
	list := f.browse(store.SessionQuery{Run: "nightly"})
	checkEqual(t, "sessions in the run", len(list.Sessions), 3)
	checkEqual(t, "SessionList.RowsRead without the run", list.RowsRead, 3)
	for _, x := range list.Sessions {
		checkEqual(t, "session's injected and withheld lessons", fmt.Sprint(x.Injected, x.Withheld), "[a] []")
		checkEqual(t, "session's verdict", x.Verdict, sample.Poor)
		checkEqual(t, "session's exclusion", fmt.Sprint(x.Excluded, " for ", x.ExcludedFor), "true for late")
	}
	tr, err := f.archive.Transcript(t.Context(), tenantA, list.Sessions[0].ID, 0)
	if err != nil {
		t.Fatal(err)
	}
	if tr.Rewarded.Counted != nil {
		t.Errorf("counted reward of an excluded session = %v, want none", *tr.Rewarded.Counted)
	}
}

// The record of a run contains the picks of all sessions in the run. A transcript marks sections of rules files as
// shared, because the record does not say which session sent the file.
func TestTranscriptOmitsOtherSessionsPicks(t *testing.T) {
	t.Parallel()
	f := newFixture(t, nil)
	run := session.RunID(tenantA, "nightly")
	f.writeSessions(3, func(i int, rec *session.Record) {
		if i == 0 {
			rec.Identity.ID, rec.Identity.Name, rec.Unit.IsRun, rec.Unit.Members = run, "nightly", true, 2
			rec.Assignment.Picks = []trial.Pick{
				{Slug: "a", Arm: "a@1", Injected: true}, {Slug: "b", Arm: "b@1"}, {Slug: "rule:AGENTS.md#Search", Arm: "rule:AGENTS.md#Search@x"},
			}
			return
		}
		rec.Unit.ID, rec.Unit.RunName = run.String(), "nightly"
		rec.Lessons.Matched = [][]string{{"a"}, {"b"}}[i-1]
	})
	// Each value lists the lessons with their fates, and says which fates are shared.
	for name, want := range map[string]string{
		"s1": "a injected false, rule:AGENTS.md#Search withheld true", "s2": "b withheld false, rule:AGENTS.md#Search withheld true",
	} {
		tr, err := f.archive.Transcript(t.Context(), tenantA, name, 0)
		if err != nil {
			t.Fatal(err)
		}
		var fates []string
		for _, x := range tr.Fates {
			fates = append(fates, fmt.Sprint(x.Slug, " ", x.State, " ", x.Shared))
		}
		checkEqual(t, "lessons in the transcript for session "+name, strings.Join(fates, ", "), want)
		checkEqual(t, "picks in the run", len(tr.Picks), 3)
	}
}

// A transcript shows the run's reward, but only the feedback on its own session.
func TestTranscriptHasRunReward(t *testing.T) {
	t.Parallel()
	f := newFixture(t, nil)
	run := session.RunID(tenantA, "nightly")
	f.writeSessions(3, func(i int, rec *session.Record) {
		if i == 0 {
			rec.Identity.ID, rec.Identity.Name, rec.Unit.IsRun, rec.Unit.Members = run, "nightly", true, 2
			return
		}
		rec.Unit.ID, rec.Unit.RunName, rec.Unit.MemberNumber = run.String(), "nightly", i
	})
	rejected := feedback.Entry{ID: "fb-1", At: f.clock.now(), Source: feedback.SourceUser, Type: feedback.TypeRejection, Tier: feedback.TierUser}
	rejected.Hash = rejected.ContentHash()
	f.postFeedback(tenantA, sessionID("s1"), rejected)
	f.postFeedback(tenantA, run, rejected.CopyForUnit(sessionID("s1").String()))
	f.deliverAll()
	// The values are: reward, Shared, and Decides for each source of feedback.
	for name, want := range map[string]string{"s1": "0 true [true]", "s2": "0 true []"} {
		tr, err := f.archive.Transcript(t.Context(), tenantA, name, 0)
		if err != nil {
			t.Fatalf("reward in the transcript of session %s: %v", name, err)
		}
		if tr.Rewarded.Value == nil {
			t.Fatalf("reward in the transcript of session %s: Value = nil", name)
		}
		var decides []bool
		for _, x := range tr.Rewarded.Sources {
			decides = append(decides, x.Decides)
		}
		checkEqual(t, "session "+name+": reward, Shared, and each source's Decides", fmt.Sprint(*tr.Rewarded.Value, tr.Rewarded.Shared, decides), want)
	}
}

// If a session is deleted after Archive.Recent has read it, BrowseOrdered must not list the session.
func TestBrowseOrderedHasPagesAndTotal(t *testing.T) {
	t.Parallel()
	f := newFixture(t, nil)
	turns := []int{3, 9, 1, 7, 5, 2}
	f.writeSessions(len(turns), func(i int, rec *session.Record) {
		rec.Thread.Turns, rec.Identity.Agent = turns[i], []string{"coder", "writer"}[i/5]
		rec.Facts = session.Facts{Turns: turns[i], Task: "fix it"}
	})
	recent, err := f.archive.Recent(t.Context(), tenantA, time.Time{}, time.Time{})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := f.backend.Forget(t.Context(), tenantA, sessionID("s4")); err != nil {
		t.Fatal(err)
	}
	q := store.SessionQuery{Tenant: tenantA, Agent: "coder", Limit: 2}
	mostTurns := func(x, y *store.SessionItem) int { return y.Turns - x.Turns }
	for _, want := range []string{"9 7", "3", "1"} { // the deleted session s4 had 5 turns, and would be on the second page
		list, err := f.archive.BrowseOrdered(t.Context(), &recent, &q, mostTurns)
		if err != nil {
			t.Fatal(err)
		}
		var got []string
		for _, x := range list.Sessions {
			got = append(got, fmt.Sprint(x.Turns))
			checkEqual(t, "listed session's task", x.Task, "fix it")
		}
		checkEqual(t, "turns on the page", strings.Join(got, " "), want)
		checkEqual(t, "list total", *list.Total, store.Total{Sessions: 5, InRange: 6, Exact: true})
		q.After = list.Next
	}
	checkEqual(t, "position after the last page", q.After, "")
	for _, after := range []string{"5", "n-1", "nx", "x"} {
		q.After = after
		if _, err := f.archive.BrowseOrdered(t.Context(), &recent, &q, mostTurns); !errors.Is(err, session.ErrUnknownPosition) {
			t.Errorf("BrowseOrdered from the unknown position %q: got error %v, want %v", after, err, session.ErrUnknownPosition)
		}
	}
}
