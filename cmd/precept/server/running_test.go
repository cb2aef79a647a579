package server_test

import (
	"compress/gzip"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	"precept/admin"
	"precept/cmd/precept/server"
	"precept/inject/bank/banktest"
	"precept/internal/sample"
)

func (s *runningServer) getPage(path string) string {
	s.t.Helper()
	status, body := send(s.t, http.MethodGet, s.adminURL+path, map[string]string{"Authorization": "Bearer token", "Accept": "text/html"}, "")
	if status != http.StatusOK {
		s.t.Fatalf("%s: got status %d, body %s, want status 200", path, status, body)
	}
	return body
}

// reload writes text to the configuration file, and waits until the server has reloaded the file.
func (s *runningServer) reload(write func(text string), text string) {
	s.t.Helper()
	before := s.console.count("configuration reloaded")
	write(text)
	eventually(s.t, "reload", func() bool { return s.console.count("configuration reloaded") > before })
}

// postAdmin posts body to the admin listener and returns the response body. It fails the test unless the status is 2xx.
func (s *runningServer) postAdmin(path, body string) string {
	s.t.Helper()
	status, answer := send(s.t, http.MethodPost, s.adminURL+path, map[string]string{"Authorization": "Bearer token", "Content-Type": "application/json"}, body)
	if status/100 != 2 {
		s.t.Fatalf("%s: got status %d, body %s, want a 2xx status", path, status, answer)
	}
	return answer
}

// The report counts a rating that was posted to the admin API. A session that was forgotten through the admin API is in
// no list and no export. The export command writes the same lines as the export of the admin API.
func TestAdminActionsTakeEffectOnRunningServer(t *testing.T) {
	lessons := t.TempDir()
	banktest.WriteLesson(t, lessons, "look-first", "targets")
	source := newFlagSource(t, injectAllOptions(map[string]string{
		"upstream": startModel(t), "lessons": lessons, "reward.close_after": "50ms", "admin.price_input": "3",
	}))
	s := startServer(t, source)
	for i := range 3 {
		s.sendSession("coder", fmt.Sprint("s-", i), "build the targets", `"type":"score","score":1`)
	}
	s.sendSession("other", "s-3", "hello", `"type":"approval"`)
	var listing struct {
		Sessions []struct{ ID, Name string }
	}
	eventually(t, "four sessions with samples", func() bool {
		return json.Unmarshal([]byte(s.getPage("/api/sessions")), &listing) == nil && len(listing.Sessions) == 4 &&
			strings.Count(s.getPage("/api/samples"), `"sample_id"`) == 4
	})
	s.postAdmin("/api/feedback", `{"session_id":"s-0","source":"user","type":"score","score":0}`)
	eventually(t, "rating in the report", func() bool {
		r, err := s.server.Report(t.Context(), admin.ReportQuery{Tenant: "default"})
		return err == nil && len(r.Lessons) == 1 && r.Lessons[0].NInjected == 3 && r.Lessons[0].MeanInjected != nil && *r.Lessons[0].MeanInjected < 0.9
	})
	if text := s.getPage("/lessons/look-first?backtest=1"); !strings.Contains(text, "The lesson would have fired in <strong>3</strong> of the <strong>4</strong>") {
		t.Error("backtest on the lesson page: got no result with 3 of 4 sessions, want this result")
	}
	eventually(t, "stored session count on /breakdown", func() bool {
		return strings.Contains(s.getPage("/breakdown"), "10 withheld. 3 closed sessions with a reward are stored")
	})
	exports := map[string]string{}
	for _, format := range []string{"mplp", "openai", "experiment"} {
		exports[format] = s.getPage("/api/export?format=" + format)
	}
	if n := strings.Count(s.getPage("/api/export?format=mplp&agent=other"), "\n"); n != 1 {
		t.Errorf("export for one agent: got %d samples, want 1", n)
	}
	if answer := s.postAdmin("/api/forget", `{"tenant":"default","session":"s-3"}`); !strings.Contains(answer, `"forgotten":1`) {
		t.Errorf("/api/forget: got body %s, want it to contain \"forgotten\":1", answer)
	}
	for path, forgotten := range map[string]string{"/api/sessions": `"s-3"`, "/api/export?format=openai": `"hello"`} {
		if strings.Contains(s.getPage(path), forgotten) {
			t.Errorf("%s: got a body that contains %s of the forgotten session, want a body without it", path, forgotten)
		}
	}
	if err := s.stopAndWait(); err != nil {
		t.Fatal(err)
	}
	tools := testTools()
	e, err := tools.OpenFiltered(t.Context(), loadConfig(t, source))
	if err != nil {
		t.Fatal(err)
	}
	defer e.Close() //nolint:errcheck // nothing was written
	for format, served := range exports {
		var out strings.Builder
		if err := (&server.ExportJob{StoreReader: e, Filter: &sample.Filter{}, Out: &out}).Write(t.Context(), format); err != nil {
			t.Fatal(err)
		}
		for line := range strings.Lines(out.String()) {
			if !strings.Contains(served, line) {
				t.Errorf("export from the admin API as %s: got no line %s, want this line of the command's export", format, line)
			}
		}
		if fewer := strings.Count(served, "\n") - strings.Count(out.String(), "\n"); fewer < 0 || format != "experiment" && fewer != 1 {
			t.Errorf("export as %s after a session with one turn was forgotten: got %d fewer lines than before, want 1 line fewer, or at least 0 for the format experiment", format, fewer)
		}
	}
}

