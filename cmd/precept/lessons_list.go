package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"precept/bandit/report"
	"precept/cmd/precept/server"
	"precept/configs"
	"precept/distill"
	"precept/inject/lesson"

	"github.com/spf13/cobra"
)

type listFlags struct {
	states                    []string
	expired, archived, asJSON bool
}

func (inv *invocation) lessonsListCommand() *cobra.Command {
	var f listFlags
	c := &cobra.Command{
		Use:   "list",
		Short: "List the lessons and their states",
		Long: "List prints the configured lessons and their states. An exclamation mark after the state means that the " +
			"lesson contradicts another lesson; the pairs follow the table. --state quarantined lists the lessons that " +
			"wait for approval.",
		Args: argsValidator(cobra.NoArgs),
	}
	addJSONFlag(c, &f.asJSON)
	c.Flags().StringSliceVar(
		&f.states, "state", nil, "list only lessons in these states: quarantined, trial, active, ...",
	)
	c.Flags().BoolVar(&f.expired, "expired", false, "list only expired lessons")
	c.Flags().BoolVar(&f.archived, "archived", false, "list the archived lessons instead of the configured ones")
	return inv.withConfig(c, bankKeys(), func(c *cobra.Command, cfg *configs.Config, _ []string) error {
		for _, s := range f.states {
			if !lesson.State(s).Valid() {
				return misuse(fmt.Errorf(
					"--state: %q is not a state; write candidate, quarantined, trial, active, caution, benched, paused, superseded, expired, archived or rejected",
					s,
				))
			}
		}
		return inv.list(c.Context(), cfg, &f)
	})
}

func (inv *invocation) list(ctx context.Context, cfg *configs.Config, f *listFlags) error {
	book, problems, err := readBankOrArchive(ctx, inv.tools, cfg, f.archived)
	if err != nil {
		return err
	}
	if f.expired {
		f.states = append(f.states, string(lesson.Expired))
	}
	list := make([]lessonRow, 0, book.Len())
	rows := [][]string{{"SLUG", "STATE", "OUTCOME", "CONFIDENCE", "TITLE"}}
	for _, l := range book.Lessons() {
		r := newLessonRow(inv.tools.Now(), book, l)
		if len(f.states) > 0 && !slices.Contains(f.states, string(r.State)) {
			continue
		}
		list = append(list, r)
		mark := ""
		if len(r.Conflicts) > 0 {
			mark = "!"
		}
		rows = append(rows, []string{
			r.Slug, string(r.State) + mark, r.Outcome,
			strconv.FormatFloat(r.Confidence, 'g', 3, 64), report.Printable(r.Title),
		})
	}
	if len(problems) > 0 {
		printFaultWarning(inv.stderr, problems)
	}
	if f.asJSON {
		return writeJSON(inv.stdout, list)
	}
	if len(list) == 0 {
		_, err := fmt.Fprintln(inv.stdout, "no lessons")
		return err
	}
	if err := writeTable(inv.stdout, rows, outputWidth(inv.stdout)); err != nil {
		return err
	}
	for i := range list {
		for _, other := range list[i].Conflicts {
			// Each pair is printed once, even if the other lesson is not listed.
			if list[i].Slug < other || !slices.ContainsFunc(list, func(r lessonRow) bool { return r.Slug == other }) {
				printWrapped(
					inv.stdout, outputWidth(inv.stdout),
					"! %s and %s fire on the same words and contradict each other; precept keeps both until you edit or retire one",
					list[i].Slug, other,
				)
			}
		}
	}
	return nil
}

func readBankOrArchive(
	ctx context.Context, tools server.Tools, cfg *configs.Config, archived bool,
) (*lesson.Book, []lesson.Problem, error) {
	if !archived {
		return readExistingBook(ctx, tools, cfg)
	}
	b, closeBank, err := tools.OpenBank(cfg)
	if err != nil {
		return nil, nil, err
	}
	defer closeBank()
	lessons, problems, err := b.Archived(ctx)
	return lesson.NewBook(lessons), problems, err
}

