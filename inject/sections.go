package inject

import (
	"slices"

	"precept/bandit"
	"precept/bandit/trial"
	"precept/inject/rules"
	"precept/internal/sample"
	"precept/internal/session"
	"precept/internal/wire"
)

// headSection is a registered section that occurs in the request's head, that is, in the texts before the model's first
// answer (wire.Request.Head).
type headSection struct {
	section *rules.RegisteredSection
	lines   []string
	passage int // index in the head
	span    rules.Span
	isCut   bool // the random decision was to remove the section; false before the decision
}

// cutSections plans which rules sections are removed. If the unit (a run, or a session outside a run) started after the
// measurement began, the unit's first turn with a section decides at random whether the unit loses the section. All
// later requests repeat the decision. A section stays unless the head contains exactly one copy. If the head is longer
// than rules.MaxHead, all sections stay.
func (w *work) cutSections() {
	registry := w.input.Rules
	if registry == nil || len(registry.Sections) == 0 || w.input.Claim.RulesOff || w.rec.State.NoDeletions {
		return
	}
	found := w.removableSections(registry)
	if len(found) == 0 {
		return
	}
	head := w.input.Request.Head()
	size := 0
	for i := range head {
		size += len(head[i].Text)
	}
	if size > rules.MaxHead {
		w.plan.LimitExceeded = true
		return
	}
	located := found[:0]
	for _, s := range found {
		if s.locate(head) {
			located = append(located, s)
		}
	}
	located = dropEmptyingSections(located, head)
	w.flipSections(located)
	w.planCuts(located, head)
}

// removableSections returns the sections that an earlier decision removed, and the sections that this turn decides on.
func (w *work) removableSections(registry *rules.Registry) (found []headSection) {
	mayFlip := w.plan.Kind == session.NewTurn && w.input.Beliefs != nil && !w.input.NoLearning && !w.isExcluded()
	w.withUnitRecord(func(u *session.Record) {
		for i := range registry.Sections {
			s := &registry.Sections[i]
			switch p, ok := u.Assignment.PickByArm(s.Arm()); {
			case ok && !p.Injected:
				found = append(found, headSection{section: s, lines: registry.Lines(i), isCut: true})
			case !ok && mayFlip && registry.IsMeasuring(i, u.Identity.Started) && mayFlipSections(&u.Assignment):
				found = append(found, headSection{section: s, lines: registry.Lines(i)})
			}
		}
	})
	return found
}

// mayFlipSections reports whether the unit's sections can be decided at random. A unit in the comparison between
// control and treatment keeps all sections.
func mayFlipSections(a *trial.Assignment) bool { return !a.Decided || a.HasMeasuredRules && !a.Control }

// dropEmptyingSections drops a passage's sections from found if their removal could leave an empty part (see
// rules.LeavesEmptyPart).
func dropEmptyingSections(found []headSection, head []wire.Passage) []headSection {
	empties := make([]bool, len(head))
	for i := range head {
		var spans []rules.Span
		for k := range found {
			if found[k].passage == i {
				spans = append(spans, found[k].span)
			}
		}
		empties[i] = len(spans) > 0 && rules.LeavesEmptyPart(head[i].Text, head[i].Boundaries, rules.AddEmptiedHeadings(head[i].Text, spans))
	}
	return slices.DeleteFunc(found, func(s headSection) bool { return empties[s.passage] })
}

// locate reports whether the head contains the section exactly once. A user can quote a section. Therefore, in a user
// message the section counts only inside the frame that an agent writes around a rules file.
func (s *headSection) locate(head []wire.Passage) bool {
	count := 0
	for i := range head {
		places := rules.Locate(head[i].Text, s.lines, head[i].Boundaries...)
		if len(places) > 0 && head[i].Role == wire.RoleUser {
			places = rules.LocateFramed(head[i].Text, s.lines, head[i].Boundaries...)
		}
		for _, at := range places {
			s.passage, s.span = i, at
			count++
		}
	}
	return count == 1
}

// flipSections makes and stores random decisions for undecided sections.
func (w *work) flipSections(found []headSection) {
	var picks []trial.Pick
	for i := range found {
		if s := found[i].section; !found[i].isCut {
			picks = append(picks, trial.Pick{
				Slug: s.Slug(), Arm: s.Arm(), Eps: s.CutProbability, Tokens: rules.Tokens(s.Text), Turn: w.rec.Thread.Turns, Trial: s.Trial(),
			})
		}
	}
	if len(picks) == 0 {
		return
	}
	var earlier []trial.Pick // decisions that other sessions made since removableSections
	w.withUnitRecord(func(u *session.Record) {
		a := &u.Assignment
		if !a.Decided {
			a.HasMeasuredRules = true
		}
		if !a.HasMeasuredRules { // since removableSections, another session has decided about control
			picks = nil
			return
		}
		picks, earlier = bandit.FlipSections(w.injector.cfg.Bandit, w.input.Beliefs, a, u.Identity.ID.String(), picks)
		if len(picks) > 0 {
			w.startMeasuring(u, picks)
		}
		u.State.Dirty = true
	})
	w.rec.State.Dirty = true
	w.plan.Picks = append(w.plan.Picks, picks...)
	picks = slices.Concat(picks, earlier)
	for i := range found {
		s := &found[i]
		p, ok := findPick(picks, s.section.Slug())
		if s.isCut || !ok {
			continue
		}
		s.isCut = !p.Injected
		l := sample.Lesson{Slug: p.Slug, Arm: string(p.Arm), State: "kept", Propensity: p.Propensity}
		if s.isCut {
			l.State = "cut"
		}
		w.plan.Lessons = append(w.plan.Lessons, l)
	}
}

// planCuts plans the removal of sections and of any headings left without content. A passage keeps its sections if a
// part would otherwise be empty.
func (w *work) planCuts(found []headSection, head []wire.Passage) {
	for i := range head {
		var cuts []rules.Span
		var slugs []string
		for k := range found {
			if s := &found[k]; s.isCut && s.passage == i {
				cuts, slugs = append(cuts, s.span), append(slugs, s.section.Slug())
			}
		}
		if len(cuts) == 0 {
			continue
		}
		cuts = rules.AddEmptiedHeadings(head[i].Text, cuts)
		if rules.LeavesEmptyPart(head[i].Text, head[i].Boundaries, cuts) {
			continue
		}
		w.plan.CutSlugs = append(w.plan.CutSlugs, slugs...)
		for _, at := range cuts {
			w.plan.Cuts = append(w.plan.Cuts, w.input.Request.Cuts(&head[i], at.Start, at.End)...)
		}
	}
}
