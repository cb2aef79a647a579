package learn

import (
	"maps"
	"slices"
	"strings"

	"precept/bandit/feedback"
	"precept/bandit/report"
	"precept/bandit/trial"
)

// Counters belong to a definition of reward. After a change of the definition counting starts from
// zero, and the old counts are used again when the definition is restored. In the backend a scope
// begins with the definition; scopes of the default definition have no prefix.
const (
	defaultReward = feedback.DefaultDefinition
	rewardMark    = "r:" // prefix of a scope that begins with a definition; no other scope begins with it
	rewardEnd     = "|"  // end of the definition in a scope
)

// underDefinition prefixes the scopes of deltas with the definition of reward.
func underDefinition(reward string, ds []trial.Delta) []trial.Delta {
	if reward == defaultReward || len(ds) == 0 {
		return ds
	}
	out := slices.Clone(ds)
	for i := range out {
		out[i].Key.Scope = rewardMark + reward + rewardEnd + out[i].Key.Scope
	}
	return out
}

// ofDefinition returns the deltas of one definition, with scopes that do not contain the definition,
// and the number of closed sessions under each other definition.
func ofDefinition(reward string, ds []trial.Delta) (own []trial.Delta, closed map[string]int64) {
	others := map[string][]trial.Delta{}
	closed = map[string]int64{}
	for _, d := range ds {
		definition := defaultReward
		if rest, marked := strings.CutPrefix(d.Key.Scope, rewardMark); marked {
			definition, d.Key.Scope, _ = strings.Cut(rest, rewardEnd)
		}
		switch {
		case definition == reward:
			own = append(own, d)
		case d.Key.Scope == "":
			others[definition] = append(others[definition], d)
		}
	}
	for definition, list := range others {
		if n := trial.Closed(list); n > 0 {
			closed[definition] = n
		}
	}
	return own, closed
}

// countedElsewhere returns the sessions under other definitions in the form of the report.
func countedElsewhere(closed map[string]int64) (list []report.Counted) {
	for _, reward := range slices.Sorted(maps.Keys(closed)) {
		list = append(list, report.Counted{RewardDefinition: reward, Sessions: closed[reward]})
	}
	return list
}
