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

type backtestFlags struct {
	tenant, since string
	asJSON        bool
}

func (inv *invocation) lessonsBacktestCommand() *cobra.Command {
	var f backtestFlags
	c := &cobra.Command{
		Use:   "backtest SLUG|FILE...",
		Short: "Count the captured sessions in which lessons would have fired",
		Long: "Backtest matches lessons against the captured sessions. Name each lesson by its slug, or by the path of a " +
			"lesson file (.md). For each lesson, backtest prints the number of sessions in which the lesson would have " +
			"fired, the words that matched, the number of other sessions with similar words (likeness), and the mean " +
			"reward. The mean reward covers only sessions with a reward. It is not the lesson's effect, which only the " +
			"experiment can measure. Backtest treats conditions on role and skill as met, because captured sessions do " +
			"not contain them. Backtest can run while a server runs.",
		Args: argsValidator(cobra.MinimumNArgs(1)),
	}
	c.Flags().StringVar(&f.tenant, "tenant", "", "match only this tenant's sessions")
	c.Flags().StringVar(
		&f.since, "since", "", "match only sessions at or after this time (2026-01-31, or RFC 3339)",
	)
	addJSONFlag(c, &f.asJSON)
	return inv.withConfig(c, append(storeKeys(), "lessons"), func(c *cobra.Command, cfg *configs.Config, args []string) error {
		since, err := parseTimeFlag("since", f.since)
		if err != nil {
			return err
		}
		lessons, err := inv.findLessons(c.Context(), cfg, args)
		if err != nil {
			return err
		}
		var others *lesson.Book
		if cfg.Match.Like != configs.LikeOff {
			if others, _, err = readBook(c.Context(), inv.tools, cfg); err != nil {
				return err
			}
		}
		run, err := inv.runBacktest(c.Context(), cfg, lessons, backtestSelection{f.tenant, since, others})
		if err != nil {
			return err
		}
		if f.asJSON {
			return writeJSON(inv.stdout, run.Results())
		}
		for _, r := range run.Results() {
			printBacktest(inv.stdout, r)
		}
		return nil
	})
}

// findLessons reads lessons. A name ending in .md is a file path, and every other name is a slug in the configured
// lessons.
func (inv *invocation) findLessons(
	ctx context.Context, cfg *configs.Config, args []string,
) ([]*lesson.Lesson, error) {
	var book *lesson.Book
	var problems []lesson.Problem
	var out []*lesson.Lesson
	for _, arg := range args {
		if strings.HasSuffix(arg, ".md") {
			raw, err := readText(inv.stdin, arg, lesson.MaxFileSize)
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
			if book, problems, err = readBook(ctx, inv.tools, cfg); err != nil {
				return nil, err
			}
		}
		l, ok := book.Get(arg)
		if !ok {
			return nil, missingLessonError(arg, problems...)
		}
		out = append(out, l)
	}
	return out, nil
}

type backtestSelection struct {
	tenant     string
	since      time.Time
	allLessons *lesson.Book // for matching by likeness (similar words); nil disables it
}

func (inv *invocation) runBacktest(ctx context.Context, cfg *configs.Config, lessons []*lesson.Lesson, selection backtestSelection) (*backtest.Evaluator, error) {
	reader, err := inv.tools.OpenFiltered(ctx, cfg)
	if err != nil {
		return nil, err
	}
	defer reader.Close() //nolint:errcheck // nothing was written
	counts, err := reader.Stats(ctx)
	if err != nil {
		return nil, err
	}
	bar := newProgress(inv.stderr, inv.tools, "sessions", counts["sessions"])
	defer bar.end()
	run := backtest.New(lessons, lesson.NewTagger(cfg.Tags))
	if selection.allLessons != nil {
		traffic, err := server.ReadTraffic(ctx, reader, inv.tools.Now(), nil)
		if err != nil {
			return nil, err
		}
		run.EnableLikeness(server.NewLikenessConfig(cfg, selection.allLessons, traffic))
	}
	err = reader.EachSession(ctx, selection.tenant, selection.since, time.Time{}, func(r session.Row, a session.SettledState) error {
		bar.add(1)
		s, err := server.CapturedSession(ctx, reader, r, a)
		if err != nil || s == nil {
			return err
		}
		if !s.Rewarded { // an open or imported session has no reward yet, so its feedback decides
			entries, err := reader.Feedback(ctx, r.Tenant, r.ID)
			if err != nil {
				return err
			}
			out := feedback.Reward(entries, server.Tiers(cfg.Reward.Tiers))
			s.Rewarded, s.Reward = out.OK, out.Reward
		}
		run.Add(s)
		return nil
	})
	return run, err
}

