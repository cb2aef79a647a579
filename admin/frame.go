package admin

import (
	"maps"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/labstack/echo/v4"
	g "maragu.dev/gomponents"
	h "maragu.dev/gomponents/html"

	"precept/inject/lesson"
)

// shown is what a handler gives to be shown.
type shown struct {
	Title   string
	Main    func(frame) g.Node // the page's own part
	Head    g.Node             // scripts and style sheets that this page alone has; nil: none
	Live    bool               // the page keeps itself new
	Counted counted
	Problem string // why there is not all
	Err     error  // why there is nothing: it is the page's problem and its status
}

// counted says when a page's figures were counted.
type counted struct {
	At  time.Time
	Old bool // newer ones are being counted
}

// frame is what stands around a page, and what it makes its links and forms with.
type frame struct {
	shown
	Nav    []link
	Tenant string
	CSRF   string // "" for a program with a token: no forms that write
	Acts   bool   // a browser whose token may change something: the forms that do are shown
	Viewer bool   // a viewer looks: what only operators read has no link
	Notice string // what the last action did

	path  string
	query url.Values
}

// link is an entry of the navigation.
type link struct {
	Name, Href, Badge string
	Here              bool
}

// frameOf is the frame of a request without its page: a handler asks for it to make links.
func frameOf(c echo.Context) frame {
	return frame{Tenant: tenantOf(c), path: c.Request().URL.EscapedPath(), query: c.QueryParams()}
}

// address is a path, escaped already, with its query.
func address(path string, q url.Values) string {
	if len(q) == 0 {
		return path
	}
	return path + "?" + q.Encode()
}

// Link is another page for the same tenant; further arguments are keys and values of its query.
func (f frame) Link(path string, query ...string) string {
	q := url.Values{}
	if t := f.query.Get("tenant"); t != "" {
		q.Set("tenant", t)
	}
	for i := 0; i+1 < len(query); i += 2 {
		q.Set(query[i], query[i+1])
	}
	return address(path, q)
}

// With is this page with another query; an empty value takes a key away. Another order or filter
// begins with the first rows.
func (f frame) With(query ...string) string {
	q := maps.Clone(f.query)
	q.Del("page")
	for i := 0; i+1 < len(query); i += 2 {
		q.Set(query[i], query[i+1])
		if query[i+1] == "" {
			q.Del(query[i])
		}
	}
	return address(f.path, q)
}

// lesson is the page of a lesson, or what is done with it behind that.
func (f frame) lesson(slug string, action ...string) string {
	return f.Link(part("/lessons/", slug, action))
}

// session is the same of a session.
func (f frame) session(id string, action ...string) string {
	return f.Link(part("/sessions/", id, action))
}

func part(of, name string, action []string) string {
	return strings.Join(append([]string{of + url.PathEscape(name)}, action...), "/")
}

// clear is this page without a filter, where the query has one of some keys.
func (f frame) clear(keys ...string) string {
	if slices.ContainsFunc(keys, func(key string) bool { return f.query.Get(key) != "" }) {
		return f.Link(f.path)
	}
	return ""
}

// csrfInput is the field that lets a form write.
func (f frame) csrfInput() g.Node { return hiddenField(csrfField, f.CSRF) }

// decision is a form that acts on a lesson in the text and the state that the person saw, and leads
// back.
func (f frame) decision(l *lesson.Lesson, a lesson.Action, back string, children ...g.Node) g.Node {
	return h.Form(
		h.Method("post"), h.Action(f.lesson(l.Slug, string(a))), f.csrfInput(),
		hiddenField("text", l.ContentHash), hiddenField("state", string(l.State)), hiddenField("back", back),
		g.Group(children),
	)
}

// sorter is a column's head that sorts this page: first as it is most wanted (down is largest
// first), the second time the other way. It says text, or shows an arrow alone.
func (f frame) sorter(key, name, text string, down bool) g.Node {
	keys, orders := [2]string{key, "-" + key}, [2]string{"smallest first", "largest first"}
	first := when(down, 1, 0)
	next, arrow := first, when(text == "", "↕", "")
	for i, mark := range []string{"▲", "▼"} {
		if f.query.Get("sort") == keys[i] {
			next, arrow = when(i == first, 1-first, first), mark
		}
	}
	return h.A(
		h.Class("sort"), h.Href(f.With("sort", keys[next])), labelled("Sort by "+name+", "+orders[next]), g.Text(text),
		g.If(arrow != "", g.Group{space(), h.Span(h.Aria("hidden", "true"), g.Text(arrow))}),
	)
}

// rowsPerPage is how many rows of a table a page shows.
const rowsPerPage = 100

// pager says which rows are shown.
type pager struct{ number, from, to, total int }

// pageOf cuts the rows that the query's page names out of total. A page beyond the last is the
// last.
func (f frame) pageOf(total, size int) pager {
	n, err := strconv.Atoi(f.query.Get("page"))
	if err != nil || n < 1 {
		n = 1
	}
	n = min(n, max(1, (total+size-1)/size))
	return pager{n, (n - 1) * size, min(n*size, total), total}
}

// html says which rows are shown, and leads to the others.
func (p pager) html(f frame) g.Node {
	to := func(page int, rel, text string) g.Node {
		return h.A(h.Href(f.With("page", strconv.Itoa(page))), h.Rel(rel), g.Text(text))
	}
	return pagerOf(
		h.Span(g.Textf("%d to %d of %d", p.from+1, p.to, p.total)),
		g.If(p.from > 0, to(p.number-1, "prev", "Previous")),
		g.If(p.to < p.total, to(p.number+1, "next", "Next")),
	)
}

func pagerOf(children ...g.Node) g.Node {
	return h.Nav(h.Class("pager"), labelled("Rows"), g.Group(children))
}

// olderPager leads through a list that is read from its newest entry on: back to them from behind
// after, and on to what comes behind next.
func (f frame) olderPager(shown g.Node, after, next string) g.Node {
	return pagerOf(
		shown,
		g.If(after != "", h.A(h.Href(f.With("after", "")), g.Text("Newest"))),
		g.If(next != "", h.A(h.Href(f.With("after", next)), h.Rel("next"), g.Text("Older"))),
	)
}
