package main

import (
	"context"
	"fmt"
	"os"
	"time"

	"github.com/spf13/cobra"

	"precept/cmd/precept/server"
	"precept/configs"
	"precept/inject/lesson"
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
	Source      string       `json:"source,omitempty"` // the program that wrote it; empty: a person
	Tenant      string       `json:"tenant,omitempty"`
	Agent       string       `json:"agent,omitempty"`
	Conflicts   []string     `json:"conflicts,omitempty"` // lessons that fire on the same words and claim the opposite
	HeldBy      []string     `json:"superseded_by,omitempty"`
	Path        string       `json:"path"`
}

func (w *world) lessons() *cobra.Command {
	c := &cobra.Command{
		Use:   "lessons",
		Short: "List, show and check the lessons; share them with a fleet",
		Args:  arguments(cobra.NoArgs),
		RunE:  func(c *cobra.Command, _ []string) error { return c.Help() },
	}
	c.AddCommand(w.lessonsList(), w.lessonsShow(), w.lessonsLint(), w.lessonsTry(), w.lessonsBacktest(), w.lessonsNew(), w.lessonsDiff(), w.lessonsImport(), w.lessonsExport(),
		w.lessonsPush(), w.lessonsPull(), w.lessonsArchive(), w.lessonsRestore(), w.lessonsLog())
	c.AddCommand(w.actions()...)
	return c
}

func (w *world) row(book *lesson.Book, l *lesson.Lesson) lessonRow {
	r := lessonRow{
		Slug: l.Slug, Title: l.Title, State: l.State, Outcome: l.Outcome, Confidence: l.Confidence,
		Category: l.Category,
		Keywords: l.Trigger.Keywords, Tags: l.Trigger.Tags, ContentHash: l.ContentHash,
		Path:   l.Path,
		Source: l.Approval.Source, Tenant: l.Scope.Tenant, Agent: l.Scope.Agent,
	}
	for _, other := range book.Contradicts(l) {
		r.Conflicts = append(r.Conflicts, other.Slug)
	}
	for _, heir := range book.Heirs(l.Slug, w.Now()) {
		r.HeldBy = append(r.HeldBy, heir.Slug)
	}
	if state, ok := book.StateAt(l.Slug, w.Now()); ok {
		r.State = state
	}
	if !l.ExpiresAt.IsZero() {
		r.ExpiresAt = &l.ExpiresAt
	}
	return r
}

// loadBook reads the lessons of the configuration.
func (w *world) loadBook(
	ctx context.Context, cfg *configs.Config,
) (*lesson.Book, []lesson.Problem, error) {
	if !server.IsRedis(cfg.Lessons) && !isDirectory(cfg.Lessons) {
		return nil, nil, fmt.Errorf(
			"there is no directory %s; make it and put LESSON.md files into it, or name another with --lessons",
			cfg.Lessons,
		)
	}
	return w.readBook(ctx, cfg)
}

func noLesson(slug string) error {
	return fmt.Errorf("there is no lesson %q; precept lessons list tells which there are", slug)
}

func isDirectory(path string) bool {
	info, err := os.Stat(path)
	return err == nil && info.IsDir()
}
