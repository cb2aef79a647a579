package trial

import (
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

// anyAssignment draws a session as Decide would have made it.
func anyAssignment(t *rapid.T) Assignment {
	u := rapid.Float64Range(0, 1)
	a := Assignment{
		Control: rapid.Bool().Draw(t, "control"), ControlP: u.Draw(t, "g"), Category: rapid.SampledFrom([]string{"", "x", "y"}).Draw(t, "cat"),
		Base: u.Draw(t, "base"), C: u.Draw(t, "c"), Decided: true, Day: rapid.Int32Range(0, 5).Draw(t, "day"),
		Refused: rapid.Bool().Draw(t, "refused"),
	}
	if rapid.Bool().Draw(t, "heard") {
		a.First = &AtClosing{Y: u.Draw(t, "first"), Tier: rapid.IntRange(0, 4).Draw(t, "first tier")}
	}
	for i := range rapid.IntRange(0, 4).Draw(t, "matched") {
		arm := Arm(fmt.Sprintf("l%d@1", i))
		a.Matched = append(a.Matched, Match{Arm: arm, Del: Round(rapid.Float64Range(-0.5, 0.5).Draw(t, "del"))})
		if !a.Control && rapid.Bool().Draw(t, "picked") {
			a.Picks = append(a.Picks, Pick{
				Slug: arm.Slug(), Arm: arm, Eps: rapid.SampledFrom([]float64{0.05, 0.2, 0.5, 0.9, 0, 1}).Draw(t, "eps"),
				Injected: rapid.Bool().Draw(t, "inj"), M: 0.02, Off: Round(u.Draw(t, "off")), C: Round(clip(u.Draw(t, "centre"), 0.05, 0.95)), Tokens: 9,
			})
		}
	}
	return a
}

// readAgain is what a record says after it was stored.
func readAgain(t *rapid.T, a Assignment) (out Assignment) {
	b, err := json.Marshal(a)
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(b, &out); err != nil {
		t.Fatal(err)
	}
	return out
}

// dump writes all counters down.
func dump(c *Counters) string {
	var out string
	show := func(name string, s *sums) {
		out += fmt.Sprintln(name, s.days, s.outlays, s.total, s.overall, s.bets, s.strata, s.any)
	}
	show("", c.global)
	for _, k := range c.Arms() {
		show(string(k), c.arms[k])
	}
	return out
}

// The promise on which undoing, replicas and late feedback rest: sums do not know in which order,
// how often undone and redone, and over how many replicas the rewards came; and a record that went
// through JSON contributes the same bytes.
func TestSumsForgetTheirHistory(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		straight, crooked, left, right := NewCounters(), NewCounters(), NewCounters(), NewCounters()
		var steps [][]Delta
		for range rapid.IntRange(1, 6).Draw(t, "sessions") {
			a := anyAssignment(t)
			y, tier := rapid.Float64Range(0, 1).Draw(t, "y"), rapid.IntRange(0, 4).Draw(t, "tier")
			used := Usage{Input: int64(rapid.IntRange(0, 1<<40).Draw(t, "input")), Cached: int64(rapid.IntRange(0, 1<<40).Draw(t, "cached"))}
			final := slices.Concat(a.Closing(), a.Spent(used), a.Contribution(y, tier))
			straight.Add(final)
			stored := readAgain(t, a)
			steps = append(steps, stored.Closing(), stored.Spent(used), stored.Contribution(y, tier))
			for range rapid.IntRange(0, 2).Draw(t, "corrections") {
				wrong := stored.Contribution(rapid.Float64Range(0, 1).Draw(t, "wrong"), 3)
				steps = append(steps, wrong, Negate(wrong))
			}
		}
		for i, s := range rapid.Permutation(steps).Draw(t, "order") {
			crooked.Add(s)
			[]*Counters{left, right}[i%2].Add(merge(s))
		}
		want := dump(straight)
		if got := dump(drop(crooked)); got != want {
			t.Fatalf("permuted:\n%s\nstraight:\n%s", got, want)
		}
		union := NewCounters()
		union.Add(merge(raw(left), raw(right)))
		for k := range straight.arms {
			union.scope(string(k), true)
		}
		if got := dump(union); got != want {
			t.Fatalf("merged:\n%s\nstraight:\n%s", got, want)
		}
	})
}

// drop removes the empty days and strata that an undone reward leaves in memory (a store has no
// such rows).
func drop(c *Counters) *Counters {
	tidy := func(s *sums) {
		none := func(x Row[int64, [coinSums]int64]) bool { return x.V == [coinSums]int64{} }
		s.days = slices.DeleteFunc(s.days, func(b Row[int32, [dailies]int64]) bool { return b.V == [dailies]int64{} })
		s.outlays = slices.DeleteFunc(s.outlays, func(b Row[int32, [outlays]int64]) bool { return b.V == [outlays]int64{} })
		s.strata, s.any = slices.DeleteFunc(s.strata, none), slices.DeleteFunc(s.any, none)
	}
	tidy(c.global)
	for _, s := range c.arms {
		tidy(s)
	}
	return c
}

