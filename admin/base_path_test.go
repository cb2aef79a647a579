//go:build !race

package admin

import (
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"regexp"
	"strings"
	"testing"
)

func TestEveryLinkWorksUnderBasePath(t *testing.T) {
	for _, stripsBase := range []bool{true, false} { // whether the reverse proxy removes the base path from each request
		f, _, _ := newLessonFixture(t, func(o *Options) { o.Address.BasePath = "/tools/precept" })
		server := httptest.NewServer(f)
		defer server.Close()
		target, err := url.Parse(server.URL)
		if err != nil {
			t.Fatal(err)
		}
		proxy := &httputil.ReverseProxy{Rewrite: func(r *httputil.ProxyRequest) {
			r.SetURL(target)
			r.Out.Host = r.In.Host
			if stripsBase {
				r.Out.URL.Path = strings.TrimPrefix(r.In.URL.Path, "/tools/precept")
			}
		}}
		mux := http.NewServeMux() // the reverse proxy sends requests for other paths to another server
		mux.Handle("/tools/precept/", proxy)
		checkAllLinks(t, mux)
	}
}

// checkAllLinks logs in to the dashboard under /tools/precept, and follows every link that it can reach from the
// overview.
func checkAllLinks(t *testing.T, handler http.Handler) {
	t.Helper()
	do := func(method, address string, cookie *http.Cookie) *httptest.ResponseRecorder {
		r := httptest.NewRequest(method, "http://127.0.0.1:8081"+address, nil)
		r.Header.Set("Accept", "text/html")
		if cookie != nil {
			r.AddCookie(cookie)
		}
		w := httptest.NewRecorder()
		handler.ServeHTTP(w, r)
		return w
	}
	if page := do("GET", "/tools/precept/lessons?q=x", nil); page.Code != 401 {
		t.Fatalf("page without a login: Code = %d, want 401", page.Code)
	} else if !strings.Contains(page.Body.String(), `name="next" value="/lessons?q=x"`) {
		t.Fatalf(`page without a login: Body = %q, want substring "name=\"next\" value=\"/lessons?q=x\""`, page.Body.String())
	} else if !strings.Contains(page.Body.String(), `action="/tools/precept/login"`) {
		t.Fatalf(`page without a login: Body = %q, want substring "action=\"/tools/precept/login\""`, page.Body.String())
	}
	login := do("POST", "/tools/precept/login?next=/lessons&token="+token, nil)
	if login.Code != 303 {
		t.Fatalf("login: Code = %d, want 303", login.Code)
	}
	if login.Header().Get("Location") != "/tools/precept/lessons" {
		t.Fatalf(`login: Location = %q, want "/tools/precept/lessons"`, login.Header().Get("Location"))
	}
	if login.Result().Cookies()[0].Path != "/tools/precept/" {
		t.Fatalf(`login: Path = %q, want "/tools/precept/"`, login.Result().Cookies()[0].Path)
	}
	links := regexp.MustCompile(`(?:href|src)="(/[^"#]*)`)
	seen, todo := map[string]bool{}, []string{"/tools/precept/"}
	for len(todo) > 0 {
		link := todo[0]
		todo = todo[1:]
		page := do("GET", strings.ReplaceAll(link, "&amp;", "&"), login.Result().Cookies()[0])
		if page.Code != 200 {
			t.Errorf("link %s: got status %d, want 200", link, page.Code)
		}
		for _, m := range links.FindAllStringSubmatch(page.Body.String(), -1) {
			if !seen[m[1]] {
				seen[m[1]] = true
				todo = append(todo, m[1])
			}
		}
	}
	if len(seen) < 30 {
		t.Errorf("addresses reached from the overview: got %d, want at least 30", len(seen))
	}
}
