package trial_test

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"precept/bandit/trial"
)

type lessonDraw struct {
	arm      trial.Arm
	picked   bool
	injected bool
	turn     int
	tokens   int
}

type sessionDraw struct {
	day         int32
	control     bool
	lessons     []lessonDraw
	rewarded    bool
	reward      float64
	tier        int
	tierAtClose int // -1 means no reward
	refused     bool
}

const (
	holdout      = 0.25  // a power of 2, so that sums are exact
	controlShare = 0.125 // share of control sessions
)

func drawSessions(t *rapid.T) []sessionDraw {
	genSession := rapid.Custom(func(t *rapid.T) sessionDraw {
		s := sessionDraw{
			day: rapid.Int32Range(100, 104).Draw(t, "day"), control: rapid.IntRange(0, 7).Draw(t, "control") == 0, rewarded: rapid.Bool().Draw(t, "rewarded"),
			reward: rapid.SampledFrom([]float64{0, 0.25, 0.5, 0.75, 1}).Draw(t, "y"), tier: rapid.IntRange(0, 4).Draw(t, "tier"), refused: rapid.IntRange(0, 5).Draw(t, "refused") == 0,
			tierAtClose: rapid.IntRange(-1, 4).Draw(t, "tier at close"),
		}
		for i := range rapid.IntRange(0, 3).Draw(t, "lessons") {
			l := lessonDraw{arm: trial.Arm(fmt.Sprintf("lesson-%d@1", i)), picked: rapid.Bool().Draw(t, "picked"), turn: rapid.IntRange(1, 2).Draw(t, "turn"), tokens: rapid.IntRange(0, 50).Draw(t, "tokens")}
			l.injected = l.picked && !s.control && rapid.Bool().Draw(t, "injected")
			l.picked = l.picked && !s.control
			s.lessons = append(s.lessons, l)
		}
		return s
	})
	return rapid.SliceOfN(genSession, 1, 30).Draw(t, "sessions")
}

func (s *sessionDraw) assignment() *trial.Assignment {
	a := &trial.Assignment{Decided: true, Graded: true, Control: s.control, ControlP: controlShare, Category: "c", Base: 0.5, Centre: 0.5, Day: s.day, Refused: s.refused}
	if s.tierAtClose >= 0 {
		a.RewardAtClose = &trial.RewardAtClose{Y: s.reward, Tier: s.tierAtClose}
	}
	for _, l := range s.lessons {
		a.Matched = append(a.Matched, trial.Match{Arm: l.arm})
		if l.picked {
			a.Picks = append(a.Picks, trial.Pick{Slug: l.arm.Slug(), Arm: l.arm, Eps: holdout, Injected: l.injected, Offset: 0.5, Centre: 0.5, Turn: l.turn, Tokens: l.tokens})
		}
	}
	return a
}

func countersFor(list []sessionDraw) *trial.Counters {
	c := trial.NewCounters()
	c.Advance(104)
	for i := range list {
		a := list[i].assignment()
		c.Add(a.ClosingDeltas())
		if list[i].rewarded {
			c.Add(a.Contribution(list[i].reward, list[i].tier))
		}
	}
	return c
}

// assertNear fails the test if two numbers differ by more than a rounding error.
func assertNear(t *rapid.T, subject string, got, want float64) {
	t.Helper()
	if math.Abs(got-want) > 1e-5 {
		t.Fatalf("%s = %v, want %v", subject, got, want)
	}
}