// raw writes counters back as deltas, as a store would hold them.
func raw(c *Counters) (out []Delta) {
	one := func(scope string, s *sums) {
		add := func(name string, day int32, v int64) { out = append(out, Delta{Key{scope, name, day}, v}) }
		for name, at := range fields {
			switch at.kind {
			case daily, ofTenant:
				for _, b := range s.days {
					add(name, b.Key, b.V[at.at])
				}
			case outlay:
				for _, b := range s.outlays {
					add(name, b.Key, b.V[at.at])
				}
			case overall:
				add(name, 0, s.overall[at.at])
			case bet:
				add(name, 0, s.bets[at.at])
			case maximum:
				add(name, 0, s.maxima[at.at])
			case coins:
				for _, x := range s.strata {
					add(fmt.Sprint(name, x.Key), 0, x.V[at.at])
				}
				for _, x := range s.any {
					add(fmt.Sprint(ofAny, name, x.Key), 0, x.V[at.at])
				}
			}
		}
	}
	one("", c.global)
	for k, s := range c.arms {
		one(string(k), s)
	}
	return out
}

// merge sums deltas by key, drops zeros, and sorts: the smallest set of writes with the same
// effect.
func merge(sets ...[]Delta) []Delta {
	sum := map[Key]int64{}
	for _, ds := range sets {
		for _, d := range ds {
			sum[d.Key] += d.Value
		}
	}
	out := make([]Delta, 0, len(sum))
	for k, v := range sum {
		if v != 0 {
			out = append(out, Delta{Key: k, Value: v})
		}
	}
	slices.SortFunc(out, func(x, y Delta) int {
		return cmp.Or(cmp.Compare(x.Scope, y.Scope), cmp.Compare(x.Field, y.Field), cmp.Compare(x.Day, y.Day))
	})
	return out
}

// No two counters share a place, and what is written is read: each name that a session can add to
// is in the table.
func TestFieldsHaveAPlaceEach(t *testing.T) {
	taken := map[place]string{}
	for name, at := range fields {
		if at.kind == ofTenant {
			at.kind = daily // they lie among the days
		}
		if was, ok := taken[at]; ok {
			t.Errorf("%s and %s share a place", name, was)
		}
		taken[at] = name
	}
	rapid.Check(t, func(t *rapid.T) {
		a := anyAssignment(t)
		for _, d := range slices.Concat(a.Closing(), a.Spent(Usage{Input: 9, Cached: 5}), a.Contribution(rapid.Float64Range(0, 1).Draw(t, "y"), 2)) {
			if _, _, _, ok := find(d.Field); !ok {
				t.Fatalf("%v is read by nobody", d)
			}
		}
	})
}

// The names under which counters are stored are fixed: another precept may read them.
func TestFieldNames(t *testing.T) {
	var names []string
	for name := range fields {
		names = append(names, name)
	}
	slices.Sort(names)
	const want = "a0@ a1@ added better billed0 billed1 cached0 cached1 closed emax+ emax- failure heard0.0@ heard0.1@ heard0.2@ heard0.3@ heard1.0@ heard1.1@ heard1.2@ heard1.3@ " +
		"idle_at input0 input1 kept0 kept1 m0 m1 matched n n0 n1 nu out+ out- picked proven_at read0 read1 refused0 refused1 s0 s1 spent0 spent1 success sumy tokens told " +
		"told0.0@ told0.1@ told0.2@ told0.3@ told1.0@ told1.1@ told1.2@ told1.3@ w+1 w+2 w+3 w+4 w+5 w+6 w-1 w-2 w-3 w-4 w-5 w-6 worse y0 y0@ y1 y1@ z zz"
	if got := strings.Join(names, " "); got != want {
		t.Errorf("%s", got)
	}
}

func TestUnknownFieldsAreIgnored(t *testing.T) {
	c := NewCounters()
	before := dump(c)
	for _, f := range []string{"", "new", "w+0", "w+7", "w*1", "a2@200000", "a1@", "a1@x", "told2.1@5", "told1.9@5", "told1.1", "toldish", "spent", "spent2", "0", "closed1"} {
		c.Add([]Delta{{Key{"", f, 0}, One}})
	}
	for _, scope := range []string{"x:coder", "r:v2|a@1"} { // of the chooser, of another definition
		c.Add([]Delta{{Key{scope, fN, 0}, One}})
	}
	if got := dump(c); got != before {
		t.Errorf("an unknown field was counted: %s", got)
	}
	c.Add([]Delta{{Key{"a@1", fS1, 3}, One}}) // a residual of the chooser's
	if s := c.Stats("a@1"); len(s.Days) != 0 {
		t.Errorf("%+v", s)
	}
	if c.Stats("").N != 0 || c.Stats("none@1").Picked != 0 {
		t.Error("stats of what is no arm")
	}
}

// The coins carry no sum of the chooser's: whatever it adds beside them, the trial does not move.
func TestTheChoosersFieldsMoveNothing(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		alone, beside := NewCounters(), NewCounters()
		a := anyAssignment(t)
		ds := slices.Concat(a.Closing(), a.Contribution(rapid.Float64Range(0, 1).Draw(t, "y"), 1))
		alone.Add(ds)
		for i, n := 0, rapid.IntRange(1, 8).Draw(t, "theirs"); i < n; i++ {
			ds = append(ds, Delta{Key{
				rapid.SampledFrom([]string{"", "l0@1", "l1@1", "x:x"}).Draw(t, "scope"), rapid.SampledFrom([]string{"su", "graded", "res2", "cn", "cs"}).Draw(t, "field"), a.Day,
			}, rapid.Int64().Draw(t, "value")})
		}
		beside.Add(ds)
		for k := range beside.arms {
			alone.scope(string(k), true)
		}
		if got, want := dump(beside), dump(alone); got != want {
			t.Fatalf("%s\n%s", got, want)
		}
	})
}
