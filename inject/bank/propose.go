package bank

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"slices"
	"time"

	"precept/inject/lesson"
)

// Proposal is a program's lesson before the checks.
type Proposal struct {
	// The lesson's state, counts, approval, scope and times are ignored. An empty slug becomes Slug(title, scope).
	Lesson *lesson.Lesson
	Text   []byte // a LESSON.md file, instead of Lesson
	Source string // program: "distill", "api", "writ", "ledger" or "import"; required
	By     string // author, for the audit log
	Scope  lesson.Scope

	// ActivateNow activates an agent's lesson for this agent alone (writ.trust: own). Scope must name the agent.
	ActivateNow bool
}

// Result is the result for one written lesson.
type Result struct {
	Lesson   *lesson.Lesson   // nil if not accepted
	Findings []lesson.Finding // with warnings
	Err      error            // why the lesson was not accepted: *Refused, ErrTooMany, ErrTenantLessons or ErrNoLesson
}

// maxConfidence is the maximum confidence for a program's lesson.
const maxConfidence = 0.5

// Propose writes a program's lesson. The error is Result.Err or a storage error.
func (b *Bank) Propose(ctx context.Context, p Proposal) (Result, error) {
	all, err := b.ProposeAll(ctx, []Proposal{p})
	if err != nil {
		return Result{Err: err}, err
	}
	return all[0], all[0].Err
}

// ProposeAll writes several lessons in one commit, and returns a result for each. If the storage fails, ProposeAll
// returns an error and writes nothing.
func (b *Bank) ProposeAll(ctx context.Context, proposals []Proposal) (results []Result, err error) {
	err = b.update(ctx, func(s *snapshot) (all Change, err error) {
		results = make([]Result, len(proposals))
		for i := range proposals {
			var c Change
			if c, results[i], err = b.propose(ctx, s, proposals[i]); err != nil {
				return Change{}, err
			}
			all.Edits, all.Log = append(all.Edits, c.Edits...), append(all.Log, c.Log...)
		}
		return all, nil
	})
	return results, err
}

// propose adds a proposal's lesson to the snapshot. r.Err is the reason for a refusal; err is a storage error.
func (b *Bank) propose(ctx context.Context, s *snapshot, p Proposal) (c Change, r Result, err error) {
	q, err := s.quota(ctx)
	if err != nil {
		return c, r, err
	}
	if r.Err = q.spend(p.Scope); r.Err != nil {
		return c, r, nil //nolint:nilerr // the proposal's error is in the result
	}
	r = b.admit(s, &p)
	c.Log = []lesson.Event{s.proposalEvent(&p, &r)}
	if r.Err == nil {
		q.addLesson(r.Lesson)
		c.Edits = []Edit{{Name: s.name(r.Lesson), New: []byte(r.Lesson.Raw)}}
		s.add(r.Lesson)
	}
	return c, r, nil
}

// proposalEvent returns the event for a proposal. If the proposal was refused, the event does not name the lesson,
// because the lesson does not exist.
func (s *snapshot) proposalEvent(p *Proposal, r *Result) lesson.Event {
	e := lesson.Event{Time: s.now, Action: "propose", By: p.By, Source: p.Source, Tenant: p.Scope.Tenant, Agent: p.Scope.Agent}
	if r.Err == nil {
		e.To = r.Lesson.State
		return s.event(r.Lesson, e)
	}
	e.Action = "refuse"
	if refused, ok := errors.AsType[*Refused](r.Err); ok {
		codes := make([]string, 0, len(refused.Faults))
		for _, f := range refused.Faults {
			codes = append(codes, string(f.Code))
		}
		slices.Sort(codes)
		e.Detail = map[string]any{"codes": slices.Compact(codes)}
	}
	return e
}

// highestNumber returns the highest lesson number in the scope. It includes archived lessons, so that no number is used
// twice.
func (s *snapshot) highestNumber(scope lesson.Scope) int {
	if s.numbers == nil {
		s.numbers = map[lesson.Scope]int{}
		archived, _ := s.bank.archived(s.texts)
		for _, l := range slices.Concat(archived.Lessons(), s.book.Lessons()) {
			s.numbers[l.Scope] = max(s.numbers[l.Scope], l.Number)
		}
	}
	return s.numbers[scope]
}

// add adds a lesson to the snapshot, for later proposals in the same commit.
func (s *snapshot) add(l *lesson.Lesson) {
	if s.numbers != nil {
		s.numbers[l.Scope] = max(s.numbers[l.Scope], l.Number)
	}
	s.texts[s.name(l)] = []byte(l.Raw)
	s.book = s.book.AppendLesson(l)
}

