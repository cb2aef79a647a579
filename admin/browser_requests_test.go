package admin

import (
	"html"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"

	"precept/inject/lesson"
)

// asBrowser returns a function that adds the headers of a browser and the form values to a request.
func asBrowser(cookie *http.Cookie, values url.Values) func(*http.Request) {
	return func(r *http.Request) {
		if cookie != nil {
			r.AddCookie(cookie)
		}
		r.Header.Set("Accept", "text/html")
		r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
		r.Body = io.NopCloser(strings.NewReader(values.Encode()))
	}
}

func TestErrorFormatFollowsAcceptHeader(t *testing.T) {
	f := newFixture(t, nil)
	cookie, _ := f.logIn(t)
	asUser := func(r *http.Request) { r.AddCookie(cookie); r.Header.Set("Accept", "text/html") }
	for _, tc := range []struct {
		name, method, path string
		prepare            func(*http.Request)
		status             int
		wantText           string
	}{
		{"login form with a wrong token", "POST", "/login", asBrowser(nil, url.Values{"token": {"wrong"}}), 401, "The token is wrong."},
		{"login link with a wrong token", "GET", "/login?token=wrong", asBrowser(nil, nil), 401, "The token is wrong."},
		{"action without a login", "POST", "/lessons/helpful/pause", asBrowser(nil, nil), 401, "nothing was done"},
		{"unknown page", "GET", "/nowhere", asUser, 404, `<nav aria-label="Pages">`},
		{"invalid query parameter", "GET", "/lessons?window=soon", asUser, 400, "Window: &#34;soon&#34; is not a duration"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			res := f.do(t, tc.method, tc.path, tc.prepare)
			page := body(t, res)
			if res.StatusCode != tc.status {
				t.Errorf("request from a browser: status = %d, want %d", res.StatusCode, tc.status)
			}
			if !strings.Contains(page, tc.wantText) {
				t.Errorf("request from a browser = %q, want substring %q", page, tc.wantText)
			}
			if !strings.Contains(page, "<!doctype html>") {
				t.Errorf(`request from a browser = %q, want substring "<!doctype html>"`, page)
			}
			res = f.do(t, tc.method, tc.path, func(r *http.Request) { tc.prepare(r); r.Header.Set("Accept", "*/*") })
			if text := body(t, res); res.StatusCode != tc.status {
				t.Errorf("request from another client: status = %d, want %d, body %s", res.StatusCode, tc.status, text)
			} else if !strings.HasPrefix(text, `{"error":`) {
				t.Errorf(`request from another client: body = %q, want prefix "{\"error\":"`, text)
			}
		})
	}
	if text := body(t, f.do(t, "GET", "/api/report?window=soon", asUser)); !strings.HasPrefix(text, `{"error":`) {
		t.Errorf("API request from a browser: got body %s, want an error in JSON", text)
	}
}

func TestLoginRedirectsOnlyToDashboardPages(t *testing.T) {
	f := newFixture(t, nil)
	page := html.UnescapeString(body(t, f.do(t, "GET", "/lessons/helpful?window=7d", asBrowser(nil, nil))))
	if !strings.Contains(page, `name="next" value="/lessons/helpful?window=7d"`) {
		t.Errorf(`login page = %q, want substring "name=\"next\" value=\"/lessons/helpful?window=7d\""`, page)
	}
	if strings.Contains(page, "refresh") {
		t.Errorf(`login page = %q, want no "refresh"`, page)
	}
	for next, want := range map[string]string{
		"": "/", "/queue": "/queue", "/lessons?sort=-effect": "/lessons?sort=-effect", "/sessions/a%2Fb": "/sessions/a%2Fb",
		"//evil.example/": "/", `/\evil.example`: "/", "https://evil.example/": "/", "javascript:alert(1)": "/", "queue": "/", "/\nx": "/",
	} {
		res := f.do(t, "POST", "/login", asBrowser(nil, url.Values{"token": {token}, "next": {next}}))
		if got := res.Header.Get("Location"); res.StatusCode != 303 {
			t.Errorf("login with next=%q: status = %d, want 303", next, res.StatusCode)
		} else if got != want {
			t.Errorf("login with next=%q = %q, want %q", next, got, want)
		}
	}
	for referer, want := range map[string]bool{"http://127.0.0.1:8081/queue?page=2": true, "http://evil.example/queue?page=2": false} {
		page := body(t, f.do(t, "POST", "/lessons/helpful/pause", func(r *http.Request) {
			asBrowser(nil, nil)(r)
			r.Host = "127.0.0.1:8081"
			r.Header.Set("Referer", referer)
		}))
		if strings.Contains(page, `name="next" value="/queue?page=2"`) != want {
			t.Errorf("login page after a form on %s was posted: next page is this page = %v, want %v; login page: %s", referer, !want, want, page)
		}
	}
	// If a user follows a link from another site, the browser omits the SameSite=Strict cookie. The login page
	// therefore reloads the address, and the browser then sends the cookie.
	crossSite := func(r *http.Request) { asBrowser(nil, nil)(r); r.Header.Set("Sec-Fetch-Site", "cross-site") }
	if page := body(t, f.do(t, "GET", "/queue", crossSite)); !strings.Contains(page, `http-equiv="refresh" content="0"`) {
		t.Error("login page after a link from another site: got a page that does not reload the address, want a reload")
	}
}

