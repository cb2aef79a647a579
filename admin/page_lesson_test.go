package admin

import (
	"context"
	"errors"
	"fmt"
	"html"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/chromedp"

	"precept/bandit/report"
	"precept/bandit/trial"
	"precept/inject/backtest"
	"precept/inject/lesson"
	"precept/store"
)

// fakeLibrary is a library that also provides an audit log and a survey of stored sessions.
type fakeLibrary struct {
	book   *lesson.Book
	events []lesson.Event
	survey *report.Survey
}

func (f *fakeLibrary) Book() *lesson.Book { return f.book }

func (f *fakeLibrary) Archived(context.Context, string) (*lesson.Lesson, error) {
	return nil, ErrNoLesson
}

func (f *fakeLibrary) Block(_ string, l *lesson.Lesson) string {
	return "Lessons from past experience:\n- [" + l.Slug + "] " + l.Title + "\nEnd of lessons.\n\n"
}

func (f *fakeLibrary) Findings(l *lesson.Lesson) []lesson.Finding {
	return lesson.Checker{}.CheckLesson(l, f.book)
}

func (f *fakeLibrary) Log(context.Context, int) ([]lesson.Event, error) { return f.events, nil }

func (f *fakeLibrary) Survey(context.Context, string) (*report.Survey, error) {
	if f.survey == nil {
		return nil, errors.New("nothing is stored")
	}
	return f.survey, nil
}

func (f *fakeLibrary) Nearest(context.Context, string, string, []string) ([]backtest.Reason, error) {
	return nil, nil
}

func (f *fakeLibrary) Backtest(_ context.Context, _ string, l *lesson.Lesson) (backtest.Result, error) {
	return backtest.Result{Slug: l.Slug, Sessions: 812, Matched: 41, Words: []backtest.SessionCount{{Text: "flaky test", Sessions: 41}}, SilentTriggers: []string{"never said"}}, nil
}

// newFakeLibrary returns a library with three lessons: "helpful" is active, "newer" is quarantined and would supersede
// "helpful", and "waiting" is a candidate.
func newFakeLibrary(t *testing.T) *fakeLibrary {
	t.Helper()
	newLesson := func(slug, title, frontMatter string) *lesson.Lesson {
		raw := fmt.Sprintf("---\nschema: learning/v1\nslug: %s\ntitle: %s\ntrigger:\n  description: When a test is flaky.\n  tags: [testing]\n  metadata:\n    precept:\n      keywords: [flaky test, <b>bold</b>]\n"+
			"outcome: success\nevidence:\n  - kind: run\n    ref: s-1\nconfidence: 0.5\nsuccess_count: 0\nfailure_count: 0\n%s---\n# %s\n\n## What to do (or avoid)\n\nRun it alone, <script>alert(1)</script> ten times.\n", slug, title, frontMatter, title)
		l, err := lesson.Parse(slug+".md", []byte(raw))
		if err != nil {
			t.Fatal(err)
		}
		return l
	}
	f := &fakeLibrary{book: lesson.NewBook([]*lesson.Lesson{
		newLesson("helpful", "Run a flaky test alone", ""), newLesson("newer", "Run a flaky test alone, ten times", "supersedes: [helpful]\nmetadata:\n  precept:\n    state: quarantined\n    source: distill\n"), newLesson("waiting", "Read the log first", "metadata:\n  precept:\n    state: candidate\n    source: distill\n"),
	})}
	f.events = []lesson.Event{
		{Time: time.Date(2026, 4, 1, 8, 0, 0, 0, time.UTC), Action: "propose", Slug: "helpful", By: "distill", To: lesson.Quarantined, Hash: "0123456789abcdef"},
		{Time: time.Date(2026, 4, 2, 9, 0, 0, 0, time.UTC), Action: "approve", Slug: "helpful", By: "anna", From: lesson.Quarantined, To: lesson.Active},
		{Time: time.Date(2026, 4, 2, 9, 0, 0, 0, time.UTC), Action: "approve", Slug: "another", By: "nobody-else"},
	}
	f.survey = report.NewSurvey(time.Date(2026, 5, 1, 0, 0, 0, 0, time.UTC))
	for i := range 600 {
		agent := []string{"coder", "writer", "tester"}[i%3]
		f.survey.Add(&trial.Assignment{Decided: true, Category: agent + "|gpt-5|m", Picks: []trial.Pick{{Arm: "helpful@1", Injected: i%4 != 0, Eps: 0.25, Centre: 0.5}}}, float64(i%7)/6)
	}
	return f
}

