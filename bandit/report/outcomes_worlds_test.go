//go:build !race

package report_test

import (
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"strconv"
	"testing"

	"precept/bandit/report"
	"precept/bandit/trial"
)

type preventionWorld struct {
	r            *rand.Rand
	epsilon      float64 // probability that a picked lesson is withheld
	lessons      []report.Lesson
	base         []float64           // probability that the error recurs without the lesson
	reductions   []float64           // reduction in this probability
	gains        []float64           // increase in the success rate
	waiting      []*trial.Assignment // open sessions, with one pick each
	count        *trial.Counters
	sessionCount int
}

// openPicks is the number of open sessions, with one pick each.
const openPicks = 200

func newPreventionWorld(seed string, lessons int, reductions []float64, eps float64) *preventionWorld {
	w := &preventionWorld{r: seededRand(seed), epsilon: eps, count: trial.NewCounters()}
	for j := range lessons {
		w.lessons = append(w.lessons, newLessons(fmt.Sprintf("l%02d", j))...)
		reduction := reductions[j%len(reductions)]
		w.reductions = append(w.reductions, reduction)
		w.base = append(w.base, reduction+0.1+(0.8-reduction)*w.r.Float64())
		w.gains = append(w.gains, 0.05*w.r.Float64())
		if reduction == 0 {
			w.gains[j] = 0
		}
	}
	return w
}

// pick simulates a session with a pick of lesson j. If more than openPicks sessions are then open, it closes the
// oldest.
func (w *preventionWorld) pick(j int) {
	w.sessionCount++
	name := strconv.Itoa(w.sessionCount)
	a := &trial.Assignment{Decided: true, Day: 20000}
	k := w.lessons[j].Arm
	a.Flip("salt"+strconv.Itoa(w.r.IntN(1<<30)), name, trial.Pick{Slug: k.Slug(), Arm: k, Eps: w.epsilon, Centre: 0.5})
	p := &a.Picks[0]
	p.Measurement = w.count.NewMeasurement(k, p.Eps, trial.NewOutcomeSet(trial.Recurrence, trial.Tokens), trial.Totals{})
	recurrence, success := w.base[j], 0.5
	if p.Injected {
		recurrence -= w.reductions[j]
		success += w.gains[j]
	}
	p.Measurement.Recurred = w.r.Float64() < recurrence
	a.Observe(trial.Totals{Tokens: int64(10_000 * math.Exp(w.r.NormFloat64()))})
	if w.r.Float64() < success {
		a.RewardAtClose = &trial.RewardAtClose{Y: 1, Tier: 2}
	} else {
		a.RewardAtClose = &trial.RewardAtClose{Tier: 2}
	}
	w.waiting = append(w.waiting, a)
	if len(w.waiting) > openPicks {
		old := w.waiting[0]
		w.waiting = w.waiting[1:]
		w.count.Add(old.ClosingDeltas())
		w.count.Add(old.Contribution(old.RewardAtClose.Y, 2))
	}
}

// findingCounts counts the findings about a group of lessons that all lower recurrence by the same amount.
type findingCounts struct {
	lessons int
	proven  int // proofs that recurrence falls
	fewer   int // findings, not proofs, that recurrence falls
	wrong   int // findings that recurrence rises, or that it falls with a lesson that prevents nothing
	tokens  int // findings about tokens, all wrong, because no lesson changes the tokens
	reward  int // verdicts that the lesson helps
}

// run simulates picks and adds the findings after each number of picks to the map findings. The keys are the reduction
// in recurrence that a lesson causes, in points, and the number of picks per lesson.
func (w *preventionWorld) run(picks []int, findings map[[2]int]*findingCounts) {
	done := 0
	for _, until := range picks {
		for ; done < until; done++ {
			for j := range w.lessons {
				w.pick(j)
			}
		}
		got := report.Build(report.Input{Counters: w.count, Lessons: w.lessons})
		for j := range got.Lessons {
			row := &got.Lessons[j]
			at := [2]int{int(math.Round(100 * w.reductions[j])), until}
			if findings[at] == nil {
				findings[at] = &findingCounts{}
			}
			s := findings[at]
			s.lessons++
			if row.Verdict == report.ProvenHelps || row.Verdict == report.Helps {
				s.reward++
			}
			for _, o := range row.Outcomes {
				d := o.Verdict.Direction()
				switch {
				case o.Name == "tokens" && d != 0:
					s.tokens++
				case o.Name != "recurrence" || d == 0:
				case d > 0 || w.reductions[j] == 0:
					s.wrong++
				case o.Verdict.Proven():
					s.proven++
				default:
					s.fewer++
				}
			}
		}
	}
}

// The lessons lower recurrence by 0, 20 or 40 points. The numbers in docs/decisions come from this test with WORLDS=60.
func TestRecurrenceProvesPreventionWithin300Picks(t *testing.T) {
	worlds := 3
	if n, err := strconv.Atoi(os.Getenv("WORLDS")); err == nil {
		worlds = n
	}
	picks := []int{100, 300, 1000}
	for _, eps := range []float64{0.2, 0.5} {
		for name, falls := range map[string][]float64{"mixed": {0, 0, 0.2, 0.4}, "null": {0}} {
			findings := map[[2]int]*findingCounts{}
			for i := range worlds {
				newPreventionWorld(fmt.Sprintf("%s-%g-%d", name, eps, i), 20, falls, eps).run(picks, findings)
			}
			if s := findings[[2]int{40, 300}]; s != nil && 10*s.proven < 9*s.lessons {
				t.Errorf("%s worlds, epsilon %g: lessons with a proof after 300 picks, if recurrence falls by 40 points: got %d of %d, want at least 90%%", name, eps, s.proven, s.lessons)
			}
			for _, n := range picks {
				right, wrong := 0, 0
				for _, fall := range []int{0, 20, 40} {
					if s := findings[[2]int{fall, n}]; s != nil {
						right, wrong = right+s.proven+s.fewer, wrong+s.wrong
					}
				}
				if 10*(wrong-2) > right { // tolerates two wrong findings
					t.Errorf("%s worlds, epsilon %g: got %d right and %d wrong findings after %d picks, want at most 2 wrong findings plus 1 for every 10 right ones", name, eps, right, wrong, n)
				}
			}
			for _, fall := range []int{0, 20, 40} {
				for _, n := range picks {
					if s := findings[[2]int{fall, n}]; s != nil {
						t.Logf("%s, eps %.1f, fall %2d, picks %4d: %d lessons, proven %d, fewer %d, wrong %d, wrong about tokens %d, reward %d", name, eps, fall, n, s.lessons, s.proven, s.fewer, s.wrong, s.tokens, s.reward)
					}
				}
			}
		}
	}
}