func TestCookieIsSecureBehindTLSProxy(t *testing.T) {
	f := newFixture(t, nil)
	for proto, want := range map[string]bool{"": false, "http": false, "https": true} {
		res := f.do(t, "POST", "/login", func(r *http.Request) {
			asBrowser(nil, url.Values{"token": {token}})(r)
			r.Header.Set("X-Forwarded-Proto", proto)
		})
		if c := res.Cookies(); len(c) != 1 {
			t.Errorf("login with X-Forwarded-Proto %q = %+v, want 1 item", proto, c)
		} else if c[0].Secure != want {
			t.Errorf("login with X-Forwarded-Proto %q: Secure = %v, want %v", proto, c[0].Secure, want)
		}
	}
}

func TestLessonButtonSendsShownVersion(t *testing.T) {
	f, lib, lessonService := newLessonFixture(t, nil)
	cookie, csrf := f.logIn(t)
	l, ok := lib.Book().Get("helpful")
	if !ok {
		t.Fatal("library: got no lesson helpful, want one")
	}
	for _, path := range []string{"/lessons/helpful", "/queue"} {
		page := body(t, f.do(t, "GET", path, asBrowser(cookie, nil)))
		if !strings.Contains(page, `<input type="hidden" name="text" value="`) {
			t.Errorf(`%s: got %q, want substring "<input type=\"hidden\" name=\"text\" value=\""`, path, page)
		}
		if !strings.Contains(page, `<input type="hidden" name="state" value="`) {
			t.Errorf(`%s: got %q, want substring "<input type=\"hidden\" name=\"state\" value=\""`, path, page)
		}
	}
	f.do(t, "POST", "/lessons/helpful/pause", asBrowser(cookie, url.Values{csrfField: {csrf}, "text": {l.ContentHash}, "state": {string(l.State)}}))
	if want := (lesson.SeenVersion{Hash: l.ContentHash, State: l.State}); lessonService.seen != want {
		t.Errorf("version that the lesson service receives = %+v, want %+v", lessonService.seen, want)
	}
}

func TestBrowserRefreshReportsFailure(t *testing.T) {
	tb := newTab(t)
	f := newFixture(t, func(o *Options) { o.Now = time.Now })
	server := httptest.NewServer(f)
	t.Cleanup(server.Close)
	tb.do(t, chromedp.Navigate(LoginLink(server.URL, token)), chromedp.WaitVisible(chromedp.CSS("main h1")))
	const refreshed = `(async () => { document.querySelector("main").id = "before"; await refresh(); return document.querySelector("main").id })()`
	// The page does not refresh itself while a user works with it, for example after a change in a filter field.
	if got := tb.eval(t, `(document.querySelector("[name=tenant]").value = "other", inUse(document.querySelector("main")))`); got != "true" {
		t.Errorf("inUse(main) after a filter field was changed = %s, want true", got)
	}
	if got := tb.eval(t, `(document.querySelector("[name=tenant]").value = "default", inUse(document.querySelector("main")))`); got != "false" {
		t.Errorf("inUse(main) after the filter field was changed back = %s, want false", got)
	}
	if got := evalPromise(t, tb, refreshed); got != "main" {
		t.Errorf("id of the main part after a refresh = %q, want \"main\", the id in the new page", got)
	}
	f.logins.mu.Lock()
	clear(f.logins.byID)
	f.logins.mu.Unlock()
	const staleText = `(async () => { await refresh(); return document.getElementById("stale").textContent })()`
	if got := evalPromise(t, tb, staleText); !strings.Contains(got, "login has expired") {
		t.Errorf("notice after the login was deleted: got %q, want it to contain \"login has expired\"", got)
	}
	server.Close()
	if got := evalPromise(t, tb, staleText); !strings.Contains(got, "precept does not answer") {
		t.Errorf("notice after the server was closed: got %q, want it to contain \"precept does not answer\"", got)
	}
}