// newLessonFixture returns a fixture with the lessons of newFakeLibrary and a report that contains daily effects and an
// older text of "helpful". If change is not nil, newLessonFixture calls it to alter the options.
func newLessonFixture(t *testing.T, change func(*Options)) (*fixture, *fakeLibrary, *fakeLessonService) {
	t.Helper()
	lib, lessonService := newFakeLibrary(t), &fakeLessonService{}
	f := newFixture(t, func(o *Options) {
		o.Read.Library, o.Read.Survey, o.Write.Lessons = lib, lib, lessonService
		if change != nil {
			change(o)
		}
	})
	row := &f.reports.report.Lessons[2]
	row.Opinions, row.LOODelta, row.LOOGap = &report.Opinions{Followed: 9, Ignored: 3}, new(-0.02), new(-0.082)
	for i := range 30 {
		h := 0.2 / float64(i+2)
		row.Days = append(row.Days, report.Band{Date: time.Date(2026, 3, 1+i, 0, 0, 0, 0, time.UTC).Format(time.DateOnly), Effect: 0.06, Lo: 0.06 - h, Hi: 0.06 + h})
	}
	f.reports.report.Lessons = append(f.reports.report.Lessons, report.Row{Slug: "helpful", Arm: "helpful@old", State: "edited", Verdict: report.Unproven, Rewarded: 77})
	return f, lib, lessonService
}

// olderTextArchive is an archive with one session in which an older text of a lesson was injected.
type olderTextArchive struct{ Archive }

func (olderTextArchive) InsertedText(_ context.Context, tenant, session, slug string) (string, error) {
	if tenant != "default" || session != "session-1" {
		return "", store.ErrNoSession
	}
	return "Lessons from past experience:\n- [another] Its own\n  | line\n- [" + slug + "] Run a flaky test alone\n  | In a <b>quiet</b> hour.\n  | Old advice.\nEnd of lessons.\n\n", nil
}

// The page shows an older text as it was injected into a stored session. If there is no such session, the page says so.
func TestLessonPageShowsOlderTextBesideCurrent(t *testing.T) {
	f, lib, _ := newLessonFixture(t, func(o *Options) { o.Read.Archive = olderTextArchive{} })
	lib.survey.AddExample(&trial.Assignment{Picks: []trial.Pick{{Arm: "helpful@old", Injected: true}, {Arm: "helpful@withheld", Injected: false}}}, "session-1", time.Unix(1e9, 0))
	lib.survey.AddExample(&trial.Assignment{Picks: []trial.Pick{{Arm: "helpful@old", Injected: true}}}, "older", time.Unix(9e8, 0))
	f.reports.report.Lessons = append(f.reports.report.Lessons, report.Row{Slug: "helpful", Arm: "helpful@withheld", State: "edited", Verdict: report.Unproven})
	cookie, _ := f.logIn(t)
	raw := body(t, f.do(t, "GET", "/lessons/helpful", func(r *http.Request) { r.AddCookie(cookie) }))
	if strings.Contains(raw, "<b>quiet") {
		t.Error("older text of a lesson: got it as unescaped markup, want escaped text")
	}
	page := html.UnescapeString(raw)
	for _, want := range []string{
		"The text <code>helpful@old</code>", `href="/sessions/session-1"`, `<span class="cut">−   | Old advice.`, `<span class="kept">  - [helpful] Run a flaky test alone`,
		"The text <code>helpful@withheld</code>", "No stored session shows this text",
	} {
		if !strings.Contains(page, want) {
			t.Errorf("lesson page lacks %q", want)
		}
	}
	if strings.Contains(page, "[another]") {
		t.Error("older text of a lesson: got another lesson of the same block on the page, want only this lesson")
	}
}

