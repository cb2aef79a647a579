package admin

import (
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math"
	"net/http"
	"net/netip"
	"net/url"
	"strconv"
	"strings"

	"github.com/labstack/echo/v4"

	"precept/redact"
)

const (
	cookieName = "precept_session"
	sessionKey = "session" // of the echo context: the *session when a cookie opened the door
	csrfHeader = "X-CSRF-Token"
	csrfField  = "csrf_token"
)

// headers are on every answer. Scripts and styles come from our own files only; nothing of an
// answer may be kept or framed.
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

// recover turns a panic into a 500 without its text; a client that went away stays what it is.
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

// checkHost refuses a name that is not ours: a page on evil.example that was rebound to our address
// may not read a byte. Probes come with whatever name the platform gives them, and learn nothing.
func (s *Server) checkHost(next echo.HandlerFunc) echo.HandlerFunc {
	return func(c echo.Context) error {
		switch c.Request().URL.Path {
		case "/healthz", "/readyz":
			return next(c)
		}
		if !s.access.Load().knows(c.Request().Host) {
			return echo.NewHTTPError(http.StatusForbidden, "this host name is not served here; list it in admin.hosts")
		}
		return next(c)
	}
}

// authorize lets in who brings a token or a session.
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

// session is the one that the request's cookie names, and whose token began it.
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

// log is for what is told of one request: the line names it, as its answer's Precept-Request-Id
// does.
func (s *Server) log(c echo.Context) *slog.Logger {
	h := c.Response().Header()
	if h.Get("Precept-Request-Id") == "" {
		var b [8]byte
		_, _ = io.ReadFull(s.options.Random, b[:]) // an id that is not random still names the request
		h.Set("Precept-Request-Id", "req_"+hex.EncodeToString(b[:]))
	}
	return s.options.Log.With("request", h.Get("Precept-Request-Id"))
}

// refuse answers a wrong token: counted, and logged now and then.
func (s *Server) refuse(c echo.Context) error {
	ip := remoteIP(c.Request())
	f := s.throttle.wrong(ip)
	if f.log {
		s.log(c).Warn("admin token refused", "ip", ip.String(), "count", f.count)
	}
	if f.retryAfter > 0 {
		c.Response().Header().Set("Retry-After", strconv.Itoa(int(math.Ceil(f.retryAfter.Seconds()))))
		return s.askToken(c, echo.NewHTTPError(http.StatusTooManyRequests, "too many wrong tokens"),
			"Too many wrong tokens came from here. The right one is let in at any time.")
	}
	return s.askToken(c, noToken(c),
		"That is no token of this precept. The command below finds the one that was generated.")
}

// unknown answers who brings nothing: people get the login page, programs a sentence.
func (s *Server) unknown(c echo.Context) error {
	said := ""
	if c.Request().Method != http.MethodGet {
		said = "You are logged in no more, so nothing was done. Log in, and do it again."
	}
	return s.askToken(c, noToken(c), said)
}

func noToken(c echo.Context) *echo.HTTPError {
	c.Response().Header().Set("WWW-Authenticate", `Bearer realm="precept admin"`)
	return echo.NewHTTPError(http.StatusUnauthorized,
		"wants an admin token: Authorization: Bearer ..., or log in at /login")
}

// entry is the login page.
type entry struct {
	Said  string // why it is shown, where that is not plain
	Next  string // where to go then
	Again bool   // the browser shall ask once more by itself
}

// askToken answers a person with the login page, and a program with the error. Browsers keep a
// strict cookie back when a link on another site leads here (of a chat, of an alert): the page asks
// them again, from our own site.
func (s *Server) askToken(c echo.Context, err *echo.HTTPError, said string) error {
	r := c.Request()
	if !wantsHTML(r) {
		return err
	}
	p := entry{Said: said}
	switch {
	case r.URL.Path == "/login":
		p.Next = c.FormValue("next")
	case r.Method == http.MethodGet:
		p.Next, p.Again = r.URL.RequestURI(), r.Header.Get("Sec-Fetch-Site") == "cross-site"
	default:
		if from, err := url.Parse(r.Referer()); err == nil && from.Host == r.Host {
			p.Next = s.below(from).RequestURI() // back to the form
		}
	}
	return s.render(c, err.Code, loginPage(p))
}

