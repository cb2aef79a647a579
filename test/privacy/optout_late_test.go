package privacy

import (
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/parquet-go/parquet-go"

	"precept/store/storetest"
	"precept/test/harness"
)

const (
	tenantCanary = "heliotrope-2718"
	agentCanary  = "marigold-3141"
	pathCanary   = "larkspur-1414"   // in a tool result, and in the reply to that result
	keptCanary   = "snapdragon-1732" // in turns without an opt-out
)

// importSessions imports one session for each canary. The session with pathCanary also has a later turn with
// keptCanary.
func importSessions(t *testing.T, store []string) {
	t.Helper()
	transcriptJSON := func(id, canary string) string {
		return fmt.Sprintf(`{"id":%q,"reward":0,"messages":[{"role":"user","content":"Fix the build of %s"},{"role":"assistant","content":"Done with %[2]s."},{"role":"user","content":"No, that is wrong, use %[2]s"},{"role":"assistant","content":"Used %[2]s."}]}`, id, canary)
	}
	vaultTranscript := `{"id":"p","reward":0,"messages":[{"role":"user","content":"Deploy the server"},` +
		`{"role":"assistant","content":null,"tool_calls":[{"id":"c1","type":"function","function":{"name":"read","arguments":"{\"path\":\"deploy/prod.vault\"}"}}]},` +
		`{"role":"tool","tool_call_id":"c1","content":"Error: ENOENT: no such file or directory, open 'deploy/prod.vault' of ` + pathCanary + `"},` +
		`{"role":"assistant","content":null,"tool_calls":[{"id":"c2","type":"function","function":{"name":"read","arguments":"{\"path\":\"/srv/deploy/prod.vault\"}"}}]},` +
		`{"role":"tool","tool_call_id":"c2","content":"HOST=` + pathCanary + `"},{"role":"assistant","content":"The host is ` + pathCanary + `."},` +
		`{"role":"user","content":"Thanks, now say goodbye to ` + keptCanary + `"},{"role":"assistant","content":"Goodbye ` + keptCanary + `."}]}`
	for _, tc := range []struct{ transcript, tenant, agent string }{
		{transcriptJSON("t", tenantCanary), "acme", "coder"},
		{transcriptJSON("a", agentCanary), "default", "nightly-7"},
		{vaultTranscript, "default", "coder"},
		{transcriptJSON("s", keptCanary), "default", "coder"},
	} {
		path := filepath.Join(t.TempDir(), "transcript.jsonl")
		if err := os.WriteFile(path, []byte(tc.transcript+"\n"), 0o600); err != nil {
			t.Fatal(err)
		}
		harness.MustRun(t, slices.Concat([]string{"import", path, "--tenant", tc.tenant, "--agent", tc.agent}, store)...)
	}
}

const optOutConfig = "learning: {opt_out_tenants: [acme], opt_out_agents: ['nightly-*'], opt_out_patterns: ['*.vault']}\n"

func parquetText(t *testing.T, file string) string {
	t.Helper()
	rows, err := parquet.Read[struct {
		Agent   string `parquet:"agent"`
		Input   string `parquet:"input"`
		Output  string `parquet:"output"`
		Session string `parquet:"session"`
	}](strings.NewReader(file), int64(len(file)))
	if err != nil {
		t.Fatal(err)
	}
	return fmt.Sprint(rows)
}

// commandOutputs returns the outputs of the commands that print stored text, and what precept distill sends to the
// judge model.
func commandOutputs(t *testing.T, store []string) map[string]string {
	t.Helper()
	run := func(args ...string) string {
		t.Helper()
		out, stderr, code := harness.RunCommand(t, "", append(args, store...)...)
		if code != harness.ExitOK {
			t.Fatalf("%v: got exit code %d, standard error %s, want 0", args, code, stderr)
		}
		return out
	}
	all := map[string]string{}
	for _, format := range []string{"mplp", "openai", "preference", "experiment", "parquet"} {
		all["export "+format] = run("export", "--format", format)
	}
	lake := t.TempDir()
	run("export", "--follow", "--once", "--format", "parquet", "--output", lake, "--group", "g"+harness.RandomHex(6))
	for name, text := range harness.Files(t, lake) {
		if strings.HasSuffix(name, ".parquet") {
			all["lake"] += name + parquetText(t, text)
		}
	}
	all["export parquet"] = parquetText(t, all["export parquet"])
	var judgeRequests harness.LockedBuffer
	judge := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		_, _ = judgeRequests.Write(body)
		harness.ReplyJSON(w, http.StatusOK, map[string]any{"choices": []any{map[string]any{"finish_reason": "stop", "message": map[string]string{"content": `{"outcome":"failure","reason":"x","lessons":[]}`}}}})
	}))
	defer judge.Close()
	lessonsDir := t.TempDir()
	all["distill"] = run("distill", "--judge", judge.URL+"/v1", "--model", "m", "--lessons", lessonsDir, "--dry-run") + judgeRequests.String()
	all["distill by rules"] = run("distill", "--judge", "rules", "--lessons", lessonsDir, "--dry-run")
	all["backtest"] = run("lessons", "backtest", filepath.Join(harness.LessonDir(t), "check-the-target.md"), "--json")
	all["rules"] = run("rules", "scan", "--json") + run("rules", "scan", "--tenant", "acme", "--json")
	return all
}

