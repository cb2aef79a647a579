package server

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"precept/inject/bank/banktest"
	"precept/test/harness"
)

func TestIndexListsManuallyAddedLesson(t *testing.T) {
	m := harness.NewModel(t, []harness.Step{{Text: "Done."}})
	lessons := harness.LessonDir(t)
	p := harness.Start(t, t.TempDir(), append(harness.AlwaysInject(m, lessons), "--reward-close-after", "1s")...)
	c := &harness.Conversation{T: t, BaseURL: p.DataURL, Dialect: "chat", Header: map[string]string{"Precept-Session": "one"}}
	c.User("Run the build script.")
	c.Send(false)
	if status, b := harness.Post(t, p.DataURL+"/v1/feedback", nil, `{"session_id":"one","source":"user","type":"score","score":1}`); status >= 300 {
		t.Fatalf("feedback: got status %d, body %s, want a status below 300", status, b)
	}
	harness.Eventually(t, "the session in the report", func() bool {
		_, body := harness.Get(t, p.AdminURL+"/api/report", "e2e-token")
		return strings.Contains(body, `"n_injected":1`)
	})
	banktest.WriteLesson(t, lessons, "manual-lesson", "another thing")
	harness.Eventually(t, "both lessons and the session counts in _index.md", func() bool {
		b, _ := os.ReadFile(filepath.Join(lessons, "_index.md"))
		s := string(b)
		return strings.Contains(s, "manual-lesson") && strings.Contains(s, "| check-the-target |") && strings.Contains(s, "| 1 | 0 |")
	})
}

func TestImportNextToRunningServerAddsSample(t *testing.T) {
	p := harness.Start(t, t.TempDir(), "--upstream", "http://127.0.0.1:9/v1", "--lessons", t.TempDir())
	t.Setenv("PRECEPT_ADMIN_TOKEN", "e2e-token")
	file := filepath.Join(t.TempDir(), "past.jsonl")
	text := `{"source":"ci","id":"1","success":true,"messages":[{"role":"user","content":"Paint the shed for amy@example.com."},{"role":"assistant","content":"Done."}]}
{"source":"ci","id":"2","messages":[{"role":"user"
`
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	out, stderr, code := harness.RunCommand(t, "", "import", "--data-dir", p.Dir, "--json", file)
	if !strings.Contains(out, `"samples": 1`) || !strings.Contains(out, "past.jsonl: line 2") || code != 1 {
		t.Errorf("import: got output %s, standard error %s, exit code %d, want 1 sample, an error about line 2, and exit code 1",
			out, stderr, code)
	}
	if out := harness.MustRun(t, "export", "--data-dir", p.Dir); strings.Count(out, "\n") != 1 || !strings.Contains(out, `"score":1`) || strings.Contains(out, "amy@") {
		t.Errorf("export = %s, want one redacted sample with score 1", out)
	}
}
