package server

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"unicode/utf8"

	"precept/admin"
	"precept/store"
	"precept/store/storetest"
	"precept/test/harness"
)

const userText = "Run the build script. <script>alert(1)</script> \x1b[31m"

func TestAdminListenerServesSessions(t *testing.T) {
	t.Setenv("PRECEPT_ADMIN_TOKEN", "e2e-token")
	redis := storetest.StartRedis(t)
	for name, flags := range map[string][]string{"sqlite": nil, "redis": {"--store-url", redis.URL()}} {
		t.Run(name, func(t *testing.T) { checkSessionViews(t, flags) })
	}
}

func TestFacetsCountFailedReplies(t *testing.T) {
	model := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		harness.ReplyJSON(w, http.StatusTooManyRequests, map[string]any{"error": map[string]string{"message": "slow down"}})
	}))
	t.Cleanup(model.Close)
	p := harness.Start(t, t.TempDir(), "--upstream", model.URL+"/v1")
	harness.Post(t, p.DataURL+"/v1/chat/completions", nil, `{"model":"m","messages":[{"role":"user","content":"hello"}]}`)
	harness.Eventually(t, "the facet upstream-429", func() bool {
		var facets store.Facets
		p.GetAdmin(t, "/api/facets", &facets)
		return len(facets.ErrorKinds) == 1 && facets.ErrorKinds[0].Value == "upstream-429" && facets.ErrorKinds[0].Sessions == 1
	})
	for kind, want := range map[string]int{"upstream-429": 1, "upstream-500": 0} {
		var list store.SessionList
		if p.GetAdmin(t, "/api/sessions?error_kind="+kind, &list); len(list.Sessions) != want {
			t.Errorf("sessions with error_kind %s: got %d, want %d", kind, len(list.Sessions), want)
		}
	}
}

// In the path /sessions/.., the two dots mean the parent directory, so precept watch must send the name of the session
// in the query.
func TestWatchFindsASessionNamedDotDot(t *testing.T) {
	t.Setenv("PRECEPT_ADMIN_TOKEN", "e2e-token")
	p := harness.Start(t, t.TempDir(), "--upstream", harness.RepeatingServer(t, harness.ChatReply("r", "hello")).URL+"/v1")
	p.Chat(t, http.Header{"Precept-Session": {".."}}, `{"model":"m","messages":[{"role":"user","content":"find the dots"}]}`)
	harness.Eventually(t, "the session's turn", func() bool {
		out, _, code := harness.RunCommand(t, "", "watch", "..", "--once", "--data-dir", p.Dir)
		return code == harness.ExitOK && strings.Contains(out, "find the dots")
	})
}

