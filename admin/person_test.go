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

// form returns a change that sends values like the form of a browser.
func form(cookie *http.Cookie, values url.Values) func(*http.Request) {
	return func(r *http.Request) {
		if cookie != nil {
			r.AddCookie(cookie)
		}
		r.Header.Set("Accept", "text/html")
		r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
		r.Body = io.NopCloser(strings.NewReader(values.Encode()))
	}
}

// Browsers get a page where programs get JSON, for every kind of error.
func TestBrowserErrorsArePages(t *testing.T) {
	f := newFixture(t, nil)
	cookie, _ := f.browser(t)
	person := func(r *http.Request) { r.AddCookie(cookie); r.Header.Set("Accept", "text/html") }
	for _, c := range []struct {
		name, method, path string
		as                 func(*http.Request)
		status             int
		wantText           string
	}{
		{"a wrong token", "POST", "/login", form(nil, url.Values{"token": {"wrong"}}), 401, "The token is wrong."},
		{"a wrong link", "GET", "/login?token=wrong", form(nil, nil), 401, "The token is wrong."},
		{"a form without a login", "POST", "/lessons/helpful/pause", form(nil, nil), 401, "nothing was done"},
		{"no such page", "GET", "/nowhere", person, 404, `<nav aria-label="Pages">`},
		{"an invalid parameter in the query", "GET", "/lessons?window=soon", person, 400, "Window: &#34;soon&#34; is not a duration"},
	} {
		t.Run(c.name, func(t *testing.T) {
			res := f.do(t, c.method, c.path, c.as)
			page := body(t, res)
			if res.StatusCode != c.status || !strings.Contains(page, c.wantText) || !strings.Contains(page, "<!doctype html>") {
				t.Errorf(`a browser gets status %d, page %s, want status %d and a page with %q and "<!doctype html>"`, res.StatusCode, page, c.status, c.wantText)
			}
			res = f.do(t, c.method, c.path, func(r *http.Request) { c.as(r); r.Header.Set("Accept", "*/*") })
			if text := body(t, res); res.StatusCode != c.status || !strings.HasPrefix(text, `{"error":`) {
				t.Errorf("a program gets status %d %s, want %d with an error in JSON", res.StatusCode, text, c.status)
			}
		})
	}
	if text := body(t, f.do(t, "GET", "/api/report?window=soon", person)); !strings.HasPrefix(text, `{"error":`) {
		t.Errorf("the API answers a browser with %s, want an error in JSON", text)
	}
}

// A login redirects to the requested page of the dashboard and to no other site.
func TestLoginRedirectsToRequestedPageOnly(t *testing.T) {
	f := newFixture(t, nil)
	page := html.UnescapeString(body(t, f.do(t, "GET", "/lessons/helpful?window=7d", form(nil, nil))))
	if !strings.Contains(page, `name="next" value="/lessons/helpful?window=7d"`) || strings.Contains(page, "refresh") {
		t.Errorf("the login page is %q, want `name=\"next\" value=\"/lessons/helpful?window=7d\"` and no \"refresh\"", page)
	}
	for next, want := range map[string]string{
		"": "/", "/queue": "/queue", "/lessons?sort=-effect": "/lessons?sort=-effect", "/sessions/a%2Fb": "/sessions/a%2Fb",
		"//evil.example/": "/", `/\evil.example`: "/", "https://evil.example/": "/", "javascript:alert(1)": "/", "queue": "/", "/\nx": "/",
	} {
		res := f.do(t, "POST", "/login", form(nil, url.Values{"token": {token}, "next": {next}}))
		if got := res.Header.Get("Location"); res.StatusCode != 303 || got != want {
			t.Errorf("the login with next=%q: got status %d and Location %q, want 303 and %q", next, res.StatusCode, got, want)
		}
	}
	for from, want := range map[string]bool{"http://127.0.0.1:8081/queue?page=2": true, "http://evil.example/queue?page=2": false} {
		page := body(t, f.do(t, "POST", "/lessons/helpful/pause", func(r *http.Request) {
			form(nil, nil)(r)
			r.Host = "127.0.0.1:8081"
			r.Header.Set("Referer", from)
		}))
		if strings.Contains(page, `name="next" value="/queue?page=2"`) != want {
			t.Errorf("the login page after a form on %s returns to that form: %v, want %v: %s", from, !want, want, page)
		}
	}
	// A browser omits the SameSite=Strict cookie after a link on another site. The login page reloads the address.
	crossSite := func(r *http.Request) { form(nil, nil)(r); r.Header.Set("Sec-Fetch-Site", "cross-site") }
	if page := body(t, f.do(t, "GET", "/queue", crossSite)); !strings.Contains(page, `http-equiv="refresh" content="0"`) {
		t.Error("a link of another site asks a logged-in browser for the token, want a refresh of the page")
	}
}

