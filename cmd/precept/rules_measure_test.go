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

// openSections returns an empty store for measured sections, and a function that registers the section Style of a file.
func openSections(t *testing.T) (storage *server.RegistryStorage, register func(path, text string, picks int64) measureResult) {
	t.Helper()
	storage, _, err := (&server.Tools{}).OpenRegistry(&configs.Config{Lessons: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	return storage, func(path, text string, picks int64) measureResult {
		t.Helper()
		f := measureFlags{sections: []string{"Style"}, share: 0.5, picks: picks}
		answer, err := f.register(t.Context(), storage, 3 /* measurements at once */, path, text, time.Date(2026, 3, 1, 0, 0, 0, 0, time.UTC))
		if err != nil {
			t.Fatal(err)
		}
		return answer
	}
}

// If a section was edited, register replaces its earlier version. If another file already has a registered section with
// this name, register skips the section.
func TestRegisterDisplacesOnlySectionInSameFile(t *testing.T) {
	_, register := openSections(t)
	edited := strings.Replace(measuredFile, "tabs", "blanks", 1)
	register("/shop/CLAUDE.md", measuredFile, 0)
	if result := register("/other/CLAUDE.md", edited, 0); len(result.Registered) != 0 || len(result.Skipped) != 1 || !strings.Contains(result.Skipped[0].Reason, "/shop/CLAUDE.md") {
		t.Errorf("section whose name is registered for another file: got %+v, want the section skipped, and the path of the other file in the reason", result)
	}
	if result := register("/shop/CLAUDE.md", edited, 0); len(result.Registered) != 1 || len(result.Displaced) != 1 || result.Displaced[0].Hash != rules.Hash("## Style\nUse tabs.") {
		t.Errorf("edited section: got %+v, want the new version registered and the earlier version displaced", result)
	}
}

func TestMeasuringFinishedSectionRequiresPicks(t *testing.T) {
	storage, register := openSections(t)
	register("/shop/CLAUDE.md", measuredFile, 0)
	err := storage.Update(t.Context(), func(list []rules.RegisteredSection) ([]rules.RegisteredSection, error) {
		list[0].State, list[0].Verdict = rules.Finished, "no effect"
		return list, nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if result := register("/shop/CLAUDE.md", measuredFile, 0); len(result.Registered) != 0 || len(result.Skipped) != 1 || !strings.Contains(result.Skipped[0].Reason, "--picks") {
		t.Errorf("finished section registered again without --picks: got %+v, want the section skipped, and --picks in the reason", result)
	}
	if result := register("/shop/CLAUDE.md", measuredFile, 500); len(result.Registered) != 1 {
		t.Errorf("finished section registered again with --picks: got %+v, want one registered section", result)
	}
}

// propose removes a section if the whole interval of its effect is below the margin. It removes a section with a
// prohibition ("never") only if force is true.
func TestProposeRemovesSectionsBelowMargin(t *testing.T) {
	const text = "# Shop\n\n## Style\n\nUse tabs.\n\n## Keys\n\nNever print a key.\n\n## Tests\n\nRun the tests.\n"
	var rep report.Report
	for section, hi := range map[string]float64{"## Style\n\nUse tabs.": .03, "## Keys\n\nNever print a key.": .01, "## Tests\n\nRun the tests.": .2} {
		r := rules.RegisteredSection{File: "CLAUDE.md", Section: strings.Fields(section)[1], Hash: rules.Hash(section)}
		rep.Lessons = append(rep.Lessons, report.Row{Arm: string(r.Arm()), Effect: new(0.0), Lo: new(-.04), Hi: &hi, NInjected: 700, NWithheld: 710})
	}
	for _, tc := range []struct {
		margin  float64
		force   bool
		removed string
	}{{.05, false, "Style"}, {.05, true, "Style Keys"}, {.02, false, ""}, {.02, true, "Keys"}, {.3, false, "Style Tests"}} {
		var out strings.Builder
		p := propose("CLAUDE.md", text, decideRemovals("CLAUDE.md", text, &rep, tc.margin, tc.force))
		if err := p.print(&out); err != nil {
			t.Fatal(err)
		}
		if want := len(strings.Fields(tc.removed)); len(p.Removed) != want || len(p.Removed)+len(p.Kept) != 3 || (p.Diff == "") != (want == 0) {
			t.Errorf("margin %.2f, force %t: got proposal %+v, want %d of 3 sections removed, and a diff if a section is removed", tc.margin, tc.force, p, want)
		}
		for _, name := range []string{"Style", "Keys", "Tests"} {
			removed := strings.Contains(tc.removed, name)
			if strings.Contains(out.String(), "# removed: "+name+": non-inferior") != removed || strings.Contains(out.String(), "-## "+name+"\n") != removed {
				t.Errorf("margin %.2f, force %t: got proposal\n%s\nwant a proposal that removes exactly the sections %q", tc.margin, tc.force, out.String(), tc.removed)
			}
		}
		if tc.removed != "" && !strings.Contains(out.String(), "95% interval -4.0 to") {
			t.Errorf("margin %.2f, force %t: got proposal\n%s\nwant a proposal that contains \"95%% interval -4.0 to\"", tc.margin, tc.force, out.String())
		}
	}
}

func TestDemoResultOmitsExplanationOfRule(t *testing.T) {
	row := report.Row{Verdict: report.Unproven, Effect: new(0.0), Lo: new(-0.02), Hi: new(0.02)}
	rule, _ := removalRule(&row, 0.05)
	if got := resultText(&row, rule); got != "removed: non-inferior" {
		t.Errorf("resultText(%q) = %q, want \"removed: non-inferior\"", rule, got)
	}
}

// The measurement must begin at Redis' time, although the clock of the machine that registers it is two hours ahead.
func TestMeasurementInRedisBeginsAtRedisTime(t *testing.T) {
	tools := &server.Tools{Now: time.Now}
	storage, closeStorage, err := tools.OpenRegistry(&configs.Config{Lessons: storetest.StartRedis(t).URL()})
	if err != nil {
		t.Fatal(err)
	}
	defer closeStorage()
	f := measureFlags{sections: []string{"Style"}, share: 0.5}
	answer, err := f.register(t.Context(), storage, 3 /* measurements at once */, "/shop/CLAUDE.md", measuredFile, time.Now().Add(2*time.Hour))
	if err != nil || len(answer.Registered) != 1 {
		t.Fatalf("register = %+v, %v, want one registered section", answer, err)
	}
	if start := answer.Registered[0].Began; time.Until(start).Abs() > time.Minute {
		t.Errorf("start of the measurement: got %v, want Redis' time, %v, give or take a minute", start, time.Now())
	}
}
