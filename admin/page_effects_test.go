package admin_test

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"strings"
	"testing"
	"time"

	"precept/admin"
	"precept/bandit/report"
	"precept/bandit/trial"
	"precept/inject/backtest"
	"precept/inject/lesson"
	"precept/internal/price"
	"precept/store"
)

func TestOverviewListsOpenTasks(t *testing.T) {
	row := func(slug, state string, v report.Verdict) report.Row {
		return report.Row{Slug: slug, Arm: slug + "@1", State: state, Verdict: v, Picked: 1}
	}
	waitingLessons := func(n int) *lesson.Book {
		var lessons []*lesson.Lesson
		for i := range n {
			lessons = append(lessons, &lesson.Lesson{Slug: fmt.Sprint("c-", i), State: lesson.Candidate})
		}
		return lesson.NewBook(lessons)
	}
	harmful, invalid := row("h", "active", report.Harms), row("i", "active", report.Invalid)
	harmful2 := harmful
	harmful2.Slug, harmful2.Arm = "h2", "h2@1"
	archived := harmful
	archived.State = "archived"
	for name, tc := range map[string]struct {
		rows     []report.Row
		waiting  int      // number of lessons that wait for approval
		bad      bool     // whether the figure Store is marked as bad
		wantText []string // a leading ! means that the page must not contain the text
	}{
		"no open task":        {[]report.Row{row("a", "active", report.Helps), archived}, 0, false, []string{"Nothing urgent", "!Needs a person"}},
		"one harmful lesson":  {[]report.Row{harmful, archived}, 0, false, []string{`<li class="bad"><a href="/lessons/h">The active lesson h does harm</a> · <a href="/sessions?arm=injected&lesson=h&verdict=poor">poor sessions</a>`, "!Nothing urgent: there is no fault"}},
		"two harmful lessons": {[]report.Row{harmful, harmful2}, 0, false, []string{">2 active lessons do harm<"}},
		"one invalid lesson":  {[]report.Row{invalid}, 0, false, []string{`href="/lessons?verdict=invalid">A lesson has unreliable numbers<`, "!lessons harm"}},
		"two invalid lessons": {[]report.Row{invalid, invalid}, 0, false, []string{">2 lessons have unreliable numbers<"}},
		"one waiting lesson":  {nil, 1, false, []string{`<li class="warn"><a href="/queue">A lesson waits for approval<`}},
		"two waiting lessons": {nil, 2, false, []string{">2 lessons wait for approval<"}},
		"bad health figure":   {nil, 0, true, []string{`<li class="bad"><a href="#health">Store: down<`}},
	} {
		checkPage(t, name, mainText(t, "/", func(source *wordSource, _ *admin.Options) {
			source.report.Lessons, source.book = tc.rows, waitingLessons(tc.waiting)
			source.figures = []admin.Figure{{Name: "Store", Value: "down", Bad: tc.bad}}
		}), tc.wantText...)
	}
}

func TestOverviewListsOpenSessionsBeforeFirstClose(t *testing.T) {
	open := report.OpenSessions{Sessions: 40, CloseAfter: "24h0m0s", FirstCloses: time.Date(2026, 5, 2, 7, 30, 0, 0, time.UTC), Inserted: 31}
	page := func(matched map[trial.Arm]int) string {
		return mainText(t, "/", func(source *wordSource, _ *admin.Options) {
			open.Matched = matched
			source.report.Global, source.report.Open = report.Global{}, &open
			source.report.Lessons = []report.Row{{Slug: "a", Arm: "a@1", State: "active"}, {Slug: "b", Arm: "b@1", State: "active"}}
		})
	}
	checkPage(t, "with a match", page(map[trial.Arm]int{"a@1": 40}), "40 sessions are open and do not count yet. Sessions with an inserted lesson: 31.",
		"The first session closes at 2026-05-02 07:30 UTC and then counts (reward.close_after = 24h).", `<a href="/lessons/a">a</a>, 40 open sessions`,
		`<a href="/?provisional=true">`, "precept report --provisional", "!No lesson has matched", "!precept is ready", `!href="/lessons/b"`)
	checkPage(t, "without a match", page(nil), "No lesson has matched", "precept is ready", "precept lessons approve SLUG")
}

