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
			t.Errorf(`deletion with Accept %s: got status %d, body %s, want status 503 and a body that contains "the data could not be deleted completely"`, accept, res.StatusCode, text)
		}
		if page := strings.Contains(text, `<nav aria-label="Pages">`); page != (accept == "text/html") {
			t.Errorf("deletion with Accept %s: got an HTML page = %v, want a page if and only if Accept is text/html", accept, page)
		}
		if log := f.log.String(); strings.Count(log, "disk canary") != 1 {
			t.Errorf(`deletion with Accept %s: count of "disk canary" = %d, want 1`, accept, strings.Count(log, "disk canary"))
		} else if id == "" {
			t.Errorf("deletion with Accept %s is empty", accept)
		} else if !strings.Contains(log, "request="+id) {
			t.Errorf("deletion with Accept %s: log = %q, want substring %q", accept, log, "request="+id)
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
		t.Errorf("log after client errors: got %s, want no lines", f.log)
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
		cause  string // text of the error that must be in the log
	}{"/": {200, "report canary"}, "/lessons": {200, "report canary"}, "/sessions": {503, "browse canary"}, "/api/sessions": {503, "browse canary"}, "/api/report": {500, "report canary"}} {
		f.log.Reset()
		res := f.do(t, "GET", target, bearer(token))
		if text := body(t, res); res.StatusCode != tc.status {
			t.Errorf("%s: status = %d, want %d, body %s", target, res.StatusCode, tc.status, text)
		} else if strings.Contains(text, "canary") {
			t.Errorf(`%s: got %q, want no "canary"`, target, text)
		}
		if n := strings.Count(f.log.String(), tc.cause); n != 1 {
			t.Errorf("%s: got the cause of the error %d times in the log, want once; log: %s", target, n, f.log)
		}
	}
}

func TestHeadRequestForUnknownPathHasNoBody(t *testing.T) {
	f := newFixture(t, nil)
	for _, target := range []string{"/nowhere", "/api/nothing"} {
		res := f.do(t, "HEAD", target, bearer(token))
		if text := body(t, res); res.StatusCode != http.StatusNotFound {
			t.Errorf("HEAD %s: status = %d, want 404, body %s", target, res.StatusCode, text)
		} else if text != "" {
			t.Errorf(`HEAD %s: body = %q, want ""`, target, text)
		}
	}
}

func TestAuditKeepsNewestActions(t *testing.T) {
	dir := t.TempDir()
	var b strings.Builder
	b.WriteString("cut line\"}\n{}\nnot JSON\n") // damaged lines, which the server must skip
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
	if len(latest) != maxShownActions {
		t.Fatalf("shown actions after the start: latest = %+v, want %d items", latest, maxShownActions)
	}
	if latest[0].Detail != "word pause" {
		t.Errorf(`shown actions after the start: Detail = %q, want "word pause"`, latest[0].Detail)
	}
	if latest[1].Action != "POST /old" {
		t.Errorf(`shown actions after the start: [1].Action = %q, want "POST /old"`, latest[1].Action)
	}
	for range 3 * maxShownActions {
		f.do(t, "POST", "/api/lessons/word/retire", bearer(token))
	}
	if latest = f.audit.latest(); len(latest) != maxShownActions {
		t.Errorf("after more actions: latest = %+v, want %d items", latest, maxShownActions)
	} else if latest[maxShownActions-1].Detail != "word retire" {
		t.Errorf(`after more actions: [maxShownActions-1].Detail = %q, want "word retire"`, latest[maxShownActions-1].Detail)
	} else if len(f.audit.list) > 2*maxShownActions {
		t.Errorf("after more actions: list = %+v, want at most %d items", f.audit.list, 2*maxShownActions)
	}
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if strings.Count(string(text), "\n") != 3+5000+1+3*maxShownActions {
		t.Errorf(`audit file: count of "\n" = %d, want %d`, strings.Count(string(text), "\n"), 3+5000+1+3*maxShownActions)
	}
}

// If the audit file is unreadable, the server nevertheless starts. It keeps the actions in memory and logs two errors,
// one when it reads the file and one when it writes an entry.
func TestUnreadableAuditFileIsLogged(t *testing.T) {
	dir := t.TempDir()
	if err := os.Mkdir(filepath.Join(dir, auditFile), 0o700); err != nil {
		t.Fatal(err)
	}
	f := newFixture(t, func(o *Options) { o.DataDir = dir })
	res := f.do(t, "POST", "/api/lessons/word/pause", bearer(token))
	if res.StatusCode != http.StatusOK {
		t.Errorf("action with an unreadable audit file: status = %d, want 200", res.StatusCode)
	}
	if len(f.audit.latest()) != 1 {
		t.Errorf("action with an unreadable audit file: latest = %+v, want 1 item", f.audit.latest())
	}
	if strings.Count(f.log.String(), "level=ERROR") != 2 {
		t.Errorf(`action with an unreadable audit file: count of "level=ERROR" = %d, want 2`, strings.Count(f.log.String(), "level=ERROR"))
	}
}
