package bank

import (
	"context"
	"maps"
	"math"
	"path"
	"slices"
	"strings"

	"precept/inject/lesson"
)

// Decision is an operator's decision about a lesson.
type Decision struct {
	Action lesson.Action
	Plan   lesson.TrialPlan   // for StartTrial
	By     string             // operator, for the audit log
	Seen   lesson.SeenVersion // version that the operator saw; a decision about a different version is refused
	// Force activates the lesson even if the checks refuse the text, because the operator has read the text.
	Force bool
	// Sessions holds the rewarded sessions with and without the lesson, for the audit log; nil means unknown.
	Sessions *[2]int64
}

// Act carries out a decision. Approve and StartTrial fail if the checks find an error. Retire archives the file; every
// action except Pause and Retire restores an archived file first. Measured results stay in the store.
func (b *Bank) Act(ctx context.Context, slug string, d Decision) (r Result, err error) {
	err = b.update(ctx, func(s *snapshot) (Change, error) {
		old, name, err := s.get(slug)
		if err != nil && d.Action != lesson.Pause && d.Action != lesson.Retire {
			old, name, err = s.getArchived(slug)
		}
		if err == nil {
			err = d.Seen.Check(old)
		}
		if err != nil {
			return Change{}, err
		}
		if d.Action == lesson.Approve || d.Action == lesson.StartTrial {
			if r.Findings, err = b.checkLesson(s, old, nil); err != nil && !d.Force {
				return Change{}, err
			}
		}
		if r.Lesson, err = lesson.ApplyAction(old, d.Action, d.Plan, d.By, s.now); err != nil {
			return Change{}, err
		}
		e := lesson.Event{Action: string(d.Action), By: d.By}
		if n := d.Sessions; n != nil {
			e.Detail = map[string]any{lesson.DetailWith: n[0], lesson.DetailWithout: n[1]}
		}
		if d.Action == lesson.Retire {
			return s.moveToArchive(name, r.Lesson, e)
		}
		if p := d.Plan; p != (lesson.TrialPlan{}) {
			if e.Detail == nil {
				e.Detail = map[string]any{}
			}
			maps.Copy(e.Detail, map[string]any{"epsilon": p.Epsilon, "until_halfwidth": p.Until, "picks": p.Picks})
		}
		c := s.replace(old, r.Lesson, e)
		if back, archived := strings.CutPrefix(name, Archive); archived {
			c.Edits = []Edit{{Name: back, New: []byte(r.Lesson.Raw)}, {Name: name, Old: s.texts[name]}}
			c.Log[0].From = old.State
		}
		c.Log = append(c.Log, s.supersedeEvents(r.Lesson, d.By)...)
		return c, nil
	})
	return r, err
}

// supersedeEvents returns an event for each lesson that l supersedes if l is active.
func (s *snapshot) supersedeEvents(l *lesson.Lesson, by string) []lesson.Event {
	if !l.State.IsActive() {
		return nil
	}
	var out []lesson.Event
	for _, slug := range l.Supersedes {
		if old, ok := s.book.Get(slug); ok && old.IsActiveAt(s.now) {
			out = append(out, s.event(old, lesson.Event{
				Action: "supersede", By: by, From: old.State, To: lesson.Superseded, Detail: map[string]any{"by": l.Slug},
			}))
		}
	}
	return out
}

// Revise replaces the text of a program's lesson in the proposal's scope. The lesson is then quarantined again or, with
// p.ActivateNow, active for the agent that wrote it. The slug, number, source and creation time do not change.
func (b *Bank) Revise(ctx context.Context, slug string, p Proposal) (r Result, err error) {
	err = b.update(ctx, func(s *snapshot) (c Change, err error) {
		c, r, err = b.revise(ctx, s, slug, p)
		return c, err
	})
	return r, err
}

