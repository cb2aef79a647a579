package report_test

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"precept/bandit/report"
	"precept/bandit/trial"
)

// Opinions count how often a judge found that the agent followed or ignored an injected lesson. They add a field to the
// report and one line to the explanation, but change no measured number.
func TestOpinionsChangeNoMeasurement(t *testing.T) {
	build := func() report.Report {
		c := trial.NewCounters()
		for i := range 60 {
			a := trial.Assignment{Decided: true, Picks: []trial.Pick{{Arm: "one@aaaaaaaaaaaa.b", Slug: "one", Injected: i%2 == 0, Eps: 0.5, Propensity: 0.5}}}
			c.Add(append(a.ClosingDeltas(), a.Contribution(float64(i%3)/2, 1)...))
		}
		return report.Build(report.Input{
			Now: time.Date(2031, 1, 2, 0, 0, 0, 0, time.UTC), Counters: c, Explain: "one",
			Lessons: []report.Lesson{
				{Slug: "one", Arm: "one@aaaaaaaaaaaa.b", ContentHash: strings.Repeat("a", 64), State: "active"},
				{Slug: "two", Arm: "two@bbbbbbbbbbbb", State: "active"},
			},
		})
	}
	text := func(r report.Report) string {
		data, err := json.Marshal(r)
		if err != nil {
			t.Fatal(err)
		}
		return string(data)
	}
	plain, withOpinions := build(), build()
	withOpinions.AddOpinions(map[string]report.Opinions{"one@aaaaaaaaaaaa": {Followed: 3, Ignored: 1}, "one@cccccccccccc": {Ignored: 9}, "two@bbbbbbbbbbbb": {}})
	field := `"opinions":{"followed":3,"ignored":1,"irrelevant":0,"contradicted":0}`
	if got := strings.Replace(text(withOpinions), ","+field, "", 1); got != text(plain) || !strings.Contains(text(withOpinions), field) || withOpinions.Lessons[0].Rewarded != 60 {
		t.Errorf("report with opinions =\n%s\nwant only the field %s added to\n%s", text(withOpinions), field, text(plain))
	}
	var table, plainTable, why strings.Builder
	if err := withOpinions.Table(&table, report.FullWidth); err != nil {
		t.Fatal(err)
	}
	if err := plain.Table(&plainTable, report.FullWidth); err != nil {
		t.Fatal(err)
	}
	if table.String() != plainTable.String() { // the table shows no opinions
		t.Errorf("table with opinions =\n%s\nwant\n%s", table.String(), plainTable.String())
	}
	const opinion = "the judge's opinion, not a measurement: followed 3, ignored 1, irrelevant 0, contradicted 0"
	if err := withOpinions.Explain(&why, "one", 1000); err != nil || strings.Count(why.String(), opinion) != 1 {
		t.Errorf("err = %v, explanation =\n%s\nwant no error, and an explanation that mentions the opinions once", err, why.String())
	}
}

// The counts of opinions are never negative. An unknown opinion is ignored.
func TestOpinionsAreNeverNegative(t *testing.T) {
	var o report.Opinions
	for _, opinion := range []string{"followed", "contradicted", "contradicted", "splendid", ""} {
		o.Add(opinion, 1)
	}
	o.Add("contradicted", -1)
	o.Add("ignored", -1)
	if want := (report.Opinions{Followed: 1, Contradicted: 1}); o != want || o.Total() != 2 {
		t.Errorf("opinions = %+v, Total = %d, want %+v, 2", o, o.Total(), want)
	}
}
