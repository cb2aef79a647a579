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
		return errors.New("--picks, --detect and --until-halfwidth cannot be combined; give only one")
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
	const short = "Measure a lesson faster: pick the lesson at every match, and withhold more picks"
	c := &cobra.Command{
		Use: string(lesson.StartTrial) + " SLUG", Short: short, Args: argsValidator(cobra.ExactArgs(1)),
		Long: short + ". A running server applies the change within two seconds.\n\n" +
			"A pick: the chooser selects the lesson for a session, and a random decision injects or withholds the lesson. With --picks or --detect the trial is planned: it ends after this number of picks in sessions with a reward, with one evaluation. The planned interval is about 0.65 as wide as the interval that is valid at any time. Trial prints the cost before the start; on a terminal, --yes is required.",
	}
	c.Flags().Float64Var(&f.plan.Epsilon, "epsilon", 0.5, "share of picks to withhold")
	c.Flags().Float64Var(
		&f.plan.Until, "until-halfwidth", 0,
		"end the trial when the interval has this half-width: 0.03 is 3 points; 0: no automatic end",
	)
	c.Flags().Int64Var(
		&f.goal.Picks, "picks", 0, "end the trial after this number of rewarded picks, with one planned evaluation",
	)
	c.Flags().Float64Var(
		&f.goal.DetectableEffect, "detect", 0,
		"planned trial with enough picks to detect this effect: 0.05 is 5 points",
	)
	c.Flags().Float64Var(
		&f.goal.Power, "power", 0.8, "probability that --detect finds the effect",
	)
	c.Flags().StringVar(
		&f.goal.Outcome, "outcome", "",
		"planned trial on an outcome, measured in all closed sessions, instead of the reward: "+strings.Join(trial.OutcomeNames(), ", "),
	)
	c.Flags().StringVar(
		&f.tenant, "tenant", "default", "tenant with the measurements for the forecast",
	)
	c.Flags().BoolVar(
		&f.dryRun, "dry-run", false, "print a planned trial's cost and do not start the trial",
	)
	c.Flags().BoolVar(&f.yes, "yes", false, "start a planned trial on a terminal without a question")
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
			"precept: the store does not exist yet; the forecast assumes a lesson without measurements",
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
		return errors.New("the trial was not started; add --yes to start the trial")
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
