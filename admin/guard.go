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

// securityHeaders sets the security headers. Scripts and styles come only from this server; browsers must not store or
// frame a response.
func securityHeaders(next echo.HandlerFunc) echo.HandlerFunc {
	return func(c echo.Context) error {
		h := c.Response().Header()
		h.Set("Content-Security-Policy", "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; "+
			"connect-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'")
		h.Set("X-Content-Type-Options", "nosniff")
		h.Set("X-Frame-Options", "DENY")
		// The login link contains the token, so other sites must not get it as the referrer. With no-referrer,
		// browsers would send our forms with Origin: null.
		h.Set("Referrer-Policy", "same-origin")
		h.Set("Cross-Origin-Opener-Policy", "same-origin")
		h.Set("Cross-Origin-Resource-Policy", "same-origin")
		h.Set("Cache-Control", "no-store")
		return next(c)
	}
}

// recover converts a panic to status 500. The response omits the panic text, which can contain session data.
// http.ErrAbortHandler still aborts the connection.
func (s *Server) recover(next echo.HandlerFunc) echo.HandlerFunc {
	return func(c echo.Context) (err error) {
		defer func() {
			p := recover()
			if p == nil {
				return
			}
			if abort, ok := p.(error); ok && errors.Is(abort, http.ErrAbortHandler) {
				panic(p)
			}
			err = fmt.Errorf("panic: %s", redact.SafePanicText(p))
		}()
		return next(c)
	}
}

// checkHost refuses foreign Host headers. Otherwise another site could rebind its name to this address (DNS
// rebinding) and read the dashboard. Probes are exempt: platforms send them with any host name, and the response
// holds no data.
func (s *Server) checkHost(next echo.HandlerFunc) echo.HandlerFunc {
	return func(c echo.Context) error {
		switch c.Request().URL.Path {
		case "/healthz", "/readyz":
			return next(c)
		}
		if !s.access.Load().isOwnHost(c.Request().Host) {
			return echo.NewHTTPError(http.StatusForbidden, "the admin listener does not accept this host name; add the name to admin.hosts")
		}
		return next(c)
	}
}

// authorize admits valid tokens and cookies, and stores the token's holder in the context. Public metrics need no
// token.
func (s *Server) authorize(next echo.HandlerFunc) echo.HandlerFunc {
	return func(c echo.Context) error {
		a := s.access.Load()
		if a.publicMetrics && c.Request().URL.Path == "/metrics" {
			return next(c)
		}
		if auth := c.Request().Header.Values(echo.HeaderAuthorization); len(auth) > 0 {
			token, bearer := bearerToken(auth[0])
			if h, ok := a.byToken(token); ok && len(auth) == 1 && bearer {
				c.Set(holderKey, h)
				return next(c)
			}
			return s.wrongToken(c)
		}
		if sess, h, ok := s.browserSession(c, a); ok {
			c.Set(browserSessionKey, sess)
			c.Set(holderKey, h)
			return next(c)
		}
		return s.missingToken(c)
	}
}

func bearerToken(header string) (string, bool) {
	scheme, token, ok := strings.Cut(header, " ")
	return strings.TrimSpace(token), ok && strings.EqualFold(scheme, "Bearer")
}

// browserSession returns the session for the request's cookie and the token's holder. The last result is false if
// there is no valid login, or if the token has been removed.
func (s *Server) browserSession(c echo.Context, a *access) (*browserSession, holder, bool) {
	cookie, err := c.Cookie(cookieName)
	if err != nil {
		return nil, holder{}, false
	}
	sess, ok := s.logins.get(cookie.Value)
	if !ok {
		return nil, holder{}, false
	}
	h, ok := a.byLogin(cookie.Value, sess.proof)
	if ok {
		s.logins.recordUse(sess)
	}
	return sess, h, ok
}