func TestEmptyTenantOverviewLinksOtherTenants(t *testing.T) {
	page := func(treated int64) string {
		return mainText(t, "/", func(source *wordSource, o *admin.Options) {
			source.report.Global, source.report.Lessons = report.Global{NTreated: treated}, nil
			o.Program.Tenants = func(context.Context) ([]string, error) { return []string{"team-b", "default", "team-a"}, nil }
		})
	}
	checkPage(t, "without data", page(0), "This page shows the tenant default. Other tenants have data:", `<a href="/?tenant=team-a">team-a</a> <a href="/?tenant=team-b">team-b</a>`)
	checkPage(t, "with data", page(3), "!Other tenants have data")
}

func TestOverviewShowsWeeklyGains(t *testing.T) {
	for name, tc := range map[string]struct {
		target   string
		prices   admin.Prices
		change   func(*report.Report)
		wantText []string
	}{
		"without a price": {"/", admin.Prices{}, func(*report.Report) {}, []string{
			">+9 sessions<", ">+5 to +14, with 95% confidence<", `+9 of <a href="/sessions?arm=treated&min_reward=0&range=7d">90 treated sessions</a> with a reward (a run counts once)`, ">500,000<", `aria-label="Lesson tokens this week: 500,000 tokens"`, "no model price is known", ">2,000<", "treated, 50% cached; control 1,000, 0% cached",
			`href="/lessons?verdict=helps" aria-label="Proven lessons: 1 lesson">1</a> <span class="unit">lesson</span><small>to help; 2 proven to harm</small>`, `placeholder="none"`,
		}},
		"with a price":                      {"/", admin.Prices{Models: price.Flat(2, 0.5)}, func(*report.Report) {}, []string{"cost 1.00 without a cache", ">0.0025<", "control 0.0020", `placeholder="2"`}},
		"no cached price":                   {"/", admin.Prices{Models: price.Flat(2, 0)}, func(*report.Report) {}, []string{">0.0040<"}},
		"price in the query":                {"/?price=200", admin.Prices{Models: price.Flat(2, 0.5)}, func(*report.Report) {}, []string{"cost 100.00 without", `value="200"`}},
		"negative price in the query":       {"/?price=-1", admin.Prices{Models: price.Flat(2, 0)}, func(*report.Report) {}, []string{"cost 1.00 without"}},
		"price in the query over the limit": {"/?price=1000000", admin.Prices{}, func(*report.Report) {}, []string{"no model price is known"}},
		"negative effect": {"/", admin.Prices{}, func(r *report.Report) { r.Global.Effect, r.Global.Lo, r.Global.Hi = new(-0.1), new(-0.15), new(-0.004) }, []string{
			`class="value bad">−9 sessions<`, ">−14 to 0, with 95% confidence<",
		}},
		"invalid comparison":                      {"/", admin.Prices{}, func(r *report.Report) { r.Global.Verdict = report.Invalid }, []string{"not reliable", `– of <a href="/sessions?arm=treated&min_reward=0&range=7d">90 treated sessions</a> with a reward (a run counts once)`, "!counting"}},
		"no control sessions":                     {"/", admin.Prices{}, func(r *report.Report) { r.Global.Days[1].Control = report.Spending{} }, []string{"treated, 50% cached</small>"}},
		"unknown token usage of treated sessions": {"/", admin.Prices{}, func(r *report.Report) { r.Global.Days[1].Treated = report.Spending{} }, []string{"!cached</small>", ">500,000<"}},
		"treated sessions with zero input tokens": {"/", admin.Prices{}, func(r *report.Report) { r.Global.Days[1].Treated.Input, r.Global.Days[1].Treated.Cached = 0, 0 }, []string{"treated, 0% cached", "!NaN"}},
		"bases of the counts": {"/", admin.Prices{}, func(r *report.Report) {
			r.Flow = report.Flow{Closed: 1010, InExperiment: 1000, Excluded: 10, Treated: 850, Control: 50, Unmatched: 100, Rewarded: 700}
			r.Reporting.RewardedTreated, r.Reporting.AssignedTreated, r.Reporting.RewardedControl, r.Reporting.AssignedControl = 600, 850, 40, 50
		}, []string{
			"Sessions: 1,010 closed, 1,000 in the experiment, 10 excluded. ", "How the counts add up", "In the experiment: 850 treated, 50 control, 100 without a match; with a reward: 700.",
			"Rewarded: 600 of 850 treated sessions, 40 of 50 control sessions; effects, mean rewards and the net result count these sessions.",
			"also open and excluded sessions", `<span class="unit">rewarded sessions</span>`, "!These counts ignore the window",
		}},
		"valid experiment":      {"/", admin.Prices{}, func(*report.Report) {}, []string{"!The random assignment deviates", "!at a different rate or from different sources"}},
		"sample ratio mismatch": {"/", admin.Prices{}, func(r *report.Report) { r.SRM.OK, r.SRM.EValue = false, 1e6 }, []string{"The random assignment deviates from the configured probabilities (e-value 1e+06)"}},
		"unequal feedback":      {"/", admin.Prices{}, func(r *report.Report) { r.Reporting.OK = false }, []string{"at a different rate or from different sources"}},
		"another reward definition": {"/", admin.Prices{}, func(r *report.Report) {
			r.OtherDefinitions = []report.DefinitionCount{{RewardDefinition: "old", Sessions: 1}}
		}, []string{
			"Not included: 1 session that closed with another reward definition: old.",
		}},
		"excluded sessions": {"/", admin.Prices{}, func(r *report.Report) {
			r.Flow = report.Flow{Closed: 1204, InExperiment: 1180, Excluded: 24, ExcludedBy: []report.Excluded{{Reason: trial.ExcludedLate, Sessions: 20}, {Reason: trial.ExcludedTwin, Sessions: 4}}}
		}, []string{
			`Sessions: 1,204 closed, 1,180 in the experiment, 24 excluded (late look-up 20, identical histories 4). <a href="/help/EXPERIMENT#sessions-outside-of-the-experiment">Reasons</a>`,
		}},
	} {
		checkPage(t, name, mainText(t, tc.target, func(source *wordSource, o *admin.Options) {
			o.Program.Prices = func() admin.Prices { return tc.prices }
			r := report.Report{GeneratedAt: source.generated}
			r.SRM.OK, r.Reporting.OK = true, true
			r.Global.Effect, r.Global.Lo, r.Global.Hi, r.Global.NTreated, r.Global.NControl = new(0.1), new(0.06), new(0.151), 950, 50
			r.Global.Days = []report.Day{{Date: "2026-04-24", NTreated: 7}, {
				Date: "2026-04-25", NTreated: 90, TokensAdded: 500_000,
				Treated: report.Spending{Sessions: 50, Input: 100_000, Cached: 50_000}, Control: report.Spending{Sessions: 5, Input: 5_000},
			}}
			for i, v := range []report.Verdict{report.TrialHelps, report.ProvenHarms, report.TrialHarms, report.Helps, report.Unproven} {
				r.Lessons = append(r.Lessons, report.Row{Slug: fmt.Sprint("l-", i), Arm: fmt.Sprint("l-", i), State: "active", Verdict: v})
			}
			tc.change(&r)
			source.report = r
		}), tc.wantText...)
	}
}

