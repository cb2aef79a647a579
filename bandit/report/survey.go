package report

import (
	"cmp"
	"math"
	"slices"
	"strings"
	"time"

	"precept/bandit/trial"
)

// Survey collects facts from stored sessions that the counters do not hold: the distribution of rewards with a lesson
// injected and withheld, and the effects for one agent, model or task length. It gives no verdict.
type Survey struct {
	Since    time.Time // earliest possible session start
	Sessions int64     // closed and rewarded sessions
	Complete bool      // whether all stored sessions were read
	Made     time.Time

	rewards  map[string]*Rewards // by slug
	cells    map[cellKey]*sums   // sums of z; the mean z is the effect
	examples map[trial.Arm]LessonSession
}

// LessonSession is a session with one lesson version.
type LessonSession struct {
	Session string
	Began   time.Time
}

// Rewards holds, for each reward in steps of 0.1, the number of sessions in which a lesson was picked.
type Rewards struct{ Injected, Withheld [10]int64 }

// A survey groups the sessions by one of these dimensions.
const (
	ByAgent  = "agent"
	ByModel  = "model"
	ByLength = "length"
)

type cellKey struct{ dimension, value, slug string }

// Cell is a lesson's effect in a part of the sessions. An empty Slug means all lessons together, against control.
type Cell struct {
	Value, Slug        string
	Injected, Withheld int64
	Effect, Lo, Hi     float64 // the interval is widened for the number of cells shown
	Shrunken           float64 // Effect, shrunk towards the mean over the lesson's cells
	HasEffect          bool    // enough data to show the cell
}

// NewSurvey returns an empty survey.
func NewSurvey(now time.Time) *Survey {
	return &Survey{
		Made: now, Since: now, rewards: map[string]*Rewards{}, cells: map[cellKey]*sums{},
		examples: map[trial.Arm]LessonSession{},
	}
}

// AddExample records the session as the example for each injected text, unless a newer session is recorded.
func (s *Survey) AddExample(a *trial.Assignment, session string, began time.Time) {
	for i := range a.Picks {
		p := &a.Picks[i]
		if p.Injected && !began.Before(s.examples[p.Arm].Began) {
			s.examples[p.Arm] = LessonSession{session, began}
		}
	}
}

// Example returns an example session for an arm's text.
func (s *Survey) Example(arm string) (LessonSession, bool) {
	example, ok := s.examples[trial.Arm(arm)]
	return example, ok
}

// Add adds a closed and rewarded session.
func (s *Survey) Add(a *trial.Assignment, y float64) {
	if a.Excluded || !a.Decided || math.IsNaN(y) {
		return
	}
	s.Sessions++
	y = min(max(y, 0), 1)
	if a.InComparison() {
		s.addCentred(a, "", y-a.Centre, !a.Control, a.ControlP)
	}
	for i := range a.Picks {
		p := &a.Picks[i]
		slug := p.Arm.Slug()
		s.addReward(slug, y, p.Injected)
		s.addCentred(a, slug, y-p.Centre, p.Injected, p.Eps)
	}
}

func (s *Survey) addReward(slug string, y float64, injected bool) {
	r := s.rewards[slug]
	if r == nil {
		r = &Rewards{}
		s.rewards[slug] = r
	}
	arm := &r.Withheld
	if injected {
		arm = &r.Injected
	}
	arm[min(int(y*10), 9)]++
}

func (s *Survey) addCentred(a *trial.Assignment, slug string, centredReward float64, injected bool, eps float64) {
	z, ok := trial.Z(centredReward, injected, eps)
	if !ok {
		return
	}
	agent, model, length := trial.CategoryParts(a.Category)
	for _, k := range [...]cellKey{{ByAgent, agent, slug}, {ByModel, model, slug}, {ByLength, length, slug}} {
		c := s.cells[k]
		if c == nil {
			c = &sums{}
			s.cells[k] = c
		}
		c.count, c.sum, c.sumOfSquares = c.count+1, c.sum+z, c.sumOfSquares+z*z
		if injected {
			c.injected++
		} else {
			c.withheld++
		}
	}
}

// Rewards returns a lesson's reward distribution, or nil for an unknown lesson.
func (s *Survey) Rewards(slug string) *Rewards { return s.rewards[slug] }

// Cells returns the effects by one dimension (ByAgent, ByModel or ByLength), most sessions first. shown is the number
// of cells with enough data; the intervals have level 1 - 0.05/shown (Bonferroni).
func (s *Survey) Cells(dimension string) (cells []Cell, shown int) {
	bySlug := map[string][]int{}
	for k, c := range s.cells {
		if k.dimension != dimension {
			continue
		}
		x := Cell{
			Value: k.value, Slug: k.slug, Injected: int64(c.injected), Withheld: int64(c.withheld),
			HasEffect: trial.EnoughForInterval(c.count, c.injected, c.withheld),
		}
		if x.HasEffect {
			shown++
		}
		cells = append(cells, x)
	}
	slices.SortFunc(cells, func(x, y Cell) int {
		return cmp.Or(
			cmp.Compare(y.Injected+y.Withheld, x.Injected+x.Withheld),
			strings.Compare(x.Slug, y.Slug), strings.Compare(x.Value, y.Value),
		)
	})
	wide := widenedHalfWidth(shown)
	variances := make([]float64, len(cells))
	for i := range cells {
		x := &cells[i]
		if !x.HasEffect {
			continue
		}
		c := s.cells[cellKey{dimension, x.Value, x.Slug}]
		x.Effect, variances[i] = c.effect(), c.variance()/c.count
		h := wide * math.Sqrt(variances[i])
		x.Lo, x.Hi = x.Effect-h, x.Effect+h
		bySlug[x.Slug] = append(bySlug[x.Slug], i)
	}
	for _, list := range bySlug {
		shrink(cells, variances, list)
	}
	return cells, shown
}

// shrink moves one lesson's effects, in the cells at cellIndices, towards their mean. The less the cells differ beyond
// chance, the further the effects move.
func shrink(cells []Cell, variances []float64, cellIndices []int) {
	effects, ownVariances := make([]float64, len(cellIndices)), make([]float64, len(cellIndices))
	for i, cell := range cellIndices {
		effects[i], ownVariances[i] = cells[cell].Effect, variances[cell]
	}
	mean, between := trial.BetweenVariance(effects, ownVariances)
	for i, cell := range cellIndices {
		weight := between / (between + ownVariances[i])
		cells[cell].Shrunken = weight*effects[i] + (1-weight)*mean
	}
}

// widenedHalfWidth returns an interval's half-width in standard errors, corrected for the number of intervals
// (Bonferroni).
func widenedHalfWidth(shown int) float64 {
	return math.Sqrt2 * math.Erfinv(1-trial.Alpha/float64(max(shown, 1)))
}
