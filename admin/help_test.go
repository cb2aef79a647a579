package admin

import (
	"net/http"
	"strings"
	"testing"

	"golang.org/x/net/html"
)

func TestHelpLinksResolve(t *testing.T) {
	f := newFixture(t, nil)
	pageIDs := map[string]map[string]bool{} // ids of the elements on each page, by the path of the page
	read := func(path string) *html.Node {
		t.Helper()
		res := f.do(t, "GET", path, bearer(token))
		root, err := html.Parse(strings.NewReader(body(t, res)))
		if err != nil {
			t.Fatalf("%s: error = %v", path, err)
		}
		if res.StatusCode != http.StatusOK {
			t.Fatalf("%s: status = %d, want 200", path, res.StatusCode)
		}
		return root
	}
	var links []string
	readPage := func(path string) { // reads a page and adds its ids to pageIDs and its links to links
		ids := map[string]bool{}
		for n := range read(path).Descendants() {
			for _, a := range n.Attr {
				switch {
				case a.Key == "id":
					ids[a.Val] = true
				case (a.Key == "href" || a.Key == "src") && strings.HasPrefix(a.Val, "/help/"):
					links = append(links, a.Val)
				case a.Key == "href" && strings.HasPrefix(a.Val, "#") && n.Data == "a":
					links = append(links, path+a.Val)
				}
			}
		}
		pageIDs[path] = ids
	}
	readPage("/help")
	for len(links) > 0 {
		path, anchor, _ := strings.Cut(links[0], "#")
		links = links[1:]
		if strings.HasSuffix(path, ".svg") {
			if res := f.do(t, "GET", path, bearer(token)); res.StatusCode != http.StatusOK {
				t.Errorf("%s: status = %d, want 200", path, res.StatusCode)
			} else if res.Header.Get("Content-Type") != "image/svg+xml" {
				t.Errorf(`%s: Content-Type = %q, want "image/svg+xml"`, path, res.Header.Get("Content-Type"))
			}
			continue
		}
		if pageIDs[path] == nil {
			readPage(path)
		}
		if anchor != "" && !pageIDs[path][anchor] {
			t.Errorf("link %s#%s: got a page without an element with this id, want such an element", path, anchor)
		}
	}
	if len(pageIDs) < 30 {
		t.Errorf("got %d pages, want at least 30", len(pageIDs))
	}
	for _, path := range []string{"/help/nothing", "/help/../admin/page.go", "/help/docs.go", "/help/img/none.svg", "/help/%2e%2e/go.mod"} {
		if res := f.do(t, "GET", path, bearer(token)); res.StatusCode != http.StatusNotFound {
			t.Errorf("%s: got status %d, want 404", path, res.StatusCode)
		}
	}
	if res := f.do(t, "GET", "/help", nil); res.StatusCode != http.StatusUnauthorized {
		t.Errorf("without a token: got status %d, want 401", res.StatusCode)
	}
}

func TestHelpSearchFindsListedSections(t *testing.T) {
	f := newFixture(t, nil)
	cookie, _ := f.logIn(t)
	get := func(path string) string {
		return body(t, f.do(t, "GET", path, func(r *http.Request) { r.AddCookie(cookie) }))
	}
	found := get("/help?q=former_state+retire")
	if !strings.Contains(found, `href="/help/LESSONS#pause-and-retire"`) {
		t.Errorf(`search results = %q, want substring "href=\"/help/LESSONS#pause-and-retire\""`, found)
	}
	if strings.Contains(found, `href="/help/CI#`) {
		t.Errorf(`search results = %q, want no "href=\"/help/CI#"`, found)
	}
	page := get("/help/LESSONS")
	if !strings.Contains(page, `<a href="#pause-and-retire">`) {
		t.Errorf(`page LESSONS = %q, want substring "<a href=\"#pause-and-retire\">"`, page)
	}
	if !strings.Contains(page, `id="pause-and-retire"`) {
		t.Errorf(`page LESSONS = %q, want substring "id=\"pause-and-retire\""`, page)
	}
	if !strings.Contains(get("/help?q=zzqx"), "Search for fewer words") {
		t.Error("search without results: got no text \"Search for fewer words\", want this text")
	}
}
