package inject

import (
	"strconv"

	"precept/bandit/trial"
	"precept/inject/lesson"
)

// Shown is how a lesson is presented, and the arm that is measured by it. One arm is one treatment:
// what a session sees of a lesson follows from its arm alone. Where it is presented otherwise, it
// is another arm, which begins as an edited text does.
type Shown struct {
	Arm     trial.Arm
	Caution bool
	Tokens  int // of an injection, about
	limit   int // bytes of advice
}

// publisher says what the runtime counted of an arm, above and below expectation.
type publisher interface {
	Published(k trial.Arm) (better, worse float64)
}

// Present says how a lesson is presented at present. What its file claims about success is not
// believed; what the runtime counted of it as advice is, where p is there.
//
// The usual presentation (advice, or a caution when that is what the file is about, at its own
// length) has the bare arm. Whatever differs stands behind it, so that no two treatments share one.
func (c Config) Present(l *lesson.Lesson, text *lesson.Text, p publisher) Shown {
	budget := c.BudgetBytes
	if budget <= 0 {
		budget = defaultBudget
	}
	s := Shown{Arm: trial.Arm(l.Slug + "@" + l.Arm()), Caution: l.Outcome == "failure", limit: maxAdvice}
	if c.Style == Pitfalls {
		s.Arm += ".pitfalls"
	}
	if c.Placement == InSystem {
		s.Arm += ".system"
	}
	// What else matched decides whether a line fits, and never how it reads: it is cut where it
	// would not fit alone.
	own := line{Text: text}
	if room := budget - c.Style.frame(); own.size(maxAdvice) > room {
		s.limit = own.limit(room)
		s.Arm += trial.Arm(".cut" + strconv.Itoa(max(s.limit, 0)))
	}
	s.Tokens = tokens(own.size(s.limit))
	if s.Caution {
		return s
	}
	if l.State == lesson.Caution {
		s.Caution = true
	} else if p != nil {
		better, worse := p.Published(s.Arm)
		s.Caution = worse > better
	}
	if s.Caution {
		s.Arm += ".caution"
	}
	return s
}

// Block is the text that a session gets of which this lesson is the only one, byte for byte; ""
// when not even its title fits.
func (c Config) Block(l *lesson.Lesson, text *lesson.Text, p publisher) string {
	s := c.Present(l, text, p)
	if s.limit < 0 {
		return ""
	}
	return c.Style.block([]line{{Text: text, caution: s.Caution, cut: s.limit}})
}