// serverOutputs returns the admin listener's response bodies by path.
func serverOutputs(t *testing.T, flags []string) map[string]string {
	t.Helper()
	model := harness.RepeatingServer(t, harness.ChatReply("chatcmpl-1", "hi"))
	p := harness.Launch(t, t.TempDir(), []string{"PRECEPT_ADMIN_TOKEN=t"}, append(flags, "--upstream", model.URL+"/v1")...)
	p.WaitUntilReady(dataDir(flags))
	all := map[string]string{}
	for _, path := range []string{
		"/api/export?format=mplp", "/api/export?format=openai", "/api/export?format=preference", "/api/export?format=experiment", "/api/export?format=parquet",
		"/api/export/sessions?format=jsonl", "/api/export/sessions?format=csv", "/api/export/sessions?format=transcripts",
		"/api/export/sessions?format=transcripts&tenant=acme", "/api/export?format=mplp&tenant=acme", "/api/export?format=openai&tenant=acme", "/api/sessions", "/api/samples", "/api/samples?tenant=acme", "/samples", "/sessions",
	} {
		code, text := harness.Get(t, p.AdminURL+path, "t")
		if code != http.StatusOK {
			t.Errorf("%s: got status %d, body %s, want 200", path, code, text)
		}
		if strings.HasSuffix(path, "parquet") {
			text = parquetText(t, text)
		}
		all[path] = text
	}
	p.Stop()
	return all
}

func dataDir(flags []string) string { return flags[slices.Index(flags, "--data-dir")+1] }

// After the sessions are stored, a tenant, an agent and a path are opted out in the configuration. In a session with
// the opted-out path, only the turns with this path must disappear.
func TestLaterOptOutHidesStoredContent(t *testing.T) {
	for _, kind := range []string{"embedded", "redis"} {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			store := []string{"--data-dir", dir}
			if kind == "redis" {
				store = append(store, "--store-url", storetest.StartRedis(t).URL())
			}
			importSessions(t, store)
			config := filepath.Join(t.TempDir(), "precept.yaml")
			writeConfig := func(text string) {
				t.Helper()
				if err := os.WriteFile(config, []byte(text), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			writeConfig("{}\n")
			store = append(store, "--config", config)
			before := commandOutputs(t, store)
			maps.Copy(before, serverOutputs(t, store))
			writeConfig(optOutConfig)
			after := commandOutputs(t, store)
			maps.Copy(after, serverOutputs(t, store))
			for _, canary := range []string{tenantCanary, agentCanary, pathCanary} {
				before["dashboard"] = before["/api/export?format=mplp"] + before["/api/export?format=mplp&tenant=acme"]
				for _, output := range []string{"export mplp", "export openai", "lake", "distill", "dashboard"} {
					if !strings.Contains(before[output], canary) {
						t.Errorf("%s lacks %q before the opt-out", output, canary)
					}
				}
				if found := harness.FilesWith(after, canary); len(found) > 0 {
					t.Errorf("outputs with %q after the opt-out: got %v, want none", canary, found)
				}
			}
			for _, output := range []string{"export mplp", "export openai", "export parquet", "lake", "distill", "/api/export?format=openai", "/api/samples"} {
				if !strings.Contains(after[output], keptCanary) {
					t.Errorf("%s lacks %q after the opt-out, want this text, because no opt-out applies to it", output, keptCanary)
				}
			}
			if !strings.Contains(after["export openai"], "Thanks, now say goodbye") {
				t.Error("export --format openai lacks the turn after the opted-out turns in the same session")
			}
			exported := filepath.Join(t.TempDir(), "export.jsonl")
			if err := os.WriteFile(exported, []byte(before["export openai"]), 0o600); err != nil {
				t.Fatal(err)
			}
			importDir := t.TempDir()
			harness.RunCommand(t, "", "import", exported, "--agent", "nightly-7", "--data-dir", importDir, "--config", config)
			harness.RunCommand(t, "", "import", exported, "--tenant", "acme", "--data-dir", importDir, "--config", config)
			for _, canary := range []string{tenantCanary, agentCanary, pathCanary, keptCanary} {
				if found := harness.FilesWith(harness.Files(t, importDir), canary); len(found) > 0 {
					t.Errorf("files with %q after an import for an opted-out agent or tenant: got %v, want none", canary, found)
				}
			}
			harness.RunCommand(t, "", "import", exported, "--data-dir", importDir, "--config", config)
			if out := harness.MustRun(t, "export", "--format", "openai", "--data-dir", importDir); strings.Contains(out, pathCanary) || !strings.Contains(out, keptCanary) {
				t.Errorf("export after the import = %s, want it to contain %s but not %s", out, keptCanary, pathCanary)
			}
		})
	}
}
