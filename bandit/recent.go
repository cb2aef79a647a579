package bandit

import (
	"math"
	"sync"
	"sync/atomic"
	"time"
)

// What a session's record says of the lessons in it was frozen when it was decided, by what was known then: of the first
// sessions, nothing. A lesson that fires when things go wrong, together with others that do, bears their share of it for as long
// as those sessions count. So it is remembered what was in the latest told sessions, and the chooser's sums are corrected to
// what all lessons are believed to be worth today, one after the other until they agree (backfitting; Hastie and Tibshirani,
// Generalized Additive Models, 1990). No counter moves, and no number of the report. What is remembered is of this process;
// without it the chooser has what was frozen.

// recentSessions is how many are remembered of a tenant: about three megabytes at eight lessons a session.
const recentSessions = 10_000

// reconcileShare is the part of the remembered sessions that has to have told something new for a correction: one takes milliseconds.
const reconcileShare = 100

// sweeps is how often a correction goes round all lessons; it starts where the last one ended.
const sweeps = 4

// The part that a lesson had in a session.
const (
	hadNot      = iota // matched, and not picked; or control
	hadWithheld        // picked, withheld
	had                // injected
	parts
)

// correction is what is to be added to the sums of residuals, by the part that the lesson had; of a category the first one is, to
// its sum of rewards.
type correction [parts]float64

// recent is the memory of a tenant's latest told sessions. Its mutex is taken before those of Counters and of arms.
type recent struct {
	mu    sync.Mutex
	ring  []composed
	known map[uint64]int // places in the ring
	next  int            // the oldest one, once the ring is full
	fresh int            // told since the last correction
	told  atomic.Int64   // sessions that were ever remembered
	terms []term
	names map[string]int32
}

func newRecent() *recent { return &recent{known: map[uint64]int{}, names: map[string]int32{}} }

// A lesson that turned (turn.go) is believed to be worth something else in the sessions before.
const (
	today = iota
	earlier
	eras
)

// term is a lesson's arm or a category, with what it is believed to be worth.
type term struct {
	scope    string
	category bool
	turned   bool
	worth    [eras]worth
}

type worth struct{ del, m float64 } // of a category, del is its baseline

func (w *worth) of(part uint8) float64 {
	if part == had {
		return w.del + w.m
	}
	return w.del
}

// composed is what was in a session.
type composed struct {
	key      uint64
	at       int64 // its number among those ever told; 0: in an earlier run
	category int32
	day      int32
	said     float32 // what the record says that its lessons explain
	turns    bool    // they matched at several turns
	shares   []share
}

type share struct {
	term int32
	turn int16
	part uint8
	off  float32 // what the record expects of the session without the lesson
}

// Recall remembers what was in a session that told something. It is called again when the session has gone on; key tells
// sessions apart.
func (c *Counters) Recall(key uint64, a *Assignment) { c.recall(key, a, false) }

// RecallEarlier remembers what was in a session of an earlier run: it lies before everything that this one is told.
func (c *Counters) RecallEarlier(key uint64, a *Assignment) { c.recall(key, a, true) }

func (c *Counters) recall(key uint64, a *Assignment, earlier bool) {
	if a.Excluded || !a.Decided || a.Category == "" {
		return
	}
	r := c.recent
	r.mu.Lock()
	defer r.mu.Unlock()
	s := r.compose(key, a)
	r.fresh++
	at, ok := r.known[key]
	switch {
	case ok:
		s.at = r.ring[at].at
		r.ring[at] = s
		return
	case len(r.ring) < recentSessions:
		at = len(r.ring)
		r.ring = append(r.ring, s)
	default:
		at = r.next
		delete(r.known, r.ring[at].key)
		r.ring[at] = s
		r.next = (at + 1) % len(r.ring)
	}
	r.known[key] = at
	if !earlier {
		r.ring[at].at = r.told.Add(1)
	}
}

// RecallSpan is over how long the sessions spread, about, of which the last are remembered.
func (c *Counters) RecallSpan() time.Duration {
	const day = 24 * time.Hour
	rate := c.sessionsPerDay(c.day())
	if rate*rateWindow <= recentSessions {
		return rateWindow * day
	}
	return day + time.Duration(recentSessions/rate*float64(day))
}

func (r *recent) compose(key uint64, a *Assignment) composed {
	del, inj := a.expected()
	s := composed{
		key: key, day: a.Day, category: r.term(categoryScope(a.Category), true), said: float32(del + inj),
		shares: make([]share, len(a.Matched)),
	}
	for i := range a.Matched {
		m := &a.Matched[i]
		h := share{term: r.term(string(m.Arm), false), turn: int16(clip(float64(m.Turn), 0, math.MaxInt16)), off: float32(a.Base + del - m.Del + inj)}
		for k := range a.Picks {
			if p := &a.Picks[k]; p.Arm == m.Arm {
				h.off, h.part = float32(p.Off), hadWithheld
				if p.Injected {
					h.part = had
				}
			}
		}
		s.turns = s.turns || h.turn > 0
		s.shares[i] = h
	}
	return s
}

func (r *recent) term(scope string, category bool) int32 {
	i, ok := r.names[scope]
	if !ok {
		i = int32(len(r.terms)) //nolint:gosec // as many as lessons and categories
		r.names[scope] = i
		t := term{scope: scope, category: category}
		if category {
			t.worth[today].del = startBase
		}
		r.terms = append(r.terms, t)
	}
	return i
}

