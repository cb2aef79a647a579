package admin

import (
	"context"
	"net/http/httptest"
	"os"
	"os/exec"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/cdproto/log"
	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"
)

// tab is a tab in a new browser. It collects the errors that the browser reports, such as violations of the content
// security policy.
type tab struct {
	ctx      context.Context
	mu       sync.Mutex
	reported []string
}

// newTab starts a browser with one tab. If chromium is not installed, newTab fails the test in CI, and skips it
// elsewhere.
func newTab(t *testing.T) *tab {
	t.Helper()
	path, err := exec.LookPath("chromium")
	if err != nil {
		if os.Getenv("CI") == "" {
			t.Skip("chromium is not installed; to run the test, apt-get install chromium; to fail it instead of skipping it, set CI=true")
		}
		t.Fatal(err)
	}
	allocator, cancel := chromedp.NewExecAllocator(t.Context(),
		chromedp.ExecPath(path), chromedp.UserDataDir(t.TempDir()), chromedp.Headless, chromedp.NoSandbox, chromedp.DisableGPU,
		chromedp.NoFirstRun, chromedp.Flag("disable-quic", true), chromedp.Flag("disable-background-networking", true),
		chromedp.Flag("disable-component-update", true), chromedp.Flag("disable-sync", true), chromedp.Flag("disable-dev-shm-usage", true),
	)
	t.Cleanup(cancel)
	ctx, cancelTab := chromedp.NewContext(allocator)
	t.Cleanup(cancelTab)
	// Without this timeout, chromedp would wait forever for an element that does not become visible.
	ctx, stop := context.WithTimeout(ctx, 5*time.Minute)
	t.Cleanup(stop)
	tb := &tab{ctx: ctx}
	if err := chromedp.Listen(ctx, tb.listen); err != nil {
		t.Fatal(err)
	}
	return tb
}

func (tb *tab) listen(ev any) {
	tb.mu.Lock()
	defer tb.mu.Unlock()
	switch ev := ev.(type) {
	case *runtime.EventExceptionThrown:
		tb.reported = append(tb.reported, ev.ExceptionDetails.Text)
	case *log.EventEntryAdded:
		if !strings.HasSuffix(ev.Entry.URL, "/favicon.ico") {
			tb.reported = append(tb.reported, ev.Entry.Text)
		}
	}
}

func (tb *tab) reportedErrors() []string {
	tb.mu.Lock()
	defer tb.mu.Unlock()
	return tb.reported
}

func (tb *tab) do(t *testing.T, steps ...chromedp.Action[chromedp.Void]) {
	t.Helper()
	if err := chromedp.Do(tb.ctx, steps...); err != nil {
		t.Fatal(err)
	}
}

// eval evaluates a JavaScript expression and returns its value as a string.
func (tb *tab) eval(t *testing.T, expression string) string {
	t.Helper()
	text, err := chromedp.Run(tb.ctx, chromedp.Evaluate[string]("String("+expression+")"))
	if err != nil {
		t.Fatalf("%s: got %v, want no error", expression, err)
	}
	return text
}

