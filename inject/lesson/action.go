package lesson

import (
	"errors"
	"fmt"
	"math"
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
	switch least := p.leastPicks(); {
	case p.Picks == 0:
	case p.Until != 0:
		return errors.New("a trial ends after a number of picks or at a half-width; ask for one of them")
	case p.Picks < least || p.Picks > maxPicks:
		return fmt.Errorf("a planned trial has %d picks; it takes %d to %d at this epsilon", p.Picks, least, maxPicks)
	}
	return nil
}

// maxPicks bounds a planned trial: each of its picks is kept until the last.
const maxPicks = 100_000

// leastPicks is how few picks a planned trial may have: fewer, or fewer than twenty on the rarer
// side of the coin, and the interval of its one look would not mean what it says.
func (p TrialPlan) leastPicks() int64 {
	const least, side = 50, 20
	rare := 0.5
	if p.Epsilon > 0 && p.Epsilon < 1 {
		rare = math.Min(p.Epsilon, 1-p.Epsilon)
	}
	return max(least, int64(math.Ceil(side/rare)))
}

// Sight is what somebody saw of a lesson before acting on it. The zero Sight fits any.
type Sight struct {
	Hash  string // its ContentHash
	State State
}

// Check refuses to act on a lesson that is no longer as it was seen: nobody approves a text unread,
// and of two people who decide at once the first one's decision holds.
func (s Sight) Check(l *Lesson) error {
	switch {
	case s.State != "" && s.State != l.State:
		return fmt.Errorf("it was %s when you looked, and is %s now; look again", s.State, l.State)
	case s.Hash != "" && s.Hash != l.ContentHash:
		return errors.New("its text has changed since you looked; read it again")
	}
	return nil
}

// Act makes the lesson that an action leaves; l stays as it is. Setting it in force approves the
// text that it has now.
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
