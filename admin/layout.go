package admin

import (
	g "maragu.dev/gomponents"
	h "maragu.dev/gomponents/html"
)

// layout is a whole page: its main part, and what stands around it.
func layout(f frame) g.Node {
	return document("precept: "+f.Title, g.Group{script("page.js"), f.Head},
		h.A(h.Class("skip"), h.Href("#main"), g.Text("Skip to the content")),
		top(f),
		g.If(f.Live, h.P(h.ID("stale"), h.Class("problem"), h.Role("status"), g.Attr("hidden"))),
		h.Main(
			h.ID("main"), h.TabIndex("-1"),
			g.If(f.Notice != "", h.P(h.Class("notice"), h.Role("status"), g.Text(f.Notice))),
			g.If(f.Problem != "", problem(f.Problem)),
			f.Main(f),
			countedAt(f.Counted),
		),
		g.Map(glossary(), definition),
	)
}

// document is what every page is in, the login page as well.
func document(title string, head g.Node, body ...g.Node) g.Node {
	return h.Doctype(h.HTML(
		h.Lang("en"),
		h.Head(
			h.Meta(h.Charset("utf-8")),
			h.Meta(h.Name("viewport"), h.Content("width=device-width, initial-scale=1")),
			h.Meta(h.Name("color-scheme"), h.Content("light dark")),
			h.TitleEl(quoted(title)),
			h.Link(h.Rel("icon"), h.Href("/static/icon.svg"), h.Type("image/svg+xml")),
			h.Link(h.Rel("stylesheet"), h.Href("/static/style.css")),
			h.Script(h.Src("/static/theme.js")), // before the body, so that no page flashes in the other theme
			head,
		),
		h.Body(body...),
	))
}

// problem says why there is nothing to see, or not all.
func problem(text string) g.Node {
	return h.P(h.Class("problem"), h.Role("alert"), g.Text(text))
}

// top is the head of a page: the way to the others, and switches.
func top(f frame) g.Node {
	return h.Header(
		h.Class("top"),
		h.A(h.Class("name"), h.Href(f.Link("/")), icon("22"), g.Text("precept")),
		h.Nav(labelled("Pages"), h.Ul(g.Map(f.Nav, func(l link) g.Node {
			return h.Li(h.A(
				h.Href(l.Href), g.If(l.Here, h.Aria("current", "page")), g.Text(l.Name),
				g.If(l.Badge != "", g.Group{space(), h.Span(h.Class("badge"), g.Text(l.Badge))}),
			))
		}))),
		h.Div(
			h.Class("tools"),
			g.If(f.Live, h.Label(h.Class("check"), h.Input(h.Type("checkbox"), h.ID("refresh"), h.Checked()), g.Text(" Live"))),
			themes(),
			g.If(f.Viewer, h.Span(h.Class("quiet"), h.Title("This token looks, and changes nothing"), g.Text("viewer"))),
			g.If(f.CSRF != "", h.Form(h.Method("post"), h.Action("/logout"), f.csrf(), h.Button(g.Text("Log out")))),
		),
	)
}

func icon(size string) g.Node {
	return h.Img(h.Src("/static/icon.svg"), h.Alt(""), h.Width(size), h.Height(size))
}

// themes is shown by page.js: without scripts it would switch nothing.
func themes() g.Node {
	return h.Select(
		h.ID("theme"), labelled("Theme"), h.Title("Theme: as the system has it, light or dark"), g.Attr("hidden"),
		option("auto", "Auto", false), option("light", "Light", false), option("dark", "Dark", false),
	)
}

// csrf is the field that lets a form write.
func (f frame) csrf() g.Node { return hiddenField(csrfField, f.CSRF) }

func countedAt(c counted) g.Node {
	if c.At.IsZero() {
		return nil
	}
	return quiet(
		g.Text("Counted at "), timeOf(c.At), g.Text("."),
		g.If(c.Old, g.Text(" Newer figures are being counted, and stand here in a moment.")),
	)
}

// definition is what opens at a word of the glossary.
func definition(t term) g.Node {
	return h.Div(
		g.Attr("popover"), h.Class("definition"), h.ID("def-"+t.Key),
		h.Strong(g.Text(t.Name)),
		g.If(t.Unit != "", g.Group{space(), h.Span(h.Class("unit"), g.Text("in "+t.Unit))}),
		h.P(g.Text(t.Text+" "), h.A(h.Href("/help/"+t.More()), g.Text("More"))),
	)
}

// loginPage asks for a token.
func loginPage(e entry) g.Node {
	return document("precept: log in", g.If(e.Again, h.Meta(g.Attr("http-equiv", "refresh"), h.Content("0"))),
		h.Main(
			h.Class("login"),
			h.H1(icon("28"), g.Text("precept")),
			g.If(e.Said != "", problem(e.Said)),
			h.Form(
				h.Method("post"), h.Action("/login"),
				g.If(e.Next != "", hiddenField("next", e.Next)),
				h.Input(h.Name("username"), h.Value("admin"), h.AutoComplete("username"), g.Attr("hidden"), h.ReadOnly()),
				h.Label(h.For("token"), g.Text("Admin token")),
				h.Input(h.ID("token"), h.Name("token"), h.Type("password"), h.AutoComplete("current-password"), h.Required(), h.AutoFocus()),
				h.Button(h.Class("main"), g.Text("Log in")),
			),
			quiet(
				g.Text("The token was shown at the first start. It lies in the data directory, unless the configuration ("), h.Code(g.Text("admin.tokens")),
				g.Text(") or "), h.Code(g.Text("PRECEPT_ADMIN_TOKEN")), g.Text(" names one:"),
			),
			h.Pre(g.Text("cat ./data/admin-token")),
		),
	)
}

// failedPage is for a page that is not there, or cannot be shown.
func failedPage(f frame) g.Node {
	return g.Group{
		title(f.Title),
		h.P(g.Text("Go back, or choose a page above; "), h.A(h.Href("/help"), g.Text("Help")), g.Text(" has the docs of this version.")),
	}
}

// refusedPage is for a viewer who asks for what only operators read.
func refusedPage(frame) g.Node {
	return g.Group{
		title("For operators"),
		h.P(g.Text("A viewer sees what lessons do, the queue, the list of sessions and precept's health. What was said in a session, its samples and exports are an operator's.")),
	}
}
