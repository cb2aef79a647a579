package bandit

import (
	"math"

	"precept/trial"
)

// The world changes: a new model, another code base, and a lesson that helped harms. The discount
// by days forgets that in weeks; a chooser that looks notices much sooner, because the sessions
// that have the lesson begin to go otherwise than they went. Such a turn is looked for between any
// two parts of an arm's history, and what lies before it hardly counts from then on. It is a matter
// of the chooser alone: the report keeps every session, and says since when in its windows.
const (
	turnSpread   = 3.5  // standard errors; all arms are looked at all the time
	turnShift    = 0.04 // in units of reward: smaller ones are the offsets settling
	turnSessions = 30   // on each side
	turnKeep     = 0.05 // of the evidence before the turn
)

// How densely an arm's history is remembered: a standing every 50 told injections, and half as many
// each time the list is full. Standings are of this process; after a restart the ends of days are
// left.
const (
	markEvery = 50 * trial.One
	maxMarks  = 32
)

// standing is how the evidence stood at a moment, with what open sessions had told.
type standing struct {
	day int32 // the newest bucket then
	v   [ofAnArm]int64
}

type marks struct {
	list  []standing
	every int64
}

// mark remembers how the evidence stands, now and then. The caller holds mu.
func (a *arm) mark() {
	n, m := a.total[iN1]+a.provisional[iN1], &a.marks
	if m.every == 0 {
		m.every = markEvery
	}
	if k := len(m.list); (k > 0 && n < m.list[k-1].v[iN1]+m.every) || n < m.every || len(a.buckets) == 0 {
		return
	}
	if len(m.list) == maxMarks {
		for i := range maxMarks / 2 {
			m.list[i] = m.list[2*i+1]
		}
		m.list, m.every = m.list[:maxMarks/2], 2*m.every
	}
	s := standing{day: a.buckets[len(a.buckets)-1].Key}
	for f := range s.v {
		s.v[f] = a.total[f] + a.provisional[f]
	}
	m.list = append(m.list, s)
}

// turn finds the moment at which the sessions with the lesson changed most, if they did. The caller
// holds mu.
func (a *arm) turn() (at standing, found bool) {
	n, s := float64(a.total[iN1]+a.provisional[iN1])/trial.One, float64(a.total[iS1]+a.provisional[iS1])/trial.One
	best := turnSpread
	try := func(t *standing) {
		on, os := real64(t.v[iN1]), real64(t.v[iS1])
		if on < turnSessions || n-on < turnSessions {
			return
		}
		shift := math.Abs((s-os)/(n-on) - os/on)
		if z := shift / math.Sqrt(startSigma2*(1/on+1/(n-on))); shift > turnShift && z > best {
			best, at, found = z, *t, true
		}
	}
	var sum standing
	for i := 0; i < len(a.buckets)-1; i++ {
		sum.day = a.buckets[i].Key
		for f := range sum.v {
			sum.v[f] += a.buckets[i].V[f]
		}
		try(&sum)
	}
	for i := range a.marks.list {
		try(&a.marks.list[i])
	}
	return at, found
}

// before is the discounted sums of what lies before a turn.
func (a *arm) before(turn *standing, t *clock) (s [ofAnArm]float64) {
	rest := turn.v
	for i := range a.buckets {
		b := &a.buckets[i]
		if b.Key > turn.day {
			break
		}
		w := t.weight(b.Key)
		for f := range s {
			part := b.V[f]
			if b.Key == turn.day {
				part = rest[f] // of the last day only what was there
			}
			rest[f] -= part
			s[f] += w * float64(part)
		}
	}
	return s
}
