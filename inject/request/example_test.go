package request_test

import (
	"fmt"

	"precept/inject/request"
)

func ExampleKinds() {
	for _, f := range request.Kinds("Looks good. Put that in git, and raise a PR.") {
		fmt.Printf("%s: %s\n", f.Kind, f.Sentence)
	}
	// Output:
	// commit: Put that in git, and raise a PR.
	// pull-request: Put that in git, and raise a PR.
}
