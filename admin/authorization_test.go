package admin

import (
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"

	"github.com/labstack/echo/v4"
)

// This test sends requests to all routes except the profiler routes /trace and /profile, which take seconds to respond.
func TestEveryRouteRefusesUnauthorizedRequests(t *testing.T) {
	f, lessonService, id := newRoleFixture(t)
	cookie, csrf := f.logIn(t)
	openRoutes := []string{"/healthz", "/readyz", "/login", "/static/:name"} // these routes need no token
	parameters := strings.NewReplacer(":slug", "helpful", ":session", id, ":action", "approve", ":profile", "heap", ":name", "style.css", "/help/*", "/help/DASHBOARD", "/*", "/nothing-here")
	checkStatus := func(method, path string, status int, sender string, change func(*http.Request)) {
		t.Helper()
		res := f.do(t, method, path, change)
		h := res.Header
		if res.StatusCode != status {
			t.Errorf("%s %s, %s: got status %d, want %d", method, path, sender, res.StatusCode, status)
		}
		if h.Get("Cache-Control") != "no-store" {
			t.Errorf(`%s %s, %s: Cache-Control = %q, want "no-store"`, method, path, sender, h.Get("Cache-Control"))
		} else if !strings.HasPrefix(h.Get("Content-Security-Policy"), "default-src 'none'; script-src 'self'") {
			t.Errorf(`%s %s, %s: Content-Security-Policy = %q, want prefix "default-src 'none'; script-src 'self'"`, method, path, sender, h.Get("Content-Security-Policy"))
		} else if h.Get("X-Content-Type-Options") != "nosniff" {
			t.Errorf(`%s %s, %s: X-Content-Type-Options = %q, want "nosniff"`, method, path, sender, h.Get("X-Content-Type-Options"))
		} else if h.Get("X-Frame-Options") != "DENY" {
			t.Errorf(`%s %s, %s: X-Frame-Options = %q, want "DENY"`, method, path, sender, h.Get("X-Frame-Options"))
		} else if h.Get("Access-Control-Allow-Origin") != "" {
			t.Errorf(`%s %s, %s: Access-Control-Allow-Origin = %q, want ""`, method, path, sender, h.Get("Access-Control-Allow-Origin"))
		}
		if got := h.Get("WWW-Authenticate") != ""; got != (status == http.StatusUnauthorized) {
			t.Errorf("%s %s, %s: got a WWW-Authenticate header = %v, want the header if and only if the status is 401", method, path, sender, got)
		}
		if text := body(t, res); status >= 400 && !strings.HasPrefix(text, `{"error":"`) {
			t.Errorf("%s %s, %s: got body %.100s, want an error in JSON", method, path, sender, text)
		}
	}
	routes := 0
	for _, r := range f.echo.Routes() {
		if r.Method == echo.RouteNotFound || strings.HasSuffix(r.Path, "/trace") || strings.HasSuffix(r.Path, "/profile") {
			continue
		}
		routes++
		path := parameters.Replace(r.Path)
		if r.Path == "/healthz" || r.Path == "/readyz" {
			checkStatus(r.Method, path, http.StatusOK, "foreign host", func(r *http.Request) { r.Host = "evil.example" })
		} else {
			checkStatus(r.Method, path, http.StatusForbidden, "foreign host", func(r *http.Request) { bearer(token)(r); r.Host = "evil.example" })
		}
		if slices.Contains(openRoutes, r.Path) {
			continue
		}
		checkStatus(r.Method, path, http.StatusUnauthorized, "no token", nil)
		checkStatus(r.Method, path, http.StatusUnauthorized, "cookie without a session", func(r *http.Request) { r.AddCookie(&http.Cookie{Name: cookieName, Value: strings.Repeat("0", 64)}) })
		if r.Method == http.MethodGet {
			continue
		}
		checkStatus(r.Method, path, http.StatusForbidden, "no CSRF token", func(r *http.Request) { r.AddCookie(cookie) })
		for _, origin := range []string{"http://evil.example", "null", "https://127.0.0.1:9"} {
			checkStatus(r.Method, path, http.StatusForbidden, "from "+origin, func(r *http.Request) {
				r.AddCookie(cookie)
				r.Header.Set(csrfHeader, csrf)
				r.Header.Set("Origin", origin)
			})
		}
	}
	if routes < 30 || lessonService.lastCall != "" {
		t.Errorf("got %d tested routes (want at least 30), call %q of the lesson service (want none)", routes, lessonService.lastCall)
	}
	get(t, f, "/sessions/"+id, http.StatusOK) // checks that no request has deleted the session
}

func TestFormResultAppearsOnTheNextPage(t *testing.T) {
	f, _, id := newRoleFixture(t)
	cookie, csrf := f.logIn(t)
	post := func(path string, values url.Values) (status int, notice string) {
		t.Helper()
		values.Set(csrfField, csrf)
		res := f.do(t, "POST", path, asBrowser(cookie, values))
		if res.StatusCode != http.StatusSeeOther {
			return res.StatusCode, body(t, res)
		}
		page := body(t, f.do(t, "GET", "/health", asBrowser(cookie, nil)))
		_, notice, _ = strings.Cut(page, `<p class="notice" role="status">`)
		notice, _, _ = strings.Cut(notice, "</p>")
		return res.StatusCode, notice
	}
	page := "/sessions/" + id
	for name, tc := range map[string]struct {
		path     string
		values   url.Values
		status   int
		wantText string
	}{
		"a rating":                      {page + "/rate", url.Values{"type": {"rejection"}}, 303, "Your rating is stored"},
		"a comment over the limit":      {page + "/rate", url.Values{"type": {"approval"}, "comment": {strings.Repeat("x", 4097)}}, 400, "longer than 4096 bytes"},
		"a comment at the limit":        {page + "/rate", url.Values{"type": {"approval"}, "comment": {strings.Repeat("x", 4096)}}, 303, "Your rating is stored"},
		"deletion without confirmation": {page + "/forget", url.Values{}, 303, "Nothing was deleted"},
		"deleting an unknown session":   {"/sessions/" + strings.Repeat("0", 32) + "/forget", url.Values{"sure": {"yes"}}, 303, "Nothing was stored for this session."},
		"pausing a lesson":              {"/lessons/helpful/pause", url.Values{}, 303, "helpful is trial now."},
		"an unknown action":             {"/lessons/helpful/eat", url.Values{}, 404, "Page not found"},
	} {
		if status, got := post(tc.path, tc.values); status != tc.status {
			t.Errorf("%s: status = %d, want %d", name, status, tc.status)
		} else if !strings.Contains(got, tc.wantText) {
			t.Errorf("%s: got %q, want substring %q", name, got, tc.wantText)
		}
	}
	if _, got := post(page+"/forget", url.Values{"sure": {"yes"}}); got != "The session is deleted: record, turns, samples and feedback." {
		t.Errorf(`deletion notice: got %q, want "The session is deleted: record, turns, samples and feedback."`, got)
	}
}
