package store_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"precept/bandit/trial"
	"precept/internal/sample"
	"precept/internal/session"
	"precept/internal/wire"
	"precept/store"
)

// writeSessions writes the sessions s0, s1, ... to the backend. A nil change keeps the records.
func (f *fixture) writeSessions(n int, change func(i int, rec *session.Record)) {
	f.t.Helper()
	var b session.Batch
	for i := range n {
		name := fmt.Sprint("s", i)
		at := f.clock.now().Add(time.Duration(i) * time.Second)
		rec := &session.Record{
			Identity: session.Identity{ID: sessionID(name), Tenant: tenantA, Agent: "coder", Name: name, Started: at, Seen: at, Model: "m-1"},
			Thread:   session.Thread{Turns: 1},
		}
		if change != nil {
			change(i, rec)
		}
		row, err := rec.Row(func(text string) (string, bool) { return text, true })
		if err != nil {
			f.t.Fatal(err)
		}
		b.Rows = append(b.Rows, row)
	}
	if err := f.backend.backend.Write(f.t.Context(), b); err != nil {
		f.t.Fatal(err)
	}
}

func (f *fixture) browse(q store.SessionQuery) store.SessionList {
	f.t.Helper()
	q.Tenant = tenantA
	list, err := f.archive.Browse(f.t.Context(), q)
	if err != nil {
		f.t.Fatal(err)
	}
	return list
}

func sessionNames(list store.SessionList) []string {
	out := []string{}
	for _, x := range list.Sessions {
		out = append(out, x.Name)
	}
	return out
}

func TestBrowseListsEachSessionOnOnePage(t *testing.T) {
	t.Parallel()
	f := newFixture(t, nil)
	f.writeSessions(1000, func(i int, rec *session.Record) {
		rec.Identity.Agent = []string{"coder", "writer"}[i%2]
		rec.Lessons.Loops.Count = i % 3
		if i == 77 {
			rec.Identity.Model = "rare"
		}
	})
	checkEqual(t, "names on a page of 3 sessions", strings.Join(sessionNames(f.browse(store.SessionQuery{Limit: 3})), " "), "s999 s998 s997")
	checkEqual(t, "sessions on a page without a limit", len(f.browse(store.SessionQuery{}).Sessions), store.DefaultRows)
	checkEqual(t, "sessions on a page with a limit of 5000", len(f.browse(store.SessionQuery{Limit: 5000}).Sessions), store.MaxRows)
	for _, q := range []store.SessionQuery{{Agent: "Writer", Limit: 7}, {Loops: true, Limit: 199}, {Model: "rare"}, {Agent: "writer", Loops: true, Limit: 60}} {
		want := 0
		for i := range 1000 {
			if (q.Agent == "" || i%2 == 1) && (!q.Loops || i%3 > 0) && (q.Model == "" || i == 77) {
				want++
			}
		}
		seen := map[string]bool{}
		for more := true; more; {
			list := f.browse(q)
			for _, n := range sessionNames(list) {
				if seen[n] {
					t.Errorf("session %s is on two pages", n)
				}
				seen[n] = true
			}
			q.After, more = list.Next, list.Next != ""
		}
		checkEqual(t, fmt.Sprintf("sessions on all pages of %+v", q), len(seen), want)
	}
	if _, err := f.archive.Browse(t.Context(), store.SessionQuery{Tenant: tenantA, After: "x"}); !errors.Is(err, session.ErrUnknownPosition) {
		t.Errorf(`Browse(After: "x") error = %v, want ErrUnknownPosition`, err)
	}
	list, err := f.archive.Browse(t.Context(), store.SessionQuery{Tenant: "them"})
	if err != nil {
		t.Error(err)
	}
	checkEqual(t, "another tenant's sessions", len(list.Sessions), 0)
}

