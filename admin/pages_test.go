package admin

import (
	"context"
	"fmt"
	"html"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"

	"precept/bandit/report"
	"precept/internal/price"
)

func TestOverviewShowsTasksGainsAndHistory(t *testing.T) {
	var prices Prices
	f, _, _ := newLessonFixture(t, func(o *Options) {
		o.Program.Figures = func(context.Context) []Figure { return []Figure{{Name: "Store", Value: "down", Bad: true}} }
		o.Program.Prices = func() Prices { return prices }
	})
	g := &f.reports.report.Global
	g.Effect, g.Lo, g.Hi, g.Verdict = new(0.1), new(0.05), new(0.15), report.Helps
	rejected := report.Row{Slug: "never-seen", State: "rejected"}
	f.reports.report.Lessons = append(f.reports.report.Lessons, rejected)
	for i := range 3 {
		day := time.Date(2026, 4, 24+i, 0, 0, 0, 0, time.UTC).Format(time.DateOnly) // the first day is not one of the last seven days
		g.Bands = append(g.Bands, report.Band{Date: day, Effect: 0.1, Lo: 0, Hi: 0.2})
		g.Days = append(g.Days, report.Day{
			Date: day, NTreated: 90, NControl: 0, MeanTreated: new(0.7), TokensAdded: 1_000_000,
			Treated: report.Spending{Sessions: 50, Input: 60_000_000, Cached: 30_000_000}, Control: report.Spending{Sessions: 5, Input: 5_000_000, Cached: 3_000_000},
		})
	}
	get := func(query string) string {
		return html.UnescapeString(body(t, f.do(t, "GET", "/"+query, bearer(token))))
	}
	if page := get(""); !strings.Contains(page, "2,000,000</a>") {
		t.Errorf(`overview without a price = %q, want substring "2,000,000</a>"`, page)
	} else if !strings.Contains(page, "no model price") {
		t.Errorf(`overview without a price = %q, want substring "no model price"`, page)
	} else if !strings.Contains(page, "treated, 50% cached; control 1,000,000, 60% cached") {
		t.Errorf(`overview without a price = %q, want substring "treated, 50%% cached; control 1,000,000, 60%% cached"`, page)
	}
	prices = Prices{Models: price.Flat(2, 0.2)}
	if page := get(""); !strings.Contains(page, "cost 4.00 without a cache") {
		t.Error("overview with a configured price: got no text \"cost 4.00 without a cache\", want this cost")
	}
	page := get("?price=3")
	if strings.Contains(page, rejected.Slug) {
		t.Error("overview: got a row for a rejected lesson without sessions, want none")
	}
	for _, want := range []string{
		`<a href="#health">Store: down</a>`, `<a href="/lessons/harmful">The active lesson harmful does harm</a> · <a href="/sessions?arm=injected&lesson=harmful&verdict=poor">poor sessions</a>`, `<a href="/queue">2 lessons wait for approval</a>`,
		"+18 sessions", "+9 to +27, with 95% confidence", `+18 of <a href="/sessions?arm=treated&min_reward=0&range=7d">180 treated sessions</a> with a reward (a run counts once)`, "cost 6.00 without a cache", "1.92</a>", "treated, 50% cached; control 1.32, 60% cached", `data-chart="{"label":"All lessons together"`, "<th scope=\"row\">2026-04-25</th><td>+10.0</td><td>+0.0</td><td>+20.0</td>", `{"name":"Control","colour":"--quiet","values":[null,null,null]}`, `<span class="badge">2</span>`,
	} {
		if !strings.Contains(page, want) {
			t.Errorf("the overview lacks %q", want)
		}
	}
	if page := get("?price=<b>"); !strings.Contains(page, "cost 4.00") {
		t.Error("overview with an invalid price in the query: got no text \"cost 4.00\", want the cost at the configured price")
	}
	g.Verdict, g.Bands = report.Invalid, nil
	if page := get(""); strings.Contains(page, "+18</span>") {
		t.Error("overview of an invalid experiment: got a gain, want none")
	}
}

