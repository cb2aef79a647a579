package proxy

import (
	"context"
	"errors"
	"slices"
	"strconv"

	"precept/inject/bank"
	"precept/inject/lesson"
	"precept/inject/writ"
	"precept/internal/label"
	"precept/internal/session"
)

// maxListed is the number of lessons that an answer lists.
const maxListed = 20

// execute executes one command of the agent, and returns the answer for the agent. A command may do
// what /v1/lessons allows.
func (n ownLessons) execute(ctx context.Context, c writ.Command, from session.ID) (answer, result string) {
	if c.Fault != "" {
		return writ.Answer(c.Verb, false, c.Fault+"."), "refused"
	}
	said, lines, err := n.command(ctx, c, from)
	if err != nil {
		said, result = n.explain(err)
		return writ.Answer(c.Verb, false, said), result
	}
	return writ.Answer(c.Verb, true, said, lines...), "done"
}

func (n ownLessons) command(ctx context.Context, c writ.Command, from session.ID) (said string, lines []string, err error) {
	switch c.Verb {
	case writ.List, writ.Search:
		return n.listed(ctx, c.Words)
	case writ.Delete:
		return "deleted lesson #" + lesson.Line(c.ID) + ".", nil, n.withdraw(ctx, c.ID)
	case writ.Create:
	}
	said, err = n.record(ctx, c, from)
	return said, nil, err
}

// record writes a lesson. Equal text under an equal signature writes no second lesson; other text
// under an equal signature replaces the lesson.
func (n ownLessons) record(ctx context.Context, c writ.Command, from session.ID) (string, error) {
	base, done := blank(from.String()), "recorded"
	_, old, err := n.known(ctx, bank.Slug(c.Signature, n.scope))
	if err != nil && !errors.Is(err, errNoLesson) {
		return "", err
	}
	if old != nil {
		if lessonText(old) == c.Text {
			return "lesson #" + old.Slug + " says so already.", nil
		}
		base, done = old.Clone(), "rewrote"
	}
	l, err := (&written{Signature: &c.Signature, LessonText: &c.Text}).onto(base)
	if err != nil {
		return "", err
	}
	p := n.proposal(l)
	p.Source = "writ"
	if l, err = n.write(ctx, p, old); err != nil {
		return "", err
	}
	if l.State == lesson.Quarantined {
		return done + " lesson #" + l.Slug + "; it is in force when a person has approved it.", nil
	}
	return done + " lesson #" + l.Slug + "; it is in force for you.", nil
}

// listed returns the lessons of the agent. A lesson that no person approved is listed by its name
// alone: another session of the agent wrote the lesson, and its text may contain anything.
func (n ownLessons) listed(ctx context.Context, words string) (said string, lines []string, err error) {
	all, err := n.all(ctx, words)
	if err != nil {
		return "", nil, err
	}
	for i := range all[:min(len(all), maxListed)] {
		v := &all[i]
		line := "#" + v.ID + " (" + string(v.State) + ")"
		if slices.Contains([]lesson.State{lesson.Active, lesson.Trial, lesson.Caution}, v.State) {
			line += " " + lesson.Line(v.Signature)
		}
		lines = append(lines, line)
	}
	said = strconv.Itoa(len(all)) + " lessons"
	if len(all) == 1 {
		said = "1 lesson"
	}
	if len(all) > maxListed {
		said += ", the last 20 that were consulted"
	}
	if len(all) == 0 {
		return said + ".", nil, nil
	}
	return said + ":", lines, nil
}

// explain returns why a command failed, in words for the agent.
func (n ownLessons) explain(err error) (said, result string) {
	if r, ok := errors.AsType[*bank.Refused](err); ok {
		return lesson.Line(r.Error()) + ".", "refused"
	}
	switch {
	case errors.Is(err, errNoLesson), errors.Is(err, bank.ErrNoLesson):
		return "there is no such lesson; /lesson list tells those that there are.", "refused"
	case errors.Is(err, bank.ErrTooMany):
		return "you have written down too many lessons for now; delete some, or wait until they are looked at.", "refused"
	}
	n.shared.opts.Metrics.FailedOpen(label.StepWrit)
	n.log.Warn("a lesson of an agent could not be written; it was told to try again", "error", err)
	return "the lessons cannot be written just now; try again later.", "failed"
}
