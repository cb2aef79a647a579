package admin

import (
	"encoding/json"
	"errors"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/net/html"

	"precept/store"
)

func TestSessionAndSampleFilters(t *testing.T) {
	sessions := newSessionStore(t, time.Date(2026, 5, 1, 12, 0, 0, 0, time.UTC))
	sessions.addSessionWithMarkup(t)
	for _, name := range []string{"a", "bb", "ccc"} {
		sessions.addSession(t, name, 1, nil)
	}
	f := newStoreFixture(t, sessions, nil)
	for target, want := range map[string]int{
		"/api/sessions": 4, "/api/sessions?limit=2": 2, "/api/sessions?verdict=poor": 1, "/api/sessions?verdict=open": 3, "/api/sessions?loops=true": 1,
		"/api/sessions?words=flaky": 1, "/api/sessions?tool=bash&error=exit": 1, "/api/sessions?session=bb": 1, "/api/sessions?session=nobody": 0, "/api/sessions?tenant=other": 0,
		"/api/sessions?min_reward=0.2&max_reward=0.3": 1, "/api/sessions?min_reward=0.5": 0, "/api/sessions?lesson=kept-back": 1, "/api/sessions?until=2020-01-01": 0, "/api/sessions?since=2026-01-01T00:00:00Z": 4,
	} {
		var l store.SessionList
		if err := json.Unmarshal([]byte(get(t, f, target, http.StatusOK)), &l); err != nil {
			t.Errorf("%s: error = %v", target, err)
		} else if len(l.Sessions) != want {
			t.Errorf("%s: Sessions = %+v, want %d items", target, l.Sessions, want)
		}
	}
	for _, target := range []string{
		"/api/sessions?limit=x", "/api/sessions?verdict=bad", "/api/sessions?loops=perhaps", "/api/sessions?min_reward=7", "/api/sessions?since=yesterday", "/api/sessions?after=zz!",
		"/api/sessions?words=" + strings.Repeat("a", 300), "/api/samples?family=nonsense", "/api/samples?quality=best", "/api/samples?after=!", "/api/export?format=xml",
		"/api/export?format=experiment&family=intent_resolution", "/api/export?format=experiment&agent=coder", "/api/export?after=x", "/api/sessions/tale?from=-1",
	} {
		if text := get(t, f, target, http.StatusBadRequest); !strings.Contains(text, "error") {
			t.Errorf(`%s: got body %s, want it to contain "error"`, target, text)
		}
	}
	get(t, f, "/api/sessions/nobody", http.StatusNotFound)
	var tr store.Transcript
	if err := json.Unmarshal([]byte(get(t, f, "/api/sessions/tale", http.StatusOK)), &tr); err != nil {
		t.Error(err)
	} else if len(tr.TurnItems) != 3 {
		t.Errorf("transcript: TurnItems = %+v, want 3 items", tr.TurnItems)
	} else if tr.Next != 3 {
		t.Errorf("transcript: Next = %d, want 3", tr.Next)
	}
	var samples store.SampleList
	if err := json.Unmarshal([]byte(get(t, f, "/api/samples?family=intent_resolution&quality=unrated,good", http.StatusOK)), &samples); err != nil {
		t.Error(err)
	} else if len(samples.Samples) != 4 {
		t.Errorf("samples with a filter by family and quality = %+v, want 4 items", samples.Samples)
	}
}

