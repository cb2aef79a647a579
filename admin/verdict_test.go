package admin

import (
	"net/http"
	"slices"
	"strings"
	"testing"

	"precept/bandit/report"
)

func TestEveryVerdictHasAdviceAndFilterGroup(t *testing.T) {
	weeks := 0.4
	const needs = " A verdict needs 120 more picks with a reward, within a week at this rate."
	for verdict, tc := range map[report.Verdict]struct{ moreAdvice, tone, group string }{
		report.ProvenHelps: {"", "good", "helps"},
		report.TrialHelps:  {"", "good", "helps"},
		report.Helps:       {"", "good", "helps"},
		report.ProvenHarms: {"", "bad", "harms"},
		report.TrialHarms:  {"", "bad", "harms"},
		report.Harms:       {"", "bad", "harms"},
		report.NoEffect:    {"", "", "none"},
		report.LikelyHelps: {needs, "", "open"},
		report.LikelyHarms: {needs, "warn", "open"},
		report.Benched:     {"", "warn", "open"},
		report.Invalid:     {"", "bad", "invalid"},
		report.Unproven:    {needs, "", "open"},
	} {
		row := report.Row{State: "active", Verdict: verdict, Effect: new(0.01), NeedsPicks: 120, Weeks: &weeks, Note: "the random assignment is faulty"}
		got := advise(&row)
		if got.NextAction != verdict.Advice()+tc.moreAdvice {
			t.Errorf("verdict %s: NextAction = %q, want %q", verdict, got.NextAction, verdict.Advice()+tc.moreAdvice)
		}
		if got.Tone != tc.tone {
			t.Errorf("verdict %s: Tone = %q, want %q", verdict, got.Tone, tc.tone)
		}
		if got.Group != tc.group {
			t.Errorf("verdict %s: Group = %q, want %q", verdict, got.Group, tc.group)
		}
		if got.Words != string(verdict) {
			t.Errorf("verdict %s: Words = %q, want %q", verdict, got.Words, string(verdict))
		}
	}
	for row, want := range map[*report.Row]string{
		{OpenMatched: 12, NeedsPicks: 50}: report.Unproven.Advice() + " An effect needs 50 more picks with a reward; 12 open sessions matched and will count once closed.",
		{NeedsPicks: 50}:                  "No session in this report has matched the current text. To test the triggers, run `precept lessons backtest`.",
	} {
		row.State, row.Verdict = "active", report.Unproven
		if got := advise(row).NextAction; got != want {
			t.Errorf("next step for an active lesson that matched in %d open sessions: got %q, want %q", row.OpenMatched, got, want)
		}
	}
	if got := advise(&report.Row{State: "active", Verdict: "unknown"}); got.Group != "open" {
		t.Errorf(`unknown verdict: Group = %q, want "open"`, got.Group)
	} else if got.NextAction != "" {
		t.Errorf(`unknown verdict: NextAction = %q, want ""`, got.NextAction)
	}
}

func TestAdviceDependsOnStateFirst(t *testing.T) {
	for state, want := range map[string]string{
		"candidate":       "Read it, then approve or reject it in the queue.",
		"quarantined":     "Read it, then approve or reject it in the queue.",
		"edited":          "Nothing to do: no session gets this text any more. The numbers are kept.",
		"shown otherwise": "Nothing to do: the lesson is now shown in another form (as advice or as a caution), which has a separate row. These numbers stay.",
		"removed":         "Nothing to do: the lesson is not active. The numbers are kept.",
		"paused":          "Resume the lesson to continue measuring it: no new session gets a paused lesson.",
		"archived":        "Nothing to do: the lesson is not active. The numbers are kept.",
		"rejected":        "Nothing to do: the lesson is not active. The numbers are kept.",
		"expired":         "Nothing to do: the lesson is not active. The numbers are kept.",
		"superseded":      "Nothing to do: the lesson is not active. The numbers are kept.",
		"active":          "Keep the lesson.",
		"trial":           "Keep the lesson.",
		"caution":         "Keep the lesson.",
	} {
		if got := advise(&report.Row{State: state, Verdict: report.ProvenHelps}).NextAction; got != want {
			t.Errorf("next step in state %s: got %q, want %q", state, got, want)
		}
	}
	running := report.Row{State: "trial", Verdict: report.Unproven, Trial: "running"}
	if got := advise(&running).NextAction; got != "Wait: the trial is running." {
		t.Errorf("next step during a trial: got %q, want \"Wait: the trial is running.\"", got)
	}
	running.NeedsPicks, running.Weeks = 120, new(200.)
	if got := advise(&running).NextAction; got != "Wait: the trial is running. An effect needs 120 more picks with a reward, years at this rate." {
		t.Errorf("next step during a trial that takes years: got %q, want the advice to wait, with the years, but no advice to start a trial", got)
	}
	for _, harm := range []report.Verdict{report.ProvenHarms, report.TrialHarms, report.Harms} {
		got := advise(&report.Row{State: "shown otherwise", Verdict: harm}).NextAction
		if want := "The lesson is now shown in another form (as advice or as a caution), which has a separate row. " + harm.Advice(); got != want {
			t.Errorf("next step for verdict %s in state shown otherwise: got %q, want %q", harm, got, want)
		}
	}
	running.RetireReason = "a newer one supersedes it"
	if got := advise(&running).NextAction; got != "Consider retiring the lesson: a newer one supersedes it." {
		t.Errorf("next step for a superseded lesson: got %q, want the advice to retire the lesson", got)
	}
}