// The server shows the notice about an action on one page only. A page that refreshes itself must not use up the notice
// that is meant for the next page, and must keep its own notice.
func TestBrowserRefreshKeepsNoticeAndFocus(t *testing.T) {
	tb := newTab(t)
	f := newFixture(t, func(o *Options) { o.Now = time.Now })
	server := httptest.NewServer(f)
	t.Cleanup(server.Close)
	tb.do(t, chromedp.Navigate(LoginLink(server.URL, token)), chromedp.WaitVisible(chromedp.CSS("main h1")))
	setNotice := func(text string) {
		f.logins.mu.Lock()
		defer f.logins.mu.Unlock()
		for _, x := range f.logins.byID {
			x.notice = notice{text: text}
		}
	}
	setNotice("first")
	tb.do(t, chromedp.Navigate(server.URL+"/"), chromedp.WaitVisible(chromedp.CSS(".notice")))
	setNotice("second")
	const refreshTwice = `(async () => { document.querySelector("main").focus(); await refresh(); await refresh();
		return document.activeElement.id + " " + [...document.querySelectorAll(".notice")].map(n => n.textContent + " " + n.role).join() })()`
	if got := evalPromise(t, tb, refreshTwice); got != "main first null" { // the notice has no role any more, because a screen reader has already read it
		t.Errorf("focus, and text and role of the notices after two refreshes: got %q, want \"main first null\"", got)
	}
	tb.do(t, chromedp.Navigate(server.URL+"/"), chromedp.WaitVisible(chromedp.CSS(".notice[role=status]")))
	if got := tb.eval(t, `document.querySelector(".notice").textContent`); got != "second" {
		t.Errorf("notice on the next page: got %q, want \"second\"", got)
	}
}

func TestBrowserEscapeClosesFocusedDetails(t *testing.T) {
	tb := newTab(t)
	f, _, _ := newLessonFixture(t, func(o *Options) { o.Now = time.Now })
	server := httptest.NewServer(f)
	t.Cleanup(server.Close)
	tb.do(t, chromedp.Navigate(LoginLink(server.URL, token)), chromedp.Navigate(server.URL+"/lessons/helpful"), chromedp.WaitVisible(chromedp.CSS(".asks summary")))
	tb.eval(t, `document.querySelector(".asks summary").focus()`)
	tb.keys(t, "\r")
	tb.do(t, chromedp.WaitVisible(chromedp.CSS(".asks[open] button")))
	tb.keys(t, "\t")
	const state = `document.activeElement.tagName + " " + document.querySelectorAll(".asks[open]").length`
	if got := tb.eval(t, state); got != "BUTTON 1" {
		t.Errorf("focused element and number of open confirmations after Enter and Tab: got %q, want \"BUTTON 1\"", got)
	}
	tb.keys(t, kb.Escape)
	if got := tb.eval(t, state); got != "SUMMARY 0" {
		t.Errorf("focused element and number of open confirmations after Escape: got %q, want \"SUMMARY 0\"", got)
	}
}

func TestBrowserBackButtonRepeatsNoAction(t *testing.T) {
	tb := newTab(t)
	f, _, lessonService := newLessonFixture(t, func(o *Options) { o.Now = time.Now })
	server := httptest.NewServer(f)
	t.Cleanup(server.Close)
	goBack := func(selector string) {
		t.Helper()
		tb.eval(t, `(document.documentElement.dataset.before = "1", setTimeout(() => history.back()))`)
		tb.do(t, chromedp.WaitVisible(chromedp.CSS("html:not([data-before]) "+selector)))
	}
	tb.do(t,
		chromedp.Navigate(server.URL+"/login"), chromedp.SendKeys(chromedp.CSS("#token"), token), chromedp.Click(chromedp.CSS("button")),
		chromedp.WaitVisible(chromedp.CSS("header nav")),
	)
	goBack("header nav")
	tb.do(t,
		chromedp.Navigate(server.URL+"/lessons"), chromedp.WaitVisible(chromedp.CSS("table")), chromedp.Navigate(server.URL+"/lessons/helpful"),
		chromedp.Click(chromedp.CSS(".asks summary")), chromedp.Click(chromedp.CSS(".asks form button")), chromedp.WaitVisible(chromedp.CSS(".notice[role=status]")),
	)
	goBack("main h1")
	if got := tb.eval(t, "location.pathname"); lessonService.count != 1 {
		t.Errorf("after an action and the Back button: count = %d, want 1", lessonService.count)
	} else if !strings.HasPrefix(got, "/lessons") {
		t.Errorf(`after an action and the Back button = %q, want prefix "/lessons"`, got)
	}
	tb.do(t, chromedp.Click(chromedp.CSS(`form[action="/logout"] button`)), chromedp.WaitVisible(chromedp.CSS("#token")))
	goBack("#token")
	if lessonService.count != 1 {
		t.Errorf("after the logout and the Back button: got %d calls of the lesson service, want 1", lessonService.count)
	}
}

// evalPromise evaluates a JavaScript expression whose value is a promise, and returns the string to which it resolves.
func evalPromise(t *testing.T, tb *tab, expression string) string {
	t.Helper()
	text, err := chromedp.Run(tb.ctx, chromedp.Evaluate[string](expression, chromedp.EvalAwaitPromise))
	if err != nil {
		t.Fatalf("%s: got %v, want no error", expression, err)
	}
	return text
}
