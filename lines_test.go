package precept_test

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"
)

// columns is the maximum width of a line in comments and in the documentation. Table rows, code blocks and lines that
// consist of a single word can be wider.
const columns = 120

func TestCommentsFitMaximumWidth(t *testing.T) {
	files := walk(t, ".go")
	if len(files) < 300 {
		t.Fatalf("found %d Go files, want at least 300", len(files))
	}
	for _, name := range files {
		for n, line := range strings.Split(readText(t, name), "\n") {
			line = strings.ReplaceAll(line, "\t", "    ")
			text := strings.TrimSpace(line)
			if strings.HasPrefix(text, "// ") && utf8.RuneCountInString(line) > columns {
				t.Errorf("%s:%d: comment is %d columns wide, want at most %d", name, n+1, utf8.RuneCountInString(line), columns)
			}
		}
	}
}

func TestDocsFitMaximumWidth(t *testing.T) {
	files := walk(t, ".md")
	if !slices.Contains(files, "README.md") || !slices.Contains(files, "docs/EXPERIMENT.md") {
		t.Fatalf("found pages %q, want README.md and docs/EXPERIMENT.md among them", files)
	}
	loneWord := regexp.MustCompile(`^\s*([-*>] )?\S+$`)
	for _, name := range files {
		if strings.Contains(name, "testdata/") || strings.HasPrefix(name, "distill/prompts/") ||
			strings.HasPrefix(name, "configs/lessons/") || strings.HasSuffix(name, "LESSON.md") {
			continue
		}
		fenced := false
		for n, line := range strings.Split(readText(t, name), "\n") {
			if strings.HasPrefix(strings.TrimSpace(line), "```") {
				fenced = !fenced
			}
			exempt := fenced || strings.HasPrefix(line, "    ") || loneWord.MatchString(line) ||
				strings.HasPrefix(line, "|") || strings.HasPrefix(line, "!") || strings.HasPrefix(line, "[")
			if width := utf8.RuneCountInString(line); width > columns && !exempt {
				t.Errorf("%s:%d: line is %d columns wide, want at most %d", name, n+1, width, columns)
			}
		}
	}
}

// walk returns the project files with the given ending, except in bin and in hidden folders.
func walk(t *testing.T, ending string) []string {
	t.Helper()
	var files []string
	err := filepath.WalkDir(".", func(name string, entry os.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if entry.IsDir() && (name == "bin" || len(name) > 1 && strings.HasPrefix(name, ".")) {
			return filepath.SkipDir
		}
		if !entry.IsDir() && strings.HasSuffix(name, ending) {
			files = append(files, filepath.ToSlash(name))
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return files
}

func readText(t *testing.T, name string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.FromSlash(name))
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}
