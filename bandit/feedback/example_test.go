package feedback_test

import (
	"fmt"
	"time"

	"precept/bandit/feedback"
)

// The reward is the mean over the raters in the highest tier. If a rater sent several entries, only the latest counts.
func ExampleReward() {
	at := func(minute int) time.Time { return time.Date(2026, 11, 26, 9, minute, 0, 0, time.UTC) }
	entries := []feedback.Entry{
		{ID: "1", At: at(1), Source: "implicit", Tier: 3, Score: 0},
		{ID: "2", At: at(2), Source: "user", Tier: 1, Rater: "ann", Score: 0},
		{ID: "3", At: at(3), Source: "user", Tier: 1, Rater: "ann", Score: 1},
		{ID: "4", At: at(4), Source: "user", Tier: 1, Rater: "bob", Score: 0.5},
	}
	fmt.Println(feedback.Reward(entries, nil))
	// Output: {0.75 1 true}
}
