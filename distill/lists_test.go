package distill_test

import (
	"encoding/json"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// For a misspelt name, wordList returns an empty list instead of an error. The test therefore compares the names in the
// rules with the names in lists.txt.
func TestListsAndWordingsMatchTheRules(t *testing.T) {
	var code strings.Builder
	files, err := filepath.Glob("*.go")
	if err != nil {
		t.Fatal(err)
	}
	if len(files) == 0 {
		t.Fatal("Glob: got none")
	}
	for _, name := range files {
		if !strings.HasSuffix(name, "_test.go") {
			code.Write(readFile(t, name))
		}
	}
	named := map[string]bool{}
	for _, m := range regexp.MustCompile(`wordList\("([^"]+)"\)|toolDoes\(.*?, "(\w+)"\)`).FindAllStringSubmatch(code.String(), -1) {
		named[m[1]+m[2]] = true
	}
	defined := map[string]bool{"vocabulary": true}
	for _, m := range regexp.MustCompile(`(?m)^\[([^\]]+)\]$`).FindAllStringSubmatch(string(readFile(t, "lists.txt")), -1) {
		defined[m[1]] = true
	}
	maps.DeleteFunc(defined, func(name string, _ bool) bool { return strings.HasPrefix(name, "family ") })
	checkEqual(t, "lists defined in lists.txt (got) and named by rules (want)", slices.Sorted(maps.Keys(defined)), slices.Sorted(maps.Keys(named)))

	var wordings map[string]struct{ Title, Advice, Slug string }
	if err := json.Unmarshal(readFile(t, "drafts.json"), &wordings); err != nil {
		t.Fatal(err)
	}
	for _, m := range regexp.MustCompile(`(?m)^\tfix\w+ += "(\w+)"`).FindAllStringSubmatch(code.String(), -1) {
		if w := wordings[m[1]]; w.Title == "" {
			t.Errorf("wording for fix %s in drafts.json: Title is empty", m[1])
		} else if w.Advice == "" {
			t.Errorf("wording for fix %s in drafts.json: Advice is empty", m[1])
		} else if w.Slug == "" {
			t.Errorf("wording for fix %s in drafts.json: Slug is empty", m[1])
		}
	}
	for name := range wordings {
		if kind, variant, ok := strings.Cut(name, ": "); ok && (wordings[kind].Title == "" || !strings.Contains(code.String(), variant)) {
			t.Errorf("no rule uses wording %q from drafts.json", name)
		}
	}
}

func readFile(t *testing.T, name string) []byte {
	t.Helper()
	text, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	return text
}
