package proxy_test

import (
	"context"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"precept/inject/bank"
	"precept/inject/lesson"
)

type endpoint struct {
	method, path, body string
	status             int
}

const feedbackBody = `{"session_id":"s","source":"user","type":"rejection","comment":"a private comment"}`

func endpoints() []endpoint {
	return []endpoint{
		{"POST", "/v1/feedback", feedbackBody, 202},
		{"POST", "/v1/feedback", "[" + feedbackBody + "," + feedbackBody + "]", 202},
		{"POST", "/v1/lessons", `{"signature":"open the page","lesson_text":"Send the header."}`, 201},
		{"GET", "/v1/lessons", "", 200},
		{"GET", "/v1/lessons?limit=1", "", 200},
		{"GET", "/v1/lessons?limt=1", "", 422},
		{"GET", "/v1/lessons/fetch", "", 200},
		{"PATCH", "/v1/lessons/fetch", `{"lesson_text":"Send both headers."}`, 200},
		{"DELETE", "/v1/lessons/fetch", "", 204},
		{"GET", "/healthz", "", 200},
		{"HEAD", "/healthz", "", 200},
		{"GET", "/readyz", "", 200},
		{"HEAD", "/readyz", "", 200},
		// An invalid feedback request can still contain feedback, so precept does not forward such a request.
		{"PUT", "/v1/feedback", feedbackBody, 405},
		{"GET", "/v1/feedback", "", 405},
		{"POST", "/v1/feedback/s", feedbackBody, 404},
		{"PUT", "/v1/lessons", `{}`, 405},
		{"POST", "/v1/lessons/fetch", `{}`, 405},
		{"POST", "/v1/lessons/fetch/x", `{}`, 404},
		{"POST", "/healthz", "", 405},
		{"DELETE", "/readyz", "", 405},
	}
}

// baseForms returns the forms of a path that agents request, depending on the agent's base URL.
func baseForms(path string) map[string]string {
	bare := strings.TrimPrefix(path, "/v1")
	slashed, query, _ := strings.Cut(path, "?")
	slashed += "/"
	if query != "" {
		slashed += "?" + query
	}
	return map[string]string{
		"as documented":                      path,
		"without the version":                bare,
		"two versions":                       "/v1" + "/v1" + bare,
		"trailing slash":                     slashed,
		"doubled leading slash":              "/" + path,
		"doubled inner slash":                "/v1/" + bare,
		"tripled slashes":                    strings.ReplaceAll("/v1"+bare, "/", "///"),
		"after an API path":                  "/v1/chat/completions" + path,
		"after the upstream's path":          "/gateway/openai" + bare,
		"after the upstream's path, version": "/gateway/openai" + path,
		"escaped letter":                     strings.NewReplacer("feedback", "%66eedback", "lessons", "l%65ssons", "healthz", "healt%68z").Replace(path),
	}
}

func agentForms(path string) map[string]string {
	return map[string]string{
		"plain":                    path,
		"path form":                "/p/agent=coder,session=s" + path,
		"escaped path form":        "/p/agent%3Dcoder%2Csession%3Ds" + path,
		"path form, doubled slash": "/p/agent=coder,session=s/" + path,
		"doubled slash, path form": "//p/agent=coder,session=s" + path,
	}
}

func TestEndpointsUnderEveryBaseURL(t *testing.T) {
	up := newUpstream(t, nil)
	f := newFixture(t, up, "", nil, map[string]string{"upstream": up.URL + "/gateway/openai"})
	f.Options().Bank = newOneLessonBank()
	listener := httptest.NewServer(f.Handler())
	t.Cleanup(listener.Close)
	f.url = listener.URL
	for _, e := range endpoints() {
		for base, path := range baseForms(e.path) {
			for form, path := range agentForms(path) {
				res, body := f.send(t, e.method, path, http.Header{"Precept-Agent": {"coder"}}, e.body)
				if res.StatusCode != e.status || e.status == http.StatusMethodNotAllowed && res.Header.Get("Allow") == "" {
					t.Errorf("%s, %s: %s %s: got status %d, Allow %q, body %.200s, want status %d, and an Allow header if the status is 405", base, form, e.method, path, res.StatusCode, res.Header.Get("Allow"), body, e.status)
				}
			}
		}
	}
	if up.requestCount() > 0 {
		t.Errorf("the upstream got %d requests, want 0; last request: %+v", up.requestCount(), up.lastRequest(t))
	}
}

type oneLessonBank struct{ lesson *lesson.Lesson }

