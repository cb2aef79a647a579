package bandit

import "testing"

func TestSmoke(t *testing.T) {
	c := NewCounters()
	cfg := Config{K: 3, Epsilon: .2, Control: .05}
	picks := 0
	for i := range 2000 {
		a := Assignment{Category: "x", Day: 5}
		s := string(rune(i)) + "s"
		ps := Decide(cfg, c, &a, s, []Candidate{{Slug: "a", Arm: "a@1", Confidence: .5}, {Slug: "b", Arm: "b@1", Confidence: .5}}, 1)
		picks += len(ps)
		y := 0.
		if i%2 == 0 {
			y = 1
		}
		c.Add(a.Closing())
		c.Add(a.Contribution(y, 1))
	}
	t.Log(picks, c.Posterior(Candidate{Slug: "a", Arm: "a@1", Confidence: .5}))
}
