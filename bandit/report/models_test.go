package report_test

import (
	"encoding/json"
	"math/rand/v2"
	"strings"
	"testing"

	"precept/bandit/report"
	"precept/bandit/trial"
)

// addModelPicks adds picks from sessions on a model. The lesson raises the success rate from 0.2 to 0.9. In each
// session that fails, the error recurs.
func addModelPicks(r *rand.Rand, c *trial.Counters, arm trial.Arm, model string, picks int, rewarded bool) {
	for range picks {
		p := trial.Pick{Slug: arm.Slug(), Arm: arm, Eps: 0.5, Injected: r.IntN(2) == 1, Centre: 0.5}
		p.Measurement = c.NewMeasurement(arm, p.Eps, trial.NewOutcomeSet(trial.Recurrence, trial.Errors), trial.Totals{})
		chance := 0.2
		if p.Injected {
			chance = 0.9
		}
		success := r.Float64() < chance
		p.Measurement.Recurred = !success
		a := &trial.Assignment{Decided: true, Day: 20_000, Model: model, Picks: []trial.Pick{p}}
		a.Observe(trial.Totals{})
		c.Add(a.ClosingDeltas())
		if rewarded {
			y := 0.0
			if success {
				y = 1
			}
			c.Add(a.Contribution(y, 1))
		}
	}
	c.RaiseMaxima(noon)
}

func TestRowNamesVerdictModels(t *testing.T) {
	for _, tc := range []struct {
		name     string
		rewarded bool
		picksA   int
		picksB   int
		text     string
	}{
		{name: "proven on one model", rewarded: true, picksA: 400, picksB: 12, text: "proven on model-a, undecided on model-b"},
		{name: "proven on both models", rewarded: true, picksA: 400, picksB: 200, text: "proven on model-a, model-b"},
		{name: "proven outcome", picksA: 400, picksB: 12, text: "proven on model-a, undecided on model-b"},
		{name: "no finding", rewarded: true, picksA: 20, picksB: 2},
	} {
		r := rand.New(rand.NewPCG(1, 2)) //nolint:gosec // the tests need repeatable numbers
		c := trial.NewCounters()
		addModelPicks(r, c, "in@abc", "model-a", tc.picksA, tc.rewarded)
		addModelPicks(r, c, "in@abc", "model-b", tc.picksB, tc.rewarded)
		out := report.Build(report.Input{Now: noon, Counters: c, Lessons: newLessons("in"), Explain: "in"})
		row := &out.Lessons[0]
		if got := row.DescribeModels(); got != tc.text {
			t.Errorf("%s: DescribeModels = %q, want %q; verdict %q", tc.name, got, tc.text, row.Verdict)
		}
		var table, explained strings.Builder
		if err := out.Table(&table, report.NarrowWidth); err != nil {
			t.Fatal(err)
		}
		if err := out.Explain(&explained, "in", report.FullWidth); err != nil {
			t.Fatal(err)
		}
		if open := strings.Contains(tc.text, "open on"); strings.Contains(table.String(), "open on") != open || !strings.Contains(explained.String(), tc.text) {
			t.Errorf("%s: table =\n%s\nexplanation =\n%s\nwant \"open on\" in the table: %t, and %q in the explanation", tc.name, table.String(), explained.String(), open, tc.text)
		}
	}
}

// In the JSON form of a report, a lesson without a pick has empty lists of models, not null.
func TestModelsInJSONAreLists(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2)) //nolint:gosec // the tests need repeatable numbers
	c := trial.NewCounters()
	addModelPicks(r, c, "in@abc", "model-a", 100, true /* rewarded */)
	addModelPicks(r, c, "in@abc", "model-b", 3, true /* rewarded */)
	data, err := json.Marshal(report.Build(report.Input{Now: noon, Counters: c, Lessons: newLessons("in", "unused")}))
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{`"models":{"seen":["model-a"],"open":["model-b"],"effects":[{"model":"model-a","picks":100,`, `"models":{"seen":[],"open":[]}`} {
		if !strings.Contains(string(data), want) {
			t.Errorf("report lacks %s:\n%s", want, data)
		}
	}
}
