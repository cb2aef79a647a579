package fleet

import (
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"precept/store/storetest"
	"precept/test/harness"
)

// precept deletes exchanges that are older than learning.hot, as soon as a lake (a directory with exported Parquet
// files) contains the samples. The session itself stays in the store.
func TestOldExchangesAreDeletedAfterExportToLake(t *testing.T) {
	t.Parallel()
	const first, second = "heliotrope-4711", "marigold-0815"
	server := storetest.StartRedis(t, "--rdbcompression", "no")
	model := harness.RepeatingServer(t, harness.ChatReply("chatcmpl-1", "It is "+first+"."), harness.ChatReply("chatcmpl-2", "It is "+second+"."))
	dir, lake := t.TempDir(), t.TempDir()
	p := harness.Launch(t, dir, nil, "--upstream", model.URL+"/v1", "--reward-close-after", "300ms", "--learning-hot", "1s", "--store-url", server.URL()).WaitUntilReady(dir)
	store := []string{"--store-url", server.URL(), "--data-dir", dir}
	sendTurn := func(messages string) {
		t.Helper()
		p.Chat(t, http.Header{"Precept-Session": {"s"}}, `{"model":"m","messages":[`+messages+`]}`)
	}
	exportedLines := func(format string) int {
		out, err := harness.CommandOutput(t, append([]string{"export", "--format", format}, store...)...)
		if err != nil {
			return -1
		}
		return strings.Count(out, "\n")
	}
	exportToLake := func() {
		t.Helper()
		harness.MustRun(t, append([]string{"export", "--follow", "--once", "--format", "parquet", "--output", lake}, store...)...)
	}
	history := `{"role":"user","content":"Tell me about ` + first + `"}`
	sendTurn(history)
	p.Eventually("the first turn's sample", func() bool { return exportedLines("mplp") == 1 })
	p.Eventually("the warning that no lake exists", func() bool { return strings.Contains(p.Log.String(), "learning.hot has no effect") })
	if n := exportedLines("openai"); n != 1 {
		t.Errorf("openai export before the lake exists: got %d lines, want 1", n)
	}
	exportToLake()
	p.Eventually("the exchanges to be deleted from Redis", func() bool { return exportedLines("openai") == 0 })
	if n := exportedLines("mplp"); n != 1 {
		t.Errorf("exported samples after the exchanges are deleted: got %d, want 1", n)
	}
	token, err := os.ReadFile(filepath.Join(dir, "admin-token"))
	if err != nil && !os.IsNotExist(err) {
		t.Fatalf("read the admin token: %v", err)
	}
	if code, text := harness.Get(t, p.AdminURL+"/api/sessions/s", strings.TrimSpace(string(token))); code != http.StatusOK || !strings.Contains(text, `"exchanges":0`) {
		t.Errorf("/api/sessions/s: got status %d, body %s, want 200 and a session without exchanges", code, text)
	}
	harness.MustRun(t, append([]string{"distill", "--dry-run", "--lessons", t.TempDir()}, store...)...)

	sendTurn(history + `,{"role":"assistant","content":"It is ` + first + `."},{"role":"user","content":"And about ` + second + `?"}`)
	p.Eventually("the later turn's sample", func() bool { return exportedLines("mplp") == 2 })
	exportToLake()
	p.Eventually("the later exchanges to be deleted from Redis", func() bool { return exportedLines("openai") == 0 })
	if files, _ := filepath.Glob(filepath.Join(lake, "date=*", "tenant=default", "*.parquet")); len(files) != 2 {
		t.Errorf("lake files: got %v, want 2", files)
	}
	if out := harness.MustRun(t, append([]string{"forget", "--yes", "--session", "s"}, store...)...); !strings.Contains(out, "(1 session)") {
		t.Errorf("precept forget = %q, want (1 session)", out)
	}
	for _, word := range []string{first, second} {
		if found := append(harness.FilesWith(harness.Dump(t, server), word), harness.FilesWith(harness.Files(t, dir), word)...); len(found) > 0 {
			t.Errorf("keys and files with the forgotten word %s: got %v, want none", word, found)
		}
	}
}