// Behind a proxy that terminates TLS the cookie has the Secure attribute.
func TestCookieIsSecureBehindTLSProxy(t *testing.T) {
	f := newFixture(t, nil)
	for proto, want := range map[string]bool{"": false, "http": false, "https": true} {
		res := f.do(t, "POST", "/login", func(r *http.Request) {
			form(nil, url.Values{"token": {token}})(r)
			r.Header.Set("X-Forwarded-Proto", proto)
		})
		if c := res.Cookies(); len(c) != 1 || c[0].Secure != want {
			t.Errorf("X-Forwarded-Proto %q: got cookies %v, want one cookie with Secure %v", proto, c, want)
		}
	}
}

// A button acts on the text and the state that the page showed.
func TestButtonsActOnTheShownVersion(t *testing.T) {
	f, lib, keeper := withLessons(t, nil)
	cookie, csrf := f.browser(t)
	l, ok := lib.Book().Get("helpful")
	if !ok {
		t.Fatal("the library has no lesson helpful, want the lesson")
	}
	for _, at := range []string{"/lessons/helpful", "/queue"} {
		page := body(t, f.do(t, "GET", at, form(cookie, nil)))
		if !strings.Contains(page, `<input type="hidden" name="text" value="`) || !strings.Contains(page, `<input type="hidden" name="state" value="`) {
			t.Errorf("%s: the forms lack the hash or the state of the shown lesson, want both", at)
		}
	}
	f.do(t, "POST", "/lessons/helpful/pause", form(cookie, url.Values{csrfField: {csrf}, "text": {l.ContentHash}, "state": {string(l.State)}}))
	if want := (lesson.SeenVersion{Hash: l.ContentHash, State: l.State}); keeper.seen != want {
		t.Errorf("the keeper got seen version %+v, want %+v", keeper.seen, want)
	}
}

// The function inUse of page.js reports whether a person has changed a control of the page. The function refresh
// replaces the main part. If the server refuses or does not answer, the page states the reason.
func TestBrowserRefreshKeepsControlsInUse(t *testing.T) {
	b := newTab(t)
	f := newFixture(t, func(o *Options) { o.Now = time.Now })
	server := httptest.NewServer(f)
	t.Cleanup(server.Close)
	b.do(t, chromedp.Navigate(LoginLink(server.URL, token)), chromedp.WaitVisible(chromedp.CSS("main h1")))
	const refreshed = `(async () => { document.querySelector("main").id = "before"; await refresh(); return document.querySelector("main").id })()`
	if got := b.eval(t, `(document.querySelector("[name=tenant]").value = "other", inUse(document.querySelector("main")))`); got != "true" {
		t.Error("inUse returns " + got + " for a changed filter, want true")
	}
	if got := b.eval(t, `(document.querySelector("[name=tenant]").value = "default", inUse(document.querySelector("main")))`); got != "false" {
		t.Error("inUse returns " + got + " for unchanged filters, want false")
	}
	if got := evalPromise(t, b, refreshed); got != "main" {
		t.Errorf("the id of the main part after a refresh is %q, want \"main\", because a new part replaces the old", got)
	}
	f.sessions.mu.Lock()
	clear(f.sessions.byID)
	f.sessions.mu.Unlock()
	const staleText = `(async () => { await refresh(); return document.getElementById("stale").textContent })()`
	if got := evalPromise(t, b, staleText); !strings.Contains(got, "login has expired") {
		t.Errorf("without a login the notice is %q, want \"login has expired\"", got)
	}
	server.Close()
	if got := evalPromise(t, b, staleText); !strings.Contains(got, "precept does not answer") {
		t.Errorf("without a server the notice is %q, want \"precept does not answer\"", got)
	}
}