func (inv *invocation) lessonsShowCommand() *cobra.Command {
	var asJSON, archived bool
	c := &cobra.Command{
		Use:   "show SLUG",
		Short: "Print a lesson file",
		Long: "Show prints a lesson file unchanged. On standard error, show also prints the path of the companion file " +
			"(knowledge/lessons/SLUG.md, a note for people that no model gets), the lessons that contradict or " +
			"supersede the lesson, and the opinions of judge models about this text (see `precept distill`).",
		Args: argsValidator(cobra.ExactArgs(1)),
	}
	addJSONFlag(c, &asJSON)
	c.Flags().BoolVar(&archived, "archived", false, "show a lesson in the archive")
	return inv.withConfig(c, append(storeKeys(), "lessons"), func(c *cobra.Command, cfg *configs.Config, args []string) error {
		book, problems, err := readBankOrArchive(c.Context(), inv.tools, cfg, archived)
		if err != nil {
			return err
		}
		l, ok := book.Get(args[0])
		if !ok {
			return missingLessonError(args[0], problems...)
		}
		row, companion, opinions := newLessonRow(inv.tools.Now(), book, l), companionPath(cfg, l.Slug), readOpinions(c.Context(), inv.tools, cfg, l)
		if asJSON {
			return writeJSON(inv.stdout, struct {
				lessonRow
				Companion string           `json:"companion,omitempty"`
				Opinions  *report.Opinions `json:"opinions,omitempty"` // judges' opinions; not measured
				Body      string           `json:"body"`
			}{row, companion, opinions, l.Body})
		}
		if n := l.Support(); n > len(l.Evidence) {
			fmt.Fprintf(inv.stderr, "evidence: %d sessions; the file lists %d of them\n", n, len(l.Evidence))
		}
		if companion != "" {
			fmt.Fprintln(inv.stderr, "companion:", companion)
		}
		if len(row.Conflicts) > 0 {
			fmt.Fprintln(inv.stderr, "contradicts:", strings.Join(row.Conflicts, ", "))
		}
		if len(row.SupersededBy) > 0 {
			fmt.Fprintln(inv.stderr, "superseded by:", strings.Join(row.SupersededBy, ", "))
		}
		if opinions != nil {
			fmt.Fprintln(inv.stderr, opinions)
		}
		_, err = io.WriteString(inv.stdout, l.Raw)
		return err
	})
}

// companionPath returns the path of a lesson's note for people, which precept never injects: knowledge/lessons/SLUG.md
// in the lesson directory, next to the directory, or in the working directory. Without a note, the path is "".
func companionPath(cfg *configs.Config, slug string) string {
	name := filepath.Join("knowledge", "lessons", slug+".md")
	places := []string{name}
	if !server.IsRedis(cfg.Lessons) {
		places = []string{
			filepath.Join(cfg.Lessons, name),
			filepath.Join(filepath.Dir(filepath.Clean(cfg.Lessons)), name), name,
		}
	}
	for _, path := range places {
		if info, err := os.Stat(path); err == nil && info.Mode().IsRegular() {
			return path
		}
	}
	return ""
}

// readOpinions sums the opinions on a lesson's current text, over all tenants in the lesson's scope. The opinions come
// from judges, models that rate sessions. Without opinions or without a store, the result is nil.
func readOpinions(
	ctx context.Context, tools server.Tools, cfg *configs.Config, l *lesson.Lesson,
) *report.Opinions {
	if isStoreMissing(cfg) {
		return nil
	}
	db, err := tools.OpenUnfiltered(ctx, cfg)
	if err != nil {
		return nil
	}
	defer db.Close() //nolint:errcheck // nothing was written
	tenants, err := db.Tenants(ctx)
	if err != nil {
		return nil
	}
	var sum report.Opinions
	for _, tenant := range tenants {
		if l.Scope.Tenant != "" && l.Scope.Tenant != tenant {
			continue
		}
		opinions, err := distill.ReadOpinions(ctx, db, tenant)
		if err != nil {
			return nil
		}
		sum.Merge(opinions[l.Slug+"@"+l.ArmHash()])
	}
	if sum.Total() == 0 {
		return nil
	}
	return &sum
}
