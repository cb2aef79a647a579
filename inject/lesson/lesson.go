package lesson

import (
	"slices"
	"time"

	"precept/bandit/trial"
	"precept/detect"
)

// State is a lesson's state.
type State string

// States.
const (
	Candidate   State = "candidate"   // a draft
	Quarantined State = "quarantined" // waits for an approval
	Trial       State = "trial"       // active; the effect is measured
	Active      State = "active"
	Caution     State = "caution"    // shown as an approach to avoid
	Benched     State = "benched"    // expected to do harm, so shown rarely
	Paused      State = "paused"     // until an operator resumes it
	Superseded  State = "superseded" // an active lesson supersedes it
	Expired     State = "expired"    // ExpiresAt has passed
	Archived    State = "archived"   // retired by an operator
	Rejected    State = "rejected"   // refused by an operator
)

// Valid reports whether s is one of the states.
func (s State) Valid() bool {
	return s.IsActive() || slices.Contains([]State{Candidate, Quarantined, Paused, Superseded, Expired, Archived, Rejected}, s)
}

// IsActive reports whether a lesson in this state can match. A benched lesson (expected to do harm) can match, because
// precept still measures the effect in a few sessions.
func (s State) IsActive() bool { return slices.Contains([]State{Trial, Active, Caution, Benched}, s) }

// Form is the file format that a lesson was read from.
type Form string

// The forms.
const (
	FormAIP11 Form = "aip11" // learning/v1
	FormGptme Form = "gptme" // match.keywords and status
)

// Target restricts a lesson to some agents. The fields are globs, and all non-empty fields must match. If a lesson has
// several targets, one matching target suffices.
type Target struct{ Operator, Role, Skill string }

// Trigger holds the conditions for a match.
type Trigger struct {
	Description string
	Tags        []string
	Targets     []Target
	// In trigger.metadata.precept:
	Keywords, NotKeywords, Tools, ErrorPatterns, Models []string
	ErrorKinds                                          []string // values of detect.Kind
	RequestKinds                                        []string // values of request.Kind
	ByLikeness                                          bool     // a match by likeness (similar words) is enough
}

// Empty reports whether the trigger has no tag, keyword, error pattern or kind.
func (t *Trigger) Empty() bool {
	return len(t.Tags) == 0 && len(t.Keywords) == 0 && len(t.ErrorPatterns) == 0 && len(t.ErrorKinds) == 0 && len(t.RequestKinds) == 0
}

// Evidence is one reference in support of a lesson (AIP-11).
type Evidence struct{ Kind, Ref, Note string }

// Approval records which text was approved, and by whom. After a change of the text, the lesson is quarantined again.
type Approval struct {
	ContentHash string // the approved text's hash; empty without an approval
	By          string
	At          time.Time // zero if unknown
	Source      string    // program that wrote the lesson: "distill", "api", "writ", ...; "" for a person
}

// Scope restricts a program's lesson to one tenant, or to one of the tenant's agents. An empty field means all; there
// are no globs.
type Scope struct{ Tenant, Agent string }

func (s Scope) admits(q *Query) bool {
	return (s.Tenant == "" || s.Tenant == q.Tenant) && (s.Agent == "" || s.Agent == q.Agent)
}

// TrialPlan is an operator's plan for measuring a lesson. A planned trial has a fixed number of picks (sessions for
// which the lesson is chosen).
type TrialPlan struct {
	Epsilon float64   // withholding probability; 0 means 0.5
	Until   float64   // the trial ends when the effect's interval has this half-width; 0 means that an operator ends it
	Picks   int64     // picks with a reward before a planned trial is evaluated; 0 means not planned
	Started time.Time // start of a planned trial, to distinguish the lesson's successive trials
	Outcome string    // trial.Outcome measured by a planned trial; empty means the reward
}

// Lesson is one parsed LESSON.md. A lesson in a book is immutable.
type Lesson struct {
	Slug, Title                string
	Trigger                    Trigger
	Outcome                    string // success | failure | mixed
	Evidence                   []Evidence
	EvidenceCount              int // supporting sessions; 0 means all are in Evidence
	Confidence                 float64
	SuccessCount, FailureCount int // the author's claims; not used for decisions
	Supersedes                 []string
	Prevents                   []string  // additional error kinds and phrases that count as the lesson's error
	ExpiresAt                  time.Time // zero means never
	State                      State     // Active unless the file names a different state
	FormerState                State     // state before the pause or retirement; otherwise empty
	StateBeforePause           State     // state before the pause, if the lesson was retired while paused
	Approval                   Approval
	Scope                      Scope
	Number                     int       // sequence number among an agent's lessons, from 1; 0 if not for one agent
	CreatedAt, UpdatedAt       time.Time // zero in a hand-written file
	Plan                       TrialPlan
	Body                       string // markdown after the frontmatter
	Advice                     string // the raw "What to do (or avoid)" section, or Rule and Pattern in the gptme form
	Path                       string // source file
	Category                   string // the file's subfolder
	ContentHash                string // result of Hash
	Raw                        string // the file, byte for byte
	Form                       Form
}

// ExpiredAt reports whether the lesson has expired at now.
func (l *Lesson) ExpiredAt(now time.Time) bool {
	return !l.ExpiresAt.IsZero() && !now.Before(l.ExpiresAt)
}

// Support returns the number of supporting sessions and other sources, including those that Evidence does not list.
func (l *Lesson) Support() int { return max(l.EvidenceCount, len(l.Evidence)) }

// IsActiveAt reports whether the lesson is active and not expired, regardless of lessons that supersede it; see
// Book.StateAt.
func (l *Lesson) IsActiveAt(now time.Time) bool { return l.State.IsActive() && !l.ExpiredAt(now) }

// ArmHash returns the part of the content hash that is in the arm's name. An arm is one version of a lesson. Arms are
// measured separately, so an edited lesson is a new arm.
func (l *Lesson) ArmHash() string {
	return l.ContentHash[:min(armDigits, len(l.ContentHash))]
}

const armDigits = 12

// PlannedTrialName returns the name of the planned trial, or "". A pause does not end the trial.
func (l *Lesson) PlannedTrialName() string {
	if l.State != Trial && l.State != Paused {
		return ""
	}
	return trial.PlannedName(l.Plan.Started, l.Plan.Picks, l.Plan.Outcome)
}

// IsAboutError reports whether the lesson is meant to prevent an error, so that precept can measure how often the error
// recurs. The distiller writes only such lessons.
func (l *Lesson) IsAboutError() bool {
	return len(l.Trigger.ErrorPatterns)+len(l.Trigger.ErrorKinds)+len(l.Prevents) > 0 || l.Approval.Source == "distill"
}

// ShouldPrevent reports whether l.Prevents names one of the errors, by an error kind or a phrase.
func (l *Lesson) ShouldPrevent(errors []ErrorText) bool {
	if len(l.Prevents) == 0 {
		return false
	}
	q := (&Query{Errors: errors}).folded()
	return slices.ContainsFunc(l.Prevents, func(p string) bool {
		return phraseMatchesAny(p, l.Form, q.errors) ||
			slices.ContainsFunc(errors, func(e ErrorText) bool { return slices.Contains(e.Kinds, detect.Kind(p)) })
	})
}
