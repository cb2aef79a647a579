package main

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"maps"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/rogpeppe/go-internal/diff"
	"github.com/spf13/cobra"

	"precept/bandit/report"
	"precept/cmd/precept/server"
	"precept/configs"
	"precept/inject/lesson"
)

type lessonDiff struct {
	Slug           string           `json:"slug"`
	Kind           string           `json:"kind"` // added, removed, changed
	OldState       lesson.State     `json:"from,omitempty"`
	NewState       lesson.State     `json:"to,omitempty"`
	ContentChanged bool             `json:"content"` // the text for the model or the trigger differs
	ApprovalLost   bool             `json:"approval_lost"`
	Findings       []lesson.Finding `json:"findings"`
	Diff           string           `json:"diff"`
}

func (inv *invocation) lessonsDiffCommand() *cobra.Command {
	var asJSON bool
	c := &cobra.Command{
		Use:   "diff OLD [NEW]",
		Short: "Compare two sets of lessons, and check the new lessons",
		Long: "Diff compares the lessons in OLD and NEW. Each of them is a directory, a redis:// URL, or git:REV, the " +
			"lesson directory at a git revision (git:origin/main for a pull request). The default for NEW is the " +
			"configured lessons. For each lesson that differs, diff prints the states, the changed lines, the findings " +
			"of the checks, and whether the lesson has lost its approval. Exit code 1: the checks refuse a new lesson.",
		Args: argsValidator(cobra.RangeArgs(1, 2)),
	}
	addJSONFlag(c, &asJSON)
	return inv.withConfig(c, bankKeys(), func(c *cobra.Command, cfg *configs.Config, args []string) error {
		old, err := readBank(c.Context(), inv.stderr, inv.tools, cfg, args[0])
		if err != nil {
			return err
		}
		place := cfg.Lessons
		if len(args) == 2 {
			place = args[1]
		}
		next, err := readBank(c.Context(), inv.stderr, inv.tools, cfg, place)
		if err != nil {
			return err
		}
		changes, ok := diffBooks(inv.tools.Now(), old, next)
		if asJSON {
			return writeJSONResult(inv.stdout, changes, ok)
		}
		for i := range changes {
			printChange(inv.stdout, &changes[i])
		}
		if len(changes) == 0 {
			fmt.Fprintln(inv.stdout, "the lessons do not differ")
		} else {
			fmt.Fprintf(inv.stdout, "differences in %s\n", countNoun(len(changes), "lesson"))
		}
		return failedUnless(ok)
	})
}

func readBank(ctx context.Context, console io.Writer, tools server.Tools, cfg *configs.Config, address string) (*lesson.Book, error) {
	if server.IsRedis(address) {
		other := *cfg
		other.Lessons = address
		book, problems, err := readBook(ctx, tools, &other)
		printProblems(console, problems)
		return book, err
	}
	revision, isGit := strings.CutPrefix(address, "git:")
	var texts map[string][]byte
	var err error
	if isGit {
		texts, err = revisionTexts(ctx, cfg.Lessons, revision)
	} else {
		texts, err = readLessonTexts(console, address)
	}
	if err != nil {
		return nil, err
	}
	book, problems, _ := lesson.NewTexts(address).Load(texts)
	printProblems(console, problems)
	return book, nil
}

