package admin

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/hex"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"time"

	"precept/bandit/feedback"
	"precept/bandit/report"
	"precept/inject/backtest"
	"precept/inject/lesson"
	"precept/inject/rules"
	"precept/store"
)

const token = "correct-horse-battery-staple"

type fakeReports struct {
	report    report.Report
	err       error
	lastQuery ReportQuery
}

func (f *fakeReports) Report(_ context.Context, q ReportQuery) (report.Report, error) {
	f.lastQuery = q
	return f.report, f.err
}

// fixture is a dashboard server. Its clock shows the time now, and moves only when a test changes now.
type fixture struct {
	*Server
	reports *fakeReports
	log     *bytes.Buffer
	now     time.Time
}

func newFixture(t *testing.T, change func(*Options)) *fixture {
	t.Helper()
	f := &fixture{reports: &fakeReports{report: sampleReport()}, log: &bytes.Buffer{}, now: time.Date(2026, 5, 1, 12, 0, 0, 0, time.UTC)}
	o := newOptions(f.reports, func() time.Time { return f.now })
	o.Log = slog.New(slog.NewTextHandler(f.log, nil))
	if change != nil {
		change(&o)
	}
	s, err := New(o)
	if err != nil {
		t.Fatal(err)
	}
	f.Server = s
	return f
}

// newOptions returns options for a dashboard with the given reports and no other data.
func newOptions(reports *fakeReports, now func() time.Time) Options {
	return Options{
		Access: Access{Tokens: []string{token}}, Address: Address{Listen: "127.0.0.1:8081"},
		Read:  Readers{Report: reports, Library: emptyLibrary{}, Survey: emptySource{}, Archive: emptyArchive{}, Export: &fakeExport{}, Rules: emptySource{}},
		Write: Writers{Lessons: &fakeLessonService{}, Rate: emptySource{}, Forget: &fakeForgetter{}, Notes: memoryNotes{}},
		Program: Program{
			Figures: func(context.Context) []Figure { return nil },
			Health:  func(context.Context) Health { return Health{} },
			Prices:  func() Prices { return Prices{} },
			Ready:   func() (string, error) { return "ok", nil },
			Metrics: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "precept_requests_total 7\n") }),
		},
		Random: rand.Reader, Now: now, Log: slog.New(slog.DiscardHandler),
	}
}

// emptySource is a data source for the dashboard that contains no data.
type emptySource struct{}

func (emptySource) Book() *lesson.Book { return lesson.NewBook(nil) }

func (emptySource) Log(context.Context, int) ([]lesson.Event, error) { return nil, nil }

func (emptySource) Findings(*lesson.Lesson) []lesson.Finding { return nil }

func (emptySource) Rules() *rules.Registry { return &rules.Registry{} }

func (emptySource) ScanRules(context.Context, string) (*rules.Scan, error) { return &rules.Scan{}, nil }

func (emptySource) Survey(context.Context, string) (*report.Survey, error) {
	return report.NewSurvey(time.Unix(1e9, 0)), nil
}

func (emptySource) Backtest(context.Context, string, *lesson.Lesson) (backtest.Result, error) {
	return backtest.Result{}, nil
}

func (emptySource) Browse(context.Context, store.SessionQuery) (store.SessionList, error) {
	return store.SessionList{}, nil
}

func (emptySource) Recent(context.Context, string, time.Time, time.Time) (store.Recent, error) {
	return store.Recent{}, nil
}

func (emptySource) BrowseOrdered(context.Context, *store.Recent, *store.SessionQuery, func(x, y *store.SessionItem) int) (store.SessionList, error) {
	return store.SessionList{}, nil
}

func (emptySource) Run(context.Context, string, string) (store.RunSessions, error) {
	return store.RunSessions{}, store.ErrNoSession
}

func (emptySource) Nearest(context.Context, string, string, []string) ([]backtest.Reason, error) {
	return nil, nil
}

func (emptySource) Transcript(context.Context, string, string, int) (store.Transcript, error) {
	return store.Transcript{}, store.ErrNoSession
}

func (emptySource) EachPart(context.Context, string, string, func(*store.Transcript) error) error {
	return store.ErrNoSession
}

