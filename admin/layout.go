package admin

import (
	"net/http"
	"strings"

	"github.com/labstack/echo/v4"
	g "maragu.dev/gomponents"
	h "maragu.dev/gomponents/html"
)

const refreshHeader = "Precept-Refresh" // header sent by page.js to refresh an open page

// show sends a page inside the frame. The page's Err sets the status.
func (s *Server) show(c echo.Context, v pageContent) error {
	status := http.StatusOK
	if v.Err != nil {
		httpError := s.clientError(c, v.Err)
		status, v.Problem = httpError.Code, errorSentence(httpError)
	}
	f := linkFrame(c)
	f.page, f.Viewer = v, requestHolder(c).role == viewer
	if sess, ok := c.Get(browserSessionKey).(*browserSession); ok {
		f.CSRF, f.MayAct = sess.csrf, !f.Viewer
		if c.Request().Header.Get(refreshHeader) == "" { // a refresh must not use up the notice
			f.Notice = s.logins.takeNotice(sess)
		}
	}
	for _, p := range s.pages {
		if p.Name == "" || f.Viewer && !isViewable(p.Path) {
			continue
		}
		l := link{Name: p.Name, Href: f.linkWithFilters(p.Path)}
		l.IsCurrent = f.path == p.Path || p.Path != "/" && strings.HasPrefix(f.path, p.Path+"/")
		if p.Badge != nil {
			if n := p.Badge(); n > 0 {
				l.Badge = countText(n)
			}
		}
		f.Nav = append(f.Nav, l)
	}
	return s.render(c, status, layout(f))
}

func layout(f frame) g.Node {
	return document("precept: "+f.page.Title, g.Group{script("page.js"), f.page.Head},
		h.A(h.Class("skip"), h.Href("#main"), g.Text("Skip to the content")),
		topBar(f),
		g.If(f.page.Live, h.P(h.ID("stale"), h.Class("problem"), h.Role("status"), g.Attr("hidden"))),
		h.Main(
			h.ID("main"), h.TabIndex("-1"),
			g.Iff(f.Notice.text != "", func() g.Node { return f.Notice.html(f) }),
			g.If(f.page.Problem != "", problem(f.page.Problem)),
			f.page.Main(f),
			g.If(!f.page.Counted.At.IsZero(), mutedText(
				g.Text("Counted at "), timeNode(f.page.Counted.At), g.Text("."),
				g.If(f.page.Counted.Old, g.Text(" Newer figures are being counted and will appear here.")),
			)),
			h.P(h.ID("zone"), h.Class("quiet"), g.Text("Times are in UTC.")), // page.js changes this line and all times to the browser's zone
		),
		g.Map(glossary(), func(t term) g.Node { return definition(f, t) }),
	)
}

// html returns the notice. On all pages except the lesson's own, the notice links to the lesson.
func (n notice) html(f frame) g.Node {
	return h.P(
		h.Class("notice"), h.Role("status"), g.Text(n.text),
		g.If(n.href != "" && n.href != address(f.path, f.query), g.Group{space(), h.A(h.Href(n.href), g.Text("Open the lesson"))}),
	)
}

// document returns the HTML document for a page or for the login page.
func document(title string, head g.Node, body ...g.Node) g.Node {
	return h.Doctype(h.HTML(
		h.Lang("en"),
		h.Head(
			h.Meta(h.Charset("utf-8")),
			h.Meta(h.Name("viewport"), h.Content("width=device-width, initial-scale=1")),
			h.Meta(h.Name("color-scheme"), h.Content("light dark")),
			h.TitleEl(untrustedText(title)),
			h.Link(h.Rel("icon"), h.Href("/static/icon.svg"), h.Type("image/svg+xml")),
			h.Link(h.Rel("stylesheet"), h.Href("/static/style.css")),
			h.Script(h.Src("/static/theme.js")), // before the body, so pages do not flash in the other theme
			head,
		),
		h.Body(body...),
	))
}

func topBar(f frame) g.Node {
	return h.Header(
		h.Class("top"),
		h.A(h.Class("name"), h.Href(f.Link("/")), icon("22"), g.Text("precept")),
		h.Nav(ariaLabel("Pages"), h.Ul(g.Map(f.Nav, func(l link) g.Node {
			return h.Li(h.A(
				h.Href(l.Href), g.If(l.IsCurrent, h.Aria("current", "page")), g.Text(l.Name),
				g.If(l.Badge != "", g.Group{space(), h.Span(h.Class("badge"), g.Text(l.Badge))}),
			))
		}))),
		h.Div(
			h.Class("tools"),
			g.If(f.page.Live, checkbox("Live", h.ID("refresh"), h.Checked())),
			h.Select( // page.js shows this control, because it needs scripts
				h.ID("theme"), ariaLabel("Theme"), h.Title("Theme: system, light or dark"), g.Attr("hidden"),
				option(choice{"auto", "Auto"}, false), option(choice{"light", "Light"}, false), option(choice{"dark", "Dark"}, false),
			),
			g.If(f.Viewer, h.Span(h.Class("quiet"), h.Title("This token allows only reading"), g.Text("viewer"))),
			g.If(f.CSRF != "", h.Form(h.Method("post"), h.Action("/logout"), f.csrfInput(), h.Button(g.Text("Log out")))),
		),
	)
}

func errorPage(f frame) g.Node {
	return g.Group{
		title(f.page.Title),
		h.P(g.Text("Go back, or choose a page above; "), h.A(h.Href(f.Link("/help")), g.Text("Help")), g.Text(" has the documentation for this version.")),
	}
}

// noSessionPage is the page for a session or run that cannot be read, for example because the name is unknown.
func noSessionPage(f frame) g.Node {
	return g.Group{
		f.breadcrumb(sessionLists()...),
		title(f.page.Title),
		h.P(
			g.Text("Check the name and the tenant: the page reads the tenant "), code(f.Tenant), g.Text(". The list of "),
			h.A(h.Href(f.Link("/sessions")), g.Text("all stored sessions")), g.Text(" shows the tenant's session names and runs."),
		),
	}
}

func refusedPage(frame) g.Node {
	return g.Group{
		title("For operators"),
		h.P(g.Text("A viewer sees lesson effects, the queue, the session list and health. Conversations, backtests, samples and exports need an operator's token.")),
	}
}
