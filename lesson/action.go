package lesson

import (
	"errors"
	"fmt"
	"slices"
	"time"
)

// Action is what an operator does to a lesson.
type Action string

// The actions.
const (
	Approve    Action = "approve" // in force, in this text
	Reject     Action = "reject"  // never to be in force
	StartTrial Action = "trial"   // in force, and measured as fast as may be
	Pause      Action = "pause"   // out of force until it is approved again
	Retire     Action = "retire"  // out of force for good; its numbers stay
)

// Actions are all of them.
func Actions() []Action { return []Action{Approve, Reject, StartTrial, Pause, Retire} }

// Valid says whether it is one of them.
func (a Action) Valid() bool { return slices.Contains(Actions(), a) }

// Validate refuses a plan that is none.
func (p TrialPlan) Validate() error {
	ok := func(x float64) bool { return x == 0 || (x > 0 && x < 1) }
	if !ok(p.Epsilon) || !ok(p.Until) {
		return errors.New("the epsilon and the half-width of a trial lie between 0 and 1; 0.5 and 0.03 are usual")
	}
	return nil
}

// Act makes the lesson that an action leaves; l stays as it is. Setting it in force approves the text that it has now.
func Act(l *Lesson, a Action, plan TrialPlan, by string, at time.Time) (*Lesson, error) {
	if err := plan.Validate(); err != nil {
		return nil, err
	}
	if (a == Approve || a == StartTrial) && l.ExpiredAt(at) {
		return nil, fmt.Errorf("%s expired at %s; move expires_at first", l.Slug, l.ExpiresAt.Format(time.RFC3339))
	}
	return Edit(l, func(l *Lesson) {
		l.Plan = TrialPlan{}
		switch a {
		case Approve:
			l.State = Active
		case StartTrial:
			l.State, l.Plan = Trial, plan
		case Reject:
			l.State = Rejected
		case Pause:
			l.State = Quarantined
		case Retire:
			l.State = Archived
		}
		if l.State.Fires() {
			l.Approval.ContentHash, l.Approval.By, l.Approval.At = l.Hash(), by, at.UTC()
		}
	})
}