func (emptySource) BrowseSamples(context.Context, *store.SampleQuery) (store.SampleList, error) {
	return store.SampleList{}, nil
}

func (emptySource) Rate(context.Context, string, feedback.Post) (store.Posted, error) {
	return store.Posted{}, store.ErrNoSession
}

// emptyLibrary and emptyArchive are separate types, because each has a method named Block and the signatures differ.
type (
	emptyLibrary struct{ emptySource }
	emptyArchive struct{ emptySource }
)

func (emptyLibrary) Archived(context.Context, string) (*lesson.Lesson, error) {
	return nil, ErrNoLesson
}

func (emptyLibrary) Block(string, *lesson.Lesson) string { return "" }

func (emptyArchive) InsertedText(context.Context, string, string, string) (string, error) {
	return "", store.ErrNoSession
}

// sampleReport returns a report on a lesson without data, a harmful lesson and a helpful lesson.
func sampleReport() report.Report {
	r := report.Report{GeneratedAt: time.Date(2026, 5, 1, 11, 0, 0, 0, time.UTC), RewardDefinition: "user, verifier, implicit"}
	r.SRM.OK, r.Reporting.OK = true, true
	r.Global.NTreated, r.Global.NControl, r.Global.Verdict = 950, 50, "unproven"
	r.Lessons = []report.Row{
		{Slug: "no-data-yet", State: "active", Matched: 3, NeedsPicks: 40, Verdict: "unproven"},
		{Slug: "harmful", State: "active", Effect: new(-0.04), Lo: new(-0.06), Hi: new(-0.02), Verdict: "harms"},
		{Slug: "helpful", State: "active", Effect: new(0.062), Lo: new(0.031), Hi: new(0.093), Verdict: "proven helps", NInjected: 800, NWithheld: 200},
	}
	return r
}

// do sends a request to the server and returns the response. If change is not nil, do calls it before it sends the
// request.
func (f *fixture) do(t *testing.T, method, target string, change func(*http.Request)) *http.Response {
	t.Helper()
	r := httptest.NewRequest(method, target, nil)
	r.Host = "127.0.0.1:8081"
	r.RemoteAddr = "127.0.0.1:40000"
	if change != nil {
		change(r)
	}
	w := httptest.NewRecorder()
	f.ServeHTTP(w, r)
	return w.Result()
}

func bearer(token string) func(*http.Request) {
	return func(r *http.Request) { r.Header.Set("Authorization", "Bearer "+token) }
}