func printBacktest(out io.Writer, r backtest.Result) {
	fmt.Fprintf(
		out, "%s would have fired in %d of %s%s\n", r.Slug, r.Matched, countNoun(r.Sessions, "session"),
		percentage(r.Matched, r.Sessions),
	)
	for _, word := range r.Words {
		fmt.Fprintf(out, "  %6d  %s\n", word.Sessions, report.Printable(word.Text))
	}
	for _, word := range r.SilentTriggers {
		fmt.Fprintf(out, "  %6d  %s\n", 0, report.Printable(word))
	}
	mean := func(m *float64, n int) string {
		if m == nil {
			return "unknown"
		}
		return fmt.Sprintf("%s (%s)", strconv.FormatFloat(*m, 'f', 3, 64), countNoun(n, "rewarded session"))
	}
	fmt.Fprintf(
		out, "  mean reward: in these sessions %s, in the others %s; the difference is not the lesson's effect\n",
		mean(r.Rewards.MeanMatched, r.Rewards.RewardedMatched), mean(r.Rewards.MeanUnmatched, r.Rewards.RewardedUnmatched),
	)
	if len(r.Examples) > 0 {
		fmt.Fprintf(out, "  example sessions: %s\n", report.Printable(strings.Join(r.Examples, ", ")))
	}
	printLikeness(out, &r.Likeness)
	if r.NearMisses.Sessions > 0 {
		fmt.Fprintf(out, "  near misses in %s:\n", countNoun(r.NearMisses.Sessions, "other session"))
	}
	for _, reason := range r.NearMisses.MissingConditions {
		fmt.Fprintf(out, "  %6d  %s\n", reason.Sessions, report.Printable(reason.Text))
	}
}

// printLikeness prints in how many sessions the lesson would have matched by likeness, with examples.
func printLikeness(out io.Writer, l *backtest.LikenessCounts) {
	switch {
	case l.Captured == 0:
		return
	case l.Captured < lesson.LikeSessions:
		fmt.Fprintf(out, "  similar words: the comparison needs %d captured sessions, and the store has %d\n", lesson.LikeSessions, l.Captured)
		return
	}
	effect := "the lesson would be injected"
	if !l.Injected {
		effect = "the lesson would be suggested; to inject it, set `like: true` in the lesson and `match.like: on` in the configuration"
	}
	fmt.Fprintf(out, "  similar words in %s (%s)\n", countNoun(l.Sessions, "other session"), effect)
	for _, e := range l.Examples {
		fmt.Fprintf(out, "  %6.2f  (threshold %.2f; similar words: %s)  %s: %s\n", e.Score, e.Threshold, report.Printable(strings.Join(e.Words, ", ")),
			report.Printable(e.Session), report.Printable(shorten(e.Sentence, maxShownSentence)))
	}
}

const maxShownSentence = 120

// percentage returns n as a percentage of total, in parentheses after a space, or "" if total is 0.
func percentage(n, total int) string {
	if total == 0 {
		return ""
	}
	return fmt.Sprintf(" (%.1f%%)", 100*float64(n)/float64(total))
}
