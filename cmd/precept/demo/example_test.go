package demo_test

import (
	"fmt"

	"precept/cmd/precept/demo"
)

// A World contains the true effect of each lesson. The demo compares these effects with the effects in the report.
func Example() {
	for _, l := range demo.NewWorld(1).Truths[:3] {
		fmt.Printf("%s %+.0f points\n", l.Slug, 100*l.Effect)
	}
	// Output:
	// reproduce-before-fixing +22 points
	// read-the-failing-assertion +14 points
	// pin-the-dependency +9 points
}
