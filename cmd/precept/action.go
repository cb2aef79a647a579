package main

import (
	"context"
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"precept/cmd/precept/server"
	"precept/configs"
	"precept/inject/bank"
	"precept/inject/lesson"
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

// standing is the answer of a verb that changes a lesson.
type standing struct {
	Slug        string       `json:"slug"`
	State       lesson.State `json:"state"`
	ContentHash string       `json:"content_hash"`
	Path        string       `json:"path"`
}

// stands tells in which state a lesson is now.
func (w *world) stands(l *lesson.Lesson, asJSON bool) error {
	return w.reply(
		asJSON, standing{l.Slug, l.State, l.ContentHash, l.Path}, "%s is %s now", l.Slug, l.State,
	)
}

func (w *world) action(a lesson.Action, short string) *cobra.Command {
	var asJSON, force bool
	c := &cobra.Command{Use: string(a) + " SLUG", Short: short, Args: arguments(cobra.ExactArgs(1))}
	c.Long = short + ". A running precept takes it into force within two seconds."
	addJSON(c, &asJSON)
	if a == lesson.Approve {
		c.Flags().BoolVar(&force, "force", false, forceHelp)
	}
	return w.configured(c, bankKeys(), func(c *cobra.Command, cfg *configs.Config, args []string) error {
		l, err := w.change(c.Context(), cfg, args[0], a, lesson.TrialPlan{}, force)
		if err != nil {
			return err
		}
		return w.stands(l, asJSON)
	})
}

const forceHelp = "whatever the checks say: you have read the lesson and want it in this text"

// change does something to a lesson for whoever is at the command line, and tells what the checks
// found.
func (w *world) change(
	ctx context.Context, cfg *configs.Config, slug string, a lesson.Action, plan lesson.TrialPlan,
	force bool,
) (*lesson.Lesson, error) {
	b, closeBank, err := w.OpenWriter(cfg)
	if err != nil {
		return nil, err
	}
	defer closeBank()
	ctx, cancel := context.WithTimeout(ctx, server.BankLimit)
	defer cancel()
	r, err := b.Act(ctx, slug, bank.Decision{Action: a, Plan: plan, By: w.who(), Force: force})
	printFindings(w.err, r.Findings)
	var refused *bank.Refused
	switch {
	case errors.Is(err, bank.ErrNoLesson):
		return nil, noLesson(slug)
	case errors.As(err, &refused):
		return nil, fmt.Errorf(
			"%s stays as it is; correct it, or read it and say --force:\n%w", slug, err,
		)
	}
	return r.Lesson, err
}