// checkSessionViews runs a learned session and an opted-out session. It then checks what the API, precept watch, the
// exports and the pages show.
func checkSessionViews(t *testing.T, flags []string) {
	t.Helper()
	m := harness.NewModel(t, []harness.Step{{Text: "Done."}})
	dir := t.TempDir()
	p := harness.Start(t, dir, append(append(harness.AlwaysInject(m, harness.LessonDir(t)), "--reward-close-after", "4s"), flags...)...)
	learned := &harness.Conversation{T: t, BaseURL: p.DataURL, Dialect: "chat", Header: map[string]string{"Precept-Session": "one"}}
	learned.User(userText)
	learned.Send(false)
	optedOut := &harness.Conversation{T: t, BaseURL: p.DataURL, Dialect: "chat", Header: map[string]string{"Precept-Session": "opted", "Precept-Learn": "off"}}
	optedOut.User("Run the build script, the canary-word is secret.")
	optedOut.Send(false)
	var list store.SessionList
	harness.Eventually(t, "the stored session with an error count", func() bool {
		p.GetAdmin(t, "/api/sessions?words="+url.QueryEscape("<script>"), &list)
		return len(list.Sessions) == 1 && list.Sessions[0].Errors != nil
	})
	one := list.Sessions[0]
	if one.Name != "one" || one.Turns != 1 || len(one.Injected) != 1 || one.Found == nil {
		t.Errorf("listed session: got %+v, want the name \"one\", 1 turn, 1 injected lesson, and Found set", one)
	}
	if !strings.HasPrefix(one.Task, "Run the build script.") || one.Errors == nil || *one.Errors != 0 || one.Output == nil || one.Seconds <= 0 {
		t.Errorf("listed session: got %+v, want the user message as the task, 0 errors, output tokens, and a duration", one)
	}
	var facets store.Facets
	harness.Eventually(t, "the facets to count the session", func() bool {
		p.GetAdmin(t, "/api/facets", &facets)
		return facets.Selected > 0
	})
	if facets.Selected != 1 || len(facets.Lessons) != 1 || facets.Lessons[0].Injected != 1 {
		t.Errorf("/api/facets: got %+v, want 1 session with 1 injected lesson, and no opted-out session", facets)
	}
	var transcript store.Transcript
	p.GetAdmin(t, "/api/sessions/one", &transcript)
	var kinds []string
	for _, e := range transcript.TurnItems[0].Entries {
		kinds = append(kinds, e.Kind)
	}
	if got := strings.Join(kinds, " "); !strings.HasSuffix(got, "block user assistant") {
		t.Errorf("entries of turn 1: got kinds %s, want block, user and assistant as the last three", got)
	}
	checkWatch(t, dir, one.ID)
	if code, _ := harness.Post(t, p.AdminURL+"/api/feedback", http.Header{"Authorization": {"Bearer e2e-token"}}, `{"session_id":"one","source":"user","type":"score","score":0.8}`); code != http.StatusAccepted {
		t.Errorf("feedback: got status %d, want 202", code)
	}
	harness.Eventually(t, "the closed session and the sample", func() bool {
		var s store.SampleList
		p.GetAdmin(t, "/api/sessions/one", &transcript)
		p.GetAdmin(t, "/api/samples?quality=good", &s)
		return transcript.Closed && transcript.Rewarded.Counted != nil && *transcript.Rewarded.Counted == 0.8 && len(s.Samples) == 1
	})
	out, err := harness.CommandOutput(t, "watch", one.ID, "--data-dir", dir)
	if err != nil || !strings.Contains(out, "closed after turn 1: reward 0.80 (good), from the user") {
		t.Errorf(`precept watch on a closed session: got error %v, output %s, want "closed after turn 1: reward 0.80 (good), from the user"`, err, out)
	}
	checkSameExports(t, p, dir, flags)
	for query, wantLines := range map[string]bool{"session=" + one.ID: true, "agent=" + one.Agent: true, "agent=nobody": false, "session=other": false} {
		for _, format := range []string{"mplp", "openai"} {
			var text string
			if code := p.GetAdmin(t, "/api/export?format="+format+"&"+query, &text); code != http.StatusOK || (text != "") != wantLines {
				t.Errorf("/api/export?%s in format %s: got status %d, body %q, want 200 and a non-empty body: %v", query, format, code, text, wantLines)
			}
		}
	}
	checkHealth(t, p)
	var page string
	for _, path := range []string{"/sessions", "/sessions/" + one.ID, "/samples", "/health", "/api/sessions", "/api/samples", "/api/export?format=openai", "/api/health"} {
		if code := p.GetAdmin(t, path, &page); code != http.StatusOK || strings.Contains(page, "canary-word") || strings.Contains(page, "e2e-token") || strings.Contains(page, "\x1b") {
			t.Errorf("%s: got status %d, body %s, want 200 and a body without the opted-out text, the token or the escape character", path, code, page)
		}
	}
	if code, text := harness.Post(t, p.AdminURL+"/api/forget", http.Header{"Authorization": {"Bearer e2e-token"}}, `{"session":"one"}`); code != http.StatusOK || !strings.Contains(text, `"forgotten":1`) {
		t.Errorf("/api/forget: got status %d, body %s, want 200 and 1 forgotten session", code, text)
	}
	if code := p.GetAdmin(t, "/api/sessions/one", nil); code != http.StatusNotFound {
		t.Errorf("GET forgotten session: got status %d, want 404", code)
	}
}