func TestStatsEqualDirectCounts(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		list := drawSessions(t)
		c := countersFor(list)
		for i := range 3 {
			arm := trial.Arm(fmt.Sprintf("lesson-%d@1", i))
			var want trial.Stats
			stratum := trial.Stratum{Eps: holdout}
			days := map[int32]trial.DayStats{}
			for _, s := range list {
				for _, l := range s.lessons {
					if l.arm != arm {
						continue
					}
					want.Matched++
					if s.rewarded && !l.picked {
						d := days[s.day]
						days[s.day] = d // a match without a pick also adds the day
					}
					if !l.picked {
						continue
					}
					want.Picked++
					side := 0 // 1 means injected
					if l.injected {
						side = 1
						want.Tokens += int64(l.tokens)
					}
					stratum.Assigned[side]++
					if s.tierAtClose >= 0 {
						stratum.RewardedAtClose[side][s.tierAtClose%4]++
					}
					if s.refused {
						want.Refused[side]++
					}
					if !s.rewarded {
						continue
					}
					want.N++
					stratum.Rewarded[side][s.tier%4]++
					stratum.Y[side] += s.reward
					stratum.GradedN[side]++
					stratum.GradedY[side] += s.reward
					stratum.Graded[side] += s.reward * (1 - s.reward)
					if s.tierAtClose < 0 {
						stratum.Late[side]++
					}
					z := -(s.reward - 0.5) / holdout
					if l.injected {
						z = (s.reward - 0.5) / (1 - holdout)
						want.Rewards.M1, want.Rewards.Y1 = want.Rewards.M1+1, want.Rewards.Y1+s.reward
						want.Rewards.Better, want.Rewards.Worse = want.Rewards.Better+max(0, s.reward-0.5), want.Rewards.Worse+max(0, 0.5-s.reward)
						if s.reward >= 0.5 {
							want.Rewards.Success++
						} else {
							want.Rewards.Failure++
						}
					} else {
						want.Rewards.M0, want.Rewards.Y0 = want.Rewards.M0+1, want.Rewards.Y0+s.reward
					}
					want.Z, want.ZZ = want.Z+z, want.ZZ+z*z
					d := days[s.day]
					d.N, d.Z, d.ZZ, d.N1, d.N0 = d.N+1, d.Z+z, d.ZZ+z*z, d.N1+float64(side), d.N0+float64(1-side)
					days[s.day] = d
				}
			}
			got := c.Stats(arm)
			for i := range got.Strata {
				assertNear(t, "injected sessions: summed y (1-y)", got.Strata[i].Graded[1], stratum.Graded[1])
				assertNear(t, "withheld sessions: summed y (1-y)", got.Strata[i].Graded[0], stratum.Graded[0])
				stratum.Graded = got.Strata[i].Graded
			}
			if len(got.Strata) > 1 || len(got.Strata) == 1 && got.Strata[0] != stratum || len(got.Strata) == 0 && want.Picked > 0 {
				t.Fatalf("%s: Strata = %+v, want %+v, or none without a pick", arm, got.Strata, stratum)
			}
			assertDays(t, got.Days, days)
			if got.Matched != want.Matched || got.Picked != want.Picked || got.Tokens != want.Tokens || got.Refused != want.Refused || got.Rewards.Success != want.Rewards.Success || got.Rewards.Failure != want.Rewards.Failure {
				t.Fatalf("Stats(%s) = %+v, want the counts in %+v", arm, got, want)
			}
			assertNear(t, "n", got.N, want.N)
			assertNear(t, "z", got.Z, want.Z)
			assertNear(t, "zz", got.ZZ, want.ZZ)
			assertNear(t, "rewarded injected sessions", got.Rewards.M1, want.Rewards.M1)
			assertNear(t, "injected sessions: summed rewards", got.Rewards.Y1, want.Rewards.Y1)
			assertNear(t, "rewarded withheld sessions", got.Rewards.M0, want.Rewards.M0)
			assertNear(t, "withheld sessions: summed rewards", got.Rewards.Y0, want.Rewards.Y0)
			assertNear(t, "better", got.Rewards.Better, want.Rewards.Better)
			assertNear(t, "worse", got.Rewards.Worse, want.Rewards.Worse)
		}
	})
}

func assertDays(t *rapid.T, got []trial.DayStats, want map[int32]trial.DayStats) {
	t.Helper()
	if len(got) != len(want) || !slices.IsSortedFunc(got, func(x, y trial.DayStats) int { return cmp.Compare(x.Day, y.Day) }) {
		t.Fatalf("days = %+v, want %+v in order", got, want)
	}
	for _, d := range got {
		w := want[d.Day]
		for _, x := range [][2]float64{{d.N, w.N}, {d.Z, w.Z}, {d.ZZ, w.ZZ}, {d.N1, w.N1}, {d.N0, w.N0}, {d.S1, w.S1}, {d.S0, w.S0}} {
			assertNear(t, fmt.Sprintf("one of the sums for day %+v (want %+v)", d, w), x[0], x[1])
		}
	}
}

