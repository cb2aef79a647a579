package privacy

import (
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"precept/store/storetest"
	"precept/test/harness"
)

func sendTurn(t *testing.T, p *harness.Process, name, text string) {
	t.Helper()
	p.Chat(t, http.Header{"Precept-Session": {name}}, `{"model":"m","messages":[{"role":"user","content":"`+text+`"}]}`)
}

// When precept deletes exchanges that are older than learning.hot, the paths in the tool calls are lost. A pattern that
// is added to learning.opt_out_patterns later must therefore hide all samples of the session.
func TestNewOptOutPatternHidesSamplesWithoutExchanges(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		before, after string // opt-out patterns when the session is stored, and after a restart
		visible       bool
	}{
		"added pattern": {"['*.pem']", "['*.vault', '*.pem']", false},
		"first pattern": {"[]", "['*.vault']", false},
		"same pattern":  {"['*.pem']", "['*.pem']", true},
		"no pattern":    {"['*.pem']", "[]", true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			server, dir, lake := storetest.StartRedis(t), t.TempDir(), t.TempDir()
			config := filepath.Join(t.TempDir(), "precept.yaml")
			writePatterns := func(patterns string) {
				t.Helper()
				if err := os.WriteFile(config, []byte("learning: {opt_out_patterns: "+patterns+", hot: 1s}\nreward: {close_after: 300ms}\n"), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			writePatterns(tc.before)
			model := harness.RepeatingServer(t, toolCallReply("c1", "read", `{"path":"deploy/prod.vault"}`))
			store := []string{"--config", config, "--store-url", server.URL(), "--data-dir", dir}
			p := harness.Launch(t, dir, []string{"PRECEPT_ADMIN_TOKEN=t"}, append(store, "--upstream", model.URL+"/v1")...).WaitUntilReady(dir)
			sendTurn(t, p, "s", "Deploy "+pathCanary)
			export := func(format string) string {
				t.Helper()
				return harness.MustRun(t, append([]string{"export", "--format", format}, store...)...)
			}
			p.Eventually("the exported sample", func() bool { return strings.Contains(export("mplp"), pathCanary) })
			// precept deletes old exchanges only if a lake (a directory with exported Parquet files) contains the
			// samples.
			harness.MustRun(t, append([]string{"export", "--follow", "--once", "--format", "parquet", "--output", lake}, store...)...)
			p.Eventually("the exchanges to be deleted from Redis", func() bool { return export("openai") == "" })
			p.Stop()
			writePatterns(tc.after)
			all := map[string]string{"export mplp": export("mplp"), "lake": ""}
			newLake := t.TempDir()
			harness.MustRun(t, append([]string{"export", "--follow", "--once", "--format", "parquet", "--output", newLake, "--group", "new"}, store...)...)
			for name, text := range harness.Files(t, newLake) {
				if strings.HasSuffix(name, ".parquet") {
					all["lake"] += parquetText(t, text)
				}
			}
			p = harness.Launch(t, dir, []string{"PRECEPT_ADMIN_TOKEN=t"}, append(store, "--upstream", model.URL+"/v1")...).WaitUntilReady(dir)
			for _, path := range []string{"/api/samples", "/samples", "/api/export?format=mplp"} {
				_, all[path] = harness.Get(t, p.AdminURL+path, "t")
			}
			p.Stop()
			for output, text := range all {
				if got := strings.Contains(text, pathCanary); got != tc.visible {
					t.Errorf("%s shows the sample = %v, want %v", output, got, tc.visible)
				}
			}
		})
	}
}

// In a damaged exchange, precept cannot look for opted-out paths. Pages and exports therefore omit the content of the
// whole session.
func TestDamagedExchangeHidesOnlyItsSession(t *testing.T) {
	const damagedText, intactText = "larkspur-1414", "snapdragon-1732"
	t.Parallel()
	server, dir := storetest.StartRedis(t), t.TempDir()
	config := filepath.Join(t.TempDir(), "precept.yaml")
	if err := os.WriteFile(config, []byte("learning: {opt_out_patterns: ['*.pem']}\nreward: {close_after: 300ms}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	model := harness.RepeatingServer(t, harness.ChatReply("c1", "Done."))
	store := []string{"--config", config, "--store-url", server.URL(), "--data-dir", dir}
	p := harness.Launch(t, dir, []string{"PRECEPT_ADMIN_TOKEN=t"}, append(store, "--upstream", model.URL+"/v1")...).WaitUntilReady(dir)
	sendTurn(t, p, "damaged", "Fix "+damagedText)
	p.Eventually("the session's sample before the damage", func() bool {
		return strings.Contains(harness.MustRun(t, append([]string{"export"}, store...)...), damagedText)
	})
	damageExchanges(t, server)
	sendTurn(t, p, "intact", "Fix "+intactText)
	p.Eventually("the intact session's sample", func() bool {
		out, _, _ := harness.RunCommand(t, "", append([]string{"export"}, store...)...)
		_, page := harness.Get(t, p.AdminURL+"/api/samples", "t")
		return strings.Contains(out, intactText) && strings.Contains(page, intactText)
	})
	for _, format := range []string{"mplp", "openai"} {
		out, stderr, code := harness.RunCommand(t, "", append([]string{"export", "--format", format}, store...)...)
		if code != harness.ExitOK || !strings.Contains(out, intactText) || strings.Contains(out, damagedText) {
			t.Errorf("export --format %s: got exit code %d, output %s, want exit code 0, and an output with %q but without %q", format, code, out, intactText, damagedText)
		}
		if n := strings.Count(stderr, "has a damaged exchange"); n != 1 || !strings.Contains(stderr, "precept forget --session") {
			t.Errorf("export --format %s: got %d lines about the damage in %q, want 1 line, with the advice to run precept forget --session", format, n, stderr)
		}
	}
	for _, path := range []string{"/api/samples", "/samples", "/api/export?format=mplp", "/api/export?format=openai", "/sessions?words=Fix", "/api/sessions?words=Fix"} {
		code, text := harness.Get(t, p.AdminURL+path, "t")
		if code != http.StatusOK || !strings.Contains(text, intactText) {
			t.Errorf("%s: got status %d, body %s, want status 200 and a body with %q", path, code, text, intactText)
		}
	}
	lake := t.TempDir()
	harness.MustRun(t, append([]string{"export", "--follow", "--once", "--format", "parquet", "--output", lake}, store...)...)
	if n := strings.Count(p.Log.String(), "has a damaged exchange"); n != 1 {
		t.Errorf("lines about the damage in the server log: got %d, want 1; log %s", n, p.Log.String())
	}
}

// damageExchanges overwrites every exchange in Redis.
func damageExchanges(t *testing.T, server *storetest.Redis) {
	t.Helper()
	keys, _ := server.MustDo(t, "KEYS", "*x:*").([]any)
	n := 0
	for _, key := range keys {
		if server.MustDo(t, "TYPE", fmt.Sprint(key)) != "hash" {
			continue
		}
		fields, _ := server.MustDo(t, "HKEYS", fmt.Sprint(key)).([]any)
		for _, field := range fields {
			server.MustDo(t, "HSET", fmt.Sprint(key), fmt.Sprint(field), "0000000000000000damaged")
			n++
		}
	}
	if n == 0 {
		t.Fatalf("keys %v contain no exchange", keys)
	}
}