// While an agent is opted out, the export omits all exchanges of the agent. An exchange during this time is not stored,
// so it is not exported later either.
func TestReloadOptsAgentOutAndInAgain(t *testing.T) {
	source := newFlagSource(t, injectAllOptions(map[string]string{"upstream": startModel(t), "reward.close_after": "50ms"}))
	write := addConfigFile(t, source)
	write("{}\n")
	s := startServer(t, source)
	samples := func(agent string) int {
		return strings.Count(s.getPage("/api/export?format=mplp&agent="+agent), "\n")
	}
	s.sendSession("shy", "before", "hello", `"type":"approval"`)
	eventually(t, "sample", func() bool { return samples("shy") == 1 })
	s.reload(write, "learning: {opt_out_agents: [shy]}\n")
	if samples("shy") != 0 {
		t.Error("export while the agent is opted out: got an earlier exchange of the agent, want none")
	}
	header := map[string]string{"Precept-Agent": "shy", "Precept-Session": "meanwhile"}
	if status, answer := send(t, http.MethodPost, s.dataURL+"/v1/chat/completions", header, `{"model":"m","messages":[{"role":"user","content":"hush"}]}`); status != http.StatusOK {
		t.Fatalf("chat request during the opt-out: got status %d, body %q, want status 200", status, answer)
	}
	s.sendSession("frank", "beside", "hello", `"type":"approval"`)
	eventually(t, "another agent's sample", func() bool { return samples("frank") == 1 })
	s.reload(write, "log: {level: debug}\n")
	s.sendSession("shy", "after", "hello again", `"type":"approval"`)
	eventually(t, "samples from before and after the opt-out", func() bool { return samples("shy") == 2 })
	if strings.Contains(s.getPage("/api/export?format=mplp"), "hush") {
		t.Error("export after the agent is opted in again: got an exchange from the time of the opt-out, want none")
	}
	if err := s.stopAndWait(); err != nil {
		t.Error(err)
	}
}

// After a reload, the overview names the changed keys that need a restart. Other changes in the same file, such as a
// new viewer token, take effect at once.
func TestChangedSessionLimitNeedsRestart(t *testing.T) {
	source := newFlagSource(t, map[string]string{"upstream": startModel(t), "admin.tokens": "[token]"})
	write := addConfigFile(t, source)
	write("{}\n")
	s := startServer(t, source)
	viewerStatus := func() int { return getStatus(t, s.adminURL+"/api/report", "viewer") }
	if viewerStatus() != http.StatusUnauthorized {
		t.Errorf("request with the viewer token before the reload: got status %d, want 401", viewerStatus())
	}
	s.reload(write, "admin: {viewer_tokens: [viewer]}\nlimits: {sessions: 7}\n")
	if viewerStatus() != http.StatusOK {
		t.Errorf("request with the viewer token after the reload: got status %d, want 200", viewerStatus())
	}
	if !strings.Contains(s.getPage("/"), "changed keys that need a restart: limits.sessions") {
		t.Error("overview after limits.sessions changed: got no text \"changed keys that need a restart: limits.sessions\", want this text")
	}
	if status, _ := send(t, http.MethodPost, s.adminURL+"/api/forget", map[string]string{"Authorization": "Bearer viewer"}, `{"tenant":"default","all":true}`); status != http.StatusForbidden {
		t.Errorf("/api/forget with a viewer token: got status %d, want 403", status)
	}
	s.reload(write, "{}\n\n")
	if viewerStatus() != http.StatusUnauthorized {
		t.Errorf("request with the removed viewer token: got status %d, want 401", viewerStatus())
	}
	if strings.Contains(s.getPage("/"), "need a restart") {
		t.Error("overview after the change was reverted: got the text \"need a restart\", want no such text")
	}
	if err := s.stopAndWait(); err != nil {
		t.Error(err)
	}
}

