package learning

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"precept/store/storetest"
	"precept/test/harness"
)

func TestAgentLessonsInRedisAreShared(t *testing.T) {
	t.Parallel()
	const note = "/lesson parser deadlock: Close the parser first."
	model := newScriptedModel(t, unstreamed, note, "Fine.")
	shared := []string{
		"--upstream", model.URL + "/v1", "--store-url", storetest.StartRedis(t).URL(), "--lessons", "redis://", "--bandit-objective", "all", "--bandit-epsilon", "0",
		"--bandit-control", "0", "--writ-enabled", "--writ-trust", "own",
	}
	first, second := harness.Start(t, t.TempDir(), shared...), harness.Start(t, t.TempDir(), shared...)
	firstClient, secondClient := lessonsClient{t, first.DataURL, "coder", "sk-one"}, lessonsClient{t, second.DataURL, "coder", "sk-one"}
	lessonCountIs := func(n int) func() bool {
		return func() bool { ids, _ := secondClient.list(""); return len(ids) == n }
	}

	l := firstClient.create("build cache is stale", "Clear the cache first.")
	harness.Eventually(t, "the lesson in the second server's list", lessonCountIs(1))
	if code, b := secondClient.send("PATCH", "/"+l.ID, map[string]any{"lesson_text": "Clear the build cache first."}); code != http.StatusOK {
		t.Fatalf("PATCH lesson: got status %d, body %s, want 200", code, b)
	}
	harness.Eventually(t, "the change on the first server", func() bool {
		_, b := firstClient.send("GET", "/"+l.ID, nil)
		return strings.Contains(string(b), "Clear the build cache first.")
	})
	for _, reviewer := range []lessonsClient{{t, second.DataURL, "reviewer", "sk-one"}, {t, first.DataURL, "reviewer", "sk-one"}} {
		if code, _ := reviewer.send("GET", "/"+l.ID, nil); code != http.StatusNotFound {
			t.Errorf("GET lesson as another agent: got status %d, want 404", code)
		}
	}
	harness.Eventually(t, "the lesson in a request through the second server", func() bool {
		a := &harness.Conversation{T: t, BaseURL: second.DataURL, Dialect: "chat"}
		a.User("The build cache is stale, they say.")
		a.Send(unstreamed)
		return strings.Contains(model.lastRequestTexts(t)[0], "Clear the build cache first.")
	})

	a := &harness.Conversation{T: t, BaseURL: first.DataURL, Dialect: "chat", Header: map[string]string{"Precept-Session": "moving"}}
	model.mu.Lock()
	model.requests, model.replies = nil, []string{note, "Fine."}
	model.mu.Unlock()
	a.User("Mend the parser.")
	a.Send(unstreamed)
	harness.Eventually(t, "the lesson from the /lesson command in the second server's list", lessonCountIs(2))
	a.Assistant(note)
	if l, _ := secondClient.list("?q=parser"); len(l) != 1 {
		t.Errorf("search for parser on the second server: got %q, want 1 id", l)
	}

	ids, _ := secondClient.list("")
	for _, id := range ids {
		if code, b := secondClient.send("DELETE", "/"+id, nil); code != http.StatusNoContent {
			t.Errorf("DELETE lesson %s: got status %d, body %s, want 204", id, code, b)
		}
	}
	harness.Eventually(t, "an empty list on the first server", func() bool { ids, _ := firstClient.list(""); return len(ids) == 0 })
}

