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

// The canaries of the sessions that opt out after they were stored, and words that stay.
const (
	byTenant = "heliotrope-2718"
	byAgent  = "marigold-3141"
	byPath   = "larkspur-1414" // in the result of a call of prod.vault, and in the reply to this result
	stays    = "snapdragon-1732"
)

// storedSessions imports a session for each canary. The third session continues after the call.
func storedSessions(t *testing.T, store []string) {
	t.Helper()
	transcriptJSON := func(id, canary string) string {
		return fmt.Sprintf(`{"id":%q,"reward":0,"messages":[{"role":"user","content":"Mend the build of %s"},{"role":"assistant","content":"Done with %[2]s."},{"role":"user","content":"No, that is wrong, use %[2]s"},{"role":"assistant","content":"Used %[2]s."}]}`, id, canary)
	}
	called := `{"id":"p","reward":0,"messages":[{"role":"user","content":"Deploy the server"},` +
		`{"role":"assistant","content":null,"tool_calls":[{"id":"c1","type":"function","function":{"name":"read","arguments":"{\"path\":\"deploy/prod.vault\"}"}}]},` +
		`{"role":"tool","tool_call_id":"c1","content":"Error: ENOENT: no such file or directory, open 'deploy/prod.vault' of ` + byPath + `"},` +
		`{"role":"assistant","content":null,"tool_calls":[{"id":"c2","type":"function","function":{"name":"read","arguments":"{\"path\":\"/srv/deploy/prod.vault\"}"}}]},` +
		`{"role":"tool","tool_call_id":"c2","content":"HOST=` + byPath + `"},{"role":"assistant","content":"The host is ` + byPath + `."},` +
		`{"role":"user","content":"Thanks, now say goodbye to ` + stays + `"},{"role":"assistant","content":"Goodbye ` + stays + `."}]}`
	for _, c := range []struct{ text, tenant, agent string }{
		{transcriptJSON("t", byTenant), "acme", "coder"}, {transcriptJSON("a", byAgent), "default", "nightly-7"}, {called, "default", "coder"}, {transcriptJSON("s", stays), "default", "coder"},
	} {
		path := filepath.Join(t.TempDir(), "talk.jsonl")
		if err := os.WriteFile(path, []byte(c.text+"\n"), 0o600); err != nil {
			t.Fatal(err)
		}
		harness.MustVerb(t, slices.Concat([]string{"import", path, "--tenant", c.tenant, "--agent", c.agent}, store)...)
	}
}

// lateOptOut is the configuration of the opt-outs.
const lateOptOut = "learning: {opt_out_tenants: [acme], opt_out_agents: ['nightly-*'], opt_out_patterns: ['*.vault']}\n"

// rowsOf returns the texts of a Parquet file.
func rowsOf(t *testing.T, data string) string {
	t.Helper()
	rows, err := parquet.Read[struct {
		Agent   string `parquet:"agent"`
		Input   string `parquet:"input"`
		Output  string `parquet:"output"`
		Session string `parquet:"session"`
	}](strings.NewReader(data), int64(len(data)))
	if err != nil {
		t.Fatal(err)
	}
	return fmt.Sprint(rows)
}

// outputs runs each command that writes stored content, and returns the text of each output.
func outputs(t *testing.T, store []string) map[string]string {
	t.Helper()
	verb := func(args ...string) string {
		t.Helper()
		out, complaints, code := harness.Verb(t, "", append(args, store...)...)
		if code != harness.ExitDone {
			t.Fatalf("%v: got exit code %d, want 0: %s", args, code, complaints)
		}
		return out
	}
	all := map[string]string{}
	for _, format := range []string{"mplp", "openai", "preference", "experiment", "parquet"} {
		all["export "+format] = verb("export", "--format", format)
	}
	lake := t.TempDir()
	verb("export", "--follow", "--once", "--format", "parquet", "--output", lake, "--group", "g"+harness.Random(6))
	for name, text := range harness.Files(t, lake) {
		if strings.HasSuffix(name, ".parquet") {
			all["lake"] += name + rowsOf(t, text)
		}
	}
	all["export parquet"] = rowsOf(t, all["export parquet"])
	var asked harness.LockedBuffer
	judge := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		_, _ = asked.Write(body)
		harness.ReplyJSON(w, http.StatusOK, map[string]any{"choices": []any{map[string]any{"finish_reason": "stop", "message": map[string]string{"content": `{"outcome":"failure","reason":"x","lessons":[]}`}}}})
	}))
	defer judge.Close()
	bank := t.TempDir()
	all["distill"] = verb("distill", "--judge", judge.URL+"/v1", "--model", "m", "--lessons", bank, "--dry-run") + asked.String()
	all["distill by rules"] = verb("distill", "--judge", "rules", "--lessons", bank, "--dry-run")
	all["backtest"] = verb("lessons", "backtest", filepath.Join(harness.LessonDir(t), "check-the-target.md"), "--json")
	all["rules"] = verb("rules", "scan", "--json") + verb("rules", "scan", "--tenant", "acme", "--json")
	return all
}

