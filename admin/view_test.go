package admin

import (
	"html"
	"math"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"precept/report"
)

func TestPage(t *testing.T) {
	f := newFixture(t, nil)
	page := html.UnescapeString(body(t, f.do(t, "GET", "/", bearer(token))))
	for _, want := range []string{
		"<caption>", `scope="row">helpful<`, `scope="col"`, "+6.2", "+3.1 to +9.3", "−4.0", "proven helps", "needs 40 more picks",
		"not enough data", "all lessons together", "50 control", `aria-label="effect +6.2 points, from +3.1 to +9.3"`, "Reward: user, verifier, implicit.",
	} {
		if !strings.Contains(page, want) {
			t.Errorf("the page has no %q", want)
		}
	}
	if strings.Contains(page, "True effect") {
		t.Error("a true effect is shown where none is known")
	}
	if strings.Index(page, ">helpful<") > strings.Index(page, ">harmful<") || strings.Index(page, ">harmful<") > strings.Index(page, ">no-data-yet<") {
		t.Error("rows are not ordered by effect, unknown ones last")
	}
	for _, forbidden := range []string{" style=", " onclick", "<style", "javascript:", "http://", "https://"} {
		if strings.Contains(page, forbidden) {
			t.Errorf("the page holds %q, which its policy forbids or which is not offline", forbidden)
		}
	}
}

func TestPageOfADemo(t *testing.T) {
	f := newFixture(t, func(o *Options) {
		o.Truth = func(slug string) (float64, bool) { return 0.05, slug == "helpful" }
	})
	page := html.UnescapeString(body(t, f.do(t, "GET", "/", bearer(token))))
	if !strings.Contains(page, "True effect") || !strings.Contains(page, "<td>+5.0</td>") || strings.Count(page, `class="truth"`) != 1 {
		t.Error("the true effect of one lesson is not beside its estimate")
	}
}

// What was counted under another definition of reward is told of, also where nothing else is known yet.
func TestPageNotes(t *testing.T) {
	f := newFixture(t, nil)
	f.reports.report.Elsewhere = []report.Counted{{RewardDefinition: "user>verifier@1h0m0s", Sessions: 1204}}
	const want = `<p class="note">Not in these numbers: 1204 sessions that closed when the reward was user>verifier@1h0m0s.</p>`
	if page := html.UnescapeString(body(t, f.do(t, "GET", "/", bearer(token)))); !strings.Contains(page, want) {
		t.Error("the table leaves out what it does not say")
	}
	f.reports.report = report.Report{Elsewhere: f.reports.report.Elsewhere}
	if page := html.UnescapeString(body(t, f.do(t, "GET", "/", bearer(token)))); !strings.Contains(page, want) {
		t.Error("an empty page does not say where the numbers are")
	}
}

func TestPageWarnings(t *testing.T) {
	f := newFixture(t, nil)
	f.reports.report.SRM.OK, f.reports.report.SRM.EValue, f.reports.report.Reporting.OK = false, 1e6, false
	page := html.UnescapeString(body(t, f.do(t, "GET", "/", bearer(token))))
	if strings.Count(page, `role="alert"`) != 2 || !strings.Contains(page, "1e+06") {
		t.Error("a broken experiment must be told")
	}
}

func TestEmptyPages(t *testing.T) {
	f := newFixture(t, nil)
	f.reports.report = report.Report{}
	if page := body(t, f.do(t, "GET", "/", bearer(token))); !strings.Contains(page, "No lesson has matched yet") {
		t.Error("a newcomer is not told what to do")
	}
	f = newFixture(t, func(o *Options) { o.Report = nil })
	if page := body(t, f.do(t, "GET", "/", bearer(token))); !strings.Contains(page, "There is no report yet") {
		t.Error("no report")
	}
	if res := f.do(t, "GET", "/api/report", bearer(token)); res.StatusCode != 503 {
		t.Errorf("/api/report without one: %d", res.StatusCode)
	}
}

// R105: what agents, clients and files wrote is text, wherever it is shown.
func TestEscaping(t *testing.T) {
	nasty := []string{`<img src=x onerror=alert(1)>`, `');alert(1)//`, `"><script>alert(1)</script>`, `javascript:alert(1)`, `{{.}}`, `</svg><script>`}
	tag := regexp.MustCompile(`<(img|script)[^>]*>`)
	for _, text := range nasty {
		f := newFixture(t, nil)
		f.reports.report.RewardDefinition = text
		f.reports.report.Lessons[0].Slug = text
		f.reports.report.Lessons[1].Verdict = report.Verdict(text)
		f.options.Figures = nil
		page := body(t, f.do(t, "GET", "/?tenant="+strings.NewReplacer("<", "%3C", ">", "%3E", `"`, "%22", " ", "+", ";", "%3B", "{", "%7B", "}", "%7D").Replace(text), bearer(token)))
		for _, found := range tag.FindAllString(page, -1) {
			if found != `<script src="/static/theme.js">` && found != `<script src="/static/page.js" defer>` && found != `<img src="/static/icon.svg" alt="" width="22" height="22">` {
				t.Errorf("%s: the page holds %s", text, found)
			}
		}
		if strings.Contains(text, "'") && strings.Contains(page, text) {
			t.Errorf("%s stands there with its quote", text)
		}
		if json := body(t, f.do(t, "GET", "/api/report", bearer(token))); strings.Contains(json, "<") {
			t.Errorf("%s: JSON holds a bare <", text)
		}
	}
}

// Whatever the numbers, the plot stays inside its picture.
func TestPlotStaysInside(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		r := report.Report{}
		for range rapid.IntRange(0, 4).Draw(t, "rows") {
			effect := rapid.Float64Range(-1, 1).Draw(t, "effect")
			half := rapid.Float64Range(0, 3).Draw(t, "half")
			r.Lessons = append(r.Lessons, report.Row{Effect: new(effect), Lo: new(effect - half), Hi: new(effect + half)})
		}
		a := scale(r, nil)
		if len(r.Lessons) > 0 && !strings.Contains(a.text(), "points") {
			t.Fatal(a.text())
		}
		for _, l := range r.Lessons {
			p := a.plot(l.Effect, l.Lo, l.Hi, new(rapid.Float64Range(-9, 9).Draw(t, "truth")))
			lo, at, hi := number(t, p.Lo), number(t, p.At), number(t, p.Hi)
			if lo > at || at > hi || lo < 0 || hi > plotWidth || number(t, p.Truth) < 0 || number(t, p.Truth) > plotWidth {
				t.Fatalf("%+v", p)
			}
		}
	})
}

func number(t *rapid.T, s string) float64 {
	x, err := strconv.ParseFloat(s, 64)
	if err != nil || math.IsNaN(x) {
		t.Fatalf("%q is no number", s)
	}
	return x
}

func TestScale(t *testing.T) {
	for reach, want := range map[float64]float64{0: 0.05, 0.05: 0.05, 0.06: 0.1, 0.15: 0.2, 0.4: 0.5, 0.7: 1, 2: 1} {
		r := report.Report{Lessons: []report.Row{{Lo: new(-reach), Hi: new(0.0)}}}
		if got := scale(r, nil); got.reach != want {
			t.Errorf("an interval down to %v: axis of %v, want %v", -reach, got.reach, want)
		}
	}
	if got := scale(report.Report{Lessons: []report.Row{{Slug: "a"}}}, func(string) (float64, bool) { return 0.3, true }); got.reach != 0.3 {
		t.Errorf("the true effect does not fit: %v", got)
	}
}
