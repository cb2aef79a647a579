package admin

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/labstack/echo/v4"

	"precept/inject/backtest"
	"precept/inject/lesson"
)

const viewerToken = "only-to-look-at-the-numbers"

// newRoleFixture returns a server, its lesson service, and the id of its stored session. The server accepts viewerToken
// as a viewer token, and has data for every page.
func newRoleFixture(t *testing.T) (*fixture, *fakeLessonService, string) {
	t.Helper()
	s := newSessionStore(t, time.Date(2026, 5, 1, 12, 0, 0, 0, time.UTC))
	id := s.addSessionWithMarkup(t)
	lib, lessonService := newFakeLibrary(t), &fakeLessonService{}
	f := newStoreFixture(t, s, func(o *Options) {
		o.Read.Library, o.Read.Survey, o.Write.Lessons = lib, lib, lessonService
		o.Access.Viewers = []string{viewerToken}
	})
	return f, lessonService, id.String()
}

// A viewer token opens only the routes for which isViewable returns true, so a new route is closed to viewers at first.
// Viewers may list sessions, but they may not search sessions for words, tools or errors.
func TestViewerTokenReachesOnlyViewableRoutes(t *testing.T) {
	f, lessonService, id := newRoleFixture(t)
	openRoutes := []string{"/healthz", "/readyz", "/login", "/static/:name"} // these routes need no token
	parameters := strings.NewReplacer(":slug", "helpful", ":session", id, ":action", "approve", ":profile", "heap", "/help/*", "/help/DASHBOARD", "/*", "/nothing-here")
	viewed := 0
	for _, r := range f.echo.Routes() {
		if slices.Contains(openRoutes, r.Path) || r.Path == "/logout" || r.Method == echo.RouteNotFound {
			continue
		}
		res := f.do(t, r.Method, parameters.Replace(r.Path), bearer(viewerToken))
		text := body(t, res)
		want := http.StatusForbidden
		if r.Method == http.MethodGet && isViewable(r.Path) {
			want = http.StatusOK
			viewed++
		}
		if res.StatusCode != want || want == http.StatusForbidden && !strings.Contains(text, "viewer") {
			t.Errorf("%s %s: got status %d, body %.200s, want status %d", r.Method, r.Path, res.StatusCode, text, want)
		}
	}
	if viewed < 10 {
		t.Errorf("requests with a viewer token: viewed = %d, want at least 10", viewed)
	}
	if lessonService.lastCall != "" {
		t.Errorf(`requests with a viewer token: lastCall = %q, want ""`, lessonService.lastCall)
	}
	for _, target := range []string{"/sessions?words=flaky", "/api/sessions?error=exit", "/api/sessions?tool=bash"} {
		if res := f.do(t, "GET", target, bearer(viewerToken)); res.StatusCode != http.StatusForbidden {
			t.Errorf("%s with a viewer token: status = %d, want 403", target, res.StatusCode)
		} else if strings.Contains(body(t, res), "flaky") {
			t.Errorf(`%s with a viewer token: body contains "flaky"`, target)
		}
		if res := f.do(t, "GET", target, bearer(token)); res.StatusCode != http.StatusOK {
			t.Errorf("%s with an operator's token: got status %d, want 200", target, res.StatusCode)
		}
	}
	if res := f.do(t, "GET", "/nothing-here", bearer(viewerToken)); res.StatusCode != http.StatusNotFound {
		t.Errorf("unknown page with a viewer token: got status %d, want 404", res.StatusCode)
	}
}

// Viewers must not see a backtest, because a backtest quotes sentences of users.
func TestViewerGetsNoBacktest(t *testing.T) {
	const sentence = "Jane Doe rotates the database credentials"
	lib := newFakeLibrary(t)
	f := newFixture(t, func(o *Options) {
		o.Read.Library, o.Read.Survey = lib, sentenceSurvey{lib, sentence}
		o.Access.Viewers = []string{viewerToken}
	})
	get := func(target, token string) *http.Response {
		return f.do(t, "GET", target, func(r *http.Request) {
			bearer(token)(r)
			r.Header.Set("Accept", "text/html")
		})
	}
	for page, backtest := range map[string]string{"/lessons/helpful": "/lessons/helpful?backtest=1", "/queue": "/queue?backtest=newer"} {
		const link, fired = "Try the lesson", "would have fired"
		if text := body(t, get(page, viewerToken)); strings.Contains(text, link) {
			t.Errorf("%s for a viewer: body = %q, want no %q", page, text, link)
		} else if strings.Contains(text, "Backtest") {
			t.Errorf(`%s for a viewer: body = %q, want no "Backtest"`, page, text)
		}
		if text := body(t, get(page, token)); !strings.Contains(text, link) {
			t.Errorf("%s for an operator: got no link to the backtest, want one", page)
		}
		res := get(backtest, viewerToken)
		if text := body(t, res); res.StatusCode != http.StatusForbidden {
			t.Errorf("%s for a viewer: status = %d, want 403", backtest, res.StatusCode)
		} else if strings.Contains(text, sentence) {
			t.Errorf("%s for a viewer: body = %q, want no %q", backtest, text, sentence)
		} else if strings.Contains(text, fired) {
			t.Errorf("%s for a viewer: body = %q, want no %q", backtest, text, fired)
		}
		if text := body(t, get(backtest, token)); !strings.Contains(text, fired) {
			t.Errorf("%s for an operator: got no result of the backtest, want one", backtest)
		}
	}
}