// Only one distiller at a time can read a store. If a distiller is killed, the lock on a local store ends with the
// process, and the lock in Redis expires. The next distiller repeats only the judge requests that were in progress, at
// most four (distill.parallel).
func TestDistillContinuesAfterKill(t *testing.T) {
	t.Parallel()
	for _, kind := range []string{"sqlite", "redis"} {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			const sessions = 40
			var judgeRequests atomic.Int64
			release := make(chan struct{})
			judge := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				data, _ := io.ReadAll(r.Body)
				content := `{"lessons":[]}`
				if strings.Contains(string(data), outcomeQuestion) {
					if content = `{"outcome":"success","reason":"r"}`; judgeRequests.Add(1) > sessions/2 {
						select {
						case <-release:
						case <-r.Context().Done():
						}
					}
				}
				w.Header().Set("Content-Type", "application/json")
				_, _ = fmt.Fprintf(w, `{"choices":[{"finish_reason":"stop","message":{"content":%q}}],"usage":{"prompt_tokens":9,"completion_tokens":1}}`, content)
			}))
			t.Cleanup(judge.Close)
			dir := t.TempDir()
			storeFlags := []string{"--data-dir", dir}
			var redis *storetest.Redis
			if kind == "redis" {
				redis = storetest.StartRedis(t)
				storeFlags = append(storeFlags, "--store-url", redis.URL())
			}
			importFile := filepath.Join(dir, "past.jsonl")
			if err := os.WriteFile(importFile, []byte(newTranscripts(sessions)), 0o600); err != nil {
				t.Fatal(err)
			}
			harness.MustRun(t, append([]string{"import", importFile}, storeFlags...)...)
			distillArgs := append([]string{"distill", "--json", "--judge", judge.URL + "/v1", "--model", "m", "--lessons", t.TempDir()}, storeFlags...)

			first := exec.Command("precept", distillArgs...) //nolint:noctx // the process is killed below
			if err := first.Start(); err != nil {
				t.Fatal(err)
			}
			harness.Eventually(t, "judge requests about more than half the sessions", func() bool { return judgeRequests.Load() > sessions/2 })
			if _, stderr, code := harness.RunCommand(t, "", distillArgs...); code != 1 || !strings.Contains(stderr, "another distiller is reading the new sessions (tenant default)") {
				t.Errorf("second precept distill: got exit code %d, standard error %s, want exit code 1 and a line about another distiller", code, stderr)
			}
			if err := first.Process.Kill(); err != nil {
				t.Fatal(err)
			}
			_ = first.Wait()
			close(release)
			before := judgeRequests.Load()
			if kind == "redis" {
				expireKey(t, redis, "claim:distill:")
			}
			var sum struct{ Read, Unchanged, Judged int }
			out, stderr, code := harness.RunCommand(t, "", distillArgs...)
			if code != 0 || json.Unmarshal([]byte(out), &sum) != nil {
				t.Fatalf("precept distill after the kill: got exit code %d, output %s, standard error %s, want 0 and JSON", code, out, stderr)
			}
			if sum.Read != sessions || sum.Judged != sessions-sum.Unchanged || judgeRequests.Load()-before != int64(sum.Judged) || judgeRequests.Load() > sessions+4 {
				t.Errorf("precept distill after the kill: got %+v, want Read = %d, Judged = Read - Unchanged; judge requests: got %d before the kill and %d after, want Judged after the kill and at most %d in total",
					sum, sessions, before, judgeRequests.Load()-before, sessions+4)
			}
		})
	}
}

// expireKey makes the only key whose name contains part expire.
func expireKey(t *testing.T, server *storetest.Redis, part string) {
	t.Helper()
	keys, _ := server.MustDo(t, "KEYS", "*"+part+"*").([]any)
	if len(keys) != 1 {
		t.Fatalf("Redis keys with %q: got %v, want 1", part, keys)
	}
	name, _ := keys[0].(string)
	if left, _ := server.MustDo(t, "PTTL", name).(int64); left <= 0 || left > 2*60*1000 {
		t.Errorf("PTTL %s = %d ms, want above 0 and at most 2 minutes", name, left)
	}
	server.MustDo(t, "PEXPIRE", name, "0")
}

func newTranscripts(n int) string {
	var b strings.Builder
	for i := range n {
		line, _ := json.Marshal(map[string]any{"source": "s", "id": fmt.Sprint("run-", i), "messages": []map[string]any{
			{"role": "user", "content": fmt.Sprint("build target ", i)},
			{"role": "assistant", "tool_calls": []any{map[string]any{"id": fmt.Sprint("c", i), "type": "function", "function": map[string]any{"name": "make", "arguments": "{}"}}}},
			{"role": "tool", "tool_call_id": fmt.Sprint("c", i), "content": "error: no rule"},
			{"role": "assistant", "content": "done"},
		}})
		b.Write(slices.Concat(line, []byte("\n")))
	}
	return b.String()
}
