package admin

import (
	"html"
	"regexp"
	"slices"
	"strings"
	"testing"

	"precept/bandit/report"
)

func TestOverviewShowsLessonsWithEffectsAndAdvice(t *testing.T) {
	f := newFixture(t, nil)
	page := html.UnescapeString(body(t, f.do(t, "GET", "/", bearer(token))))
	for _, want := range []string{
		"<caption>", `href="/lessons/helpful">helpful<`, `scope="col"`, "+6.2", "+3.1 to +9.3", "−4.0", "proven helps", "needs 40 more picks",
		"not enough data", "Pause the lesson and read the text", "all lessons together", `<a href="/sessions?arm=control&min_reward=0" aria-label="control, 50 sessions">50</a> control`, `aria-label="effect +6.2 points, from +3.1 to +9.3"`, "Reward: user, verifier, implicit.",
	} {
		if !strings.Contains(page, want) {
			t.Errorf("the overview lacks %q", want)
		}
	}
	if strings.Contains(page, `popovertarget="def-truth"`) {
		t.Error("overview outside the demo: got a true effect, want none")
	}
	if strings.Index(page, ">helpful<") > strings.Index(page, ">harmful<") {
		t.Errorf(`rows of the overview: Index(page, ">helpful<") = %d, want at most %d`, strings.Index(page, ">helpful<"), strings.Index(page, ">harmful<"))
	}
	if strings.Index(page, ">harmful<") > strings.Index(page, ">no-data-yet<") {
		t.Errorf(`rows of the overview: Index(page, ">harmful<") = %d, want at most %d`, strings.Index(page, ">harmful<"), strings.Index(page, ">no-data-yet<"))
	}
	for _, forbidden := range []string{" style=", " onclick", "<style", "javascript:", "http://", "https://"} {
		if strings.Contains(page, forbidden) {
			t.Errorf("overview: got %q on the page, want no inline script, no inline style and no absolute address", forbidden)
		}
	}
}

func TestDemoOverviewShowsTrueEffects(t *testing.T) {
	f := newFixture(t, func(o *Options) {
		o.TrueEffect = func(slug string) (float64, bool) { return 0.05, slug == "helpful" }
	})
	page := html.UnescapeString(body(t, f.do(t, "GET", "/", bearer(token))))
	if !strings.Contains(page, `popovertarget="def-truth"`) {
		t.Errorf(`overview of the demo = %q, want substring "popovertarget=\"def-truth\""`, page)
	}
	if !strings.Contains(page, `>+5.0</td>`) {
		t.Errorf(`overview of the demo = %q, want substring ">+5.0</td>"`, page)
	}
	if strings.Count(page, `class="truth"`) != 1 {
		t.Errorf("overview of the demo: count of `class=\"truth\"` = %d, want 1", strings.Count(page, `class="truth"`))
	}
}

func TestOverviewNamesEarlierRewardDefinition(t *testing.T) {
	f := newFixture(t, nil)
	f.reports.report.OtherDefinitions = []report.DefinitionCount{{RewardDefinition: "user>verifier@1h0m0s", Sessions: 1204}}
	const want = `<p class="warning">Not included: 1,204 sessions that closed with another reward definition: user feedback, else verifier results; a session closes 1h after the first request.</p>`
	if page := html.UnescapeString(body(t, f.do(t, "GET", "/", bearer(token)))); !strings.Contains(page, want) {
		t.Errorf("the overview lacks %q", want)
	}
	f.reports.report = report.Report{OtherDefinitions: f.reports.report.OtherDefinitions}
	if page := html.UnescapeString(body(t, f.do(t, "GET", "/", bearer(token)))); !strings.Contains(page, want) {
		t.Errorf("overview without counts: got no text %q, want this text", want)
	}
}

func TestOverviewWarnsAboutBrokenExperiment(t *testing.T) {
	f := newFixture(t, nil)
	f.reports.report.SRM.OK, f.reports.report.SRM.EValue, f.reports.report.Reporting.OK = false, 1e6, false
	page := html.UnescapeString(body(t, f.do(t, "GET", "/", bearer(token))))
	if strings.Count(page, `role="alert"`) != 2 {
		t.Errorf("overview of a broken experiment: count of `role=\"alert\"` = %d, want 2", strings.Count(page, `role="alert"`))
	}
	if !strings.Contains(page, "1e+06") {
		t.Errorf(`overview of a broken experiment = %q, want substring "1e+06"`, page)
	}
}

