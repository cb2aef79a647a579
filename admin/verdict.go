package admin

import (
	"fmt"
	"math"
	"strings"

	"precept/bandit/report"
	"precept/inject/lesson"
)

// advice is a verdict in words, with the next action.
type advice struct {
	Words, NextAction, Tone string
	Group                   string // choice in the verdict filter: helps, harms, none, open, invalid or waits
}

func advise(l *report.Row) advice {
	a := verdictAdvice(l)
	a.Words = string(l.Verdict)
	switch l.State {
	case "candidate", "quarantined":
		return advice{Words: "waits for approval", NextAction: "Read it, then approve or reject it in the queue.", Tone: "warn", Group: "waits"}
	case "edited":
		a.NextAction = "Nothing to do: no session gets this text any more. The numbers are kept."
	case "shown otherwise":
		if a.Group != "harms" {
			a.NextAction = "Nothing to do: the lesson is now shown in another form (as advice or as a caution), which has a separate row. These numbers stay."
		}
	case "paused":
		return advice{Words: "paused", NextAction: "Resume the lesson to continue measuring it: no new session gets a paused lesson.", Group: a.Group}
	case "removed", "archived", "rejected", "expired", "superseded":
		a.NextAction = "Nothing to do: the lesson is not active. The numbers are kept."
	}
	if l.RetireReason != "" {
		a.NextAction = "Consider retiring the lesson: " + l.RetireReason + "."
	}
	return a
}

// rowState returns the state of the row's lesson. "trial, ended" means that the planned trial has ended; the lesson
// is used like an active lesson until a person decides.
func rowState(l *report.Row) string {
	if l.State == string(lesson.Trial) && l.Trial == "ended" {
		return "trial, ended"
	}
	return l.State
}

// verdictAdvice returns the advice for a verdict. The lesson's state does not matter.
func verdictAdvice(l *report.Row) advice {
	a := advice{NextAction: l.NextAction(), Group: "open"}
	switch l.Verdict {
	case report.ProvenHelps, report.TrialHelps, report.Helps:
		a.Tone, a.Group = "good", "helps"
	case report.ProvenHarms, report.TrialHarms, report.Harms:
		a.Tone, a.Group = "bad", "harms"
	case report.NoEffect:
		a.Group = "none"
	case report.Benched:
		a.Tone = "warn"
	case report.Invalid:
		a.Tone, a.Group = "bad", "invalid"
	case report.LikelyHelps, report.LikelyHarms, report.Unproven:
		a.NextAction = strings.TrimSpace(a.NextAction + " " + missingPicks(l))
		if l.Matched == 0 && l.OpenMatched == 0 && l.Weeks == nil && l.Trial == "" {
			a.NextAction = "No session in this report has matched the current text. To test the triggers, run `precept lessons backtest`."
		}
		a.Tone = ifElse(l.Verdict == report.LikelyHarms, "warn", "")
	}
	return a
}

// missingPicks says how many more rewarded picks (sessions for which the lesson is chosen) the first effect or the
// verdict needs, and how long that will take. If none are needed, missingPicks returns "".
func missingPicks(l *report.Row) string {
	if l.NeedsPicks <= 0 {
		return ""
	}
	if l.NeedsUnclear {
		return sentence(report.TooEarly)
	}
	text := ifElse(l.Effect == nil, "An effect", "A verdict") + " needs " + ifElse(l.RoundedNeeds() == l.NeedsPicks, "", "about ") + countText(l.RoundedNeeds()) + " more picks with a reward"
	switch {
	case l.Weeks != nil && *l.Weeks < 1:
		return text + ", within a week at this rate."
	case l.Weeks != nil && *l.Weeks > 104 && l.Trial == "running":
		return text + ", years at this rate."
	case l.Weeks != nil && *l.Weeks > 104:
		return text + ", years at this rate: put the lesson on trial."
	case l.Weeks != nil:
		return text + fmt.Sprintf(", about %.0f weeks at this rate.", math.Ceil(*l.Weeks))
	case l.OpenMatched > 0:
		return text + "; " + countNoun(l.OpenMatched, "open session") + " matched and will count once closed."
	default:
		return text + "."
	}
}
