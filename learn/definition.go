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
	defaultReward    = feedback.DefaultDefinition
	definitionPrefix = "r:" // prefix of a scope that begins with the name of a definition, and of no other scope
	definitionEnd    = "|"  // end of the name of the definition in a scope
)

// addDefinitionPrefix returns deltas whose scopes begin with the name of a reward definition.
func addDefinitionPrefix(rewardName string, ds []trial.Delta) []trial.Delta {
	if rewardName == defaultReward || len(ds) == 0 {
		return ds
	}
	out := slices.Clone(ds)
	for i := range out {
		out[i].Key.Scope = definitionPrefix + rewardName + definitionEnd + out[i].Key.Scope
	}
	return out
}

// selectDefinition returns the deltas of one reward definition, with the name of the definition removed from their
// scopes. closed is the number of closed sessions under each other definition.
func selectDefinition(rewardName string, ds []trial.Delta) (selected []trial.Delta, closed map[string]int64) {
	others := map[string][]trial.Delta{}
	closed = map[string]int64{}
	for _, d := range ds {
		definition := defaultReward
		if rest, marked := strings.CutPrefix(d.Key.Scope, definitionPrefix); marked {
			definition, d.Key.Scope, _ = strings.Cut(rest, definitionEnd)
		}
		switch {
		case definition == rewardName:
			selected = append(selected, d)
		case d.Key.Scope == "":
			others[definition] = append(others[definition], d)
		}
	}
	for definition, list := range others {
		if n := trial.CountClosed(list); n > 0 {
			closed[definition] = n
		}
	}
	return selected, closed
}

// reportOtherDefinitions converts the numbers of sessions under other reward definitions to the type of the report.
func reportOtherDefinitions(closed map[string]int64) (list []report.DefinitionCount) {
	for _, reward := range slices.Sorted(maps.Keys(closed)) {
		list = append(list, report.DefinitionCount{RewardDefinition: reward, Sessions: closed[reward]})
	}
	return list
}
