package detect_test

import (
	"fmt"

	"precept/detect"
)

func ExampleClassify() {
	for _, result := range []string{"ok  \tshop\t0.1s", "--- FAIL: TestTotal (0.00s)\nFAIL", "The user doesn't want to proceed with this tool use."} {
		j := detect.Classify("bash", `{"command":"go test ./..."}`, result, 0)
		fmt.Printf("%s %q\n", j.Outcome, j.Rule)
	}
	// Output:
	// ok ""
	// error "text:go-test"
	// refusal "refusal:claude"
}
