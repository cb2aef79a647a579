//go:build !race

package admin

import (
	"crypto/rand"
	"encoding/json"
	"fmt"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/chromedp"

	"precept/bandit/report"
	"precept/inject/rules"
	"precept/internal/sample"
	sessionpkg "precept/internal/session"
)

// axeScript returns the source of axe-core, a library that checks the accessibility of pages. If axe-core is not
// installed, axeScript fails the test in CI, and skips it elsewhere.
func axeScript(t *testing.T) string {
	t.Helper()
	b, err := os.ReadFile(filepath.Join("..", ".cache", "node", "node_modules", "axe-core", "axe.min.js"))
	if err != nil {
		if os.Getenv("CI") == "" {
			t.Skip("axe-core is not installed; run make e2e-deps")
		}
		t.Fatalf("reading axe-core: %v; run make e2e-deps", err)
	}
	return string(b)
}

// startServerWithContent starts a dashboard that has data for every page, and returns the paths of the pages.
func startServerWithContent(t *testing.T) (server *httptest.Server, pages []string) {
	t.Helper()
	sessions := newSessionStore(t, time.Now())
	id := sessions.addSessionWithMarkup(t)
	for i := range 12 {
		s := sessions.addSession(t, fmt.Sprint("nightly-build-", i), 1+i%4, func(r *sessionpkg.Record, _ []sample.Exchange) {
			r.Identity.Agent = ifElse(i%2 == 0, "reviewer-of-the-nightly-build", "coder")
		})
		if i%3 == 0 {
			sessions.closeRewarded(t, s, float64(i%5)/4, "")
		}
	}
	f, lib, lessonService := newLessonFixture(t, nil)
	row := &f.reports.report.Lessons[2]
	row.Outcomes = []report.Outcome{{Name: "recurrence", Unit: "points", Verdict: report.Prevents, Effect: new(-0.456), Lo: new(-0.577), Hi: new(-0.339)}}
	row.Models.Effects = []report.ModelEffect{{Model: "gpt-test-of-the-nightly-build", Picks: 120, Effect: new(0.1), Lo: new(-0.1), Hi: new(0.3), Shrunken: new(0.08)}}
	dashboard := newStoreFixture(t, sessions, func(o *Options) {
		o.Now, o.Read.Library, o.Read.Survey, o.Write.Lessons, o.Read.Report = time.Now, lib, lib, lessonService, f.reports
		o.Read.Rules = &fakeRules{[]rules.RegisteredSection{{File: "CLAUDE.md", Section: "Voice", Hash: rules.Hash("## Voice\n\nBe brief."), State: rules.Measuring}}}
		o.TrueEffect = func(slug string) (float64, bool) { return 0.05, slug == "helpful" }
	})
	dashboard.reports = f.reports
	nameView := func(v *View) error { v.Name, v.Query = "bad sessions", "verdict=poor"; return nil }
	if _, err := dashboard.views.change(t.Context(), "default", "", rand.Reader, nameView); err != nil {
		t.Fatal(err)
	}
	server = httptest.NewServer(dashboard)
	t.Cleanup(server.Close)
	return server, []string{
		"/", "/lessons", "/lessons/helpful", "/lessons/waiting", "/breakdown", "/queue", "/queue?backtest=newer", "/sessions", "/sessions?words=nothing-like-it",
		"/sessions/" + id.String(), "/traffic", "/compare", "/runs/nightly-build-1", "/views", "/rules", "/samples", "/health", "/lessons/nobody", "/help", "/help/DASHBOARD",
	}
}

// findings returns the findings of axe-core on the open page that are serious or critical.
func (tb *tab) findings(t *testing.T, script, rules string) (out []string) {
	t.Helper()
	tb.eval(t, "(() => {"+script+"; return 0})()")
	tb.eval(t, `(() => { delete window.found; axe.run(`+rules+`).then(r => window.found = JSON.stringify(r.violations.filter(v => v.impact === "serious" || v.impact === "critical")
		.map(v => v.id + ": " + v.nodes.slice(0, 4).map(n => n.html.slice(0, 160) + " " + n.any.concat(n.all).map(c => c.message).join("; ").slice(0, 200)).join(" | "))),
		e => window.found = JSON.stringify(["axe failed: " + e])); return 0 })()`)
	if _, err := chromedp.Run(tb.ctx, chromedp.Poll[bool](`window.found !== undefined`, chromedp.WithPollingTimeout(0))); err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal([]byte(tb.eval(t, "window.found")), &out); err != nil {
		t.Fatal(err)
	}
	return out
}

