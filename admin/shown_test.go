package admin_test

import (
	"html"
	"net/http"
	"strings"
	"testing"

	"precept/admin"
)

// onPage returns the main part of a page as an operator's browser shows it; change alters the data.
func onPage(t *testing.T, target string, change func(*wordSource, *admin.Options)) string {
	t.Helper()
	f := wordSourceOf("word")
	o := f.options()
	if change != nil {
		change(f, &o)
	}
	h, err := admin.New(o)
	if err != nil {
		t.Fatal(err)
	}
	res := serve(h, target, serve(h, "/login?token=key", nil).Cookies()[0])
	_, main, _ := strings.Cut(textOf(res), "<main")
	main, _, _ = strings.Cut(main, "</main>")
	if res.StatusCode != http.StatusOK || main == "" {
		t.Fatalf("%s: got %d, want status 200 and a non-empty main", target, res.StatusCode)
	}
	return strings.ReplaceAll(html.UnescapeString(main), "\u202f", " ")
}

// holds checks the texts that a page must contain, and the texts with a leading ! that the page must not contain.
func holds(t *testing.T, what, page string, wanted ...string) {
	t.Helper()
	for _, want := range wanted {
		text, not := strings.CutPrefix(want, "!")
		if strings.Contains(page, text) == not {
			t.Errorf("%s: %q is missing, or excluded by ! and present, in\n%s", what, want, page)
		}
	}
}

func indexOf(page, text string) int { return strings.Index(page, text) }