func TestPagesWithoutRowsShowReason(t *testing.T) {
	for _, target := range []string{"/", "/lessons", "/lessons/word"} {
		checkPage(t, target, mainText(t, target, func(source *wordSource, _ *admin.Options) { source.fail = true }),
			"The report cannot be read", "!The random assignment deviates", "!No lesson has matched", "!Nothing urgent: there is no fault", "!proven helps")
	}
	checkPage(t, "no lessons", mainText(t, "/lessons", func(source *wordSource, _ *admin.Options) { source.report.Lessons = nil }), "No lesson has matched yet")
	for n, want := range map[int]string{1: "There is 1 lesson. ", 2: "There are 2 lessons. "} {
		checkPage(t, want, mainText(t, "/lessons?q=nothing", func(source *wordSource, _ *admin.Options) { source.report.Lessons = source.report.Lessons[:n] }), want, "No lesson matches")
	}
}

func TestLessonPageShowsStateEffectAndEvents(t *testing.T) {
	type pageData struct { // data for the page, which each case changes in part
		*wordSource
		row    *report.Row
		lesson *lesson.Lesson
		o      *admin.Options
	}
	for name, tc := range map[string]struct {
		change   func(*pageData)
		wantText []string
	}{
		"active lesson without data": {func(*pageData) {}, []string{
			"<h1>Its title</h1>", "<code>word</code> · ", ": active", "!· in ", "No effect yet",
			"opinion yet", `<summary class="button danger"`, ">Put on trial<", ">Pause …<", "!>Reject …<",
			"The lesson has no words, tags or errors as triggers.", "The audit log has no entry about this lesson", "!Planned trials", "!The difference without randomisation",
			"!Older texts", "!Progress", "!Prompt cache", "!>Checks<", `?backtest=1#trigger">Try the lesson`, "!True effect",
		}},
		"category":    {func(w *pageData) { w.lesson.Category = "tests" }, []string{" · in tests"}},
		"no title":    {func(w *pageData) { w.lesson.Title = "" }, []string{"<h1>word</h1>"}},
		"description": {func(w *pageData) { w.lesson.Trigger.Description = "When it fails." }, []string{`<p dir="auto">When it fails.</p>`}},
		"targets": {func(w *pageData) {
			w.lesson.Trigger.Targets = []lesson.Target{{Operator: "coder", Role: "r"}, {Skill: "go"}}
		}, []string{"<code>agent coder and role r</code> <code>skill go</code>"}},
		"trial":       {func(w *pageData) { w.lesson.State = lesson.Trial }, []string{">Approve<", ">Pause …<", ">Retire …<", "!>Put on trial<"}},
		"candidate":   {func(w *pageData) { w.lesson.State = lesson.Candidate }, []string{">Approve<", ">Put on trial<", ">Reject …<", "!>Pause …<"}},
		"quarantined": {func(w *pageData) { w.lesson.State = lesson.Quarantined }, []string{">Approve<", ">Put on trial<", ">Reject …<"}},
		"benched":     {func(w *pageData) { w.lesson.State = lesson.Benched }, []string{">Put on trial<", ">Pause …<", ">Retire …<", "!>Approve<"}},
		"rejected":    {func(w *pageData) { w.lesson.State = lesson.Rejected }, []string{">Approve<", ">Retire …<", "!>Pause …<"}},
		"paused":      {func(w *pageData) { w.lesson.State = lesson.Paused }, []string{">Resume<", ">Retire …<", "!>Pause …<", "!>Approve<"}},
		"archived":    {func(w *pageData) { w.lesson.State = lesson.Archived }, []string{">Restore<", "!>Retire …<"}},
		"paused by a person": {func(w *pageData) {
			w.lesson.State = lesson.Paused
			w.events = []lesson.Event{{Action: "pause", Slug: "word", By: "anna", From: lesson.Active, To: lesson.Paused}}
		}, []string{`<strong>anna</strong> paused the lesson`, "(active → paused)", "There is no measurement yet: the lesson has not been picked in a session with a reward.", `class="main">Resume<`}},
		"note":                   {func(w *pageData) { w.row.Note = "a note" }, []string{"(a note)"}},
		"note on an invalid row": {func(w *pageData) { w.row.Verdict, w.row.Note = report.Invalid, "the random assignment is faulty" }, []string{"Ignore the effect. Check the Health page of the dashboard", "(the random assignment is faulty)"}},
		"picks still needed":     {func(w *pageData) { w.row.Rewarded, w.row.NeedsPicks = 12, 12345 }, []string{"12 of 12,357", "An effect needs 12,345 more picks with a reward"}},
		"rounded picks": {func(w *pageData) {
			w.row.Rewarded, w.row.NeedsPicks, w.row.Effect, w.row.Lo, w.row.Hi = 60, 12345, new(0.1), new(-0.1), new(0.3)
		}, []string{"A verdict needs about 12,000 more picks with a reward", "!12,345"}},
		"unclear number of picks":          {func(w *pageData) { w.row.Rewarded, w.row.NeedsPicks, w.row.NeedsUnclear = 60, 12345, true }, []string{">60<", "It is too early to estimate how many more picks a verdict needs.", "!12,345"}},
		"rarely chosen lesson":             {func(w *pageData) { w.row.Matched, w.row.Picked, w.row.PickShare = 1234, 50, 0.02 }, []string{"Rarely chosen: currently picked in about 2% of matching sessions (50 of 1,234 to date)."}},
		"often chosen lesson":              {func(w *pageData) { w.row.Matched, w.row.PickShare = 1234, 0.6 }, []string{"!Rarely chosen"}},
		"prompt cache":                     {func(w *pageData) { w.row.CachedWith = new(0.5) }, []string{">50%<", "of input tokens in sessions with the lesson</small>"}},
		"prompt cache change":              {func(w *pageData) { w.row.CachedWith, w.row.CachedChange = new(0.5), new(-0.01) }, []string{"sessions with the lesson; the lesson changes the share by −1.0 points</small>"}},
		"input tokens":                     {func(w *pageData) { w.row.InputWith, w.row.InputWithout = new(1200.4), new(999.6) }, []string{">1,200<", "1,000 without the lesson"}},
		"judge scores":                     {func(w *pageData) { w.row.Opinions = &report.Opinions{Followed: 1, Ignored: 2} }, []string{"followed 1 time, ignored 2, irrelevant 0", "!opinion yet"}},
		"difference without randomisation": {func(w *pageData) { w.row.LOODelta = new(0.2) }, []string{"differs by +20.0 points", "This difference is not an effect"}},
		"planned looks": {func(w *pageData) {
			w.row.PlannedTrials = []report.PlannedTrial{{Rewarded: 3, Planned: 800, Verdict: report.Helps}, {Rewarded: 800, Planned: 800, Evaluated: true, Verdict: report.Helps}}
		}, []string{"Planned trials", `3 of 800</td><td>–</td><td class="text">not yet</td>`, `<td class="text">helps</td>`}},
		"planned look at an outcome": {func(w *pageData) {
			w.row.PlannedTrials = []report.PlannedTrial{{Outcome: "recurrence", Rewarded: 267, Planned: 121, Evaluated: true, Effect: new(-0.4), Lo: new(-0.5), Hi: new(-0.3), Verdict: "proven: prevents its error"}}
		}, []string{`<td class="text">recurrence</td><td>121 of 121</td><td>-40.0 [-50.0, -30.0]</td><td class="text">proven: prevents its error</td>`}},
		"trial ended": {func(w *pageData) {
			w.lesson.State, w.row.State, w.row.Trial = lesson.Trial, "trial", "ended"
		}, []string{": trial, ended"}},
		"effect": {func(w *pageData) { w.row.Effect, w.row.Lo, w.row.Hi = new(0.1), new(0.05), new(0.2) }, []string{
			`<div class="lone">`, "starts on the second day", "+5.0 to +20.0", "!No effect yet",
		}},
		"daily effects": {func(w *pageData) {
			w.row.Days = []report.Band{{Date: "2026-04-01", Effect: 0.1, Hi: 0.2}, {Date: "2026-04-02", Effect: 0.1}}
			w.row.PlannedTrials = []report.PlannedTrial{{Evaluated: true, Last: time.Unix(1775088000, 0)}, {Last: time.Unix(5, 0)}}
		}, []string{`"days":[1775001600,1775088000]`, `"values":[10,10],"lo":[0,0],"hi":[20,0]`, `"marks":[{"at":1775088000,"text":"evaluation"}]`, "The chart as a table"}},
		"daily effects of an invalid lesson": {func(w *pageData) {
			w.row.Verdict, w.row.Days = report.Invalid, []report.Band{{Date: "2026-04-01"}, {Date: "2026-04-02"}}
		}, []string{"!data-chart", "No effect yet"}},
		"open sessions with a match":      {func(w *pageData) { w.row.OpenMatched = 2 }, []string{"Not counted below: 2 open sessions with a match.", `<a href="/lessons/word?provisional=true">Include the open sessions</a>`}},
		"no open session with a match":    {func(*pageData) {}, []string{"!Include the open sessions"}},
		"no row in the report":            {func(w *pageData) { w.report.Lessons = nil }, []string{"No data yet.", "!class=\"stats\"", "!Cost", ": active", "Its title"}},
		"removed lesson":                  {func(w *pageData) { w.book = lesson.NewBook(nil); w.row.State = "removed" }, []string{"<h1>word</h1>", ": removed", "!As the model sees it", "Cost"}},
		"text over the budget":            {func(w *pageData) { w.o.Read.Library = blocklessLibrary{w.wordSource} }, []string{"The lesson does not fit into inject.budget_bytes"}},
		"unreadable sessions":             {func(w *pageData) { w.o.Read.Survey = failingSessions{} }, []string{"The stored sessions cannot be read: no disk."}},
		"no stored session with the pick": {func(w *pageData) { w.survey = report.NewSurvey(w.generated) }, []string{"has not been picked in any stored session", "The sessions were read at <time"}},
		"reward histogram": {func(*pageData) {}, []string{
			"from 120 stored sessions since ", "The sessions were read at <time", `<rect class="with" x="0" y="1" width="40.0" height="7">`,
			`<th scope="row">0.0 to 0.1</th>`, `<a href="/sessions?arm=injected&lesson=word&max_reward=0.0999&min_reward=0" aria-label="word: injected, 12 sessions">12</a>`, `<a href="/sessions?arm=withheld&lesson=word&max_reward=1&min_reward=0.9" aria-label="word: withheld, 12 sessions">12</a>`,
		}},
		"events": {func(w *pageData) {
			w.events = []lesson.Event{{Slug: "word", Action: "propose", By: "distill", Agent: "coder"}, {Slug: "word", Action: "approve", By: "kim", Hash: "0123456789abcdef", Detail: map[string]any{lesson.DetailWith: 120.0, lesson.DetailWithout: 30.0}}, {Slug: "word", Action: "edit", Detail: map[string]any{lesson.DetailHandEdit: lesson.HandEditOutsideGit}}, {Slug: "word", Action: "create", Detail: map[string]any{lesson.DetailHandEdit: lesson.HandEditOutsideGit}}, {Slug: "x", Action: "eaten"}}
		}, []string{"<strong>kim</strong> approved the lesson", "<strong>distill (agent coder)</strong> proposed the lesson", "approved the lesson; 120 rewarded sessions with the lesson, 30 without it", "<strong>A person</strong> edited the lesson by hand", "<strong>precept</strong> found the new lesson file", "<code>0123456789ab</code>", "!eaten", "!No action is logged"}},
	} {
		page := mainText(t, "/lessons/word", func(source *wordSource, o *admin.Options) {
			w := pageData{wordSource: source, lesson: &lesson.Lesson{Slug: "word", Title: "Its title", State: lesson.Active}, o: o}
			o.TrueEffect, source.findings, source.events = nil, nil, nil
			source.book = lesson.NewBook([]*lesson.Lesson{w.lesson})
			source.report.Lessons = []report.Row{{Slug: "word", Arm: "word@1", State: "active", Verdict: report.Unproven}}
			w.row = &source.report.Lessons[0]
			tc.change(&w)
		})
		checkPage(t, name, page, tc.wantText...)
	}
}

