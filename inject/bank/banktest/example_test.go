package banktest_test

import (
	"fmt"

	"precept/inject/bank/banktest"
	"precept/inject/lesson"
)

func ExampleHonest() {
	invalid := 0
	for _, a := range banktest.Honest() {
		if _, err := lesson.Parse(a.Name+".md", a.Text); err != nil {
			invalid++
		}
	}
	fmt.Println(invalid)
	// Output: 0
}