func TestChartWithoutDailyEffectsShowsHistory(t *testing.T) {
	f := newFixture(t, nil)
	g := &f.reports.report.Global
	g.Effect, g.Lo, g.Hi, g.Verdict = new(0.1), new(0.05), new(0.15), report.Helps
	for range 3 {
		f.now = f.now.Add(time.Minute)
		f.do(t, "GET", "/", bearer(token))
	}
	if page := body(t, f.do(t, "GET", "/", bearer(token))); !strings.Contains(page, "The chart shows the values that the dashboard has shown since the server started") {
		t.Error("overview without daily effects: got no chart of the values since the start of the server, want one")
	}
	if page := body(t, f.do(t, "GET", "/lessons/helpful", bearer(token))); !strings.Contains(page, "The chart shows the values that the dashboard has shown since the server started") {
		t.Error("lesson page without daily effects: got no chart of the values since the start of the server, want one")
	}
	if page := body(t, f.do(t, "GET", "/?window=7d", bearer(token))); strings.Contains(page, "since the server started") {
		t.Error("overview with window=7d: got the values since the start of the server, want no such chart")
	}
}

func TestHistoryIsBounded(t *testing.T) {
	h, now := newHistory(), time.Unix(1e9, 0)
	g := &report.Global{Effect: new(0.1), Lo: new(0.05), Hi: new(0.15), Verdict: report.Helps}
	for i := range 5000 {
		now = now.Add(time.Duration(1+i%3) * time.Second)
		h.add(historyKey{Tenant: "a"}, globalEffect(g), now)
		h.add(historyKey{"a", fmt.Sprint(i)}, globalEffect(g), now)
	}
	effects := h.effects(historyKey{Tenant: "a"})
	if len(effects) > historyEffects {
		t.Fatalf("history after 5000 effects = %+v, want at most %d items", effects, historyEffects)
	}
	if len(effects) < historyEffects/4 {
		t.Errorf("history after 5000 effects = %+v, want at least %d items", effects, historyEffects/4)
	}
	if len(h.byKey) > historyKeys {
		t.Errorf("history after 5000 effects: byKey = %+v, want at most %d items", h.byKey, historyKeys)
	}
	if effects[0].at.After(time.Unix(1e9+60, 0)) {
		t.Error("times of the stored effects: After(time.Unix(1e9+60, 0)) = true, want false")
	}
	if effects[len(effects)-1].at.Before(now.Add(-time.Minute)) {
		t.Error("times of the stored effects: Before(now.Add(-time.Minute)) = true, want false")
	}
}

func TestBreakdownShowsEffectsByAgentAndLength(t *testing.T) {
	f, lib, _ := newLessonFixture(t, nil)
	page := html.UnescapeString(body(t, f.do(t, "GET", "/breakdown", bearer(token))))
	for _, want := range []string{"Exploratory", "coder", "writer", "tester", "/lessons/helpful", "for the 3 cells", "From 600 closed sessions"} {
		if !strings.Contains(page, want) {
			t.Errorf("the breakdown lacks %q", want)
		}
	}
	if page := body(t, f.do(t, "GET", "/breakdown?by=length", bearer(token))); !strings.Contains(page, "100 to 500 bytes") {
		t.Error("breakdown by length: got no text \"100 to 500 bytes\", want this text")
	}
	lib.survey = report.NewSurvey(f.now)
	if page := body(t, f.do(t, "GET", "/breakdown", bearer(token))); !strings.Contains(page, "Too little data in each part") {
		t.Error("breakdown without data: got no text \"Too little data in each part\", want this text")
	}
	lib.survey = nil
	if res := f.do(t, "GET", "/breakdown", bearer(token)); res.StatusCode != 200 {
		t.Errorf("breakdown with an unreadable store: status = %d, want 200", res.StatusCode)
	} else if !strings.Contains(body(t, res), "cannot be read") {
		t.Error(`breakdown with an unreadable store: body has no "cannot be read"`)
	}
}

