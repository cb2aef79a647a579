package admin

import (
	"html"
	"net/http"
	"strings"
	"testing"
	"time"

	"precept/bandit/report"
)

// After a decision, the server reads the changed file of the lesson with a delay. Until then, the queue must not show
// the lesson. If the file is still unchanged after five seconds, the queue shows the lesson again.
func TestQueueHidesDecidedLessonForFiveSeconds(t *testing.T) {
	f, _, _ := newLessonFixture(t, nil)
	cookie, csrf := f.logIn(t)
	shownCandidates := func() (ids string) {
		page := body(t, f.do(t, "GET", "/queue", bearer(token)))
		for _, id := range []string{"newer", "waiting"} {
			if strings.Contains(page, `id="candidate-`+id+`"`) {
				ids += id + " "
			}
		}
		return ids
	}
	f.do(t, "POST", "/lessons/waiting/reject", func(r *http.Request) { r.AddCookie(cookie); r.Header.Set(csrfHeader, csrf) })
	for _, tc := range []struct {
		after time.Duration
		want  string
	}{{0, "newer "}, {5 * time.Second, "newer "}, {time.Millisecond, "newer waiting "}} {
		f.now = f.now.Add(tc.after)
		if got := shownCandidates(); got != tc.want {
			t.Errorf("candidates in the queue %s after the previous check: got %q, want %q", tc.after, got, tc.want)
		}
	}
}

func TestNavigationMarksOnlyTheCurrentPage(t *testing.T) {
	f, _, _ := newRoleFixture(t)
	for path, want := range map[string]string{
		"/": "Overview", "/lessons": "Lessons", "/lessons/helpful": "Lessons", "/sessions": "Sessions", "/help/DASHBOARD": "Help", "/queue": "Queue",
	} {
		_, nav, _ := strings.Cut(body(t, f.do(t, "GET", path, bearer(token))), `<nav aria-label="Pages">`)
		nav, _, _ = strings.Cut(nav, "</nav>")
		_, current, _ := strings.Cut(nav, `aria-current="page">`)
		if strings.Count(nav, "aria-current") != 1 {
			t.Errorf(`navigation on %s: count of "aria-current" = %d, want 1`, path, strings.Count(nav, "aria-current"))
		}
		if !strings.HasPrefix(current, want) {
			t.Errorf("navigation on %s: current = %q, want prefix %q", path, current, want)
		}
	}
}

func TestChartShowsValuesSinceStart(t *testing.T) {
	f := newFixture(t, nil)
	g := &f.reports.report.Global
	g.Lo, g.Hi, g.Verdict = new(0.05), new(0.15), report.Helps
	for i := range f.reports.report.Lessons {
		f.reports.report.Lessons[i].Arm = "a separate arm"
	}
	for _, effect := range []float64{0.125, 0.25} {
		g.Effect = new(effect)
		f.do(t, "GET", "/", bearer(token))
		f.now = f.now.Add(time.Minute)
	}
	page := html.UnescapeString(body(t, f.do(t, "GET", "/?window=", bearer(token))))
	const want = `"days":[1777636800,1777636860,1777636920],"local":true,"series":[{"name":"Effect","colour":"--mark","values":[12.5,25,25],"lo":[5,5,5],"hi":[15,15,15]}]`
	if !strings.Contains(page, want) {
		_, chart, _ := strings.Cut(page, "data-chart=")
		t.Errorf("chart of the values since the start: got %.400s, want it to contain %q", chart, want)
	}
}

func TestPlotsHaveTextLabels(t *testing.T) {
	f := newFixture(t, func(o *Options) { o.TrueEffect = func(string) (float64, bool) { return 0.05, true } })
	f.reports.report.Lessons = []report.Row{{
		Slug: "one", State: "active", Effect: new(0.002), Lo: new(-0.004), Hi: new(0.004), Verdict: report.Unproven,
		Days: []report.Band{{Date: "2026-04-01", Effect: -0.01}, {Date: "2026-04-02", Effect: 0.002}},
	}}
	page := body(t, f.do(t, "GET", "/lessons?zoom=1", bearer(token)))
	for _, want := range []string{
		">−1.0</text>", ">−0.5</text>", ">0</text>", ">+0.5</text>", ">+1.0</text>", "from −0.4 to +0.4; true effect +5.0",
		"effect from −1.0 points on 2026-04-01 to +0.2 points on 2026-04-02", `points="1.0,20.0 83.0,2.0"`, "M0 5.0H84", "Forest plot, −1.0 to +1.0 points",
	} {
		if !strings.Contains(html.UnescapeString(page), want) {
			t.Errorf("the lessons page lacks %q", want)
		}
	}
	if n := strings.Count(page, `<path class="zero" d="M120.0`); n != 1 {
		t.Errorf("lines at 0 in the plot: got %d, want 1", n)
	}
}

func TestLogoutRemovesTheCookie(t *testing.T) {
	f := newFixture(t, nil)
	cookie, csrf := f.logIn(t)
	res := f.do(t, "POST", "/logout", func(r *http.Request) { r.AddCookie(cookie); r.Header.Set(csrfHeader, csrf) })
	if c := res.Cookies(); len(c) != 1 {
		t.Errorf("logout = %+v, want 1 item", c)
	} else if c[0].Value != "" {
		t.Errorf(`logout: Value = %q, want ""`, c[0].Value)
	} else if c[0].MaxAge >= 0 {
		t.Errorf("logout: MaxAge = %d, want less than 0", c[0].MaxAge)
	} else if res.Header.Get("Location") != "/login" {
		t.Errorf(`logout: Location = %q, want "/login"`, res.Header.Get("Location"))
	}
}
