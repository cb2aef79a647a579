package redact_test

import (
	"fmt"

	"precept/internal/redact"
)

// Each occurrence of a value has the same number.
func ExampleRedactor_Text() {
	r := redact.New(true)
	fmt.Println(r.Text("mail ann@example.org and bob@example.org"))
	fmt.Println(r.Text("bob@example.org answered; password=hunter2-swordfish"))
	fmt.Println(r.Counts())
	// Output:
	// mail [REDACTED:email:1] and [REDACTED:email:2]
	// [REDACTED:email:2] answered; password=[REDACTED:secret:1]
	// map[email:3 secret:1]
}
