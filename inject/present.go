package inject

import (
	"strconv"

	"precept/bandit/trial"
	"precept/inject/lesson"
)

// Shown is the presentation of a lesson, and the arm that measures this presentation. The arm determines the text that
// a session gets, so a changed presentation needs a new arm, like an edited text.
type Shown struct {
	Arm     trial.Arm
	Caution bool
	Tokens  int // estimated tokens of one injection
	limit   int // maximum bytes of advice; negative if not even the title fits
}

// publisher is implemented by beliefs with counts from closed sessions.
type publisher interface {
	// Published returns how far the rewards of the arm's sessions lie, in sum, above and below the rewards of the
	// sessions that matched without the lesson.
	Published(k trial.Arm) (better, worse float64)
	// TrialBegan reports whether the arm has a rewarded pick in the planned trial with the name.
	TrialBegan(k trial.Arm, name string) bool
}

// Present returns the current presentation of a lesson. Unless p is nil, the counts of p decide whether the advice is
// presented as a caution. Claims of success in the lesson's file are ignored.
//
// The arm of the default presentation is the slug with a hash of the text. By default, the full text is shown as
// advice, or as a caution if the file has the outcome failure. Any other presentation adds a suffix to the arm, so
// that no two presentations share an arm. A planned trial measures one presentation, so the counts change nothing from
// the first rewarded pick of the trial until a person decides about the lesson.
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
	// The lesson is shortened as if it were alone in its block. Other matches may take its room in the block, but must
	// not change its text.
	own := line{text: text}
	if room := budget - c.Style.frameBytes(); own.size(maxAdvice) > room {
		s.limit = own.adviceLimitFor(room)
		s.Arm += trial.Arm(".cut" + strconv.Itoa(max(s.limit, 0)))
	}
	s.Tokens = estimateTokens(own.size(s.limit))
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

// cautionSuffix is the arm suffix of a lesson that is shown as a caution although its file does not have the outcome
// failure.
const cautionSuffix = ".caution"

// cautionByCounts reports whether the counts of the arm advice make a lesson a caution. If the planned trial already
// has a pick, its presentation remains, because a change would interrupt the trial and start a second one without
// consent.
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

// Block returns the exact block for a session in which only this lesson is inserted, or "" if not even the title fits.
func (c Config) Block(l *lesson.Lesson, text *lesson.Text, p publisher) string {
	s := c.Present(l, text, p)
	if s.limit < 0 {
		return ""
	}
	return c.Style.block([]line{{text: text, caution: s.Caution, adviceLimit: s.limit}})
}
