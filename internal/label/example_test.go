package label_test

import (
	"fmt"

	"precept/internal/label"
)

// The reasons for which a session is outside of the experiment.
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
