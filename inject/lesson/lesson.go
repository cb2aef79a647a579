package lesson

import (
	"slices"
	"time"
)

// State of a lesson: what a person, the gate or the chooser made of it.
type State string

// The states, in the order a lesson goes through them.
const (
	Candidate   State = "candidate"
	Quarantined State = "quarantined"
	Trial       State = "trial"
	Active      State = "active"
	Caution     State = "caution"
	Benched     State = "benched"
	Superseded  State = "superseded"
	Expired     State = "expired"
	Archived    State = "archived"
	Rejected    State = "rejected"
)

// Valid says whether s is one of the states.
func (s State) Valid() bool {
	return s.Fires() || slices.Contains([]State{Candidate, Quarantined, Superseded, Expired, Archived, Rejected}, s)
}

// Fires says whether a lesson in this state may match at all. A benched one still matches: the
// chooser benches it, and probes it now and then, which it could not do with a lesson that it never
// sees.
func (s State) Fires() bool { return slices.Contains([]State{Trial, Active, Caution, Benched}, s) }

// Form is the file format a lesson was read from.
type Form string

// The forms.
const (
	FormAIP11 Form = "aip11" // learning/v1
	FormGptme Form = "gptme" // match.keywords and status
)

// Target scopes a lesson: within one all given fields must match (globs), any target of the list
// suffices.
type Target struct{ Operator, Role, Skill string }

// Trigger says when a lesson applies.
type Trigger struct {
	Description string
	Tags        []string
	Targets     []Target
	// trigger.metadata.precept:
	Keywords, NotKeywords, Tools, ErrorPatterns, Models []string
}

// Empty says that nothing could fire the trigger: no tag, no keyword, no error pattern.
func (t *Trigger) Empty() bool {
	return len(t.Tags) == 0 && len(t.Keywords) == 0 && len(t.ErrorPatterns) == 0
}

// Evidence is one AIP-11 reference.
type Evidence struct{ Kind, Ref, Note string }

// Approval is what stands in metadata.precept beside the state. It is bound to a content hash: a
// text that was edited after its approval is quarantined again.
type Approval struct {
	ContentHash string    // the text that was approved; "" when the file does not say
	By          string    // who approved
	At          time.Time // when; zero when the file does not say
	Source      string    // where the lesson came from ("distill", "api", "writ", ...); "" for a person's file
}

// Scope says for whom a lesson is that came in by a program: one tenant's, or one agent's of it. An
// empty field is anyone. It is compared letter by letter, unlike a Target, whose globs an author
// writes.
type Scope struct{ Tenant, Agent string }

// holds says whether the lesson may be seen by the speaker of a turn at all.
func (s Scope) holds(q *Query) bool {
	return (s.Tenant == "" || s.Tenant == q.Tenant) && (s.Agent == "" || s.Agent == q.Agent)
}

// TrialPlan is how an operator wants a lesson in trial to be measured; a zero takes what is usual.
type TrialPlan struct {
	Epsilon float64   // the share of its picks that is withheld (0.5)
	Until   float64   // the half-width of the interval, in units of reward, at which the trial ends; 0: when somebody ends it
	Picks   int64     // of a planned trial: after so many told picks it is looked at once, and ends; 0: not planned
	Started time.Time // of a planned trial: the same lesson may go through several
}

// Lesson is one LESSON.md, read. It is immutable once in a book.
type Lesson struct {
	Slug, Title                string
	Trigger                    Trigger
	Outcome                    string // success | failure | mixed
	Evidence                   []Evidence
	Confidence                 float64
	SuccessCount, FailureCount int // as the file says: initial only, never believed
	Supersedes                 []string
	ExpiresAt                  time.Time // zero: never
	State                      State     // of a person's file: active
	Approval                   Approval
	Scope                      Scope     // for whom it is, where a program wrote it
	CreatedAt, UpdatedAt       time.Time // by a program; zero in a person's file
	Plan                       TrialPlan // of a lesson in trial
	Body                       string    // markdown after the frontmatter
	Advice                     string    // the "What to do (or avoid)" section (gptme form: rule and pattern), raw
	Path                       string    // where it was read
	Category                   string    // the subfolder
	ContentHash                string    // hex SHA-256 over what the model would see and the trigger
	Raw                        string    // the file, byte for byte
	Form                       Form
}

// ExpiredAt says whether the lesson's time is over at now.
func (l *Lesson) ExpiredAt(now time.Time) bool {
	return !l.ExpiresAt.IsZero() && !now.Before(l.ExpiresAt)
}

// InForce says whether the lesson may speak at now: its state fires and it has not expired.
// Supersession is the book's to know (Book.StateAt).
func (l *Lesson) InForce(now time.Time) bool { return l.State.Fires() && !l.ExpiredAt(now) }

// Arm is the first 12 hex digits of the content hash: an edited lesson is a new arm of the
// experiment.
func (l *Lesson) Arm() string {
	return l.ContentHash[:min(armDigits, len(l.ContentHash))]
}

const armDigits = 12