func TestLessonPageShowsHistoryAndActions(t *testing.T) {
	f, lib, _ := newLessonFixture(t, nil)
	cookie, _ := f.logIn(t)
	get := func(path string) string {
		t.Helper()
		return body(t, f.do(t, "GET", path, func(r *http.Request) { r.AddCookie(cookie) }))
	}
	raw := get("/lessons/helpful")
	if strings.Contains(raw, "<script>alert") {
		t.Errorf(`text of the lesson: raw = %q, want no "<script>alert"`, raw)
	}
	if strings.Contains(raw, "<b>bold") {
		t.Errorf(`text of the lesson: raw = %q, want no "<b>bold"`, raw)
	}
	page := html.UnescapeString(raw)
	for _, want := range []string{
		"Run a flaky test alone", "As the model sees it", "- [helpful] Run a flaky test alone", "<code>flaky test</code>", "+6.2", "followed 9 times", "wrong by −8.2", "0.9 to 1.0", ", from 600 stored sessions",
		"helpful@old", "anna", "Put on trial", "Pause", "Retire", "Pause helpful", "Resume undoes the pause and restores the state active", "Measured: proven helps, +6.2 points (+3.1 to +9.3), 800 rewarded sessions with the lesson, 200 without.", `data-chart="{"label":"Effect over time"`, "2026-03-30",
	} {
		if !strings.Contains(page, want) {
			t.Errorf("lesson page lacks %q", want)
		}
	}
	if strings.Contains(page, "nobody-else") {
		t.Error("history on the lesson page: got an event of another lesson, want only events of this lesson")
	}
	if strings.Contains(page, ">Approve<") {
		t.Error("page of an active lesson: got an Approve button, want none")
	}
	if page := get("/lessons/helpful?backtest=1"); !strings.Contains(page, "<strong>41</strong> of the <strong>812</strong>") {
		t.Errorf(`backtest = %q, want substring "<strong>41</strong> of the <strong>812</strong>"`, page)
	} else if !strings.Contains(page, "never said") {
		t.Errorf(`backtest = %q, want substring "never said"`, page)
	}
	lib.survey = nil
	if page := get("/lessons/harmful"); !strings.Contains(page, "The stored sessions cannot be read") {
		t.Errorf(`lesson page without data = %q, want substring "The stored sessions cannot be read"`, page)
	} else if !strings.Contains(page, "No judge&#39;s opinion yet") {
		t.Errorf(`lesson page without data = %q, want substring "No judge&#39;s opinion yet"`, page)
	}
	if res := f.do(t, "GET", "/lessons/nobody", bearer(token)); res.StatusCode != 404 {
		t.Errorf("page of an unknown lesson: status = %d, want 404", res.StatusCode)
	} else if !strings.Contains(body(t, res), "No lesson has this name") {
		t.Error(`page of an unknown lesson: body has no "No lesson has this name"`)
	}
	if page := body(t, f.do(t, "GET", "/lessons/helpful", bearer(token))); strings.Contains(page, "csrf_token") {
		t.Errorf(`lesson page for a client with a bearer token = %q, want no "csrf_token"`, page)
	} else if strings.Contains(page, "Put on trial") {
		t.Errorf(`lesson page for a client with a bearer token = %q, want no "Put on trial"`, page)
	}
}

