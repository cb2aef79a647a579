package admin

import (
	"bytes"
	"fmt"
	"io/fs"
	"net/http"
	"path"
	"strings"

	"github.com/labstack/echo/v4"
	"github.com/yuin/goldmark"
	"github.com/yuin/goldmark/ast"
	"github.com/yuin/goldmark/extension"
	"github.com/yuin/goldmark/parser"
	"github.com/yuin/goldmark/text"
	"github.com/yuin/goldmark/util"
	g "maragu.dev/gomponents"
	h "maragu.dev/gomponents/html"

	"precept/docs"
)

// helpPage is a page of the docs, ready to be shown.
type helpPage struct {
	Name, Title string
	Body        g.Node // of Markdown of our own, written without raw HTML
}

// helpIndex is the list of all of them.
type helpIndex struct{ Guides, Decisions []helpPage }

// guides are the pages of the docs in the order in which a newcomer reads them.
func guides() []string {
	return []string{
		"DASHBOARD", "EXPERIMENT", "LESSONS", "AGENTS", "OPERATIONS", "SAMPLES", "DISTILL", "ARCHITECTURE",
	}
}

// help lists the pages.
func (s *Server) help(c echo.Context) error {
	var v helpIndex
	for _, name := range guides() {
		p, err := readHelp(name)
		if err != nil {
			return err
		}
		v.Guides = append(v.Guides, p)
	}
	files, err := fs.Glob(docs.Pages, "decisions/*.md")
	if err != nil {
		return fmt.Errorf("list the decisions: %w", err)
	}
	for _, f := range files {
		p, err := readHelp(strings.TrimSuffix(f, ".md"))
		if err != nil {
			return err
		}
		v.Decisions = append(v.Decisions, p)
	}
	return s.show(c, shown{Title: "help", Main: v.html})
}

// helpPage shows a page, or a drawing of one.
func (s *Server) helpPage(c echo.Context) error {
	name := c.Param("*")
	if strings.HasPrefix(name, "img/") && path.Ext(name) == ".svg" && fs.ValidPath(name) {
		b, err := docs.Pages.ReadFile(name)
		if err != nil {
			return echo.ErrNotFound
		}
		return c.Blob(http.StatusOK, "image/svg+xml", b)
	}
	p, err := readHelp(name)
	if err != nil {
		return echo.ErrNotFound
	}
	return s.show(c, shown{Title: p.Title, Main: p.html})
}

func (v *helpIndex) html(frame) g.Node {
	return g.Group{
		title("Help", quiet(g.Text("The docs of this version; nothing is loaded from elsewhere."))),
		helpList(v.Guides, h.Class("guides")),
		h.P(
			g.Text("The endpoints for programs are described in "), h.A(h.Href("/api/openapi.yaml"), g.Text("OpenAPI")),
			g.Text(". Every number of the dashboard has its definition one hover or key away, and a link from there "+
				"to the part that tells more."),
		),
		h.Details(h.Summary(g.Text("Why it is so: the decisions")), helpList(v.Decisions)),
	}
}

func helpList(pages []helpPage, attributes ...g.Node) g.Node {
	return h.Ul(g.Group(attributes), g.Map(pages, func(p helpPage) g.Node {
		return h.Li(h.A(h.Href("/help/"+p.Name), g.Text(p.Title)))
	}))
}

func (p *helpPage) html(frame) g.Node {
	return g.Group{
		h.P(h.Class("crumb"), h.A(h.Href("/help"), g.Text("Help"))),
		h.Article(h.Class("doc"), p.Body),
	}
}

// readHelp makes HTML of a page. Raw HTML in it is left out, so that there is no road from a file
// to a script; links to other pages lead to where those are served, and what is not served is no
// link.
func readHelp(name string) (helpPage, error) {
	if !fs.ValidPath(name) {
		return helpPage{}, fs.ErrNotExist
	}
	raw, err := docs.Pages.ReadFile(name + ".md")
	if err != nil {
		return helpPage{}, err
	}
	links := &helpLinks{at: path.Dir(name), title: name}
	md := goldmark.New(goldmark.WithExtensions(extension.Table), goldmark.WithParserOptions(
		parser.WithAutoHeadingID(), parser.WithASTTransformers(util.Prioritized(links, 100)),
	))
	var b bytes.Buffer
	if err := md.Convert(raw, &b); err != nil {
		return helpPage{}, fmt.Errorf("read the help page %s: %w", name, err)
	}
	html := strings.NewReplacer(
		"<table>", `<div class="scroll" role="region" aria-label="Table" tabindex="0"><table>`,
		"</table>", "</table></div>", "<pre>", `<pre tabindex="0">`,
	).Replace(b.String())
	return helpPage{Name: name, Title: links.title, Body: g.Raw(html)}, nil
}

// helpLinks leads the links of a page to where their targets are served, and finds its title.
type helpLinks struct {
	at    string // the page's directory in the docs
	title string
}

// Transform is called by goldmark when a page has been read.
func (l *helpLinks) Transform(page *ast.Document, reader text.Reader, _ parser.Context) {
	var gone []ast.Node
	lead := func(n ast.Node, to *[]byte) {
		served, ok := l.served(string(*to))
		if *to = []byte(served); !ok {
			gone = append(gone, n)
		}
	}
	_ = ast.Walk(page, func(n ast.Node, entering bool) (ast.WalkStatus, error) {
		switch n := n.(type) {
		case *ast.Heading:
			if n.Level == 1 {
				l.title = string(n.Lines().Value(reader.Source()))
			}
		case *ast.Link:
			if entering {
				lead(n, &n.Destination)
			}
		case *ast.Image:
			if entering {
				lead(n, &n.Destination)
			}
		}
		return ast.WalkContinue, nil
	})
	for _, n := range gone { // its words stay
		for c := n.FirstChild(); c != nil && n.Kind() == ast.KindLink; c = n.FirstChild() {
			n.Parent().InsertBefore(n.Parent(), n, c)
		}
		n.Parent().RemoveChild(n.Parent(), n)
	}
}

// served is the address of a link's target; false where it is not served.
func (l *helpLinks) served(to string) (string, bool) {
	if strings.HasPrefix(to, "#") || strings.HasPrefix(to, "https://") {
		return to, true
	}
	file, anchor, _ := strings.Cut(to, "#")
	file = path.Join(l.at, file)
	if _, err := fs.Stat(docs.Pages, file); err != nil || !fs.ValidPath(file) {
		return "", false
	}
	file = "/help/" + strings.TrimSuffix(file, ".md")
	if anchor != "" {
		file += "#" + anchor
	}
	return file, true
}