func TestBrowserPagesHaveNoSeriousAxeViolations(t *testing.T) {
	script := axeScript(t)
	tb := newTab(t)
	server, pages := startServerWithContent(t)
	tb.do(t, chromedp.Navigate(server.URL+"/login"), chromedp.WaitVisible(chromedp.CSS("#token")))
	if got := tb.findings(t, script, ""); len(got) > 0 {
		t.Errorf("/login: got serious axe-core findings %s, want none", strings.Join(got, "\n"))
	}
	tb.do(t, chromedp.Navigate(LoginLink(server.URL, token)), chromedp.WaitVisible(chromedp.CSS("main")))
	for _, display := range []struct {
		theme, rules string // rules are options of axe-core; for the dark theme, they select only the contrast
		width        int64
	}{{"light", "", 1280}, {"dark", `{runOnly: ["color-contrast"]}`, 1280}, {"light", `{runOnly: ["wcag2a", "wcag2aa"]}`, 360}} {
		if _, err := chromedp.Call(tb.ctx, emulation.SetDeviceMetricsOverride, emulation.SetDeviceMetricsOverrideParams{Width: display.width, Height: 900, DeviceScaleFactor: 1}); err != nil {
			t.Fatal(err)
		}
		media := emulation.SetEmulatedMediaParams{Features: []*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: display.theme}}}
		if _, err := chromedp.Call(tb.ctx, emulation.SetEmulatedMedia, media); err != nil {
			t.Fatal(err)
		}
		for _, path := range pages {
			tb.do(t, chromedp.Navigate(server.URL+path), chromedp.WaitVisible(chromedp.CSS("main")))
			if got := tb.findings(t, script, display.rules); len(got) > 0 {
				t.Errorf("%s, theme %s at %d px: got serious axe-core findings %s, want none", path, display.theme, display.width, strings.Join(got, "\n"))
			}
		}
	}
}

// On narrow screens, the name of a session takes up most of its row in the list. Tables in the help may be wider than
// the screen, because they scroll inside a box.
func TestBrowserPagesShowAllColumns(t *testing.T) {
	tb := newTab(t)
	server, pages := startServerWithContent(t)
	tb.do(t, chromedp.Navigate(LoginLink(server.URL, token)), chromedp.WaitVisible(chromedp.CSS("main")))
	for _, width := range []int64{380, 768, 1000, 1280} {
		size := emulation.SetDeviceMetricsOverrideParams{Width: width, Height: 900, DeviceScaleFactor: 1}
		if _, err := chromedp.Call(tb.ctx, emulation.SetDeviceMetricsOverride, size); err != nil {
			t.Fatal(err)
		}
		for _, path := range pages {
			tb.do(t, chromedp.Navigate(server.URL+path), chromedp.WaitVisible(chromedp.CSS("main")))
			for expression, want := range map[string]string{
				`document.documentElement.scrollWidth`: fmt.Sprint(width),
				`[...document.querySelectorAll(".scroll")].filter(e => !e.closest(".doc") && e.scrollWidth > e.clientWidth).map(e => e.getAttribute("aria-label") || e.getAttribute("aria-labelledby")).join()`: "",
				`[...document.querySelectorAll(".cards.list th.name")].every(e => innerWidth > 960 || e.clientWidth > .8 * e.parentElement.clientWidth)`:                                                        "true",
			} {
				if got := tb.eval(t, expression); got != want {
					t.Errorf("%s at %d px: %s is %q, want %q", path, width, expression, got, want)
				}
			}
		}
	}
}