// rowOrder with the key "effect" or "-effect" puts rows without an effect last. The key "needs" sorts by NeedsPicks,
// the number of picks (sessions for which the lesson is chosen) that are still needed until a verdict is likely.
func TestRowOrderSortsByEachColumn(t *testing.T) {
	row := func(slug string, effect *float64, rewarded, needs, tokens int64, helps float64, v report.Verdict) *report.Row {
		return &report.Row{Slug: slug, State: "active", Effect: effect, Rewarded: rewarded, NeedsPicks: needs, Tokens: tokens, PHelps: helps, Verdict: v}
	}
	for key, want := range map[string]string{
		"name": "a b c d", "-name": "d c b a", "effect": "b a c d", "-effect": "c a b d", "rewarded": "d c b a", "-rewarded": "a b c d",
		"needs": "c d a b", "-needs": "b a d c", "tokens": "b d a c", "-tokens": "c a d b",
		"verdict": "b c a d", "nonsense": "c a b d", "": "c a b d",
	} {
		rows := []*report.Row{ // arguments: slug, effect, rewarded, needs, tokens, helps, verdict
			row("d", nil, 1, 20, 20, 0.1, report.Unproven), row("b", new(-0.2), 3, 40, 10, 0.3, report.ProvenHarms),
			row("c", new(0.3), 2, 10, 40, 0.4, report.ProvenHelps), row("a", new(0.1), 4, 30, 30, 0.2, report.ProvenHelps),
		}
		slices.SortStableFunc(rows, rowOrder(key))
		var got []string
		for _, r := range rows {
			got = append(got, r.Slug)
		}
		if s := strings.Join(got, " "); s != want {
			t.Errorf("order by key %q: got %s, want %s", key, s, want)
		}
	}
}

// Without a chosen column, lessons in use come first, then benched lessons, then lessons out of use, each under a
// heading. A chosen column mixes the groups.
func TestLessonsAreListedInGroups(t *testing.T) {
	f, _, _ := newLessonFixture(t, nil)
	r := &f.reports.report
	r.Lessons = []report.Row{
		{Slug: "retired", State: "archived", Effect: new(0.5), Lo: new(0.4), Hi: new(0.6), Picked: 9, Verdict: report.ProvenHelps},
		{Slug: "held", State: "paused", Effect: new(0.4), Lo: new(0.3), Hi: new(0.6), Picked: 9, Verdict: report.Unproven},
		{Slug: "doubtful", State: "active", Effect: new(0.3), Lo: new(-0.3), Hi: new(0.6), Picked: 9, Verdict: report.Benched},
		{Slug: "used", State: "active", Effect: new(0.1), Lo: new(-0.1), Hi: new(0.6), Picked: 9, Verdict: report.Unproven},
		{Slug: "on-trial", State: "trial", Trial: "running", Effect: new(-0.1), Lo: new(-0.3), Hi: new(0.6), Picked: 9, Verdict: report.Benched},
	}
	cookie, _ := f.logIn(t)
	for target, want := range map[string][]string{
		"/lessons":              {">used<", ">on-trial<", report.RarelyUsed.Title(), ">doubtful<", report.NotInUse.Title(), ">retired<", ">held<"},
		"/":                     {">used<", ">on-trial<", report.RarelyUsed.Title(), ">doubtful<", "<summary>2 measured texts not in use", ">retired<", ">held<"},
		"/lessons?sort=-effect": {">retired<", ">held<", ">doubtful<", ">used<", ">on-trial<"},
	} {
		page := body(t, f.do(t, "GET", target, func(r *http.Request) { r.AddCookie(cookie) }))
		from := strings.Index(page, "<table class=\"effects")
		for _, text := range want {
			i := strings.Index(page[from:], text)
			if i < 0 {
				t.Errorf("%s: the table lacks %q after the earlier entries %q", target, text, want)
				break
			}
			from += i
		}
		if headed := strings.Contains(page, `class="unit"><th`); headed != !strings.Contains(target, "sort") {
			t.Errorf("%s: the table has headings = %t, want %t", target, headed, !headed)
		}
	}
}

func TestLessonsWithoutEffectSortByMatches(t *testing.T) {
	rows := []*report.Row{{Slug: "a"}, {Slug: "b", OpenMatched: 1}, {Slug: "c", OpenMatched: 2}, {Slug: "d", Matched: 1}}
	slices.SortFunc(rows, rowOrder(""))
	if got := rows[0].Slug + rows[1].Slug + rows[2].Slug + rows[3].Slug; got != "dcba" {
		t.Errorf("order of lessons without an effect: got %s, want dcba, in which the lesson that matched in a closed session is first, and the others follow by the number of open sessions with a match", got)
	}
}

// TerminalText replaces invisible characters by their names, because a lesson could hide an instruction in them.
func TestTerminalTextNamesInvisibleCharacters(t *testing.T) {
	for in, want := range map[string]string{
		"plain text\n\twith é and 日本": "plain text\n\twith é and 日本", "bad\xff": "bad\uFFFD",
		"zero\u200bwidth": "zero‹U+200B›width", "right\u202eto left": "right‹U+202E›to left", "soft\u00adhyphen": "soft‹U+00AD›hyphen",
		"mark\ufeff": "mark‹U+FEFF›", "line\u2028end": "line‹U+2028›end", "filler\u3164": "filler‹U+3164›", "half\uffa0": "half‹U+FFA0›",
		"join\u034fer": "join‹U+034F›er", "jamo\u115f\u1160": "jamo‹U+115F›‹U+1160›", "bell\x07": "bell‹U+0007›",
	} {
		if got := TerminalText(in); got != want {
			t.Errorf("TerminalText(%q) = %q, want %q", in, got, want)
		}
	}
}
