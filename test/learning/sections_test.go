package learning

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"precept/test/harness"
)

// AIP-11 is the specification that defines the sections in a lesson file.
func TestNewLessonHasAIP11Sections(t *testing.T) {
	dir := t.TempDir()
	harness.MustRun(t, "lessons", "new", "pin-the-page", "--lessons", dir, "--title", "Pin the page before clicking.", "--when", "A page jumps.", "--keyword", "load more",
		"--advice", "Read the page id again.", "--counter-example", "A page without ids.")
	const want = "\n# Pin the page before clicking.\n\n## When this applies\n\nA page jumps.\n\n## What to do (or avoid)\n\nRead the page id again.\n\n## Counter-example\n\nA page without ids.\n"
	if text, err := os.ReadFile(filepath.Join(dir, "pin-the-page.md")); err != nil || !strings.HasSuffix(string(text), "---\n"+want) {
		t.Errorf("new lesson: got error %v, text %s, want suffix %q", err, text, "---\n"+want)
	}
	harness.MustRun(t, "lessons", "new", "see-the-log", "--lessons", dir, "--keyword", "build fails", "--advice", "Read the log.")
	if text, err := os.ReadFile(filepath.Join(dir, "see-the-log.md")); err != nil || strings.Contains(string(text), "Counter-example") {
		t.Errorf(`lesson without a counter-example: got error %v, text %s, want no "Counter-example"`, err, text)
	}

	p := harness.Start(t, t.TempDir(), "--upstream", "http://127.0.0.1:1/v1", "--lessons", dir)
	agent := lessonsClient{t, p.DataURL, "coder", "sk-one"}
	l := agent.create("the build\nfails", "Clear the cache.\n\n## Why\n\nThe cache is stale.")
	text, err := os.ReadFile(filepath.Join(dir, "api", l.ID+".md"))
	const agentSections = "\n# the build fails\n\n## When this applies\n\nAn agent's own lesson: the build fails\n\n## What to do (or avoid)\n\nClear the cache.\n"
	if err != nil || !strings.Contains(string(text), agentSections) {
		t.Errorf("file of the lesson that an agent wrote: got error %v, content %q, want it to contain %q", err, text, agentSections)
	}
	if _, body := agent.send("GET", "/"+l.ID, nil); !strings.Contains(string(body), `"lesson_text":"Clear the cache.\n\n## Why\n\nThe cache is stale."`) {
		t.Errorf("GET /v1/lessons/%s = %s, want the agent's lesson_text unchanged", l.ID, body)
	}
}
