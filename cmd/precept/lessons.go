package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"precept/cmd/precept/server"
	"precept/configs"
	"precept/inject/bank"
	"precept/inject/lesson"
)

type lessonRow struct {
	Slug         string       `json:"slug"`
	Title        string       `json:"title"`
	State        lesson.State `json:"state"`
	Outcome      string       `json:"outcome"`
	Confidence   float64      `json:"confidence"`
	Category     string       `json:"category,omitempty"`
	Keywords     []string     `json:"keywords,omitempty"`
	ErrorKinds   []string     `json:"error_kinds,omitempty"`
	RequestKinds []string     `json:"request_kinds,omitempty"`
	Tags         []string     `json:"tags,omitempty"`
	ContentHash  string       `json:"content_hash"`
	ExpiresAt    *time.Time   `json:"expires_at,omitempty"`
	Source       string       `json:"source,omitempty"` // program that wrote the lesson; empty: a person
	Tenant       string       `json:"tenant,omitempty"`
	Agent        string       `json:"agent,omitempty"`
	Evidence     int          `json:"evidence_count"`      // sessions and other sources that support the lesson
	Conflicts    []string     `json:"conflicts,omitempty"` // lessons that fire on the same words and contradict this one
	SupersededBy []string     `json:"superseded_by,omitempty"`
	Path         string       `json:"path"`
}

func (inv *invocation) lessonsCommand() *cobra.Command {
	c := &cobra.Command{
		Use:   "lessons",
		Short: "List, show, check and change lessons; copy lessons to and from Redis",
		Args:  argsValidator(cobra.NoArgs),
		RunE:  func(c *cobra.Command, _ []string) error { return c.Help() },
	}
	c.AddCommand(inv.lessonsListCommand(), inv.lessonsShowCommand(), inv.lessonsLintCommand(), inv.lessonsTryCommand(), inv.lessonsBacktestCommand(), inv.lessonsPhrasesCommand(), inv.lessonsNewCommand(), inv.lessonsDiffCommand(), inv.lessonsImportCommand(), inv.lessonsExportCommand(),
		inv.lessonsPushCommand(), inv.lessonsPullCommand(), inv.lessonsLogCommand())
	c.AddCommand(inv.actionCommands()...)
	return c
}

func newLessonRow(now time.Time, book *lesson.Book, l *lesson.Lesson) lessonRow {
	r := lessonRow{
		Slug: l.Slug, Title: l.Title, State: l.State, Outcome: l.Outcome, Confidence: l.Confidence, Evidence: l.Support(),
		Category: l.Category,
		Keywords: l.Trigger.Keywords, ErrorKinds: l.Trigger.ErrorKinds, RequestKinds: l.Trigger.RequestKinds, Tags: l.Trigger.Tags, ContentHash: l.ContentHash,
		Path:   l.Path,
		Source: l.Approval.Source, Tenant: l.Scope.Tenant, Agent: l.Scope.Agent,
	}
	for _, other := range book.Contradicting(l) {
		r.Conflicts = append(r.Conflicts, other.Slug)
	}
	for _, successor := range book.Successors(l.Slug, now) {
		r.SupersededBy = append(r.SupersededBy, successor.Slug)
	}
	if state, ok := book.StateAt(l.Slug, now); ok {
		r.State = state
	}
	if !l.ExpiresAt.IsZero() {
		r.ExpiresAt = &l.ExpiresAt
	}
	return r
}

func readExistingBook(
	ctx context.Context, tools server.Tools, cfg *configs.Config,
) (*lesson.Book, []lesson.Problem, error) {
	if !server.IsRedis(cfg.Lessons) && !isDirectory(cfg.Lessons) {
		return nil, nil, fmt.Errorf(
			"the directory %s does not exist; create the directory and add LESSON.md files, or give another directory with --lessons",
			cfg.Lessons,
		)
	}
	return readBook(ctx, tools, cfg)
}