func TestBrowseLimitsRowsRead(t *testing.T) {
	t.Parallel()
	const scan, search = 5000, 1000 // rows that a query and a text search read
	f := newFixture(t, nil)
	f.writeSessions(scan+500, nil)
	list := f.browse(store.SessionQuery{Agent: "nobody"})
	checkEqual(t, "sessions on the first page", len(list.Sessions), 0)
	checkAtLeast(t, "rows read for the first page", list.RowsRead, scan)
	checkAtMost(t, "rows read for the first page", list.RowsRead, scan+store.MaxRows)
	if list.Next == "" {
		t.Fatal("first page: Next is empty")
	}
	if list.OldestStart == nil {
		t.Fatal("first page: OldestStart is nil")
	}
	checkEqual(t, "start of the newest session read", list.NewestStart.Sub(f.clock.now()), (scan+499)*time.Second)
	list = f.browse(store.SessionQuery{Agent: "nobody", After: list.Next})
	checkEqual(t, "last page's Next", list.Next, "")
	checkAtLeast(t, "rows read for the last page", list.RowsRead, 1)
	list = f.browse(store.SessionQuery{Text: store.TextQuery{Words: "nowhere"}})
	checkAtMost(t, "rows read by a text search", list.RowsRead, search+store.DefaultRows)
	if list.Next == "" {
		t.Error("text search: Next is empty")
	}
}

func TestBrowseFiltersByVerdictRewardAndName(t *testing.T) {
	t.Parallel()
	f := newFixture(t, nil)
	for name, reward := range map[string]float64{"best": 1, "fair": 0.5, "worst": 0} {
		f.postFeedback(tenantA, f.playOneTurn(name, newAssignment(true)), newScore("f-"+name, 1, reward))
	}
	f.playOneTurn("unrated", newAssignment(false))
	f.deliver()
	f.closeSessions()
	f.beginSession(tenantA, "open", newAssignment(true))
	f.deliver()
	for verdict, want := range map[string]string{sample.Good: "best", sample.Acceptable: "fair", sample.Poor: "worst", store.Unrated: "unrated", store.StillOpen: "open"} {
		checkEqual(t, "sessions with the verdict "+verdict, strings.Join(sessionNames(f.browse(store.SessionQuery{Verdict: verdict})), " "), want)
	}
	low, high := 0.2, 0.7
	checkEqual(t, "sessions with reward 0.2 to 0.7", strings.Join(sessionNames(f.browse(store.SessionQuery{MinReward: &low, MaxReward: &high})), " "), "fair")
	checkEqual(t, "sessions with the name worst", strings.Join(sessionNames(f.browse(store.SessionQuery{Session: "worst"})), " "), "worst")
	best := sessionID("best").String()
	checkEqual(t, "sessions with best's id", strings.Join(sessionNames(f.browse(store.SessionQuery{Session: best})), " "), "best")
	checkEqual(t, "sessions with best's request id", strings.Join(sessionNames(f.browse(store.SessionQuery{Session: "req_" + best + "0123456789abcdef"})), " "), "best")
	f.store.AddEchoes(session.Echo{Tenant: tenantA, Key: session.TenantEchoKey(tenantA, "r:resp_1"), ID: sessionID("fair"), At: f.clock.now()})
	f.deliver()
	checkEqual(t, "sessions with fair's response id", strings.Join(sessionNames(f.browse(store.SessionQuery{Session: "resp_1"})), " "), "fair")
	checkEqual(t, "sessions with an unknown name", len(f.browse(store.SessionQuery{Session: "nobody"}).Sessions), 0)
}

