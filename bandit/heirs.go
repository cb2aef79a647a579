package bandit

import (
	"math"

	"precept/trial"
)

// prior is the mean that an action starts from. The heir of a superseded lesson gets half of what
// that came to, but starts no lower than any newcomer; an edited text gets half of what the old
// text came to, but stays where it can be tried. The caller holds mu.
func (c *Chooser) prior(k Action, known reading) float64 {
	own := c.priors.mean(k.Confidence)
	parent, floor := c.before(k), minPrior
	if parent == "" {
		parent = k.Parent
	}
	if parent != "" && parent.Slug() != k.Slug {
		floor = minMu0
	}
	if parent == "" || parent == k.Arm {
		return own
	}
	var e evidence
	if a := c.arms[parent]; a != nil {
		a.mu.Lock()
		e = known(a, c.clock)
		a.mu.Unlock()
	}
	return math.Max(floor, c.priors.update(e, own).m/2)
}

// before finds the text that a lesson had before this one: the arm of the same slug that was first
// used last, and before this arm was. The caller holds mu.
func (c *Chooser) before(k Action) trial.Arm {
	arms := c.slugs[k.Slug]
	if len(arms) == 0 || (len(arms) == 1 && arms[0] == k.Arm) {
		return ""
	}
	limit, ok := c.firstUse(k.Arm)
	if !ok {
		limit = math.MaxInt32
	}
	var best trial.Arm
	newest := int32(math.MinInt32)
	for _, other := range arms {
		first, ok := c.firstUse(other)
		if other == k.Arm || !ok || first > limit || (first == limit && other > k.Arm) {
			continue
		}
		if first > newest || (first == newest && other > best) {
			best, newest = other, first
		}
	}
	return best
}

func (c *Chooser) firstUse(k trial.Arm) (day int32, ok bool) {
	a := c.arms[k]
	if a == nil {
		return 0, false
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if len(a.buckets) == 0 {
		return 0, false
	}
	return a.buckets[0].Key, true
}