func TestLessonPageShowsBacktest(t *testing.T) {
	pageWithBacktest := func(b backtest.Result) string {
		return mainText(t, "/lessons/word?backtest=1", func(source *wordSource, _ *admin.Options) { source.backtest = b })
	}
	checkPage(t, "backtest with matches", pageWithBacktest(backtest.Result{
		Sessions: 40, Matched: 3, Words: []backtest.SessionCount{{Text: "flaky", Sessions: 3}}, SilentTriggers: []string{"never"}, Examples: []string{"s-9"},
	}), "<strong>3</strong> of the <strong>40</strong>", "flaky</th><td>3</td>", "never</th><td>0</td>", `href="/sessions?session=s-9"`, "There are no near misses", "!>Try the lesson")
	checkPage(t, "backtest with near misses", pageWithBacktest(backtest.Result{NearMisses: backtest.NearMissCounts{Sessions: 1, MissingConditions: []backtest.SessionCount{{Text: "not its tool", Sessions: 1}}}}),
		"<strong>1</strong> other session the lesson nearly fired", "not its tool</th><td>1</td>", "!There are no near misses", "!Examples:")
	checkPage(t, "backtest with similarity matches", pageWithBacktest(backtest.Result{Likeness: backtest.LikenessCounts{Captured: 200, Sessions: 2, Examples: []backtest.LikenessExample{
		{Session: "s-8", Sentence: "it is shaky", Words: []string{"shaky"}, Score: 0.71, Threshold: 0.6},
	}}}), "<strong>2</strong> other sessions", "The lesson is not injected in such sessions", "it is shaky", "<td>0.71</td><td>0.60</td>", `href="/sessions?session=s-8"`)
	checkPage(t, "backtest with too few sessions to compare by similarity", pageWithBacktest(backtest.Result{Likeness: backtest.LikenessCounts{Captured: 199}}), "captured sessions, and there are 199", "!By similar words")
	checkPage(t, "backtest with unreadable sessions", mainText(t, "/lessons/word?backtest=1", func(_ *wordSource, o *admin.Options) { o.Read.Survey = failingSessions{} }),
		"The captured sessions cannot be read: no disk.", "!would have fired")
}

