package admin

import (
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/goccy/go-yaml"
)

func TestOpenAPIDescribesEveryAPIRoute(t *testing.T) {
	var doc struct {
		Paths map[string]map[string]any
	}
	if err := yaml.Unmarshal(openAPIDocument, &doc); err != nil {
		t.Fatal(err)
	}
	var described, routed []string
	for path, item := range doc.Paths {
		for method := range item {
			if isMethod := method != "servers" && method != "parameters"; isMethod && !strings.HasPrefix(path, "/v1/") {
				described = append(described, strings.ToUpper(method)+" "+path)
			}
		}
	}
	f := newFixture(t, nil).Server
	for _, r := range f.echo.Routes() {
		words := strings.Split(r.Path, "/")
		for i, w := range words {
			if name, ok := strings.CutPrefix(w, ":"); ok {
				words[i] = "{" + name + "}"
			}
		}
		switch path := strings.Join(words, "/"); {
		case strings.HasPrefix(path, "/api/"), path == "/healthz", path == "/readyz", path == "/login", path == "/metrics":
			routed = append(routed, r.Method+" "+path)
		}
	}
	slices.Sort(described)
	slices.Sort(routed)
	if len(routed) < 8 || !slices.Equal(described, routed) {
		t.Errorf("got documented routes\n%s\nwant the registered routes, which must be at least 8:\n%s", strings.Join(described, "\n"), strings.Join(routed, "\n"))
	}
}

// A route may accept the filters of the sessions page without documenting them, because clients send the same query to
// several routes.
func TestOpenAPIDescribesEveryQueryParameter(t *testing.T) {
	type parameter struct {
		Name, In string
		Ref      string `yaml:"$ref"`
	}
	var doc struct {
		Paths      map[string]map[string]any
		Components struct{ Parameters map[string]parameter }
	}
	if err := yaml.Unmarshal(openAPIDocument, &doc); err != nil {
		t.Fatal(err)
	}
	pageFilters := map[string]bool{"words": true, "tool": true, "error": true, "limit": true, "after": true}
	for _, r := range newFixture(t, nil).echo.Routes() {
		words := strings.Split(r.Path, "/")
		for i, w := range words {
			if name, ok := strings.CutPrefix(w, ":"); ok {
				words[i] = "{" + name + "}"
			}
		}
		item, isAPI := doc.Paths[strings.Join(words, "/")]
		if !isAPI || !strings.HasPrefix(r.Path, "/api/") {
			continue
		}
		var parsed, described []parameter
		operation, _ := item[strings.ToLower(r.Method)].(map[string]any)
		for _, part := range []any{item["parameters"], operation["parameters"]} {
			text, err := yaml.Marshal(part)
			if err == nil {
				parsed = nil
				err = yaml.Unmarshal(text, &parsed)
			}
			if err != nil {
				t.Fatal(err)
			}
			described = append(described, parsed...)
		}
		var names []string
		for _, p := range described {
			if p.Ref != "" {
				p = doc.Components.Parameters[p.Ref[strings.LastIndex(p.Ref, "/")+1:]]
			}
			if p.In == "query" {
				names = append(names, p.Name)
			}
		}
		known := queryKeys(r.Method, r.Path)
		for _, name := range names {
			if !slices.Contains(known, name) {
				t.Errorf("%s %s, documented parameter %s: got it refused, want it accepted", r.Method, r.Path, name)
			}
		}
		for _, name := range known {
			if !slices.Contains(names, name) && !pageFilters[name] {
				t.Errorf("%s %s, accepted parameter %s: got no documentation for it, want it in openapi.yaml", r.Method, r.Path, name)
			}
		}
	}
}

func TestAPIRefusesUnknownQueryParameters(t *testing.T) {
	f := newFixture(t, nil)
	cookie, _ := f.logIn(t)
	loggedIn := func(r *http.Request) { r.AddCookie(cookie) }
	for path, want := range map[string]string{
		"/api/report?sesion=x":        "sesion: unknown parameter; the parameters are explain, provisional, tenant, what_if, window",
		"/api/health?tenant=x":        "tenant: unknown parameter; the request has no parameters",
		"/api/sessions?utm_source=x":  "utm_source: unknown parameter; the parameters are after, agent, arm",
		"/api/samples?verdict=good":   "verdict: unknown parameter; the parameters are after, agent, family",
		"/api/runs/r?range=7d":        "range: unknown parameter; the parameters are name, tenant",
		"/api/export?format=x&Tenant": "Tenant: unknown parameter;",
	} {
		res := f.do(t, "GET", path, loggedIn)
		if got := body(t, res); res.StatusCode != http.StatusBadRequest {
			t.Errorf("%s: status = %d, want 400", path, res.StatusCode)
		} else if !strings.Contains(got, want) {
			t.Errorf("%s: got %q, want substring %q", path, got, want)
		}
	}
	for _, path := range []string{"/?utm_source=mail", "/lessons?utm_source=mail&fbclid=1"} {
		if res := f.do(t, "GET", path, loggedIn); res.StatusCode != http.StatusOK {
			t.Errorf("%s: got status %d, want 200", path, res.StatusCode)
		}
	}
}
