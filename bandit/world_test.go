package bandit_test

import (
	"fmt"
	"hash/fnv"
	"math"
	"math/rand/v2"
	"testing"

	"precept/bandit"
	"precept/bandit/trial"
)

// world simulates sessions and rewards for lessons with known effects.
type world struct {
	lessons []simulatedLesson
	rng     *rand.Rand
	matches int // mean number of matching lessons per session
}

// simulatedLesson is a lesson with a known effect. If hard is positive, the lesson matches hard sessions more often.
type simulatedLesson struct {
	bandit.Action
	effect, hard float64
}

func seededRand(text string) *rand.Rand {
	h := fnv.New64a()
	h.Write([]byte(text))
	return rand.New(rand.NewPCG(h.Sum64(), 1)) //nolint:gosec // the tests need repeatable numbers
}

// newWorld returns a world in which a third of the lessons help, a third harm, and a third have no effect. If contrary
// is true, the helpful lessons match hard sessions, so a comparison of raw success rates gives the wrong sign.
func newWorld(n int, contrary bool, seed string) *world {
	w := &world{rng: seededRand(seed), matches: 3}
	for j := range n {
		l := simulatedLesson{Action: lesson(fmt.Sprintf("lesson-%d", j))}
		switch j % 3 {
		case 0:
			l.effect = 0.05 + 0.06*w.rng.Float64()
		case 1:
			l.effect = -0.05 - 0.06*w.rng.Float64()
		}
		if contrary {
			l.hard = math.Copysign(1, l.effect)
		}
		w.lessons = append(w.lessons, l)
	}
	return w
}

// drawSession returns a new session's success rate without lessons, and the indices of the matching lessons.
func (w *world) drawSession() (baseRate float64, matched []int) {
	d := w.rng.NormFloat64()
	for j := range w.lessons {
		p := float64(w.matches) / float64(len(w.lessons)) * math.Exp(0.7*w.lessons[j].hard*d-0.25*w.lessons[j].hard*w.lessons[j].hard)
		if w.rng.Float64() < p {
			matched = append(matched, j)
		}
	}
	return min(max(0.5-0.15*d, 0.15), 0.85), matched
}

// successRate returns the success rate of a session with the injected lessons.
func (w *world) successRate(baseRate float64, ps []trial.Pick, bySlug map[string]int) float64 {
	for _, p := range ps {
		if p.Injected {
			baseRate += w.lessons[bySlug[p.Slug]].effect
		}
	}
	return min(max(baseRate, 0.01), 0.99)
}

func (w *world) index() map[string]int {
	out := map[string]int{}
	for j := range w.lessons {
		out[w.lessons[j].Slug] = j
	}
	return out
}

// simulateLater simulates n sessions on day 40 and returns the mean gain over sessions without lessons.
func (w *world) simulateLater(cfg bandit.Config, c *bandit.Chooser, n int) (gain float64) {
	index := w.index()
	for i := range n {
		baseRate, matched := w.drawSession()
		actions := make([]bandit.Action, 0, len(matched))
		for _, j := range matched {
			actions = append(actions, w.lessons[j].Action)
		}
		a := trial.Assignment{Category: "x", Day: 40}
		p := w.successRate(baseRate, bandit.Decide(cfg, c, &a, "later-"+unitName(i), actions, 1), index)
		gain += (p - baseRate) / float64(n)
		y := 0.0
		if w.rng.Float64() < p {
			y = 1
		}
		c.Add(bandit.Contribution(&a, y, 1))
	}
	return gain
}

// simulate returns the mean gain over sessions without lessons, in the second half of n sessions.
func (w *world) simulate(cfg bandit.Config, c *bandit.Chooser, n int) (gain float64) {
	index := w.index()
	rewards := 0
	for i := range n {
		baseRate, matched := w.drawSession()
		actions := make([]bandit.Action, 0, len(matched))
		for _, j := range matched {
			actions = append(actions, w.lessons[j].Action)
		}
		a := trial.Assignment{Category: "x", Day: int32(i / 2000)}
		ps := bandit.Decide(cfg, c, &a, unitName(i), actions, 1)
		p := w.successRate(baseRate, ps, index)
		if i >= n/2 {
			gain += (p - baseRate) / float64(n-n/2)
		}
		y := 0.0
		if w.rng.Float64() < p {
			y = 1
		}
		c.Add(a.ClosingDeltas())
		c.Add(bandit.Contribution(&a, y, 1))
		if rewards++; rewards%bandit.RefitEvery == 0 {
			c.SetPriors(c.Refit())
		}
	}
	return gain
}

func chooserWithLessons(n int) *bandit.Chooser {
	c := bandit.New()
	r := seededRand("grown")
	for j := range n {
		arm := fmt.Sprintf("lesson-%d@1", j)
		for day := range int32(60) {
			k := int64(1 + r.IntN(5))
			c.Add([]trial.Delta{
				delta(arm, "n1", day, k*trial.FixedScale),
				delta(arm, "s1", day, r.Int64N(trial.FixedScale)),
				delta(arm, "n0", day, trial.FixedScale),
				delta(arm, "s0", day, r.Int64N(trial.FixedScale/2)),
				delta(arm, "nu", day, 3*trial.FixedScale),
				delta(arm, "su", day, r.Int64N(trial.FixedScale)),
			})
		}
	}
	c.Advance(60, 30)
	return c
}

func BenchmarkAdd(b *testing.B) {
	c := chooserWithLessons(2000)
	a := sampleAssignment()
	ds := append(a.ClosingDeltas(), bandit.Contribution(&a, 1, 1)...)
	b.ReportAllocs()
	for b.Loop() {
		c.Add(ds)
	}
}
