package main

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"precept/admin"
	"precept/bandit"
	"precept/bandit/report"
	"precept/bandit/trial"
	"precept/cmd/precept/server"
	"precept/configs"
	"precept/inject"
	"precept/inject/lesson"
	"precept/learn"
)

type trialFlags struct {
	plan        lesson.TrialPlan
	goal        report.Goal
	tenant      string
	dryRun, yes bool
	asJSON      bool
	force       bool
}

// isPlanned reports whether the trial ends with one planned evaluation.
func (f *trialFlags) isPlanned() bool { return f.goal.Picks != 0 || f.goal.DetectableEffect != 0 }

func (f *trialFlags) check(c *cobra.Command) error {
	isShare := func(x float64) bool { return x > 0 && x < 1 }
	switch {
	case !isShare(f.plan.Epsilon) || f.plan.Until != 0 && !isShare(f.plan.Until):
		return errors.New(
			"--epsilon and --until-halfwidth must be between 0 and 1; usual values are 0.5 and 0.03",
		)
	case f.goal.Picks < 0 || f.goal.DetectableEffect != 0 && !isShare(f.goal.DetectableEffect) || !isShare(f.goal.Power):
		return errors.New(
			"--picks must be a positive number such as 800; --detect and --power must be between 0 and 1; usual values are 0.05 and 0.8",
		)
	case f.isPlanned() && f.plan.Until != 0, f.goal.Picks != 0 && f.goal.DetectableEffect != 0:
		return errors.New("--picks, --detect and --until-halfwidth cannot be combined; give only one of them")
	case !f.isPlanned() && f.goal.Outcome != "":
		return errors.New("--outcome needs a planned trial; add --picks or --detect")
	case !f.isPlanned() && (f.dryRun || f.asJSON || c.Flags().Changed("power")):
		return errors.New(
			"--power, --dry-run and --json need a planned trial; add --picks or --detect",
		)
	}
	return nil
}

func (inv *invocation) lessonsTrialCommand() *cobra.Command {
	var f trialFlags
	const short = "Put a lesson on trial, to measure it faster"
	c := &cobra.Command{
		Use: string(lesson.StartTrial) + " SLUG", Short: short, Args: argsValidator(cobra.ExactArgs(1)),
		Long: short + ". A running server applies the change within two seconds.\n\n" +
			"During a trial, precept picks the lesson whenever it matches and a place is free, and then injects or " +
			"withholds it at random. With --picks or --detect, the trial is planned: it ends with one evaluation after " +
			"a fixed number of picks in sessions with a reward. The evaluation's interval is about 0.65 times as wide " +
			"as the usual interval, which is valid at any time. Before a planned trial starts, the command prints its " +
			"cost. On a terminal, a planned trial starts only with --yes.",
	}
	c.Flags().Float64Var(&f.plan.Epsilon, "epsilon", 0.5, "share of the picks that precept withholds")
	c.Flags().Float64Var(
		&f.plan.Until, "until-halfwidth", 0,
		"end the trial when the interval's half-width is this small: 0.03 is 3 percentage points; 0 sets no automatic end",
	)
	c.Flags().Int64Var(
		&f.goal.Picks, "picks", 0, "plan the trial: one evaluation after this number of picks in sessions with a reward",
	)
	c.Flags().Float64Var(
		&f.goal.DetectableEffect, "detect", 0,
		"plan the trial with enough picks to detect an effect of this size: 0.05 is 5 percentage points",
	)
	c.Flags().Float64Var(
		&f.goal.Power, "power", 0.8, "with --detect, the probability that the trial detects the effect",
	)
	c.Flags().StringVar(
		&f.goal.Outcome, "outcome", "",
		"measure this outcome in all closed sessions, instead of the reward (planned trials only): "+strings.Join(trial.OutcomeNames(), ", "),
	)
	c.Flags().StringVar(
		&f.tenant, "tenant", "default", "tenant whose sessions are used to estimate the cost",
	)
	c.Flags().BoolVar(
		&f.dryRun, "dry-run", false, "print a planned trial's cost without starting the trial",
	)
	c.Flags().BoolVar(&f.yes, "yes", false, "start a planned trial on a terminal; without --yes, the command only prints the cost")
	c.Flags().BoolVar(&f.force, "force", false, forceHelp)
	c.Flags().BoolVar(&f.asJSON, "json", false, "print a planned trial's cost as JSON")
	return inv.withConfig(c, append(storeKeys(), "lessons"), func(c *cobra.Command, cfg *configs.Config, args []string) error {
		if err := f.check(c); err != nil {
			return misuse(err)
		}
		if !f.isPlanned() {
			return inv.startTrial(c.Context(), cfg, args[0], &f)
		}
		return inv.planTrial(c.Context(), cfg, args[0], &f)
	})
}

