package admin

import (
	"crypto/sha256"
	"encoding/hex"
	"net/http"
	"net/url"

	"github.com/labstack/echo/v4"
)

// role says what a token may do.
type role int

const (
	operator role = iota // everything
	viewer               // looks at lessons and figures; acts on nothing, and reads nothing that was said
)

// String is the role as the audit and the pages write it.
func (r role) String() string {
	if r == viewer {
		return "viewer"
	}
	return "operator"
}

const holderKey = "holder" // of the echo context: the holder whose token opened the door

// holder is whoever has a token: its digest, and what it may do.
type holder struct {
	sum  [sha256.Size]byte
	role role
}

// String names a holder without giving the token away: the role, and the beginning of the digest,
// which is what `printf %s "$TOKEN" | sha256sum` prints.
func (h holder) String() string { return h.role.String() + " " + hex.EncodeToString(h.sum[:4]) }

// holderOf is whose token vouches for a request. Without one (metrics that are public) it is a
// viewer's.
func holderOf(c echo.Context) holder {
	if h, ok := c.Get(holderKey).(holder); ok {
		return h
	}
	return holder{role: viewer}
}

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

// searches says that a query looks into what was said: its answer would quote it, or give it away
// word by word.
func searches(q url.Values) bool { return q.Get("words")+q.Get("tool")+q.Get("error") != "" }

// The sentences that a viewer is refused with.
const (
	noActing = "this token is a viewer's: it can look, and change nothing; " +
		"take an operator's token (admin.tokens)"
	noContent = "this token is a viewer's: it can look at lessons and figures, not at what was said; " +
		"take an operator's token (admin.tokens)"
)

// permit refuses what a viewer may not do. It stands behind the audit, so that an attempt is noted.
func (s *Server) permit(next echo.HandlerFunc) echo.HandlerFunc {
	return func(c echo.Context) error {
		if holderOf(c).role == operator || c.Path() == "/logout" {
			return next(c)
		}
		if !looks(c.Request()) {
			return echo.NewHTTPError(http.StatusForbidden, noActing)
		}
		if viewable(c.Path()) && !searches(c.QueryParams()) {
			return next(c)
		}
		refused := echo.NewHTTPError(http.StatusForbidden, noContent)
		if wantsHTML(c.Request()) {
			return s.show(c, shown{Title: "for operators", Main: refusedPage, Err: refused})
		}
		return refused
	}
}
