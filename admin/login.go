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

// entryPage is the login page.
type entryPage struct {
	Said  string // reason for the login page, if any
	Next  string // path to open after the login
	Again bool   // the browser repeats the request without the user
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
			"Too many wrong tokens came from this address. The right token always works.")
	}
	return s.askToken(c, noToken(c),
		"The token is wrong. The command below prints the generated token.")
}

// unknown answers a request without a token: people get the login page, programs a sentence.
func (s *Server) unknown(c echo.Context) error {
	notice := ""
	if c.Request().Method != http.MethodGet {
		notice = "Your login has expired, and nothing was done. Log in and repeat the action."
	}
	return s.askToken(c, noToken(c), notice)
}

func noToken(c echo.Context) *echo.HTTPError {
	c.Response().Header().Set("WWW-Authenticate", `Bearer realm="precept admin"`)
	return echo.NewHTTPError(http.StatusUnauthorized,
		"an admin token is required: send Authorization: Bearer TOKEN, or log in at /login")
}

// askToken answers a person with the login page, and a program with the error. Browsers keep a
// strict cookie back when a link on another site leads here (of a chat, of an alert): the page asks
// them again, from our own site.
func (s *Server) askToken(c echo.Context, err *echo.HTTPError, said string) error {
	r := c.Request()
	if !wantsHTML(r) {
		return err
	}
	p := entryPage{Said: said}
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
	return s.render(c, err.Code, p.html())
}

// login exchanges a token for a session cookie and redirects away from the address with the token.
func (s *Server) login(c echo.Context) error {
	token := c.FormValue("token")
	if token == "" && c.Request().Method == http.MethodGet {
		return s.render(c, http.StatusOK, entryPage{}.html())
	}
	who, ok := s.access.Load().find(token)
	if !ok {
		return s.refuse(c)
	}
	id, err := s.sessions.create(who.sum)
	if err != nil {
		return err
	}
	c.SetCookie(s.cookie(c, id, int(sessionAge.Seconds())))
	return s.redirect(c, c.FormValue("next"))
}

func (s *Server) logout(c echo.Context) error {
	if cookie, err := c.Cookie(cookieName); err == nil {
		s.sessions.end(cookie.Value)
	}
	c.SetCookie(s.cookie(c, "", -1))
	return s.redirect(c, "/login")
}

// cookie returns a cookie, secure if the browser's connection is, as a proxy may report: loopback
// has no TLS.
func (s *Server) cookie(c echo.Context, value string, age int) *http.Cookie {
	return &http.Cookie{ //nolint:gosec // Secure as far as the connection is
		Name: cookieName, Value: value, Path: s.options.Address.Base + "/", MaxAge: age,
		HttpOnly: true, SameSite: http.SameSiteStrictMode, Secure: c.Scheme() == "https",
	}
}

// remoteIP returns the peer's address of the socket; anyone can write forwarding headers.
func remoteIP(r *http.Request) netip.Addr {
	address, err := netip.ParseAddrPort(r.RemoteAddr)
	if err != nil {
		return netip.Addr{}
	}
	return address.Addr().Unmap()
}

// html asks for a token.
func (p entryPage) html() g.Node {
	return document("precept: log in", g.If(p.Again, h.Meta(g.Attr("http-equiv", "refresh"), h.Content("0"))),
		h.Main(
			h.Class("login"),
			h.H1(icon("28"), g.Text("precept")),
			g.If(p.Said != "", problem(p.Said)),
			h.Form(
				h.Method("post"), h.Action("/login"),
				g.If(p.Next != "", hiddenField("next", p.Next)),
				h.Input(h.Name("username"), h.Value("admin"), h.AutoComplete("username"), g.Attr("hidden"), h.ReadOnly()),
				h.Label(h.For("token"), g.Text("Admin token")),
				h.Input(h.ID("token"), h.Name("token"), h.Type("password"), h.AutoComplete("current-password"), h.Required(), h.AutoFocus()),
				h.Button(h.Class("main"), g.Text("Log in")),
			),
			quiet(
				g.Text("The first start printed the token. The data directory contains the token, unless the configuration ("), code("admin.tokens"),
				g.Text(") or "), code("PRECEPT_ADMIN_TOKEN"), g.Text(" sets another token:"),
			),
			h.Pre(g.Text("cat ./data/admin-token")),
		),
	)
}
