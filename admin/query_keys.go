package admin

import (
	"net/http"
	"slices"
	"strings"

	"github.com/labstack/echo/v4"
)

// queryKeys returns an API route's query keys, as in openapi.yaml.
func queryKeys(method, path string) []string {
	switch method + " " + path {
	case "GET /api/report":
		return []string{"tenant", "window", "provisional", "what_if", "explain"}
	case "GET /api/sessions":
		return append(sessionFilters(), "tenant", "zone", "session", "order", "limit", "after")
	case "GET /api/traffic":
		return append(sessionFilters(), "tenant", "tenants", "zone")
	case "GET /api/facets":
		return append(sessionFilters(), "tenant", "zone")
	case "GET /api/compare":
		return append(sessionFilters(), "tenant", "zone", "by", "a", "b")
	case "GET /api/export/sessions":
		return append(sessionFilters(), "tenant", "zone", "session", "format", "order", "limit", "after") // the handler refuses the last two, with a reason
	case "GET /api/sessions/:session":
		return []string{"tenant", nameKey, "from"}
	case "GET /api/samples":
		return []string{"tenant", "range", "since", "until", "zone", "family", "quality", "lesson", "agent", "session", "limit", "after"}
	case "GET /api/export":
		return []string{"tenant", "format", "range", "zone", "since", "until", "family", "quality", "lesson", "agent", "session", "limit", "after"}
	case "POST /api/import":
		return []string{"tenant", "agent", "at"}
	case "GET /api/runs/:run":
		return []string{"tenant", nameKey}
	case "GET /api/views", "POST /api/feedback", "POST /api/lessons/:slug/:action":
		return []string{"tenant"}
	}
	return nil
}

// checkKeys refuses unknown query keys, because a misspelt filter would select everything. Pages ignore unknown keys,
// because mail and chat programs add keys to links.
func checkKeys(next echo.HandlerFunc) echo.HandlerFunc {
	return func(c echo.Context) error {
		if !strings.HasPrefix(c.Path(), "/api/") {
			return next(c)
		}
		known := queryKeys(c.Request().Method, c.Path())
		for key := range c.QueryParams() {
			if !slices.Contains(known, key) {
				return echo.NewHTTPError(http.StatusBadRequest, unknownKey(key, known))
			}
		}
		return next(c)
	}
}

func unknownKey(key string, known []string) string {
	text := TerminalText(shortenName(key)) + ": unknown parameter; "
	if len(known) == 0 {
		return text + "the request has no parameters"
	}
	return text + "the parameters are " + strings.Join(slices.Sorted(slices.Values(known)), ", ")
}
