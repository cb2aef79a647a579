package admin

import (
	"fmt"
	"math"

	"precept/bandit/report"
)

// advice is a verdict in words, with the next step.
type advice struct {
	Words, Next, Tone string
	Group             string // group in the filter: helps, harms, none, open, invalid, waits
	Notes             bool   // the text contains the report's notes already
}

// advise explains a row and the next step.
func advise(l *report.Row) advice {
	a := judged(l)
	a.Words = string(l.Verdict)
	if l.Widened() && l.Trial != "running" {
		a.Next += " An earlier interval excluded 0, and the verdict stays; the lesson is withheld less since then, so the interval is wider."
	}
	switch l.State {
	case "candidate", "quarantined":
		return advice{Words: "waits for approval", Next: "Read it, then approve or reject it in the queue.", Tone: "warn", Group: "waits"}
	case "edited", "shown otherwise":
		a.Next = "None: no session gets this text any more; its numbers stay."
	case "removed", "archived", "rejected", "expired", "superseded":
		a.Next = "None: the lesson is not active; its numbers stay."
	}
	if l.Trial == "running" {
		a.Next = "Wait: the trial is running. " + a.Next
	}
	if l.Retire != "" {
		a.Next = "Consider retiring the lesson: " + l.Retire + "."
	}
	return a
}

// judged returns the advice of the verdict alone.
func judged(l *report.Row) advice {
	switch l.Verdict {
	case report.ProvenHelps:
		return advice{Next: "Keep the lesson.", Tone: "good", Group: "helps"}
	case report.TrialHelps:
		return advice{Next: "Approve the lesson, to withhold it less often.", Tone: "good", Group: "helps"}
	case report.Helps:
		return advice{Next: "Keep the lesson; one in ten of these verdicts may be wrong.", Tone: "good", Group: "helps", Notes: true}
	case report.ProvenHarms, report.TrialHarms:
		return advice{Next: "Retire or rewrite the lesson: a new text starts a new measurement.", Tone: "bad", Group: "harms"}
	case report.Harms:
		return advice{Next: "Pause and read the lesson; one in ten of these verdicts may be wrong.", Tone: "bad", Group: "harms", Notes: true}
	case report.NoEffect:
		return advice{Next: "Retire the lesson to save its tokens, or narrow its trigger.", Group: "none"}
	case report.LikelyHelps:
		return advice{Next: "Wait: the model predicts help, the coins do not prove it yet. " + missing(l), Group: "open", Notes: true}
	case report.LikelyHarms:
		return advice{Next: "Read the lesson: the model predicts harm, the coins do not prove it yet. " + missing(l), Tone: "warn", Group: "open", Notes: true}
	case report.Benched:
		return advice{Next: "Read the lesson: the chooser predicts harm and rarely uses the lesson. Retire or rewrite the lesson.", Tone: "warn", Group: "open", Notes: true}
	case report.Invalid:
		return advice{Next: "Do not trust its numbers: " + l.Note + ". Look at Health.", Tone: "bad", Group: "invalid", Notes: true}
	case report.Unproven:
		return advice{Next: "Wait. " + missing(l), Group: "open"}
	default:
		return advice{Group: "open"}
	}
}

// missing returns the amount of missing data and the expected time.
func missing(l *report.Row) string {
	if l.NeedsPicks <= 0 {
		return ""
	}
	text := "The verdict needs " + count(l.NeedsPicks) + " more picks"
	switch {
	case l.Weeks != nil && *l.Weeks < 1:
		return text + ", within a week at this rate."
	case l.Weeks != nil && *l.Weeks > 104:
		return text + ", years at this rate: put the lesson on trial."
	case l.Weeks != nil:
		return text + fmt.Sprintf(", about %.0f weeks at this rate.", math.Ceil(*l.Weeks))
	case l.Matched == 0:
		return text + "; the lesson has never matched: test its triggers (precept lessons backtest)."
	default:
		return text + "."
	}
}
