package admin

import (
	"cmp"
	"net/http"
	"regexp"
	"slices"
	"strings"

	"github.com/labstack/echo/v4"

	"precept/internal/wire"
)

// versionedPath matches paths such as /v1/models and /v1beta/models/NAME:generateContent.
var versionedPath = regexp.MustCompile(`^(/openai)?/v[0-9][^/]*(/|$)`)

// refuseAgents responds to an agent's request with status 404 and names the data listener's base URL. An error about
// a missing admin token would lead people to give the agent an admin token. The response to a request with a foreign
// Host header does not contain the address, because another site could have rebound its name to this listener (see
// checkHost).
func (s *Server) refuseAgents(next echo.HandlerFunc) echo.HandlerFunc {
	return func(c echo.Context) error {
		r := c.Request()
		if !isModelPath(r.Method, r.URL.Path) {
			return next(c)
		}
		base := "the data listener's address (key listen)"
		if data := cmp.Or(s.options.Address.DataURL, "http://127.0.0.1:8080"); s.access.Load().isOwnHost(r.Host) {
			base = "the data listener, " + data + "/v1 (ANTHROPIC_BASE_URL=" + data + ")"
		}
		return echo.NewHTTPError(http.StatusNotFound, "the admin listener forwards no requests to models; "+
			"set the agent's base URL to "+base+" and keep the provider's API key")
	}
}

// isModelPath reports whether the method and the path are those of an agent's request, not a browser's.
func isModelPath(method, path string) bool {
	bare := []string{"/chat/completions", "/responses", "/messages", "/models", "/completions", "/embeddings"}
	return versionedPath.MatchString(path) || strings.HasPrefix(path, "/p/") || slices.Contains(bare, path) ||
		method == http.MethodPost && wire.DialectForPath(path) != wire.NoDialect
}
