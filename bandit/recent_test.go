package bandit

import (
	"fmt"
	"math"
	"reflect"
	"testing"
	"time"
)

// Three lessons that fire together when things go wrong, one of which helps: what was frozen in the first sessions blames each of
// them for all of it. Corrected, the chooser finds what a regression on all of them at once finds.
func TestReconciledBeliefsAgreeWithAJointRegression(t *testing.T) {
	c, r := NewCounters(), seeded("joint")
	cs := lessons("a", "b", "c")
	effect := [3]float64{0.10, 0, -0.08}
	match := [3]float64{-0.15, -0.10, 0}
	cfg := Config{K: 2, Epsilon: 0.3, Control: 0.1, Objective: Random, Salt: "joint"}
	x := newEquations(7)
	for i := range 3000 {
		a := Assignment{Category: "x", Day: 10}
		var in []Candidate
		hard := r.Float64() < 0.5
		for j := range cs {
			if p := r.Float64(); hard && p < 0.8 || p < 0.15 {
				in = append(in, cs[j])
			}
		}
		ps := Decide(cfg, c, &a, fmt.Sprint("s", i), in, 1)
		chance := 0.6
		row := make([]float64, 7)
		row[0] = 1
		for j := range cs {
			for k := range in {
				if in[k].Slug == cs[j].Slug {
					chance += match[j]
					row[1+j] = 1
				}
			}
			for _, p := range ps {
				if p.Slug == cs[j].Slug && p.Injected {
					chance += effect[j]
					row[4+j] = 1
				}
			}
		}
		y := 0.0
		if r.Float64() < chance {
			y = 1
		}
		x.add(row, y)
		c.Add(a.Contribution(y, 1))
		c.Recall(uint64(i), &a) //nolint:gosec // small
		c.Reconcile()
	}
	for range 50 { // to the fixed point
		c.recent.fresh = math.MaxInt32
		c.Reconcile()
	}
	p := c.Priors()
	want := x.solve([]float64{baseWeight / p.Sigma2, 1 / p.W2, 1 / p.W2, 1 / p.W2, 1 / p.T02, 1 / p.T02, 1 / p.T02},
		[]float64{startBase, 0, 0, 0, 0.01, 0.01, 0.01}, p.Sigma2)
	for j, k := range cs {
		got := c.Posterior(k)
		if math.Abs(got.Mean-want[4+j]) > 0.002 || math.Abs(got.Match-want[1+j]) > 0.002 {
			t.Errorf("%s: effect %.4f, match %.4f; jointly %.4f, %.4f", k.Slug, got.Mean, got.Match, want[4+j], want[1+j])
		}
	}
	n, sum := c.Baseline("x")
	if base := (sum + startBase*baseWeight) / (n + baseWeight); math.Abs(base-want[0]) > 0.002 {
		t.Errorf("baseline %.4f, jointly %.4f", base, want[0])
	}
}

// equations are the normal equations of a ridge regression.
type equations struct {
	xx [][]float64
	xy []float64
}

func newEquations(n int) *equations {
	x := &equations{make([][]float64, n), make([]float64, n)}
	for i := range x.xx {
		x.xx[i] = make([]float64, n)
	}
	return x
}

func (x *equations) add(row []float64, y float64) {
	for i := range row {
		for k := range row {
			x.xx[i][k] += row[i] * row[k]
		}
		x.xy[i] += row[i] * y
	}
}

// solve eliminates (Gauss and Jordan); precision and mean are those of independent priors.
func (x *equations) solve(precision, mean []float64, sigma2 float64) []float64 {
	n := len(x.xy)
	m := make([][]float64, n)
	for i := range m {
		m[i] = make([]float64, n+1)
		for k := range n {
			m[i][k] = x.xx[i][k] / sigma2
		}
		m[i][i] += precision[i]
		m[i][n] = x.xy[i]/sigma2 + precision[i]*mean[i]
	}
	for i := range n {
		for k := range n {
			if k == i {
				continue
			}
			f := m[k][i] / m[i][i]
			for q := range m[k] {
				m[k][q] -= f * m[i][q]
			}
		}
	}
	out := make([]float64, n)
	for i := range out {
		out[i] = m[i][n] / m[i][i]
	}
	return out
}

