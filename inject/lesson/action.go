package lesson

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"precept/bandit/trial"
)

// Action is an operator's decision about a lesson.
type Action string

// The actions.
const (
	Approve    Action = "approve" // activate the current text
	Reject     Action = "reject"  // keep inactive
	StartTrial Action = "trial"   // activate and measure; by default, withhold in half of the sessions that pick the lesson
	Pause      Action = "pause"   // deactivate until a resume
	Resume     Action = "resume"  // undo a pause
	Retire     Action = "retire"  // deactivate and archive; measured results stay
	Restore    Action = "restore" // undo Retire
)

// Valid reports whether a is one of the actions.
func (a Action) Valid() bool {
	return slices.Contains([]Action{Approve, Reject, StartTrial, Pause, Resume, Retire, Restore}, a)
}

// Inverse returns the action that undoes a, or "" if no single action does.
func (a Action) Inverse() Action {
	switch a {
	case Pause:
		return Resume
	case Retire:
		return Restore
	default:
		return ""
	}
}

// Validate returns an error for an invalid plan.
func (p TrialPlan) Validate() error {
	isUnsetOrFraction := func(x float64) bool { return x == 0 || (x > 0 && x < 1) }
	if !isUnsetOrFraction(p.Epsilon) || !isUnsetOrFraction(p.Until) {
		return errors.New("a trial's epsilon and half-width must be between 0 and 1; 0.5 and 0.03 are usual")
	}
	if _, ok := trial.ParseOutcome(p.Outcome); !ok && p.Outcome != "" {
		return fmt.Errorf("%q is not an outcome; choose one of %s", p.Outcome, strings.Join(trial.OutcomeNames(), ", "))
	}
	switch minPicks := trial.MinTrialPicks(p.Epsilon); {
	case p.Picks == 0 && p.Outcome != "":
		return errors.New("a trial on an outcome must be planned; set the number of picks, or the effect to detect")
	case p.Picks == 0:
	case p.Until != 0:
		return errors.New("a trial ends after a number of picks or at a half-width; set only one of the two")
	case minPicks > maxPicks:
		return fmt.Errorf("a planned trial with the epsilon %v needs %d picks, more than the %d allowed; choose an epsilon closer to 0.5", p.Epsilon, minPicks, maxPicks)
	case p.Picks < minPicks || p.Picks > maxPicks:
		return fmt.Errorf("a planned trial cannot have %d picks; write %d to %d picks at this epsilon", p.Picks, minPicks, maxPicks)
	}
	return nil
}

// maxPicks is the maximum number of picks (sessions for which the lesson is chosen) in a planned trial. A limit is
// needed because the store keeps every pick.
const maxPicks = 100_000

// SeenVersion is the lesson version that an operator saw before a decision. The zero value matches every version.
type SeenVersion struct {
	Hash  string // the version's ContentHash
	State State
}

// Check returns an error if the lesson differs from the version that the operator saw. So nobody can approve an unseen
// text, and the second of two simultaneous decisions is refused.
func (s SeenVersion) Check(l *Lesson) error {
	switch {
	case s.State != "" && s.State != l.State:
		return fmt.Errorf("the state has changed from %s to %s since you read the lesson; read the lesson again", s.State, l.State)
	case s.Hash != "" && s.Hash != l.ContentHash:
		return errors.New("the text has changed since you read the lesson; read the lesson again")
	}
	return nil
}

// ApplyAction returns a copy of the lesson after an action by actor at now. Only StartTrial uses plan. Approve and
// StartTrial approve the current text. Resume and Restore undo Pause and Retire.
func ApplyAction(l *Lesson, a Action, plan TrialPlan, actor string, now time.Time) (*Lesson, error) {
	if err := plan.Validate(); err != nil {
		return nil, err
	}
	if (a == Approve || a == StartTrial) && l.ExpiredAt(now) {
		return nil, fmt.Errorf("%s expired at %s; set a later expires_at first", l.Slug, l.ExpiresAt.Format(time.RFC3339))
	}
	if plan.Outcome == trial.Recurrence.String() && !l.IsAboutError() {
		return nil, fmt.Errorf("%s names no error that the lesson should prevent, so the outcome recurrence cannot be measured; add metadata.precept.prevents, or choose another outcome", l.Slug)
	}
	switch {
	case a == Resume && l.State != Paused:
		return nil, fmt.Errorf("%s is %s, and only a paused lesson can be resumed", l.Slug, l.State)
	case a == Pause && l.State == Archived:
		return nil, fmt.Errorf("%s is archived; restore the lesson first", l.Slug)
	case a == Restore && l.State != Archived:
		return nil, fmt.Errorf("%s is %s, and only an archived lesson can be restored", l.Slug, l.State)
	}
	return Edit(l, func(l *Lesson) {
		if a != Retire && a != Restore {
			l.StateBeforePause = ""
		}
		switch a {
		case Approve:
			l.State, l.FormerState, l.Plan = Active, "", TrialPlan{}
		case StartTrial:
			l.State, l.FormerState, l.Plan = Trial, "", plan
			if plan.Picks > 0 {
				l.Plan.Started = now.UTC().Truncate(time.Second)
			}
		case Reject:
			l.State, l.FormerState, l.Plan = Rejected, "", TrialPlan{}
		case Pause:
			l.deactivate(Paused)
		case Retire:
			l.deactivate(Archived)
		case Restore:
			l.restore()
		case Resume:
			l.resume()
		}
		if l.State.IsActive() && (a == Approve || a == StartTrial) {
			l.Approval.ContentHash, l.Approval.By, l.Approval.At = l.Hash(), actor, now.UTC()
		}
	})
}

// deactivate sets an inactive state, and keeps the previous state for resume and restore. If a paused lesson is
// retired, it keeps both previous states.
func (l *Lesson) deactivate(state State) {
	if l.State == state {
		return
	}
	if l.State == Paused {
		l.StateBeforePause = l.FormerState
	}
	l.FormerState, l.State = l.State, state
}

// restore undoes a retirement. A file from an earlier release may not name the previous state; restore then pauses the
// lesson.
func (l *Lesson) restore() {
	switch {
	case l.FormerState == Paused:
		l.State, l.FormerState = Paused, l.StateBeforePause
	case l.FormerState == "" && l.Plan != (TrialPlan{}):
		l.State, l.FormerState = Paused, Trial
	case l.FormerState == "":
		l.State = Paused
	default:
		l.State, l.FormerState = l.stateIfApproved(l.FormerState), ""
	}
	l.StateBeforePause = ""
}

// resume undoes a pause. If the file does not name the previous state, the lesson is quarantined. The lesson may have
// been a caution (an approach to avoid) or benched (expected to do harm), so it must not come back as plain advice.
func (l *Lesson) resume() {
	switch {
	case l.FormerState == "" && l.Plan != (TrialPlan{}):
		l.State = l.stateIfApproved(Trial)
	case l.FormerState == "":
		// Texts.parse reads a quarantined lesson with an approved hash as paused, so remove the hash.
		l.State, l.Approval.ContentHash = Quarantined, ""
	default:
		l.State = l.stateIfApproved(l.FormerState)
	}
	l.FormerState = ""
}

// stateIfApproved returns s, or Quarantined if s needs an approval that the current text does not have.
func (l *Lesson) stateIfApproved(s State) State {
	isApproved := l.Approval.ContentHash == l.ContentHash
	isHandWritten := l.Approval.ContentHash == "" && l.Approval.Source == "" // needs no approval
	if s.IsActive() && (!isApproved && !isHandWritten || l.needsReview()) {
		return Quarantined
	}
	return s
}