func TestQueueShowsCandidateChangesAndBacktest(t *testing.T) {
	f, _, _ := newLessonFixture(t, nil)
	cookie, _ := f.logIn(t)
	get := func(path string) string {
		return html.UnescapeString(body(t, f.do(t, "GET", path, func(r *http.Request) { r.AddCookie(cookie) })))
	}
	page := get("/queue?backtest=newer")
	for _, want := range []string{
		`Changes from <code>helpful</code>`, `<span class="added">+ # Run a flaky test alone, ten times`, `<span class="cut">− # Run a flaky test alone`, "Read the log first", "2 waiting for a decision",
		"<strong>41</strong> of the <strong>812</strong>", `action="/lessons/waiting/reject"`, "<code>s-1</code>",
	} {
		if !strings.Contains(page, want) {
			t.Errorf("the queue lacks %q", want)
		}
	}
	if strings.Contains(page, `id="candidate-helpful"`) {
		t.Error("queue: got an active lesson in it, want only candidates and quarantined lessons")
	}
	empty := newFixture(t, func(o *Options) { o.Read.Library = &fakeLibrary{book: newFakeLibrary(t).book.WithLessons(nil)} })
	if page := body(t, empty.do(t, "GET", "/queue", bearer(token))); !strings.Contains(page, "The queue is empty") {
		t.Error("empty queue: got no text \"The queue is empty\", want this text")
	}
}

func TestDiffLinesMarksChanges(t *testing.T) {
	join := func(lines []diffLine) (out string) {
		for _, l := range lines {
			out += l.mark + l.text + "/"
		}
		return out
	}
	for _, c := range [][3]string{ // old lines, new lines, difference
		{"a b c", "a x c", " a/−b/+x/ c/"}, {"", "a", "−/+a/"}, {"a", "a", " a/"}, {"a b", "b", "−a/ b/"},
	} {
		if got := join(diffLines(strings.ReplaceAll(c[0], " ", "\n"), strings.ReplaceAll(c[1], " ", "\n"))); got != c[2] {
			t.Errorf("diffLines(%q, %q) = %q, want %q", c[0], c[1], got, c[2])
		}
	}
}

func TestBrowserQueueWorksByKeyboard(t *testing.T) {
	tb := newTab(t)
	f, _, lessonService := newLessonFixture(t, func(o *Options) { o.Now = time.Now })
	server := httptest.NewServer(f)
	t.Cleanup(server.Close)
	tb.do(t, chromedp.Navigate(LoginLink(server.URL, token)), chromedp.Navigate(server.URL+"/queue"), chromedp.WaitVisible(chromedp.CSS("article[aria-current]")))
	tb.do(t, chromedp.KeyEvent("?"))
	if tb.eval(t, `document.querySelector("#keys").matches(":popover-open")`) != "true" {
		t.Error("key ?: got no open list of shortcuts, want it open")
	}
	tb.do(t, chromedp.KeyEvent(kb.Escape), chromedp.KeyEvent("j"))
	second := tb.eval(t, `document.querySelector("article[aria-current]").id + " " + document.activeElement.id`)
	if second != "candidate-waiting candidate-waiting" {
		t.Errorf("ids of the current candidate and the focused element after key j: got %q, want \"candidate-waiting candidate-waiting\"", second)
	}
	tb.do(t, chromedp.KeyEvent("r"))
	if lessonService.lastCall != "" {
		t.Errorf(`after one press of key r: lastCall = %q, want ""`, lessonService.lastCall)
	}
	if tb.eval(t, `document.querySelector("article[aria-current] [data-key=r]").textContent`) != "Press r again to reject r waiting" {
		t.Errorf("after one press of key r: eval(`document.querySelector(\"article[aria-current] [data-key=r]\").textContent`) = %q, want \"Press r again to reject r waiting\"", tb.eval(t, `document.querySelector("article[aria-current] [data-key=r]").textContent`))
	}
	tb.do(t, chromedp.KeyEvent("r"), chromedp.WaitVisible(chromedp.CSS(`[role=status]`)))
	if !strings.HasPrefix(lessonService.lastCall, "waiting reject 0 0 operator ") {
		t.Errorf("call of the lesson service: got %q, want the lesson waiting rejected", lessonService.lastCall)
	}
	if got := tb.eval(t, `[...document.querySelectorAll("article")].map(a => a.id).join()`); got != "candidate-newer" {
		t.Errorf("shown candidates = %s, want candidate-newer", got)
	}
	if got := tb.eval(t, "location.hash"); got != "#candidate-newer" {
		t.Errorf("location.hash after the rejection: got %s, want \"#candidate-newer\"", got)
	}
	tb.do(t, chromedp.WaitVisible(chromedp.CSS("article[aria-current]")), chromedp.KeyEvent("a"), chromedp.WaitVisible(chromedp.CSS(".empty")))
	if !strings.HasPrefix(lessonService.lastCall, "newer approve 0 0 operator ") {
		t.Errorf("call of the lesson service: got %q, want the lesson newer approved", lessonService.lastCall)
	}
	if got := tb.reportedErrors(); len(got) > 0 {
		t.Errorf("browser errors: got %q, want none", got)
	}
}