// pages returns the exports and pages of a running server.
func pages(t *testing.T, flags []string) map[string]string {
	t.Helper()
	up := harness.RepeatingServer(t, harness.ChatReply("chatcmpl-1", "hi"))
	p := harness.Launch(t, t.TempDir(), []string{"PRECEPT_ADMIN_TOKEN=t"}, append(flags, "--upstream", up.URL+"/v1")...)
	p.Ready(dirOf(flags))
	all := map[string]string{}
	for _, path := range []string{
		"/api/export?format=mplp", "/api/export?format=openai", "/api/export?format=preference", "/api/export?format=experiment", "/api/export?format=parquet",
		"/api/export/sessions?format=jsonl", "/api/export/sessions?format=csv", "/api/export/sessions?format=transcripts",
		"/api/export/sessions?format=transcripts&tenant=acme", "/api/export?format=mplp&tenant=acme", "/api/export?format=openai&tenant=acme", "/api/sessions", "/api/samples", "/api/samples?tenant=acme", "/samples", "/sessions",
	} {
		code, text := harness.Get(t, p.Admin+path, "t")
		if code != http.StatusOK {
			t.Errorf("%s: got status %d, want 200: %s", path, code, text)
		}
		if strings.HasSuffix(path, "parquet") {
			text = rowsOf(t, text)
		}
		all[path] = text
	}
	p.Stop()
	return all
}

// dirOf returns the value of --data-dir.
func dirOf(flags []string) string { return flags[slices.Index(flags, "--data-dir")+1] }

// Stored content that opts out later is in no export, lake, distiller, rules scan or page. Other content, also of
// the session with the opted-out content, is in each of these outputs.
func TestLaterOptOutHidesStoredContentInEachOutput(t *testing.T) {
	for _, kind := range []string{"embedded", "redis"} {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			store := []string{"--data-dir", dir}
			if kind == "redis" {
				store = append(store, "--store-url", storetest.StartRedis(t).URL())
			}
			storedSessions(t, store)
			config := filepath.Join(t.TempDir(), "precept.yaml")
			write := func(text string) {
				t.Helper()
				if err := os.WriteFile(config, []byte(text), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			write("{}\n")
			store = append(store, "--config", config)
			before := outputs(t, store)
			maps.Copy(before, pages(t, store))
			write(lateOptOut)
			after := outputs(t, store)
			maps.Copy(after, pages(t, store))
			for _, canary := range []string{byTenant, byAgent, byPath} {
				before["dashboard"] = before["/api/export?format=mplp"] + before["/api/export?format=mplp&tenant=acme"]
				for _, way := range []string{"export mplp", "export openai", "lake", "distill", "dashboard"} {
					if !strings.Contains(before[way], canary) {
						t.Errorf("%s before the opt-out: %s is missing, so this test cannot fail", way, canary)
					}
				}
				if found := harness.FilesWith(after, canary); len(found) > 0 {
					t.Errorf("%s left the store after the opt-out: %v", canary, found)
				}
			}
			for _, way := range []string{"export mplp", "export openai", "export parquet", "lake", "distill", "/api/export?format=openai", "/api/samples"} {
				if !strings.Contains(after[way], stays) {
					t.Errorf("%s: got no %s, want the content without an opt-out", way, stays)
				}
			}
			if !strings.Contains(after["export openai"], "Thanks, now say goodbye") {
				t.Error("export openai: got no later turn of the session with the path, want the turns that did not opt out")
			}
			again := filepath.Join(t.TempDir(), "export.jsonl")
			if err := os.WriteFile(again, []byte(before["export openai"]), 0o600); err != nil {
				t.Fatal(err)
			}
			fresh := t.TempDir()
			harness.Verb(t, "", "import", again, "--agent", "nightly-7", "--data-dir", fresh, "--config", config)
			harness.Verb(t, "", "import", again, "--tenant", "acme", "--data-dir", fresh, "--config", config)
			for _, canary := range []string{byTenant, byAgent, byPath, stays} {
				if found := harness.FilesWith(harness.Files(t, fresh), canary); len(found) > 0 {
					t.Errorf("an import of an opted-out agent or tenant stored %s in %v", canary, found)
				}
			}
			harness.Verb(t, "", "import", again, "--data-dir", fresh, "--config", config)
			if out := harness.MustVerb(t, "export", "--format", "openai", "--data-dir", fresh); strings.Contains(out, byPath) || !strings.Contains(out, stays) {
				t.Errorf("got %s, want an import with %s and without %s", out, stays, byPath)
			}
		})
	}
}
