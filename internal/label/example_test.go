package label_test

import (
	"fmt"

	"precept/internal/label"
)

// ExclusionReasons returns the reasons for which a session is excluded from the experiment.
func ExampleExclusionReasons() {
	for _, r := range label.ExclusionReasons() {
		fmt.Println(r)
	}
	// Output:
	// twin
	// late
	// secret
	// busy
	// tenant
}