func TestExportUsesQueryAndPageFilters(t *testing.T) {
	sessions := newSessionStore(t, time.Date(2026, 5, 1, 12, 0, 0, 0, time.UTC))
	export := &fakeExport{}
	f := newStoreFixture(t, sessions, func(o *Options) { o.Read.Export = export })
	if text := get(t, f, "/api/export?quality=good&lesson=l&tenant=t", http.StatusOK); text != "{}\n" {
		t.Errorf(`export = %q, want "{}\n"`, text)
	} else if export.selection.Format != "mplp" {
		t.Errorf(`export: Format = %q, want "mplp"`, export.selection.Format)
	} else if export.selection.Filter.Tenant != "t" {
		t.Errorf(`export: Tenant = %q, want "t"`, export.selection.Filter.Tenant)
	} else if export.selection.Filter.Lesson != "l" {
		t.Errorf(`export: Lesson = %q, want "l"`, export.selection.Filter.Lesson)
	} else if len(export.selection.Filter.Quality) != 1 {
		t.Errorf("export: Quality = %q, want 1 item", export.selection.Filter.Quality)
	}
	page := html.UnescapeString(get(t, f, "/samples?agent=coder&session=s-1", http.StatusOK))
	if want := `href="/api/export?agent=coder&format=mplp&session=s-1&tenant=default"`; !strings.Contains(page, want) {
		t.Errorf("samples page filtered by agent = %q, want substring %q", page, want)
	} else if strings.Contains(page, "format=experiment") {
		t.Errorf(`samples page filtered by agent = %q, want no "format=experiment"`, page)
	}
	get(t, f, "/api/export?agent=coder&format=mplp&session=s-1&tenant=default", http.StatusOK)
	if export.selection.Agent != "coder" {
		t.Errorf(`query of the export: Agent = %q, want "coder"`, export.selection.Agent)
	}
	if export.selection.Session != "s-1" {
		t.Errorf(`query of the export: Session = %q, want "s-1"`, export.selection.Session)
	}
}

// Once an export has written its first line, the status is already sent. If the export then fails, the server aborts
// the connection, because nothing else can tell the client about the error.
func TestFailedExportHasErrorStatusOrAborts(t *testing.T) {
	sessions := newSessionStore(t, time.Date(2026, 5, 1, 12, 0, 0, 0, time.UTC))
	export := &fakeExport{err: errors.New("down")}
	f := newStoreFixture(t, sessions, func(o *Options) { o.Read.Export = export })
	get(t, f, "/api/export", http.StatusServiceUnavailable)
	export.failAfterLine = true
	defer func() {
		if p := recover(); p != http.ErrAbortHandler { //nolint:errorlint // net/http also compares the value with ==
			t.Errorf("export that fails after the first line: got panic %v, want %v", p, http.ErrAbortHandler)
		}
	}()
	get(t, f, "/api/export", http.StatusOK)
}

func TestHostileContentIsShownAsText(t *testing.T) {
	sessions := newSessionStore(t, time.Date(2026, 5, 1, 12, 0, 0, 0, time.UTC))
	id := sessions.addSessionWithMarkup(t)
	f := newStoreFixture(t, sessions, nil)
	for _, target := range []string{
		"/sessions", "/sessions/" + id.String(), "/sessions?words=" + url.QueryEscape("<script>"), "/samples", "/samples?lesson=" + url.QueryEscape(hostile), "/health",
		"/sessions?agent=" + url.QueryEscape(hostile), "/sessions?since=" + url.QueryEscape(hostile),
	} {
		r := f.do(t, http.MethodGet, target, bearer(token))
		page := body(t, r)
		if r.StatusCode != http.StatusOK && r.StatusCode != http.StatusBadRequest {
			t.Errorf("%s: got status %s, want status 200 or 400", target, r.Status)
		}
		for _, bad := range []string{"\x1b", "\u202e", "\x07", "\u200b", "s3cret-canary"} {
			if strings.Contains(page, bad) {
				t.Errorf("%s: got %q on the page, want no hidden character and no secret", target, bad)
			}
		}
		scripts, handlers := markup(t, page)
		for _, src := range scripts {
			if !strings.HasPrefix(src, "/static/") {
				t.Errorf("%s: got script %q, want only scripts below /static/", target, src)
			}
		}
		if len(handlers) > 0 {
			t.Errorf("%s: got event handlers, inline styles or javascript: URLs %v, want none", target, handlers)
		}
	}
	page := html.UnescapeString(get(t, f, "/sessions/"+id.String(), http.StatusOK))
	for _, want := range []string{"‹ESC›[31mred", "‹U+202E›gnp.exe", "inserted by precept", "withheld at random", "loop warning", "failed", "0.25", "2 redacted", "status 529"} {
		if !strings.Contains(page, want) {
			t.Errorf("the session page lacks %q", want)
		}
	}
}

