package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"precept/bandit/report"
	"precept/configs"
	"precept/inject/bank"
	"precept/inject/lesson"
	"precept/internal/file"
)

func (inv *invocation) lessonsRetireCommand() *cobra.Command {
	var expired, superseded, asJSON bool
	c := &cobra.Command{
		Use:     "retire [SLUG...]",
		Aliases: []string{"archive"}, // the name in earlier versions
		Short:   "Move lessons to the archive; `lessons restore` undoes the retirement",
		Long: "Retire moves lessons to the archive (the folder _archive); `lessons list --archived` lists them. No new " +
			"session gets an archived lesson. The measurements remain in the store, and the slug cannot be reused. " +
			"`lessons restore` returns a lesson to its state before the retirement.",
	}
	c.Flags().BoolVar(&expired, "expired", false, "retire all expired lessons")
	c.Flags().BoolVar(
		&superseded, "superseded", false, "retire all lessons that an active lesson supersedes",
	)
	addJSONFlag(c, &asJSON)
	return inv.withBank(c, func(ctx context.Context, b *bank.Bank, slugs []string) error {
		isSingle := len(slugs) == 1 && !expired && !superseded
		if len(slugs) == 0 && !expired && !superseded {
			return misuse(fmt.Errorf("no lesson is named; name one or more slugs, or add --expired or --superseded"))
		}
		book, _, err := b.List(ctx)
		if err != nil {
			return err
		}
		for _, l := range book.Lessons() {
			state, _ := book.StateAt(l.Slug, inv.tools.Now())
			if (expired && state == lesson.Expired || superseded && state == lesson.Superseded) &&
				!slices.Contains(slugs, l.Slug) {
				slugs = append(slugs, l.Slug)
			}
		}
		retired := []stateResult{}
		for _, slug := range slugs {
			r, err := b.Act(ctx, slug, bank.Decision{Action: lesson.Retire, By: userName(inv.env)})
			if err != nil {
				return slugError(slug, err)
			}
			retired = append(retired, newStateResult(r.Lesson))
			if !asJSON {
				fmt.Fprintf(inv.stdout, "%s is %s now; `precept lessons restore %s` undoes the retirement\n", slug, r.Lesson.State, slug)
			}
		}
		switch {
		case asJSON && isSingle:
			return writeJSON(inv.stdout, retired[0])
		case asJSON:
			return writeJSON(inv.stdout, retired)
		case len(slugs) == 0:
			fmt.Fprintln(inv.stdout, "no lesson to retire")
		}
		return nil
	})
}

// maxEvents limits `lessons log` to the newest events.
const maxEvents = 1000

func (inv *invocation) lessonsLogCommand() *cobra.Command {
	var asJSON bool
	c := &cobra.Command{
		Use: "log [SLUG]", Short: "Show the lessons' audit log, oldest event first",
		Args: argsValidator(cobra.MaximumNArgs(1)),
	}
	c.Flags().BoolVar(&asJSON, "json", false, "print JSON lines")
	return inv.withBank(c, func(ctx context.Context, b *bank.Bank, args []string) error {
		events, err := b.Log(ctx, maxEvents)
		if err != nil {
			return err
		}
		rows := [][]string{{"TIME", "ACTION", "SLUG", "FROM", "TO", "BY", "HASH"}}
		for i := range events {
			e := &events[i]
			if len(args) > 0 && e.Slug != args[0] {
				continue
			}
			if asJSON {
				if err := json.NewEncoder(inv.stdout).Encode(e); err != nil {
					return err
				}
			}
			hash := e.Hash[:min(12, len(e.Hash))]
			rows = append(rows, []string{
				e.Time.UTC().Format(time.RFC3339), e.Action, e.Slug, string(e.From), string(e.To),
				report.Printable(e.By), hash,
			})
		}
		switch {
		case asJSON:
			return nil
		case len(rows) == 1:
			about := ""
			if len(args) > 0 {
				about = " about " + args[0]
			}
			_, err := fmt.Fprintf(inv.stdout, "no events%s in the audit log\n", about)
			return err
		}
		return writeTable(inv.stdout, rows, outputWidth(inv.stdout))
	})
}