// Global compares treated sessions with control sessions. Only sessions with a match count.
func TestGlobalEqualsDirectCounts(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		list := drawSessions(t)
		got := countersFor(list).Global()
		var rewarded, sum, n, z float64
		var assigned [2]int64
		var tiers, atClose [2][4]int64
		var refused [2]int64
		anyStrata := map[float64]*trial.Stratum{}
		days := map[int32]trial.DayStats{}
		for i := range list {
			s := &list[i]
			arm := 1
			if s.control {
				arm = 0
			}
			if len(s.lessons) > 0 {
				assigned[arm]++
				if s.tierAtClose >= 0 {
					atClose[arm][s.tierAtClose%4]++
				}
			}
			if s.refused {
				refused[arm]++
			}
			d := days[s.day]
			days[s.day] = d // a closed session adds the day
			none, injected, firstTurn := 1.0, 0, 0
			for _, l := range s.lessons {
				if l.picked && (firstTurn == 0 || l.turn == firstTurn) {
					firstTurn = l.turn
					none *= holdout
					if l.injected {
						injected = 1
					}
				}
			}
			var stratum *trial.Stratum
			if firstTurn > 0 {
				if stratum = anyStrata[trial.Round(none)]; stratum == nil {
					stratum = &trial.Stratum{Eps: trial.Round(none)}
					anyStrata[stratum.Eps] = stratum
				}
				stratum.Assigned[injected]++
				if s.tierAtClose >= 0 {
					stratum.RewardedAtClose[injected][s.tierAtClose%4]++
				}
			}
			if !s.rewarded {
				continue
			}
			rewarded, sum = rewarded+1, sum+s.reward
			if len(s.lessons) == 0 {
				continue
			}
			tiers[arm][s.tier%4]++
			if stratum != nil {
				stratum.Rewarded[injected][s.tier%4]++
			}
			n++
			weighted := (s.reward - 0.5) / (1 - controlShare)
			if s.control {
				weighted = -(s.reward - 0.5) / controlShare
				d.N0, d.S0 = d.N0+1, d.S0+s.reward
			} else {
				d.N1, d.S1 = d.N1+1, d.S1+s.reward
			}
			z += weighted
			d.N, d.Z, d.ZZ = d.N+1, d.Z+weighted, d.ZZ+weighted*weighted
			days[s.day] = d
		}
		assertDays(t, got.Days, days)
		if got.Refused != refused {
			t.Fatalf("Refused (control, treated) = %v, want %v", got.Refused, refused)
		}
		assertNear(t, "rewarded sessions", float64(got.All.Rewarded), rewarded)
		assertNear(t, "summed rewards", got.All.SumY, sum)
		assertNear(t, "n", got.N, n)
		assertNear(t, "z", got.Z, z)
		for _, s := range got.Strata {
			if s.Eps != controlShare || s.Assigned != assigned || s.Rewarded != tiers || s.RewardedAtClose != atClose {
				t.Fatalf("stratum = %+v, want %v assigned sessions, %v rewards by tier, and %v rewards by tier at close", s, assigned, tiers, atClose)
			}
		}
		if len(got.Strata) == 0 && assigned != [2]int64{} {
			t.Fatalf("strata: got none, want one with %v assigned sessions", assigned)
		}
		if len(got.All.AnyInjected) != len(anyStrata) {
			t.Fatalf("All.AnyInjected = %+v, want %d strata", got.All.AnyInjected, len(anyStrata))
		}
		for _, s := range got.All.AnyInjected {
			if want := anyStrata[s.Eps]; want == nil || s != *want {
				t.Fatalf("stratum in All.AnyInjected = %+v, want %+v", s, want)
			}
		}
	})
}

// The daily costs include a session with a match, but no excluded session.
func TestDailyCostsCoverSessionsWithMatch(t *testing.T) {
	c := trial.NewCounters()
	pick := func(tokens int, injected bool) trial.Pick {
		return trial.Pick{Slug: "a", Arm: "a@1", Eps: holdout, Injected: injected, Tokens: tokens}
	}
	matched := []trial.Match{{Arm: "a@1"}}
	for _, tc := range []struct {
		a    trial.Assignment
		used trial.Usage
	}{
		{trial.Assignment{ControlP: controlShare, Day: 100, Matched: matched, Picks: []trial.Pick{pick(30, true), pick(7, false)}}, trial.Usage{Input: 1000, Cached: 600}},
		{trial.Assignment{ControlP: controlShare, Day: 100, Matched: matched, Picks: []trial.Pick{pick(12, true)}}, trial.Usage{Input: 500, Cached: 501}},
		{trial.Assignment{ControlP: controlShare, Day: 100, Matched: matched, Control: true}, trial.Usage{Input: 800}},
		{trial.Assignment{ControlP: controlShare, Day: 100}, trial.Usage{Input: 9000}}, // no match
		{trial.Assignment{ControlP: controlShare, Day: 101, Matched: matched, Picks: []trial.Pick{pick(5, true)}}, trial.Usage{}},
		{trial.Assignment{ControlP: controlShare, Day: 101, Matched: matched, Excluded: true, Picks: []trial.Pick{pick(5, true)}}, trial.Usage{Input: 1}},
	} {
		c.Add(append(tc.a.ClosingDeltas(), tc.a.CostDeltas(tc.used)...))
	}
	days := c.Clone().Global().Days
	if len(days) != 2 || days[0].Added != 42 || days[1].Added != 5 {
		t.Fatalf("days = %+v, want two days with 42 and 5 added tokens", days)
	}
	if got, want := days[0].Spent, [2]trial.Spending{{Sessions: 1, Input: 800}, {Sessions: 2, Input: 1500, Cached: 1100}}; got != want {
		t.Errorf("day 100: costs = %+v, want %+v", got, want)
	}
	if days[1].Spent != [2]trial.Spending{} || len(c.Stats("a@1").Days) != 0 {
		t.Errorf("day 101: costs = %+v, want zeros; lesson: Days = %+v, want none", days[1].Spent, c.Stats("a@1").Days)
	}
}