// playMixedSession plays a session with a tool error, a loop warning, and an injected and a withheld lesson.
func (f *fixture) playMixedSession(name string) *conversation {
	c := f.newConversation(name)
	c.sendTurn(1, func(x *sample.Exchange) {
		x.New = []json.RawMessage{json.RawMessage(`{"role":"system","content":"You are a coder."}`), json.RawMessage(`{"role":"user","content":"Fix the <b>Flaky</b> build"}`)}
		x.FirstNew, x.Repeated = 0, 0
		x.Reply = sample.Reply{Text: "I look.", Calls: []sample.Call{{ID: "c1", Name: "bash", Args: `{"command":"make"}`}}, InputTokens: 100, CachedTokens: 40, OutputTokens: 7}
		x.Lessons = []sample.Lesson{{Slug: "kept-back", Arm: "a", State: "withheld", Propensity: 0.7}, {Slug: "shown", Arm: "b", State: "injected", Propensity: 0.7}}
	})
	f.change(c.id, store.Unchanged, func(rec *session.Record) {
		rec.Lessons.Blocks = []session.Block{
			{Anchor: wire.Anchor{Role: wire.RoleUser, Hash: 1}, Text: "Lessons from past experience:\n", Turn: 1, Slugs: []string{"shown"}},
			{Anchor: wire.Anchor{CallID: "c1"}, Text: "[LOOP DETECTED] bash token=" + "sk-" + strings.Repeat("a1B2", 12), Turn: 2, Loop: true},
		}
		rec.Assignment.Picks = []trial.Pick{
			{Slug: "shown", Arm: "b", Injected: true, Propensity: 0.7, Turn: 1},
			{Slug: "kept-back", Arm: "a", Propensity: 0.7, Turn: 1},
			{Slug: "rule:AGENTS.md#Search", Arm: "rule:AGENTS.md#Search@x", Propensity: 0.5, Turn: 1},
		}
		rec.Lessons.Matched = []string{"kept-back", "shown"}
		rec.State.Dirty = true
	})
	c.sendTurn(2, func(x *sample.Exchange) {
		x.New = []json.RawMessage{
			json.RawMessage(`{"role":"assistant","content":"I look.","tool_calls":[{"id":"c1","type":"function","function":{"name":"bash","arguments":"{\"command\":\"make\"}"}}]}`),
			json.RawMessage(`{"role":"tool","tool_call_id":"c1","content":"make: *** [all] Error 2\nexit code: 2"}`),
		}
		x.FirstNew = 2
		x.Reply = sample.Reply{Text: "It fails.", Error: ""}
		x.Loops = 1
	})
	c.removeTurnBlocks()
	return c
}

// removeTurnBlocks removes the blocks that sendTurn has inserted.
func (c *conversation) removeTurnBlocks() {
	c.fixture.change(c.id, store.DecisionsChanged, func(rec *session.Record) {
		rec.Lessons.Blocks = slices.DeleteFunc(rec.Lessons.Blocks, func(b session.Block) bool { return b.Text == "x" })
		rec.State.Dirty = true
	})
	c.deliverAll()
}

