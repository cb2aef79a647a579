package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"precept/admin"
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
	c := &cobra.Command{Use: string(a) + " SLUG", Short: short, Args: arguments(cobra.ExactArgs(1))}
	c.Long = short + ". A running precept takes it into force within two seconds."
	flags := addConfigFlags(c, "lessons", "store.url")
	if a == lesson.StartTrial {
		c.Flags().Float64Var(&plan.Epsilon, "epsilon", 0.5, "the share of its picks that is withheld")
		c.Flags().Float64Var(&plan.Until, "until-halfwidth", 0, "end the trial when the interval is that narrow: 0.03 is 3 points; 0: when another verb ends it")
	}
	c.RunE = func(c *cobra.Command, args []string) error {
		if err := plan.Validate(); err != nil || (a == lesson.StartTrial && plan.Epsilon == 0) {
			return misuse(errors.New("--epsilon and --until-halfwidth lie between 0 and 1; 0.5 and 0.03 are usual"))
		}
		cfg, err := flags.load(w, true)
		if err != nil {
			return err
		}
		by := os.Getenv("USER")
		if by == "" {
			by = "operator"
		}
		l, err := w.act(c.Context(), cfg, args[0], a, plan, by)
		if errors.Is(err, admin.ErrNoLesson) {
			return fmt.Errorf("there is no lesson %q; precept lessons list tells which there are", args[0])
		}
		if err != nil {
			return err
		}
		_, err = fmt.Fprintf(w.out, "%s is %s now\n", l.Slug, l.State)
		return err
	}
	return c
}

// act changes a lesson where it is kept: in a directory, or in the Redis of a fleet.
func (w *world) act(ctx context.Context, cfg *configs.Config, slug string, a lesson.Action, plan lesson.TrialPlan, by string) (*lesson.Lesson, error) {
	bank, err := w.openBank(cfg, func(string) {})
	if err != nil {
		return nil, err
	}
	if bank == nil {
		return w.actInDirectory(cfg.Lessons, slug, a, plan, by)
	}
	defer bank.Close() //nolint:errcheck // what was put is put
	ctx, cancel := context.WithTimeout(ctx, bankLimit)
	defer cancel()
	texts, _, err := bank.Texts(ctx)
	if err != nil {
		return nil, err
	}
	for name, text := range texts {
		old, err := lesson.Parse(name, text)
		if err != nil || old.Slug != slug {
			continue
		}
		l, err := lesson.Act(old, a, plan, by, w.now())
		if err != nil {
			return nil, err
		}
		return l, bank.Put(ctx, name, l.Raw)
	}
	return nil, admin.ErrNoLesson
}

func (w *world) actInDirectory(dir, slug string, a lesson.Action, plan lesson.TrialPlan, by string) (*lesson.Lesson, error) {
	book, _, err := lesson.Load(dir)
	if err != nil {
		return nil, err
	}
	old, ok := book.Get(slug)
	if !ok {
		return nil, admin.ErrNoLesson
	}
	l, err := lesson.Act(old, a, plan, by, w.now())
	if err != nil {
		return nil, err
	}
	path, err := filepath.EvalSymlinks(old.Path) // the file that is read, not a link to it
	if err != nil {
		return nil, err
	}
	if err := lesson.WriteFile(path, l.Raw); err != nil {
		return nil, err
	}
	event := lesson.Event{Time: w.now().UTC(), Action: string(a), Slug: slug, By: by, Hash: l.ContentHash}
	if plan != (lesson.TrialPlan{}) {
		event.Detail = map[string]any{"epsilon": plan.Epsilon, "until_halfwidth": plan.Until}
	}
	err = lesson.AppendLog(dir, event)
	if book, _, lerr := lesson.Load(dir); lerr == nil {
		err = errors.Join(err, lesson.WriteIndex(dir, book, nil))
	}
	if err != nil {
		err = fmt.Errorf("%s is %s now, but this could not be noted beside it: %w", slug, l.State, err)
	}
	return l, err
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
	return k.act(ctx, k.cfg, slug, a, plan, by)
}