func TestBrowserLoginLinkShowsOverview(t *testing.T) {
	tb := newTab(t)
	f := newFixture(t, func(o *Options) {
		o.Now = time.Now
		o.TrueEffect = func(slug string) (float64, bool) { return 0.05, slug == "helpful" }
		o.Program.Figures = func(context.Context) []Figure { return []Figure{{Name: "Sessions", Value: "<b>12</b>"}} }
	})
	f.reports.report.Lessons[0].Slug = `<img src=x onerror="document.title='owned'">`
	server := httptest.NewServer(f)
	t.Cleanup(server.Close)
	tb.do(t, chromedp.Navigate(LoginLink(server.URL, token)), chromedp.WaitVisible(chromedp.CSS("table")))
	expect := map[string]string{
		`location.href`:  server.URL + "/", // the page has removed the token from the address
		`document.title`: "precept: lessons and effects",
		`document.querySelector("tbody tr th a").closest("table").tBodies[0].rows.length`: "4",
		`document.querySelector("tbody tr:nth-child(2) th a").textContent`:                "helpful",
		`document.querySelector("tbody tr:nth-child(2) svg").getAttribute("aria-label")`:  "effect +6.2 points, from +3.1 to +9.3; true effect +5.0",
		`[...document.querySelectorAll("thead th")].every(h => h.scope == "col")`:         "true",
		`document.querySelector("caption").textContent.length > 40`:                       "true",
		`document.images.length`: "1", // only the icon of the dashboard; the markup in the name of a lesson adds no image
		`document.querySelector("tbody tr:nth-child(4) th a").textContent`:                              f.reports.report.Lessons[0].Slug,
		`[...document.querySelectorAll(".figures td")].some(d => d.textContent == "<b>12</b>")`:         "true",
		`getComputedStyle(document.querySelector("caption")).textAlign`:                                 "left", // the style sheet applies
		`[...document.querySelectorAll("input:not([type=hidden])")].every(i => i.labels.length > 0)`:    "true",
		`document.querySelector("[role=region]").tabIndex`:                                              "0",
		`document.querySelector("circle").getBoundingClientRect().width > 0`:                            "true",
		`performance.getEntriesByType("resource").every(r => r.name.startsWith(location.origin + "/"))`: "true", // all resources come from this origin
	}
	for expression, want := range expect {
		if got := tb.eval(t, expression); got != want {
			t.Errorf("value of %s: got %q, want %q", expression, got, want)
		}
	}
	if got := tb.reportedErrors(); len(got) > 0 {
		t.Errorf("browser errors: got %q, want none", got)
	}
}

func TestBrowserLoginRefreshAndLogout(t *testing.T) {
	tb := newTab(t)
	f := newFixture(t, func(o *Options) {
		o.Now = time.Now
		visits := 0
		o.Program.Figures = func(context.Context) []Figure {
			visits++ // needs no lock, because the browser sends one request at a time
			return []Figure{{Name: "Visits", Value: strings.Repeat("I", visits)}}
		}
	})
	server := httptest.NewServer(f)
	t.Cleanup(server.Close)
	tb.do(t,
		chromedp.Navigate(server.URL+"/login"),
		chromedp.SendKeys(chromedp.CSS("#token"), token),
		chromedp.Click(chromedp.CSS("button")),
		chromedp.WaitVisible(chromedp.CSS("#health")),
	)
	if _, err := chromedp.Run(tb.ctx, chromedp.Poll[bool](`document.querySelector(".figures td").textContent.length > 1`, chromedp.WithPollingTimeout(0))); err != nil {
		t.Fatalf("wait for the automatic refresh: err = %v, want a second visit", err)
	}
	tb.do(t, chromedp.Click(chromedp.CSS(`form[action="/logout"] button`)), chromedp.WaitVisible(chromedp.CSS("#token")))
	if got := tb.eval(t, "location.pathname"); got != "/login" {
		t.Errorf("path after the logout: got %s, want \"/login\"", got)
	}
	if got := tb.reportedErrors(); len(got) > 0 {
		t.Errorf("browser errors: got %q, want none", got)
	}
}

func TestBrowserPageNamesTheTimeZone(t *testing.T) {
	tb := newTab(t)
	f := newFixture(t, func(o *Options) { o.Now = time.Now })
	server := httptest.NewServer(f)
	t.Cleanup(server.Close)
	if _, err := chromedp.Call(tb.ctx, emulation.SetTimezoneOverride, emulation.SetTimezoneOverrideParams{TimezoneID: "Asia/Kolkata"}); err != nil {
		t.Fatal(err)
	}
	tb.do(t, chromedp.Navigate(LoginLink(server.URL, token)), chromedp.WaitVisible(chromedp.CSS("#zone")))
	if got, want := tb.eval(t, `document.getElementById("zone").textContent`), "Times are in your time zone, Asia/Calcutta (UTC+05:30)."; got != want { // Chromium uses the old name of the time zone
		t.Errorf("time zone line: got %q, want %q", got, want)
	}
}