// Reconcile corrects the chooser's sums, when enough has been remembered since it last did.
func (c *Counters) Reconcile() {
	r := c.recent
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.fresh == 0 || r.fresh < len(r.ring)/reconcileShare {
		return
	}
	r.fresh = 0
	f := c.fit(r)
	for range sweeps {
		for i := range f.terms {
			f.sweep(i)
		}
	}
	for i := range f.terms {
		f.terms[i].done()
	}
}

// fit is one correction under way.
type fit struct {
	*recent
	priors   Priors
	clock    *clock
	expected []float64 // of each session, by today's beliefs
	terms    []fitted
}

// fitted is a term with its evidence as it was frozen, and the sessions it was in.
type fitted struct {
	*term
	arm    *arm
	e      [eras]evidence
	turn   *standing // nil: it did not
	cn, cs float64
	mu0    float64
	in     []place
	mend   [eras]correction
}

// era says on which side of the lesson's turn a session lies.
func (t *fitted) era(s *composed) uint8 {
	if t.turn != nil && t.turn.before(s) {
		return earlier
	}
	return today
}

// place is a share of a session, found by its term; of a category, the session alone.
type place struct {
	session int32
	off     float32
	turn    int16 // -1: the session's lessons matched all at once
	part    uint8
	era     uint8
}

func (c *Counters) fit(r *recent) *fit {
	c.mu.RLock()
	f := &fit{recent: r, priors: c.priors, clock: c.clock, expected: make([]float64, len(r.ring)), terms: make([]fitted, len(r.terms))}
	for i := range r.terms {
		f.terms[i] = fitted{term: &r.terms[i], arm: c.find(r.terms[i].scope)}
	}
	c.mu.RUnlock()
	for i := range f.terms {
		f.terms[i].begin(f.clock)
	}
	counts := make([]int, len(r.terms))
	for i := range r.ring {
		s := &r.ring[i]
		counts[s.category]++
		for k := range s.shares {
			counts[s.shares[k].term]++
		}
	}
	for i, n := range counts {
		f.terms[i].in = make([]place, 0, n)
	}
	for i := range r.ring {
		s := &r.ring[i]
		p := place{session: int32(i)} //nolint:gosec // bounded by recentSessions
		f.expected[i] = f.put(s.category, p)
		for k := range s.shares {
			h := &s.shares[k]
			if p.off, p.part, p.turn = h.off, h.part, h.turn; !s.turns || h.part == hadNot {
				p.turn = -1
			}
			f.expected[i] += f.put(h.term, p)
		}
	}
	return f
}

// put notes that a term was in a session, and finds what it is worth there.
func (f *fit) put(term int32, p place) float64 {
	t := &f.terms[term]
	p.era = t.era(&f.ring[p.session])
	t.in = append(t.in, p)
	return t.worth[p.era].of(p.part)
}

func (t *fitted) begin(now *clock) {
	a := t.arm
	if a == nil {
		return
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	t.e[today], t.e[earlier], t.turn = a.history(now)
	if t.turn != nil && !t.turned {
		t.worth[earlier] = t.worth[today]
	}
	t.turned = t.turn != nil
	if t.mu0 = a.mu0; t.mu0 == 0 {
		t.mu0 = startMu0
	}
	t.cn, t.cs = real64(a.sum[iCN]+a.early[earlyCN]), real64(a.sum[iCS]+a.early[earlyCS])
}

// done puts the correction in force.
func (t *fitted) done() {
	if t.arm == nil {
		return
	}
	t.arm.mu.Lock()
	defer t.arm.mu.Unlock()
	t.arm.mend, t.arm.stamp = t.mend[today], 0
}

// sweep believes anew what one term is worth, by what the others are believed to be.
func (f *fit) sweep(i int) {
	t := &f.terms[i]
	was := t.worth
	switch {
	case t.arm == nil:
		return
	case t.category:
		f.baseline(t)
	default:
		f.lesson(t)
	}
	var more [eras][parts]float64
	for era := range more {
		for part := range uint8(parts) {
			more[era][part] = t.worth[era].of(part) - was[era].of(part)
		}
	}
	for _, p := range t.in {
		f.expected[p.session] += more[p.era][p.part]
	}
}

func (f *fit) baseline(t *fitted) {
	w, sum := &t.worth[today], 0.0
	for _, p := range t.in {
		sum += float64(f.ring[p.session].said) - (f.expected[p.session] - w.del)
	}
	t.mend[today][0] = sum
	w.del = clip((t.cs+sum+startBase*baseWeight)/(t.cn+baseWeight), 0, 1)
}

func (f *fit) lesson(t *fitted) {
	t.mend = [eras]correction{}
	for _, p := range t.in {
		s := &f.ring[p.session]
		x := f.expected[p.session]
		if p.turn >= 0 {
			x = f.until(s, p.turn)
		}
		d := f.clock.weight(s.day) * (float64(p.off) - (x - t.worth[p.era].of(p.part)))
		t.mend[p.era][p.part] += d
		if p.era == earlier {
			t.mend[today][p.part] += turnKeep * d
		}
	}
	for era, e := range t.e {
		if m := &t.mend[era]; era == today || t.turned {
			e.su += m[hadNot]
			e.s0 += m[hadWithheld]
			e.s1 += m[had]
			b := f.priors.update(e, t.mu0)
			t.worth[era] = worth{del: b.del, m: b.m}
		}
	}
}

// until is what is expected of a session by what had matched at a turn: what matched later may be the doing of what was picked
// then.
func (f *fit) until(s *composed, turn int16) float64 {
	x := f.terms[s.category].worth[today].del
	for k := range s.shares {
		if h := &s.shares[k]; h.turn <= turn {
			t := &f.terms[h.term]
			x += t.worth[t.era(s)].of(h.part)
		}
	}
	return x
}
