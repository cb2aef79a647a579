package admin

import (
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"

	"github.com/labstack/echo/v4"

	"precept/internal/redact"
)

// headers sets the headers of every response. Scripts and styles come from this server only; no
// response may be stored or framed.
func headers(next echo.HandlerFunc) echo.HandlerFunc {
	return func(c echo.Context) error {
		h := c.Response().Header()
		h.Set("Content-Security-Policy", "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; "+
			"connect-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'")
		h.Set("X-Content-Type-Options", "nosniff")
		h.Set("X-Frame-Options", "DENY")
		// The login link holds a token; no-referrer would make browsers send our own forms with
		// Origin: null.
		h.Set("Referrer-Policy", "same-origin")
		h.Set("Cross-Origin-Opener-Policy", "same-origin")
		h.Set("Cross-Origin-Resource-Policy", "same-origin")
		h.Set("Cache-Control", "no-store")
		return next(c)
	}
}

// recover converts a panic to a 500 without its text; an aborted connection stays aborted.
func (s *Server) recover(next echo.HandlerFunc) echo.HandlerFunc {
	return func(c echo.Context) (err error) {
		defer func() {
			p := recover()
			if p == nil {
				return
			}
			if gone, ok := p.(error); ok && errors.Is(gone, http.ErrAbortHandler) {
				panic(p)
			}
			err = fmt.Errorf("panic: %s", redact.PanicKind(p))
		}()
		return next(c)
	}
}

// checkHost refuses a foreign name: a page on evil.example that was rebound to this address may not
// read a byte. Probes use any name of their platform, and learn nothing.
func (s *Server) checkHost(next echo.HandlerFunc) echo.HandlerFunc {
	return func(c echo.Context) error {
		switch c.Request().URL.Path {
		case "/healthz", "/readyz":
			return next(c)
		}
		if !s.access.Load().isOwnHost(c.Request().Host) {
			return echo.NewHTTPError(http.StatusForbidden, "the host name is not served; list it in admin.hosts")
		}
		return next(c)
	}
}

// authorize admits requests with a token or a session.
func (s *Server) authorize(next echo.HandlerFunc) echo.HandlerFunc {
	return func(c echo.Context) error {
		a := s.access.Load()
		if a.publicMetrics && c.Request().URL.Path == "/metrics" {
			return next(c)
		}
		if auth := c.Request().Header.Values(echo.HeaderAuthorization); len(auth) > 0 {
			token, bearer := bearerToken(auth[0])
			if who, ok := a.find(token); ok && len(auth) == 1 && bearer {
				c.Set(holderKey, who)
				return next(c)
			}
			return s.refuse(c)
		}
		if one, who, ok := s.session(c, a); ok {
			c.Set(sessionKey, one)
			c.Set(holderKey, who)
			return next(c)
		}
		return s.unknown(c)
	}
}

func bearerToken(header string) (string, bool) {
	scheme, token, ok := strings.Cut(header, " ")
	return strings.TrimSpace(token), ok && strings.EqualFold(scheme, "Bearer")
}

// session returns the session of the request's cookie, and the holder of its token.
func (s *Server) session(c echo.Context, a *access) (*session, holder, bool) {
	cookie, err := c.Cookie(cookieName)
	if err != nil {
		return nil, holder{}, false
	}
	one, ok := s.sessions.get(cookie.Value)
	if !ok {
		return nil, holder{}, false
	}
	who, ok := a.holder(one.token)
	return one, who, ok
}

// checkWrite protects writes with a cookie, which a browser sends for foreign pages, too.
func (s *Server) checkWrite(next echo.HandlerFunc) echo.HandlerFunc {
	return func(c echo.Context) error {
		one, cookie := c.Get(sessionKey).(*session)
		r := c.Request()
		if !cookie || isRead(r) {
			return next(c)
		}
		if !ownOrigin(r) {
			return echo.NewHTTPError(http.StatusForbidden,
				"the request comes from another site, or a proxy before precept does not forward Host; set the proxy to forward Host")
		}
		token := r.Header.Get(csrfHeader)
		if token == "" {
			token = r.PostFormValue(csrfField) // a query would end in logs and histories
		}
		if !one.vouches(token) {
			return echo.NewHTTPError(http.StatusForbidden, "the CSRF token is missing or wrong; load the page again")
		}
		return next(c)
	}
}

// ownOrigin reports whether a browser's request comes from this server's pages. Programs send
// neither header.
func ownOrigin(r *http.Request) bool {
	if site := r.Header.Get("Sec-Fetch-Site"); site != "" && site != "same-origin" && site != "none" {
		return false
	}
	origin := r.Header.Get("Origin")
	if origin == "" {
		return true
	}
	u, err := url.Parse(origin)
	return err == nil && u.Host != "" && strings.EqualFold(u.Host, r.Host)
}

// unbase removes the base path, unless a proxy has removed it.
func (s *Server) unbase(next echo.HandlerFunc) echo.HandlerFunc {
	return func(c echo.Context) error {
		c.Request().URL = s.below(c.Request().URL)
		return next(c)
	}
}

// audited records every request that may write, after its response.
func (s *Server) audited(next echo.HandlerFunc) echo.HandlerFunc {
	return func(c echo.Context) error {
		r := c.Request()
		if isRead(r) || c.Path() == "/logout" {
			return next(c)
		}
		err := next(c)
		_, browser := c.Get(sessionKey).(*session)
		n := Noted{
			At:     s.options.Now().UTC(),
			Who:    remoteIP(r).String() + when(browser, ", browser, ", ", token, ") + holderOf(c).String(),
			Action: r.Method + " " + c.Path(), Status: c.Response().Status,
		}
		if slug := param(c, "slug"); slug != "" {
			n.Detail = slug + " " + c.Param("action")
		}
		if detail, ok := c.Get(detailKey).(string); ok {
			n.Detail = detail
		}
		if err != nil {
			n.Status = errorResponse(err).Code
		}
		if e := s.audit.note(n); e != nil {
			s.options.Log.Error("action could not be written to the audit log", "file", auditFile, "error", e)
		}
		return err
	}
}

// Messages for a viewer without permission.
const (
	noActing = "a viewer's token cannot change anything; " +
		"use an operator's token (admin.tokens)"
	noContent = "a viewer's token reads lessons and figures, but no conversations; " +
		"use an operator's token (admin.tokens)"
)

// permit refuses operators' routes to viewers, after the audit, so that an attempt is recorded. A
// search is refused on any route, because its result would reveal conversations.
func (s *Server) permit(next echo.HandlerFunc) echo.HandlerFunc {
	return func(c echo.Context) error {
		if holderOf(c).role == operator || c.Path() == "/logout" {
			return next(c)
		}
		if !isRead(c.Request()) {
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

// fail answers the error of a handler. A logged-in person gets a page with the navigation.
func (s *Server) fail(err error, c echo.Context) {
	if c.Response().Committed {
		return
	}
	k := s.explain(c, err)
	if c.Request().Method == http.MethodHead {
		_ = c.NoContent(k.Code) // the client is gone
		return
	}
	_, in := c.Get(holderKey).(holder)
	if in && wantsHTML(c.Request()) && !strings.HasPrefix(c.Request().URL.Path, "/api/") {
		what := when(k.Code == http.StatusNotFound, "Page not found", "The request failed")
		if s.show(c, shown{Title: what, Main: failedPage, Err: k}) == nil {
			return
		}
	}
	_ = c.JSON(k.Code, map[string]string{"error": fmt.Sprint(k.Message)})
}
