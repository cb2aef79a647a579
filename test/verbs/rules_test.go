package verbs

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"precept/store/storetest"
	"precept/test/harness"
)

// rulesOf writes a rules file, and returns a function that calls a command of rules on the file.
func rulesOf(t *testing.T, text string) (call func(verb string, flags ...string) (out string, err error), lessons string) {
	t.Helper()
	file, lessons, data := filepath.Join(t.TempDir(), "CLAUDE.md"), t.TempDir(), t.TempDir()
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return func(verb string, flags ...string) (string, error) {
		return harness.RunVerb(t, append([]string{"rules", verb, file, "--lessons", lessons, "--data-dir", data}, flags...)...)
	}, lessons
}

func TestRulesMeasureReportsSectionsThatCannotBeMeasured(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"": "is empty", "# A\n\n- only\n": "holds the whole file", "## A\n\nx\n\n## A\n\nx\n": "occurs twice", "## A\n\n## B\n": "is empty: the heading",
		"## A\n\nNever push.\n\n## B\n\nMust not deploy.\n": "add --force",
	} {
		call, _ := rulesOf(t, text)
		out, err := call("measure")
		if err == nil || !strings.Contains(out+err.Error(), want) {
			t.Errorf("measure of %q prints %q, error %v, want an error and %q", text, out, err, want)
		}
	}
	call, _ := rulesOf(t, "## A\n\nNever push.\n\n## B\n\nUse tabs.\n")
	if out, err := call("measure", "--force"); err != nil || !strings.Contains(out, "#A is measuring") {
		t.Errorf("measure --force prints %q, error %v, want the section A under measurement", out, err)
	}
}

func TestRulesToLessonsWritesAQuarantinedLessonWithATrigger(t *testing.T) {
	t.Parallel()
	call, lessons := rulesOf(t, "## Migrations\n\nBefore `alembic upgrade`, make a backup.\n\n## Style\n\nUse tabs.\n")
	out, err := call("to-lessons", "--section", "Migrations")
	if err != nil || !strings.Contains(out, "is quarantined and fires on") || !strings.Contains(out, "alembic upgrade") || strings.Contains(out, "self_match") {
		t.Fatalf("to-lessons prints %q, error %v, want a quarantined lesson that fires on the command", out, err)
	}
	if list := harness.MustVerb(t, "lessons", "list", "--lessons", lessons); !strings.Contains(list, "quarantined") || !strings.Contains(list, "Migrations") {
		t.Errorf("lessons list prints %q, want the quarantined lesson", list)
	}
	for _, flags := range [][]string{nil, {"--section", "Nothing"}} {
		if out, err := call("to-lessons", flags...); err == nil {
			t.Errorf("to-lessons %q prints %q, want an error", flags, out)
		}
	}
}

// Without a store the numbers of sessions are unknown, and not zero.
func TestRulesListShowsUnknownNumbers(t *testing.T) {
	file, at := filepath.Join(t.TempDir(), "AGENTS.md"), []string{"--lessons", t.TempDir(), "--data-dir", t.TempDir()}
	if err := os.WriteFile(file, []byte("## Style\n\nUse tabs.\n\n## Names\n\nName things well.\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	harness.MustVerb(t, append([]string{"rules", "measure", file}, at...)...)
	out, stderr, code := harness.Verb(t, "", append([]string{"rules", "list"}, at...)...)
	if code != harness.ExitDone || strings.Contains(out, "0/0") || !regexp.MustCompile(`\s-\s`).MatchString(out) || !strings.Contains(stderr, "unknown") {
		t.Errorf("got exit code %d, %q and %q, want a dash for the unknown numbers", code, out, stderr)
	}
}

// A registry of sections in a file has no effect beside the registry in Redis, and the log says so.
func TestServerReportsARegistryOfSectionsWithoutEffect(t *testing.T) {
	dir, url := t.TempDir(), storetest.StartRedis(t).URL()
	if err := os.WriteFile(filepath.Join(dir, "_rules.json"), []byte("{}"), 0o600); err != nil {
		t.Fatal(err)
	}
	p := harness.Serve(t, dir, harness.RepeatingServer(t, harness.ChatReply("r", "hello")).URL, "--store-url", url, "--lessons", "redis://")
	if n := strings.Count(p.Log.String(), "a file of registered sections has no effect"); n != 1 {
		t.Errorf("got %d warnings, want 1: %s", n, p.Log.String())
	}
	p.Stop()
}