// blocklessLibrary is a library that returns empty blocks, as if no lesson fitted into the budget.
type blocklessLibrary struct{ *wordSource }

func (blocklessLibrary) Block(string, *lesson.Lesson) string { return "" }

// failingSessions is a data source whose stored sessions cannot be read.
type failingSessions struct{}

func (failingSessions) Survey(context.Context, string) (*report.Survey, error) {
	return nil, errors.New("no disk")
}

func (failingSessions) Nearest(context.Context, string, string, []string) ([]backtest.Reason, error) {
	return nil, errors.New("no disk")
}

func (failingSessions) Backtest(context.Context, string, *lesson.Lesson) (backtest.Result, error) {
	return backtest.Result{}, errors.New("no disk")
}

// queuePage returns the queue page for a library with the candidates "early" and "late" and the active lesson
// "current". It calls change to alter the data before it requests the page. The parameter l of
// change is the lesson "late".
func queuePage(t *testing.T, target string, change func(source *wordSource, l *lesson.Lesson, o *admin.Options)) string {
	t.Helper()
	created := func(hours int) time.Time { return time.Unix(1e9, 0).Add(time.Duration(hours) * time.Hour) }
	return mainText(t, target, func(source *wordSource, o *admin.Options) {
		source.findings = nil
		l := &lesson.Lesson{Slug: "late", Title: "Late", State: lesson.Candidate, CreatedAt: created(2)}
		source.book = lesson.NewBook([]*lesson.Lesson{l, {Slug: "early", State: lesson.Quarantined, CreatedAt: created(1)}, {Slug: "current", State: lesson.Active, Body: "a\nb"}})
		change(source, l, o)
	})
}