func TestBrowserOmitsTheCurrentYear(t *testing.T) {
	tb := newTab(t)
	server := httptest.NewServer(newFixture(t, func(o *Options) { o.Now = time.Now }))
	t.Cleanup(server.Close)
	tb.do(t, chromedp.Navigate(LoginLink(server.URL, token)), chromedp.WaitVisible(chromedp.CSS("#zone")))
	const shown = `(() => {
		const root = document.createElement("div"), year = new Date().getFullYear();
		root.innerHTML = [year, year - 1].map((y) => '<time datetime="' + y + '-06-05T12:30:00Z"></time>').join("");
		localise(root);
		return [...root.children].map((t) => /\b20\d\d\b/.test(t.textContent)).join();
	})()`
	if got := tb.eval(t, shown); got != "false,true" {
		t.Errorf("year shown in a time of this year and of last year: got %s, want false,true", got)
	}
}

func TestBrowserFoldsSidebarOnNarrowScreens(t *testing.T) {
	tb := newTab(t)
	server := httptest.NewServer(newFixture(t, func(o *Options) { o.Now = time.Now }))
	t.Cleanup(server.Close)
	tb.do(t, chromedp.Navigate(LoginLink(server.URL, token)), chromedp.WaitVisible(chromedp.CSS("main")))
	for width, want := range map[int64]string{380: "false", 800: "true"} {
		size := emulation.SetDeviceMetricsOverrideParams{Width: width, Height: 900, DeviceScaleFactor: 1}
		if _, err := chromedp.Call(tb.ctx, emulation.SetDeviceMetricsOverride, size); err != nil {
			t.Fatal(err)
		}
		tb.do(t, chromedp.Navigate(server.URL+"/sessions"), chromedp.WaitVisible(chromedp.CSS("main")))
		if got := tb.eval(t, `document.querySelector(".sidebar").open`); got != want {
			t.Errorf("sidebar open at %d px: got %s, want %s", width, got, want)
		}
		const refreshed = `(async () => { const old = document.querySelector("main"); await refresh();
			return (old !== document.querySelector("main")) + " " + document.querySelector(".sidebar").open })()`
		if got := evalPromise(t, tb, refreshed); got != "true "+want {
			t.Errorf("after a refresh at %d px: got main replaced and sidebar open = %q, want %q", width, got, "true "+want)
		}
		tb.eval(t, `(() => { const sidebar = document.querySelector(".sidebar"); sidebar.open = true; sidebar.querySelector("a, input").focus() })()`)
		tb.keys(t, kb.Escape)
		if got := tb.eval(t, `document.querySelector(".sidebar").open`); got != want {
			t.Errorf("sidebar open after Escape was pressed in it at %d px: got %s, want %s", width, got, want)
		}
	}
}

func TestBrowserThemesSetTextAndBackgroundColours(t *testing.T) {
	tb := newTab(t)
	f := newFixture(t, func(o *Options) { o.Now = time.Now })
	server := httptest.NewServer(f)
	t.Cleanup(server.Close)
	tb.do(t, chromedp.Navigate(server.URL+"/login"))
	for scheme, want := range map[string]string{"light": "rgb(28, 32, 36) on rgb(255, 255, 255)", "dark": "rgb(230, 233, 236) on rgb(20, 23, 26)"} {
		media := emulation.SetEmulatedMediaParams{Features: []*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: scheme}}}
		if _, err := chromedp.Call(tb.ctx, emulation.SetEmulatedMedia, media); err != nil {
			t.Fatal(err)
		}
		if got := tb.eval(t, `getComputedStyle(document.body).color + " on " + getComputedStyle(document.body).backgroundColor`); got != want {
			t.Errorf("%s theme: got colours %q, want %q", scheme, got, want)
		}
	}
}

// keys presses one key for each character in text.
func (tb *tab) keys(t *testing.T, text string) {
	t.Helper()
	tb.do(t, chromedp.KeyEvent(text))
}
