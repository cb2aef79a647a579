package inject

import (
	"strconv"

	"precept/bandit/trial"
	"precept/inject/lesson"
)

// Presentation is the form in which a lesson is shown. Each form has a separate arm (treatment), because sessions with
// different texts must not be counted together.
type Presentation struct {
	Arm         trial.Arm
	Caution     bool
	Tokens      int // estimated tokens per injection
	adviceLimit int // maximum bytes; negative if not even the title fits
}

type armEvidence interface {
	// CautionEvidence compares the arm's rewards with the rewards in sessions without the lesson. better is how much
	// higher rewards were with the lesson, and worse is how much lower they were. Both are 0 unless the difference is
	// significant.
	CautionEvidence(arm trial.Arm) (better, worse float64)
	// TrialBegan reports whether the planned trial has a rewarded session.
	TrialBegan(arm trial.Arm, name string) bool
}

// Present returns a lesson's current presentation. If p is not nil, evidence in p can turn advice into a caution (an
// approach to avoid).
//
// If the full text is shown as advice, the arm is the slug with a hash of the text. For every other presentation, the
// arm also has a suffix. After the first reward in a planned trial, the presentation stays until a person decides about
// the lesson.
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
	// Shorten the lesson as if it were alone in the block, because other lessons must not change its text.
	rendered := lessonEntry{text: text}
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

// cautionSuffix is the suffix of the arm for a lesson that is shown as a caution although the outcome in its file is
// not "failure".
const cautionSuffix = ".caution"

// isCautionByCounts reports whether evidence makes the lesson a caution. During a planned trial the presentation stays
// the same, because a change would start a second, unplanned trial.
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

// Block returns a session's block with only this lesson, or "" if not even the title fits.
func (c Config) Block(l *lesson.Lesson, text *lesson.Text, p armEvidence) string {
	s := c.Present(l, text, p)
	if s.adviceLimit < 0 {
		return ""
	}
	return c.Style.block([]lessonEntry{{text: text, caution: s.Caution, adviceLimit: s.adviceLimit}})
}
