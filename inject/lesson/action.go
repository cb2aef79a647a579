package lesson

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"precept/bandit/trial"
)

// Action is an operator's decision about a lesson.
type Action string

// The actions.
const (
	Approve    Action = "approve" // active, in this text
	Reject     Action = "reject"  // never active
	StartTrial Action = "trial"   // active, and measured with an even split
	Pause      Action = "pause"   // inactive until approved again
	Retire     Action = "retire"  // inactive permanently; the counts stay
)

// Actions returns all actions.
func Actions() []Action { return []Action{Approve, Reject, StartTrial, Pause, Retire} }

// Valid reports whether a is one of the actions.
func (a Action) Valid() bool { return slices.Contains(Actions(), a) }

// Validate returns an error for an invalid plan.
func (p TrialPlan) Validate() error {
	ok := func(x float64) bool { return x == 0 || (x > 0 && x < 1) }
	if !ok(p.Epsilon) || !ok(p.Until) {
		return errors.New("the epsilon and the half-width of a trial lie between 0 and 1; 0.5 and 0.03 are usual")
	}
	if _, ok := trial.ParseOutcome(p.Outcome); !ok && p.Outcome != "" {
		return fmt.Errorf("%q is not an outcome; choose one of %s", p.Outcome, strings.Join(trial.OutcomeNames(), ", "))
	}
	switch least := p.leastPicks(); {
	case p.Picks == 0 && p.Outcome != "":
		return errors.New("a trial on an outcome is planned; ask for a number of picks, or for an effect to detect")
	case p.Picks == 0:
	case p.Until != 0:
		return errors.New("a trial ends after a number of picks or at a half-width; ask for one of them")
	case p.Picks < least || p.Picks > maxPicks:
		return fmt.Errorf("a planned trial has %d picks; it takes %d to %d at this epsilon", p.Picks, least, maxPicks)
	}
	return nil
}

// maxPicks is the maximum of a planned trial, whose picks are all stored.
const maxPicks = 100_000

// leastPicks returns the minimum number of picks of a planned trial. With fewer, or with fewer than
// twenty on the rarer side of the coin, the interval of the evaluation would be invalid.
func (p TrialPlan) leastPicks() int64 {
	const least, side = 50, 20
	rare := 0.5
	if p.Epsilon > 0 && p.Epsilon < 1 {
		rare = math.Min(p.Epsilon, 1-p.Epsilon)
	}
	return max(least, int64(math.Ceil(side/rare)))
}

// Sight is the version of a lesson that a person saw before acting. The zero Sight matches any
// version.
type Sight struct {
	Hash  string // ContentHash of the version
	State State
}

// Check returns an error if the lesson differs from the seen version: no text is approved unread,
// and of two simultaneous decisions the first is carried out.
func (s Sight) Check(l *Lesson) error {
	switch {
	case s.State != "" && s.State != l.State:
		return fmt.Errorf("the state has changed from %s to %s since you read the lesson; read the lesson again", s.State, l.State)
	case s.Hash != "" && s.Hash != l.ContentHash:
		return errors.New("the text has changed since you read the lesson; read the lesson again")
	}
	return nil
}

// Act returns the lesson after an action; l does not change. Activation approves the present text.
func Act(l *Lesson, a Action, plan TrialPlan, by string, at time.Time) (*Lesson, error) {
	if err := plan.Validate(); err != nil {
		return nil, err
	}
	if (a == Approve || a == StartTrial) && l.ExpiredAt(at) {
		return nil, fmt.Errorf("%s expired at %s; move expires_at first", l.Slug, l.ExpiresAt.Format(time.RFC3339))
	}
	if plan.Outcome == trial.Recurrence.String() && !l.AboutError() {
		return nil, fmt.Errorf("%s names no error, so its recurrence cannot be measured; add metadata.precept.prevents, or choose another outcome", l.Slug)
	}
	return Edit(l, func(l *Lesson) {
		l.Plan = TrialPlan{}
		switch a {
		case Approve:
			l.State = Active
		case StartTrial:
			if l.State, l.Plan = Trial, plan; plan.Picks > 0 {
				l.Plan.Started = at.UTC().Truncate(time.Second)
			}
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
