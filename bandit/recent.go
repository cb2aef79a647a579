package bandit

import (
	"math"
	"sync"
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
	terms []term
	names map[string]int32
}

func newRecent() *recent { return &recent{known: map[uint64]int{}, names: map[string]int32{}} }

// term is a lesson's arm or a category, with what it is believed to be worth.
type term struct {
	scope    string
	category bool
	del      float64 // of a category: its baseline
	m        float64
}

func (t *term) worth(part uint8) float64 {
	if part == had {
		return t.del + t.m
	}
	return t.del
}

// composed is what was in a session.
type composed struct {
	key      uint64
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
func (c *Counters) Recall(key uint64, a *Assignment) {
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
			t.del = startBase
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
	e      evidence
	cn, cs float64
	mu0    float64
	kept   float64
	in     []place
	mend   correction
}

// place is a share of a session, found by its term; of a category, the session alone.
type place struct {
	session int32
	off     float32
	turn    int16 // -1: the session's lessons matched all at once
	part    uint8
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
		f.expected[i] = f.terms[s.category].del
		counts[s.category]++
		for k := range s.shares {
			h := &s.shares[k]
			f.expected[i] += f.terms[h.term].worth(h.part)
			counts[h.term]++
		}
	}
	for i, n := range counts {
		f.terms[i].in = make([]place, 0, n)
	}
	for i := range r.ring {
		s := &r.ring[i]
		p := place{session: int32(i)} //nolint:gosec // bounded by recentSessions
		f.terms[s.category].in = append(f.terms[s.category].in, p)
		for k := range s.shares {
			h := &s.shares[k]
			if p.off, p.part, p.turn = h.off, h.part, h.turn; !s.turns || h.part == hadNot {
				p.turn = -1
			}
			f.terms[h.term].in = append(f.terms[h.term].in, p)
		}
	}
	return f
}

func (t *fitted) begin(now *clock) {
	a := t.arm
	if a == nil {
		return
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	t.e = a.frozen(now)
	t.kept = a.kept
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
	t.arm.mend, t.arm.stamp = t.mend, 0
}

// sweep believes anew what one term is worth, by what the others are believed to be.
func (f *fit) sweep(i int) {
	t := &f.terms[i]
	was := *t.term
	switch {
	case t.arm == nil:
		return
	case t.category:
		f.baseline(t)
	default:
		f.lesson(t)
	}
	more := [parts]float64{}
	for part := range more {
		more[part] = t.worth(uint8(part)) - was.worth(uint8(part)) //nolint:gosec // three of them
	}
	for _, p := range t.in {
		f.expected[p.session] += more[p.part]
	}
}

func (f *fit) baseline(t *fitted) {
	t.mend = correction{}
	for _, p := range t.in {
		t.mend[0] += float64(f.ring[p.session].said) - (f.expected[p.session] - t.del)
	}
	t.del = clip((t.cs+t.mend[0]+startBase*baseWeight)/(t.cn+baseWeight), 0, 1)
}

func (f *fit) lesson(t *fitted) {
	t.mend = correction{}
	for _, p := range t.in {
		s := &f.ring[p.session]
		off := f.expected[p.session] - t.worth(p.part)
		if p.turn >= 0 {
			off = f.before(s, p.turn) - t.worth(p.part)
		}
		t.mend[p.part] += t.kept * f.clock.weight(s.day) * (float64(p.off) - off)
	}
	e := t.e
	e.su += t.mend[hadNot]
	e.s0 += t.mend[hadWithheld]
	e.s1 += t.mend[had]
	b := f.priors.update(e, t.mu0)
	t.m, t.del = b.m, b.del
}

// before is what is expected of a session by what had matched at a turn: what matched later may be the doing of what was picked
// then.
func (f *fit) before(s *composed, turn int16) float64 {
	x := f.terms[s.category].del
	for k := range s.shares {
		if h := &s.shares[k]; h.turn <= turn {
			x += f.terms[h.term].worth(h.part)
		}
	}
	return x
}