// inside says that an address leads to a page of ours.
func inside(address string) bool {
	u, err := url.Parse(address)
	return err == nil && u.Scheme == "" && u.Host == "" && strings.HasPrefix(address, "/") &&
		!strings.HasPrefix(address, "//") && !strings.Contains(address, `\`)
}

func wantsHTML(r *http.Request) bool { return strings.Contains(r.Header.Get("Accept"), "text/html") }

// checkWrite guards what a cookie vouches for: a browser sends it along whoever made it ask.
func (s *Server) checkWrite(next echo.HandlerFunc) echo.HandlerFunc {
	return func(c echo.Context) error {
		one, cookie := c.Get(sessionKey).(*session)
		r := c.Request()
		if !cookie || looks(r) {
			return next(c)
		}
		if !ownOrigin(r) {
			return echo.NewHTTPError(http.StatusForbidden,
				"the request comes from another site, or a proxy before precept does not hand on its Host")
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

// looks says that a request changes nothing.
func looks(r *http.Request) bool { return r.Method == http.MethodGet || r.Method == http.MethodHead }

// ownOrigin says that a browser's request comes from our own pages. Programs send neither header.
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

// login changes a token for a session cookie; the answer leads away from the address that holds the
// token.
func (s *Server) login(c echo.Context) error {
	token := c.FormValue("token")
	if token == "" && c.Request().Method == http.MethodGet {
		return s.render(c, http.StatusOK, loginPage(entry{}))
	}
	a := s.access.Load()
	who, ok := a.find(token)
	if !ok {
		return s.refuse(c)
	}
	id, err := s.sessions.begin(who.sum)
	if err != nil {
		return err
	}
	c.SetCookie(s.cookie(c, id, int(sessionAge.Seconds())))
	next := c.FormValue("next")
	if !inside(next) {
		next = "/"
	}
	return s.redirect(c, next)
}

func (s *Server) logout(c echo.Context) error {
	if cookie, err := c.Cookie(cookieName); err == nil {
		s.sessions.end(cookie.Value)
	}
	c.SetCookie(s.cookie(c, "", -1))
	return s.redirect(c, "/login")
}

// cookie is secure where the browser's connection is, as a proxy before us may say: on loopback
// there is no TLS.
func (s *Server) cookie(c echo.Context, value string, age int) *http.Cookie {
	return &http.Cookie{ //nolint:gosec // Secure as far as the connection is
		Name: cookieName, Value: value, Path: s.options.Base + "/", MaxAge: age,
		HttpOnly: true, SameSite: http.SameSiteStrictMode, Secure: c.Scheme() == "https",
	}
}

// fail answers an error: a sentence for the caller, never what they sent, and the cause for the
// log. A person who is logged in gets it on a page, with the way to the others.
func (s *Server) fail(err error, c echo.Context) {
	if c.Response().Committed {
		return
	}
	known, ok := errors.AsType[*echo.HTTPError](err)
	if !ok {
		s.log(c).Error("admin request failed", "path", c.Path(), "error", err)
		known = echo.NewHTTPError(http.StatusInternalServerError, "internal error")
	}
	status := known.Code
	if c.Request().Method == http.MethodHead {
		_ = c.NoContent(status) // nobody is left to tell
		return
	}
	_, in := c.Get(holderKey).(holder)
	if in && wantsHTML(c.Request()) && !strings.HasPrefix(c.Request().URL.Path, "/api/") {
		v := shown{Title: "That did not work", Main: failedPage, Err: known}
		if status == http.StatusNotFound {
			v.Title = "No such page"
		}
		if s.show(c, v) == nil {
			return
		}
	}
	_ = c.JSON(status, map[string]string{"error": fmt.Sprint(known.Message)})
}

// explained is the status of an error, and what it says to people.
func explained(err error) (status int, sentence string) {
	known, ok := errors.AsType[*echo.HTTPError](err)
	if !ok {
		return http.StatusInternalServerError, "It failed; the log says why."
	}
	text := fmt.Sprint(known.Message)
	return known.Code, strings.ToUpper(text[:min(1, len(text))]) + text[min(1, len(text)):] + "."
}

// remoteIP is the peer's address as the socket gives it; forwarding headers can be written by
// anyone.
func remoteIP(r *http.Request) netip.Addr {
	address, err := netip.ParseAddrPort(r.RemoteAddr)
	if err != nil {
		return netip.Addr{}
	}
	return address.Addr().Unmap()
}
