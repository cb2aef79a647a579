package admin

import (
	"context"
	"strings"
	"testing"
	"time"

	"precept/bandit/report"
	"precept/inject/rules"
	"precept/internal/price"
	"precept/internal/wire"
)

type fakeRules struct{ sections []rules.RegisteredSection }

func (r *fakeRules) Rules() *rules.Registry { return &rules.Registry{Sections: r.sections} }

const rulesText = "# Shop\n\n## Voice\n\nBe brief.\n\n## Tests\n\nRun the tests.\n\n## Secrets\n\nNever print a key.\n\n## Same\n\nTwice.\n\n## Same\n\nTwice.\n"

func (r *fakeRules) ScanRules(context.Context, string) (*rules.Scan, error) {
	var scan rules.Scan
	scan.Add([]wire.Passage{{Text: "Contents of /home/ada/CLAUDE.md (project instructions):\n\n" + rulesText}}, 2 /* requests */, 400 /* input tokens */)
	return &scan, nil
}

// newRulesFixture returns a fixture with an agent that sends the rules file rulesText. The section Voice has a verdict.
// The section Gone is registered, but is no longer in the file.
func newRulesFixture(t *testing.T) *fixture {
	t.Helper()
	voice := rules.RegisteredSection{File: "CLAUDE.md", Section: "Voice", Hash: rules.Hash("## Voice\n\nBe brief."), State: rules.Finished, Verdict: "no material effect"}
	gone := rules.RegisteredSection{File: "CLAUDE.md", Section: "Gone", Hash: rules.Hash("x"), Text: "x", State: rules.Measuring}
	reports := &fakeReports{}
	reports.report.Lessons = []report.Row{{
		Slug: voice.Slug(), Arm: string(voice.Arm()), State: "finished", Effect: new(.01), Lo: new(-.02), Hi: new(.03), NInjected: 51, NWithheld: 49, Verdict: report.NoEffect,
		InputWith: new(4000.0), InputWithout: new(3000.0), CachedWith: new(.5), CachedChange: new(.25), Models: report.Models{Effects: []report.ModelEffect{{Model: "m", Picks: 100}}},
	}}
	o := newOptions(reports, time.Now)
	o.Access.Viewers = []string{"viewer-token-of-the-rules-test"}
	o.Program.Prices = func() Prices { return Prices{Models: price.Flat(3, 1), Currency: "USD"} }
	o.Read.Rules = &fakeRules{[]rules.RegisteredSection{voice, gone}}
	s, err := New(o)
	if err != nil {
		t.Fatal(err)
	}
	return &fixture{Server: s}
}

func TestRulesPageShowsSectionStateAndEffect(t *testing.T) {
	f := newRulesFixture(t)
	page := body(t, f.do(t, "GET", "/rules", bearer(token)))
	for _, want := range []string{
		"/home/ada/CLAUDE.md", `<tr id="claude.md-voice">`, "finished: no material effect", "51 sessions with the section, 49 without",
		"with the section: 4,000 input tokens a session, 50% cached, 0.0080\u00a0USD; without: 3,000 input tokens a session, 25% cached, 0.0075\u00a0USD",
		"the measurement saves about 0.0245\u00a0USD in 49 rewarded sessions",
		"forbids something (secrets): `precept rules measure` needs --force", "not measurable", "occurs twice", "Other registered sections", `<tr id="claude.md-gone">`,
	} {
		if !strings.Contains(page, want) {
			t.Errorf("the rules page lacks %q", want)
		}
	}
}

func TestRulesPageShowsViewersOnlyRegisteredSections(t *testing.T) {
	f := newRulesFixture(t)
	page := body(t, f.do(t, "GET", "/rules", bearer("viewer-token-of-the-rules-test")))
	if !strings.Contains(page, "CLAUDE.md: Voice") {
		t.Errorf(`rules page for a viewer = %q, want substring "CLAUDE.md: Voice"`, page)
	}
	if strings.Contains(page, "Secrets") {
		t.Errorf(`rules page for a viewer = %q, want no "Secrets"`, page)
	}
	if strings.Contains(page, "/home/ada") {
		t.Errorf(`rules page for a viewer = %q, want no "/home/ada"`, page)
	}
}

func TestLessonsTableLinksSectionsToRulesPage(t *testing.T) {
	f := newRulesFixture(t)
	page := body(t, f.do(t, "GET", "/lessons", bearer(token)))
	if !strings.Contains(page, `href="/rules#claude.md-voice"`) {
		t.Errorf(`row of the section on the lessons page = %q, want substring "href=\"/rules#claude.md-voice\""`, page)
	}
	if strings.Contains(page, "/lessons/rule") {
		t.Errorf(`row of the section on the lessons page = %q, want no "/lessons/rule"`, page)
	}
}
