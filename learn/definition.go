package learn

import (
	"maps"
	"slices"
	"strings"

	"precept/bandit/feedback"
	"precept/bandit/report"
	"precept/bandit/trial"
)

// Counters belong to a reward definition: a new definition starts from zero, and a definition that was used before
// continues with its old counters. A counter's scope in the backend begins with the definition name, unless it is the
// default.
const (
	defaultReward    = feedback.DefaultDefinition
	definitionPrefix = "r:" // no other scope begins with this
	definitionEnd    = "|"
)

func addDefinitionPrefix(rewardName string, deltas []trial.Delta) []trial.Delta {
	if rewardName == defaultReward || len(deltas) == 0 {
		return deltas
	}
	out := slices.Clone(deltas)
	for i := range out {
		out[i].Key.Scope = definitionPrefix + rewardName + definitionEnd + out[i].Key.Scope
	}
	return out
}

// selectDefinition returns the deltas for one reward definition, without the prefix. closed counts the closed sessions
// under each of the other definitions.
func selectDefinition(rewardName string, deltas []trial.Delta) (selected []trial.Delta, closed map[string]int64) {
	others := map[string][]trial.Delta{}
	closed = map[string]int64{}
	for _, d := range deltas {
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

func reportOtherDefinitions(closed map[string]int64) (list []report.DefinitionCount) {
	for _, reward := range slices.Sorted(maps.Keys(closed)) {
		list = append(list, report.DefinitionCount{RewardDefinition: reward, Sessions: closed[reward]})
	}
	return list
}
