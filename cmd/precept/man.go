package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/cobra/doc"
	"github.com/spf13/pflag"
)

// man writes a manual page for each verb, out of what its help says.
func (w *world) man() *cobra.Command {
	return &cobra.Command{
		Use:   "man DIR",
		Short: "Write manual pages, one for each verb",
		Long: "Man writes precept.1, precept-serve.1 and so on into a directory, which it makes: " +
			"what the verbs' help says, in the form of man(1).\n\n" +
			"    precept man ~/.local/share/man/man1 && man precept-serve",
		Args: arguments(cobra.ExactArgs(1)),
		RunE: func(c *cobra.Command, args []string) error {
			n, err := writePages(c.Root(), args[0])
			if err != nil {
				return err
			}
			_, err = fmt.Fprintf(w.out, "%s in %s\n", amount(n, "page"), args[0])
			return err
		},
	}
}

// writePages writes the pages of a command and all below it. Pages of one source are the same bytes
// whenever they are made: no day stands in them but one that does not change.
func writePages(root *cobra.Command, dir string) (pages int, err error) {
	if err := os.MkdirAll(dir, 0o755); err != nil { //nolint:gosec // pages are for everybody
		return 0, err
	}
	root.DisableAutoGenTag = true // it holds the day
	root.InitDefaultCompletionCmd()
	escapeAll(root)
	day := time.Date(2026, time.January, 1, 0, 0, 0, 0, time.UTC)
	head := &doc.GenManHeader{
		Title: "PRECEPT", Section: "1", Source: "precept", Manual: "precept", Date: &day,
	}
	if err := doc.GenManTree(root, head, dir); err != nil {
		return 0, err
	}
	list, err := filepath.Glob(filepath.Join(dir, "precept*.1"))
	return len(list), err
}

// escapeAll makes Markdown of the help of all verbs: the pages are made by way of it, and there
// <hex> is a tag, which vanishes, and * begins something.
func escapeAll(c *cobra.Command) {
	c.Short, c.Long = escape(c.Short), escape(c.Long)
	each := func(f *pflag.Flag) { f.Usage = escape(f.Usage) }
	c.LocalFlags().VisitAll(each)
	for _, sub := range c.Commands() {
		escapeAll(sub)
	}
}

// escape leaves indented lines alone: they are examples, and Markdown takes them as they are.
func escape(text string) string {
	marks := strings.NewReplacer(`\`, `\\`, "<", `\<`, "*", `\*`, "`", "\\`", "_", `\_`)
	lines := strings.Split(text, "\n")
	for i, line := range lines {
		if !strings.HasPrefix(line, "    ") {
			lines[i] = marks.Replace(line)
		}
	}
	return strings.Join(lines, "\n")
}
