package admin_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"precept/admin"
	"precept/bandit/feedback"
	"precept/internal/session"
	"precept/store"
)

func sendAPI(h http.Handler, method, target, body string) *http.Response {
	r := httptest.NewRequest(method, target, strings.NewReader(body))
	r.Host = "127.0.0.1:8081"
	r.Header.Set("Authorization", "Bearer key")
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	return w.Result()
}

// sizedExport is an export that writes a given number of bytes one by one.
type sizedExport int

func (s sizedExport) Export(_ context.Context, w io.Writer, _ admin.Export) error {
	for range s {
		if _, err := io.WriteString(w, "x"); err != nil {
			return err
		}
	}
	return nil
}

func TestExportHasFileNameAndTypeEvenIfEmpty(t *testing.T) {
	for n := range 3 {
		w := newWordSource("word")
		o := w.options()
		o.Read.Export = sizedExport(n)
		h, err := admin.New(o)
		if err != nil {
			t.Fatal(err)
		}
		for format, want := range map[string][2]string{
			"": {"application/x-ndjson", "precept-mplp.jsonl"}, "openai": {"application/x-ndjson", "precept-openai.jsonl"},
			"experiment": {"application/x-ndjson", "precept-experiment.jsonl"}, "parquet": {"application/vnd.apache.parquet", "precept.parquet"},
		} {
			res := sendAPI(h, "GET", "/api/export?format="+format, "")
			if got := readBody(res); res.StatusCode != http.StatusOK {
				t.Errorf("export with format %q: status = %d, want 200", format, res.StatusCode)
			} else if got != strings.Repeat("x", n) {
				t.Errorf("export with format %q = %q, want %q", format, got, strings.Repeat("x", n))
			}
			head := [2]string{res.Header.Get("Content-Type"), res.Header.Get("Content-Disposition")}
			if head != [2]string{want[0], `attachment; filename="` + want[1] + `"`} {
				t.Errorf("export with format %q: got content type and file name %q, want %q", format, head, [2]string{want[0], `attachment; filename="` + want[1] + `"`})
			}
		}
	}
}

// failingSource is a wordSource in which each read and each rating returns err.
type failingSource struct {
	*wordSource
	err error
}

func (f failingSource) Browse(context.Context, store.SessionQuery) (store.SessionList, error) {
	return f.list, f.err
}

func (f failingSource) Transcript(context.Context, string, string, int) (store.Transcript, error) {
	return f.transcript, f.err
}

func (f failingSource) InsertedText(context.Context, string, string, string) (string, error) {
	return "", f.err
}

func (f failingSource) BrowseSamples(context.Context, *store.SampleQuery) (store.SampleList, error) {
	return f.samples, f.err
}

func (f failingSource) Rate(context.Context, string, feedback.Post) (store.Posted, error) {
	return store.Posted{}, f.err
}

func TestStoreErrorHasSameTextInAPIAndOnPages(t *testing.T) {
	for _, tc := range []struct {
		err      error
		status   int
		wantText string
	}{
		{fmt.Errorf("read it: %w", session.ErrUnknownPosition), 400, "not a list position"},
		{fmt.Errorf("read it: %w", store.ErrNoSession), 404, "the session has no stored data"},
		{errors.New("disk canary"), 503, "the store cannot be read"},
	} {
		w := newWordSource("word")
		o := w.options()
		o.Read.Archive, o.Write.Rate = failingSource{w, tc.err}, failingSource{w, tc.err}
		h, err := admin.New(o)
		if err != nil {
			t.Fatal(err)
		}
		cookie := serve(h, "/login?token=key", nil).Cookies()[0]
		for _, path := range []string{"/sessions", "/sessions/word", "/samples"} {
			res := sendAPI(h, "GET", "/api"+path, "")
			if text := readBody(res); res.StatusCode != tc.status {
				t.Errorf("/api%s, with error %v from the store: status = %d, want %d, body %s", path, tc.err, res.StatusCode, tc.status, text)
			} else if !strings.Contains(text, tc.wantText) {
				t.Errorf("/api%s, with error %v from the store: body = %q, want substring %q", path, tc.err, text, tc.wantText)
			} else if strings.Contains(text, "canary") {
				t.Errorf(`/api%s, with error %v from the store: body = %q, want no "canary"`, path, tc.err, text)
			}
			res = serve(h, path, cookie)
			_, main, _ := strings.Cut(readBody(res), "<main") // pages begin the error with a capital letter
			if res.StatusCode != tc.status {
				t.Errorf("page %s, with error %v from the store: status = %d, want %d", path, tc.err, res.StatusCode, tc.status)
			}
			if !strings.Contains(main, tc.wantText[1:]) {
				t.Errorf("page %s, with error %v from the store: main = %q, want substring %q", path, tc.err, main, tc.wantText[1:])
			}
			if strings.Contains(main, "canary") {
				t.Errorf(`page %s, with error %v from the store: main = %q, want no "canary"`, path, tc.err, main)
			}
			if strings.Contains(main, `<div class="scroll`) {
				t.Errorf(`page %s, with error %v from the store: main = %q, want no "<div class=\"scroll"`, path, tc.err, main)
			}
			if strings.Contains(main, `<div class="samples`) {
				t.Errorf(`page %s, with error %v from the store: main = %q, want no "<div class=\"samples"`, path, tc.err, main)
			}
		}
		res := sendAPI(h, "POST", "/api/feedback", `{"session_id":"x","source":"user","type":"approval"}`)
		if res.StatusCode != tc.status {
			t.Errorf("feedback, with error %v from the store: got status %d, want %d", tc.err, res.StatusCode, tc.status)
		}
	}
}

