package admin

import (
	"bytes"
	"fmt"
	"io/fs"
	"path"
	"slices"
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

func guides() []string {
	return []string{
		"DASHBOARD", "EXPERIMENT", "LESSONS", "RULES", "AGENTS", "FEEDBACK", "CI", "OPERATIONS", "SAMPLES", "DISTILL",
		"ARCHITECTURE",
	}
}

// help lists the docs pages and search results.
func (s *Server) help(c echo.Context) error {
	decisions, err := fs.Glob(docs.Pages, "decisions/*.md")
	if err != nil {
		return fmt.Errorf("list the decisions: %w", err)
	}
	words := c.QueryParam("q")
	return s.show(c, pageContent{Title: "help", Main: func(f frame) g.Node {
		return g.Group{
			title("Help", mutedText(g.Text("The documentation for this version, built into the binary."))),
			filterForm("/help", "Documentation", f.withoutFilters("q"), hiddenQueryFields(f, "tenant"), textField("Search the documentation", "q", words, "30", h.Type("search"))),
			g.Iff(strings.TrimSpace(words) != "", func() g.Node { return searchResults(f, words) }),
			helpList(f, guides(), h.Class("guides")),
			h.P(
				g.Text("The endpoints for programs are described in "), h.A(h.Href("/api/openapi.yaml"), g.Text("OpenAPI")),
				g.Text(". To see the definition of a word with a dotted underline, hover over the word, tap it, or press Enter on it. "+
					"The definition links to the matching section."),
			),
			collapsible("Decisions and reasons", helpList(f, decisions)),
		}
	}})
}

func helpList(f frame, names []string, attributes ...g.Node) g.Node {
	return h.Ul(g.Group(attributes), g.Map(names, func(name string) g.Node {
		name = strings.TrimSuffix(name, ".md")
		raw, _ := docs.Pages.ReadFile(name + ".md") // a test finds missing pages
		return h.Li(h.A(h.Href(f.helpHref(name)), g.Text(docTitle(raw))))
	}))
}

// helpPart is the part of a docs page below one heading.
type helpPart struct{ name, anchor, text string }

// helpParts splits a page at headings below the first level.
func helpParts(raw []byte) (out []helpPart) {
	for chunk := range strings.SplitSeq("\n"+string(raw), "\n##") {
		name, rest, _ := strings.Cut(strings.TrimLeft(chunk, "#"), "\n")
		name = strings.ReplaceAll(strings.TrimSpace(name), "`", "")
		anchor := strings.Map(func(r rune) rune {
			switch {
			case r == ' ' || r == '-' || r == '_':
				return '-'
			case r >= 'a' && r <= 'z' || r >= '0' && r <= '9':
				return r
			default:
				return -1
			}
		}, strings.ToLower(name))
		out = append(out, helpPart{name, anchor, rest})
	}
	return out[1:]
}

func tableOfContents(raw []byte) g.Node {
	return collapsible("Contents", h.Ul(g.Map(helpParts(raw), func(p helpPart) g.Node {
		return h.Li(h.A(h.Href("#"+p.anchor), g.Text(p.name)))
	})))
}

// searchResults returns links to the guide parts that contain all words in a search.
func searchResults(f frame, words string) g.Node {
	var found g.Group
	for _, name := range guides() {
		raw, _ := docs.Pages.ReadFile(name + ".md") // a missing page has no parts
		for _, p := range helpParts(raw) {
			text := strings.ToLower(p.name + " " + p.text)
			if !slices.ContainsFunc(strings.Fields(strings.ToLower(words)), func(w string) bool { return !strings.Contains(text, w) }) {
				found = append(found, h.Li(h.A(h.Href(f.helpHref(name+"#"+p.anchor)), g.Text(p.name)), h.Span(h.Class("quiet"), g.Text(" in "+docTitle(raw)))))
			}
		}
	}
	if len(found) == 0 {
		return h.P(g.Text("No section of the documentation contains all these words. Search for fewer words."))
	}
	return section("found", "Found", h.Ul(found))
}

// docTitle returns a page's title, the first line.
func docTitle(raw []byte) string {
	line, _, _ := strings.Cut(string(raw), "\n")
	return strings.TrimPrefix(line, "# ")
}

func (s *Server) helpPage(c echo.Context) error {
	name := c.Param("*")
	if strings.HasPrefix(name, "img/") && path.Ext(name) == ".svg" {
		return echo.StaticFileHandler(name, docs.Pages)(c)
	}
	raw, err := docs.Pages.ReadFile(name + ".md")
	if err != nil {
		return echo.ErrNotFound
	}
	body, err := renderHelp(raw, helpLinks{path.Dir(name), linkFrame(c)})
	if err != nil {
		return fmt.Errorf("read the help page %s: %w", name, err)
	}
	return s.show(c, pageContent{Title: docTitle(raw), Main: func(f frame) g.Node {
		return g.Group{
			h.P(h.Class("crumb"), h.A(h.Href(f.Link("/help")), g.Text("Help"))),
			tableOfContents(raw),
			h.Article(h.Class("doc"), body),
		}
	}})
}

// renderHelp renders a docs page. Raw HTML is dropped, so a page cannot add a script. A link to another page gets that
// page's address under /help. A link to a file that is not served becomes plain text.
func renderHelp(raw []byte, links helpLinks) (g.Node, error) {
	md := goldmark.New(goldmark.WithExtensions(extension.Table), goldmark.WithParserOptions(
		parser.WithAutoHeadingID(), parser.WithASTTransformers(util.Prioritized(links, 100)),
	))
	var b bytes.Buffer
	if err := md.Convert(raw, &b); err != nil {
		return nil, err
	}
	return g.Raw(strings.NewReplacer(
		"<table>", `<div class="scroll" role="region" aria-label="Table" tabindex="0"><table>`,
		"</table>", "</table></div>", "<th>", `<th scope="col">`, "<pre>", `<pre tabindex="0">`,
	).Replace(b.String())), nil
}

// helpLinks replaces link targets in a docs page with addresses on this server.
type helpLinks struct {
	dir   string // the page's directory in the docs
	frame frame
}

// Transform implements goldmark's ASTTransformer. goldmark calls Transform with each parsed page.
func (l helpLinks) Transform(page *ast.Document, _ text.Reader, _ parser.Context) {
	var unserved []ast.Node
	replace := func(n ast.Node, target *[]byte) {
		served, ok := l.resolve(string(*target))
		*target = []byte(served)
		if !ok {
			unserved = append(unserved, n)
		}
	}
	_ = ast.Walk(page, func(n ast.Node, entering bool) (ast.WalkStatus, error) {
		switch n := n.(type) {
		case *ast.Link:
			if entering {
				replace(n, &n.Destination)
			}
		case *ast.Image:
			if entering {
				replace(n, &n.Destination)
			}
		}
		return ast.WalkContinue, nil
	})
	for _, n := range unserved { // a link becomes plain text; an image is removed
		for c := n.FirstChild(); c != nil && n.Kind() == ast.KindLink; c = n.FirstChild() {
			n.Parent().InsertBefore(n.Parent(), n, c)
		}
		n.Parent().RemoveChild(n.Parent(), n)
	}
}

// resolve returns the address that serves a link's target, and reports whether there is one.
func (l helpLinks) resolve(target string) (string, bool) {
	if strings.HasPrefix(target, "#") || strings.HasPrefix(target, "https://") {
		return target, true
	}
	file, anchor, _ := strings.Cut(target, "#")
	file = path.Join(l.dir, file)
	if _, err := fs.Stat(docs.Pages, file); err != nil || !fs.ValidPath(file) {
		return "", false
	}
	page := strings.TrimSuffix(file, ".md")
	if anchor != "" {
		page += "#" + anchor
	}
	return l.frame.helpHref(page), true
}