func newOneLessonBank() oneLessonBank {
	return oneLessonBank{&lesson.Lesson{
		Slug: "fetch", Title: "Fetch the page", Advice: "Send the header.", Trigger: lesson.Trigger{Keywords: []string{"page"}},
		Scope: lesson.Scope{Tenant: "default", Agent: "coder"}, Approval: lesson.Approval{Source: "api"},
	}}
}

func (o oneLessonBank) List(context.Context) (*lesson.Book, []lesson.Problem, error) {
	return lesson.NewBook([]*lesson.Lesson{o.lesson}), nil, nil
}

func (o oneLessonBank) Propose(context.Context, bank.Proposal) (bank.Result, error) {
	return bank.Result{Lesson: o.lesson}, nil
}

func (o oneLessonBank) Revise(context.Context, string, bank.Proposal) (bank.Result, error) {
	return bank.Result{Lesson: o.lesson}, nil
}

func (o oneLessonBank) Record(context.Context, bank.Proposal) (bank.Result, bank.RecordOutcome, error) {
	return bank.Result{Lesson: o.lesson}, bank.RecordedNew, nil
}

func (o oneLessonBank) Withdraw(context.Context, string, lesson.Scope, string) error { return nil }

func TestFeedbackFromOptedOutAgentIsIgnored(t *testing.T) {
	f := newFixture(t, newUpstream(t, nil), "", nil, map[string]string{"learning.opt_out_agents": "[coder]"})
	for path, want := range map[string]string{"/p/agent=coder/v1/feedback": "ignored", "/p/agent=other/v1/feedback": "parked", "/v1/feedback": "parked"} {
		if _, body := f.send(t, "POST", path, nil, feedbackBody); !strings.Contains(string(body), `"status":"`+want+`"`) {
			t.Errorf("feedback to %s: body = %s, want status %s", path, body, want)
		}
	}
}

// In the path of an API that precept knows, precept removes repeated and trailing slashes. In other paths, precept
// removes only the repeated slashes before and after /v1.
func TestSlashesInForwardedPath(t *testing.T) {
	up := newUpstream(t, nil)
	f := newDefaultFixture(t, up)
	for requested, want := range map[string]string{
		"/v1//chat/completions":                    "/v1/chat/completions",
		"//v1/chat/completions":                    "/v1/chat/completions",
		"/v1/chat//completions/":                   "/v1/chat/completions",
		"/p/agent=coder//v1//chat/completions//":   "/v1/chat/completions",
		"//chat/completions/?a=b//":                "/v1/chat/completions?a=b//",
		"/v1/responses/":                           "/v1/responses",
		"/v1//messages/?beta=true":                 "/v1/messages?beta=true",
		"/v1/messages//count_tokens/":              "/v1/messages/count_tokens",
		"/https://api.example/v1/chat/completions": "/v1/https://api.example/v1/chat/completions",
		"//v1/models":                              "/v1/models",
		"/v1//models":                              "/v1/models",
		"/v1/models/":                              "/v1/models/",
		"/v1/files/a//b/":                          "/v1/files/a//b/",
		"/v1/threads/t//messages/":                 "/v1/threads/t//messages/",
		"/v1/files/feedback":                       "/v1/files/feedback",
		"/v1/feedbacks":                            "/v1/feedbacks",
		"/v1/messages/m/feedback":                  "/v1/messages/m/feedback",
		"/v1/lessons":                              "/v1/lessons", // without a lesson bank, this path belongs to the upstream
		"/lessons":                                 "/v1/lessons",
		"/v1/healthz/x":                            "/v1/healthz/x",
	} {
		f.send(t, "POST", requested, nil, hiRequest)
		if got := up.lastRequest(t).uri; got != want {
			t.Errorf("%s was forwarded to %s, want %s", requested, got, want)
		}
	}
}

func TestPathWithDoubledSlashGetsLessons(t *testing.T) {
	up := newUpstream(t, nil)
	f := newFixture(t, up, "", newBook(t, "one: fix the build"), injectAll())
	for _, path := range []string{"/v1//chat/completions", "/v1/chat/completions/", "//v1/chat/completions", "/p/agent=x//v1/chat/completions/"} {
		f.send(t, "POST", path, nil, `{"messages":[{"role":"user","content":"Please fix the build"}]}`)
		if body := string(up.lastRequest(t).body); !strings.Contains(body, "[one]") {
			t.Errorf("%s: the upstream got %s, want lesson one", path, body)
		}
	}
}
