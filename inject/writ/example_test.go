package writ_test

import (
	"fmt"

	"precept/inject/writ"
)

func ExampleParse() {
	reply := "The page is read.\n" +
		"/lesson /fetch behind cloudflare: use Authorization-bearing fetch, not plain GET\n" +
		"```\n/lesson in a fence: is program text\n```\n" +
		"/lesson list\n"
	for _, c := range writ.Parse(reply, false) {
		fmt.Printf("%s %q %q\n", c.Verb, c.Signature, c.Text)
	}
	fmt.Print(writ.Answer("list", true, "1 lesson:", "#14 [/fetch behind cloudflare] use Authorization-bearing fetch, not plain GET"))
	// Output:
	// create "/fetch behind cloudflare" "use Authorization-bearing fetch, not plain GET"
	// list "" ""
	// [/lesson list]
	// OK: 1 lesson:
	// #14 [/fetch behind cloudflare] use Authorization-bearing fetch, not plain GET
	// [END LESSON]
}
