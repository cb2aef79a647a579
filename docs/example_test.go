package docs_test

import (
	"fmt"
	"strings"

	"precept/docs"
)

// The dashboard reads a page by its name in this directory.
func Example() {
	page, err := docs.Pages.ReadFile("ARCHITECTURE.md")
	title, _, _ := strings.Cut(string(page), "\n")
	fmt.Println(title, err)
	// Output: # Architecture <nil>
}
