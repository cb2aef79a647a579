package admin_test

import (
	"html"
	"net/http"
	"strings"
	"testing"

	"precept/admin"
)

// mainText returns the main part of a page with HTML entities decoded. If change is not nil, mainText calls it to alter
// the data and the options before it requests the page.
func mainText(t *testing.T, target string, change func(*wordSource, *admin.Options)) string {
	t.Helper()
	w := newWordSource("word")
	o := w.options()
	if change != nil {
		change(w, &o)
	}
	h, err := admin.New(o)
	if err != nil {
		t.Fatal(err)
	}
	res := serve(h, target, serve(h, "/login?token=key", nil).Cookies()[0])
	_, main, _ := strings.Cut(readBody(res), "<main")
	main, _, _ = strings.Cut(main, "</main>")
	if res.StatusCode != http.StatusOK {
		t.Fatalf("%s: status = %d, want 200", target, res.StatusCode)
	}
	if main == "" {
		t.Fatalf("%s: main is empty", target)
	}
	return html.UnescapeString(main)
}

// checkPage checks that a page contains each text in wantText. If a text begins with !, checkPage checks that the page
// does not contain the rest of the text.
func checkPage(t *testing.T, name, page string, wanted ...string) {
	t.Helper()
	for _, want := range wanted {
		text, unwanted := strings.CutPrefix(want, "!")
		if strings.Contains(page, text) == unwanted {
			t.Errorf("%s: page contains %q = %v, want %v; page:\n%s", name, text, unwanted, !unwanted, page)
		}
	}
}
