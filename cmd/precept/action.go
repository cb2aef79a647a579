package main

import (
	"context"
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"precept/bank"
	"precept/configs"
	"precept/lesson"
)

// actions are the verbs of lessons that change a lesson's state.
func (w *world) actions() []*cobra.Command {
	return []*cobra.Command{
		w.action(lesson.Approve, "Set a lesson in force, in the text that it has now"),
		w.action(lesson.Reject, "Refuse a lesson for good"),
		w.lessonsTrial(),
		w.action(lesson.Pause, "Take a lesson out of force until it is approved again"),
		w.action(lesson.Retire, "Take a lesson out of force for good; its numbers stay"),
	}
}

func (w *world) action(a lesson.Action, short string) *cobra.Command {
	var force bool
	c := &cobra.Command{Use: string(a) + " SLUG", Short: short, Args: arguments(cobra.ExactArgs(1))}
	c.Long = short + ". A running precept takes it into force within two seconds."
	if a == lesson.Approve {
		c.Flags().BoolVar(&force, "force", false, forceHelp)
	}
	return w.configured(c, bankKeys(), func(c *cobra.Command, cfg *configs.Config, args []string) error {
		l, err := w.change(c.Context(), cfg, args[0], a, lesson.TrialPlan{}, force)
		if err == nil {
			_, err = fmt.Fprintf(w.out, "%s is %s now\n", l.Slug, l.State)
		}
		return err
	})
}

const forceHelp = "whatever the checks say: you have read the lesson and want it in this text"

// change does something to a lesson for whoever is at the command line, and tells what the checks
// found.
func (w *world) change(ctx context.Context, cfg *configs.Config, slug string, a lesson.Action, plan lesson.TrialPlan, force bool) (*lesson.Lesson, error) {
	r, err := w.ChangeLesson(ctx, cfg, slug, lesson.Sight{}, a, plan, w.who(), force)
	printFindings(w.err, r.Findings)
	var refused *bank.Refused
	switch {
	case errors.Is(err, bank.ErrNoLesson):
		return nil, noLesson(slug)
	case errors.As(err, &refused):
		return nil, fmt.Errorf("%s stays as it is; correct it, or read it and say --force:\n%w", slug, err)
	}
	return r.Lesson, err
}