func TestQueueShowsCandidateDetails(t *testing.T) {
	unchanged := func(*wordSource, *lesson.Lesson, *admin.Options) {}
	for name, tc := range map[string]struct {
		target   string
		change   func(source *wordSource, l *lesson.Lesson, o *admin.Options)
		wantText []string
	}{
		"two candidates": {"/queue", unchanged, []string{
			"2 waiting for a decision", "All checks passed.", "No evidence.", "The lesson has no triggers.", ">Late</a>", ">early</a>", "!written by", "!for the agent", "!>current</a>", "!Changes from", "!Possible duplicate",
			`href="/queue?backtest=late#candidate-late"`, "1 to 2 of 2", `<kbd>j</kbd> <kbd>k</kbd>`,
		}},
		"author and agent": {"/queue", func(_ *wordSource, l *lesson.Lesson, _ *admin.Options) {
			l.Approval.Source, l.Scope.Agent = "distill", "coder"
		}, []string{" · written by distill", " · for the agent coder"}},
		"evidence": {"/queue", func(source *wordSource, l *lesson.Lesson, _ *admin.Options) {
			source.list = store.SessionList{}
			l.Evidence = []lesson.Evidence{{Kind: "run", Ref: "s-1", Note: "twice"}, {Kind: "user", Ref: "s-2"}}
		}, []string{`<code>s-1</code> <span class="quiet">run: twice</span>`, `<code>s-2</code> <span class="quiet">user</span>`}},
		"evidence from a stored session": {"/queue", func(source *wordSource, l *lesson.Lesson, _ *admin.Options) {
			l.Evidence = []lesson.Evidence{{Kind: "conversation", Ref: "s-1"}}
			source.list = store.SessionList{Sessions: []store.SessionItem{{ID: "0a", Task: "Fix the build", Verdict: "poor", Errors: new(2)}}}
		}, []string{`<a href="/sessions/0a"><code>s-1</code></a> <span class="quiet">conversation · poor, 2 errors</span><q class="excerpt" dir="auto">Fix the build</q>`}},
		"evidence from a stored run": {"/queue", func(source *wordSource, l *lesson.Lesson, _ *admin.Options) {
			l.Evidence = []lesson.Evidence{{Kind: "run", Ref: "crew/7"}, {Kind: "conversation", Ref: "s-1"}}
			source.list = store.SessionList{Sessions: []store.SessionItem{{ID: "0a"}, {ID: "0b"}}}
		}, []string{`<a href="/runs/crew%2F7"><code>crew/7</code></a> <span class="quiet">run · 3 sessions</span>`, `<li><code>s-1</code>`}},
		"possible duplicates": {"/queue", func(source *wordSource, l *lesson.Lesson, _ *admin.Options) {
			l.Trigger.Keywords = []string{"a late train"}
			old := &lesson.Lesson{Slug: "old", Title: "Late!", State: lesson.Rejected, Trigger: lesson.Trigger{Keywords: []string{"a late train"}}}
			source.book = source.book.WithLessons([]*lesson.Lesson{l, old})
		}, []string{`similar title: <a href="/lessons/old"><code>old</code></a> (rejected).`}},
		"evidence without stored words": {"/queue", func(source *wordSource, l *lesson.Lesson, _ *admin.Options) {
			l.Evidence = []lesson.Evidence{{Kind: "conversation", Ref: "s-1"}}
			source.list = store.SessionList{Sessions: []store.SessionItem{{ID: "0a", Verdict: "poor"}}}
		}, []string{`<a href="/sessions/0a"><code>s-1</code></a>`, "!<q"}},
		"evidence from an opted-out session": {"/queue", func(source *wordSource, l *lesson.Lesson, _ *admin.Options) {
			l.Evidence = []lesson.Evidence{{Kind: "conversation", Ref: "s-1"}}
			source.list = store.SessionList{}
		}, []string{`<code>s-1</code> <span class="quiet">conversation</span>`, "!<q", "!/sessions/"}},
		"findings from the checks": {"/queue", func(source *wordSource, _ *lesson.Lesson, _ *admin.Options) {
			source.findings = []lesson.Finding{{Severity: lesson.Error, Message: "it orders"}, {Message: "it is long"}}
		}, []string{`<li class="bad">`, "it orders", `<li class="warn">`, "!All checks"}},
		"replacement for an active lesson": {"/queue", func(_ *wordSource, l *lesson.Lesson, _ *admin.Options) {
			l.Supersedes, l.Body = []string{"nobody", "current"}, "a\nc"
		}, []string{"Changes from <code>current</code>", `<span class="kept">  a`, `<span class="cut">− b`, `<span class="added">+ c`}},
		"replacement for an unknown lesson": {"/queue", func(_ *wordSource, l *lesson.Lesson, _ *admin.Options) { l.Supersedes = []string{"nobody"} }, []string{"!Changes from"}},
		"backtest": {"/queue?backtest=late", func(source *wordSource, _ *lesson.Lesson, _ *admin.Options) {
			source.backtest = backtest.Result{Matched: 2, Sessions: 9, Words: []backtest.SessionCount{{Text: "w", Sessions: 2}}}
		}, []string{"<strong>2</strong> of the <strong>9</strong> newest captured sessions; the words <code>w</code> fired in 2."}},
		"unreadable sessions": {"/queue?backtest=late", func(_ *wordSource, _ *lesson.Lesson, o *admin.Options) { o.Read.Survey = failingSessions{} }, []string{"The captured sessions cannot be read: no disk."}},
		"second page": {"/queue?page=2", func(source *wordSource, _ *lesson.Lesson, _ *admin.Options) {
			var all []*lesson.Lesson
			for i := range 21 {
				all = append(all, &lesson.Lesson{Slug: fmt.Sprintf("c-%02d", i), State: lesson.Candidate})
			}
			source.book = lesson.NewBook(all)
		}, []string{"21 to 21 of 21", `id="candidate-c-20"`, "!id=\"candidate-c-19\"", `href="/queue?page=1" rel="prev"`, "!rel=\"next\""}},
		"page after the last": {"/queue?page=9", unchanged, []string{"1 to 2 of 2"}},
		"empty queue":         {"/queue", func(source *wordSource, _ *lesson.Lesson, _ *admin.Options) { source.book = lesson.NewBook(nil) }, []string{"The queue is empty", "!waiting for a decision"}},
	} {
		checkPage(t, name, queuePage(t, tc.target, tc.change), tc.wantText...)
	}
}

