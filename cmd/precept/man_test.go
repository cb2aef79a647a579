package main

import (
	"cmp"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/cobra/doc"
	"github.com/spf13/pflag"
)

// The generated pages must be the same in every run. tools/release.sh sets PRECEPT_MAN to a directory, runs this test,
// and packs the pages that the test writes to the directory.
func TestManualPages(t *testing.T) {
	dir := cmp.Or(os.Getenv("PRECEPT_MAN"), t.TempDir())
	writePages(t, dir)
	second := t.TempDir()
	writePages(t, second)
	read := func(dir, page string) string {
		text, err := os.ReadFile(filepath.Join(dir, page))
		if err != nil {
			t.Fatal(err)
		}
		return string(text)
	}
	for _, page := range []string{"precept.1", "precept-serve.1", "precept-lessons-approve.1", "precept-completion-zsh.1"} {
		if text := read(dir, page); text != read(second, page) || strings.Contains(text, time.Now().Format("2006-01-02")) {
			t.Errorf("page %s: got a page that differs between two runs or contains today's date, want equal pages without a date", page)
		}
	}
	for _, want := range []string{"sha256:<hex>", "drain_timeout"} {
		if !strings.Contains(read(dir, "precept-serve.1"), want) {
			t.Errorf("precept-serve.1 lacks %q", want)
		}
	}
}

// writePages writes a manual page for each command.
func writePages(t *testing.T, dir string) {
	t.Helper()
	if err := os.MkdirAll(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	root := (&invocation{stdin: strings.NewReader(""), stdout: &strings.Builder{}, stderr: &strings.Builder{}, env: func(string) (string, bool) { return "", false }}).rootCommand()
	root.DisableAutoGenTag = true // cobra's footer would contain today's date
	root.InitDefaultCompletionCmd()
	escapeAll(root)
	day := time.Date(2026, time.January, 1, 0, 0, 0, 0, time.UTC)
	header := &doc.GenManHeader{
		Title: "PRECEPT", Section: "1", Source: "precept", Manual: "precept", Date: &day,
	}
	if err := doc.GenManTree(root, header, dir); err != nil {
		t.Fatal(err)
	}
}

// escapeAll escapes the help texts of all commands, because cobra/doc reads them as Markdown. Without escaping, <hex>
// would be a tag, and * would start emphasis.
func escapeAll(c *cobra.Command) {
	c.Short, c.Long = escape(c.Short), escape(c.Long)
	escapeUsage := func(f *pflag.Flag) { f.Usage = escape(f.Usage) }
	c.LocalFlags().VisitAll(escapeUsage)
	for _, sub := range c.Commands() {
		escapeAll(sub)
	}
}

// escape escapes Markdown in a text, except in indented lines, which are examples and which Markdown reads as code.
func escape(text string) string {
	escaper := strings.NewReplacer(`\`, `\\`, "<", `\<`, "*", `\*`, "`", "\\`", "_", `\_`)
	lines := strings.Split(text, "\n")
	for i, line := range lines {
		if !strings.HasPrefix(line, "    ") {
			lines[i] = escaper.Replace(line)
		}
	}
	return strings.Join(lines, "\n")
}
