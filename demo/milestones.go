package demo

import "fmt"

// narrow is how wide the interval of an effect may be for a line about it.
const narrow = 0.5

// Milestones finds what in a run of the demo is worth a line of its own, and tells it once.
type Milestones struct {
	seen map[string]bool
}

// Of gives the lines about what is new since the last call.
func (n *Milestones) Of(done int, t Table, loops Loops) (lines []string) {
	add := func(key, format string, args ...any) {
		if n.seen == nil {
			n.seen = map[string]bool{}
		}
		if !n.seen[key] {
			n.seen[key] = true
			lines = append(lines, fmt.Sprintf("after %d sessions: ", done)+fmt.Sprintf(format, args...))
		}
	}
	if loops.Caught > 0 {
		add("loop", "a loop is caught: %d equal calls failed alike, the agent was told, and went another way", loops.Calls)
	}
	for _, l := range t.World.Truths {
		r := t.Rows[l.Slug]
		if r.Known && r.Hi-r.Lo < narrow {
			add("effect", "a first effect: %s %s points (%s to %s)", l.Slug, points(r.Effect), points(r.Lo), points(r.Hi))
		}
		switch r.Verdict {
		case "helps", "harms":
			add(l.Slug+r.Verdict, "%s %s, by %s points", l.Slug, r.Verdict, points(r.Effect))
		case "proven helps":
			add(l.Slug+r.Verdict, "%s is proven to help, by %s points", l.Slug, points(r.Effect))
		case "benched":
			add(l.Slug+r.Verdict, "%s is benched: 2%% of the sessions try it from now on", l.Slug)
		}
	}
	return lines
}
