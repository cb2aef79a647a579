package admin

import (
	"cmp"
	"math"
	"slices"
	"strings"
	"time"

	"precept/store"
)

// Comparison compares two agents' or two models' sessions. A session's agent and model are not assigned at random, so
// differences may come from different tasks.
type Comparison struct {
	By           string             `json:"by"` // agent or model
	A            ComparedSide       `json:"a"`
	B            ComparedSide       `json:"b"`
	Measures     []ComparedMeasure  `json:"measures"`
	Lessons      []ComparedLesson   `json:"lessons"`
	Choices      []store.FacetValue `json:"choices"` // values that can be compared, most sessions first
	SessionsRead int                `json:"read"`    // sessions read, before the filters
	OldestStart  time.Time          `json:"back_to"` // start of the oldest session read
	Complete     bool               `json:"whole"`   // false: older sessions in the time range are not compared
}

// ComparedSide is one agent or model in a comparison.
type ComparedSide struct {
	Value    string `json:"value"`
	Sessions int    `json:"sessions"`
	Rewarded int    `json:"rewarded"` // sessions with a reward
}

// ComparedMeasure holds the means of a measure on both sides, and their difference.
type ComparedMeasure struct {
	Name       string   `json:"name"` // success, tokens, cost, seconds, turns, errors or loops
	A          Estimate `json:"a"`
	B          Estimate `json:"b"`
	Difference Estimate `json:"difference"` // A minus B
}

// Estimate is a mean with a 95% interval. The interval has this confidence for a single look only, not for repeated
// looks while sessions are added. With fewer than 10 sessions, the interval is null.
type Estimate struct {
	Sessions int      `json:"sessions"` // sessions with a known value; for success, all sessions of a run count as one
	Mean     *float64 `json:"mean"`
	Low      *float64 `json:"low"`
	High     *float64 `json:"high"`
	variance float64  // variance of the mean; +Inf below 10 sessions
}

// ComparedLesson compares the two sides' sessions that got a lesson.
type ComparedLesson struct {
	Slug string       `json:"slug"`
	A    InjectedSide `json:"a"`
	B    InjectedSide `json:"b"`
}

// InjectedSide holds one side's sessions that got a lesson.
type InjectedSide struct {
	Sessions int      `json:"sessions"`
	Reward   *float64 `json:"reward"`   // mean reward; null: no session has a reward
	Rewarded int      `json:"rewarded"` // sessions with a reward

	sum float64
}

const minEstimateSessions = 10 // an interval needs at least this many sessions

// t95 approximates the 97.5% quantile of Student's t distribution for a mean over n values. The error is at most 0.02
// from n = 10 on.
func t95(n int) float64 {
	df := float64(n - 1)
	return 1.96 + 2.37/df + 2.8/(df*df)
}

type sessionMeasure struct {
	name    string
	isShare bool                                            // values are from 0 to 1
	value   func(x *store.SessionItem) (v float64, ok bool) // ok is false if the session lacks the value
}

func sessionMeasures(p *Prices) []sessionMeasure {
	priceSession := p.costFunc()
	return []sessionMeasure{
		{"success", true, func(x *store.SessionItem) (float64, bool) {
			if x.Reward == nil {
				return 0, false
			}
			return *x.Reward, true
		}},
		{"tokens", false, func(x *store.SessionItem) (float64, bool) {
			if x.Output == nil || x.Input+*x.Output == 0 {
				return 0, false
			}
			return float64(x.Input + *x.Output), true
		}},
		{"cost", false, func(x *store.SessionItem) (float64, bool) {
			cost := priceSession(x)
			if cost == nil {
				return 0, false
			}
			return *cost, true
		}},
		{"seconds", false, func(x *store.SessionItem) (float64, bool) { return x.Seconds, x.Seconds > 0 }},
		{"turns", false, func(x *store.SessionItem) (float64, bool) { return float64(x.Turns), true }},
		{"errors", false, func(x *store.SessionItem) (float64, bool) {
			if x.Errors == nil {
				return 0, false
			}
			return float64(*x.Errors), true
		}},
		{"loops", false, func(x *store.SessionItem) (float64, bool) { return float64(x.Loops), true }},
	}
}