// What is remembered moves the chooser and no number of the report.
func TestReconcileLeavesTheReportAlone(t *testing.T) {
	c := NewCounters()
	for i := range 300 {
		a := opened(t, c, i)
		c.Add(a.Closing())
		c.Add(a.Contribution(float64(i%3/2), 1))
		c.Recall(uint64(i), a) //nolint:gosec // small
	}
	before := snapshot(c)
	c.Reconcile()
	after := snapshot(c)
	if !reflect.DeepEqual(after.stats, before.stats) || !reflect.DeepEqual(after.global, before.global) {
		t.Error("a number of the report moved")
	}
	if reflect.DeepEqual(after.beliefs, before.beliefs) {
		t.Error("no belief moved")
	}
}

// The memory is bounded, a session is in it once, and as it was last.
func TestRecallIsBounded(t *testing.T) {
	c := NewCounters()
	for i := range recentSessions + 500 {
		for range 2 {
			a := &Assignment{Decided: true, Category: "x", Matched: []Match{{Arm: "a@1"}}}
			c.Recall(uint64(i), a) //nolint:gosec // small
			a.Matched = append(a.Matched, Match{Arm: "b@1", Turn: 2})
			c.Recall(uint64(i), a) //nolint:gosec // small
		}
	}
	r := c.recent
	if len(r.ring) != recentSessions || len(r.known) != recentSessions {
		t.Fatalf("%d sessions, %d known", len(r.ring), len(r.known))
	}
	for key, at := range r.known {
		if s := r.ring[at]; s.key != key || len(s.shares) != 2 || key < 500 {
			t.Fatalf("session %d stands as %+v", key, s)
		}
	}
	for _, a := range []*Assignment{{Decided: true, Category: "x", Excluded: true}, {Category: "x"}, {Decided: true}} {
		if c.Recall(math.MaxUint64, a); len(r.known) != recentSessions || r.ring[r.next].key == math.MaxUint64 {
			t.Errorf("%+v is remembered", a)
		}
	}
}

// A lesson that matched after another was picked may be the other's doing: the other's offset is without it.
func TestWhatMatchedLaterIsNotTakenOff(t *testing.T) {
	c := NewCounters()
	a := &Assignment{
		Decided: true, Category: "x", Base: 0.5, Matched: []Match{{Arm: "a@1", Del: 0.1}, {Arm: "b@1", Del: 0.2, Turn: 2}},
		Picks: []Pick{{Slug: "a", Arm: "a@1", Eps: 0.2, Injected: true, Off: 0.5, Turn: 1}},
	}
	c.Add(a.Contribution(1, 1))
	c.Recall(1, a)
	r := c.recent
	r.terms[r.names["b@1"]].worth[today].del = 0.3
	f := c.fit(r)
	f.sweep(int(r.names["a@1"]))
	if d := f.terms[r.names["a@1"]].mend[today][had]; math.Abs(d) > 1e-6 {
		t.Errorf("corrected by %v", d)
	}
	f.sweep(int(r.names["b@1"]))
	if d, m := f.terms[r.names["b@1"]].mend[today][hadNot], f.terms[r.names["a@1"]].worth[today].of(had); math.Abs(d-(0.6-0.5-m)) > 1e-6 {
		t.Errorf("corrected by %v", d)
	}
}

// Counters that are read anew go on with what was remembered, and with the correction.
func TestWhatIsRememberedOutlivesAReading(t *testing.T) {
	c := NewCounters()
	for i := range 300 {
		a := opened(t, c, i)
		c.Add(a.Contribution(float64(i%3/2), 1))
		c.Recall(uint64(i), a) //nolint:gosec // small
	}
	c.Reconcile()
	fresh := c.Clone()
	if k := lesson("a"); fresh.Posterior(k) != c.Counted(k) {
		t.Error("a copy is corrected")
	}
	fresh.Inherit(c)
	if k := lesson("a"); fresh.Posterior(k) != c.Posterior(k) || c.Posterior(k) == c.Counted(k) || len(fresh.recent.ring) != 300 {
		t.Errorf("%+v, was %+v", fresh.Posterior(k), c.Posterior(k))
	}
}