func TestTranscriptShowsTextsBlocksAndWithheldLessons(t *testing.T) {
	t.Parallel()
	const maxTextBytes = 32 << 10 // longer texts are cut in a transcript
	f := newFixture(t, nil)
	c := f.playMixedSession("story")
	c.sendTurn(3, func(x *sample.Exchange) {
		x.New = []json.RawMessage{json.RawMessage(`{"role":"assistant","content":"It fails."}`), json.RawMessage(`{"role":"user","content":"thanks"}`)}
		x.Reply.Text = strings.Repeat("ä", maxTextBytes)
	})
	c.removeTurnBlocks()
	f.postFeedback(tenantA, c.id, newScore("f1", 1, 0.8))
	f.postFeedback(tenantA, c.id, newScore("f2", 2, 0.1))
	tr, err := f.archive.Transcript(f.t.Context(), tenantA, "story", 0)
	if err != nil {
		t.Fatal(err)
	}
	checkEqual(t, "exchanges in the transcript", tr.Exchanges, 3)
	var fates []string
	for _, x := range tr.Fates {
		fates = append(fates, x.Slug+" "+x.State)
	}
	checkEqual(t, "lessons and sections", strings.Join(fates, ", "), "kept-back withheld, shown injected, rule:AGENTS.md#Search withheld")
	var kinds []string
	for i := range tr.TurnItems {
		for _, e := range tr.TurnItems[i].Entries {
			kinds = append(kinds, fmt.Sprint(tr.TurnItems[i].Turn, e.Kind))
		}
	}
	checkEqual(t, "turns and kinds of the entries", strings.Join(kinds, " "), "1system 1block 1withheld 1user 1assistant 1call 2block 2result 2assistant 3user 3assistant")
	result := tr.TurnItems[1].Entries[1]
	checkEqual(t, "tool result's outcome", result.Outcome, "error")
	checkEqual(t, "tool result's tool", result.Tool, "bash")
	checkEqual(t, "tool result's call id", result.CallID, "c1")
	loop := tr.TurnItems[1].Entries[0]
	checkEqual(t, "Loop field of the loop warning", loop.Loop, true)
	if strings.Contains(loop.Text, "sk-a1B2") {
		t.Errorf("loop warning = %q, want the secret redacted", loop.Text)
	}
	withheld := tr.TurnItems[0].Entries[2]
	checkList(t, "withheld lesson's slugs", withheld.Slugs, []string{"kept-back"})
	checkEqual(t, "withheld lesson's propensity", withheld.Propensity, 0.7)
	checkEqual(t, "withheld lesson's reason", withheld.Why, "withheld")

	// The transcript cuts the 64 KiB reply, but not inside a character.
	last := tr.TurnItems[2].Entries[1]
	checkAtLeast(t, "bytes of the cut reply", len(last.Text), 1)
	checkAtMost(t, "bytes of the cut reply", len(last.Text), maxTextBytes)
	checkEqual(t, "CutBytes", last.CutBytes, 2*maxTextBytes-len(last.Text))
	if !json.Valid([]byte(`"` + last.Text + `"`)) {
		t.Error("the cut reply is not valid as a JSON string")
	}

	// The rater's latest score determines the reward.
	checkEqual(t, "reward", *tr.Rewarded.Value, 0.1)
	checkEqual(t, "Decides in the first feedback", tr.Rewarded.Sources[0].Decides, false)
	checkEqual(t, "Decides in the second feedback", tr.Rewarded.Sources[1].Decides, true)
	if tr.Rewarded.Counted != nil {
		t.Error("Counted is set on an open session, want nil")
	}

	rest, err := f.archive.Transcript(f.t.Context(), tenantA, "story", 2)
	if err != nil {
		t.Fatal(err)
	}
	if len(rest.TurnItems) != 1 {
		t.Fatalf("transcript after turn 2 = %+v, want one turn", rest.TurnItems)
	}
	checkEqual(t, "turn after turn 2", rest.TurnItems[0].Turn, 3)
	checkEqual(t, "entries in turn 3", len(rest.TurnItems[0].Entries), 2)
	checkEqual(t, "Next after turn 3", rest.Next, 3)
	afterLast, err := f.archive.Transcript(f.t.Context(), tenantA, c.id.String(), 99)
	if err != nil {
		t.Fatal(err)
	}
	checkEqual(t, "turns after turn 99", len(afterLast.TurnItems), 0)
	checkEqual(t, "Next after turn 99", afterLast.Next, 3)

	inTranscript := tr.TurnItems[0].Entries[1]
	shown, err := f.archive.InsertedText(f.t.Context(), tenantA, c.id.String(), inTranscript.Slugs[0])
	if err != nil {
		t.Fatal(err)
	}
	if shown == "" {
		t.Error("InsertedText is empty")
	}
	checkEqual(t, "InsertedText", shown, inTranscript.Text)
	other, err := f.archive.InsertedText(f.t.Context(), tenantA, c.id.String(), "no-such")
	if err != nil {
		t.Fatal(err)
	}
	checkEqual(t, "InsertedText(unknown lesson)", other, "")
	if _, err := f.archive.InsertedText(f.t.Context(), "them", c.id.String(), "l"); !errors.Is(err, store.ErrNoSession) {
		t.Errorf("InsertedText(another tenant) error = %v, want ErrNoSession", err)
	}
	if _, err := f.archive.Transcript(f.t.Context(), "them", "story", 0); !errors.Is(err, store.ErrNoSession) {
		t.Errorf("Transcript(another tenant) error = %v, want ErrNoSession", err)
	}
}

