package admin

import (
	"context"
	"errors"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"precept/bandit/report"
	"precept/store"
)

func TestServerErrorIsLoggedWithRequestID(t *testing.T) {
	f := newFixture(t, func(o *Options) { o.Write.Forget = &fakeForgetter{err: errors.New("disk canary")} })
	cookie, csrf := f.logIn(t)
	for _, accept := range []string{"*/*", "text/html"} {
		f.log.Reset()
		res := f.do(t, "POST", "/sessions/abc/forget", func(r *http.Request) {
			r.AddCookie(cookie)
			r.Header.Set("Accept", accept)
			r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
			r.Body = io.NopCloser(strings.NewReader("sure=yes&csrf_token=" + csrf))
		})
		text, id := body(t, res), res.Header.Get("Precept-Request-Id")
		if res.StatusCode != http.StatusServiceUnavailable || !strings.Contains(text, "the data could not be deleted completely") && !strings.Contains(text, "The data could not be deleted completely") {
			t.Errorf(`Accept %s: got status %d, text %s, want status 503 and a text with "the data could not be deleted completely"`, accept, res.StatusCode, text)
		}
		if page := strings.Contains(text, `<nav aria-label="Pages">`); page != (accept == "text/html") {
			t.Errorf("Accept %s: got a page: %v, want a page only for text/html", accept, page)
		}
		if log := f.log.String(); strings.Count(log, "disk canary") != 1 || id == "" || !strings.Contains(log, "request="+id) {
			t.Errorf("Accept %s: got request id %q and log %s, want the error once in the log, with this id", accept, id, log)
		}
	}
}

func TestClientErrorsAreNotLogged(t *testing.T) {
	f := newFixture(t, nil)
	for target, status := range map[string]int{
		"/nowhere": 404, "/api/report?window=soon": 400, "/api/sessions/nobody": 404, "/lessons/nobody": 404, "/static/none": 404,
	} {
		if res := f.do(t, "GET", target, bearer(token)); res.StatusCode != status {
			t.Errorf("%s: got status %d, want %d", target, res.StatusCode, status)
		}
	}
	if f.log.Len() > 0 {
		t.Errorf("got log %s, want no lines", f.log)
	}
}

type failingReader struct{ emptyArchive }

func (failingReader) Report(context.Context, ReportQuery) (report.Report, error) {
	return report.Report{}, errors.New("report canary")
}

func (failingReader) Browse(context.Context, store.SessionQuery) (store.SessionList, error) {
	return store.SessionList{}, errors.New("browse canary")
}

func TestFailedPageLogsTheCauseOnce(t *testing.T) {
	f := newFixture(t, func(o *Options) { o.Read.Report, o.Read.Archive = failingReader{}, failingReader{} })
	for target, tc := range map[string]struct {
		status int
		cause  string // text of the error in the log
	}{"/": {200, "report canary"}, "/lessons": {200, "report canary"}, "/sessions": {503, "browse canary"}, "/api/sessions": {503, "browse canary"}, "/api/report": {500, "report canary"}} {
		f.log.Reset()
		res := f.do(t, "GET", target, bearer(token))
		if text := body(t, res); res.StatusCode != tc.status || strings.Contains(text, "canary") {
			t.Errorf(`%s: got status %d, text %.300s, want status %d and text without "canary"`, target, res.StatusCode, text, tc.status)
		}
		if n := strings.Count(f.log.String(), tc.cause); n != 1 {
			t.Errorf("%s: got the cause %d times in the log, want once: %s", target, n, f.log)
		}
	}
}

func TestHeadRequestForUnknownPathHasNoBody(t *testing.T) {
	f := newFixture(t, nil)
	for _, target := range []string{"/nowhere", "/api/nothing"} {
		res := f.do(t, "HEAD", target, bearer(token))
		if text := body(t, res); res.StatusCode != http.StatusNotFound || text != "" {
			t.Errorf("%s: got status %d, text %q, want status 404 and an empty text", target, res.StatusCode, text)
		}
	}
}

func TestAuditKeepsNewestActions(t *testing.T) {
	dir := t.TempDir()
	var b strings.Builder
	b.WriteString("cut line\"}\n{}\nnot JSON\n") // damaged lines are skipped
	for range 5000 {
		b.WriteString(`{"at":"2026-05-01T11:00:00Z","who":"127.0.0.1, token, operator 00000000","action":"POST /old","status":200}` + "\n")
	}
	path := filepath.Join(dir, auditFile)
	if err := os.WriteFile(path, []byte(b.String()), 0o600); err != nil {
		t.Fatal(err)
	}
	f := newFixture(t, func(o *Options) { o.DataDir = dir })
	f.do(t, "POST", "/api/lessons/word/pause", bearer(token))
	latest := f.audit.latest()
	if len(latest) != maxShownActions || latest[0].Detail != "word pause" || latest[1].Action != "POST /old" {
		t.Errorf("got %d entries, want %d; got newest entries %+v and %+v, want \"word pause\" and POST /old", len(latest), maxShownActions, latest[0], latest[1])
	}
	for range 3 * maxShownActions {
		f.do(t, "POST", "/api/lessons/word/retire", bearer(token))
	}
	if latest = f.audit.latest(); len(latest) != maxShownActions || latest[maxShownActions-1].Detail != "word retire" || len(f.audit.list) > 2*maxShownActions {
		t.Errorf("got %d shown entries, want %d; got %d entries in memory, want at most %d", len(latest), maxShownActions, len(f.audit.list), 2*maxShownActions)
	}
	text, err := os.ReadFile(path)
	if err != nil || strings.Count(string(text), "\n") != 3+5000+1+3*maxShownActions {
		t.Errorf("audit file: got %d lines, error %v, want %d lines", strings.Count(string(text), "\n"), err, 3+5000+1+3*maxShownActions)
	}
}

// The server starts even if the audit file is unreadable, and keeps the actions in memory.
func TestUnreadableAuditFileIsLogged(t *testing.T) {
	dir := t.TempDir()
	if err := os.Mkdir(filepath.Join(dir, auditFile), 0o700); err != nil {
		t.Fatal(err)
	}
	f := newFixture(t, func(o *Options) { o.DataDir = dir })
	res := f.do(t, "POST", "/api/lessons/word/pause", bearer(token))
	if res.StatusCode != http.StatusOK || len(f.audit.latest()) != 1 || strings.Count(f.log.String(), "level=ERROR") != 2 { // reading at the start, and writing the entry
		t.Errorf("unreadable audit file: got status %d, want 200; got %d entries, want 1; want two errors in the log: %s", res.StatusCode, len(f.audit.latest()), f.log)
	}
}