func TestQueueListsOldestCandidateFirst(t *testing.T) {
	page := queuePage(t, "/queue", func(*wordSource, *lesson.Lesson, *admin.Options) {})
	if early, late := strings.Index(page, `id="candidate-early"`), strings.Index(page, `id="candidate-late"`); early > late {
		t.Error("order of the candidates: got the newest before the oldest, want the oldest first")
	}
}

// The lessons in this test have slugs that are also the ids of elements on the dashboard's pages.
func TestQueueElementIDsAreUnique(t *testing.T) {
	page := queuePage(t, "/queue", func(source *wordSource, _ *lesson.Lesson, _ *admin.Options) {
		var all []*lesson.Lesson
		for _, slug := range []string{"main", "keys", "theme", "title-keys", "def-effect", "refresh"} {
			all = append(all, &lesson.Lesson{Slug: slug, State: lesson.Candidate})
		}
		source.book = lesson.NewBook(all)
	})
	ids := map[string]bool{}
	for _, m := range regexp.MustCompile(` id="([^"]*)"`).FindAllStringSubmatch(page, -1) {
		if ids[m[1]] {
			t.Errorf("elements with the id %s: got two, want one", m[1])
		}
		ids[m[1]] = true
	}
	if len(ids) < 12 {
		t.Errorf("ids on the page: got %v, want at least 12 ids", ids)
	}
}