// The server sends a span to the collector for each request. A request succeeds even if the collector refuses its span.
func TestSpansAreSentToCollector(t *testing.T) {
	var refuses atomic.Bool
	spans := make(chan string, 100)
	collector := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if refuses.Load() {
			w.WriteHeader(http.StatusBadRequest)
			return
		}
		body := io.Reader(r.Body)
		if r.Header.Get("Content-Encoding") == "gzip" {
			if z, err := gzip.NewReader(body); err == nil {
				body = z
			}
		}
		b, _ := io.ReadAll(body)
		spans <- r.Header.Get("Authorization") + " " + r.URL.Path + " " + string(b)
	}))
	defer collector.Close()
	options := injectAllOptions(map[string]string{
		"upstream": startModel(t), "otel.endpoint": collector.URL, "otel.headers": "Authorization: Bearer spans", "metrics.public": "true",
	})
	s := startServer(t, newFlagSource(t, options))
	s.sendSession("coder", "traced", "words of the conversation", `"type":"approval"`)
	if err := s.stopAndWait(); err != nil { // the server sends the buffered spans when it stops
		t.Fatal(err)
	}
	got := <-spans
	for _, want := range []string{"Bearer spans /v1/traces ", "chat m", "gen_ai.request.model", "coder"} {
		if !strings.Contains(got, want) {
			t.Errorf("got span %q, want a span that contains %q", got, want)
		}
	}
	if strings.Contains(got, "words of the conversation") {
		t.Error("span: got text of the conversation in it, want none")
	}
	refuses.Store(true)
	restarted := startServer(t, newFlagSource(t, options))
	restarted.sendSession("coder", "refused", "hello", `"type":"approval"`)
	eventually(t, "dropped span in the metrics", func() bool {
		_, text := send(t, http.MethodGet, restarted.adminURL+"/metrics", nil, "")
		return strings.Contains(text, `precept_spans_total{outcome="dropped"} 1`)
	})
	if n := restarted.console.count("traces were not delivered"); n != 1 {
		t.Errorf("log lines \"traces were not delivered\": got %d, want 1", n)
	}
	if err := restarted.stopAndWait(); err != nil {
		t.Error(err)
	}
}

// After a crash, the next start replaces the run.json that was left behind. If the lesson directory does not exist at
// the start, the server loads the lessons when it appears. If a lesson file becomes invalid, the previous text of the
// lesson stays in effect.
func TestStartAfterCrashFindsLessonDirectoryLater(t *testing.T) {
	m := newRecordingModel(t)
	lessons := filepath.Join(t.TempDir(), "later")
	source := newFlagSource(t, injectAllOptions(map[string]string{"upstream": m.URL + "/v1", "lessons": lessons}))
	data := loadConfig(t, source).DataDir
	if err := server.WriteRunFile(data, server.RunFile{PID: 1, DataURL: "http://127.0.0.1:1", AdminURL: "http://127.0.0.1:2"}); err != nil {
		t.Fatal(err)
	}
	s := startServer(t, source, handleSignals)
	if run, err := server.ReadRunFile(data); err != nil || run.DataURL != s.dataURL || run.AdminURL != s.adminURL || run.PID != os.Getpid() {
		t.Errorf("run.json: got %+v, error %v, want the new server's addresses and process", run, err)
	}
	if !s.console.contains("the lesson directory does not exist") {
		t.Error("log after the start: got no line \"the lesson directory does not exist\", want this line")
	}
	if err := os.Mkdir(lessons, 0o700); err != nil {
		t.Fatal(err)
	}
	banktest.WriteLesson(t, lessons, "look-first", "targets")
	lessonInjected := func() bool { return m.lessonInjected(s) }
	eventually(t, "session with the lesson", lessonInjected)
	file := filepath.Join(lessons, "look-first.md")
	if err := os.WriteFile(file, []byte("---\nno: [lesson\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	eventually(t, "log line about the invalid file", func() bool { return s.console.contains("a lesson file has faults and is not used") })
	if _, answer := send(t, http.MethodGet, s.adminURL+"/api/health", map[string]string{"Authorization": "Bearer token"}, ""); !strings.Contains(answer, "look-first.md") || !strings.Contains(answer, "lesson_invalid") {
		t.Errorf("/api/health with an invalid lesson file: got body %s, want it to contain look-first.md and lesson_invalid", answer)
	}
	if !lessonInjected() {
		t.Error("session while the lesson file is invalid: got no lesson in the request, want the previous text of the lesson")
	}
	if err := os.Remove(file); err != nil {
		t.Fatal(err)
	}
	eventually(t, "session without the removed lesson", func() bool { return !lessonInjected() })
	if err := s.stopAndWait(); err != nil {
		t.Error(err)
	}
	if err := os.WriteFile(server.RunFilePath(data), []byte("half a fi"), 0o600); err != nil {
		t.Fatal(err)
	}
	if run, err := server.ReadRunFile(data); err == nil || !strings.Contains(err.Error(), "run.json") {
		t.Errorf("ReadRunFile(malformed run.json) = %+v, %v, want an error that contains run.json", run, err)
	}
}

func TestOverviewCountsRequestsToUnsupportedAPIs(t *testing.T) {
	s := startServer(t, newFlagSource(t, injectAllOptions(map[string]string{"upstream": startModel(t)})))
	const want = "2 POST requests were forwarded, but got no lessons and were not stored"
	if page := s.getPage("/"); strings.Contains(page, "Unsupported API") {
		t.Error("overview before the first request: got the text \"Unsupported API\", want no such text")
	}
	for range 2 {
		send(t, http.MethodPost, s.dataURL+"/v1beta/models/gemini:generateContent", nil, `{}`)
	}
	if page := s.getPage("/"); !strings.Contains(page, "Unsupported API") || !strings.Contains(page, want) {
		t.Errorf("overview after two requests to an unsupported API: got a page that lacks \"Unsupported API\" or %q, want both", want)
	}
	if err := s.stopAndWait(); err != nil {
		t.Error(err)
	}
}