// revise returns the change for Revise. It counts as a write in the scope's quota.
func (b *Bank) revise(ctx context.Context, s *snapshot, slug string, p Proposal) (c Change, r Result, err error) {
	old, name, err := s.getOwned(slug, p.Scope)
	if err != nil {
		return c, r, err
	}
	q, err := s.quota(ctx)
	if err == nil {
		err = q.spend(p.Scope)
	}
	if err != nil {
		return c, r, err
	}
	proposal := p
	if p.Lesson != nil {
		proposal.Lesson = p.Lesson.Clone()
		proposal.Lesson.Slug = slug
	}
	proposal.Source = old.Approval.Source
	others := s.withoutFile(name)
	if r = b.admit(others, &proposal); r.Err != nil {
		return c, r, r.Err
	}
	revised, err := lesson.Edit(r.Lesson, func(l *lesson.Lesson) { l.CreatedAt, l.Number = old.CreatedAt, old.Number })
	if err != nil {
		return c, r, asRefused(err)
	}
	r.Lesson = revised
	if revised.Slug != slug {
		return c, r, newRefused(lesson.CodeInvalid, "slug", "a lesson's slug cannot be changed; write %s", slug)
	}
	return s.replace(old, revised, lesson.Event{Action: "revise", By: p.By}), r, nil
}

// RecordOutcome is what Record did with a lesson.
type RecordOutcome string

// The outcomes of Record.
const (
	RecordedNew       RecordOutcome = "new"
	RecordedNewText   RecordOutcome = "text" // new text for an existing lesson
	RecordedUnchanged RecordOutcome = "same" // same text as before; nothing is written
)

// Record writes an agent's lesson, or replaces the text of an earlier lesson with this title.
func (b *Bank) Record(ctx context.Context, p Proposal) (r Result, outcome RecordOutcome, err error) {
	slug := Slug(p.Lesson.Title, p.Scope)
	err = b.update(ctx, func(s *snapshot) (c Change, err error) {
		old, _, lookupErr := s.getOwned(slug, p.Scope)
		switch {
		case lookupErr != nil:
			outcome = RecordedNew
			c, r, err = b.propose(ctx, s, p)
		case old.Body == p.Lesson.Body:
			outcome, r = RecordedUnchanged, Result{Lesson: old}
		default:
			outcome = RecordedNewText
			proposal := p
			proposal.Lesson = old.Clone()
			proposal.Lesson.Raw, proposal.Lesson.Body, proposal.Lesson.Advice = "", p.Lesson.Body, p.Lesson.Advice
			c, r, err = b.revise(ctx, s, slug, proposal)
		}
		return c, err
	})
	if err == nil {
		err = r.Err
	}
	return r, outcome, err
}

// getOwned returns a program's lesson in the scope. For any other lesson it returns ErrNoLesson, because a tenant must
// learn nothing about other tenants.
func (s *snapshot) getOwned(slug string, scope lesson.Scope) (*lesson.Lesson, string, error) {
	l, name, err := s.get(slug)
	if err == nil && (l.Approval.Source == "" || l.Scope != scope) {
		err = ErrNoLesson
	}
	return l, name, err
}

func (s *snapshot) withoutFile(name string) *snapshot {
	others := *s
	others.book = s.book.WithLessons(slices.DeleteFunc(s.book.Lessons(), func(l *lesson.Lesson) bool { return s.name(l) == name }))
	return &others
}

// Cite adds evidence to a lesson about an error that occurred again. It keeps at most maxEvidence references, without
// duplicates. count is the number of all supporting sessions.
func (b *Bank) Cite(ctx context.Context, slug string, evidence []lesson.Evidence, count int, by string) (l *lesson.Lesson, err error) {
	err = b.update(ctx, func(s *snapshot) (Change, error) {
		old, _, err := s.get(slug)
		if err != nil {
			return Change{}, err
		}
		l = old
		var added []lesson.Evidence
		for _, e := range evidence {
			if !slices.ContainsFunc(slices.Concat(old.Evidence, added), func(o lesson.Evidence) bool { return o.Kind == e.Kind && o.Ref == e.Ref }) {
				added = append(added, e)
			}
		}
		count = max(count, old.Support(), min(len(old.Evidence)+len(added), math.MaxInt32))
		added = added[:max(0, min(len(added), maxEvidence-len(old.Evidence)))]
		if len(added) == 0 && count == old.Support() {
			return Change{}, nil
		}
		l, err = lesson.Edit(old, func(l *lesson.Lesson) {
			l.Evidence = append(l.Evidence, added...)
			l.EvidenceCount = 0 // 0 means that Evidence names all sessions
			if count != len(l.Evidence) {
				l.EvidenceCount = count
			}
		})
		if err != nil {
			return Change{}, asRefused(err)
		}
		if faults := lesson.SelectErrors(b.checks(s).CheckNotes(l)); faults != nil {
			return Change{}, &Refused{faults}
		}
		return s.replace(old, l, lesson.Event{Action: "cite", By: by, Detail: map[string]any{"evidence": l.Support()}}), nil
	})
	return l, err
}

