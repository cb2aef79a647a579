package admin

import (
	"fmt"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/cdproto/emulation"
	shots "github.com/chromedp/cdproto/page"
	"github.com/chromedp/chromedp"
)

func TestBrowserUserSearchesRatesAndDeletesSession(t *testing.T) {
	tb, sessions := newTab(t), newSessionStore(t, time.Now())
	id := sessions.addSessionWithMarkup(t)
	for i := range 60 {
		sessions.addSession(t, fmt.Sprint("other-", i), 1+i%3, nil)
	}
	f := newStoreFixture(t, sessions, func(o *Options) { o.Now = time.Now })
	server := httptest.NewServer(f)
	t.Cleanup(server.Close)
	tb.do(t, chromedp.Navigate(LoginLink(server.URL, token)), chromedp.WaitVisible(chromedp.CSS("nav a[href^='/sessions']")),
		chromedp.Click(chromedp.CSS("nav a[href^='/sessions']")), chromedp.WaitVisible(chromedp.CSS("table.list")))
	if got := tb.eval(t, `document.querySelectorAll("table.list tbody tr").length`); got != "50" {
		t.Errorf("sessions on the first page: got %s, want \"50\"", got)
	}
	tb.do(t, chromedp.Click(chromedp.CSS("a[rel=next]")), chromedp.WaitVisible(chromedp.CSS(".pager a:not([rel])")))
	if got := tb.eval(t, `document.querySelectorAll("table.list tbody tr").length`); got != "11" {
		t.Errorf("sessions on the second page: got %s, want \"11\"", got)
	}
	tb.do(t, chromedp.SendKeys(chromedp.CSS("#words"), "flaky build"), chromedp.Click(chromedp.CSS(".filters button")), chromedp.WaitVisible(chromedp.CSS(".hit")))
	if got := tb.eval(t, `document.querySelectorAll("table.list tbody tr").length + " " + document.querySelector(".hit").textContent.slice(0, 35)`); got != "1 turn 1, user: Fix the flaky build. " {
		t.Errorf("search result: got %q, want \"1 turn 1, user: Fix the flaky build. \"", got)
	}
	tb.do(t, chromedp.Click(chromedp.CSS("table.list th a")), chromedp.WaitVisible(chromedp.CSS(".turn")))
	for expression, want := range map[string]string{
		`location.pathname`: "/sessions/" + id.String(),
		`[...document.querySelectorAll(".turn h3")].map(h => h.textContent).join()`:                      "Turn 1,Turn 2,Turn 3",
		`[...document.querySelectorAll(".turn:first-of-type .said")].map(e => e.classList[1]).join(" ")`: "system block ghost user assistant call",
		`document.querySelectorAll(".said.error").length`:                                                "3",
		`document.images.length`:           "1", // only the icon of the dashboard
		`document.title.includes("owned")`: "false",
		`getComputedStyle(document.querySelector(".said.ghost .slug")).textDecorationLine`:                                           "line-through",
		`getComputedStyle(document.querySelector(".said.block")).backgroundColor != getComputedStyle(document.body).backgroundColor`: "true",
		`document.documentElement.scrollWidth <= innerWidth`:                                                                         "true",
	} {
		if got := tb.eval(t, expression); got != want {
			t.Errorf("value of %s: got %q, want %q", expression, got, want)
		}
	}
	tb.do(t, chromedp.SendKeys(chromedp.CSS("#comment"), "good in the end"), chromedp.Click(chromedp.CSS("button[value=approval]")), chromedp.WaitVisible(chromedp.CSS(".notice[role=status]")))
	if got := tb.eval(t, `document.querySelector(".sources").textContent`); !strings.Contains(got, "good in the end") {
		t.Errorf("feedback on the page: got %s, want it to contain \"good in the end\"", got)
	}
	tb.do(t, chromedp.Click(chromedp.CSS("input[name=sure]")), chromedp.Click(chromedp.CSS("button.danger")), chromedp.WaitVisible(chromedp.CSS("table.list")))
	if got := tb.eval(t, `document.body.textContent.includes("`+id.String()+`")`); got != "false" {
		t.Error("session list after the deletion: got the deleted session in it, want it gone")
	}
	if got := tb.reportedErrors(); len(got) > 0 {
		t.Errorf("browser errors: got %q, want none", got)
	}
}

