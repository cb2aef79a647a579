package admin

import (
	"fmt"
	"html"
	"net/http/httptest"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/chromedp"

	"precept/bandit/report"
)

// sampleReportWith returns the sample report with n more lessons. Their effects are from −10 to +10 points, and they
// have five different verdicts.
func sampleReportWith(n int) report.Report {
	r := sampleReport()
	verdicts := []report.Verdict{report.ProvenHelps, report.Unproven, report.ProvenHarms, report.NoEffect, report.Benched}
	for i := range n {
		e := float64(i%41-20) / 200
		l := report.Row{
			Slug: fmt.Sprintf("a-lesson-with-a-name-of-some-length-%04d", i), Arm: fmt.Sprintf("a@%d", i), State: "active", Verdict: verdicts[i%5], NInjected: int64(100 + i), NWithheld: 50, Rewarded: int64(150 + i),
			Effect: new(e), Lo: new(e - 0.04), Hi: new(e + 0.04), Tokens: 40,
		}
		if l.Verdict == report.Unproven {
			l.NeedsPicks = int64(i)
		}
		for d := range 60 {
			l.Days = append(l.Days, report.Band{Date: fmt.Sprintf("2026-03-%02d", d%30+1), Effect: e + 1/float64(d+5), Lo: e - 0.1, Hi: e + 0.1})
		}
		r.Lessons = append(r.Lessons, l)
	}
	return r
}

var slugLink = regexp.MustCompile(`href="/lessons/([^"?]+)`)

// listedSlugs returns the slugs of the lessons to which a page links, in the order of the page.
func listedSlugs(page string) (out []string) {
	for _, m := range slugLink.FindAllStringSubmatch(page, -1) {
		out = append(out, m[1])
	}
	return out
}

func TestLessonsPageIsPagedSortedAndFiltered(t *testing.T) {
	f := newFixture(t, nil)
	f.reports.report = sampleReportWith(2000)
	f.reports.report.Lessons[7].State = "edited" // this lesson, 0004, is hidden by default
	get := func(query string) string {
		t.Helper()
		res := f.do(t, "GET", "/lessons"+query, bearer(token))
		if res.StatusCode != 200 {
			t.Fatalf("%s: got status %d, want 200", query, res.StatusCode)
		}
		return html.UnescapeString(body(t, res))
	}
	first := get("")
	if got := listedSlugs(first); len(got) != rowsPerPage {
		t.Errorf("first page = %q, want %d items", got, rowsPerPage)
	} else if !strings.Contains(first, "1 to 100 of 2,002") {
		t.Errorf(`first page = %q, want substring "1 to 100 of 2,002"`, first)
	}
	if !f.reports.lastQuery.Bands {
		t.Error("report query of the page: got a query without daily intervals, want them for the sparklines")
	}
	if len(first) > 600_000 {
		t.Errorf("first page: got %d bytes, want at most 600,000", len(first))
	}
	for query, want := range map[string]string{
		"?sort=name":                             "a-lesson-with-a-name-of-some-length-0000",
		"?sort=-name":                            "no-data-yet",
		"?sort=-rewarded":                        "a-lesson-with-a-name-of-some-length-1999",
		"?sort=-needs":                           "a-lesson-with-a-name-of-some-length-1996",
		"?q=0042+LESSON":                         "a-lesson-with-a-name-of-some-length-0042",
		"?sort=name&page=2":                      "a-lesson-with-a-name-of-some-length-0101",
		"?sort=name&page=9999":                   "helpful",
		"?verdict=harms&sort=name":               "a-lesson-with-a-name-of-some-length-0002",
		"?state=edited&old=1":                    "a-lesson-with-a-name-of-some-length-0004",
		"?sort=effect":                           "a-lesson-with-a-name-of-some-length-1968",
		"?sort=nonsense&page=x&zoom=<b>&state=":  "a-lesson-with-a-name-of-some-length-1967",
		"?sort=name&verdict=open&q=length-000&x": "a-lesson-with-a-name-of-some-length-0001",
	} {
		page := get(strings.ReplaceAll(query, "<b>", "%3Cb%3E"))
		if got := listedSlugs(page); len(got) == 0 {
			t.Errorf("%s: got none", query)
		} else if got[0] != want {
			t.Errorf("%s: [0] = %q, want %q", query, got[0], want)
		}
	}
	if page := get("?sort=name&page=9999"); !strings.Contains(page, "2,001 to 2,002 of 2,002") {
		t.Error("page number above the last: got a page without \"2,001 to 2,002 of 2,002\", want the last page")
	}
	if page := get("?q=nobody"); !strings.Contains(page, "No lesson matches the filter") {
		t.Error("page without a matching lesson: got no text \"No lesson matches the filter\", want this text")
	}
	f.reports.report = report.Report{}
	if page := get(""); !strings.Contains(page, "precept lessons new") {
		t.Error("page without lessons: got no text \"precept lessons new\", want this text")
	}
}

