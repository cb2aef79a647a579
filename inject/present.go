package inject

import (
	"strconv"

	"precept/bandit/trial"
	"precept/inject/lesson"
)

// Presentation is the form in which a lesson is shown, and the arm that measures this form. Each form has its own arm,
// because sessions with different texts must not be counted together.
type Presentation struct {
	Arm         trial.Arm
	Caution     bool
	Tokens      int // estimated tokens of one injection
	adviceLimit int // maximum bytes of advice; negative if not even the title fits
}

// armEvidence has counts from closed sessions.
type armEvidence interface {
	// CautionEvidence returns the sums of the rewards of the arm's sessions above and below the rewards of the sessions
	// that matched without the lesson. Both sums are 0 unless the difference passes a statistical test.
	CautionEvidence(arm trial.Arm) (better, worse float64)
	// TrialBegan reports whether the arm has a rewarded pick in the planned trial with this name.
	TrialBegan(arm trial.Arm, name string) bool
}

// Present returns the current presentation of a lesson. Unless p is nil, the counts of p decide whether the advice is
// presented as a caution. Claims of success in the lesson's file are ignored.
//
// The default presentation shows the full text as advice, or as a caution if the file has the outcome failure. Its arm
// is the slug with a hash of the text. Any other presentation adds a suffix to the arm, so that no two presentations
// share an arm. A planned trial measures one presentation. From the first rewarded pick of the trial, the counts change
// nothing until a person decides about the lesson.
func (c Config) Present(l *lesson.Lesson, text *lesson.Text, p armEvidence) Presentation {
	budget := c.BudgetBytes
	if budget <= 0 {
		budget = defaultBudget
	}
	s := Presentation{Arm: trial.Arm(l.Slug + "@" + l.ArmHash()), Caution: l.Outcome == "failure", adviceLimit: maxAdvice}
	if c.Style == Pitfalls {
		s.Arm += ".pitfalls"
	}
	if c.Placement == InSystem {
		s.Arm += ".system"
	}
	// The lesson is shortened as if it were alone in its block, because the other lessons of the block must not change
	// its text.
	rendered := line{text: text}
	if room := budget - c.Style.frameBytes(); rendered.size(maxAdvice) > room {
		s.adviceLimit = rendered.adviceLimitFor(room)
		s.Arm += trial.Arm(".cut" + strconv.Itoa(max(s.adviceLimit, 0)))
	}
	s.Tokens = estimateTokens(rendered.size(s.adviceLimit))
	if s.Caution {
		return s
	}
	if l.State == lesson.Caution {
		s.Caution = true
	} else if p != nil && !c.NoCautions {
		s.Caution = isCautionByCounts(s.Arm, l.PlannedTrialName(), p)
	}
	if s.Caution {
		s.Arm += cautionSuffix
	}
	return s
}

// cautionSuffix is the arm suffix of a lesson that is shown as a caution although its file does not have the outcome
// failure.
const cautionSuffix = ".caution"

// isCautionByCounts reports whether the counts of adviceArm, the arm of the lesson as advice, make the lesson a
// caution. If the planned trial already has a rewarded pick, the presentation of that pick remains. A change would
// interrupt the trial and start a second one that no person has planned.
func isCautionByCounts(adviceArm trial.Arm, trialName string, p armEvidence) bool {
	switch {
	case trialName != "" && p.TrialBegan(adviceArm, trialName):
		return false
	case trialName != "" && p.TrialBegan(adviceArm+cautionSuffix, trialName):
		return true
	}
	better, worse := p.CautionEvidence(adviceArm)
	return worse > better
}

// Block returns the exact block of a session in which only this lesson is inserted. It returns "" if not even the title
// fits.
func (c Config) Block(l *lesson.Lesson, text *lesson.Text, p armEvidence) string {
	s := c.Present(l, text, p)
	if s.adviceLimit < 0 {
		return ""
	}
	return c.Style.block([]line{{text: text, caution: s.Caution, adviceLimit: s.adviceLimit}})
}
