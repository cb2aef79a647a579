package admin

import (
	"math"
	"net/http"
	"net/netip"
	"net/url"
	"strconv"

	"github.com/labstack/echo/v4"
	g "maragu.dev/gomponents"
	h "maragu.dev/gomponents/html"
)

type loginPage struct {
	Reason string // notice above the form; may be empty
	Next   string // opened after the login
	Reload bool   // open Next without a click
}

// wrongToken responds with status 401, or with 429 after many wrong tokens. wrongToken logs at most one line per
// logEvery, with the number of wrong tokens since the last line.
func (s *Server) wrongToken(c echo.Context) error {
	ip := remoteIP(c.Request())
	f := s.throttle.countFailure(ip)
	if f.shouldLog {
		s.log(c).Warn("admin token refused", "ip", ip.String(), "count", f.count)
	}
	if f.retryAfter > 0 {
		c.Response().Header().Set("Retry-After", strconv.Itoa(int(math.Ceil(f.retryAfter.Seconds()))))
		return s.askToken(c, echo.NewHTTPError(http.StatusTooManyRequests, "too many wrong tokens"),
			"Too many wrong tokens came from this address. The right token always works.")
	}
	return s.askToken(c, unauthorized(c, "the admin token is wrong: send Authorization: Bearer TOKEN with a token from admin.tokens or from the file admin-token in the data directory"),
		"The token is wrong. The command below prints the generated token.")
}

// missingToken responds to a request without a token or with an expired login.
func (s *Server) missingToken(c echo.Context) error {
	notice := ""
	if c.Request().Method != http.MethodGet {
		notice = "Your login has expired, and nothing was done. Log in and repeat the action."
	}
	return s.askToken(c, unauthorized(c, "an admin token is required: send Authorization: Bearer TOKEN, or log in at /login"), notice)
}

func unauthorized(c echo.Context, reason string) *echo.HTTPError {
	c.Response().Header().Set("WWW-Authenticate", `Bearer realm="precept admin"`)
	return echo.NewHTTPError(http.StatusUnauthorized, reason)
}

// askToken sends the login page to browsers, and err to programs. If a user follows a link on another site, such as a
// chat, the browser omits the SameSite=Strict cookie. The login page then reloads the address from this site, so that
// the browser sends the cookie.
func (s *Server) askToken(c echo.Context, err *echo.HTTPError, reason string) error {
	r := c.Request()
	if !wantsHTML(r) {
		return err
	}
	p := loginPage{Reason: reason}
	switch {
	case r.URL.Path == "/login":
		p.Next = c.FormValue("next")
	case r.Method == http.MethodGet:
		p.Next, p.Reload = r.URL.RequestURI(), r.Header.Get("Sec-Fetch-Site") == "cross-site"
	default:
		if from, err := url.Parse(r.Referer()); err == nil && from.Host == r.Host {
			p.Next = s.withoutBase(from).RequestURI() // the page with the form
		}
	}
	return s.render(c, err.Code, p.html())
}

// login checks a token from the form or from /login?token=TOKEN. login sets the session cookie and redirects, so the
// token leaves the address bar. Without a token, login shows the form, or redirects a logged-in browser.
func (s *Server) login(c echo.Context) error {
	token := c.FormValue("token")
	if token == "" && c.Request().Method == http.MethodGet {
		if _, _, ok := s.browserSession(c, s.access.Load()); ok { // for example, after the user pressed Back
			return s.redirect(c, c.QueryParam("next"))
		}
		return s.render(c, http.StatusOK, loginPage{}.html())
	}
	holder, ok := s.access.Load().byToken(token)
	if !ok {
		return s.wrongToken(c)
	}
	id, err := s.logins.create(holder.sum)
	if err != nil {
		return err
	}
	if err := s.logins.save(); err != nil {
		s.log(c).Warn("a login cannot be stored and ends at the next restart; check the space and the permissions in data_dir",
			"file", loginsFile, "error", err)
	}
	c.SetCookie(s.cookie(c, id, int(maxLoginAge.Seconds())))
	return s.redirect(c, c.FormValue("next"))
}

func (s *Server) logout(c echo.Context) error {
	if cookie, err := c.Cookie(cookieName); err == nil {
		s.logins.remove(cookie.Value)
		if removed, err := s.logins.saveOrRemove(); removed {
			s.log(c).Warn("a logout cannot be stored, so the stored logins were deleted, and all browsers must log in again after a restart; "+
				"check the space in data_dir", "file", loginsFile, "error", err)
		} else if err != nil {
			s.log(c).Error("a logout cannot be stored: until the restart the login is refused, and then the login works again; "+
				"delete the file before the restart, and check the permissions in data_dir", "file", loginsFile, "error", err)
		}
	}
	c.SetCookie(s.cookie(c, "", -1))
	return s.redirect(c, "/login")
}

// cookie returns the session cookie. The cookie is Secure only if the browser uses HTTPS, directly or through a
// proxy, because some browsers send no Secure cookie over HTTP, even on loopback.
func (s *Server) cookie(c echo.Context, value string, age int) *http.Cookie {
	return &http.Cookie{ //nolint:gosec // Secure is set for HTTPS
		Name: cookieName, Value: value, Path: s.options.Address.BasePath + "/", MaxAge: age,
		HttpOnly: true, SameSite: http.SameSiteStrictMode, Secure: c.Scheme() == "https",
	}
}

// remoteIP returns the connection's address. Forwarding headers are ignored, because every client can set them.
func remoteIP(r *http.Request) netip.Addr {
	address, err := netip.ParseAddrPort(r.RemoteAddr)
	if err != nil {
		return netip.Addr{}
	}
	return address.Addr().Unmap()
}

func (p loginPage) html() g.Node {
	return document("precept: log in", g.If(p.Reload, h.Meta(g.Attr("http-equiv", "refresh"), h.Content("0"))),
		h.Main(
			h.Class("login"),
			h.H1(icon("28"), g.Text("precept")),
			g.If(p.Reason != "", problem(p.Reason)),
			h.Form(
				h.Method("post"), h.Action("/login"),
				g.If(p.Next != "", hiddenField("next", p.Next)),
				h.Input(h.Name("username"), h.Value("admin"), h.AutoComplete("username"), g.Attr("hidden"), h.ReadOnly()),
				h.Label(h.For("token"), g.Text("Admin token")),
				h.Input(h.ID("token"), h.Name("token"), h.Type("password"), h.AutoComplete("current-password"), h.Required(), h.AutoFocus()),
				h.Button(h.Class("main"), g.Text("Log in")),
			),
			mutedText(
				g.Text("The first start printed the token. The data directory contains the token, unless the configuration ("), code("admin.tokens"),
				g.Text(") or "), code("PRECEPT_ADMIN_TOKEN"), g.Text(" sets another token:"),
			),
			h.Pre(g.Text("cat ./data/admin-token")),
		),
	)
}
