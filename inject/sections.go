package inject

import (
	"precept/bandit"
	"precept/bandit/trial"
	"precept/inject/rules"
	"precept/internal/sample"
	"precept/internal/session"
	"precept/internal/wire"
)

// standing is a registered section in the head of the request.
type standing struct {
	section *rules.Registered
	lines   []string
	passage int // index in the head
	at      rules.Span
	cut     bool // the coin of the unit cuts the section; false: the unit has no coin yet
}

// sections cuts the registered sections out of the request that the coins of the unit cut. The coin of a
// section is flipped at the first turn of the unit that contains the section, if the unit started after
// the measurement; every later request repeats the decision. A section that the request does not contain
// exactly once is left alone.
func (w *work) sections() {
	of := w.input.Rules
	if of == nil || len(of.Sections) == 0 || w.input.Claim.RulesOff {
		return
	}
	found := w.relevant(of)
	if len(found) == 0 {
		return
	}
	head := w.input.Request.Head()
	there := found[:0]
	for _, s := range found {
		if s.locate(head) {
			there = append(there, s)
		}
	}
	w.flipSections(there)
	w.cut(there, head)
}

// relevant returns the sections that the request may lose: with a coin that cuts, or without a coin.
func (w *work) relevant(of *rules.Registry) (found []standing) {
	draws := w.plan.Kind == session.NewTurn && w.input.Beliefs != nil && !w.excluded()
	w.drawn(func(u *session.Record) {
		for i := range of.Sections {
			s := &of.Sections[i]
			switch p, ok := u.Assignment.PickOf(s.Arm()); {
			case ok && !p.Injected:
				found = append(found, standing{section: s, lines: of.Lines(i), cut: true})
			case !ok && draws && of.Measures(i, u.Identity.Started) && !(u.Assignment.Decided && u.Assignment.Control):
				found = append(found, standing{section: s, lines: of.Lines(i)})
			}
		}
	})
	return found
}

// locate finds the section in the head. locate reports whether the section stands there exactly once.
func (s *standing) locate(head []wire.Passage) bool {
	n := 0
	for i := range head {
		for _, at := range rules.Locate(head[i].Text, s.lines, head[i].Joints...) {
			s.passage, s.at = i, at
			n++
		}
	}
	return n == 1
}

// flipSections flips the coins of the sections without one.
func (w *work) flipSections(found []standing) {
	var picks []trial.Pick
	for i := range found {
		if s := found[i].section; !found[i].cut {
			picks = append(picks, trial.Pick{
				Slug: s.Slug(), Arm: s.Arm(), Eps: s.Share, Tokens: rules.Tokens(s.Text), Turn: w.rec.Thread.Turns, Trial: s.Trial(),
			})
		}
	}
	if len(picks) == 0 {
		return
	}
	w.drawn(func(u *session.Record) {
		picks = bandit.FlipSections(w.in.cfg.Bandit, w.input.Beliefs, &u.Assignment, u.Identity.ID.String(), picks)
		w.watchSections(u, picks)
		u.State.Dirty = true
	})
	w.rec.State.Dirty = true
	w.plan.Picks = append(w.plan.Picks, picks...)
	for i := range found {
		s := &found[i]
		p, ok := pickOf(picks, s.section.Slug())
		if s.cut || !ok {
			continue
		}
		s.cut = !p.Injected
		l := sample.Lesson{Slug: p.Slug, Arm: string(p.Arm), State: "kept", Propensity: p.Propensity}
		if s.cut {
			l.State = "cut"
		}
		w.plan.Lessons = append(w.plan.Lessons, l)
	}
}

// watchSections starts the measurement of the outcomes of new picks.
func (w *work) watchSections(u *session.Record, picks []trial.Pick) {
	from, ok := w.input.Beliefs.(watcher)
	if !ok || len(picks) == 0 {
		return
	}
	u.Active(w.input.Now)
	for i := range picks {
		p := &picks[i]
		p.Watch = from.Watch(p.Arm, p.Eps, w.outcomes(p.Slug), u.Thread.Tally)
	}
}

// cut plans the deletions, with the headings that lose all their content.
func (w *work) cut(found []standing, head []wire.Passage) {
	cuts := make(map[int][]rules.Span)
	for i := range found {
		if s := &found[i]; s.cut {
			cuts[s.passage] = append(cuts[s.passage], s.at)
			w.plan.Cut = append(w.plan.Cut, s.section.Slug())
		}
	}
	for i := range head {
		if len(cuts[i]) == 0 {
			continue
		}
		for _, at := range rules.Widen(head[i].Text, cuts[i]) {
			w.plan.Cuts = append(w.plan.Cuts, w.input.Request.Cuts(&head[i], at.Start, at.End)...)
		}
	}
}