// planTrial prints what a planned trial costs, and starts the trial. With --dry-run, and on a terminal without --yes,
// the trial is not started.
func (inv *invocation) planTrial(
	ctx context.Context, cfg *configs.Config, slug string, f *trialFlags,
) error {
	r, err := findReport(ctx, inv.stderr, inv.tools, cfg, &reportFlags{query: admin.ReportQuery{Tenant: f.tenant}})
	if err != nil && isStoreMissing(cfg) {
		if r, err = emptyReport(ctx, inv.tools, cfg); err != nil {
			return fmt.Errorf("the trial's cost is unknown: %w", err)
		}
		fmt.Fprintln(
			inv.stderr,
			"precept: the store does not exist yet, so the cost is estimated for a lesson without measurements",
		)
	}
	if err != nil {
		return fmt.Errorf("the trial's cost is unknown: %w", err)
	}
	f.goal.Epsilon = f.plan.Epsilon
	cost, err := r.Forecast(slug, f.goal)
	if err != nil {
		if errors.Is(err, report.ErrNoLesson) {
			return missingLessonError(slug)
		}
		return misuse(err)
	}
	f.plan.Picks, f.plan.Outcome = cost.Picks, cost.Outcome
	if err := f.plan.Validate(); err != nil {
		return misuse(err)
	}
	if f.asJSON {
		err = writeJSON(inv.stdout, cost)
	} else {
		for _, line := range cost.Text() {
			fmt.Fprintln(inv.stdout, line)
		}
	}
	if err != nil || f.dryRun {
		return err
	}
	if isTerminal(inv.stdout) && !f.yes {
		return errors.New("the trial was not started; to start it, add --yes")
	}
	return inv.startTrial(ctx, cfg, slug, f)
}

func (inv *invocation) startTrial(
	ctx context.Context, cfg *configs.Config, slug string, f *trialFlags,
) error {
	l, err := inv.applyAction(ctx, cfg, slug, lesson.StartTrial, f.plan, f.force)
	if err != nil || f.asJSON {
		return err
	}
	return printState(inv.stdout, l, false)
}

// emptyReport returns the report of a store without measurements.
func emptyReport(ctx context.Context, tools server.Tools, cfg *configs.Config) (report.Report, error) {
	book, _, err := readBook(ctx, tools, cfg)
	if err != nil {
		return report.Report{}, err
	}
	experiment := bandit.Config{Epsilon: cfg.Bandit.Epsilon}
	in := report.Input{
		Now: tools.Now(), Chooser: learn.ReportChooser(bandit.New(), experiment), Policy: learn.ReportPolicy(experiment),
	}
	for _, l := range book.Lessons() {
		shown := inject.Config{}.Present(l, book.Text(l), nil)
		in.Lessons = append(in.Lessons, report.Lesson{
			Slug: l.Slug, Arm: shown.Arm, State: string(l.State), Confidence: l.Confidence,
			Tokens: shown.Tokens,
		})
	}
	return report.Build(in), nil
}
