package session

import (
	"maps"
	"slices"

	"precept/bandit/trial"
	"precept/internal/price"
)

// ModelTokens holds token counts by model. Add returns a changed copy, because copies of a record share the map.
type ModelTokens map[string]price.Tokens

// maxModels is how many models have separate counts. The tokens for all further models are counted under OtherModels.
const (
	maxModels   = 8
	OtherModels = "(other models)"
)

// Add returns m with t added to a model.
func (m ModelTokens) Add(model string, t price.Tokens) ModelTokens {
	if t == (price.Tokens{}) {
		return m
	}
	if _, ok := m[model]; !ok && len(m) >= maxModels {
		model = OtherModels
	}
	sum := make(ModelTokens, len(m)+1)
	maps.Copy(sum, m)
	sum[model] = sum[model].Plus(t)
	return sum
}

func (m ModelTokens) addAll(o ModelTokens) ModelTokens {
	for _, model := range slices.Sorted(maps.Keys(o)) { // in a fixed order, so that OtherModels has the same models after each merge
		m = m.Add(model, o[model])
	}
	return m
}

// minus returns m without the tokens in o.
func (m ModelTokens) minus(o ModelTokens) (rest ModelTokens) {
	for _, model := range slices.Sorted(maps.Keys(m)) {
		rest = rest.Add(model, m[model].Map(o[model], difference))
	}
	return rest
}

// larger returns, for each model, the larger of the counts in m and o.
func (m ModelTokens) larger(o ModelTokens) ModelTokens {
	if len(o) == 0 {
		return m
	}
	all := make(ModelTokens, len(o))
	maps.Copy(all, m)
	for model, t := range o {
		all[model] = all[model].Map(t, func(x, y int64) int64 { return max(x, y) })
	}
	return all
}

func difference(have, other int64) int64 { return max(have-other, 0) }

// ReplicaCounts holds the sums that one replica counted for a unit (a run, or a session with sub-agents). Replicas may
// serve a unit at the same time. With a single sum, a merge could not tell which turns both replicas had counted, so
// each replica has a separate part. A part never shrinks, and only its replica adds to it.
type ReplicaCounts struct {
	Totals trial.Totals `json:"t,omitzero"`
	Used   trial.Usage  `json:"u,omitzero"`
	Models ModelTokens  `json:"m,omitzero"`
}

const pastParts = "" // for the turns before a session's first sub-agent, when there were no parts

// count adds the sums in added to the record, and tokens to the model's sum.
func (r *Record) count(added ReplicaCounts, model string, tokens price.Tokens) {
	t := &r.Thread
	if r.IsShared() {
		t.ReplicaCounts = t.parts()
		part := t.ReplicaCounts[r.Unit.Replica]
		part.add(added)
		part.Models = part.Models.Add(model, tokens)
		t.ReplicaCounts[r.Unit.Replica] = part
	}
	t.Totals.Add(added.Totals)
	t.Used.Input, t.Used.Cached = t.Used.Input+added.Used.Input, t.Used.Cached+added.Used.Cached
	t.Models = t.Models.Add(model, tokens)
}

func (c *ReplicaCounts) add(o ReplicaCounts) {
	c.Totals.Add(o.Totals)
	c.Used.Input, c.Used.Cached = c.Used.Input+o.Used.Input, c.Used.Cached+o.Used.Cached
	c.Models = c.Models.addAll(o.Models)
}

func (c ReplicaCounts) minus(o ReplicaCounts) ReplicaCounts {
	return ReplicaCounts{
		Totals: trial.Totals{
			Errors: difference(c.Totals.Errors, o.Totals.Errors), Loops: difference(c.Totals.Loops, o.Totals.Loops), Corrections: difference(c.Totals.Corrections, o.Totals.Corrections),
			Turns: difference(c.Totals.Turns, o.Totals.Turns), Tokens: difference(c.Totals.Tokens, o.Totals.Tokens),
		},
		Used:   trial.Usage{Input: difference(c.Used.Input, o.Used.Input), Cached: difference(c.Used.Cached, o.Used.Cached)},
		Models: c.Models.minus(o.Models),
	}
}

func (t *Thread) parts() map[string]ReplicaCounts {
	if t.ReplicaCounts != nil {
		return t.ReplicaCounts
	}
	past := t.Totals
	past.NewestMillis = 0
	return map[string]ReplicaCounts{pastParts: {past, t.Used, t.Models}}
}

// partsForMerge returns t's parts for a merge with other. If t has no parts, because a replica that runs an earlier
// release wrote the record, partsForMerge returns one part under pastParts. This part is t's sums minus the parts in
// other, which the sums already include.
func (t *Thread) partsForMerge(other *Thread) map[string]ReplicaCounts {
	if t.ReplicaCounts != nil || other.ReplicaCounts == nil {
		return t.parts()
	}
	named := ReplicaCounts{}
	for replica, part := range other.ReplicaCounts {
		if replica != pastParts {
			named.add(part)
		}
	}
	return map[string]ReplicaCounts{pastParts: t.parts()[pastParts].minus(named)}
}

// mergeCounts merges the sums in other, another replica's record for the unit. If both records have a part for the same
// replica, the larger part counts. The caller locks the record.
func (t *Thread) mergeCounts(other *Thread) {
	all := maps.Clone(t.partsForMerge(other))
	for replica, part := range other.partsForMerge(t) {
		merged := all[replica]
		merged.Totals.Merge(part.Totals)
		if part.Used.Input > merged.Used.Input {
			merged.Used = part.Used
		}
		merged.Models = merged.Models.larger(part.Models)
		all[replica] = merged
	}
	sum := ReplicaCounts{Totals: trial.Totals{NewestMillis: max(t.Totals.NewestMillis, other.Totals.NewestMillis)}}
	for _, replica := range slices.Sorted(maps.Keys(all)) {
		sum.add(all[replica])
	}
	t.Totals, t.Used, t.Models, t.ReplicaCounts = sum.Totals, sum.Used, sum.Models, all
}

// TokensByModel returns the tokens by model. Tokens without a known model, such as those that an earlier release
// counted, belong to the newest model. output is the number of output tokens in the session's own turns. Thread.Models
// may lack some of these tokens.
func (r *Record) TokensByModel(output int64) ModelTokens {
	known := price.Tokens{}
	for _, t := range r.Thread.Models {
		known = known.Plus(t)
	}
	all := price.Tokens{Input: r.Thread.Used.Input, Cached: r.Thread.Used.Cached, Output: output}
	rest := all.Map(known, difference)
	rest.Cached = min(rest.Cached, rest.Input)
	return r.Thread.Models.Add(r.Identity.Model, rest)
}