// markup returns the sources of the scripts on a page, and the attributes that contain event handlers, styles or
// javascript: URLs. The source of an inline script is "".
func markup(t *testing.T, page string) (scripts, handlers []string) {
	t.Helper()
	root, err := html.Parse(strings.NewReader(page))
	if err != nil {
		t.Fatal(err)
	}
	for n := range root.Descendants() {
		if n.Type != html.ElementNode {
			continue
		}
		src := ""
		for _, a := range n.Attr {
			if strings.HasPrefix(a.Key, "on") || strings.HasPrefix(strings.TrimSpace(strings.ToLower(a.Val)), "javascript:") || a.Key == "style" {
				handlers = append(handlers, n.Data+" "+a.Key)
			}
			if a.Key == "src" {
				src = a.Val
			}
		}
		if n.Data == "script" {
			scripts = append(scripts, src)
		}
	}
	return scripts, handlers
}

func TestSessionActionsNeedCSRFAndAreAudited(t *testing.T) {
	sessions := newSessionStore(t, time.Date(2026, 5, 1, 12, 0, 0, 0, time.UTC))
	id := sessions.addSessionWithMarkup(t)
	dir := t.TempDir()
	f := newStoreFixture(t, sessions, func(o *Options) { o.DataDir = dir })
	cookie, csrf := f.logIn(t)
	post := func(path string, form url.Values) *http.Response {
		return f.do(t, http.MethodPost, path, func(r *http.Request) {
			r.AddCookie(cookie)
			r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
			r.Body = http.NoBody
			r.URL.RawQuery = url.Values{"tenant": {"default"}}.Encode()
			r.PostForm, r.Form = form, form
		})
	}
	page := "/sessions/" + id.String()
	for _, path := range []string{page + "/rate", page + "/forget"} {
		if r := post(path, url.Values{"type": {"approval"}, "sure": {"yes"}}); r.StatusCode != http.StatusForbidden {
			t.Errorf("POST %s without a CSRF token: got status %s, want 403", path, r.Status)
		}
	}
	formWith := func(pairs ...string) url.Values {
		v := url.Values{csrfField: {csrf}}
		for i := 0; i < len(pairs); i += 2 {
			v.Set(pairs[i], pairs[i+1])
		}
		return v
	}
	if r := post(page+"/rate", formWith("type", "approval", "comment", "well done")); r.StatusCode != http.StatusSeeOther {
		t.Fatalf("rating: status = %d, want 303", r.StatusCode)
	} else if !strings.HasPrefix(r.Header.Get("Location"), page) {
		t.Fatalf("rating: Location = %q, want prefix %q", r.Header.Get("Location"), page)
	}
	if text := get(t, f, page, http.StatusOK); !strings.Contains(text, "well done") {
		t.Errorf(`session page after the rating: body = %q, want substring "well done"`, text)
	} else if !strings.Contains(text, "(dashboard)") {
		t.Errorf(`session page after the rating: body = %q, want substring "(dashboard)"`, text)
	}
	if r := post(page+"/rate", formWith("type", "score")); r.StatusCode != http.StatusBadRequest {
		t.Errorf("rating with an unknown type: got status %s, want 400", r.Status)
	}
	if r := post(page+"/forget", formWith()); r.StatusCode != http.StatusSeeOther {
		t.Errorf("deletion without a confirmation: got status %s, want 303", r.Status)
	}
	get(t, f, page, http.StatusOK)
	if r := post(page+"/forget", formWith("sure", "yes")); r.StatusCode != http.StatusSeeOther {
		t.Fatalf("deletion: status = %d, want 303", r.StatusCode)
	} else if !strings.HasPrefix(r.Header.Get("Location"), "/sessions?") {
		t.Fatalf(`deletion: Location = %q, want prefix "/sessions?"`, r.Header.Get("Location"))
	}
	get(t, f, page, http.StatusNotFound)
	if text := get(t, f, "/sessions", http.StatusOK); strings.Contains(text, id.String()) {
		t.Error("session list after the deletion: got the deleted session in it, want it gone")
	}
	checkAudit(t, f, dir, id.String())
}