// missingLessonError returns the error for a slug that is not in the bank. If a file with this slug has faults, the
// error names the faults.
func missingLessonError(slug string, problems ...lesson.Problem) error {
	for i := range problems {
		p := &problems[i]
		name := strings.TrimSuffix(path.Base(p.Path), ".md")
		if slug == p.Slug || slug == name || slug == path.Base(path.Dir(p.Path)) && strings.EqualFold(name, "LESSON") {
			return fmt.Errorf("the lesson %q has faults; correct the file:\n%w", slug, p)
		}
	}
	return fmt.Errorf("lesson %q does not exist; `precept lessons list` lists the lessons", slug)
}

func isDirectory(path string) bool {
	info, err := os.Stat(path)
	return err == nil && info.IsDir()
}

func (inv *invocation) actionCommands() []*cobra.Command {
	return []*cobra.Command{
		inv.actionCommand(lesson.Approve, "Approve a lesson's current text and activate the lesson"),
		inv.actionCommand(lesson.Reject, "Reject a lesson; `lessons approve` undoes the rejection"),
		inv.lessonsTrialCommand(),
		inv.actionCommand(lesson.Pause, "Pause a lesson, so that no new session gets it; `lessons resume` undoes the pause"),
		inv.actionCommand(lesson.Resume, "Return a paused lesson to its state before the pause"),
		inv.lessonsRetireCommand(),
		inv.actionCommand(lesson.Restore, "Return a retired lesson to its state before the retirement"),
	}
}

// stateResult is the output of a command that changes a lesson.
type stateResult struct {
	Slug        string       `json:"slug"`
	State       lesson.State `json:"state"`
	ContentHash string       `json:"content_hash"`
	Path        string       `json:"path"`
}

func newStateResult(l *lesson.Lesson) stateResult {
	return stateResult{l.Slug, l.State, l.ContentHash, l.Path}
}

func printState(out io.Writer, l *lesson.Lesson, asJSON bool) error {
	return printResult(out,
		asJSON, newStateResult(l), "%s is %s now", l.Slug, l.State,
	)
}

// actionCommand returns the command for an action. short is the one-line help text.
func (inv *invocation) actionCommand(a lesson.Action, short string) *cobra.Command {
	var asJSON, force bool
	c := &cobra.Command{Use: string(a) + " SLUG", Short: short, Args: argsValidator(cobra.ExactArgs(1))}
	c.Long = short + ". A running server applies the change within two seconds."
	addJSONFlag(c, &asJSON)
	if a == lesson.Approve {
		c.Flags().BoolVar(&force, "force", false, forceHelp)
	}
	return inv.withConfig(c, bankKeys(), func(c *cobra.Command, cfg *configs.Config, args []string) error {
		l, err := inv.applyAction(c.Context(), cfg, args[0], a, lesson.TrialPlan{}, force)
		if err != nil {
			return err
		}
		if undo := a.Inverse(); undo != "" && !asJSON {
			_, err := fmt.Fprintf(inv.stdout, "%s is %s now; `precept lessons %s %s` undoes the %s\n", l.Slug, l.State, undo, l.Slug, a)
			return err
		}
		return printState(inv.stdout, l, asJSON)
	})
}

const forceHelp = "activate the lesson although the checks refuse it; read the lesson first"

func (inv *invocation) applyAction(
	ctx context.Context, cfg *configs.Config, slug string, a lesson.Action, plan lesson.TrialPlan,
	force bool,
) (*lesson.Lesson, error) {
	b, closeBank, err := inv.tools.OpenBank(cfg)
	if err != nil {
		return nil, err
	}
	defer closeBank()
	ctx, cancel := context.WithTimeout(ctx, server.BankTimeout)
	defer cancel()
	r, err := b.Act(ctx, slug, bank.Decision{Action: a, Plan: plan, By: userName(inv.env), Force: force})
	printFindings(inv.stderr, r.Findings)
	var refused *bank.Refused
	switch {
	case errors.Is(err, bank.ErrNoLesson):
		_, problems, _ := b.List(ctx) // the error for the missing lesson is more useful than List's error
		return nil, missingLessonError(slug, problems...)
	case errors.As(err, &refused):
		return nil, fmt.Errorf(
			"the checks refuse %s, and the lesson is unchanged; correct the lesson, or read it and add --force:\n%w", slug, err,
		)
	}
	return r.Lesson, err
}