func TestFeedbackAndTenantOverTheLimitAreRefused(t *testing.T) {
	w := newWordSource("word")
	o := w.options()
	o.Write.Rate = failingSource{w, nil}
	h, err := admin.New(o)
	if err != nil {
		t.Fatal(err)
	}
	const entry = `{"session_id":"x","source":"user","type":"approval"}`
	for size, want := range map[int]int{len(entry): 202, 1 << 20: 202, 1<<20 + 1: 413} {
		if res := sendAPI(h, "POST", "/api/feedback", entry+strings.Repeat(" ", size-len(entry))); res.StatusCode != want {
			t.Errorf("feedback with %d bytes: got status %d, want %d", size, res.StatusCode, want)
		}
	}
	if res := sendAPI(h, "POST", "/api/feedback?tenant="+strings.Repeat("t", 257), entry); res.StatusCode != 400 {
		t.Errorf("feedback for a tenant whose name has 257 bytes: got status %d, want 400", res.StatusCode)
	}
}

func TestErrorNamesTheInvalidQueryParameter(t *testing.T) {
	h, err := admin.New(newWordSource("word").options())
	if err != nil {
		t.Fatal(err)
	}
	for _, tc := range []struct {
		path, key string
		valid     []string
		invalid   []string
	}{
		{"/api/report", "tenant", []string{"", strings.Repeat("t", 256)}, []string{strings.Repeat("t", 257)}},
		{"/api/report", "window", []string{"", "all", "0h", "24h", "0d", "65535d"}, []string{"-1h", "65536d", "d", "1w", "1.5d"}},
		{"/api/report", "provisional", []string{"", "true", "0"}, []string{"yes", "2"}},
		{"/api/report", "what_if", []string{"", "0.01", "0.99"}, []string{"0", "1", "-0.1", "NaN", "x"}},
		{"/api/report", "explain", []string{"", "slug"}, []string{strings.Repeat("s", 257)}},
		{"/api/sessions", "limit", []string{"", "0", "5"}, []string{"-1", "1.5", "x", "99999999999999999999"}},
		{"/api/sessions", "min_reward", []string{"", "0", "1", "0.5"}, []string{"-0.01", "1.01", "NaN", "x"}},
		{"/api/sessions", "loops", []string{"", "1", "false"}, []string{"maybe"}},
		{"/api/sessions", "since", []string{"", "2026-01-31", "2026-01-31T12:00", "2026-01-31T12:00:00Z"}, []string{"2026-13-01", "31.1.2026"}},
		{"/api/sessions", "verdict", []string{"", "good"}, []string{"Good", "any"}},
		{"/api/samples", "quality", []string{"", "good", "good,poor", " good , ,poor"}, []string{"best", "good,best"}},
		{"/api/samples", "family", []string{"", "error_correction"}, []string{"errors"}},
		{"/api/export", "format", []string{"", "openai"}, []string{"csv"}},
	} {
		for status, values := range map[int][]string{200: tc.valid, 400: tc.invalid} {
			for _, v := range values {
				res := sendAPI(h, "GET", tc.path+"?"+tc.key+"="+strings.ReplaceAll(v, " ", "+"), "")
				if text := readBody(res); res.StatusCode != status || status == 400 && !strings.HasPrefix(text, `{"error":"`+tc.key+": ") {
					t.Errorf("parameter %s=%.30q for %s: got status %d, body %.200s, want status %d; want an error that begins with the name of the parameter if the status is 400", tc.key, v, tc.path, res.StatusCode, text, status)
				}
			}
		}
	}
}
