package report_test

import (
	"math"
	"math/rand/v2"
	"testing"
	"time"

	"precept/bandit/report"
	"precept/bandit/trial"
)

// newSurvey returns a survey (the effect per group of sessions) of a lesson that helps the agent "coder" by 30 points
// and has no effect on the agent "writer".
func newSurvey(n int, seed uint64) *report.Survey {
	r := rand.New(rand.NewPCG(seed, 1))
	s := report.NewSurvey(time.Unix(1e9, 0))
	for i := range n {
		agent, lift := "coder", 0.3
		if i%2 == 1 {
			agent, lift = "writer", 0
		}
		injected := r.Float64() < 0.7
		p := 0.4
		if injected {
			p += lift
		}
		y := 0.0
		if r.Float64() < p {
			y = 1
		}
		s.Add(&trial.Assignment{Decided: true, Category: agent + "|gpt-5|m", Picks: []trial.Pick{{Arm: "l@abc", Injected: injected, Eps: 0.3, Centre: 0.5}}}, y)
	}
	return s
}

func TestSurveyFindsEffectPerAgent(t *testing.T) {
	missed := 0
	for seed := range uint64(20) {
		cells, shown := newSurvey(4000, seed).Cells(report.ByAgent)
		if shown != 2 || len(cells) != 2 {
			t.Fatalf("seed %d: got %d cells, of which %d are shown, want 2 cells, both shown", seed, len(cells), shown)
		}
		for _, c := range cells {
			want := map[string]float64{"coder": 0.3, "writer": 0}[c.Value]
			if c.Lo > want || c.Hi < want {
				missed++ // expected for 1 in 40 intervals, because the level is 97.5%
			}
			if math.Abs(c.Effect-want) > 0.12 || want > 0 && c.Lo <= 0 {
				t.Errorf("%s: cell = %+v, want an effect at most 0.12 from %v, and an interval above 0 if the true effect is above 0", c.Value, c, want)
			}
			if other := 0.3 - want; math.Abs(c.Shrunken-other) > math.Abs(c.Effect-other) {
				t.Errorf("%s: Effect = %v, Shrunken = %v, want Shrunken nearer to %v, the effect on the other agent", c.Value, c.Effect, c.Shrunken, other)
			}
		}
	}
	if missed > 5 {
		t.Errorf("intervals that exclude the true effect: got %d of 40, want at most 5", missed)
	}
	s := newSurvey(4000, 1)
	if r := s.Rewards("l"); r == nil || r.Injected[0]+r.Injected[9]+r.Withheld[0]+r.Withheld[9] != 4000 || r.Injected[9] < 1000 {
		t.Errorf("Rewards(l) = %+v, want 4000 sessions, at least 1000 injected with reward 1", r)
	}
	if r := s.Rewards("unknown"); r != nil || s.Sessions != 4000 {
		t.Errorf("Rewards(unknown) = %+v, Sessions = %d, want nil and 4000", r, s.Sessions)
	}
}

// A survey shows no cell with too few sessions. Excluded and unrewarded sessions do not count.
func TestSurveyShowsNoCellWithLittleData(t *testing.T) {
	s := newSurvey(40, 2)
	s.Add(&trial.Assignment{Excluded: true, Decided: true}, 1)
	s.Add(&trial.Assignment{Decided: true}, math.NaN())
	cells, shown := s.Cells(report.ByAgent)
	if shown != 0 || len(cells) != 2 || cells[0].HasEffect || s.Sessions != 40 {
		t.Errorf("got %d shown cells in %+v, Sessions = %d, want two cells that are not shown, and 40 sessions", shown, cells, s.Sessions)
	}
}

// The test makes 200 surveys of 20 lessons that have no effect. At most 22 surveys may contain an interval that
// excludes 0.
func TestSurveyIsCorrectedForManyCells(t *testing.T) {
	wrong := 0
	for seed := range 200 {
		r := rand.New(rand.NewPCG(uint64(seed), 7))
		s := report.NewSurvey(time.Unix(1e9, 0))
		for range 20 * 120 {
			arm := trial.Arm(string(rune('a'+r.IntN(20))) + "@1")
			y := float64(r.IntN(2))
			s.Add(&trial.Assignment{Decided: true, Category: "x|y|m", Picks: []trial.Pick{{Arm: arm, Injected: r.IntN(2) == 0, Eps: 0.5, Centre: 0.5}}}, y)
		}
		cells, _ := s.Cells(report.ByModel)
		for _, c := range cells {
			if c.Lo > 0 || c.Hi < 0 {
				wrong++
				break
			}
		}
	}
	if wrong > 22 {
		t.Errorf("surveys with an interval that excludes 0: got %d of 200, want at most 22", wrong)
	}
}
