package report

import "slices"

// Advice is the next action after a verdict. docs/EXPERIMENT.md has the same text.
type Advice struct {
	Verdict Verdict
	Text    string
}

// Advices returns the advice for each verdict, in the order in which the verdicts are tested.
func Advices() []Advice {
	return []Advice{
		{Invalid, "Ignore the effect. Check the Health page of the dashboard for sessions that were dropped or counted twice."},
		{ProvenHelps, "Keep the lesson."},
		{ProvenHarms, "Retire or rewrite the lesson: a new text starts a new measurement."},
		{TrialHelps, "Approve the lesson. An approved lesson is withheld less often."},
		{TrialHarms, "Retire or rewrite the lesson: a new text starts a new measurement."},
		{Helps, "Keep the lesson; one in ten such verdicts may be wrong."},
		{Harms, "Pause the lesson and read the text; one in ten such verdicts may be wrong."},
		{NoEffect, "Retire the lesson to save the tokens, or narrow the trigger."},
		{LikelyHelps, "Wait: the chooser's model predicts help, but the experiment has not proved it yet."},
		{LikelyHarms, "Read the lesson: the chooser's model predicts harm, but the experiment has not proved it yet."},
		{Benched, "Read the lesson, then rewrite or retire it: the chooser expects harm and rarely picks the lesson."},
		{Unproven, "Wait, or put the lesson on trial."},
	}
}

// Advice returns the next action, empty for an unknown verdict.
func (v Verdict) Advice() string {
	for _, a := range Advices() {
		if a.Verdict == v {
			return a.Text
		}
	}
	return ""
}

// NextAction returns the verdict's advice, adapted if a trial is running or if the presentation (advice or caution) has
// changed.
func (r *Row) NextAction() string {
	next := r.Verdict.Advice()
	switch {
	case r.isHarmfulOldPresentation():
		return "The lesson is now shown in another form (as advice or as a caution), which has a separate row. " + next
	case r.Trial == trialRunning && r.Verdict == Unproven:
		return waitForTrial
	case r.Trial == trialRunning:
		return waitForTrial + " " + next
	}
	return next
}

const waitForTrial = "Wait: the trial is running."

// isHarmfulOldPresentation reports whether the row shows harm in an older presentation of a text that is still in use.
func (r *Row) isHarmfulOldPresentation() bool {
	return r.State == stateOldPresentation && slices.Contains([]Verdict{ProvenHarms, TrialHarms, Harms}, r.Verdict)
}

// ZeroNote returns why a row claims an effect although the interval contains 0. The result is empty for other rows.
func (r *Row) ZeroNote() string {
	if r.Lo == nil || *r.Lo > 0 || *r.Hi < 0 {
		return ""
	}
	switch r.Verdict {
	case ProvenHelps, ProvenHarms:
		return "the proof comes from a more sensitive test than the interval, and stays valid"
	case Helps, Harms:
		return "the interval excluded 0 earlier, and earlier evidence still counts"
	case TrialHelps, TrialHarms:
		return "the trial's own interval excludes 0; the interval here is wider because it is valid at any time"
	default:
		return ""
	}
}