// admit checks a proposal, and returns the lesson to write or the reason for refusing it.
func (b *Bank) admit(s *snapshot, p *Proposal) Result {
	l, err := s.draft(p)
	if err != nil {
		return Result{Err: err}
	}
	findings, err := b.checkLesson(s, l, p.Lesson)
	if err != nil {
		return Result{Findings: findings, Err: err}
	}
	if p.ActivateNow {
		if len(l.Supersedes) > 0 {
			return Result{Findings: findings, Err: newRefused(lesson.CodeInvalid, "supersedes", "an agent's own lesson cannot supersede other lessons; remove the key \"supersedes\"")}
		}
		l.State, l.Approval.By = lesson.Active, "writ.trust: own"
		l.Approval.ContentHash, l.Approval.At = l.Hash(), s.now
	}
	l, err = formatAndParse(l)
	return Result{Lesson: l, Findings: findings, Err: err}
}

// draft returns the proposed lesson as quarantined, and discards any state, counts and approval that the proposal
// claims.
func (s *snapshot) draft(p *Proposal) (*lesson.Lesson, error) {
	if p.Source == "" || (p.ActivateNow && p.Scope.Agent == "") {
		return nil, newRefused(lesson.CodeInternal, "", "a proposal needs a source, and a lesson for one agent needs the agent's name")
	}
	proposed := p.Lesson
	if p.Text != nil {
		parsed, err := lesson.Parse("", p.Text)
		if err != nil {
			return nil, asRefused(err)
		}
		proposed = parsed
		proposed.EvidenceCount = 0 // an unverified claim
	}
	if !(proposed.Confidence >= 0 && proposed.Confidence <= 1) { // the negation catches NaN
		return nil, newRefused(lesson.CodeConfidence, "confidence", "%v is not between 0 and 1; write 0.5 if you do not know", proposed.Confidence)
	}
	l := proposed.Clone()
	if l.KeepsForm() {
		text, err := lesson.GptmeText(proposed)
		if err != nil {
			return nil, asRefused(err)
		}
		if l, err = lesson.Parse(proposed.Slug+".md", text); err != nil {
			return nil, asRefused(err)
		}
	} else {
		l.Form, l.Raw = lesson.FormAIP11, ""
	}
	l.Category = p.Source
	l.State, l.Plan, l.Approval = lesson.Quarantined, lesson.TrialPlan{}, lesson.Approval{Source: p.Source}
	l.SuccessCount, l.FailureCount, l.Confidence = 0, 0, min(proposed.Confidence, maxConfidence)
	l.Scope, l.CreatedAt, l.UpdatedAt = p.Scope, s.now, s.now
	l.Number = 0
	if p.Scope.Agent != "" {
		l.Number = s.highestNumber(p.Scope) + 1
	}
	if l.Slug == "" {
		l.Slug = Slug(l.Title, p.Scope)
	}
	if !lesson.IsSlug(l.Slug) {
		return nil, newRefused(lesson.CodeInvalid, "slug", "%q is not a slug; write lower-case letters, digits and dashes, starting with a letter", l.Slug)
	}
	if s.isSlugUsed(l.Slug) {
		return nil, newRefused(lesson.CodeCollision, "slug", "the slug %q is already taken; choose another, or revise that lesson", l.Slug)
	}
	l.Path = s.storageName + "/" + p.Source + "/" + l.Slug + ".md"
	if !IsName(s.name(l)) {
		return nil, newRefused(lesson.CodeInternal, "", "%q is not a source", p.Source)
	}
	return formatAndParse(l)
}

// formatAndParse returns the lesson as Parse would read it back from its file, including the derived fields.
func formatAndParse(l *lesson.Lesson) (*lesson.Lesson, error) {
	out, err := lesson.Edit(l, func(*lesson.Lesson) {})
	if err != nil {
		return nil, asRefused(err)
	}
	return out, nil
}

// asRefused converts an error about a text into a *Refused.
func asRefused(err error) error {
	if faults, ok := errors.AsType[lesson.ValidationErrors](err); ok {
		return &Refused{faults}
	}
	return newRefused(lesson.CodeInvalid, "", "%v", err)
}

// checkLesson returns the findings, and a *Refused if the lesson is expired or a finding is an error. If file is not
// nil, the lesson was converted from file, and the findings name the fields of file.
func (b *Bank) checkLesson(s *snapshot, l, file *lesson.Lesson) ([]lesson.Finding, error) {
	findings := b.checks(s).CheckLesson(l, s.book)
	if file != nil {
		findings = lesson.TranslateFindings(file, findings)
	}
	if l.ExpiredAt(s.now) {
		return findings, newRefused(lesson.CodeExpired, "expires_at", "the lesson expired at %s; set a later date", l.ExpiresAt.Format(time.RFC3339))
	}
	if faults := lesson.SelectErrors(findings); faults != nil {
		return findings, &Refused{faults}
	}
	return findings, nil
}

// Slug makes a slug from the title and a hash of scope and title. Without the hash, a collision would reveal another
// tenant's lessons.
func Slug(title string, scope lesson.Scope) string {
	const maxWordBytes, hashDigits = 60, 8
	base := lesson.Slugify(title, maxWordBytes)
	if base == "" {
		base = "lesson"
	}
	sum := sha256.Sum256([]byte(scope.Tenant + "\x00" + scope.Agent + "\x00" + title))
	return base + "-" + hex.EncodeToString(sum[:])[:hashDigits]
}
