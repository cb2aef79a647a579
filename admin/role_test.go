package admin

import (
	"crypto/sha256"
	"encoding/hex"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"
)

const lookToken = "only-to-look-at-the-numbers"

// withRoles starts a server with content on every page, and returns an operator's and a viewer's token.
func withRoles(t *testing.T) (*fixture, *fakeKeeper, string) {
	t.Helper()
	k := newKept(t, time.Date(2026, 5, 1, 12, 0, 0, 0, time.UTC))
	id := k.addHostileSession(t)
	lib, keeper := libraryOf(t), &fakeKeeper{}
	f := newViews(t, k, func(o *Options) {
		o.Read.Library, o.Read.Survey, o.Write.Keep = lib, lib, keeper
		o.Access.Viewers = []string{lookToken}
	})
	return f, keeper, id.String()
}

// With a viewer's token, each route that is not listed as viewable is refused, and so is each
// request that may change something. A new route is refused until it is listed.
func TestViewerTokenReachesOnlyViewableRoutes(t *testing.T) {
	f, keeper, id := withRoles(t)
	open := []string{"/healthz", "/readyz", "/login", "/static/:name"} // without any token
	fill := strings.NewReplacer(":slug", "helpful", ":session", id, ":action", "approve", ":profile", "heap", "/help/*", "/help/DASHBOARD", "/*", "/nothing-here")
	looked := 0
	for _, r := range f.echo.Routes() {
		if slices.Contains(open, r.Path) || r.Path == "/logout" || strings.Contains(r.Method, "route") {
			continue
		}
		res := f.do(t, r.Method, fill.Replace(r.Path), bearer(lookToken))
		text := body(t, res)
		want := http.StatusForbidden
		if r.Method == http.MethodGet && viewable(r.Path) {
			want = http.StatusOK
			looked++
		}
		if res.StatusCode != want || want == http.StatusForbidden && !strings.Contains(text, "viewer") {
			t.Errorf("%s %s: status %d, want %d: %.200s", r.Method, r.Path, res.StatusCode, want, text)
		}
	}
	if looked < 10 || keeper.calls != "" {
		t.Errorf("%d routes are tested, want at least 10; the keeper got the calls %q, want none", looked, keeper.calls)
	}
	for _, target := range []string{"/sessions?words=flaky", "/api/sessions?error=exit", "/api/sessions?tool=bash"} {
		if res := f.do(t, "GET", target, bearer(lookToken)); res.StatusCode != http.StatusForbidden || strings.Contains(body(t, res), "flaky") {
			t.Errorf(`%s: got %d, want status 403 and body(t, res) without "flaky"`, target, res.StatusCode)
		}
		if res := f.do(t, "GET", target, bearer(token)); res.StatusCode != http.StatusOK {
			t.Errorf("an operator: %s: got status %d, want 200", target, res.StatusCode)
		}
	}
	if res := f.do(t, "GET", "/nothing-here", bearer(lookToken)); res.StatusCode != http.StatusNotFound {
		t.Errorf("no such page: got status %d, want 404", res.StatusCode)
	}
}

// The browser of a viewer shows no form with an action and cannot send one. The attempt is in the
// audit with the role and the mark of the token, and so are the actions of an operator.
func TestViewerBrowserCannotActAndIsAudited(t *testing.T) {
	f, keeper, id := withRoles(t)
	res := f.do(t, "GET", "/login?token="+url.QueryEscape(lookToken), nil)
	if res.StatusCode != http.StatusSeeOther || len(res.Cookies()) != 1 {
		t.Fatalf("login: got status %d, %d cookies, want 303 and one cookie", res.StatusCode, len(res.Cookies()))
	}
	cookie := res.Cookies()[0]
	page := func(target string) string {
		return body(t, f.do(t, "GET", target, func(r *http.Request) {
			r.AddCookie(cookie)
			r.Header.Set("Accept", "text/html")
		}))
	}
	for _, target := range []string{"/lessons/helpful", "/queue"} {
		if got := page(target); strings.Contains(got, `class="actions"`) || strings.Contains(got, `class="decide"`) || !strings.Contains(got, `action="/logout"`) || !strings.Contains(got, ">viewer<") {
			t.Errorf("%s: want a page with the logout and the role of a viewer, and without actions of operators", target)
		}
	}
	list := page("/sessions")
	if strings.Contains(list, `href="/sessions/`) || strings.Contains(list, `href="/samples"`) || strings.Contains(list, `name="words"`) {
		t.Error("the list has links to the texts of sessions, want none for a viewer")
	}
	if got := page("/sessions/" + id); !strings.Contains(got, "For operators") || strings.Contains(got, "flaky") {
		t.Error("a viewer reads a session, or gets no explanation")
	}
	_, rest, _ := strings.Cut(page("/"), `name="csrf_token" value="`)
	csrf, _, _ := strings.Cut(rest, `"`)
	res = f.do(t, "POST", "/api/lessons/helpful/retire", func(r *http.Request) {
		r.AddCookie(cookie)
		r.Header.Set(csrfHeader, csrf)
	})
	if text := body(t, res); res.StatusCode != http.StatusForbidden || !strings.Contains(text, "cannot change anything") || keeper.calls != "" {
		t.Errorf("status %d %s, want 403 with \"cannot change anything\"; the keeper got the calls %q, want none", res.StatusCode, text, keeper.calls)
	}
	body(t, f.do(t, "POST", "/api/lessons/helpful/pause", bearer(token)))
	mark := func(token string) string {
		sum := sha256.Sum256([]byte(token))
		return hex.EncodeToString(sum[:])[:8]
	}
	health := page("/health")
	for _, want := range []string{"127.0.0.1, browser, viewer " + mark(lookToken), "127.0.0.1, token, operator " + mark(token), "retired the lesson helpful", "paused the lesson helpful"} {
		if !strings.Contains(health, want) {
			t.Errorf("the audit has no %q", want)
		}
	}
}

// A reload adds and removes a viewer's token. A token that becomes an operator's token can act at
// once, also in an open browser.
func TestViewerTokenFollowsReload(t *testing.T) {
	f, keeper, _ := withRoles(t)
	if err := f.SetAccess(Access{Tokens: []string{token, lookToken}}); err != nil {
		t.Fatal(err)
	}
	if res := f.do(t, "POST", "/api/lessons/helpful/pause", bearer(lookToken)); res.StatusCode != http.StatusOK || keeper.calls == "" {
		t.Errorf("as an operator: got status %d, calls %q, want 200 and a call", res.StatusCode, keeper.calls)
	}
	if err := f.SetAccess(Access{Tokens: []string{token}}); err != nil {
		t.Fatal(err)
	}
	if res := f.do(t, "GET", "/api/report", bearer(lookToken)); res.StatusCode != http.StatusUnauthorized {
		t.Errorf("after the removal of the token: status %d, want 401", res.StatusCode)
	}
	if err := f.SetAccess(Access{Viewers: []string{lookToken}}); err == nil {
		t.Error("no token can change the configuration")
	}
}
