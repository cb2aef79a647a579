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

// Under a base path, with or without prefix stripping by another proxy, every address of every page
// leads to a page, and a login leads to the requested page.
func TestBasePathPrefixesEveryLink(t *testing.T) {
	for _, strips := range []bool{true, false} {
		f, _, _ := withLessons(t, func(o *Options) { o.Address.Base = "/tools/precept" })
		behind := httptest.NewServer(f)
		defer behind.Close()
		target, err := url.Parse(behind.URL)
		if err != nil {
			t.Fatal(err)
		}
		p := &httputil.ReverseProxy{Rewrite: func(r *httputil.ProxyRequest) {
			r.SetURL(target)
			r.Out.Host = r.In.Host
			if strips {
				r.Out.URL.Path = strings.TrimPrefix(r.In.URL.Path, "/tools/precept")
			}
		}}
		mux := http.NewServeMux() // paths outside of the base belong to another server
		mux.Handle("/tools/precept/", p)
		walk(t, mux)
	}
}

// walk follows every link from the login on.
func walk(t *testing.T, face http.Handler) {
	t.Helper()
	do := func(method, address string, cookie *http.Cookie) *httptest.ResponseRecorder {
		r := httptest.NewRequest(method, "http://127.0.0.1:8081"+address, nil)
		r.Header.Set("Accept", "text/html")
		if cookie != nil {
			r.AddCookie(cookie)
		}
		w := httptest.NewRecorder()
		face.ServeHTTP(w, r)
		return w
	}
	if page := do("GET", "/tools/precept/lessons?q=x", nil); page.Code != 401 || !strings.Contains(page.Body.String(), `name="next" value="/lessons?q=x"`) || !strings.Contains(page.Body.String(), `action="/tools/precept/login"`) {
		t.Fatalf("got status %d, Body %s, want status 401, Body.String() with `name=\"next\" value=\"/lessons?q=x\"` and Body.String() with `action=\"/tools/precept/login\"`", page.Code, page.Body)
	}
	in := do("POST", "/tools/precept/login?next=/lessons&token="+token, nil)
	if in.Code != 303 || in.Header().Get("Location") != "/tools/precept/lessons" || in.Result().Cookies()[0].Path != "/tools/precept/" {
		t.Fatalf(`got status %d, header %v, want status 303, Location "/tools/precept/lessons" and a cookie with the path "/tools/precept/"`, in.Code, in.Header())
	}
	links := regexp.MustCompile(`(?:href|src)="(/[^"#]*)`)
	seen, todo := map[string]bool{}, []string{"/tools/precept/"}
	for len(todo) > 0 {
		at := todo[0]
		todo = todo[1:]
		page := do("GET", strings.ReplaceAll(at, "&amp;", "&"), in.Result().Cookies()[0])
		if page.Code != 200 {
			t.Errorf("%s: got %d, want status 200", at, page.Code)
		}
		for _, m := range links.FindAllStringSubmatch(page.Body.String(), -1) {
			if !seen[m[1]] {
				seen[m[1]] = true
				todo = append(todo, m[1])
			}
		}
	}
	if len(seen) < 30 {
		t.Errorf("%d addresses were found, want at least 30", len(seen))
	}
}
