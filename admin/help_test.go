package admin

import (
	"net/http"
	"strings"
	"testing"

	"golang.org/x/net/html"
)

// On the help pages, which are the glossary and the docs, each internal link and each image resolves. Other paths below
// /help have status 404.
func TestGlossaryAndDocLinksResolve(t *testing.T) {
	f := newFixture(t, nil)
	seen := map[string]map[string]bool{} // ids by page
	read := func(at string) *html.Node {
		t.Helper()
		res := f.do(t, "GET", at, bearer(token))
		root, err := html.Parse(strings.NewReader(body(t, res)))
		if err != nil || res.StatusCode != http.StatusOK {
			t.Fatalf("%s: got status %d, error %v, want no error and status 200", at, res.StatusCode, err)
		}
		return root
	}
	var links []string
	checkLinks := func(at string) {
		ids := map[string]bool{}
		for n := range read(at).Descendants() {
			for _, a := range n.Attr {
				switch {
				case a.Key == "id":
					ids[a.Val] = true
				case (a.Key == "href" || a.Key == "src") && strings.HasPrefix(a.Val, "/help/"):
					links = append(links, a.Val)
				case a.Key == "href" && strings.HasPrefix(a.Val, "#") && n.Data == "a":
					links = append(links, at+a.Val)
				}
			}
		}
		seen[at] = ids
	}
	checkLinks("/help")
	for len(links) > 0 {
		at, anchor, _ := strings.Cut(links[0], "#")
		links = links[1:]
		if strings.HasSuffix(at, ".svg") {
			if res := f.do(t, "GET", at, bearer(token)); res.StatusCode != http.StatusOK || res.Header.Get("Content-Type") != "image/svg+xml" {
				t.Errorf(`%s: got status %d, content type %q, want 200 and "image/svg+xml"`, at, res.StatusCode, res.Header.Get("Content-Type"))
			}
			continue
		}
		if seen[at] == nil {
			checkLinks(at)
		}
		if anchor != "" && !seen[at][anchor] {
			t.Errorf("link %s#%s: the page has no element with this id", at, anchor)
		}
	}
	if len(seen) < 30 {
		t.Errorf("got %d pages, want at least 30", len(seen))
	}
	for _, at := range []string{"/help/nothing", "/help/../admin/page.go", "/help/docs.go", "/help/img/none.svg", "/help/%2e%2e/go.mod"} {
		if res := f.do(t, "GET", at, bearer(token)); res.StatusCode != http.StatusNotFound {
			t.Errorf("%s: got status %d, want 404", at, res.StatusCode)
		}
	}
	if res := f.do(t, "GET", "/help", nil); res.StatusCode != http.StatusUnauthorized {
		t.Errorf("without a token: got status %d, want 401", res.StatusCode)
	}
}