func (inv *invocation) lessonsExportCommand() *cobra.Command {
	var format string
	var states []string
	var asJSON bool
	c := &cobra.Command{
		Use:   "export [DIR]",
		Short: "Write lessons in a format for other programs",
		Long: "Export writes the lessons for other programs. --format jsonl writes one JSON object per line to standard " +
			"output; aip11 writes the lesson files unchanged into DIR; gptme writes files in the gptme format into DIR. " +
			"Export omits lessons that apply to a single tenant or agent.",
		Args: argsValidator(cobra.MaximumNArgs(1)),
	}
	c.Flags().StringVar(&format, "format", "jsonl", "output format: jsonl, aip11 or gptme")
	c.Flags().StringSliceVar(
		&states, "state", []string{"active", "caution", "trial"}, "export only lessons in these states",
	)
	c.Flags().BoolVar(&asJSON, "json", false, "with DIR, print the directory and the number of lessons as JSON; --format jsonl always prints JSON")
	return inv.withConfig(c, bankKeys(), func(c *cobra.Command, cfg *configs.Config, args []string) error {
		if err := checkExportFormat(format, args); err != nil {
			return misuse(err)
		}
		book, _, err := readExistingBook(c.Context(), inv.tools, cfg)
		if err != nil {
			return err
		}
		n := 0
		for _, l := range book.Lessons() {
			row := newLessonRow(inv.tools.Now(), book, l)
			if !slices.Contains(states, string(row.State)) || l.Scope != (lesson.Scope{}) {
				continue
			}
			n++
			if err := exportOne(inv.stdout, format, args, l, row); err != nil {
				return err
			}
		}
		switch {
		case format == "jsonl":
		case asJSON:
			return writeJSON(inv.stdout, map[string]any{"output": args[0], "format": format, "lessons": n})
		case n == 0:
			fmt.Fprintln(inv.stdout, "no lessons in these states; nothing was written")
		default:
			fmt.Fprintf(inv.stdout, "%s written to %s\n", countNoun(n, "lesson"), args[0])
		}
		return nil
	})
}

func checkExportFormat(format string, dirs []string) error {
	switch {
	case !slices.Contains([]string{"jsonl", "aip11", "gptme"}, format):
		return fmt.Errorf("--format: %q is not a format; write jsonl, aip11 or gptme", format)
	case format == "jsonl" && len(dirs) > 0:
		return errors.New("--format jsonl writes to standard output; omit DIR, or add --format aip11 or --format gptme")
	case format != "jsonl" && len(dirs) == 0:
		return fmt.Errorf("--format %s needs a directory; add DIR", format)
	}
	return nil
}

func exportOne(out io.Writer, format string, args []string, l *lesson.Lesson, row lessonRow) error {
	switch format {
	case "aip11":
		return file.Write(
			filepath.Join(args[0], filepath.FromSlash(l.Category), l.Slug+".md"), 0o644, []byte(l.Raw),
		)
	case "gptme":
		text, err := []byte(l.Raw), error(nil)
		if l.Form != lesson.FormGptme {
			text, err = lesson.GptmeText(l)
		}
		if err != nil {
			return err
		}
		return file.Write(
			filepath.Join(args[0], filepath.FromSlash(l.Category), l.Slug+".md"), 0o644, text,
		)
	default:
		return json.NewEncoder(out).Encode(struct {
			lessonRow
			Advice string `json:"advice"`
			Text   string `json:"text"`
		}{row, l.Advice, l.Raw})
	}
}

func slugError(slug string, err error) error {
	if err == bank.ErrNoLesson { //nolint:errorlint // the bank returns this error unwrapped
		return missingLessonError(slug)
	}
	return fmt.Errorf("%s: %w", slug, err)
}