func body(t *testing.T, r *http.Response) string {
	t.Helper()
	b, err := io.ReadAll(r.Body)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// logIn logs in with the admin token, and returns the session cookie and the CSRF token.
func (f *fixture) logIn(t *testing.T) (*http.Cookie, string) {
	t.Helper()
	res := f.do(t, "GET", "/login?token="+url.QueryEscape(token), nil)
	if res.StatusCode != http.StatusSeeOther {
		t.Fatalf("login: status = %d, want 303", res.StatusCode)
	}
	if res.Header.Get("Location") != "/" {
		t.Fatalf(`login: Location = %q, want "/"`, res.Header.Get("Location"))
	}
	if len(res.Cookies()) != 1 {
		t.Fatalf("login: Cookies = %+v, want 1 item", res.Cookies())
	}
	c := res.Cookies()[0]
	page := body(t, f.do(t, "GET", "/", func(r *http.Request) { r.AddCookie(c) }))
	_, rest, ok := strings.Cut(page, `name="csrf_token" value="`)
	if !ok {
		t.Fatal("overview: got no CSRF token")
	}
	csrf, _, _ := strings.Cut(rest, `"`)
	return c, csrf
}

func TestRequestWithoutValidTokenIsRefused(t *testing.T) {
	f := newFixture(t, nil)
	const canary = "canary' OR '1'='1"
	attempts := map[string]func(*http.Request){
		"no token":                         nil,
		"wrong token":                      bearer(canary),
		"empty token":                      bearer(""),
		"blank token":                      bearer("   "),
		"scheme without token":             func(r *http.Request) { r.Header.Set("Authorization", "Bearer") },
		"basic authentication":             func(r *http.Request) { r.SetBasicAuth("admin", token) },
		"token without scheme":             func(r *http.Request) { r.Header.Set("Authorization", token) },
		"token in the query":               func(r *http.Request) { r.URL.RawQuery = "token=" + token + "&key=" + token },
		"token in X-Api-Key":               func(r *http.Request) { r.Header.Set("X-Api-Key", token) },
		"token without the last character": bearer(token[:len(token)-1]),
		"token with one more character":    bearer(token + "x"),
		"token in upper case":              bearer(strings.ToUpper(token)),
		"token digest":                     bearer("sha256:" + sha256Hex(token)),
		"two Authorization headers":        func(r *http.Request) { r.Header["Authorization"] = []string{"Bearer x", "Bearer " + token} },
		"token as cookie":                  func(r *http.Request) { r.AddCookie(&http.Cookie{Name: cookieName, Value: token}) },
		"empty cookie":                     func(r *http.Request) { r.AddCookie(&http.Cookie{Name: cookieName, Value: ""}) },
	}
	paths := []string{"/", "/api/report", "/metrics", "/debug/pprof/", "/debug/pprof/heap", "/api/lessons", "/no/such", "/static/../api/report"}
	for name, attempt := range attempts {
		for _, path := range paths {
			for _, method := range []string{"GET", "POST", "OPTIONS", "DELETE"} {
				res := f.do(t, method, path, attempt)
				if res.StatusCode != 401 && res.StatusCode != 403 && res.StatusCode != 429 && (res.StatusCode != 404 || !strings.HasPrefix(path, "/static/")) {
					t.Errorf(`request with %s, %s %s: got status %d, want 401, 403 or 429 (below /static/ also 404)`, name, method, path, res.StatusCode)
				}
				if text := body(t, res); strings.Contains(text, "canary") {
					t.Errorf(`request with %s, %s %s: body = %q, want no "canary"`, name, method, path, text)
				} else if strings.Contains(text, token) {
					t.Errorf("request with %s, %s %s: body = %q, want no %q", name, method, path, text, token)
				}
			}
		}
	}
	if strings.Contains(f.log.String(), "canary") {
		t.Errorf(`log = %q, want no "canary"`, f.log.String())
	}
	if strings.Contains(f.log.String(), token) {
		t.Errorf("log = %q, want no %q", f.log.String(), token)
	}
}

func TestErrorDistinguishesWrongFromMissingToken(t *testing.T) {
	f := newFixture(t, nil)
	if text := body(t, f.do(t, "GET", "/api/report", bearer("wrong"))); !strings.Contains(text, "the admin token is wrong") {
		t.Errorf("wrong token: body = %s", text)
	}
	if text := body(t, f.do(t, "GET", "/api/report", nil)); !strings.Contains(text, "an admin token is required") {
		t.Errorf("no token: body = %s", text)
	}
}

// If an agent sends a request to the admin listener by mistake, the error must name the data listener. An error about
// the admin token would mislead people into giving the agent this token.
func TestAgentOnAdminListenerGetsDataListenerAddress(t *testing.T) {
	f := newFixture(t, func(o *Options) { o.Address.DataURL = "http://127.0.0.1:9080" })
	for _, request := range []string{
		"POST /v1/chat/completions", "POST /v1/responses", "POST /v1/messages", "POST /chat/completions", "POST /v1/embeddings",
		"GET /v1/models", "POST /v1beta/models/gemini:generateContent", "POST /openai/deployments/x/chat/completions",
		"POST /p/agent=coder/v1/messages", "GET /models",
	} {
		method, path, _ := strings.Cut(request, " ")
		for name, authenticate := range map[string]func(*http.Request){"no token": nil, "a provider key": bearer("sk-provider"), "the admin token": bearer(token)} {
			res := f.do(t, method, path, authenticate)
			text := body(t, res)
			if res.StatusCode != 404 {
				t.Errorf("%s with %s: status = %d, want 404, body %s", request, name, res.StatusCode, text)
			}
			if !strings.Contains(text, "the admin listener forwards no requests to models") {
				t.Errorf(`%s with %s: body = %q, want substring "the admin listener forwards no requests to models"`, request, name, text)
			}
			if !strings.Contains(text, "http://127.0.0.1:9080/v1") {
				t.Errorf(`%s with %s: body = %q, want substring "http://127.0.0.1:9080/v1"`, request, name, text)
			}
			if strings.Contains(text, "token") {
				t.Errorf(`%s with %s: body = %q, want no "token"`, request, name, text)
			}
		}
	}
	if text := body(t, f.do(t, "GET", "/v1/models", func(r *http.Request) { r.Host = "evil.example" })); !strings.Contains(text, "the admin listener forwards no requests to models") {
		t.Errorf(`request with a foreign Host header: body = %q, want substring "the admin listener forwards no requests to models"`, text)
	} else if strings.Contains(text, "9080") {
		t.Errorf(`request with a foreign Host header: body = %q, want no "9080"`, text)
	}
	if f.log.Len() > 0 {
		t.Errorf("log after requests from agents: got %s, want no lines about wrong tokens", f.log)
	}
	for _, path := range []string{"/lessons/responses", "/lessons/messages", "/sessions/models"} {
		if text := body(t, f.do(t, "GET", path, bearer(token))); strings.Contains(text, "the admin listener forwards no requests to models") {
			t.Errorf("%s: got the error about requests from agents, want the page", path)
		}
	}
}

func TestFigureLinksToHelp(t *testing.T) {
	unsupported := []Figure{{Name: "Unsupported API", Value: "3 POST requests were forwarded", Help: "AGENTS#known-limits"}}
	f := newFixture(t, func(o *Options) {
		o.Program.Figures = func(context.Context) []Figure { return unsupported }
		o.Program.Health = func(context.Context) Health { return Health{Figures: unsupported} }
	})
	for _, path := range []string{"/", "/health"} {
		if text := body(t, f.do(t, "GET", path, bearer(token))); !strings.Contains(text, `3 POST requests were forwarded <a href="/help/AGENTS#known-limits">`) {
			t.Errorf("%s: got no figure with a link to the help, want one", path)
		}
	}
}

func sha256Hex(s string) string {
	sum, _ := digestToken(s)
	return hex.EncodeToString(sum[:])
}

func TestAdminTokenOpensAllPaths(t *testing.T) {
	f := newFixture(t, func(o *Options) { o.Access.Tokens = []string{"other", "sha256:" + sha256Hex(token)} })
	for _, path := range []string{"/", "/api/report", "/metrics", "/debug/pprof/", "/debug/pprof/heap?debug=1", "/debug/pprof/cmdline"} {
		if res := f.do(t, "GET", path, bearer(token)); res.StatusCode != 200 {
			t.Errorf("%s: got status %d, want 200", path, res.StatusCode)
		}
	}
	if res := f.do(t, "GET", "/no/such", bearer(token)); res.StatusCode != 404 {
		t.Errorf("unknown path: got status %d, want 404", res.StatusCode)
	}
	if res := f.do(t, "GET", "/api/report", func(r *http.Request) { r.Header.Set("Authorization", "bearer "+token) }); res.StatusCode != 200 {
		t.Errorf("Authorization header with the scheme bearer in lower case: got status %d, want 200", res.StatusCode)
	}
}

func TestOpenRoutesNeedNoToken(t *testing.T) {
	readyError := errors.New("draining")
	f := newFixture(t, func(o *Options) {
		o.Program.Ready = func() (string, error) { return "ok, degraded: no store", readyError }
	})
	for path, want := range map[string]int{"/healthz": 200, "/readyz": 503, "/login": 200, "/static/style.css": 200, "/static/page.js": 200, "/static/none": 404, "/static/..%2fpages": 404} {
		if res := f.do(t, "GET", path, nil); res.StatusCode != want {
			t.Errorf("%s: got status %d, want %d", path, res.StatusCode, want)
		}
	}
	readyError = nil
	res := f.do(t, "GET", "/readyz", func(r *http.Request) { r.Host = "10.2.3.4:8081" })
	if text := body(t, res); res.StatusCode != 200 {
		t.Errorf("/readyz with an IP address as host: status = %d, want 200, body %s", res.StatusCode, text)
	} else if text != "ok, degraded: no store\n" {
		t.Errorf(`/readyz with an IP address as host: body = %q, want "ok, degraded: no store\n"`, text)
	}
}

func TestPublicMetricsNeedNoToken(t *testing.T) {
	f := newFixture(t, func(o *Options) { o.Access.PublicMetrics = true })
	res := f.do(t, "GET", "/metrics", nil)
	if text := body(t, res); res.StatusCode != 200 {
		t.Errorf("/metrics without a token: status = %d, want 200, body %s", res.StatusCode, text)
	} else if text != "precept_requests_total 7\n" {
		t.Errorf(`/metrics without a token: body = %q, want "precept_requests_total 7\n"`, text)
	}
	if res := f.do(t, "GET", "/api/report", nil); res.StatusCode != 401 {
		t.Errorf("/api/report without a token: got status %d, want 401", res.StatusCode)
	}
}

func TestNewRequiresValidTokens(t *testing.T) {
	for _, tokens := range [][]string{nil, {""}, {" \n"}, {"x", ""}} {
		if _, err := New(Options{Access: Access{Tokens: tokens}, Now: time.Now}); !errors.Is(err, errNoToken) {
			t.Errorf("New with tokens %q: got error %v, want %v", tokens, err, errNoToken)
		}
	}
	if _, err := New(Options{Access: Access{Tokens: []string{"sha256:abc"}}, Now: time.Now}); err == nil { // a digest has 64 characters
		t.Error("New with an incomplete digest as a token: err = nil, want an error")
	}
}

func TestOnlyWrongTokensAreThrottled(t *testing.T) {
	f := newFixture(t, nil)
	throttled := 0
	for i := range 1000 {
		f.now = f.now.Add(time.Millisecond)
		res := f.do(t, "GET", "/api/report", bearer("wrong"))
		if res.StatusCode == http.StatusTooManyRequests {
			throttled++
			if res.Header.Get("Retry-After") == "" {
				t.Fatal("response with status 429: got no Retry-After header, want one")
			}
		}
		if i%100 == 99 {
			if res := f.do(t, "GET", "/api/report", bearer(token)); res.StatusCode != 200 {
				t.Fatalf("valid token after %d wrong tokens: got status %d, want 200", i+1, res.StatusCode)
			}
		}
	}
	if throttled != 1000-maxFailuresPerIP {
		t.Errorf("throttled requests: got %d of 1000, want all except the first %d", throttled, maxFailuresPerIP)
	}
	if lines := strings.Count(f.log.String(), "\n"); lines != 1 {
		t.Errorf("log lines after 1000 wrong tokens: got %d, want 1; log:\n%s", lines, f.log)
	}
	f.now = f.now.Add(2 * time.Minute)
	if res := f.do(t, "GET", "/api/report", bearer("wrong")); res.StatusCode != 401 {
		t.Errorf("wrong token after a pause of two minutes: got status %d, want 401", res.StatusCode)
	}
	if !strings.Contains(f.log.String(), "count=1000") {
		t.Errorf("second log line: got no count=1000 in the log, want this number of wrong tokens since the first line; log:\n%s", f.log)
	}
}

func TestForeignHostIsRefused(t *testing.T) {
	f := newFixture(t, func(o *Options) { o.Access.Hosts = []string{"precept.example.org"} })
	hosts := map[string]bool{
		"127.0.0.1:8081": true, "localhost:8081": true, "LOCALHOST": true, "[::1]:8081": true, "precept.example.org": true,
		"precept.example.org:443": true, "localhost:9000": true, "localhost.": true,
		"evil.example:8081": false, "evil": false, "127.0.0.1.evil.example": false, "10.0.0.1:8081": false, "": false, "localhost.evil": false,
	}
	for host, accepted := range hosts {
		for _, path := range []string{"/api/report", "/login?token=" + token, "/static/style.css"} {
			res := f.do(t, "GET", path, func(r *http.Request) { r.Host = host; bearer(token)(r) })
			if refused := res.StatusCode == 403; refused == accepted {
				t.Errorf("%[2]s with Host %[1]q: got status %[3]d, refused (403) = %[4]v, want refused = %[5]v", host, path, res.StatusCode, refused, !accepted)
			}
		}
	}
}

func TestCrossSiteRequestIsRefused(t *testing.T) {
	f := newFixture(t, nil)
	cookie, csrf := f.logIn(t)
	cases := []struct {
		name   string
		change func(*http.Request)
		want   int
	}{
		{"no CSRF token", nil, 403},
		{"wrong CSRF token", func(r *http.Request) { r.Header.Set(csrfHeader, "x") }, 403},
		{"CSRF token in the query", func(r *http.Request) { r.URL.RawQuery = csrfField + "=" + csrf }, 403},
		{"foreign origin", func(r *http.Request) { r.Header.Set(csrfHeader, csrf); r.Header.Set("Origin", "http://evil.example") }, 403},
		{"own host with a different port as the origin", func(r *http.Request) { r.Header.Set(csrfHeader, csrf); r.Header.Set("Origin", "http://127.0.0.1:8080") }, 403},
		{"null origin", func(r *http.Request) { r.Header.Set(csrfHeader, csrf); r.Header.Set("Origin", "null") }, 403},
		{"cross-site fetch", func(r *http.Request) { r.Header.Set(csrfHeader, csrf); r.Header.Set("Sec-Fetch-Site", "cross-site") }, 403},
		{"same-site fetch", func(r *http.Request) { r.Header.Set(csrfHeader, csrf); r.Header.Set("Sec-Fetch-Site", "same-site") }, 403},
		{"own origin and CSRF token", func(r *http.Request) { r.Header.Set(csrfHeader, csrf); r.Header.Set("Origin", "http://127.0.0.1:8081") }, 303},
	}
	for _, tc := range cases {
		res := f.do(t, "POST", "/logout", func(r *http.Request) {
			r.AddCookie(cookie)
			if tc.change != nil {
				tc.change(r)
			}
		})
		if res.StatusCode != tc.want {
			t.Errorf("POST /logout with %s: got status %d, want %d", tc.name, res.StatusCode, tc.want)
		}
	}
	if res := f.do(t, "GET", "/api/report", func(r *http.Request) { r.AddCookie(cookie) }); res.StatusCode != 401 {
		t.Errorf("request with the cookie after the logout: got status %d, want 401", res.StatusCode)
	}
}

func TestPreflightRequestGetsNoCORSHeader(t *testing.T) {
	f := newFixture(t, nil)
	preflight := f.do(t, "OPTIONS", "/api/report", func(r *http.Request) {
		r.Header.Set("Origin", "http://evil.example")
		r.Header.Set("Access-Control-Request-Method", "GET")
	})
	for h := range preflight.Header {
		if strings.HasPrefix(h, "Access-Control-") {
			t.Errorf("response to a preflight request: got CORS header %s, want none", h)
		}
	}
	if preflight.StatusCode < 400 {
		t.Errorf("preflight request: got status %d, want at least 400", preflight.StatusCode)
	}
}

func TestListenerOnAllAddressesAcceptsAnyIPHost(t *testing.T) {
	f := newFixture(t, func(o *Options) { o.Address.Listen = "0.0.0.0:8081" })
	for host, want := range map[string]int{"10.0.0.1:8081": 200, "[fe80::1]:8081": 200, "evil.example": 403} {
		res := f.do(t, "GET", "/api/report", func(r *http.Request) { r.Host = host; bearer(token)(r) })
		if res.StatusCode != want {
			t.Errorf("request with Host %s: got status %d, want %d", host, res.StatusCode, want)
		}
	}
}

func TestEveryResponseHasSecurityHeaders(t *testing.T) {
	f := newFixture(t, nil)
	for _, path := range []string{"/", "/login", "/healthz", "/static/style.css", "/api/report", "/nowhere"} {
		h := f.do(t, "GET", path, nil).Header
		csp := h.Get("Content-Security-Policy")
		if !strings.Contains(csp, "default-src 'none'") {
			t.Errorf(`%s: csp = %q, want substring "default-src 'none'"`, path, csp)
		}
		if strings.Contains(csp, "unsafe") {
			t.Errorf(`%s: csp = %q, want no "unsafe"`, path, csp)
		}
		if strings.Contains(csp, "*") {
			t.Errorf(`%s: csp = %q, want no "*"`, path, csp)
		}
		for name, want := range map[string]string{"X-Content-Type-Options": "nosniff", "Cache-Control": "no-store", "Referrer-Policy": "same-origin", "X-Frame-Options": "DENY"} {
			if h.Get(name) != want {
				t.Errorf("%s: got header %s with value %q, want %q", path, name, h.Get(name), want)
			}
		}
		if h.Get("Access-Control-Allow-Origin") != "" {
			t.Errorf("%s: got Access-Control-Allow-Origin %q, want no such header", path, h.Get("Access-Control-Allow-Origin"))
		}
	}
}

func TestCookieIsRandomStrictAndExpires(t *testing.T) {
	f := newFixture(t, nil)
	cookie, csrf := f.logIn(t)
	if cookie.Name != "precept_session" {
		t.Errorf(`cookie: Name = %q, want "precept_session"`, cookie.Name)
	}
	if !cookie.HttpOnly {
		t.Error("cookie: HttpOnly = false, want true")
	}
	if cookie.SameSite != http.SameSiteStrictMode {
		t.Errorf("cookie: SameSite = %d, want %d", cookie.SameSite, http.SameSiteStrictMode)
	}
	if cookie.Path != "/" {
		t.Errorf(`cookie: Path = %q, want "/"`, cookie.Path)
	}
	if strings.Contains(cookie.Value, token) {
		t.Errorf("cookie value = %q, want no %q", cookie.Value, token)
	}
	if len(cookie.Value) < 32 {
		t.Fatalf("cookie value = %d bytes, want at least 32", len(cookie.Value))
	}
	if cookie.Value == csrf {
		t.Errorf("the cookie has the value of the CSRF token: %q", cookie.Value)
	}
	second, _ := f.logIn(t)
	if second.Value == cookie.Value {
		t.Error("cookies of two logins: got the same value, want different values")
	}
	withCookie := func(r *http.Request) { r.AddCookie(cookie) }
	if res := f.do(t, "GET", "/api/report", withCookie); res.StatusCode != 200 {
		t.Errorf("request with the cookie: got status %d, want 200", res.StatusCode)
	}
	f.now = f.now.Add(maxLoginAge + time.Second)
	if res := f.do(t, "GET", "/api/report", withCookie); res.StatusCode != 401 {
		t.Errorf("request with an expired cookie: got status %d, want 401", res.StatusCode)
	}
}

func TestLoginFormSetsTheCookie(t *testing.T) {
	f := newFixture(t, nil)
	post := func(token string) *http.Response {
		return f.do(t, "POST", "/login", func(r *http.Request) {
			r.Body = io.NopCloser(strings.NewReader(url.Values{"token": {token}}.Encode()))
			r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
			r.Header.Set("Accept", "text/html")
		})
	}
	if res := post(token); res.StatusCode != 303 {
		t.Errorf("login form with a valid token: status = %d, want 303", res.StatusCode)
	} else if len(res.Cookies()) != 1 {
		t.Errorf("login form with a valid token: Cookies = %+v, want 1 item", res.Cookies())
	}
	for _, wrong := range []string{"", "wrong-canary"} {
		res := post(wrong)
		if text := body(t, res); res.StatusCode != 401 {
			t.Errorf("login form with token %q: status = %d, want 401, body %s", wrong, res.StatusCode, text)
		} else if len(res.Cookies()) != 0 {
			t.Errorf("login form with token %q: Cookies = %+v, want none", wrong, res.Cookies())
		} else if strings.Contains(text, "canary") {
			t.Errorf(`login form with token %q: body = %q, want no "canary"`, wrong, text)
		}
	}
	res := f.do(t, "GET", "/", func(r *http.Request) { r.Header.Set("Accept", "text/html,*/*") })
	if res.StatusCode != 401 {
		t.Errorf("browser without a login: status = %d, want 401", res.StatusCode)
	}
	if !strings.Contains(body(t, res), `action="/login"`) {
		t.Error(`browser without a login: body has no "action=\"/login\""`)
	}
}

func TestReloadedTokenRevokesBrowserSessions(t *testing.T) {
	f := newFixture(t, nil)
	cookie, _ := f.logIn(t)
	if err := f.SetAccess(Access{}); err == nil {
		t.Fatal("SetAccess without tokens: err = nil, want an error")
	}
	withCookie := func(r *http.Request) { r.AddCookie(cookie) }
	if res := f.do(t, "GET", "/api/report", withCookie); res.StatusCode != 200 {
		t.Fatalf("request with the cookie after SetAccess has failed: got status %d, want 200", res.StatusCode)
	}
	if err := f.SetAccess(Access{Tokens: []string{"new"}}); err != nil {
		t.Fatal(err)
	}
	if res := f.do(t, "GET", "/api/report", withCookie); res.StatusCode != 401 {
		t.Errorf("request from a browser that logged in with the old token: got status %d, want 401", res.StatusCode)
	}
	if res := f.do(t, "GET", "/api/report", bearer(token)); res.StatusCode != 401 {
		t.Errorf("request with the old token: got status %d, want 401", res.StatusCode)
	}
	if res := f.do(t, "GET", "/api/report", bearer("new")); res.StatusCode != 200 {
		t.Errorf("request with the new token: got status %d, want 200", res.StatusCode)
	}
}

func TestReportAPIReadsTheQuery(t *testing.T) {
	f := newFixture(t, nil)
	res := f.do(t, "GET", "/api/report?tenant=acme&window=7d&provisional=true", bearer(token))
	if want := (ReportQuery{Tenant: "acme", Window: 7 * 24 * time.Hour, Provisional: true}); f.reports.lastQuery != want {
		t.Errorf("report query = %+v, want %+v", f.reports.lastQuery, want)
	}
	var got map[string]any
	if err := json.Unmarshal([]byte(body(t, res)), &got); err != nil {
		t.Fatal(err)
	} else if res.Header.Get("Content-Type") != "application/json" {
		t.Fatalf(`report in JSON: Content-Type = %q, want "application/json"`, res.Header.Get("Content-Type"))
	}
	for _, key := range []string{"generated_at", "reward_definition", "global", "srm", "reporting", "lessons"} {
		if _, ok := got[key]; !ok {
			t.Errorf("report in JSON: got no key %s, want this key", key)
		}
	}
	f.do(t, "GET", "/api/report", bearer(token))
	if f.reports.lastQuery != (ReportQuery{Tenant: "default"}) {
		t.Errorf("report query without parameters = %+v, want the tenant default and no other filter", f.reports.lastQuery)
	}
	for _, query := range []string{"window=soon", "window=-1h", "window=-1d", "provisional=maybe", "tenant=" + strings.Repeat("x", 257)} {
		if res := f.do(t, "GET", "/api/report?"+query, bearer(token)); res.StatusCode != 400 {
			t.Errorf("query %s: got status %d, want 400", query, res.StatusCode)
		}
	}
}

func TestReportErrorIsOnlyInTheLog(t *testing.T) {
	f := newFixture(t, nil)
	f.reports.err = errors.New("disk canary")
	res := f.do(t, "GET", "/api/report", bearer(token))
	if res.StatusCode != 500 {
		t.Errorf("/api/report, with a failing report: status = %d, want 500", res.StatusCode)
	}
	if strings.Contains(body(t, res), "canary") {
		t.Error(`/api/report, with a failing report: body contains "canary"`)
	}
	if !strings.Contains(f.log.String(), "disk canary") {
		t.Errorf(`/api/report, with a failing report: log = %q, want substring "disk canary"`, f.log.String())
	}
	page := f.do(t, "GET", "/", bearer(token))
	if text := body(t, page); page.StatusCode != 200 {
		t.Errorf("overview, with a failing report: status = %d, want 200", page.StatusCode)
	} else if !strings.Contains(text, "cannot be read") {
		t.Errorf(`overview, with a failing report: body = %q, want substring "cannot be read"`, text)
	}
}

func TestPanicBecomesServerError(t *testing.T) {
	f := newFixture(t, func(o *Options) {
		o.Program.Metrics = http.HandlerFunc(func(http.ResponseWriter, *http.Request) { panic("canary") })
	})
	res := f.do(t, "GET", "/metrics", bearer(token))
	if text := body(t, res); res.StatusCode != 500 {
		t.Errorf("/metrics, with a panic in the handler: status = %d, want 500, body %s", res.StatusCode, text)
	} else if strings.Contains(text, "canary") {
		t.Errorf(`/metrics, with a panic in the handler: body = %q, want no "canary"`, text)
	}
}