func TestBrowserSamplesExpandAndHealthShowsChanges(t *testing.T) {
	tb, sessions := newTab(t), newSessionStore(t, time.Now())
	sessions.addSessionWithMarkup(t)
	sessions.addSession(t, "other", 2, nil)
	f := newStoreFixture(t, sessions, func(o *Options) { o.Now = time.Now })
	server := httptest.NewServer(f)
	t.Cleanup(server.Close)
	tb.do(t, chromedp.Navigate(LoginLink(server.URL, token)), chromedp.WaitVisible(chromedp.CSS("nav a[href^='/samples']")),
		chromedp.Navigate(server.URL+"/samples?quality=unrated&family=intent_resolution"), chromedp.WaitVisible(chromedp.CSS(".sample")),
		chromedp.Click(chromedp.CSS(".sample summary")), chromedp.WaitVisible(chromedp.CSS(".sample[open] pre")))
	for expression, want := range map[string]string{
		`document.querySelectorAll(".sample").length`:                                                              "2",
		`JSON.parse(document.querySelectorAll(".sample pre")[1].textContent).sample_family`:                        "intent_resolution",
		`[...document.querySelectorAll(".exports a")].map(a => new URL(a.href).searchParams.get("format")).join()`: "mplp,openai,preference,parquet",
		`new URL(document.querySelector(".exports a").href).searchParams.get("quality")`:                           "unrated",
	} {
		if got := tb.eval(t, expression); got != want {
			t.Errorf("value of %s: got %q, want %q", expression, got, want)
		}
	}
	tb.do(t, chromedp.Navigate(server.URL+"/health"), chromedp.WaitVisible(chromedp.CSS("table.config")))
	for expression, want := range map[string]string{
		`document.querySelectorAll("table.config tr.changed").length`:                                     "3",
		`[...document.querySelectorAll("#account + table tr")].some(r => r.textContent.includes("full"))`: "true",
		`document.title.includes("owned")`:                                                                "false",
	} {
		if got := tb.eval(t, expression); got != want {
			t.Errorf("value of %s: got %q, want %q", expression, got, want)
		}
	}
	if got := tb.reportedErrors(); len(got) > 0 {
		t.Errorf("browser errors: got %q, want none", got)
	}
}

// If the environment variable PRECEPT_VIEWS names a directory, this test writes screenshots to the directory.
func TestBrowserSessionPagesFitTheScreenWidth(t *testing.T) {
	tb, sessions := newTab(t), newSessionStore(t, time.Now())
	id := sessions.addSessionWithMarkup(t)
	for i := range 12 {
		s := sessions.addSession(t, fmt.Sprint("nightly-build-", i), 1+i%4, nil)
		if i%3 == 0 {
			sessions.closeRewarded(t, s, float64(i%5)/4, "")
		}
	}
	f := newStoreFixture(t, sessions, func(o *Options) { o.Now = time.Now })
	server := httptest.NewServer(f)
	t.Cleanup(server.Close)
	tb.do(t, chromedp.Navigate(LoginLink(server.URL, token)), chromedp.WaitVisible(chromedp.CSS("main")))
	for _, scheme := range []string{"light", "dark"} {
		media := emulation.SetEmulatedMediaParams{Features: []*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: scheme}}}
		if _, err := chromedp.Call(tb.ctx, emulation.SetEmulatedMedia, media); err != nil {
			t.Fatal(err)
		}
		for _, width := range []int64{360, 1280, 2560} {
			if _, err := chromedp.Call(tb.ctx, emulation.SetDeviceMetricsOverride, emulation.SetDeviceMetricsOverrideParams{Width: width, Height: 1000, DeviceScaleFactor: 1}); err != nil {
				t.Fatal(err)
			}
			for name, path := range map[string]string{"sessions": "/sessions", "session": "/sessions/" + id.String(), "samples": "/samples", "health": "/health"} {
				tb.do(t, chromedp.Navigate(server.URL+path), chromedp.WaitVisible(chromedp.CSS("main")))
				if got := tb.eval(t, `document.documentElement.scrollWidth <= innerWidth`); got != "true" {
					t.Errorf("page %s on a screen of %d px: got a page wider than the screen because of the elements %s, want a page that fits", name, width, tb.eval(t, `[...document.querySelectorAll("main *")].filter(e => e.getBoundingClientRect().right > innerWidth && !e.closest(".scroll")).map(e => e.tagName + "." + e.className).slice(0, 5).join()`))
				}
				tb.picture(t, fmt.Sprintf("%s-%s-%d.png", name, scheme, width))
			}
		}
	}
}

// picture writes a screenshot to the directory that PRECEPT_VIEWS names. If the variable is not set, it does nothing.
func (tb *tab) picture(t *testing.T, name string) {
	t.Helper()
	dir := os.Getenv("PRECEPT_VIEWS")
	if dir == "" {
		return
	}
	shot, err := chromedp.Call(tb.ctx, shots.CaptureScreenshot, shots.CaptureScreenshotParams{CaptureBeyondViewport: new(true)})
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, name), shot.Data, 0o644); err != nil { //nolint:gosec // a picture
		t.Fatal(err)
	}
}
