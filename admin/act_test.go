package admin

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"

	"precept/bandit/report"
	"precept/inject/lesson"
)

// fakeKeeper records its calls.
type fakeKeeper struct {
	calls string // the newest call
	count int
	seen  lesson.SeenVersion
	err   error
}

func (f *fakeKeeper) Act(_ context.Context, slug string, seen lesson.SeenVersion, a lesson.Action, plan lesson.TrialPlan, by string) (*lesson.Lesson, error) {
	f.calls = fmt.Sprint(slug, " ", a, " ", plan.Epsilon, " ", plan.Until, " ", by)
	f.seen = seen
	f.count++
	if plan.Picks > 0 {
		f.calls += fmt.Sprint(" ", plan.Picks)
	}
	return &lesson.Lesson{Slug: slug, State: lesson.Trial, ContentHash: "abc"}, f.err
}

// planner reports one lesson without any data.
type planner struct{}

func (planner) Report(context.Context, Query) (report.Report, error) {
	return report.Build(report.Input{Lessons: []report.Lesson{{Slug: "look-twice", Arm: "look-twice@1"}}}), nil
}

func TestActRequestsReachTheKeeperOrFail(t *testing.T) {
	for _, c := range []struct {
		name, path, body, calls string
		status                  int
		fail                    error
	}{
		{"approve", "look-twice/approve", "", "look-twice approve 0 0 WHO", 200, nil},
		{"a trial as usual", "look-twice/trial", "", "look-twice trial 0 0 WHO", 200, nil},
		{"a trial", "look-twice/trial", `{"epsilon":0.4,"until_halfwidth":0.03}`, "look-twice trial 0.4 0.03 WHO", 200, nil},
		{"a planned trial", "look-twice/trial", `{"picks":800}`, "look-twice trial 0 0 WHO 800", 200, nil},
		{"as many as it takes", "look-twice/trial", `{"detect":0.05,"power":0.8,"epsilon":0.5}`, "look-twice trial 0.5 0 WHO 3014", 200, nil},
		{"what it costs", "look-twice/trial", `{"detect":0.05,"dry_run":true}`, "", 200, nil},
		{"a planned trial of nobody", "nobody/trial", `{"picks":800}`, "", 404, nil},
		{"both ends", "look-twice/trial", `{"picks":800,"until_halfwidth":0.1}`, "", 400, nil},
		{"both sizes", "look-twice/trial", `{"picks":800,"detect":0.1}`, "", 400, nil},
		{"too small", "look-twice/trial", `{"picks":8}`, "", 400, nil},
		{"too large", "look-twice/trial", `{"detect":0.0001}`, "", 400, nil},
		{"a dry run of no plan", "look-twice/trial", `{"dry_run":true}`, "", 400, nil},
		{"a plan of no trial", "look-twice/approve", `{"picks":800}`, "", 400, nil},
		{"a trial of nothing", "look-twice/trial", `{"epsilon":1}`, "", 400, nil},
		{"a plan without a trial", "look-twice/pause", `{"epsilon":0.5}`, "", 400, nil},
		{"an unknown member", "look-twice/trial", `{"epsilom":0.5}`, "", 400, nil},
		{"no JSON", "look-twice/trial", `epsilon=0.5`, "", 400, nil},
		{"an unknown action", "look-twice/eat", "", "", 404, nil},
		{"an unknown lesson", "nobody/retire", "", "nobody retire 0 0 WHO", 404, ErrNoLesson},
		{"it cannot be", "look-twice/approve", "", "look-twice approve 0 0 WHO", 409, errors.New("it expired")},
	} {
		t.Run(c.name, func(t *testing.T) {
			keeper := &fakeKeeper{err: c.fail}
			f := newFixture(t, func(o *Options) { o.Write.Keep, o.Read.Report = keeper, planner{} })
			res := f.do(t, "POST", "/api/lessons/"+c.path, func(r *http.Request) {
				bearer(token)(r)
				r.Body = io.NopCloser(strings.NewReader(c.body))
				r.Header.Set("Content-Type", "application/x-www-form-urlencoded") // as curl -d says of any body
			})
			// The journal names the author by the digest of the token.
			calls := strings.Replace(c.calls, "WHO", byToken(), 1)
			if text := body(t, res); res.StatusCode != c.status || keeper.calls != calls {
				t.Errorf("status %d %s, want %d; the keeper got the calls %q, want %q", res.StatusCode, text, c.status, keeper.calls, calls)
			}
		})
	}
}

// byToken returns the author's name that the journal has for the token.
func byToken() string { return fmt.Sprintf("operator %x", sha256.Sum256([]byte(token)))[:17] }

func TestActNeedsTokenAndCSRF(t *testing.T) {
	keeper := &fakeKeeper{}
	f := newFixture(t, func(o *Options) { o.Write.Keep = keeper })
	if res := f.do(t, "POST", "/api/lessons/a/retire", func(*http.Request) {}); res.StatusCode != http.StatusUnauthorized {
		t.Errorf("without a token: got status %d, want 401", res.StatusCode)
	}
	cookie, _ := f.browser(t)
	if res := f.do(t, "POST", "/api/lessons/a/retire", func(r *http.Request) { r.AddCookie(cookie) }); res.StatusCode != http.StatusForbidden {
		t.Errorf("without a CSRF token: got status %d, want 403", res.StatusCode)
	}
	if res := f.do(t, "GET", "/api/lessons/a/retire", bearer(token)); res.StatusCode == http.StatusOK {
		t.Error("GET /api/lessons/a/retire has status 200, want a refusal: only POST retires a lesson")
	}
	if keeper.calls != "" {
		t.Errorf("got the calls %q, want none", keeper.calls)
	}
}
