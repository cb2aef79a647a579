package inject

import (
	"strconv"

	"precept/bandit/trial"
	"precept/inject/lesson"
)

// Shown is the presentation of a lesson, and the arm that measures the presentation. One arm is one
// treatment: the text that a session sees follows from the arm alone. A changed presentation is a
// new arm, like an edited text.
type Shown struct {
	Arm     trial.Arm
	Caution bool
	Tokens  int // estimated tokens of one injection
	limit   int // maximum bytes of advice
}

// publisher returns the counts of an arm, above and below expectation, and reports whether an arm has picks in a
// planned trial.
type publisher interface {
	Published(k trial.Arm) (better, worse float64)
	TrialBegan(k trial.Arm, name string) bool
}

// Present returns the current presentation of a lesson. The counts of p decide whether advice is presented as a
// caution, unless p is nil. Claims of success in the lesson's file are ignored.
//
// The default presentation (advice, or a caution if the file is about a failure, at full length)
// has the plain arm. A different presentation adds a suffix, so that no two treatments share an
// arm. A planned trial measures one presentation: from the first rewarded pick of the trial until a
// person decides about the lesson, the counts change nothing.
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
	// Other matches decide whether a line is inserted, and never the text of the line: a line is
	// shortened as if alone.
	own := line{text: text}
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
	} else if p != nil && !c.NoCautions {
		s.Caution = cautionByCounts(s.Arm, l.PlannedTrial(), p)
	}
	if s.Caution {
		s.Arm += cautionSuffix
	}
	return s
}

// cautionSuffix is the suffix of the arm of a lesson that is shown as a caution, and whose file is not about a
// failure.
const cautionSuffix = ".caution"

// cautionByCounts reports whether the counts of the advice make a lesson a caution. In a planned trial with a pick,
// the presentation of this pick remains: a change would interrupt the trial, and start a second one without consent.
func cautionByCounts(advice trial.Arm, planned string, p publisher) bool {
	switch {
	case planned != "" && p.TrialBegan(advice, planned):
		return false
	case planned != "" && p.TrialBegan(advice+cautionSuffix, planned):
		return true
	}
	better, worse := p.Published(advice)
	return worse > better
}

// Block returns the exact text for a session with this lesson alone; empty if not even the title
// fits.
func (c Config) Block(l *lesson.Lesson, text *lesson.Text, p publisher) string {
	s := c.Present(l, text, p)
	if s.limit < 0 {
		return ""
	}
	return c.Style.block([]line{{text: text, caution: s.Caution, cut: s.limit}})
}