func TestLessonButtonActsOnceWithCSRFToken(t *testing.T) {
	f, _, lessonService := newLessonFixture(t, nil)
	cookie, csrf := f.logIn(t)
	post := func(path, csrf, back string) *http.Response {
		return f.do(t, "POST", path, func(r *http.Request) {
			r.AddCookie(cookie)
			r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
			r.Body = io.NopCloser(strings.NewReader(url.Values{"csrf_token": {csrf}, "back": {back}}.Encode()))
		})
	}
	if res := post("/lessons/helpful/pause", "wrong", ""); res.StatusCode != 403 {
		t.Errorf("pause with a wrong CSRF token: status = %d, want 403", res.StatusCode)
	} else if lessonService.lastCall != "" {
		t.Errorf(`pause with a wrong CSRF token: lastCall = %q, want ""`, lessonService.lastCall)
	}
	if res := post("/lessons/helpful/eat", csrf, ""); res.StatusCode != 404 {
		t.Errorf("unknown action: got status %d, want 404", res.StatusCode)
	}
	locations := map[string]string{"": "/lessons/helpful", "/queue": "/queue", "//evil.example/": "/", "https://evil.example/": "/"}
	for back, want := range locations {
		if res := post("/lessons/helpful/pause", csrf, back); res.StatusCode != 303 {
			t.Errorf("pause with back=%q: status = %d, want 303", back, res.StatusCode)
		} else if res.Header.Get("Location") != want {
			t.Errorf("pause with back=%q: Location = %q, want %q", back, res.Header.Get("Location"), want)
		}
	}
	if lessonService.lastCall != "helpful pause 0 0 "+tokenAuthor() {
		t.Errorf("calls of the lesson service: lastCall = %q, want %q", lessonService.lastCall, "helpful pause 0 0 "+tokenAuthor())
	}
	if lessonService.count != len(locations) {
		t.Errorf("calls of the lesson service: count = %d, want %d", lessonService.count, len(locations))
	}
	reload := func() string {
		return html.UnescapeString(body(t, f.do(t, "GET", "/lessons/helpful", func(r *http.Request) { r.AddCookie(cookie) })))
	}
	if page := reload(); !strings.Contains(page, `role="status">`) {
		t.Errorf(`page after an action = %q, want substring "role=\"status\">"`, page)
	} else if !strings.Contains(page, "and is in the audit log") {
		t.Errorf(`page after an action = %q, want substring "and is in the audit log"`, page)
	}
	if strings.Contains(reload(), `role="status">`) {
		t.Error("second page after an action: got the notice again, want it only once")
	}
	lessonService.err = errors.New("it expired")
	post("/lessons/helpful/approve", csrf, "")
	if !strings.Contains(reload(), "helpful is unchanged: it expired") {
		t.Error("page after a refused action: got no text \"helpful is unchanged: it expired\", want this text")
	}
}

func TestBrowserLessonChartAndPauseButtonWork(t *testing.T) {
	tb := newTab(t)
	f, _, lessonService := newLessonFixture(t, func(o *Options) { o.Now = time.Now })
	server := httptest.NewServer(f)
	t.Cleanup(server.Close)
	tb.do(t, chromedp.Navigate(LoginLink(server.URL, token)), chromedp.Navigate(server.URL+"/lessons/helpful"), chromedp.WaitVisible(chromedp.CSS(".chart canvas")))
	const painted = `(c => { const d = c.getContext("2d").getImageData(0, 0, c.width, c.height).data; let n = 0; for (let i = 3; i < d.length; i += 4) if (d[i]) n++; return n > 1000 })(document.querySelector(".chart canvas"))`
	if tb.eval(t, painted) != "true" {
		t.Error("chart: got at most 1,000 painted pixels, want more than 1,000")
	}
	before := tb.eval(t, `getComputedStyle(document.body).backgroundColor`)
	tb.eval(t, `(s => { s.value = s.value == "dark" ? "light" : "dark"; s.dispatchEvent(new Event("change")) })(document.getElementById("theme"))`)
	if after := tb.eval(t, `getComputedStyle(document.body).backgroundColor`); after == before {
		t.Errorf("background = %q with both themes", after)
	} else if tb.eval(t, painted) != "true" {
		t.Errorf(`background after another theme was selected: eval(painted) = %q, want "true"`, tb.eval(t, painted))
	}
	tb.do(t,
		chromedp.Click(chromedp.CSS(`details:has(form[action="/lessons/helpful/pause"]) summary`)), // this click opens the confirmation
		chromedp.Click(chromedp.CSS(`form[action="/lessons/helpful/pause"] button`)), chromedp.WaitVisible(chromedp.CSS(`[role=status]`)),
	)
	if lessonService.lastCall != "helpful pause 0 0 "+tokenAuthor() {
		t.Errorf("calls of the lesson service: lastCall = %q, want %q", lessonService.lastCall, "helpful pause 0 0 "+tokenAuthor())
	}
	if lessonService.count != 1 {
		t.Errorf("calls of the lesson service: count = %d, want 1", lessonService.count)
	}
	if got := tb.eval(t, `getComputedStyle(document.body).backgroundColor`); got == before {
		t.Error("background on the next page: got the colour of the previous theme, want the selected theme kept")
	}
	if got := tb.reportedErrors(); len(got) > 0 {
		t.Errorf("browser errors: got %q, want none", got)
	}
}