func TestOverviewWithoutDataExplainsTheFirstSteps(t *testing.T) {
	f := newFixture(t, nil)
	f.reports.report = report.Report{}
	if page := body(t, f.do(t, "GET", "/", bearer(token))); !strings.Contains(page, "The base URL for agents is") {
		t.Errorf(`overview without data = %q, want substring "The base URL for agents is"`, page)
	} else if strings.Count(page, "<ol><li>") != 1 {
		t.Errorf(`overview without data: count of "<ol><li>" = %d, want 1`, strings.Count(page, "<ol><li>"))
	}
}

func TestOverviewAndReportEscapeHostileText(t *testing.T) {
	hostileTexts := []string{`<img src=x onerror=alert(1)>`, `');alert(1)//`, `"><script>alert(1)</script>`, `javascript:alert(1)`, `{{.}}`, `</svg><script>`}
	tag := regexp.MustCompile(`<(img|script)[^>]*>`)
	dashboardTags := []string{`<img src="/static/icon.svg" alt="" width="22" height="22">`, `<script src="/static/theme.js">`}
	for _, name := range []string{"page", "uplot", "chart"} {
		dashboardTags = append(dashboardTags, `<script src="/static/`+name+`.js" defer>`)
	}
	for _, text := range hostileTexts {
		f := newFixture(t, nil)
		f.reports.report.RewardDefinition = text
		f.reports.report.Lessons[0].Slug = text
		f.reports.report.Lessons[1].Verdict = report.Verdict(text)
		page := body(t, f.do(t, "GET", "/?tenant="+strings.NewReplacer("<", "%3C", ">", "%3E", `"`, "%22", " ", "+", ";", "%3B", "{", "%7B", "}", "%7D").Replace(text), bearer(token)))
		for _, found := range tag.FindAllString(page, -1) {
			if !slices.Contains(dashboardTags, found) {
				t.Errorf("overview with the text %s in the data: got tag %s, want only tags of the dashboard", text, found)
			}
		}
		if strings.Contains(text, "'") && strings.Contains(page, text) {
			t.Errorf("overview with the text %s in the data: got an unescaped quote, want it escaped", text)
		}
		if json := body(t, f.do(t, "GET", "/api/report", bearer(token))); strings.Contains(json, "<") {
			t.Errorf("/api/report with the text %s in the data: got an unescaped < in the JSON, want it escaped", text)
		}
	}
}

func TestProvenVerdictWithZeroInIntervalShowsReason(t *testing.T) {
	f := newFixture(t, nil)
	f.reports.report.Lessons[2].Lo = new(-0.015) // the lesson helpful, which an earlier evaluation has proven
	for path, want := range map[string]string{"/": "The interval contains 0: the proof comes from a more sensitive test", "/lessons": "The interval contains 0: the proof comes from a more sensitive test"} {
		if page := body(t, f.do(t, "GET", path, bearer(token))); strings.Count(page, want) != 1 {
			t.Errorf("%s: got %d occurrences of %q, want one", path, strings.Count(page, want), want)
		}
	}
}

// If a lesson lowers the reward when it is shown as advice, precept shows it as a caution. The caution has a separate
// arm and a separate row in the report.
func TestCautionIsShownWithBothArms(t *testing.T) {
	f, _, _ := newLessonFixture(t, nil)
	rows := f.reports.report.Lessons
	rows[2].Arm, rows[2].Caution = "helpful@1.caution", true
	rows[3] = report.Row{
		Slug: "helpful", Arm: "helpful@1", State: "shown otherwise", NInjected: 310, NWithheld: 90, MeanInjected: new(0.412), MeanWithheld: new(0.55),
	}
	for path, want := range map[string]string{
		"/":                        "Poor results turned a lesson into a caution",
		"/lessons?verdict=caution": "became a caution",
		"/lessons/helpful":         "as advice, 310 sessions with the lesson had a mean reward of 0.412, and 90 sessions without had 0.550.",
	} {
		if page := body(t, f.do(t, "GET", path, bearer(token))); !strings.Contains(page, want) {
			t.Errorf("%s lacks %q", path, want)
		}
	}
	rows[2].Caution = false
	if page := body(t, f.do(t, "GET", "/", bearer(token))); strings.Contains(page, "into a caution") {
		t.Error("overview without a caution: got a note that a lesson became a caution, want none")
	}
}
