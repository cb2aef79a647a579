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

type fakeLessonService struct {
	lastCall string // arguments of the latest call of Act: slug, action, epsilon, half-width, author and number of picks
	count    int
	seen     lesson.SeenVersion // version in the latest call of Act
	err      error              // error that each call returns
}

func (f *fakeLessonService) Act(_ context.Context, slug string, seen lesson.SeenVersion, a lesson.Action, plan lesson.TrialPlan, by string) (*lesson.Lesson, error) {
	f.lastCall = fmt.Sprint(slug, " ", a, " ", plan.Epsilon, " ", plan.Until, " ", by)
	f.seen = seen
	f.count++
	if plan.Picks > 0 {
		f.lastCall += fmt.Sprint(" ", plan.Picks)
	}
	return &lesson.Lesson{Slug: slug, State: lesson.Trial, ContentHash: "abc"}, f.err
}

type noDataReporter struct{}

func (noDataReporter) Report(context.Context, ReportQuery) (report.Report, error) {
	return report.Build(report.Input{Lessons: []report.Lesson{{Slug: "look-twice", Arm: "look-twice@1"}}}), nil
}

func TestActionEndpointCallsLessonService(t *testing.T) {
	for _, tc := range []struct {
		name, path, body string
		call             string // expected lastCall, with WHO in place of the author
		status           int
		fail             error // error that the lesson service returns
	}{
		{"approve", "look-twice/approve", "", "look-twice approve 0 0 WHO", 200, nil},
		{"a trial with the default settings", "look-twice/trial", "", "look-twice trial 0 0 WHO", 200, nil},
		{"a trial with epsilon and half-width", "look-twice/trial", `{"epsilon":0.4,"until_halfwidth":0.03}`, "look-twice trial 0.4 0.03 WHO", 200, nil},
		{"a planned trial with 800 picks", "look-twice/trial", `{"picks":800}`, "look-twice trial 0 0 WHO 800", 200, nil},
		{"a planned trial for a detectable effect", "look-twice/trial", `{"detect":0.05,"power":0.8,"epsilon":0.5}`, "look-twice trial 0.5 0 WHO 3014", 200, nil},
		{"a dry run", "look-twice/trial", `{"detect":0.05,"dry_run":true}`, "", 200, nil},
		{"a planned trial for an unknown lesson", "nobody/trial", `{"picks":800}`, "", 404, nil},
		{"picks and half-width", "look-twice/trial", `{"picks":800,"until_halfwidth":0.1}`, "", 400, nil},
		{"picks and detectable effect", "look-twice/trial", `{"picks":800,"detect":0.1}`, "", 400, nil},
		{"too few picks", "look-twice/trial", `{"picks":8}`, "", 400, nil},
		{"too many picks for the detectable effect", "look-twice/trial", `{"detect":0.0001}`, "", 400, nil},
		{"a dry run without a plan", "look-twice/trial", `{"dry_run":true}`, "", 400, nil},
		{"picks for an approval", "look-twice/approve", `{"picks":800}`, "", 400, nil},
		{"epsilon 1", "look-twice/trial", `{"epsilon":1}`, "", 400, nil},
		{"an epsilon for a pause", "look-twice/pause", `{"epsilon":0.5}`, "", 400, nil},
		{"a misspelt key", "look-twice/trial", `{"epsilom":0.5}`, "", 400, nil},
		{"a body that is not JSON", "look-twice/trial", `epsilon=0.5`, "", 400, nil},
		{"an unknown action", "look-twice/eat", "", "", 404, nil},
		{"an unknown lesson", "nobody/retire", "", "nobody retire 0 0 WHO", 404, ErrNoLesson},
		{"an action refused by the lesson service", "look-twice/approve", "", "look-twice approve 0 0 WHO", 409, errors.New("it expired")},
	} {
		t.Run(tc.name, func(t *testing.T) {
			lessonService := &fakeLessonService{err: tc.fail}
			f := newFixture(t, func(o *Options) { o.Write.Lessons, o.Read.Report = lessonService, noDataReporter{} })
			res := f.do(t, "POST", "/api/lessons/"+tc.path, func(r *http.Request) {
				bearer(token)(r)
				r.Body = io.NopCloser(strings.NewReader(tc.body))
				r.Header.Set("Content-Type", "application/x-www-form-urlencoded") // the content type that curl -d sends with any body
			})
			call := strings.Replace(tc.call, "WHO", tokenAuthor(), 1)
			if text := body(t, res); res.StatusCode != tc.status {
				t.Errorf("status = %d, want %d, body %s", res.StatusCode, tc.status, text)
			} else if lessonService.lastCall != call {
				t.Errorf("lastCall = %q, want %q", lessonService.lastCall, call)
			}
		})
	}
}

// tokenAuthor returns the author that the lesson service receives for the test token: the role of the token and the
// first digits of its digest.
func tokenAuthor() string { return fmt.Sprintf("operator %x", sha256.Sum256([]byte(token)))[:17] }

func TestActionRequiresTokenAndCSRF(t *testing.T) {
	lessonService := &fakeLessonService{}
	f := newFixture(t, func(o *Options) { o.Write.Lessons = lessonService })
	if res := f.do(t, "POST", "/api/lessons/a/retire", func(*http.Request) {}); res.StatusCode != http.StatusUnauthorized {
		t.Errorf("without a token: got status %d, want 401", res.StatusCode)
	}
	cookie, _ := f.logIn(t)
	if res := f.do(t, "POST", "/api/lessons/a/retire", func(r *http.Request) { r.AddCookie(cookie) }); res.StatusCode != http.StatusForbidden {
		t.Errorf("without a CSRF token: got status %d, want 403", res.StatusCode)
	}
	if res := f.do(t, "GET", "/api/lessons/a/retire", bearer(token)); res.StatusCode == http.StatusOK {
		t.Error("GET /api/lessons/a/retire: got status 200, want an error status")
	}
	if lessonService.lastCall != "" {
		t.Errorf("lesson service call = %q, want none", lessonService.lastCall)
	}
}
