package distill

import (
	"context"
	"errors"
	"slices"
	"strings"

	"precept/inject/bank"
	"precept/inject/lesson"
	"precept/internal/session"
)

// AutoGate is the actor in the audit log when distill.gate is auto and a quarantined lesson's trial starts without an
// operator.
const AutoGate = "gate: auto"

// autoPlan returns the plan for an automatic trial. A pick is a session for which the lesson was selected. The trial
// withholds the lesson in half of the picks. It is evaluated once, after 400 picks with a reward.
func autoPlan() lesson.TrialPlan { return lesson.TrialPlan{Epsilon: 0.5, Picks: 400} }

// Waiting is a lesson that the automatic gate leaves to an operator.
type Waiting struct {
	Slug   string `json:"slug"`
	Reason string `json:"reason"`
}

// admitToTrial starts a quarantined lesson's trial if the gate is automatic and reasonForOperator finds no reason
// against the trial. It never changes an operator's decision. refs are the sessions that support the lesson.
func (w *tenantDistiller) admitToTrial(ctx context.Context, d *Draft, l *lesson.Lesson, refs []Ref) (*lesson.Lesson, error) {
	if !w.Distiller.o.Auto || l.State != lesson.Quarantined || l.Approval.Source != lessonSource || !l.Approval.At.IsZero() {
		return l, nil
	}
	w.putInBook(l)
	why, err := w.reasonForOperator(ctx, d, l, refs)
	if err != nil {
		return l, err
	}
	if why != "" {
		w.summary.addWaiting(l.Slug, why)
		return l, nil
	}
	res, err := w.Distiller.o.Bank.Act(ctx, l.Slug, bank.Decision{Action: lesson.StartTrial, Plan: autoPlan(), By: AutoGate})
	var refused *bank.Refused
	switch {
	case errors.As(err, &refused):
		w.summary.addWaiting(l.Slug, "the bank's checks refuse the trial")
		return l, nil
	case errors.Is(err, bank.ErrNoLesson):
		return l, nil
	case err != nil:
		return l, err
	}
	w.summary.removeWaiting(l.Slug)
	return res.Lesson, nil
}

// reasonForOperator returns why an operator must decide on a lesson, or "" if none needs to.
//
// Hazard: an attacker's text in a tool's output could convince the judge, and the advice would reach other agents.
// Therefore two independent sessions with different credentials must support the lesson, and the advice must have no
// risk (risk.go). The agent or the user must have used the advice's words before any tool output contained them
// (origin.go).
func (w *tenantDistiller) reasonForOperator(ctx context.Context, d *Draft, l *lesson.Lesson, refs []Ref) (string, error) {
	if len(lesson.Checker{Now: w.Distiller.o.Now()}.CheckLesson(l, w.book)) > 0 {
		return "the lesson checks have findings (see `precept lessons lint`)", nil
	}
	if why := riskReason(l.Title + "\n" + l.Advice); why != "" {
		return why, nil
	}
	byRules := w.Distiller.o.Judge == nil && withoutQuotations(d.Title+"\n"+d.adviceList()) == withoutQuotations(l.Title+"\n"+l.Advice)
	if byRules && slices.ContainsFunc(quotationsIn(l.Title+"\n"+l.Advice), givesOrders) {
		return "the advice quotes a tool's output that gives orders", nil
	}
	words := []string{l.Title, l.Advice}
	if byRules && w.orgWords { // even outside the quotations, the advice may name a program that an attacker's error demands
		words = []string{withoutQuotations(l.Title), withoutQuotations(l.Advice)}
	}
	var stored []Ref // sightings whose sessions are stored
	for _, r := range refs {
		id, ok := session.ParseID(r.Session)
		if !ok {
			continue
		}
		s := &Session{ID: r.Session}
		var err error
		if s.Content.Exchanges, err = w.Distiller.o.Source.Exchanges(ctx, w.tenant, id); err != nil {
			return "", err
		}
		if len(s.Content.Exchanges) == 0 {
			continue
		}
		if (!byRules || w.orgWords) && isDictated(words, s) {
			return "the advice repeats words from a tool's output", nil
		}
		stored = append(stored, r)
	}
	if !hasIndependentPair(stored) {
		return "the lesson is not yet supported by two independent sessions with different credentials", nil
	}
	return "", nil
}

// repeatsAdvice reports whether the draft has most words of the lesson's title and advice. Without this condition, one
// caller could write the advice, and a second caller's honest session with different advice would start the trial.
func (d *Draft) repeatsAdvice(l *lesson.Lesson) bool {
	theirs := readSentence(lesson.NormalizeLookalikes(l.Title + "\n" + l.Advice)).wordKeys
	ours := readSentence(lesson.NormalizeLookalikes(d.Title + "\n" + d.adviceList())).wordKeys
	both := 0
	for key := range theirs {
		if ours[key] {
			both++
		}
	}
	return 2*both > len(theirs) || len(theirs) == 0
}

func hasIndependentPair(refs []Ref) bool {
	for i, a := range refs {
		if slices.ContainsFunc(refs[i+1:], a.independentOf) {
			return true
		}
	}
	return false
}

// withoutQuotations removes the quotations from a lesson's text, because a later version of the lesson may quote more
// errors.
func withoutQuotations(text string) string {
	return strings.TrimSpace(quotations().ReplaceAllString(text, "“”"))
}

// quotationsIn returns the texts in quotation marks. In a lesson that the rules wrote, only these texts come from a
// tool's output.
func quotationsIn(text string) (out []string) {
	for {
		_, rest, found := strings.Cut(text, "“")
		quote, after, closed := strings.Cut(rest, "”")
		if !found {
			return out
		}
		out = append(out, quote)
		if !closed {
			return out
		}
		text = after
	}
}

// givesOrders reports whether a text has words such as "always" or "must". Phrases such as "must be" only describe a
// value.
func givesOrders(text string) bool {
	text = lesson.NormalizeLookalikes(text)
	for _, describes := range []string{"must be", "must have", "must not be", "must contain", "must match", "should be", "should have", "should match", "required"} {
		text = strings.ReplaceAll(text, describes, "")
	}
	return slices.ContainsFunc(contentWords(text), func(w contentWord) bool { return w.isOrder })
}
