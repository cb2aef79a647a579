package proxy_test

import (
	"net/http"
	"os"
	"slices"
	"strings"
	"testing"

	"precept/proxy"

	"github.com/goccy/go-yaml"
)

func TestOpenAPIDescribesEveryRoute(t *testing.T) {
	text, err := os.ReadFile("../admin/openapi.yaml")
	if err != nil {
		t.Fatal(err)
	}
	var doc struct {
		Paths map[string]map[string]any
	}
	if err := yaml.Unmarshal(text, &doc); err != nil {
		t.Fatal(err)
	}
	var described, routes []string
	for path, item := range doc.Paths {
		for method := range item {
			health := path == "/healthz" || path == "/readyz"
			if method != "servers" && method != "parameters" && (health || strings.HasPrefix(path, "/v1/")) {
				described = append(described, strings.ToUpper(method)+" "+path)
			}
		}
	}
	f := newDefaultFixture(t, newUpstream(t, nil))
	f.Options().Bank = struct{ proxy.Bank }{} // enables the lesson routes; no request reads this bank
	for _, route := range f.Routes() {
		path := strings.TrimPrefix(route.Path, "/p/:names") // each route also exists below the path form
		if route.Path != "/*" && route.Method != http.MethodHead {
			routes = append(routes, route.Method+" "+strings.ReplaceAll(path, ":id", "{id}"))
		}
	}
	slices.Sort(described)
	slices.Sort(routes)
	routes = slices.Compact(routes)
	if len(routes) < 8 || !slices.Equal(described, routes) {
		t.Errorf("documented routes:\n%s\nwant the registered routes, at least 8:\n%s", strings.Join(described, "\n"), strings.Join(routes, "\n"))
	}
}