func TestBrowserPagesFitTheScreenWidth(t *testing.T) {
	tb := newTab(t)
	f, _, _ := newLessonFixture(t, func(o *Options) {
		o.Now = time.Now
		o.Program.Prices = func() Prices { return Prices{Models: price.Flat(2, 0), SuccessValue: 300, Currency: "USD"} }
	})
	f.reports.report.Global.Days = []report.Day{{Date: f.reports.report.GeneratedAt.Format(time.DateOnly), NTreated: 123_456, TokensAdded: 98_765_432}}
	server := httptest.NewServer(f)
	t.Cleanup(server.Close)
	tb.do(t, chromedp.Navigate(LoginLink(server.URL, token)))
	for _, width := range []int{360, 390, 768, 1200, 1280, 3840} {
		size := emulation.SetDeviceMetricsOverrideParams{Width: int64(width), Height: 800, DeviceScaleFactor: 1}
		if _, err := chromedp.Call(tb.ctx, emulation.SetDeviceMetricsOverride, size); err != nil {
			t.Fatal(err)
		}
		for _, path := range []string{"/", "/lessons", "/lessons/helpful", "/breakdown", "/queue"} {
			tb.do(t, chromedp.Navigate(server.URL+path), chromedp.WaitVisible(chromedp.CSS("h1")))
			if got := tb.eval(t, "document.documentElement.scrollWidth"); got != fmt.Sprint(width) {
				t.Errorf("%s on a screen of %d px: got a page %s px wide, want the width of the screen", path, width, got)
			}
			if got := tb.eval(t, `[...document.querySelectorAll(".net *")].every(e => e.getBoundingClientRect().right <= document.querySelector(".net").getBoundingClientRect().right)`); got != "true" {
				t.Errorf("%s on a screen of %d px: got a part of the net result outside its box, want all of it inside", path, width)
			}
			if got := tb.eval(t, `document.querySelector(".tools").getBoundingClientRect().top < document.querySelector(".top .name").getBoundingClientRect().bottom`); got != "true" {
				t.Errorf("%s on a screen of %d px: got the tools below the program name, want them beside it", path, width)
			}
			if got := tb.eval(t, `[...document.querySelectorAll(".scroll:has(.effects)")].every(e => e.scrollWidth <= e.clientWidth)`); got != "true" {
				t.Errorf("%s on a screen of %d px: got a column of an effect table outside the screen, want all columns on it", path, width)
			}
		}
	}
}