// checkAudit checks the audit log after the six requests of TestSessionActionsNeedCSRFAndAreAudited.
func checkAudit(t *testing.T, f *fixture, dir, id string) {
	t.Helper()
	b, err := os.ReadFile(filepath.Join(dir, auditFile))
	if err != nil {
		t.Fatal(err)
	}
	lines := strings.Split(strings.TrimSpace(string(b)), "\n")
	// The six entries are two refusals without a CSRF token, the approval, the invalid rating, the deletion without a
	// confirmation and the deletion.
	if len(lines) != 6 {
		t.Fatalf("audit log = %q, want 6 items", lines)
	}
	if !strings.Contains(lines[0], `"status":403`) {
		t.Errorf(`audit log: lines[0] = %q, want substring "\"status\":403"`, lines[0])
	}
	if !strings.Contains(lines[2], `"approval for session `+id) {
		t.Errorf("audit log: lines[2] = %q, want substring %q", lines[2], `"approval for session `+id)
	}
	if !strings.Contains(lines[5], "deleted") {
		t.Errorf(`audit log: lines[5] = %q, want substring "deleted"`, lines[5])
	}
	if !strings.Contains(lines[3], `"status":400`) {
		t.Errorf(`audit log: lines[3] = %q, want substring "\"status\":400"`, lines[3])
	}
	if strings.Contains(string(b), "tale") {
		t.Error("audit log: got the name of the deleted session in it, want it left out")
	}
	if info, err := os.Stat(filepath.Join(dir, auditFile)); err != nil {
		t.Error(err)
	} else if info.Mode().Perm() != 0o600 {
		t.Errorf("audit file: Perm = %v, want 0o600", info.Mode().Perm())
	}
	if page := get(t, f, "/health", http.StatusOK); !strings.Contains(page, "POST /sessions/:session/forget") {
		t.Error("audit log on the health page: got no route of the deletion, want it")
	}
	reopened, err := openAudit(dir)
	if err != nil {
		t.Fatal(err)
	}
	if len(reopened.latest()) != 6 {
		t.Fatalf("audit log after a restart: latest = %+v, want 6 items", reopened.latest())
	}
	if !strings.Contains(reopened.latest()[0].Detail, "deleted") {
		t.Errorf(`audit log after a restart: Detail = %q, want substring "deleted"`, reopened.latest()[0].Detail)
	}
}