// A refresh keeps the result of the last action and the focus of the main part. The refresh of an open page does not
// take the notice of a form of another tab.
func TestBrowserRefreshKeepsNoticeAndFocus(t *testing.T) {
	b := newTab(t)
	f := newFixture(t, func(o *Options) { o.Now = time.Now })
	server := httptest.NewServer(f)
	t.Cleanup(server.Close)
	b.do(t, chromedp.Navigate(LoginLink(server.URL, token)), chromedp.WaitVisible(chromedp.CSS("main h1")))
	keep := func(text string) {
		f.sessions.mu.Lock()
		defer f.sessions.mu.Unlock()
		for _, x := range f.sessions.byID {
			x.notice = notice{text: text}
		}
	}
	keep("first")
	b.do(t, chromedp.Navigate(server.URL+"/"), chromedp.WaitVisible(chromedp.CSS(".notice")))
	keep("second")
	const refreshTwice = `(async () => { document.querySelector("main").focus(); await refresh(); await refresh();
		return document.activeElement.id + " " + [...document.querySelectorAll(".notice")].map(n => n.textContent + n.role).join() })()`
	if got := evalPromise(t, b, refreshTwice); got != "main firstnull" {
		t.Errorf("the focus and the notices after two refreshes are %q, want \"main firstnull\"", got)
	}
	b.do(t, chromedp.Navigate(server.URL+"/"), chromedp.WaitVisible(chromedp.CSS(".notice[role=status]")))
	if got := b.eval(t, `document.querySelector(".notice").textContent`); got != "second" {
		t.Errorf("the notice of the next page is %q, want \"second\"", got)
	}
}

// Escape folds the part with the focus, and its summary gets the focus.
func TestBrowserEscapeFoldsThePartWithTheFocus(t *testing.T) {
	b := newTab(t)
	f, _, _ := withLessons(t, func(o *Options) { o.Now = time.Now })
	server := httptest.NewServer(f)
	t.Cleanup(server.Close)
	b.do(t, chromedp.Navigate(LoginLink(server.URL, token)), chromedp.Navigate(server.URL+"/lessons/helpful"), chromedp.WaitVisible(chromedp.CSS(".asks summary")))
	b.eval(t, `document.querySelector(".asks summary").focus()`)
	b.keys(t, "\r")
	b.do(t, chromedp.WaitVisible(chromedp.CSS(".asks[open] button")))
	b.keys(t, "\t")
	const state = `document.activeElement.tagName + " " + document.querySelectorAll(".asks[open]").length`
	if got := b.eval(t, state); got != "BUTTON 1" {
		t.Errorf("the focus and the number of open parts after Enter and Tab are %q, want \"BUTTON 1\"", got)
	}
	b.keys(t, kb.Escape)
	if got := b.eval(t, state); got != "SUMMARY 0" {
		t.Errorf("the focus and the number of open parts after Escape are %q, want \"SUMMARY 0\"", got)
	}
}

// The button Back shows a page of the dashboard after a login, and the login form after a logout. No step repeats a
// write.
func TestBrowserBackAfterLoginActionAndLogout(t *testing.T) {
	b := newTab(t)
	f, _, keeper := withLessons(t, func(o *Options) { o.Now = time.Now })
	server := httptest.NewServer(f)
	t.Cleanup(server.Close)
	back := func(want string) {
		t.Helper()
		b.eval(t, `(document.documentElement.dataset.before = "1", history.back())`)
		b.do(t, chromedp.WaitVisible(chromedp.CSS("html:not([data-before]) "+want)))
	}
	b.do(t,
		chromedp.Navigate(server.URL+"/login"), chromedp.SendKeys(chromedp.CSS("#token"), token), chromedp.Click(chromedp.CSS("button")),
		chromedp.WaitVisible(chromedp.CSS("header nav")),
	)
	back("header nav")
	b.do(t,
		chromedp.Navigate(server.URL+"/lessons"), chromedp.WaitVisible(chromedp.CSS("table")), chromedp.Navigate(server.URL+"/lessons/helpful"),
		chromedp.Click(chromedp.CSS(".asks summary")), chromedp.Click(chromedp.CSS(".asks form button")), chromedp.WaitVisible(chromedp.CSS(".notice[role=status]")),
	)
	back("main h1")
	if got := b.eval(t, "location.pathname"); keeper.count != 1 || !strings.HasPrefix(got, "/lessons") {
		t.Errorf("after an action and Back the page is %s and the keeper got %d calls, want a page of lessons and 1 call", got, keeper.count)
	}
	b.do(t, chromedp.Click(chromedp.CSS(`form[action="/logout"] button`)), chromedp.WaitVisible(chromedp.CSS("#token")))
	back("#token")
	if keeper.count != 1 {
		t.Errorf("the keeper got %d calls, want 1: Back repeats no write", keeper.count)
	}
}

// evalPromise evaluates a promise to a string.
func evalPromise(t *testing.T, b *tab, expression string) string {
	t.Helper()
	text, err := chromedp.Run(b.ctx, chromedp.Evaluate[string](expression, chromedp.EvalAwaitPromise))
	if err != nil {
		t.Fatalf("%s: got %v, want no error", expression, err)
	}
	return text
}
