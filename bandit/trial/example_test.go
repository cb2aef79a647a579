package trial_test

import (
	"fmt"

	"precept/bandit/trial"
)

// The example prints how many picks are needed to detect an effect of 5, 10 and 20 points.
func ExamplePicksFor() {
	for _, detect := range []float64{0.05, 0.10, 0.20} {
		fmt.Println(trial.PicksFor(detect, 0.8, 0.05, 0.2, 0.25))
	}
	// Output:
	// 4906
	// 1227
	// 307
}

// The mean of z is the effect, whatever the centre is.
func ExampleZ() {
	const epsilon = 0.2
	injected, _ := trial.Z(0.9-0.5, true, epsilon)
	withheld, _ := trial.Z(0.6-0.5, false, epsilon)
	fmt.Printf("%.2f\n", (1-epsilon)*injected+epsilon*withheld)
	// Output: 0.30
}
