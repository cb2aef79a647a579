package main

import (
	"strings"
	"testing"
	"time"

	"precept/bandit/report"
	"precept/cmd/precept/server"
	"precept/configs"
	"precept/inject/rules"
	"precept/store/storetest"
)

const measuredFile = "# Shop\nA shop.\n\n## Style\nUse tabs.\n\n## Tests\nRun the tests.\n"

// registering returns a function that registers the section Style of a file.
func registering(t *testing.T) (place *server.Sections, register func(path, text string, picks int64) measureAnswer) {
	t.Helper()
	place, _, err := (&server.Tools{}).OpenSections(&configs.Config{Lessons: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	return place, func(path, text string, picks int64) measureAnswer {
		t.Helper()
		f := measureFlags{sections: []string{"Style"}, share: 0.5, picks: picks}
		answer, err := f.register(t.Context(), place, 3, path, text, time.Date(2026, 3, 1, 0, 0, 0, 0, time.UTC))
		if err != nil {
			t.Fatal(err)
		}
		return answer
	}
}

func TestMeasureDisplacesOnlyTheEarlierVersionOfTheSameFile(t *testing.T) {
	_, register := registering(t)
	edited := strings.Replace(measuredFile, "tabs", "blanks", 1)
	register("/shop/CLAUDE.md", measuredFile, 0)
	if a := register("/other/CLAUDE.md", edited, 0); len(a.Registered) != 0 || len(a.Skipped) != 1 || !strings.Contains(a.Skipped[0].Why, "/shop/CLAUDE.md") {
		t.Errorf("another file with the same name: %+v, want a refusal that names the first file", a)
	}
	if a := register("/shop/CLAUDE.md", edited, 0); len(a.Registered) != 1 || len(a.Displaced) != 1 || a.Displaced[0].Hash != rules.Hash("## Style\nUse tabs.") {
		t.Errorf("an edited file: %+v, want the edited section and the displaced one", a)
	}
}

func TestMeasureRefusesAFinishedSectionWithoutAPlan(t *testing.T) {
	place, register := registering(t)
	register("/shop/CLAUDE.md", measuredFile, 0)
	err := place.Update(t.Context(), func(list []rules.Registered) ([]rules.Registered, error) {
		list[0].State, list[0].Verdict = rules.Finished, "no effect"
		return list, nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if a := register("/shop/CLAUDE.md", measuredFile, 0); len(a.Registered) != 0 || len(a.Skipped) != 1 || !strings.Contains(a.Skipped[0].Why, "--picks") {
		t.Errorf("without a plan: %+v, want a refusal that names --picks", a)
	}
	if a := register("/shop/CLAUDE.md", measuredFile, 500); len(a.Registered) != 1 {
		t.Errorf("with a plan: %+v, want a registration", a)
	}
}

func TestProposeRemovesSectionsByMarginAndKeepsProhibitions(t *testing.T) {
	const text = "# Shop\n\n## Style\n\nUse tabs.\n\n## Keys\n\nNever print a key.\n\n## Tests\n\nRun the tests.\n"
	var rep report.Report
	for section, hi := range map[string]float64{"## Style\n\nUse tabs.": .03, "## Keys\n\nNever print a key.": .01, "## Tests\n\nRun the tests.": .2} {
		r := rules.Registered{File: "CLAUDE.md", Section: strings.Fields(section)[1], Hash: rules.Hash(section)}
		rep.Lessons = append(rep.Lessons, report.Row{Arm: string(r.Arm()), Effect: new(0.0), Lo: new(-.04), Hi: &hi, NInjected: 700, NWithheld: 710})
	}
	for _, c := range []struct {
		margin  float64
		force   bool
		removed string
	}{{.05, false, "Style"}, {.05, true, "Style Keys"}, {.02, false, ""}, {.02, true, "Keys"}, {.3, false, "Style Tests"}} {
		var out strings.Builder
		p := propose("CLAUDE.md", text, judge("CLAUDE.md", text, &rep, c.margin, c.force))
		if err := p.print(&out); err != nil {
			t.Fatal(err)
		}
		if got := len(strings.Fields(c.removed)); len(p.Removed) != got || len(p.Removed)+len(p.Kept) != 3 || (p.Diff == "") != (got == 0) {
			t.Errorf("margin %.2f, force %t: got %+v, want %d removals of 3 sections", c.margin, c.force, p, got)
		}
		for _, name := range []string{"Style", "Keys", "Tests"} {
			removed := strings.Contains(c.removed, name)
			if strings.Contains(out.String(), "# removed: "+name+": non-inferior") != removed || strings.Contains(out.String(), "-## "+name+"\n") != removed {
				t.Errorf("margin %.2f, force %t: the proposal is\n%s\nwant the removal of %q only", c.margin, c.force, out.String(), c.removed)
			}
		}
		if c.removed != "" && !strings.Contains(out.String(), "95% interval -4.0 to") {
			t.Errorf("the proposal has no evidence:\n%s", out.String())
		}
	}
}

// The clock of the machine that registers a section is two hours ahead. The measurement begins by the clock of Redis,
// so sessions of the next two hours take part.
func TestMeasurementInRedisBeginsByTheClockOfRedis(t *testing.T) {
	tools := &server.Tools{Now: time.Now}
	place, closePlace, err := tools.OpenSections(&configs.Config{Lessons: storetest.StartRedis(t).URL()})
	if err != nil {
		t.Fatal(err)
	}
	defer closePlace()
	f := measureFlags{sections: []string{"Style"}, share: 0.5}
	answer, err := f.register(t.Context(), place, 3, "/shop/CLAUDE.md", measuredFile, time.Now().Add(2*time.Hour))
	if err != nil || len(answer.Registered) != 1 {
		t.Fatalf("got %+v, error %v, want one section", answer, err)
	}
	if began := answer.Registered[0].Began; time.Until(began).Abs() > time.Minute {
		t.Errorf("the measurement begins at %v, want now", began)
	}
}
