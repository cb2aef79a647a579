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

// Each route of the data listener that belongs to precept is described, and each described route exists.
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
	var described, there []string
	for path, item := range doc.Paths {
		for method := range item {
			both := path == "/healthz" || path == "/readyz"
			if method != "servers" && method != "parameters" && (both || strings.HasPrefix(path, "/v1/")) {
				described = append(described, strings.ToUpper(method)+" "+path)
			}
		}
	}
	r := newRig(t, newUpstream(t, nil), "", nil, nil)
	r.Parts().Bank = struct{ proxy.Bank }{} // no request reads the bank
	for _, route := range r.Routes() {
		path := strings.TrimPrefix(route.Path, "/p/:names") // the same path after a path form
		if route.Path != "/*" && route.Method != http.MethodHead {
			there = append(there, route.Method+" "+strings.ReplaceAll(path, ":id", "{id}"))
		}
	}
	slices.Sort(described)
	slices.Sort(there)
	there = slices.Compact(there)
	if len(there) < 8 || !slices.Equal(described, there) {
		t.Errorf("the description has the routes\n%s\nwant the routes of the router\n%s", strings.Join(described, "\n"), strings.Join(there, "\n"))
	}
}
