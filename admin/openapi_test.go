package admin

import (
	"slices"
	"strings"
	"testing"

	"github.com/goccy/go-yaml"
)

// The OpenAPI document describes each API route and no other route. Pages and the profiler are not
// part of the API.
func TestOpenAPIDescribesEveryAPIRoute(t *testing.T) {
	var doc struct {
		Paths map[string]map[string]any
	}
	if err := yaml.Unmarshal(description, &doc); err != nil {
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
	s := newFixture(t, nil).Server
	for _, r := range s.echo.Routes() {
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
		t.Errorf("the description has the routes\n%s\nwant the routes of the router, at least 8:\n%s", strings.Join(described, "\n"), strings.Join(routed, "\n"))
	}
}
