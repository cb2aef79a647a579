package main

import (
	"context"
	"fmt"
	"io"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"precept/bandit/feedback"
	"precept/bandit/report"
	"precept/cmd/precept/server"
	"precept/configs"
	"precept/inject/backtest"
	"precept/inject/lesson"
	"precept/internal/session"
)

// backtestFlags choose the sessions.
type backtestFlags struct {
	tenant, since string
	asJSON        bool
}

func (w *invocation) lessonsBacktest() *cobra.Command {
	var f backtestFlags
	c := &cobra.Command{
		Use:   "backtest SLUG|FILE...",
		Short: "Tell in which captured sessions lessons would have fired",
		Long: "Backtest shows the captured sessions to a lesson of the bank, or to a LESSON.md " +
			"file that is in none: in how many of how many it would have fired, by which words, " +
			"and what those sessions were worth. " +
			"The mean reward is of the sessions that were told of; it is not an effect of the " +
			"lesson, which the holdout measures. Targets by role and skill, which a capture " +
			"does not tell, are taken for met. It works beside a running server.",
		Args: arguments(cobra.MinimumNArgs(1)),
	}
	c.Flags().StringVar(&f.tenant, "tenant", "", "sessions of this tenant only")
	c.Flags().StringVar(
		&f.since, "since", "", "sessions from this time on (2026-01-31, or RFC 3339)",
	)
	addJSON(c, &f.asJSON)
	return w.configured(c, append(storeKeys(), "lessons"), func(c *cobra.Command, cfg *configs.Config, args []string) error {
		since, err := parseDay("since", f.since)
		if err != nil {
			return err
		}
		lessons, err := w.named(c.Context(), cfg, args)
		if err != nil {
			return err
		}
		run, err := runBacktest(c.Context(), w.err, w.tools, cfg, lessons, f.tenant, since)
		if err != nil {
			return err
		}
		if f.asJSON {
			return writeJSON(w.out, run.Results())
		}
		for _, r := range run.Results() {
			printBacktest(w.out, r)
		}
		return nil
	})
}

// named finds lessons by slug in the bank, or by file.
func (w *invocation) named(
	ctx context.Context, cfg *configs.Config, args []string,
) ([]*lesson.Lesson, error) {
	var book *lesson.Book
	var out []*lesson.Lesson
	for _, arg := range args {
		if strings.HasSuffix(arg, ".md") {
			raw, err := readText(w.in, arg, lesson.MaxFile)
			if err != nil {
				return nil, err
			}
			l, err := lesson.Parse(arg, raw)
			if err != nil {
				return nil, fmt.Errorf("%s: %w", arg, err)
			}
			out = append(out, l)
			continue
		}
		if book == nil {
			var err error
			if book, _, err = readBook(ctx, w.tools, cfg); err != nil {
				return nil, err
			}
		}
		l, ok := book.Get(arg)
		if !ok {
			return nil, noLesson(arg)
		}
		out = append(out, l)
	}
	return out, nil
}

// runBacktest matches lessons against the captured sessions, one session at a time.
func runBacktest(
	ctx context.Context, console io.Writer, tools server.Tools, cfg *configs.Config, lessons []*lesson.Lesson, tenant string,
	since time.Time,
) (*backtest.Run, error) {
	e, err := tools.OpenStored(ctx, cfg)
	if err != nil {
		return nil, err
	}
	defer e.Close() //nolint:errcheck // only read
	st, err := e.Stats(ctx)
	if err != nil {
		return nil, err
	}
	watch := newProgress(console, tools, "sessions", st["sessions"])
	defer watch.end()
	run := backtest.New(lessons, lesson.NewTagger(cfg.Tags))
	err = e.EachSession(ctx, tenant, since, time.Time{}, func(r session.Row, a session.Applied) error {
		watch.add(1)
		s, err := server.Captured(ctx, e, r, a)
		if err != nil || s == nil {
			return err
		}
		if !s.Told { // the session is not closed yet, or was imported: its feedback counts all the same
			entries, err := e.Feedback(ctx, r.Tenant, r.ID)
			if err != nil {
				return err
			}
			out := feedback.Reward(entries, server.Tiers(cfg.Reward.Tiers))
			s.Told, s.Reward = out.OK, out.Reward
		}
		run.Add(s)
		return nil
	})
	return run, err
}

func printBacktest(out io.Writer, r backtest.Result) {
	fmt.Fprintf(
		out, "%s would have fired in %d of %s%s\n", r.Slug, r.Fired, amount(r.Sessions, "session"),
		share(r.Fired, r.Sessions),
	)
	for _, word := range r.Words {
		fmt.Fprintf(out, "  %6d  %s\n", word.Sessions, report.Printable(word.Word))
	}
	for _, word := range r.Silent {
		fmt.Fprintf(out, "  %6d  %s\n", 0, report.Printable(word))
	}
	mean := func(m *float64, n int) string {
		if m == nil {
			return "nobody told"
		}
		return fmt.Sprintf("%s (of %d told)", strconv.FormatFloat(*m, 'f', 3, 64), n)
	}
	fmt.Fprintf(
		out, "  mean reward: there %s, elsewhere %s; this is not an effect of the lesson\n",
		mean(r.Worth.Fired, r.Worth.ToldFired), mean(r.Worth.Rest, r.Worth.ToldRest),
	)
	if len(r.Examples) > 0 {
		fmt.Fprintf(out, "  such as %s\n", report.Printable(strings.Join(r.Examples, ", ")))
	}
	if r.Near.Sessions > 0 {
		fmt.Fprintf(out, "  near misses in %s:\n", amount(r.Near.Sessions, "other"))
	}
	for _, why := range r.Near.Why {
		fmt.Fprintf(out, "  %6d  %s\n", why.Sessions, report.Printable(why.Word))
	}
}

func share(n, of int) string {
	if of == 0 {
		return ""
	}
	return fmt.Sprintf(" (%.1f%%)", 100*float64(n)/float64(of))
}
