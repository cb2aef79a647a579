package report

import (
	"slices"
	"strconv"
	"strings"
	"time"

	"precept/bandit/trial"
)

// builder computes the rows of one report. A bar is a threshold for p-values, corrected for multiple tests; alarmBar is
// a threshold for e-values.
type builder struct {
	in       Input
	global   trial.Stats
	proofBar float64 // largest p-value for a proven verdict
	claimBar float64 // largest p-value for the verdict "helps" or "harms" without a proof
	sigma2   float64 // reward variance around the chooser's model

	nextProofBar, nextClaimBar float64 // what proofBar and claimBar would be if one more row had the verdict

	trials      map[trial.Arm][]PlannedTrial
	outcomeBars [trial.OutcomeCount]outcomeBars // thresholds for findings on each outcome
	alarmBar    float64                         // alarm threshold for the checks on random assignment and reporting
}

const (
	stateEdited          = "edited" // an older text of a current lesson
	stateArchived        = "archived"
	stateRemoved         = "removed"         // no current lesson has this slug
	stateOldPresentation = "shown otherwise" // current text in an older presentation, such as advice instead of caution
)

// isPast reports whether the state means that sessions no longer get the row's text in the row's presentation.
func isPast(state string) bool {
	return state == stateEdited || state == stateRemoved || state == stateOldPresentation || state == stateArchived
}

// Group is a part of a list of rows.
type Group int

// The groups, in the order of a list.
const (
	InUse      Group = iota
	RarelyUsed       // benched
	NotInUse         // no new session gets the text
)

// Title returns a group's heading, empty for the first group.
func (g Group) Title() string {
	return [...]string{"", "Benched: the chooser expects harm and rarely picks these lessons", "Not in use: no new session gets these texts"}[g]
}

// Group returns the row's place in a list, so that lessons out of use do not stand between the others.
func (r *Row) Group() Group {
	switch {
	case isPast(r.State) || slices.Contains([]string{"paused", "rejected", "expired", "superseded"}, r.State):
		return NotInUse
	case r.Verdict == Benched && r.Trial != trialRunning:
		return RarelyUsed
	}
	return InUse
}

// IsOldPresentation reports whether the row is about the current text in an earlier presentation, for example as advice
// if the lesson is now a caution.
func (r *Row) IsOldPresentation() bool { return r.State == stateOldPresentation }

// contentHash returns the hash in an arm name such as slug@hash or slug@hash.caution.
func contentHash(k trial.Arm) string {
	slug := k.Slug()
	if len(slug) == len(k) {
		return ""
	}
	text, _, _ := strings.Cut(string(k[len(slug)+1:]), ".") // remove the presentation
	return text
}

func mean(sum, n float64) *float64 {
	if n <= 0 {
		return nil
	}
	return new(sum / n)
}

func formatDay(day int32) string { return time.Unix(int64(day)*86_400, 0).UTC().Format(time.DateOnly) }

func windowText(d time.Duration) string {
	const day = 24 * time.Hour
	if d%day == 0 {
		return strconv.FormatInt(int64(d/day), 10) + "d"
	}
	return d.String()
}

func windowStart(in Input) int32 { return trial.Day(in.Now.Add(-in.Window)) }

func sumsSince(s trial.Stats, from int32) (w sums) {
	for _, d := range s.Days {
		if d.Day >= from {
			w.add(&d)
		}
	}
	return w
}

// bands returns the interval as of each day, starting with the first day that has enough data.
func bands(s trial.Stats, tightestAt float64) []Band {
	var out []Band
	var t sums
	for _, d := range s.Days {
		t.add(&d)
		if t.hasEnoughPicks() {
			e, lo, hi := t.interval(tightestAt)
			out = append(out, Band{formatDay(d.Day), e, lo, hi})
		}
	}
	return out
}

// armSums returns the sums over an arm's rewarded picks. The first three cover only randomly assigned picks.
func armSums(s trial.Stats) sums { return sums{s.N, s.Z, s.ZZ, s.Rewards.M1, s.Rewards.M0} }

// TextKey returns SLUG@HASH, an arm's name without the presentation. Judges (models that rate sessions) give one
// opinion for all presentations, and the opinion is stored under this name.
func TextKey(arm trial.Arm) string { return arm.Slug() + "@" + contentHash(arm) }

const trialRunning = "running"
