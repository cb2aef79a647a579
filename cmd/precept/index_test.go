package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"precept/bank/banktest"
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
	deadline := time.Now().Add(20 * time.Second)
	for n := 0; ; n++ {
		banktest.WriteLesson(t, lessons, "another-"+string(rune('a'+n%26)), "another thing")
		time.Sleep(500 * time.Millisecond)
		b, _ := os.ReadFile(filepath.Join(lessons, "_index.md"))
		if s := string(b); strings.Contains(s, "another-a") && strings.Contains(s, "| check-the-target |") && strings.Contains(s, "| 1 | 0 |") {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("the index: %s", b)
		}
	}
}
