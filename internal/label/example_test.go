package label_test

import (
	"fmt"

	"precept/internal/label"
)

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