func revisionTexts(ctx context.Context, dir, rev string) (map[string][]byte, error) {
	switch {
	case server.IsRedis(dir):
		return nil, misuse(fmt.Errorf("git:%s needs a lesson directory, but the configured lessons are in Redis; name a directory in a git repository with --lessons", rev))
	case rev == "" || strings.HasPrefix(rev, "-"):
		return nil, misuse(fmt.Errorf("git:%s does not name a revision; write a revision such as git:origin/main", rev))
	}
	git := func(args ...string) ([]byte, error) {
		cmd := exec.CommandContext(ctx, "git", append([]string{"-C", dir}, args...)...) //nolint:gosec // the user's own revision, and no shell
		out, err := cmd.Output()
		if err != nil {
			var stderr []byte
			if e, ok := err.(*exec.ExitError); ok { //nolint:errorlint // Output returns this type unwrapped
				stderr = bytes.TrimSpace(e.Stderr)
			}
			if text := string(stderr); strings.Contains(text, "not a git repository") {
				return nil, fmt.Errorf("the lesson directory %s is not in a git repository; name a directory in a git repository with --lessons", dir)
			}
			return nil, fmt.Errorf("git %s in %s: %w: %s; name a revision that contains the lesson directory", args[0], dir, err, stderr)
		}
		return out, nil
	}
	names, err := git("ls-tree", "-r", "-z", "--name-only", rev, "--", ".")
	if err != nil {
		return nil, err
	}
	texts := map[string][]byte{}
	for name := range strings.SplitSeq(string(names), "\x00") {
		if !lesson.IsLessonPath(filepath.ToSlash(name)) {
			continue
		}
		if texts[name], err = git("show", rev+":./"+name); err != nil {
			return nil, err
		}
	}
	return texts, nil
}

// diffBooks returns the differing lessons; ok is false if the checks refuse one of them.
func diffBooks(now time.Time, old, next *lesson.Book) (out []lessonDiff, ok bool) {
	out, ok = []lessonDiff{}, true
	slugs := map[string]bool{}
	for _, l := range slices.Concat(old.Lessons(), next.Lessons()) {
		slugs[l.Slug] = true
	}
	checks := lesson.Checker{Now: now, Secrets: server.PrivateKinds}
	for _, slug := range slices.Sorted(maps.Keys(slugs)) {
		oldLesson, inOld := old.Get(slug)
		newLesson, inNew := next.Get(slug)
		c := lessonDiff{Slug: slug, Kind: "changed", Findings: []lesson.Finding{}}
		var oldText, newText string
		if inOld {
			oldText = oldLesson.Raw
			c.OldState, _ = old.StateAt(slug, now)
		}
		if inNew {
			newText = newLesson.Raw
			c.NewState, _ = next.StateAt(slug, now)
		}
		if oldText == newText && c.OldState == c.NewState {
			continue
		}
		switch {
		case !inOld:
			c.Kind, c.ContentChanged = "added", true
		case !inNew:
			c.Kind = "removed"
		default:
			c.ContentChanged = oldLesson.ContentHash != newLesson.ContentHash
			c.ApprovalLost = c.ContentChanged && oldLesson.State.IsActive() && newLesson.State == lesson.Quarantined
		}
		if inNew {
			c.Findings = append(c.Findings, checks.CheckLesson(newLesson, next)...)
			ok = ok && lesson.SelectErrors(c.Findings) == nil
		}
		c.Diff = string(diff.Diff("old/"+slug, []byte(oldText), "new/"+slug, []byte(newText)))
		out = append(out, c)
	}
	return out, ok
}

func printChange(out io.Writer, c *lessonDiff) {
	switch c.Kind {
	case "added":
		fmt.Fprintf(out, "+ %s (%s)\n", c.Slug, c.NewState)
	case "removed":
		fmt.Fprintf(out, "- %s (%s)\n", c.Slug, c.OldState)
	default:
		fmt.Fprintf(out, "~ %s (%s -> %s)\n", c.Slug, c.OldState, c.NewState)
	}
	if c.Kind == "changed" && c.ContentChanged {
		fmt.Fprintln(
			out, "  the text or the trigger has changed: the lesson's measurement starts again from zero",
		)
	}
	if c.ApprovalLost {
		fmt.Fprintln(
			out,
			"  the approval applies to the old text: the lesson is inactive until a person approves the new text",
		)
	}
	for _, f := range c.Findings {
		fmt.Fprintln(out, " ", report.Printable(f.String()))
	}
	for line := range strings.Lines(c.Diff) {
		fmt.Fprintln(out, "  "+report.Printable(strings.TrimRight(line, "\n")))
	}
}