// A lesson's holdout shrinks when it is believed to help, and not before it was picked fifty times.
func TestLeaning(t *testing.T) {
	for _, k := range []struct {
		picks int
		r     float64
		want  bool
	}{{49, 0.5, false}, {50, 0.5, true}, {50, 0, false}, {400, -0.5, false}, {400, 0.1, true}} {
		c := NewCounters()
		c.Add([]Delta{{Key{"a@1", fN1, 1}, int64(k.picks) * Unit}, {Key{"a@1", fS1, 1}, fixed(k.r * float64(k.picks))}, {Key{"a@1", fNU, 1}, 1000 * Unit}})
		if p := c.Posterior(lesson("a")); p.Leaning != k.want {
			t.Errorf("%+v: %+v", k, p)
		}
	}
}

func BenchmarkReconcile(b *testing.B) {
	c, r := NewCounters(), seeded("bench")
	for i := range recentSessions {
		a := Assignment{Category: "x", Day: 10}
		in := make([]Candidate, 0, 15)
		for range 15 {
			in = append(in, lesson(fmt.Sprint("l", r.IntN(2000))))
		}
		Decide(Config{K: 3, Epsilon: 0.2, Salt: "b"}, c, &a, fmt.Sprint("s", i), in, 1)
		c.Add(a.Contribution(float64(i%2), 1))
		c.Recall(uint64(i), &a) //nolint:gosec // small
	}
	b.ReportAllocs()
	for b.Loop() {
		c.recent.fresh = math.MaxInt32
		c.Reconcile()
	}
}

// When lessons turn, what the others and the baseline are worth is not read off sessions in which the turned ones still did the
// opposite. (Corrected on both sides of a turn alike, the baseline left the unit interval within 3,000 sessions.)
func TestATurnLeavesTheOthersAlone(t *testing.T) {
	c, r := NewCounters(), seeded("turned")
	cs := lessons("a", "b", "c", "d")
	effect := map[string]float64{"a": 0.15, "b": 0.12, "c": 0, "d": 0}
	cfg := Config{K: 3, Epsilon: 0.2, Control: 0.05, Salt: "turned"}
	for i := range 8000 {
		if i == 4000 {
			effect["a"], effect["b"] = -0.12, -0.12
		}
		a := Assignment{Category: "x", Day: 10}
		var in []Candidate
		for j := range cs {
			if r.Float64() < 0.6 {
				in = append(in, cs[j])
			}
		}
		chance := 0.5
		for _, p := range Decide(cfg, c, &a, fmt.Sprint("s", i), in, 1) {
			if p.Injected {
				chance += effect[p.Slug]
			}
		}
		y := 0.0
		if r.Float64() < chance {
			y = 1
		}
		c.Add(a.Contribution(y, 1))
		c.Recall(uint64(i), &a) //nolint:gosec // small
		if i%20 == 0 {
			c.Reconcile()
		}
		if i%RefitEvery == 0 {
			c.SetPriors(c.Refit())
		}
	}
	n, sum := c.Baseline("x")
	if base := sum / n; math.Abs(base-0.5) > 0.05 {
		t.Errorf("baseline %.3f", base)
	}
	for _, k := range cs {
		p := c.Posterior(k)
		if is := effect[k.Slug]; math.Abs(p.Mean-is) > 0.12 || math.Abs(p.Match) > 0.08 || is < 0 && p.Mean > 0 {
			t.Errorf("%s: effect %.3f, match %.3f, and it is %.2f", k.Slug, p.Mean, p.Match, is)
		}
	}
}