func TestBrowseSearchesTextToolsAndErrors(t *testing.T) {
	t.Parallel()
	f := newFixture(t, nil)
	f.playMixedSession("story")
	f.newConversation("other").sendTurn(1, nil)
	for _, tc := range []struct {
		query    store.SessionQuery
		sessions string // names of the sessions that the query finds
		hit      string // turn, role and excerpt of the first hit
	}{
		{store.SessionQuery{Text: store.TextQuery{Words: "flaky</B> BUILD"}}, "story", "1 user Fix the <b>Flaky</b> build"},
		{store.SessionQuery{Text: store.TextQuery{Words: "reply 1"}}, "other", "1 assistant reply 1"},
		{store.SessionQuery{Text: store.TextQuery{Tool: "BASH"}}, "story", "1 call bash"},
		{store.SessionQuery{Text: store.TextQuery{Error: "error 2"}}, "story", "2 result make: *** [all] Error 2 exit code: 2"},
		{store.SessionQuery{Text: store.TextQuery{Error: "flaky"}}, "", ""},
		{store.SessionQuery{Text: store.TextQuery{Words: "make", Tool: "bash", Error: "exit"}}, "story", `1 call {"command":"make"}`},
		{store.SessionQuery{Text: store.TextQuery{Words: "make", Tool: "python"}}, "", ""},
	} {
		list := f.browse(tc.query)
		checkEqual(t, fmt.Sprintf("sessions found by %+v", tc.query), strings.Join(sessionNames(list), " "), tc.sessions)
		if tc.hit != "" && len(list.Sessions) == 1 {
			found := list.Sessions[0].Found
			checkEqual(t, fmt.Sprintf("first hit for %+v", tc.query), fmt.Sprint(found.Turn, " ", found.Role, " ", found.Text), tc.hit)
		}
	}
}

// Opting out an agent or a tenant hides stored sessions. Opting out a path hides the stored turns that mention the
// path.
func TestBrowseHidesOptedOutSessions(t *testing.T) {
	t.Parallel()
	f := newFixture(t, nil)
	f.playMixedSession("story")
	setOptOut := func(paths, agents, tenants []string) {
		o, err := sample.NewOptOut(paths, agents, tenants)
		if err != nil {
			t.Fatal(err)
		}
		f.store.SetOptOut(o)
	}
	setOptOut(nil, []string{"cod*"}, nil)
	checkEqual(t, "opted-out agent's listed sessions", len(f.browse(store.SessionQuery{}).Sessions), 0)
	if _, err := f.archive.Transcript(f.t.Context(), tenantA, "story", 0); !errors.Is(err, store.ErrNoSession) {
		t.Errorf("Transcript(opted-out agent) error = %v, want ErrNoSession", err)
	}
	checkEqual(t, "opted-out agent's sessions found by name", len(f.browse(store.SessionQuery{Session: "story"}).Sessions), 0)
	setOptOut(nil, nil, []string{tenantA})
	checkEqual(t, "opted-out tenant's listed sessions", len(f.browse(store.SessionQuery{}).Sessions), 0)
	setOptOut([]string{"make"}, nil, nil)
	tr, err := f.archive.Transcript(f.t.Context(), tenantA, "story", 0)
	if err != nil {
		t.Fatal(err)
	}
	checkEqual(t, "the turn with an opted-out path is hidden", tr.TurnItems[0].Hidden, true)
	checkEqual(t, "entries in the hidden turn", len(tr.TurnItems[0].Entries), 0)
	checkEqual(t, "sessions found by an opted-out turn's text", len(f.browse(store.SessionQuery{Text: store.TextQuery{Words: "flaky"}}).Sessions), 0)
}

