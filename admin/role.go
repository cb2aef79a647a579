package admin

import (
	"net/http"

	"github.com/labstack/echo/v4"
	g "maragu.dev/gomponents"
	h "maragu.dev/gomponents/html"
)

// viewable says that a viewer may read a route. A route that is not listed here is an operator's:
// conversations, samples, exports and profiles hold what people and models said.
func viewable(path string) bool {
	switch path {
	case "/", "/lessons", "/lessons/:slug", "/breakdown", "/queue", "/sessions", "/health", "/help", "/help/*",
		"/api/openapi.yaml", "/api/report", "/api/sessions", "/api/health", "/metrics", "/*":
		return true
	}
	return false
}

// The sentences that a viewer is refused with.
const (
	noActing = "this token is a viewer's: it can look, and change nothing; " +
		"take an operator's token (admin.tokens)"
	noContent = "this token is a viewer's: it can look at lessons and figures, not at what was said; " +
		"take an operator's token (admin.tokens)"
)

// permit refuses what a viewer may not do. It stands behind the audit, so that an attempt is noted.
// A search is refused on any route: its answer would quote what was said, or give it away word by
// word.
func (s *Server) permit(next echo.HandlerFunc) echo.HandlerFunc {
	return func(c echo.Context) error {
		if holderOf(c).role == operator || c.Path() == "/logout" {
			return next(c)
		}
		if !looks(c.Request()) {
			return echo.NewHTTPError(http.StatusForbidden, noActing)
		}
		if viewable(c.Path()) && c.QueryParam("words")+c.QueryParam("tool")+c.QueryParam("error") == "" {
			return next(c)
		}
		refused := echo.NewHTTPError(http.StatusForbidden, noContent)
		if wantsHTML(c.Request()) {
			return s.show(c, shown{Title: "for operators", Main: refusedPage, Err: refused})
		}
		return refused
	}
}

// refusedPage is for a viewer who asks for what only operators read.
func refusedPage(frame) g.Node {
	return g.Group{
		title("For operators"),
		h.P(g.Text("A viewer sees what lessons do, the queue, the list of sessions and precept's health. What was said in a session, its samples and exports are an operator's.")),
	}
}
