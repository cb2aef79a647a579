package admin

import (
	"fmt"
	"math"

	"precept/bandit/report"
)

// advice is a verdict in words, with the next step.
type advice struct {
	Words, Next, Tone string
	Group             string // of the filter: helps, harms, none, open, invalid, waits
	Notes             bool   // the text contains the report's notes already
}

// advise explains a row and the next step.
func advise(l *report.Row) advice {
	a := judged(l)
	a.Words = string(l.Verdict)
	if l.Widened() && l.Trial != "running" {
		a.Next += " An earlier look left 0 out, and that stays; it is withheld less since, so the interval is wider."
	}
	switch l.State {
	case "candidate", "quarantined":
		return advice{Words: "waits for approval", Next: "Read it, then approve or reject it in the queue.", Tone: "warn", Group: "waits"}
	case "edited", "shown otherwise":
		a.Next = "Nothing: no session gets this text any more; its numbers stay."
	case "removed", "archived", "rejected", "expired", "superseded":
		a.Next = "Nothing: it is out of force; its numbers stay."
	}
	if l.Trial == "running" {
		a.Next = "Wait: its trial runs. " + a.Next
	}
	if l.Retire != "" {
		a.Next = "Think of retiring it: " + l.Retire + "."
	}
	return a
}

// judged returns the advice of the verdict alone.
func judged(l *report.Row) advice {
	switch l.Verdict {
	case report.ProvenHelps:
		return advice{Next: "Keep it.", Tone: "good", Group: "helps"}
	case report.TrialHelps:
		return advice{Next: "Approve it, so that it is withheld less.", Tone: "good", Group: "helps"}
	case report.Helps:
		return advice{Next: "Keep it; of rows called so one in ten may be wrong.", Tone: "good", Group: "helps", Notes: true}
	case report.ProvenHarms, report.TrialHarms:
		return advice{Next: "Retire it, or rewrite it: a new text is measured anew.", Tone: "bad", Group: "harms"}
	case report.Harms:
		return advice{Next: "Pause it and read it; of rows called so one in ten may be wrong.", Tone: "bad", Group: "harms", Notes: true}
	case report.NoEffect:
		return advice{Next: "Retire it to save its tokens, or sharpen its trigger.", Group: "none"}
	case report.LikelyHelps:
		return advice{Next: "Wait: the model expects it, the coins do not prove it. " + missing(l), Group: "open", Notes: true}
	case report.LikelyHarms:
		return advice{Next: "Read it; the model expects harm, the coins do not prove it. " + missing(l), Tone: "warn", Group: "open", Notes: true}
	case report.Benched:
		return advice{Next: "Read it: the chooser expects harm, and only probes it. Retire it, or rewrite it.", Tone: "warn", Group: "open", Notes: true}
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
	text := "It needs " + count(l.NeedsPicks) + " more picks"
	switch {
	case l.Weeks != nil && *l.Weeks < 1:
		return text + ", within a week at this rate."
	case l.Weeks != nil && *l.Weeks > 104:
		return text + ", years at this rate: put it on trial."
	case l.Weeks != nil:
		return text + fmt.Sprintf(", about %.0f weeks at this rate.", math.Ceil(*l.Weeks))
	case l.Matched == 0:
		return text + ", and has never matched: try its triggers (precept lessons backtest)."
	default:
		return text + "."
	}
}