// The first press of the Tab key focuses the link to the content, and Enter then focuses the content.
func TestBrowserTabStopsAreVisible(t *testing.T) {
	tb := newTab(t)
	server, pages := startServerWithContent(t)
	tb.do(t, chromedp.Navigate(LoginLink(server.URL, token)), chromedp.WaitVisible(chromedp.CSS("main")))
	for _, path := range pages {
		tb.do(t, chromedp.Navigate(server.URL+path), chromedp.WaitVisible(chromedp.CSS("main")))
		tb.eval(t, `(() => { document.activeElement.blur(); getSelection().removeAllRanges(); return 0 })()`)
		if strings.HasPrefix(path, "/queue") {
			continue // the script of the queue page focuses the first candidate
		}
		tb.keys(t, "\t")
		if got := tb.eval(t, `document.activeElement.className + " " + (document.activeElement.getBoundingClientRect().left >= 0)`); got != "skip true" {
			t.Errorf("%s, first tab stop: got class and visibility %q, want \"skip true\"", path, got)
		}
		for i := range 25 {
			tb.keys(t, "\t")
			got := tb.eval(t, `(() => { const e = document.activeElement, r = e.getBoundingClientRect(), s = getComputedStyle(e);
				if (e === document.body) return "end";
				const seen = r.width > 0 && r.height > 0 && s.visibility === "visible", ring = s.outlineStyle !== "none" && parseFloat(s.outlineWidth) >= 2;
				return seen && ring ? "" : e.outerHTML.slice(0, 120) + (seen ? " has no ring" : " cannot be seen") })()`)
			if got == "end" {
				break
			}
			if got != "" {
				t.Errorf("%s, tab stop %d: got %s, want a visible element with a focus ring", path, i+2, got)
			}
		}
	}
	tb.do(t, chromedp.Navigate(server.URL+"/lessons"), chromedp.WaitVisible(chromedp.CSS("main")))
	tb.keys(t, "\t")
	tb.keys(t, "\r")
	if got := tb.eval(t, `document.activeElement.id`); got != "main" {
		t.Errorf("focus after the link to the content: got %q, want \"main\"", got)
	}
}

func TestBrowserPrintShowsOnlyTheContent(t *testing.T) {
	tb := newTab(t)
	server, pages := startServerWithContent(t)
	tb.do(t, chromedp.Navigate(LoginLink(server.URL, token)), chromedp.WaitVisible(chromedp.CSS("main")))
	dark := emulation.SetEmulatedMediaParams{Media: "print", Features: []*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: "dark"}}}
	if _, err := chromedp.Call(tb.ctx, emulation.SetEmulatedMedia, dark); err != nil {
		t.Fatal(err)
	}
	if _, err := chromedp.Call(tb.ctx, emulation.SetDeviceMetricsOverride, emulation.SetDeviceMetricsOverrideParams{Width: 720, Height: 1000, DeviceScaleFactor: 1}); err != nil {
		t.Fatal(err)
	}
	for _, path := range pages {
		tb.do(t, chromedp.Navigate(server.URL+path), chromedp.WaitReady(chromedp.CSS("main")))
		for expression, want := range map[string]string{
			`getComputedStyle(document.body).backgroundColor`: "rgb(255, 255, 255)",
			`[...document.querySelectorAll("nav, form, .tools, .skip")].filter(e => e.getClientRects().length).map(e => e.className).join()`: "",
			`[...document.querySelectorAll(".scroll")].filter(e => getComputedStyle(e).overflowX !== "visible").length`:                      "0",
			`document.documentElement.scrollWidth <= innerWidth`:                                                                             "true",
		} {
			if got := tb.eval(t, expression); got != want {
				t.Errorf("%s, value of %s: got %q, want %q", path, expression, got, want)
			}
		}
	}
}

func TestBrowserLongCodeFitsAPhone(t *testing.T) {
	tb := newTab(t)
	f := newFixture(t, func(o *Options) { o.Now = time.Now })
	f.reports.report = report.Report{}
	server := httptest.NewServer(f)
	t.Cleanup(server.Close)
	size := emulation.SetDeviceMetricsOverrideParams{Width: 380, Height: 900, DeviceScaleFactor: 1}
	if _, err := chromedp.Call(tb.ctx, emulation.SetDeviceMetricsOverride, size); err != nil {
		t.Fatal(err)
	}
	tb.do(t, chromedp.Navigate(LoginLink(server.URL, token)), chromedp.WaitVisible(chromedp.CSS("main")))
	for _, path := range []string{"/", "/help/SAMPLES"} {
		tb.do(t, chromedp.Navigate(server.URL+path), chromedp.WaitVisible(chromedp.CSS("main")))
		if got := tb.eval(t, `document.documentElement.scrollWidth`); got != "380" {
			t.Errorf("%s: got a page %s px wide, want 380 px", path, got)
		}
	}
}