func checkWatch(t *testing.T, dir, id string) {
	t.Helper()
	for _, args := range [][]string{{"watch", "one"}, {"watch", id}, {"watch", "--latest"}} {
		out, err := harness.CommandOutput(t, append(args, "--once", "--data-dir", dir)...)
		if err != nil || !strings.Contains(out, "PRECEPT +") || !strings.Contains(out, "[check-the-target]") || !strings.Contains(out, "<script>") || strings.Contains(out, "\x1b") {
			t.Errorf("precept %v: got error %v, output %s, want the inserted lesson and the user's text without the escape character", args, err, out)
		}
		for line := range strings.Lines(out) {
			if n := utf8.RuneCountInString(strings.TrimRight(line, "\n")); n > 80 {
				t.Errorf("precept %v: line %q: got %d columns, want at most 80", args, line, n)
			}
		}
	}
	out, err := harness.CommandOutput(t, "watch", "one", "--once", "--json", "--data-dir", dir)
	var turn store.TurnItem
	if err != nil || json.Unmarshal([]byte(out), &turn) != nil || turn.Turn != 1 {
		t.Errorf("watch --json: got error %v, output %s, want JSON for turn 1", err, out)
	}
	for _, tc := range []struct {
		args []string
		want string
	}{
		{[]string{"watch", "--once", "--data-dir", dir, "nobody"}, "the session is unknown, or its first turn is not stored yet"},
		{[]string{"watch", "--latest", "--data-dir", t.TempDir()}, "no server is running on this data directory"},
		{[]string{"watch"}, "name a session"},
		{[]string{"watch", "one", "--latest"}, "name a session"},
	} {
		if out, err := harness.CommandOutput(t, tc.args...); err == nil || !strings.Contains(err.Error(), tc.want) {
			t.Errorf("precept %v: got error %v, output %s, want an error with %q", tc.args, err, out, tc.want)
		}
	}
}

func checkSameExports(t *testing.T, p *harness.Process, dir string, flags []string) {
	t.Helper()
	for _, format := range admin.ExportFormats() {
		var apiExport string
		if code := p.GetAdmin(t, "/api/export?format="+format, &apiExport); code != http.StatusOK || apiExport == "" && format != "preference" {
			t.Errorf("/api/export in format %s: got status %d and %d bytes, want 200 and at least 1 byte", format, code, len(apiExport))
		}
		if commandExport := harness.MustRun(t, append([]string{"export", "--data-dir", dir, "--format", format, "--tenant", "default"}, flags...)...); commandExport != apiExport && format != "parquet" {
			t.Errorf("/api/export in format %s: got\n%s\nwant the output of precept export\n%s", format, apiExport, commandExport)
		}
	}
}

func checkHealth(t *testing.T, p *harness.Process) {
	t.Helper()
	var h admin.Health
	harness.Eventually(t, "the exchange in /api/health", func() bool {
		p.GetAdmin(t, "/api/health", &h)
		return h.Account.Stored > 0
	})
	if !h.Account.Balanced || h.Account.Admitted < 1 || h.PID != p.PID || h.Account.Problem+h.Store.Problem != "" || !h.Store.Healthy || len(h.Config) < 50 {
		t.Errorf("/api/health: got account %+v, store %+v, process %d, %d settings, want a balanced account, a healthy store, no problem, process %d and at least 50 settings",
			h.Account, h.Store, h.PID, len(h.Config), p.PID)
	}
	changed := map[string]string{}
	for _, s := range h.Config {
		if s.Changed {
			changed[s.Path] = s.Value
		}
	}
	if changed["reward.close_after"] != "4s" || changed["admin.tokens"] == "" || strings.Contains(changed["admin.tokens"], "e2e") {
		t.Errorf("changed settings: got %v, want reward.close_after = 4s, and admin.tokens without the token", changed)
	}
	audited := false
	for _, n := range h.Audit {
		audited = audited || n.Action == "POST /api/feedback"
	}
	if !audited {
		t.Errorf("audit log: got %+v, want an entry for POST /api/feedback", h.Audit)
	}
}