// checkWrite refuses writes that another site sends through a logged-in browser, with the cookie. A write with a cookie
// must come from this server's pages (see isOwnOrigin) and have the CSRF token.
func (s *Server) checkWrite(next echo.HandlerFunc) echo.HandlerFunc {
	return func(c echo.Context) error {
		sess, hasSession := c.Get(browserSessionKey).(*browserSession)
		r := c.Request()
		if !hasSession || isRead(r) {
			return next(c)
		}
		if !isOwnOrigin(r) {
			return echo.NewHTTPError(http.StatusForbidden,
				"the request comes from another site, or a proxy before precept does not forward Host; set the proxy to forward Host")
		}
		token := r.Header.Get(csrfHeader)
		if token == "" {
			token = r.PostFormValue(csrfField) // not from the query: logs and histories keep queries
		}
		if !sess.hasCSRF(token) {
			return echo.NewHTTPError(http.StatusForbidden, "the CSRF token is missing or wrong; load the page again")
		}
		return next(c)
	}
}

// isOwnOrigin reports whether Sec-Fetch-Site and Origin name this server's pages. Programs send neither, so a missing
// header passes.
func isOwnOrigin(r *http.Request) bool {
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

// stripBase removes the base path unless a proxy has already done so.
func (s *Server) stripBase(next echo.HandlerFunc) echo.HandlerFunc {
	return func(c echo.Context) error {
		c.Request().URL = s.withoutBase(c.Request().URL)
		return next(c)
	}
}

// auditRequest adds each writing request, except the logout, to the audit log.
func (s *Server) auditRequest(next echo.HandlerFunc) echo.HandlerFunc {
	return func(c echo.Context) error {
		r := c.Request()
		if isRead(r) || c.Path() == "/logout" {
			return next(c)
		}
		err := next(c)
		_, browser := c.Get(browserSessionKey).(*browserSession)
		n := AuditEntry{
			At:     s.options.Now().UTC(),
			Actor:  remoteIP(r).String() + ifElse(browser, ", browser, ", ", token, ") + requestHolder(c).String(),
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
		if e := s.audit.add(n); e != nil {
			s.options.Log.Error("an action could not be written to the audit log; the health page shows the action until the "+
				"restart: check the space and the permissions in the data directory", "file", auditFile, "error", e)
		}
		return err
	}
}

const (
	viewerCannotWrite = "a viewer's token cannot change anything; " +
		"use an operator's token (admin.tokens)"
	viewerCannotReadContent = "a viewer's token reads lessons and figures, but no conversations; " +
		"use an operator's token (admin.tokens)"
)

// checkPermission refuses requests that viewers are not allowed to make: writes other than the logout, routes that
// are not viewable, and searches and backtests, which would reveal conversations. checkPermission runs inside
// auditRequest, so the audit log contains refused writes.
func (s *Server) checkPermission(next echo.HandlerFunc) echo.HandlerFunc {
	return func(c echo.Context) error {
		if requestHolder(c).role == operator || c.Path() == "/logout" {
			return next(c)
		}
		if !isRead(c.Request()) {
			return echo.NewHTTPError(http.StatusForbidden, viewerCannotWrite)
		}
		if isViewable(c.Path()) && c.QueryParam("words")+c.QueryParam("tool")+c.QueryParam("error")+c.QueryParam("backtest") == "" {
			return next(c)
		}
		refused := echo.NewHTTPError(http.StatusForbidden, viewerCannotReadContent)
		if wantsHTML(c.Request()) {
			return s.show(c, pageContent{Title: "for operators", Main: refusedPage, Err: refused})
		}
		return refused
	}
}

// handleError sends a page to a logged-in browser, and JSON to any other client.
func (s *Server) handleError(err error, c echo.Context) {
	if c.Response().Committed {
		return
	}
	response := s.clientError(c, err)
	if c.Request().Method == http.MethodHead {
		_ = c.NoContent(response.Code) // fails only if the client has left
		return
	}
	_, loggedIn := c.Get(holderKey).(holder)
	if loggedIn && wantsHTML(c.Request()) && !strings.HasPrefix(c.Request().URL.Path, "/api/") {
		pageTitle := ifElse(response.Code == http.StatusNotFound, "Page not found", "The request failed")
		if s.show(c, pageContent{Title: pageTitle, Main: errorPage, Err: response}) == nil {
			return
		}
	}
	_ = c.JSON(response.Code, map[string]string{"error": fmt.Sprint(response.Message)})
}