// The session's task comes from the first exchange, which the later opt-out hides.
func TestLaterOptOutHidesTask(t *testing.T) {
	t.Parallel()
	f := newFixture(t, nil)
	c := f.newConversation("story")
	c.sendTurn(1, func(x *sample.Exchange) {
		x.Facts.Task = "Fix the build"
		x.Reply.Calls = []sample.Call{{ID: "c1", Name: "bash", Args: `{"command":"make"}`}}
	})
	c.deliverAll()
	transcriptTask := func() string {
		tr, err := f.archive.Transcript(f.t.Context(), tenantA, "story", 0)
		if err != nil {
			t.Fatal(err)
		}
		return tr.Task
	}
	listedTask := func() string { return f.browse(store.SessionQuery{}).Sessions[0].Task }
	before, listedBefore := transcriptTask(), listedTask()
	o, err := sample.NewOptOut([]string{"make"}, nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	f.store.SetOptOut(o)
	if before == "" {
		t.Error("no task in the transcript before the opt-out")
	}
	if listedBefore == "" {
		t.Error("no task in the session list before the opt-out")
	}
	checkEqual(t, "task in the transcript after the opt-out", transcriptTask(), "")
	checkEqual(t, "task in the session list after the opt-out", listedTask(), "")
}

// Transcript cuts long texts and returns at most TurnsShown turns. EachPart has neither limit.
func TestEachPartReturnsFullTexts(t *testing.T) {
	t.Parallel()
	f := newFixture(t, nil)
	c := f.newConversation("story")
	const turns, long = store.TurnsShown + 20, 40 << 10
	for n := range turns {
		c.sendTurn(n+1, func(x *sample.Exchange) {
			if x.Reply.Text = fmt.Sprint("answer ", n); n == 0 {
				x.Reply.Text = strings.Repeat("word ", long/5)
			}
		})
	}
	c.deliverAll()
	var parts, read, longest int
	err := f.archive.EachPart(t.Context(), tenantA, "story", func(part *store.Transcript) error {
		parts++
		checkEqual(t, "From", part.From, read)
		checkEqual(t, "Exchanges", part.Exchanges, turns)
		for i := range part.TurnItems {
			for k := range part.TurnItems[i].Entries {
				longest = max(longest, len(part.TurnItems[i].Entries[k].Text))
			}
		}
		read = part.Next
		return nil
	})
	if err != nil {
		t.Error(err)
	}
	checkEqual(t, "parts", parts, 2)
	checkEqual(t, "exchanges", read, turns)
	checkAtLeast(t, "bytes of the longest text", longest, long)
}

func TestBrowseSamplesFiltersNewestFirst(t *testing.T) {
	t.Parallel()
	f := newFixture(t, nil)
	for i := range 5 {
		f.postFeedback(tenantA, f.playOneTurn(fmt.Sprint("s", i), newAssignment(i > 2)), newScore(fmt.Sprint("f", i), 1, float64(i)/4))
		f.clock.add(time.Minute)
	}
	f.deliver()
	f.closeSessions()
	browseSamples := func(q store.SampleQuery) store.SampleList {
		q.Filter.Tenant = tenantA
		list, err := f.archive.BrowseSamples(f.t.Context(), &q)
		if err != nil {
			t.Fatal(err)
		}
		return list
	}
	all := browseSamples(store.SampleQuery{})
	if len(all.Samples) != 5 {
		t.Fatalf("BrowseSamples = %d samples, want 5", len(all.Samples))
	}
	if !slices.IsSortedFunc(all.Samples, func(a, b store.SampleItem) int { return b.Sample.CreatedAt.Compare(a.Sample.CreatedAt) }) {
		t.Fatal("samples are not sorted, want the newest first")
	}
	good := browseSamples(store.SampleQuery{Filter: sample.Filter{Quality: []string{sample.Good}}})
	checkEqual(t, "samples with quality good", len(good.Samples), 2)
	first := browseSamples(store.SampleQuery{Limit: 2})
	second := browseSamples(store.SampleQuery{Limit: 9, After: first.Next})
	checkEqual(t, "samples on the first page", len(first.Samples), 2)
	checkEqual(t, "samples on the second page", len(second.Samples), 3)
	checkEqual(t, "samples in one session", len(browseSamples(store.SampleQuery{Session: all.Samples[1].Session}).Samples), 1)
	checkEqual(t, "unknown agent's samples", len(browseSamples(store.SampleQuery{Agent: "nobody"}).Samples), 0)
	o, err := sample.NewOptOut(nil, []string{"*"}, nil)
	if err != nil {
		t.Fatal(err)
	}
	f.store.SetOptOut(o)
	checkEqual(t, "opted-out agent's samples", len(browseSamples(store.SampleQuery{}).Samples), 0)
}