func TestAuditSkipsTruncatedAndLongLines(t *testing.T) {
	dir := t.TempDir()
	text := `{"at":"2026-05-01T12:00:00Z","action":"one"}` + "\n" + strings.Repeat("x", 100_000) + "\n" + `{"at":"2026-05-01T12:00:01Z","action":"tw`
	if err := os.WriteFile(filepath.Join(dir, auditFile), []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	a, err := openAudit(dir)
	if err != nil {
		t.Fatal(err)
	}
	if len(a.latest()) != 1 {
		t.Fatalf("audit log with a long and a truncated line: latest = %+v, want 1 item", a.latest())
	}
	if err := a.add(AuditEntry{At: time.Date(2026, 5, 1, 13, 0, 0, 0, time.UTC), Action: "three"}); err != nil {
		t.Fatal(err)
	}
	reopened, err := openAudit(dir)
	if err != nil {
		t.Fatal(err)
	}
	if len(reopened.latest()) != 2 {
		t.Fatalf("audit log after a new entry: latest = %+v, want 2 items", reopened.latest())
	}
	if reopened.latest()[0].Action != "three" {
		t.Errorf(`audit log after a new entry: Action = %q, want "three"`, reopened.latest()[0].Action)
	}
}

// /api/feedback accepts one entry in the format of /v1/feedback on the data listener.
func TestFeedbackAPIAcceptsOneEntry(t *testing.T) {
	sessions := newSessionStore(t, time.Date(2026, 5, 1, 12, 0, 0, 0, time.UTC))
	id := sessions.addSessionWithMarkup(t)
	f := newStoreFixture(t, sessions, nil)
	post := func(text string) *http.Response {
		return f.do(t, http.MethodPost, "/api/feedback", func(r *http.Request) {
			bearer(token)(r)
			r.Body = http.MaxBytesReader(nil, nopCloser{strings.NewReader(text)}, 1<<20)
		})
	}
	r := post(`{"session_id":"` + id.String() + `","source":"user","type":"score","score":0.9,"rater":"ann"}`)
	if text := body(t, r); r.StatusCode != http.StatusAccepted {
		t.Errorf("feedback: status = %d, want 202, body %s", r.StatusCode, text)
	} else if !strings.Contains(text, `"id":"fb_1"`) {
		t.Errorf(`feedback = %q, want substring "\"id\":\"fb_1\""`, text)
	} else if !strings.Contains(text, `"joined"`) {
		t.Errorf(`feedback = %q, want substring "\"joined\""`, text)
	}
	for _, bad := range []string{"", "{}", "[]", `{"session_id":"x","unknown":1}`, `[{"session_id":"x","source":"user","type":"approval"}]`} {
		if r := post(bad); r.StatusCode != http.StatusBadRequest {
			t.Errorf("feedback %q: got status %s, want 400", bad, r.Status)
		}
	}
	if page := get(t, f, "/sessions/"+id.String(), http.StatusOK); !strings.Contains(page, "(ann)") {
		t.Error("session page after the feedback: got no rater \"(ann)\", want it")
	}
}

type nopCloser struct{ *strings.Reader }

func (nopCloser) Close() error { return nil }

func TestHealthShowsLossesAndHidesSecrets(t *testing.T) {
	now := time.Date(2026, 5, 1, 12, 0, 0, 0, time.UTC)
	sessions := newSessionStore(t, now)
	f := newStoreFixture(t, sessions, nil)
	page := get(t, f, "/health", http.StatusOK)
	for _, want := range []string{"bandit.epsilon", "0.25", "(hidden)", "3 of ", "Exchanges lost", "of 12 admitted", "1.0 MiB", "of 1.0 GiB", "No entries"} {
		if !strings.Contains(page, want) {
			t.Errorf("the health page lacks %q", want)
		}
	}
	var h Health
	if err := json.Unmarshal([]byte(get(t, f, "/api/health", http.StatusOK)), &h); err != nil {
		t.Error(err)
	} else if h.Account.Admitted != 12 {
		t.Errorf("/api/health: Admitted = %d, want 12", h.Account.Admitted)
	} else if len(h.Config) == 0 {
		t.Error("/api/health: Config is empty")
	}
	if strings.Contains(get(t, f, "/api/health", http.StatusOK), "s3cret-canary") {
		t.Error("/api/health: got a secret in the response, want none")
	}
}

func TestGlossaryButtonsOpenDefinitions(t *testing.T) {
	sessions := newSessionStore(t, time.Date(2026, 5, 1, 12, 0, 0, 0, time.UTC))
	id := sessions.addSessionWithMarkup(t)
	f := newStoreFixture(t, sessions, nil)
	for _, target := range []string{"/sessions/" + id.String(), "/health"} {
		if page := get(t, f, target, http.StatusOK); strings.Contains(page, `popovertarget="def-"`) {
			t.Errorf(`%s: got %q, want no "popovertarget=\"def-\""`, target, page)
		} else if !strings.Contains(page, `popovertarget="def-`) {
			t.Errorf(`%s: got %q, want substring "popovertarget=\"def-"`, target, page)
		}
	}
}
