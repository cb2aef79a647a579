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

// conversation stores one turn of a session. The model calls a tool with a path, and the sample of the session
// has the words of the user and not the call.
func conversation(t *testing.T, p *harness.Process, name, words string) {
	t.Helper()
	header := http.Header{"Precept-Session": {name}}
	if code, answer := harness.Post(t, p.Data+"/v1/chat/completions", header, `{"model":"m","messages":[{"role":"user","content":"`+words+`"}]}`); code != http.StatusOK {
		t.Fatalf("got code %d, answer %s, want status 200", code, answer)
	}
}

// After learning.hot deleted the exchanges of a session, the paths of its calls are unknown. A later opt-out of a
// path then hides the samples of the session. Samples of sessions that the same patterns judged stay visible.
func TestOptOutOfPathHidesSamplesWithoutExchanges(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		before, after string // patterns when the session is stored, and later
		seen          bool
	}{
		"another pattern":  {"['*.pem']", "['*.vault', '*.pem']", false},
		"a first pattern":  {"[]", "['*.vault']", false},
		"the same pattern": {"['*.pem']", "['*.pem']", true},
		"no pattern":       {"['*.pem']", "[]", true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			server, dir, lake := storetest.StartRedis(t), t.TempDir(), t.TempDir()
			config := filepath.Join(t.TempDir(), "precept.yaml")
			write := func(patterns string) {
				t.Helper()
				if err := os.WriteFile(config, []byte("learning: {opt_out_patterns: "+patterns+", hot: 1s}\nreward: {close_after: 300ms}\n"), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			write(c.before)
			up := harness.RepeatingServer(t, calling("c1", "read", `{"path":"deploy/prod.vault"}`))
			store := []string{"--config", config, "--store-url", server.URL(), "--data-dir", dir}
			p := harness.Launch(t, dir, []string{"PRECEPT_ADMIN_TOKEN=t"}, append(store, "--upstream", up.URL+"/v1")...).Ready(dir)
			conversation(t, p, "s", "Deploy "+byPath)
			export := func(format string) string {
				t.Helper()
				return harness.MustVerb(t, append([]string{"export", "--format", format}, store...)...)
			}
			p.Eventually("the sample", func() bool { return strings.Contains(export("mplp"), byPath) })
			harness.MustVerb(t, append([]string{"export", "--follow", "--once", "--format", "parquet", "--output", lake}, store...)...)
			p.Eventually("the exchanges to leave Redis", func() bool { return export("openai") == "" })
			p.Stop()
			write(c.after)
			all := map[string]string{"export mplp": export("mplp"), "lake": ""}
			other := t.TempDir()
			harness.MustVerb(t, append([]string{"export", "--follow", "--once", "--format", "parquet", "--output", other, "--group", "other"}, store...)...)
			for name, text := range harness.Files(t, other) {
				if strings.HasSuffix(name, ".parquet") {
					all["lake"] += rowsOf(t, text)
				}
			}
			p = harness.Launch(t, dir, []string{"PRECEPT_ADMIN_TOKEN=t"}, append(store, "--upstream", up.URL+"/v1")...).Ready(dir)
			for _, path := range []string{"/api/samples", "/samples", "/api/export?format=mplp"} {
				_, all[path] = harness.Get(t, p.Admin+path, "t")
			}
			p.Stop()
			for way, text := range all {
				if got := strings.Contains(text, byPath); got != c.seen {
					t.Errorf("%s: the sample is visible: %v, want %v", way, got, c.seen)
				}
			}
		})
	}
}

// One damaged exchange hides the content of its session, with one line on the console. Exports, the lake and the
// pages go on with the other sessions.
func TestDamagedExchangeHidesItsSessionAlone(t *testing.T) {
	t.Parallel()
	server, dir := storetest.StartRedis(t), t.TempDir()
	config := filepath.Join(t.TempDir(), "precept.yaml")
	if err := os.WriteFile(config, []byte("learning: {opt_out_patterns: ['*.pem']}\nreward: {close_after: 300ms}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	up := harness.RepeatingServer(t, harness.ChatReply("c1", "Done."))
	store := []string{"--config", config, "--store-url", server.URL(), "--data-dir", dir}
	p := harness.Launch(t, dir, []string{"PRECEPT_ADMIN_TOKEN=t"}, append(store, "--upstream", up.URL+"/v1")...).Ready(dir)
	conversation(t, p, "s", "Mend "+byPath)
	p.Eventually("the sample", func() bool {
		return strings.Contains(harness.MustVerb(t, append([]string{"export"}, store...)...), byPath)
	})
	damage(t, server)
	conversation(t, p, "t", "Mend "+stays)
	p.Eventually("the other sample", func() bool {
		out, _, _ := harness.Verb(t, "", append([]string{"export"}, store...)...)
		_, page := harness.Get(t, p.Admin+"/api/samples", "t")
		return strings.Contains(out, stays) && strings.Contains(page, stays)
	})
	for _, format := range []string{"mplp", "openai"} {
		out, complaints, code := harness.Verb(t, "", append([]string{"export", "--format", format}, store...)...)
		if code != harness.ExitDone || !strings.Contains(out, stays) || strings.Contains(out, byPath) {
			t.Errorf("%s: got exit code %d and %s, want the other session", format, code, out)
		}
		if n := strings.Count(complaints, "has a damaged exchange"); n != 1 || !strings.Contains(complaints, "precept forget --session") {
			t.Errorf("%s: got %d lines in %q, want one with the remedy", format, n, complaints)
		}
	}
	for _, path := range []string{"/api/samples", "/samples", "/api/export?format=mplp", "/api/export?format=openai", "/sessions?words=Mend", "/api/sessions?words=Mend"} {
		code, text := harness.Get(t, p.Admin+path, "t")
		if code != http.StatusOK || !strings.Contains(text, stays) {
			t.Errorf("%s: got code %d and %s, want the other session", path, code, text)
		}
	}
	lake := t.TempDir()
	harness.MustVerb(t, append([]string{"export", "--follow", "--once", "--format", "parquet", "--output", lake}, store...)...)
	if n := strings.Count(p.Log.String(), "has a damaged exchange"); n != 1 {
		t.Errorf("got %d lines in the log of the server, want 1: %s", n, p.Log.String())
	}
}

// damage overwrites the exchanges in a Redis.
func damage(t *testing.T, server *storetest.Redis) {
	t.Helper()
	keys, _ := server.Must(t, "KEYS", "*x:*").([]any)
	n := 0
	for _, key := range keys {
		if server.Must(t, "TYPE", fmt.Sprint(key)) != "hash" {
			continue
		}
		fields, _ := server.Must(t, "HKEYS", fmt.Sprint(key)).([]any)
		for _, field := range fields {
			server.Must(t, "HSET", fmt.Sprint(key), fmt.Sprint(field), "0000000000000000damaged")
			n++
		}
	}
	if n == 0 {
		t.Fatalf("no exchange is in the keys %v", keys)
	}
}