const maxEvidence = 50 // maximum number of references in a lesson

// Withdraw archives a program's lesson in the scope.
func (b *Bank) Withdraw(ctx context.Context, slug string, scope lesson.Scope, by string) error {
	return b.update(ctx, func(s *snapshot) (Change, error) {
		old, name, err := s.getOwned(slug, scope)
		if err != nil {
			return Change{}, err
		}
		l, err := lesson.ApplyAction(old, lesson.Retire, lesson.TrialPlan{}, by, s.now)
		if err != nil {
			return Change{}, asRefused(err)
		}
		return s.moveToArchive(name, l, lesson.Event{Action: "withdraw", By: by})
	})
}

// moveToArchive returns the change that moves a lesson to the archive. The archived file is named after the slug, so
// that getArchived can find it.
func (s *snapshot) moveToArchive(name string, l *lesson.Lesson, e lesson.Event) (Change, error) {
	archiveName := Archive + path.Join(path.Dir(name), l.Slug+".md")
	if _, exists := s.texts[archiveName]; exists {
		return Change{}, newRefused(lesson.CodeCollision, "slug", "an archived lesson is already named %s; rename one of the two", archiveName)
	}
	e.From, e.To = l.FormerState, l.State
	if from, ok := s.book.StateAt(l.Slug, s.now); ok {
		e.From = from
	}
	l.Path = s.storageName + "/" + archiveName
	return Change{Edits: []Edit{{Name: archiveName, New: []byte(l.Raw)}, {Name: name, Old: s.texts[name]}}, Log: []lesson.Event{s.event(l, e)}}, nil
}

// getArchived returns an archived lesson and its name in the archive. The lesson's Path is the path after a restore.
func (s *snapshot) getArchived(slug string) (*lesson.Lesson, string, error) {
	for name, text := range s.texts {
		back, archived := strings.CutPrefix(name, Archive)
		if !archived || path.Base(name) != slug+".md" {
			continue
		}
		l, err := lesson.Parse(s.storageName+"/"+back, text)
		if err != nil {
			return nil, "", asRefused(err)
		}
		return l, name, nil
	}
	return nil, "", ErrNoLesson
}

// Put writes a hand-written text under a name. The text is checked like a hand-written file.
func (b *Bank) Put(ctx context.Context, name string, text []byte, by string) (r Result, err error) {
	err = b.update(ctx, func(s *snapshot) (Change, error) {
		l, err := lesson.Parse(s.storageName+"/"+name, text)
		if err != nil {
			return Change{}, asRefused(err)
		}
		if !IsName(name) || name != s.name(l) {
			return Change{}, newRefused(lesson.CodeInvalid, "", "%q is not a lesson file name; the name must end in .md, and no part may start with a dot or an underscore", name)
		}
		others := s.withoutFile(name)
		if r.Findings, err = b.checkLesson(others, l, nil); err != nil {
			return Change{}, err
		}
		if others.isSlugUsed(l.Slug) {
			return Change{}, newRefused(lesson.CodeCollision, "slug", "the slug %q is already taken; choose another", l.Slug)
		}
		r.Lesson = l
		e := lesson.Event{Action: "create", By: by, To: l.State}
		if old, ok := s.texts[name]; ok {
			e.Action = "edit"
			if previous, err := lesson.Parse(l.Path, old); err == nil {
				e.From = previous.State
			}
		}
		return Change{Edits: []Edit{{Name: name, Old: s.texts[name], New: text}}, Log: []lesson.Event{s.event(l, e)}}, nil
	})
	return r, err
}

func (b *Bank) checks(s *snapshot) lesson.Checker {
	c := b.options.Checks
	c.Now = s.now
	return c
}
