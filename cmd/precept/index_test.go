package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"precept/inject/bank/banktest"
)

// The index follows what somebody edits by hand, and holds what was counted, not what a file says.
func TestIndexFollowsAnEdit(t *testing.T) {
	m := newModel(t, []step{{Text: "Done."}})
	lessons := lessonDir(t)
	p := start(t, t.TempDir(), append(always(m, lessons), "--reward-close-after", "1s")...)
	a := &writer{t: t, base: p.Data, dialect: "chat", header: map[string]string{"Precept-Session": "one"}}
	a.user("Run the build script.")
	a.send(false)
	if status, b := post(t, p.Data+"/v1/feedback", nil, `{"session_id":"one","source":"user","type":"score","score":1}`); status >= 300 {
		t.Fatal(status, b)
	}
	eventually(t, "the session's reward in the report", func() bool {
		_, body := get(t, p.Admin+"/api/report", "e2e-token")
		return strings.Contains(body, `"n_injected":1`)
	})
	banktest.WriteLesson(t, lessons, "another-a", "another thing")
	eventually(t, "an index with both lessons, and the session's reward", func() bool {
		b, _ := os.ReadFile(filepath.Join(lessons, "_index.md"))
		s := string(b)
		return strings.Contains(s, "another-a") && strings.Contains(s, "| check-the-target |") && strings.Contains(s, "| 1 | 0 |")
	})
}
