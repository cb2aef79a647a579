package bandit_test

import (
	"fmt"

	"precept/bandit"
	"precept/bandit/trial"
)

// The decision is made once per session. Later turns do not change it.
func ExampleDecide() {
	chooser := bandit.New()
	cfg := bandit.Config{K: 1, Epsilon: 0.2, Salt: "example"}
	a := &trial.Assignment{Category: "code"}
	actions := []bandit.Action{{Slug: "run-the-tests", Arm: "lesson:run-the-tests", Confidence: 1}}
	for turn := range 2 {
		for _, p := range bandit.Decide(cfg, chooser, a, "session-1", actions, turn) {
			fmt.Println("turn", turn, p.Slug, p.Injected, p.Propensity)
		}
	}
	fmt.Println(len(a.Picks))
	// Output:
	// turn 0 run-the-tests true 0.8
	// 1
}