// compare compares two agents, or two models if by is "model". If the name a or b is empty, compare uses the most
// frequent name that is not on the other side.
func compare(r *store.Recent, q *store.SessionQuery, p *Prices, by, a, b string) Comparison {
	facets := r.Facets(q)
	groupName, choices := func(x *store.SessionItem) string { return x.Agent }, facets.Agents
	if by == "model" {
		groupName, choices = func(x *store.SessionItem) string { return x.Model }, facets.Models
	}
	if a == "" && len(choices) > 0 {
		a = choices[0].Value
	}
	for _, c := range choices {
		if b == "" && !strings.EqualFold(c.Value, a) {
			b = c.Value
		}
	}
	c := Comparison{By: by, A: ComparedSide{Value: a}, B: ComparedSide{Value: b}, Choices: choices, SessionsRead: facets.RowsRead, OldestStart: facets.OldestStart, Complete: facets.Complete, Measures: []ComparedMeasure{}, Lessons: []ComparedLesson{}}
	sides := [2][]*store.SessionItem{}
	for i := range r.Sessions {
		x := &r.Sessions[i]
		if !q.Selects(x) {
			continue
		}
		for i, side := range [2]*ComparedSide{&c.A, &c.B} {
			if side.Value != "" && strings.EqualFold(groupName(x), side.Value) {
				sides[i] = append(sides[i], x)
				side.Sessions++
				if x.Reward != nil {
					side.Rewarded++
				}
			}
		}
	}
	for _, m := range sessionMeasures(p) {
		estimateA, estimateB := m.estimate(sides[0]), m.estimate(sides[1])
		c.Measures = append(c.Measures, ComparedMeasure{m.name, estimateA, estimateB, subtract(&estimateA, &estimateB)})
	}
	c.Lessons = comparedLessons(&sides)
	return c
}

// estimate returns the mean of a measure with an interval. If the measure is a share, each run counts once, and the
// variance is p(1-p), the largest variance possible for values from 0 to 1 with mean p. p is moved towards 0.5, so
// equal rewards do not give an interval of width 0.
func (m *sessionMeasure) estimate(list []*store.SessionItem) (e Estimate) {
	var sum, squares float64
	runs := map[string]bool{}
	for _, x := range list {
		if m.isShare && x.Run != "" { // a run has one reward
			if runs[x.Run] {
				continue
			}
			runs[x.Run] = x.Reward != nil
		}
		if v, ok := m.value(x); ok {
			e.Sessions, sum, squares = e.Sessions+1, sum+v, squares+v*v
		}
	}
	if e.Sessions == 0 {
		return e
	}
	n := float64(e.Sessions)
	mean := sum / n
	e.Mean, e.variance = &mean, math.Inf(1)
	if e.Sessions < minEstimateSessions {
		return e
	}
	variance := max(squares-n*mean*mean, 0) / (n - 1)
	if m.isShare {
		p := (sum + 2) / (n + 4)
		variance = p * (1 - p)
	}
	e.variance = variance / n
	e.setInterval(m.isShare)
	return e
}

func (e *Estimate) setInterval(isShare bool) {
	half := t95(e.Sessions) * math.Sqrt(e.variance)
	low, high := max(*e.Mean-half, 0), *e.Mean+half
	if isShare {
		high = min(high, 1)
	}
	e.Low, e.High = &low, &high
}

// subtract returns a - b, with an interval if both means have one.
func subtract(a, b *Estimate) (d Estimate) {
	if a.Mean == nil || b.Mean == nil {
		return d
	}
	mean := *a.Mean - *b.Mean
	d.Sessions, d.Mean, d.variance = a.Sessions+b.Sessions, &mean, a.variance+b.variance
	if !math.IsInf(d.variance, 1) {
		half := t95(min(a.Sessions, b.Sessions)) * math.Sqrt(d.variance)
		low, high := mean-half, mean+half
		d.Low, d.High = &low, &high
	}
	return d
}

// comparedLessons returns the lessons injected on either side, most sessions first.
func comparedLessons(sides *[2][]*store.SessionItem) []ComparedLesson {
	found := map[string]*ComparedLesson{}
	for i, list := range sides {
		for _, x := range list {
			for _, slug := range x.Injected {
				if found[slug] == nil {
					found[slug] = &ComparedLesson{Slug: slug}
				}
				side := ifElse(i == 0, &found[slug].A, &found[slug].B)
				side.Sessions++
				if x.Reward != nil {
					side.sum, side.Rewarded = side.sum+*x.Reward, side.Rewarded+1
					mean := side.sum / float64(side.Rewarded)
					side.Reward = &mean
				}
			}
		}
	}
	out := make([]ComparedLesson, 0, len(found))
	for _, l := range found {
		out = append(out, *l)
	}
	slices.SortFunc(out, func(x, y ComparedLesson) int {
		return cmp.Or(cmp.Compare(y.A.Sessions+y.B.Sessions, x.A.Sessions+x.B.Sessions), strings.Compare(x.Slug, y.Slug))
	})
	return out
}
