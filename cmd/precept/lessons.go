package main

import (
	"context"
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"precept/lesson"
)

// lessonRow is one lesson of lessons list --json.
type lessonRow struct {
	Slug        string       `json:"slug"`
	Title       string       `json:"title"`
	State       lesson.State `json:"state"`
	Outcome     string       `json:"outcome"`
	Confidence  float64      `json:"confidence"`
	Category    string       `json:"category,omitempty"`
	Keywords    []string     `json:"keywords,omitempty"`
	Tags        []string     `json:"tags,omitempty"`
	ContentHash string       `json:"content_hash"`
	ExpiresAt   *time.Time   `json:"expires_at,omitempty"`
	Path        string       `json:"path"`
}

func (w *world) lessons() *cobra.Command {
	c := &cobra.Command{
		Use:   "lessons",
		Short: "List, show and check the lessons; share them with a fleet",
		Args:  arguments(cobra.NoArgs),
		RunE:  func(c *cobra.Command, _ []string) error { return c.Help() },
	}
	c.AddCommand(w.lessonsList(), w.lessonsShow(), w.lessonsLint(), w.lessonsPush(), w.lessonsPull())
	c.AddCommand(w.actions()...)
	return c
}

func (w *world) lessonsList() *cobra.Command {
	var asJSON bool
	c := &cobra.Command{Use: "list", Short: "List the lessons by slug", Args: arguments(cobra.NoArgs)}
	flags := addConfigFlags(c, "lessons")
	c.Flags().BoolVar(&asJSON, "json", false, "answer as JSON")
	c.RunE = func(*cobra.Command, []string) error {
		book, problems, err := w.loadBook(flags)
		if err != nil {
			return err
		}
		list := make([]lessonRow, 0, book.Len())
		rows := [][]string{{"SLUG", "STATE", "OUTCOME", "CONFIDENCE", "TITLE"}}
		for _, l := range book.Lessons() {
			r := w.row(book, l)
			list = append(list, r)
			rows = append(rows, []string{r.Slug, string(r.State), r.Outcome, strconv.FormatFloat(r.Confidence, 'g', 3, 64), printable(r.Title)})
		}
		if len(problems) > 0 {
			fmt.Fprintf(w.err, "%d files have faults: precept lessons lint tells them\n", len(problems))
		}
		if asJSON {
			return writeJSON(w.out, list)
		}
		return table(w.out, rows)
	}
	return c
}

func (w *world) lessonsShow() *cobra.Command {
	c := &cobra.Command{Use: "show SLUG", Short: "Print one lesson as its file has it", Args: arguments(cobra.ExactArgs(1))}
	flags := addConfigFlags(c, "lessons")
	var asJSON bool
	c.Flags().BoolVar(&asJSON, "json", false, "answer as JSON")
	c.RunE = func(_ *cobra.Command, args []string) error {
		book, _, err := w.loadBook(flags)
		if err != nil {
			return err
		}
		l, ok := book.Get(args[0])
		if !ok {
			return noLesson(args[0])
		}
		if asJSON {
			return writeJSON(w.out, struct {
				lessonRow
				Body string `json:"body"`
			}{w.row(book, l), l.Body})
		}
		_, err = w.out.Write(l.Raw)
		return err
	}
	return c
}

func (w *world) row(book *lesson.Book, l *lesson.Lesson) lessonRow {
	r := lessonRow{
		Slug: l.Slug, Title: l.Title, State: l.State, Outcome: l.Outcome, Confidence: l.Confidence, Category: l.Category,
		Keywords: l.Trigger.Keywords, Tags: l.Trigger.Tags, ContentHash: l.ContentHash, Path: l.Path,
	}
	if state, ok := book.StateAt(l.Slug, w.now()); ok {
		r.State = state
	}
	if !l.ExpiresAt.IsZero() {
		r.ExpiresAt = &l.ExpiresAt
	}
	return r
}

// loadBook reads the lessons directory of the configuration.
func (w *world) loadBook(flags *configFlags) (*lesson.Book, []lesson.Problem, error) {
	cfg, err := flags.load(w, true)
	if err != nil {
		return nil, nil, err
	}
	if !isRedis(cfg.Lessons) && !isDirectory(cfg.Lessons) {
		return nil, nil, fmt.Errorf("there is no directory %s; make it and put LESSON.md files into it, or name another with --lessons", cfg.Lessons)
	}
	return w.readBook(context.Background(), cfg)
}

func noLesson(slug string) error {
	return fmt.Errorf("there is no lesson %q; precept lessons list tells which there are", slug)
}

func isDirectory(path string) bool {
	info, err := os.Stat(path)
	return err == nil && info.IsDir()
}

// printable keeps what a file says from steering the terminal: control characters become spaces.
func printable(s string) string {
	return strings.Map(func(r rune) rune {
		if !strconv.IsPrint(r) {
			return ' '
		}
		return r
	}, s)
}
