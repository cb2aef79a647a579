package main

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"precept/admin"
	"precept/bank"
	"precept/configs"
	"precept/lesson"
)

// actions are the verbs of lessons that change a lesson's state.
func (w *world) actions() []*cobra.Command {
	return []*cobra.Command{
		w.action(lesson.Approve, "Set a lesson in force, in the text that it has now"),
		w.action(lesson.Reject, "Refuse a lesson for good"),
		w.action(lesson.StartTrial, "Measure a lesson as fast as may be: more of its picks are withheld, and it is picked whenever it matches"),
		w.action(lesson.Pause, "Take a lesson out of force until it is approved again"),
		w.action(lesson.Retire, "Take a lesson out of force for good; its numbers stay"),
	}
}

func (w *world) action(a lesson.Action, short string) *cobra.Command {
	var plan lesson.TrialPlan
	var force bool
	c := &cobra.Command{Use: string(a) + " SLUG", Short: short, Args: arguments(cobra.ExactArgs(1))}
	c.Long = short + ". A running precept takes it into force within two seconds."
	flags := addConfigFlags(c, "lessons", "store.url")
	if a == lesson.StartTrial {
		c.Flags().Float64Var(&plan.Epsilon, "epsilon", 0.5, "the share of its picks that is withheld")
		c.Flags().Float64Var(&plan.Until, "until-halfwidth", 0, "end the trial when the interval is that narrow: 0.03 is 3 points; 0: when another verb ends it")
	}
	if a == lesson.StartTrial || a == lesson.Approve {
		c.Flags().BoolVar(&force, "force", false, "whatever the checks say: you have read the lesson and want it in this text")
	}
	c.RunE = func(c *cobra.Command, args []string) error {
		if err := plan.Validate(); err != nil || (a == lesson.StartTrial && plan.Epsilon == 0) {
			return misuse(errors.New("--epsilon and --until-halfwidth lie between 0 and 1; 0.5 and 0.03 are usual"))
		}
		cfg, err := flags.load(w, true)
		if err != nil {
			return err
		}
		r, err := w.act(c.Context(), cfg, args[0], a, plan, w.who(), force)
		for _, f := range r.Findings {
			fmt.Fprintln(w.err, printable(f.String()))
		}
		var refused *bank.Refused
		switch {
		case errors.Is(err, bank.ErrNoLesson):
			return noLesson(args[0])
		case errors.As(err, &refused):
			return fmt.Errorf("%s stays as it is; correct it, or read it and say --force:\n%w", args[0], err)
		case err != nil:
			return err
		}
		_, err = fmt.Fprintf(w.out, "%s is %s now\n", r.Lesson.Slug, r.Lesson.State)
		return err
	}
	return c
}

// act changes a lesson where it is kept: in a directory, or in the Redis of a fleet.
func (w *world) act(ctx context.Context, cfg *configs.Config, slug string, a lesson.Action, plan lesson.TrialPlan, by string, force bool) (bank.Result, error) {
	b, closeBank, err := w.openWriter(cfg)
	if err != nil {
		return bank.Result{}, err
	}
	defer closeBank()
	ctx, cancel := context.WithTimeout(ctx, bankLimit)
	defer cancel()
	return b.Act(ctx, slug, a, plan, by, force)
}

// keeper is the admin face's way to the lessons. Where they are kept does not change while precept runs.
type keeper struct {
	*world
	cfg *configs.Config
}

// Act implements admin.Keeper.
func (k keeper) Act(ctx context.Context, slug string, a lesson.Action, plan lesson.TrialPlan, by string) (*lesson.Lesson, error) {
	if strings.ContainsAny(slug, "/\\") {
		return nil, admin.ErrNoLesson
	}
	r, err := k.act(ctx, k.cfg, slug, a, plan, by, false)
	if errors.Is(err, bank.ErrNoLesson) {
		err = admin.ErrNoLesson
	}
	return r.Lesson, err
}
