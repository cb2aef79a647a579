package harness_test

import (
	"fmt"

	"precept/test/harness"
)

// The tests of opt-outs and of `precept forget` search all files in a data directory for words that must not be there.
func ExampleFilesWith() {
	files := map[string]string{"precept.db": "redacted", "outbox.db": "canary-17", "run.json": "{}"}
	fmt.Println(harness.FilesWith(files, "canary-17"))
	// Output: [outbox.db]
}
