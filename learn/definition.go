package learn

import (
	"maps"
	"slices"
	"strings"

	"precept/bandit/feedback"
	"precept/bandit/report"
	"precept/bandit/trial"
)

// Counters belong to a reward definition. After a change of the definition, counting starts from zero. After the old
// definition is configured again, its counters are used again. In the backend, the scope of a counter begins with the
// name of the definition, unless the definition is the default.
const (
	defaultReward = feedback.DefaultDefinition
	rewardMark    = "r:" // prefix of a scope that begins with the name of a definition, and of no other scope
	rewardEnd     = "|"  // end of the name of the definition in a scope
)

// underDefinition returns deltas whose scopes begin with the name of a reward definition.
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

// ofDefinition returns the deltas of one reward definition, with the name of the definition removed from their scopes.
// closed is the number of closed sessions under each other definition.
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

// countedElsewhere converts the numbers of sessions under other reward definitions to the type of the report.
func countedElsewhere(closed map[string]int64) (list []report.Counted) {
	for _, reward := range slices.Sorted(maps.Keys(closed)) {
		list = append(list, report.Counted{RewardDefinition: reward, Sessions: closed[reward]})
	}
	return list
}