// Which sessions lie before a turn follows from the order in which they were told, in whatever order they closed; of a standing that
// is the end of a day, from their days.
func TestBeforeATurn(t *testing.T) {
	c := NewCounters()
	for i := range 100 {
		a := &Assignment{Decided: true, Category: "x", Day: int32(i / 50)} //nolint:gosec // small
		c.Recall(uint64(i), a)                                             //nolint:gosec // small
	}
	again := &Assignment{Decided: true, Category: "x"}
	c.Recall(3, again)                  // goes on: it stays where it was
	c.RecallEarlier(math.MaxInt, again) // found last, and older than all
	r := c.recent
	for name, k := range map[string]struct {
		at   standing
		want int
	}{"told": {standing{told: 30, day: 1}, 31}, "day": {standing{day: 0, told: wholeDays}, 51}, "an earlier run": {standing{day: 1}, 1}} {
		n := 0
		for i := range r.ring {
			if k.at.before(&r.ring[i]) {
				n++
			}
		}
		if n != k.want {
			t.Errorf("%s: %d before, want %d", name, n, k.want)
		}
	}
}

// The walk over the past goes back as far as the memory reaches: a day more than the latest 10,000 closed sessions took, four weeks
// at most.
func TestRecallSpan(t *testing.T) {
	const day = 24 * time.Hour
	for rate, want := range map[int64]time.Duration{0: 28 * day, 10: 28 * day, 357: 28 * day, 1000: 11 * day, 20_000: 36 * time.Hour} {
		c := NewCounters()
		c.Advance(100, 30)
		for d := range int32(28) {
			c.Add([]Delta{{Key{"", fClosed, 100 - d}, rate * Unit}})
		}
		if got := c.RecallSpan(); got != want {
			t.Errorf("%d a day: %v, want %v", rate, got, want)
		}
	}
}

// What a replica reads of the others' counters lies after what it was told so far, and before what it is told from then on.
func TestAReadingIsAStandingOfItsMoment(t *testing.T) {
	c := NewCounters()
	for i := range 70 {
		a := &Assignment{Decided: true, Category: "x"}
		c.Recall(uint64(i), a) //nolint:gosec // small
	}
	fresh := NewCounters()
	season(fresh, 3, 100, 0.1)
	fresh.Inherit(c)
	m := fresh.arms["a@1"].marks.list
	if len(m) == 0 || m[0].told != 70 {
		t.Errorf("%+v", m)
	}
}

// A lesson that is clearly believed to help after enough picks is hardly ever withheld, and as often as any other as soon as it is not
// believed to: a harmful one that was lucky early would be found out ten times as slowly.
func TestTrustEndsWithTheBelief(t *testing.T) {
	for _, k := range []struct {
		picks int64
		mean  float64
		want  bool
	}{{400, 0.5, true}, {400, 0.06, true}, {400, 0.03, false}, {400, -0.5, false}, {150, 0.5, false}} {
		c := NewCounters()
		c.Add([]Delta{
			{Key{"a@1", fN1, 1}, k.picks * Unit},
			{Key{"a@1", fS1, 1}, fixed(k.mean * float64(k.picks))},
			{Key{"a@1", fNU, 1}, 4000 * Unit},
		})
		if p := c.Posterior(lesson("a")); p.Trusted != k.want {
			t.Errorf("%+v: %+v, %v standard deviations", k, p, p.Mean/math.Sqrt(p.Var))
		}
	}
}

// hadA is a session of day 3 that had lesson a, of which so much was expected without it.
func hadA(expected float64) *Assignment {
	return &Assignment{
		Decided: true, Category: "x", Base: expected, Day: 3, Matched: []Match{{Arm: "a@1"}},
		Picks: []Pick{{Slug: "a", Arm: "a@1", Eps: 0.2, Injected: true, Off: expected}},
	}
}

