package lesson

import (
	"slices"
	"time"

	"precept/bandit/trial"
	"precept/detect"
)

// State is the state of a lesson.
type State string

// The states.
const (
	Candidate   State = "candidate"   // a draft
	Quarantined State = "quarantined" // waits for the approval of an operator
	Trial       State = "trial"       // active, with a trial that measures its effect
	Active      State = "active"
	Caution     State = "caution"    // shown as an approach to avoid
	Benched     State = "benched"    // expected to do harm, and shown rarely
	Paused      State = "paused"     // inactive until an operator resumes the lesson
	Superseded  State = "superseded" // inactive, because another active lesson supersedes the lesson
	Expired     State = "expired"    // inactive, because ExpiresAt has passed
	Archived    State = "archived"   // retired by an operator
	Rejected    State = "rejected"   // refused by an operator
)

// Valid reports whether s is one of the states.
func (s State) Valid() bool {
	return s.IsActive() || slices.Contains([]State{Candidate, Quarantined, Paused, Superseded, Expired, Archived, Rejected}, s)
}

// IsActive reports whether a lesson in this state is active, that is, may match. A benched lesson may match, because
// the bandit shows it now and then to measure its effect.
func (s State) IsActive() bool { return slices.Contains([]State{Trial, Active, Caution, Benched}, s) }

// Form is the file format a lesson was read from.
type Form string

// The forms.
const (
	FormAIP11 Form = "aip11" // learning/v1
	FormGptme Form = "gptme" // match.keywords and status
)

// Target restricts a lesson to some agents. Each field is a glob, and all non-empty fields must match. A lesson with
// several targets needs only one that matches.
type Target struct{ Operator, Role, Skill string }

// Trigger holds the conditions under which a lesson applies.
type Trigger struct {
	Description string
	Tags        []string
	Targets     []Target
	// The fields of trigger.metadata.precept follow.
	Keywords, NotKeywords, Tools, ErrorPatterns, Models []string
	ErrorKinds                                          []string // values of detect.Kind
	RequestKinds                                        []string // values of request.Kind
	ByLikeness                                          bool     // the lesson may also be inserted if it matches by likeness, the resemblance of words
}

// Empty reports whether the trigger has no tag, no keyword, no error pattern, and no kind of error or request.
func (t *Trigger) Empty() bool {
	return len(t.Tags) == 0 && len(t.Keywords) == 0 && len(t.ErrorPatterns) == 0 && len(t.ErrorKinds) == 0 && len(t.RequestKinds) == 0
}

// Evidence is one reference that supports a lesson, as in AIP-11, the specification of the file format.
type Evidence struct{ Kind, Ref, Note string }

// Approval records the operator who approved a lesson, and the approved text. A lesson is quarantined again if its
// content hash changes after the approval.
type Approval struct {
	ContentHash string    // content hash of the approved text; empty without an approval
	By          string    // approver
	At          time.Time // time of the approval; zero if unknown
	Source      string    // program that wrote the lesson: "distill", "api", "writ" (a /lesson command), ...; "" for a hand-written file
}

// Scope restricts a lesson that a program wrote to one tenant, or to one agent of the tenant. An empty field means all.
// The fields are literal names, unlike the globs of a Target.
type Scope struct{ Tenant, Agent string }

// admits reports whether the scope admits the tenant and the agent of a query.
func (s Scope) admits(q *Query) bool {
	return (s.Tenant == "" || s.Tenant == q.Tenant) && (s.Agent == "" || s.Agent == q.Agent)
}

// TrialPlan is an operator's plan for the measurement of a lesson in trial. A planned trial is a trial with a fixed
// number of picks.
type TrialPlan struct {
	Epsilon float64   // probability of withholding a pick; 0 means 0.5
	Until   float64   // half-width of the effect's interval at which the trial ends; 0 means that an operator ends the trial
	Picks   int64     // number of rewarded picks after which a planned trial is evaluated; 0 means the trial is not planned
	Started time.Time // start of the planned trial, part of the name that distinguishes the trials of a lesson
	Outcome string    // name of the trial.Outcome that the planned trial measures; empty means the reward
}

// Lesson is one parsed LESSON.md. A lesson in a book is immutable.
type Lesson struct {
	Slug, Title                string
	Trigger                    Trigger
	Outcome                    string // success | failure | mixed
	Evidence                   []Evidence
	EvidenceCount              int // number of all supporting sessions; 0 means Evidence names all of them
	Confidence                 float64
	SuccessCount, FailureCount int // claims of the author, which no decision uses
	Supersedes                 []string
	Prevents                   []string  // error kinds and error phrases that count as a recurrence, in addition to the errors that trigger the lesson
	ExpiresAt                  time.Time // zero means never
	State                      State     // Active unless the file names a different state
	FormerState                State     // state before the pause or the retirement; empty for other lessons
	StateBeforePause           State     // state before the pause of a lesson that was retired while paused
	Approval                   Approval
	Scope                      Scope
	Number                     int       // sequence number among the lessons of an agent, from 1; 0 for a lesson whose scope names no agent
	CreatedAt, UpdatedAt       time.Time // set by programs; zero in a hand-written file
	Plan                       TrialPlan // plan of a lesson in trial
	Body                       string    // markdown after the frontmatter
	Advice                     string    // raw text of the section "What to do (or avoid)", or of the sections Rule and Pattern of the gptme form
	Path                       string    // source file
	Category                   string    // subfolder of the file
	ContentHash                string    // result of Hash: hex SHA-256 over the text for the model and the trigger
	Raw                        string    // the file, byte for byte
	Form                       Form
}

// ExpiredAt reports whether the lesson has expired at now.
func (l *Lesson) ExpiredAt(now time.Time) bool {
	return !l.ExpiresAt.IsZero() && !now.Before(l.ExpiresAt)
}

// Support returns the number of sessions and other sources that support the lesson. Evidence is bounded, so it may name
// only some of them.
func (l *Lesson) Support() int { return max(l.EvidenceCount, len(l.Evidence)) }

// IsActiveAt reports whether the state of the lesson is active and the lesson has not expired at now. It does not
// consider lessons that supersede the lesson; see Book.StateAt.
func (l *Lesson) IsActiveAt(now time.Time) bool { return l.State.IsActive() && !l.ExpiredAt(now) }

// ArmHash returns the first 12 hex digits of the content hash, which are part of the name of the lesson's arm. An
// edited lesson is therefore a new arm of the experiment.
func (l *Lesson) ArmHash() string {
	return l.ContentHash[:min(armDigits, len(l.ContentHash))]
}

// armDigits is the number of hex digits of the content hash in the name of an arm.
const armDigits = 12

// PlannedTrialName returns the name of the lesson's planned trial, or "" if there is none. A pause does not end the
// trial.
func (l *Lesson) PlannedTrialName() string {
	if l.State != Trial && l.State != Paused {
		return ""
	}
	return trial.PlannedName(l.Plan.Started, l.Plan.Picks, l.Plan.Outcome)
}

// IsAboutError reports whether the lesson is about an error, so that the recurrence of the error can be measured. Every
// lesson of the distiller is about an error.
func (l *Lesson) IsAboutError() bool {
	return len(l.Trigger.ErrorPatterns)+len(l.Trigger.ErrorKinds)+len(l.Prevents) > 0 || l.Approval.Source == "distill"
}

// ShouldPrevent reports whether l.Prevents contains the kind or a phrase of one of the errors.
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
