package report_test

import (
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"precept/bandit"
	"precept/bandit/report"
	"precept/bandit/trial"
)

func assertGolden(t *testing.T, name, got string) {
	t.Helper()
	file := filepath.Join("testdata", name)
	if *update {
		if err := os.WriteFile(file, []byte(got), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if got != string(want) {
		t.Errorf("text differs from testdata/%s (go test -update rewrites the file):\n%s", name, got)
	}
}

// allKindsInput returns an input that gives a report with one row of each kind.
func allKindsInput() report.Input {
	c := bandit.New()
	day := today() - 6
	addArmSessions(c, "helps", armSessions{epsilon: 0.2, injected: 1280, withheld: 320, injectedRate: 0.6, withheldRate: 0.497, day: day})
	addArmSessions(c, "proven", armSessions{epsilon: 0.2, injected: 3200, withheld: 800, injectedRate: 0.72, withheldRate: 0.61, day: day})
	addArmSessions(c, "harms", armSessions{epsilon: 0.5, injected: 700, withheld: 700, injectedRate: 0.46, withheldRate: 0.547, day: day})
	addArmSessions(c, "idle", armSessions{epsilon: 0.5, injected: 15000, withheld: 15000, injectedRate: 0.5, withheldRate: 0.5, day: day})
	addArmSessions(c, "benched", armSessions{epsilon: 0.2, injected: 120, withheld: 30, injectedRate: 0.3, withheldRate: 0.5, day: day})
	addArmSessions(c, "changed", armSessions{epsilon: 0.2, injected: 80, withheld: 20, injectedRate: 0.6, withheldRate: 0.5, day: day})
	addArmSessions(
		c,
		"changed",
		armSessions{epsilon: 0.05, injected: 57, withheld: 3, injectedRate: 0.6, withheldRate: 0.5, unrewardedInjected: 19, unrewardedWithheld: 1, day: day},
	)
	addArmSessions(c, "young", armSessions{epsilon: 0.2, injected: 16, withheld: 4, injectedRate: 0.5, withheldRate: 0.5, day: day})
	addArmSessions(c, "coins-off", armSessions{epsilon: 0.2, injected: 1600, withheld: 700, injectedRate: 0.8, withheldRate: 0.5, day: day})
	addArmSessions(c, "mute", armSessions{epsilon: 0.2, injected: 1600, withheld: 200, injectedRate: 0.8, withheldRate: 0.5, unrewardedWithheld: 200, day: day})
	for i := range 12 { // an interval that excludes 0 among many lessons is not proof
		addArmSessions(
			c,
			"other-"+string(rune('a'+i)),
			armSessions{epsilon: 0.5, injected: 30, withheld: 30, injectedRate: 0.5, withheldRate: 0.5, day: day},
		)
	}
	name := func(picks int64) string {
		return trial.PlannedName(time.Date(2026, 2, 20, 0, 0, 0, 0, time.UTC), picks, "")
	}
	addTrialSessions(c, "ended@abc", name(400), 200, 130, 100)
	addTrialSessions(c, "running@abc", name(400), 100, 60, 50)
	in := newInput(
		c,
		"helps",
		"proven",
		"harms",
		"idle",
		"benched",
		"changed",
		"young",
		"coins-off",
		"mute",
		"ended",
		"running",
		"never",
	)
	for i := range in.Lessons {
		if l := &in.Lessons[i]; l.Slug == "ended" || l.Slug == "running" {
			l.State, l.Epsilon, l.Trial = "trial", 0.5, name(400)
		}
	}
	return in
}

// Explain describes each kind of row in 5 to 12 lines. The golden file contains the full text.
func TestExplainDescribesEachRowKind(t *testing.T) {
	var all strings.Builder
	for _, l := range allKindsInput().Lessons {
		in := allKindsInput()
		in.Explain = l.Slug
		r := report.Build(in)
		var b strings.Builder
		if err := r.Explain(&b, l.Slug, 1000); err != nil {
			t.Fatal(err)
		}
		if n := strings.Count(b.String(), "\n"); n > 12 || n < 5 {
			t.Errorf("%s: explanation has %d lines, want 5 to 12", l.Slug, n)
		}
		all.WriteString(b.String() + "\n")
		for _, row := range r.Lessons {
			if (row.Explanation != nil) != (row.Slug == l.Slug) {
				t.Errorf("report that explains %s: row %s has an explanation = %v, want %v",
					l.Slug, row.Slug, row.Explanation != nil, row.Slug == l.Slug)
			}
		}
	}
	assertGolden(t, "explain.txt", all.String())
}

func TestExplainFitsNarrowTerminal(t *testing.T) {
	in := allKindsInput()
	in.Explain = "ended"
	r := report.Build(in)
	explain := func(columns int) string {
		var b strings.Builder
		if err := r.Explain(&b, "ended", columns); err != nil {
			t.Fatal(err)
		}
		return b.String()
	}
	narrow := explain(60)
	assertGolden(t, "explain-60.txt", narrow)
	if got, want := strings.Fields(narrow), strings.Fields(explain(1000)); !slices.Equal(got, want) {
		t.Errorf("words in 60 columns =\n%q\nwant the words in 1000 columns\n%q", got, want)
	}
	for line := range strings.Lines(narrow) {
		if line = strings.TrimRight(line, "\n"); len(line) > 60 || strings.HasSuffix(line, " ") {
			t.Errorf("line %q has %d bytes, want at most 60 bytes and no trailing space", line, len(line))
		}
	}
	if err := r.Explain(failingWriter{}, "ended", 60); err == nil || !strings.Contains(err.Error(), "the pipe is closed") {
		t.Errorf("failed write: err = %v, want \"the pipe is closed\"", err)
	}
}

func TestExplanationCountsOpenSessions(t *testing.T) {
	in := allKindsInput()
	in.Lessons = append(in.Lessons, report.Lesson{Slug: "fresh", Arm: "fresh@1", State: "active"})
	in.Explain = "fresh"
	for matched, want := range map[int]string{
		0: "there was none in the last four weeks",
		7: "7 open sessions matched and do not count yet. A session counts once it is 24h old (reward.close_after). `precept report --provisional --explain fresh`",
	} {
		r := report.Build(in)
		r.Open = &report.OpenSessions{Sessions: 9, CloseAfter: "24h0m0s", Matched: map[trial.Arm]int{"fresh@1": matched}}
		var b strings.Builder
		if err := r.Explain(&b, "fresh", 1000); err != nil || !strings.Contains(b.String(), want) || strings.Contains(b.String(), "there was none in the last four weeks") != (matched == 0) {
			t.Errorf("%d open sessions with a match: err = %v, explanation =\n%s\nwant it to contain %q", matched, err, b.String(), want)
		}
	}
}

// The numbers in Explanation are enough to compute the row again.
func TestExplanationNumbersMatchRow(t *testing.T) {
	for _, l := range allKindsInput().Lessons {
		in := allKindsInput()
		in.Explain = l.Slug
		for _, row := range report.Build(in).Lessons {
			e := row.Explanation
			if e == nil {
				continue
			}
			var rewarded, assigned int64
			for _, p := range e.Propensities {
				rewarded, assigned = rewarded+p.RewardedInjected+p.RewardedWithheld, assigned+p.Injected+p.Withheld
				if p.EValue <= 0 ||
					p.RewardedInjected > 0 && (*p.MeanInjected < 0 || *p.MeanInjected > 1) {
					t.Errorf("%s: propensity = %+v, want EValue above 0, and if there are rewards in injected sessions, MeanInjected from 0 to 1", l.Slug, p)
				}
			}
			if rewarded != row.Rewarded || assigned != row.Picked || float64(rewarded) != e.N {
				t.Errorf("%s: sums over the propensities: got %d rewarded picks and %d picks, N = %v, want %d and %d as in the row, and N equal to the rewarded picks", l.Slug, rewarded, assigned, e.N, row.Rewarded, row.Picked)
			}
			if row.Effect == nil {
				if e.Mean != nil || e.HalfWidth != nil || e.P != nil {
					t.Errorf("row %s without an effect: Explanation = %+v, want nil for Mean, HalfWidth and P", l.Slug, e)
				}
				continue
			}
			n, mean := e.N, e.SumZ/e.N
			s2 := e.SumZZ/n - mean*mean
			for number, x := range map[string]struct{ got, want float64 }{
				"mean": {*e.Mean, mean}, "effect": {*row.Effect, mean}, "s2": {*e.Variance, s2}, "error": {*e.StandardError, math.Sqrt(s2 / n)},
				"score": {*e.ZScore, mean / math.Sqrt(s2/n)}, "half": {*e.HalfWidth, trial.HalfWidth(n, s2, 1000)}, "lo": {*row.Lo, mean - *e.HalfWidth}, "hi": {*row.Hi, mean + *e.HalfWidth},
				"one look": {*e.PlannedHalfWidth, 1.959964 * math.Sqrt(s2/n)}, "p": {*e.P, trial.IntervalPValue(mean, n, s2, 1000)},
				"difference": {*e.Difference, *row.MeanInjected - *row.MeanWithheld},
			} {
				if math.Abs(x.got-x.want) > 1e-6*max(1, math.Abs(x.want)) {
					t.Errorf("%s, %s = %v, want %v", l.Slug, number, x.got, x.want)
				}
			}
			if e.SmallestP > *e.P && row.NInjected >= 50 && row.NWithheld >= 50 || e.SmallestP > 1 {
				t.Errorf("%s: Smallest = %v, P = %v, want Smallest <= 1 and, with 50 injected and 50 withheld picks, <= P", l.Slug, e.SmallestP, *e.P)
			}
		}
	}
}

func TestVerdictFollowsFromExplanationNumbers(t *testing.T) {
	seen := map[report.Verdict]bool{}
	for _, l := range allKindsInput().Lessons {
		in := allKindsInput()
		in.Explain = l.Slug
		for _, row := range report.Build(in).Lessons {
			e := row.Explanation
			if e == nil {
				continue
			}
			seen[row.Verdict] = true
			want := report.Unproven
			switch {
			case row.SRM.EValue >= row.SRM.Alarm || row.Reporting.EValue >= row.Reporting.Alarm:
				want = report.Invalid
			case row.Effect == nil:
			case 1/row.EHelps <= e.ProofBar:
				want = report.ProvenHelps
			case 1/row.EHarms <= e.ProofBar:
				want = report.ProvenHarms
			case len(row.PlannedTrials) > 0 && row.PlannedTrials[0].Evaluated && *row.PlannedTrials[0].P <= 0.05:
				want = report.TrialHelps
			case e.SmallestP <= e.ClaimBar && *row.Effect > 0:
				want = report.Helps
			case e.SmallestP <= e.ClaimBar:
				want = report.Harms
			case *row.Lo >= -0.03 && *row.Hi <= 0.03:
				want = report.NoEffect
			}
			if want == report.Unproven && row.Verdict == report.Benched { // the verdict "benched" depends on the chooser's belief, not on the numbers
				continue
			}
			if row.Verdict != want {
				t.Errorf("%s: Verdict = %s, want %s according to the numbers in Explanation", l.Slug, row.Verdict, want)
			}
		}
	}
	for _, v := range []report.Verdict{report.Invalid, report.ProvenHelps, report.Helps, report.Harms, report.NoEffect, report.TrialHelps, report.Benched, report.Unproven} {
		if !seen[v] {
			t.Errorf("rows with the verdict %s: got none, want at least one", v)
		}
	}
}