// A mark counts what open sessions have told, as the order of the told does; the end of a day is none of a number.
func TestStandings(t *testing.T) {
	c := NewCounters()
	a := hadA(0.5)
	season(c, 3, 40, 0.1)
	for i := range 20 {
		c.Foresee(a, 1, 1)
		c.Recall(uint64(i), a) //nolint:gosec // small
	}
	c.Add([]Delta{{Key{"a@1", fN1, 3}, 0}})
	m := c.arms["a@1"].marks.list
	if len(m) != 1 || m[0].v[iN1] != 60*Unit || m[0].told != 20 {
		t.Errorf("%+v", m)
	}
	days := &arm{}
	for d := range int32(2) {
		sign := 1 - 2*int64(d)
		b := days.bucket(d)
		b.v[iN1], b.v[iS1] = 500*Unit, sign*100*Unit
		days.total[iN1], days.total[iS1] = days.total[iN1]+b.v[iN1], days.total[iS1]+b.v[iS1]
	}
	if at, found := days.turn(); !found || at.told != wholeDays || at.day != 0 {
		t.Errorf("%v %+v", found, at)
	}
}

// Of a lesson that has just turned, the time before is believed to be what it was believed to be worth so far, and a twentieth of what
// corrects that time still counts.
func TestBothSidesOfATurn(t *testing.T) {
	c := NewCounters()
	a := hadA(0.3)
	c.Recall(1, a)
	season(c, 3, 800, 0.1)
	season(c, 3, 800, -0.1)
	r := c.recent
	i := int(r.names["a@1"])
	r.terms[i].worth[today] = worth{del: 0.02, m: 0.1}
	f := c.fit(r)
	if x := &f.terms[i]; x.turn == nil || x.worth[earlier] != x.worth[today] || x.in[0].era != earlier {
		t.Fatalf("%+v", x)
	}
	f.sweep(i)
	m := &f.terms[i].mend
	if m[earlier][had] == 0 || math.Abs(m[today][had]-turnKeep*m[earlier][had]) > 1e-9 {
		t.Errorf("%+v", m)
	}
}

// The model-based columns of the report are of the counters alone: the order in which rewards were told, what open sessions told,
// and what this process remembers are the chooser's. To ask for them does not move the chooser.
func TestCountedIsOfTheCountersAlone(t *testing.T) {
	k := lesson("a")
	turned, mixed := NewCounters(), NewCounters()
	for i := range 20 {
		level := 0.1
		if i >= 10 {
			level = -0.1
		}
		season(turned, 3, 100, level)
		season(mixed, 3, 100, 0.1-0.2*float64(i%2))
	}
	if a, b := turned.Posterior(k), mixed.Posterior(k); a.Mean > b.Mean-0.01 {
		t.Fatalf("no turn was seen: %+v, %+v", a, b)
	}
	want := mixed.Counted(k)
	if got := turned.Counted(k); got != want {
		t.Errorf("told in another order: %+v, want %+v", got, want)
	}
	before := mixed.Posterior(k)
	mixed.Foresee(hadA(0.5), 1, 1)
	if got := mixed.Counted(k); got != want {
		t.Errorf("an open session told: %+v, want %+v", got, want)
	}
	if got := mixed.Posterior(k); got == before {
		t.Error("the chooser has learned nothing of the open session")
	}
	asked := mixed.arms[k.Arm].mu0
	other := k
	other.Confidence = 1
	if mixed.Counted(other); mixed.arms[k.Arm].mu0 != asked {
		t.Error("the report moved the chooser")
	}
	if mixed.Posterior(other); mixed.arms[k.Arm].mu0 <= asked {
		t.Error("a correction does not start from what the chooser starts from")
	}
}

// What is believed of an heir at an earlier day rests on the counters of its parent alone, as the rest of its row does.
func TestAnHeirsPastIsOfTheCountersAlone(t *testing.T) {
	c := NewCounters()
	season(c, 3, 400, 0.1)
	heir := lesson("heir")
	heir.Parent = "a@1"
	before := c.MeanAt(heir, 4)
	c.Foresee(hadA(0.5), 1, 1)
	if got := c.MeanAt(heir, 4); got != before || before <= minMu0 {
		t.Errorf("%v, was %v", got, before)
	}
}