// sentenceSurvey is a library whose backtests quote a sentence of a user.
type sentenceSurvey struct {
	*fakeLibrary
	sentence string
}

func (s sentenceSurvey) Backtest(context.Context, string, *lesson.Lesson) (backtest.Result, error) {
	like := backtest.LikenessCounts{Captured: 200, Sessions: 1, Examples: []backtest.LikenessExample{{Session: "s-1", Sentence: s.sentence}}}
	return backtest.Result{Sessions: 200, Matched: 1, Likeness: like}, nil
}

// If a viewer attempts an action, the server refuses it. The audit log contains the refused action with the role of the
// token and the first digits of its digest.
func TestViewerInBrowserIsReadOnlyAndAudited(t *testing.T) {
	f, lessonService, id := newRoleFixture(t)
	res := f.do(t, "GET", "/login?token="+url.QueryEscape(viewerToken), nil)
	if res.StatusCode != http.StatusSeeOther {
		t.Fatalf("login with a viewer token: status = %d, want 303", res.StatusCode)
	}
	if len(res.Cookies()) != 1 {
		t.Fatalf("login with a viewer token: Cookies = %+v, want 1 item", res.Cookies())
	}
	cookie := res.Cookies()[0]
	page := func(target string) string {
		return body(t, f.do(t, "GET", target, func(r *http.Request) {
			r.AddCookie(cookie)
			r.Header.Set("Accept", "text/html")
		}))
	}
	for _, target := range []string{"/lessons/helpful", "/queue"} {
		if got := page(target); strings.Contains(got, `class="actions"`) {
			t.Errorf(`page %s for a viewer = %q, want no "class=\"actions\""`, target, got)
		} else if strings.Contains(got, `class="decide"`) {
			t.Errorf(`page %s for a viewer = %q, want no "class=\"decide\""`, target, got)
		} else if !strings.Contains(got, `action="/logout"`) {
			t.Errorf(`page %s for a viewer = %q, want substring "action=\"/logout\""`, target, got)
		} else if !strings.Contains(got, ">viewer<") {
			t.Errorf(`page %s for a viewer = %q, want substring ">viewer<"`, target, got)
		}
	}
	list := page("/sessions")
	if strings.Contains(list, `href="/sessions/`) {
		t.Errorf(`sessions page for a viewer = %q, want no "href=\"/sessions/"`, list)
	}
	if strings.Contains(list, `href="/samples"`) {
		t.Errorf(`sessions page for a viewer = %q, want no "href=\"/samples\""`, list)
	}
	if strings.Contains(list, `name="words"`) {
		t.Errorf(`sessions page for a viewer = %q, want no "name=\"words\""`, list)
	}
	if got := page("/sessions/" + id); !strings.Contains(got, "For operators") {
		t.Errorf(`session page for a viewer = %q, want substring "For operators"`, got)
	} else if strings.Contains(got, "flaky") {
		t.Errorf(`session page for a viewer = %q, want no "flaky"`, got)
	}
	_, rest, _ := strings.Cut(page("/"), `name="csrf_token" value="`)
	csrf, _, _ := strings.Cut(rest, `"`)
	res = f.do(t, "POST", "/api/lessons/helpful/retire", func(r *http.Request) {
		r.AddCookie(cookie)
		r.Header.Set(csrfHeader, csrf)
	})
	if text := body(t, res); res.StatusCode != http.StatusForbidden {
		t.Errorf("retirement by a viewer: status = %d, want 403, body %s", res.StatusCode, text)
	} else if !strings.Contains(text, "cannot change anything") {
		t.Errorf(`retirement by a viewer: body = %q, want substring "cannot change anything"`, text)
	} else if lessonService.lastCall != "" {
		t.Errorf(`retirement by a viewer: lastCall = %q, want ""`, lessonService.lastCall)
	}
	body(t, f.do(t, "POST", "/api/lessons/helpful/pause", bearer(token)))
	digestStart := func(token string) string {
		sum := sha256.Sum256([]byte(token))
		return hex.EncodeToString(sum[:])[:8]
	}
	health := page("/health")
	for _, want := range []string{"127.0.0.1, browser, viewer " + digestStart(viewerToken), "127.0.0.1, token, operator " + digestStart(token), "retired the lesson helpful", "paused the lesson helpful"} {
		if !strings.Contains(health, want) {
			t.Errorf("the health page lacks the audit entry %q", want)
		}
	}
}

func TestViewerTokenFollowsReload(t *testing.T) {
	f, lessonService, _ := newRoleFixture(t)
	if err := f.SetAccess(Access{Tokens: []string{token, viewerToken}}); err != nil {
		t.Fatal(err)
	}
	if res := f.do(t, "POST", "/api/lessons/helpful/pause", bearer(viewerToken)); res.StatusCode != http.StatusOK {
		t.Errorf("pause with the token after it became an operator token: status = %d, want 200", res.StatusCode)
	} else if lessonService.lastCall == "" {
		t.Error("pause with the token after it became an operator token: lastCall is empty")
	}
	if err := f.SetAccess(Access{Tokens: []string{token}}); err != nil {
		t.Fatal(err)
	}
	if res := f.do(t, "GET", "/api/report", bearer(viewerToken)); res.StatusCode != http.StatusUnauthorized {
		t.Errorf("request with the token after it was removed: got status %d, want 401", res.StatusCode)
	}
	if err := f.SetAccess(Access{Viewers: []string{viewerToken}}); err == nil {
		t.Error("SetAccess without an operator token: err = nil, want an error")
	}
}