// On a screen 360 px wide, the table may scroll to the side, but the page as a whole may not.
func TestBrowserLessonsTableFitsTheScreen(t *testing.T) {
	tb := newTab(t)
	f := newFixture(t, func(o *Options) { o.Now = time.Now })
	f.reports.report = sampleReportWith(300)
	server := httptest.NewServer(f)
	t.Cleanup(server.Close)
	tb.do(t, chromedp.Navigate(LoginLink(server.URL, token)), chromedp.WaitVisible(chromedp.CSS("table")))
	for _, width := range []int{360, 1280, 2560} {
		size := emulation.SetDeviceMetricsOverrideParams{Width: int64(width), Height: 800, DeviceScaleFactor: 1}
		if _, err := chromedp.Call(tb.ctx, emulation.SetDeviceMetricsOverride, size); err != nil {
			t.Fatal(err)
		}
		tb.do(t, chromedp.Navigate(server.URL+"/lessons"), chromedp.WaitVisible(chromedp.CSS("table")))
		if got := tb.eval(t, "document.documentElement.scrollWidth"); got != fmt.Sprint(width) {
			t.Errorf("screen width %d px: got a page %s px wide, want the width of the screen", width, got)
		}
		if got := tb.eval(t, `(e => e.scrollWidth - e.clientWidth)(document.querySelector(".scroll"))`); width >= 1280 && got != "0" {
			t.Errorf("screen width %d px: got %s px of the table outside the screen, want 0 px", width, got)
		}
	}
	tb.do(t, chromedp.Click(chromedp.CSS(`th a.sort[aria-label^="Sort by rewarded"]`)), chromedp.WaitVisible(chromedp.CSS("table")))
	if got := tb.eval(t, `new URL(location.href).searchParams.get("sort") + " " + document.querySelector("tbody th a").textContent.slice(-4)`); got != "-rewarded 0299" {
		t.Errorf("sort key and end of the first name after a click on the heading Rewarded: got %q, want \"-rewarded 0299\"", got)
	}
	tb.do(t, chromedp.Click(chromedp.CSS(`thead button.term`)))
	if got := tb.eval(t, `document.querySelector(":popover-open").textContent.includes("Verdict")`); got != "true" {
		t.Error("click on the term button of the verdict: got no open definition, want one")
	}
	if got := tb.reportedErrors(); len(got) > 0 {
		t.Errorf("browser errors: got %q, want none", got)
	}
}

func TestLessonFiltersSelectVerdictAndState(t *testing.T) {
	f := newFixture(t, nil)
	f.reports.report.Lessons = nil
	for slug, row := range map[string]report.Row{
		"proved":   {State: "active", Verdict: report.ProvenHelps},
		"likely":   {State: "active", Verdict: report.LikelyHelps},
		"benched":  {State: "active", Verdict: report.Benched},
		"unproven": {State: "active", Verdict: report.Unproven},
		"flat":     {State: "active", Verdict: report.NoEffect},
		"resting":  {State: "paused", Verdict: report.Unproven},
		"waiting":  {State: "candidate", Verdict: report.Unproven},
		"tried":    {State: "trial", Trial: "ended", Verdict: report.Invalid},
		"trying":   {State: "trial", Trial: "running", Verdict: report.Harms},
	} {
		row.Slug, row.Arm = slug, slug
		f.reports.report.Lessons = append(f.reports.report.Lessons, row)
	}
	get := func(query string) string {
		return html.UnescapeString(body(t, f.do(t, "GET", "/lessons"+query, bearer(token))))
	}
	for query, want := range map[string]struct{ slugs, option string }{ // option is the selected option in the form
		"verdict=helps":              {"proved", "helps, also proven"},
		"verdict=likely+helps":       {"likely", "likely helps"},
		"verdict=benched":            {"benched", "benched"},
		"verdict=unproven":           {"unproven", "unproven"},
		"verdict=none":               {"flat", "no material effect"},
		"verdict=paused":             {"resting", "paused"},
		"verdict=waits":              {"waiting", "waits for approval"},
		"verdict=invalid":            {"tried", "invalid"},
		"state=trial%2C+ended":       {"tried", "trial, ended"},
		"state=trial":                {"trying", "trial"},
		"verdict=open&state=active":  {"benched likely unproven", "unproven, benched or likely"},
		"verdict=caution&state=none": {"", "became a caution"},
	} {
		page := get("?sort=name&" + query)
		if got := strings.Join(listedSlugs(page), " "); got != want.slugs {
			t.Errorf("%s: got lessons %q, want %q", query, got, want.slugs)
		}
		if !strings.Contains(page, "selected>"+want.option+"</option>") {
			t.Errorf("%s: got no selected option %q, want this option selected", query, want.option)
		}
	}
}
