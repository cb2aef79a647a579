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

// newRulesFile writes a rules file. The returned function runs a subcommand of precept rules on the file.
func newRulesFile(t *testing.T, text string) (call func(subcommand string, flags ...string) (out string, err error), lessons string) {
	t.Helper()
	file, lessons, data := filepath.Join(t.TempDir(), "CLAUDE.md"), t.TempDir(), t.TempDir()
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return func(subcommand string, flags ...string) (string, error) {
		return harness.CommandOutput(t, append([]string{"rules", subcommand, file, "--lessons", lessons, "--data-dir", data}, flags...)...)
	}, lessons
}

func TestRulesMeasureReportsUnmeasurableSections(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"":                         "is empty",
		"# A\n\n- only\n":          "contains the whole file",
		"## A\n\nx\n\n## A\n\nx\n": "occurs twice",
		"## A\n\n## B\n":           "is empty: the heading",
		"## A\n\nNever push.\n\n## B\n\nMust not deploy.\n": "add --force",
	} {
		call, _ := newRulesFile(t, text)
		out, err := call("measure")
		if err == nil || !strings.Contains(out+err.Error(), want) {
			t.Errorf("rules measure %q: got output %q, error %v, want an error, and %q in the output or the error", text, out, err, want)
		}
	}
	call, _ := newRulesFile(t, "## A\n\nNever push.\n\n## B\n\nUse tabs.\n")
	if out, err := call("measure", "--force"); err != nil || !strings.Contains(out, "#A is measuring") {
		t.Errorf("rules measure --force: got output %q, error %v, want \"#A is measuring\"", out, err)
	}
}

func TestRulesToLessonsWritesAQuarantinedLesson(t *testing.T) {
	t.Parallel()
	call, lessons := newRulesFile(t, "## Migrations\n\nBefore `alembic upgrade`, make a backup.\n\n## Style\n\nUse tabs.\n")
	out, err := call("to-lessons", "--section", "Migrations")
	if err != nil || !strings.Contains(out, "is quarantined and fires on") || !strings.Contains(out, "alembic upgrade") || strings.Contains(out, "self_match") {
		t.Fatalf("rules to-lessons: got output %q, error %v, want a quarantined lesson that fires on alembic upgrade, without the warning self_match", out, err)
	}
	if list := harness.MustRun(t, "lessons", "list", "--lessons", lessons); !strings.Contains(list, "quarantined") || !strings.Contains(list, "Migrations") {
		t.Errorf("lessons list = %q, want the quarantined lesson Migrations", list)
	}
	for _, flags := range [][]string{nil, {"--section", "Nothing"}} {
		if out, err := call("to-lessons", flags...); err == nil {
			t.Errorf("rules to-lessons %q: got output %q, want an error", flags, out)
		}
	}
}

func TestRulesListPrintsDashForUnknownNumbers(t *testing.T) {
	file, flags := filepath.Join(t.TempDir(), "AGENTS.md"), []string{"--lessons", t.TempDir(), "--data-dir", t.TempDir()}
	if err := os.WriteFile(file, []byte("## Style\n\nUse tabs.\n\n## Names\n\nName things well.\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	harness.MustRun(t, append([]string{"rules", "measure", file}, flags...)...)
	out, stderr, code := harness.RunCommand(t, "", append([]string{"rules", "list"}, flags...)...)
	if code != harness.ExitOK || strings.Contains(out, "0/0") || !regexp.MustCompile(`\s-\s`).MatchString(out) || !strings.Contains(stderr, "unknown") {
		t.Errorf("rules list: got exit code %d, output %q, standard error %q, want 0, a dash instead of 0/0, and \"unknown\" on standard error",
			code, out, stderr)
	}
}

// If the lessons are in Redis, the file _rules.json has no effect, so precept serve prints a warning.
func TestServeWarnsAboutAnUnusedRulesFile(t *testing.T) {
	dir, url := t.TempDir(), storetest.StartRedis(t).URL()
	if err := os.WriteFile(filepath.Join(dir, "_rules.json"), []byte("{}"), 0o600); err != nil {
		t.Fatal(err)
	}
	p := harness.StartWithUpstream(t, dir, harness.RepeatingServer(t, harness.ChatReply("r", "hello")).URL, "--store-url", url, "--lessons", "redis://")
	if n := strings.Count(p.Log.String(), "a file with registered sections has no effect"); n != 1 {
		t.Errorf("warnings about _rules.json: got %d, want 1; log %s", n, p.Log.String())
	}
	p.Stop()
}
