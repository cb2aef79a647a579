package feedback

import (
	"cmp"
	"iter"
	"maps"
	"slices"
)

// SessionReward is a session's reward, a pure function of the set of entries.
type SessionReward struct {
	Reward float64
	Tier   int
	OK     bool // false: no feedback
}

// Reward computes the reward from entries. Only entries in the highest of the given tiers that has an entry count;
// empty tiers mean all tiers. The reward is the mean over the raters in this tier. Only each rater's latest entry
// counts; in a run or under a parent session, each rater's latest entry for each session counts.
func Reward(entries []Entry, tiers []int) SessionReward {
	top, byRater := decisiveEntries(entries, tiers)
	if top == 0 {
		return SessionReward{}
	}
	return SessionReward{Reward: mean(byRater), Tier: top, OK: true}
}

// DecisiveIDs returns the ids of the entries that determine the reward.
func DecisiveIDs(entries []Entry, tiers []int) map[string]bool {
	_, byRater := decisiveEntries(entries, tiers)
	out := make(map[string]bool, len(byRater))
	for _, e := range byRater {
		out[e.ID] = true
	}
	return out
}

// decisiveEntries returns the highest tier with an entry (0 for none), and each rater's latest entry in this tier.
func decisiveEntries(entries []Entry, tiers []int) (top int, byRater map[string]Entry) {
	byID := latest(slices.Values(entries), func(e *Entry) string { return e.ID })
	for _, e := range byID {
		if e.Tier > 0 && (len(tiers) == 0 || slices.Contains(tiers, e.Tier)) && (top == 0 || e.Tier < top) {
			top = e.Tier
		}
	}
	maps.DeleteFunc(byID, func(_ string, e Entry) bool { return top == 0 || e.Tier != top })
	byRater = latest(maps.Values(byID), func(e *Entry) string { return e.Rater + "\x00" + e.CopiedFrom })
	joinChecks(byRater)
	return top, byRater
}

// joinChecks removes the checks on ended work (StageEnd), and otherwise keeps the check with the lowest score.
func joinChecks(byRater map[string]Entry) {
	ends, lowest := map[string]bool{}, map[string]string{}
	for _, key := range slices.Sorted(maps.Keys(byRater)) {
		e := byRater[key]
		lowestRater, found := lowest[e.CopiedFrom]
		switch {
		case e.Stage == StageEnd:
			ends[e.CopiedFrom] = true
		case e.Stage == StageCheck && (!found || e.Score < byRater[lowestRater].Score):
			lowest[e.CopiedFrom] = key
		}
	}
	maps.DeleteFunc(byRater, func(key string, e Entry) bool {
		return e.Stage == StageCheck && (ends[e.CopiedFrom] || lowest[e.CopiedFrom] != key)
	})
}

func latest(entries iter.Seq[Entry], key func(*Entry) string) map[string]Entry {
	out := map[string]Entry{}
	for e := range entries {
		k := key(&e)
		if old, ok := out[k]; !ok || isLater(e, old) {
			out[k] = e
		}
	}
	return out
}

// isLater reports whether a is the later entry. If the times are equal, it compares the contents.
func isLater(a, b Entry) bool {
	if c := a.At.Compare(b.At); c != 0 {
		return c > 0
	}
	return a.tieBreaker() > b.tieBreaker()
}

// tieBreaker returns the hash and the id, so that two entries from one rater with the same time and hash have a fixed
// order.
func (e *Entry) tieBreaker() string {
	if e.Hash != "" {
		return e.Hash + e.ID
	}
	return e.ContentHash() + e.ID
}

// mean returns the mean score. It adds in ascending order, because a floating-point sum depends on the order, and map
// iteration is random.
func mean(byRater map[string]Entry) float64 {
	scores := make([]float64, 0, len(byRater))
	for _, e := range byRater {
		scores = append(scores, e.Score)
	}
	slices.SortFunc(scores, cmp.Compare[float64])
	sum := 0.0
	for _, s := range scores {
		sum += s
	}
	return sum / float64(len(scores))
}