// Subtracting the contribution of a session and adding it again leaves all sums as they were.
func TestCorrectionRestoresSums(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		list := drawSessions(t)
		c, plain := countersFor(list), countersFor(list)
		for i := range list {
			a := list[i].assignment()
			c.Add(trial.Negate(a.Contribution(1-list[i].reward, 2)))
		}
		for i := range list {
			c.Add(list[i].assignment().Contribution(1-list[i].reward, 2))
		}
		for i := range 3 {
			arm := trial.Arm(fmt.Sprintf("lesson-%d@1", i))
			got, want := c.Stats(arm), plain.Stats(arm)
			assertNear(t, "n", got.N, want.N)
			assertNear(t, "z", got.Z, want.Z)
			assertNear(t, "zz", got.ZZ, want.ZZ)
			if fmt.Sprint(got.Strata) != fmt.Sprint(want.Strata) || got.Rewards.Success != want.Rewards.Success || got.Rewards.Failure != want.Rewards.Failure {
				t.Fatalf("Stats(%s) = %+v, want %+v", arm, got, want)
			}
		}
	})
}

// A coin is a number from 0 to 1. If a lesson's coin is below epsilon, the lesson is withheld. If a session's coin is
// below the control probability, the session is a control session.
func TestCoinEqualToEpsilonInjectsLesson(t *testing.T) {
	for i := range 50 {
		session := fmt.Sprint("session-", i)
		coin := trial.Coin("s", trial.ForHoldout, session, "a")
		for eps, injected := range map[float64]bool{coin: true, math.Nextafter(coin, 1): false, math.Nextafter(coin, 0): true} {
			var a trial.Assignment
			a.Flip("s", session, trial.Pick{Slug: "a", Eps: eps})
			if p, ok := a.Pick("a"); !ok || p.Injected != injected {
				t.Errorf("coin %v, Eps %v: Injected = %v, want %v", coin, eps, p.Injected, injected)
			}
		}
		control := trial.Coin("s", trial.ForControl, session, "")
		for chance, want := range map[float64]bool{control: false, math.Nextafter(control, 1): true} {
			var a trial.Assignment
			if !a.FlipControl("s", session, chance) || a.Control != want || a.FlipControl("s", session, 1) {
				t.Errorf("control coin %v, probability %v: Control = %v, want %v, as decided by the first call of FlipControl",
					control, chance, a.Control, want)
			}
		}
	}
}

// The quantiles are copied from a printed table of the normal distribution.
func TestPicksForMatchesPublishedFormula(t *testing.T) {
	for _, tc := range []struct {
		detect, power, level, epsilon, variance float64
		quantiles                               float64 // z(1-level/2) + z(power)
	}{
		{detect: 0.05, power: 0.8, level: 0.05, epsilon: 0.2, variance: 0.25, quantiles: 1.959964 + 0.841621},
		{detect: 0.1, power: 0.9, level: 0.05, epsilon: 0.5, variance: 0.2, quantiles: 1.959964 + 1.281552},
		{detect: 0.03, power: 0.8, level: 0.01, epsilon: 0.05, variance: 0.25, quantiles: 2.575829 + 0.841621},
		{detect: 0.2, power: 0.5, level: 0.1, epsilon: 0.9, variance: 0.1, quantiles: 1.644854 + 0},
	} {
		want := math.Pow(tc.quantiles/tc.detect, 2) * tc.variance * (1/(1-tc.epsilon) + 1/tc.epsilon)
		got := trial.PicksFor(tc.detect, tc.power, tc.level, tc.epsilon, tc.variance)
		if math.Abs(float64(got)-want) > 1.01 || float64(got) < want-0.01 {
			t.Errorf("PicksFor(%+v) = %d, want %v", tc, got, want)
		}
		if back := trial.DetectableEffect(got, tc.power, tc.level, tc.epsilon, tc.variance); back > tc.detect || back < tc.detect*0.99 {
			t.Errorf("DetectableEffect(%+v, %d picks) = %v, want %v", tc, got, back, tc.detect)
		}
	}
}
