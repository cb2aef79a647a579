package report

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"precept/bandit/trial"
)

// Flow counts the tenant's closed sessions by group, like the flow diagram of a clinical trial. Report.Window does not
// limit the counts. Treated, Control, MeasuredRules and Unmatched add up to InExperiment.
type Flow struct {
	Closed        int64      `json:"closed"` // in_experiment plus excluded; a run counts once, as does a session with its sub-agents
	InExperiment  int64      `json:"in_experiment"`
	Excluded      int64      `json:"excluded"`
	ExcludedBy    []Excluded `json:"excluded_by"`      // reasons that excluded sessions, the most frequent first
	Treated       int64      `json:"treated"`          // sessions with a match that may get lessons
	Control       int64      `json:"control"`          // sessions with a match that get no lessons
	MeasuredRules int64      `json:"n_measured_rules"` // sessions with a match and a measured section in a rules file
	Unmatched     int64      `json:"unmatched"`        // sessions without a match
	Rewarded      int64      `json:"rewarded"`         // part of in_experiment
	Unrewarded    int64      `json:"unrewarded"`       // part of in_experiment
	Members       int64      `json:"members"`          // further closed sessions, each counted with the run or parent session
}

// Excluded is the number of sessions that one reason excluded from the experiment.
type Excluded struct {
	Reason   trial.ExclusionReason `json:"reason"` // twin, late, secret (unknown keys) or unknown
	Sessions int64                 `json:"sessions"`
}

func newFlow(s trial.Stats) Flow {
	f := Flow{InExperiment: s.All.Closed, ExcludedBy: []Excluded{}, MeasuredRules: s.All.MeasuredRules, Members: s.All.Members}
	for i, reason := range trial.ExclusionReasons() {
		if n := s.All.Excluded[i]; n > 0 {
			f.Excluded += n
			f.ExcludedBy = append(f.ExcludedBy, Excluded{reason, n})
		}
	}
	slices.SortStableFunc(f.ExcludedBy, func(x, y Excluded) int { return cmp.Compare(y.Sessions, x.Sessions) })
	f.Closed = f.InExperiment + f.Excluded
	for _, c := range s.Strata {
		f.Treated += c.Assigned[1]
		f.Control += c.Assigned[0]
	}
	f.Unmatched = max(0, f.InExperiment-f.Treated-f.Control-f.MeasuredRules)
	f.Rewarded = min(s.All.Rewarded, f.InExperiment)
	f.Unrewarded = f.InExperiment - f.Rewarded
	return f
}

// ExclusionPhrase returns an exclusion reason in two or three words.
func ExclusionPhrase(reason trial.ExclusionReason) string {
	phrase, _ := exclusionWords(reason)
	return phrase
}

// NotCounted says that a session is excluded, with the report's phrase for the reason.
func NotCounted(reason trial.ExclusionReason) string {
	return "not counted, because the session is outside the experiment (" + ExclusionPhrase(reason) + ")"
}

// ExclusionCause returns why a session was excluded, for a sentence about one session.
func ExclusionCause(reason trial.ExclusionReason) string {
	_, cause := exclusionWords(reason)
	return cause
}

func exclusionWords(reason trial.ExclusionReason) (phrase, cause string) {
	switch reason {
	case trial.ExcludedTwin:
		return "identical histories", "Another conversation had an identical history at the same time, so a request may have reached the wrong session. precept never confuses sessions with a name (Precept-Session)."
	case trial.ExcludedLate:
		return "late look-up", "The store did not answer in time, so earlier decisions about the session were unknown."
	case trial.ExcludedKeys:
		return "unknown keys", "The replica did not know the fleet's keys, so the other replicas' random assignments were unknown."
	case trial.ExcludedImport:
		return "imported", "The conversation was imported."
	case trial.ExcludedMember:
		return "member of a run", "The run or the parent session counts once for all sessions in it."
	case trial.ExcludedUnknown:
	}
	return "unknown reason", "An earlier release excluded the session and stored no reason."
}

// FlowSentence returns how many sessions closed and how many were excluded, or "" before the first session closes.
func (r *Report) FlowSentence() string {
	f, title, closed := &r.Flow, "Sessions", "closed"
	if f.Closed == 0 {
		return ""
	}
	if r.Window != "" {
		title = "Sessions from all time"
	}
	if r.Provisional {
		closed = "closed or open"
	}
	text := fmt.Sprintf("%s: %s %s, %s in the experiment, %s excluded", title, Grouped(f.Closed), closed, Grouped(f.InExperiment), Grouped(f.Excluded))
	if len(f.ExcludedBy) == 0 {
		return text
	}
	var reasons []string
	for _, e := range f.ExcludedBy {
		reasons = append(reasons, ExclusionPhrase(e.Reason)+" "+Grouped(e.Sessions))
	}
	return text + " (" + strings.Join(reasons, ", ") + ")"
}

// Groups describes the counts of treated, control, unmatched and rewarded sessions, and of sessions counted with a run.
func (f *Flow) Groups() (list []string) {
	if f.InExperiment > 0 {
		text := fmt.Sprintf("in the experiment: %s treated, %s control, ", Grouped(f.Treated), Grouped(f.Control))
		if f.MeasuredRules > 0 {
			text += Grouped(f.MeasuredRules) + " with a measured section, "
		}
		list = append(list, text+fmt.Sprintf("%s without a match; with a reward: %s", Grouped(f.Unmatched), Grouped(f.Rewarded)))
	}
	if f.Members > 0 {
		list = append(list, "further sessions, each counted with the run or parent session: "+Grouped(f.Members))
	}
	return list
}

// Sentence describes how many of the sessions with a match have a reward.
func (r *Reporting) Sentence() string {
	return fmt.Sprintf("rewarded: %s of %s treated sessions, %s of %s control sessions",
		Grouped(r.RewardedTreated), Grouped(r.AssignedTreated), Grouped(r.RewardedControl), Grouped(r.AssignedControl))
}

// Grouped formats n with a comma before each group of three digits: 1,234,567.
func Grouped(n int64) string { return groupDigits(strconv.FormatInt(n, 10)) }

// GroupedAmount formats x with the given number of decimals, and with commas as Grouped does.
func GroupedAmount(x float64, decimals int) string {
	return groupDigits(strconv.FormatFloat(x, 'f', decimals, 64))
}

func groupDigits(number string) string {
	whole, fraction := number, ""
	if point := strings.IndexByte(number, '.'); point >= 0 {
		whole, fraction = number[:point], number[point:]
	}
	first := len(whole) - len(strings.TrimLeft(whole, "+-"))
	for i := len(whole) - 3; i > first; i -= 3 {
		whole = whole[:i] + "," + whole[i:]
	}
	return whole + fraction
}
