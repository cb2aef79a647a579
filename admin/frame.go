package admin

import (
	"cmp"
	"maps"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/labstack/echo/v4"
	g "maragu.dev/gomponents"
	h "maragu.dev/gomponents/html"

	"precept/bandit/trial"
	"precept/inject/lesson"
)

// pageContent is what a handler passes to Server.show, which adds the frame.
type pageContent struct {
	Title   string
	Main    func(frame) g.Node
	Head    g.Node // scripts and style sheets for this page alone, or nil
	Live    bool   // the page refreshes itself
	Counted countedAt
	Problem string // why parts of the page are missing
	Err     error  // why the page is missing; sets the response status
}

// countedAt is when a page's figures were counted.
type countedAt struct {
	At  time.Time
	Old bool // newer figures are being computed
}

// frame holds a page's navigation and query. The methods make links and forms.
type frame struct {
	page   pageContent
	Nav    []link
	Tenant string
	CSRF   string // empty for a program with a token, which gets no forms
	MayAct bool   // the browser's user is allowed to change data, so the page has forms
	Viewer bool   // viewers get no links to operators' pages
	Notice notice // last action's result

	path  string
	query url.Values
}

// link is an entry in the navigation. Badge is a number beside the name, such as the number of lessons that are
// waiting for approval.
type link struct {
	Name, Href, Badge string
	IsCurrent         bool
}

// linkFrame returns a frame that can only make links.
func linkFrame(c echo.Context) frame {
	return frame{Tenant: queryTenant(c), path: c.Request().URL.EscapedPath(), query: c.QueryParams()}
}

func address(path string, q url.Values) string {
	if len(q) == 0 {
		return path
	}
	return path + "?" + q.Encode()
}

// Link returns a page's address for the same tenant. query alternates keys and values; empty values are left out.
func (f frame) Link(path string, query ...string) string {
	q := url.Values{}
	if t := f.query.Get("tenant"); t != "" {
		q.Set("tenant", t)
	}
	for i := 0; i+1 < len(query); i += 2 {
		if query[i+1] != "" {
			q.Set(query[i], query[i+1])
		}
	}
	return address(path, q)
}

// linkInReport returns the address of another page with figures for the same sessions. The link keeps the tenant, the
// window and whether open sessions count.
func (f frame) linkInReport(path string, query ...string) string {
	return f.Link(path, append([]string{"window", f.query.Get("window"), "provisional", f.query.Get("provisional")}, query...)...)
}

// filteredPages returns the pages with the sessions page's filters.
func filteredPages() []string { return []string{"/sessions", "/traffic", "/compare", "/samples"} }

// linkWithFilters returns another page's address. From one of filteredPages to another, the link keeps filters and
// order, even filters that the other page does not apply.
func (f frame) linkWithFilters(path string) string {
	var query []string
	if pages := filteredPages(); path != f.path && slices.Contains(pages, path) && slices.Contains(pages, f.path) {
		for _, key := range append(sessionFilters(), "session", "order", "view") {
			query = append(query, key, f.query.Get(key))
		}
	}
	return f.Link(path, query...)
}

// unappliedNote says which query filters this page does not apply, and why.
func (f frame) unappliedNote(reason string, keys ...string) g.Node {
	var names []string
	for _, key := range keys {
		if value := f.query.Get(key); value != "" {
			names = append(names, filterName(key)+" "+escapeHidden(shortenName(value)))
		}
	}
	return g.If(len(names) > 0, mutedText(
		g.Text("Session filters that do not apply here: "), untrustedText(strings.Join(names, ", ")), g.Text(". "+reason+" "),
		h.A(h.Href(f.linkWithFilters("/sessions")), g.Text("The session list")), g.Text(" applies them."),
	))
}

func filterName(key string) string { return strings.ReplaceAll(key, "_", " ") }

// helpHref returns the address of a docs page, such as EXPERIMENT#outcomes.
func (f frame) helpHref(page string) string {
	name, anchor, found := strings.Cut(page, "#")
	return f.Link("/help/"+name) + ifElse(found, "#"+anchor, "")
}

// WithQuery returns this page's address with a changed query; an empty value removes the key. WithQuery links to the
// first page of rows, because an order or filter changes the rows on each page.
func (f frame) WithQuery(query ...string) string {
	return f.onSamePage(append([]string{"page", "", "after", ""}, query...)...)
}

// onSamePage works like WithQuery, but keeps the page number.
func (f frame) onSamePage(query ...string) string {
	q := maps.Clone(f.query)
	for i := 0; i+1 < len(query); i += 2 {
		q.Set(query[i], query[i+1])
		if query[i+1] == "" {
			q.Del(query[i])
		}
	}
	return address(f.path, q)
}

// lessonHref returns the address for a lesson or an action on it. A section of a rules file has no page, only a row
// on the /rules page.
func (f frame) lessonHref(slug string, action ...string) string {
	if trial.Arm(slug).IsRule() {
		return f.linkInReport("/rules") + "#" + sectionAnchor(slug)
	}
	return f.linkInReport(joinPath("/lessons/", url.PathEscape(slug), action), listKey, f.currentList("/lessons"))
}

func (f frame) sessionHref(id string) string {
	return f.linkByName("/sessions/", id, nil, listKey, f.currentList(sessionLists()...))
}

// rewardedSessions returns a link to a lesson's rewarded sessions in an arm (a group such as "injected" or "withheld"),
// within this page's window. An empty slug means every lesson.
func (f frame) rewardedSessions(slug, arm string, extraQuery ...string) string {
	return f.sessionsInWindow(append([]string{"lesson", slug, "arm", arm, "min_reward", "0"}, extraQuery...)...)
}

// sessionsInWindow returns a link to the sessions page with filters, within this page's report window. filters
// alternates keys and values.
func (f frame) sessionsInWindow(filters ...string) string {
	var query []string
	window := f.query.Get("window")
	if slices.ContainsFunc(timeRanges(), func(r choice) bool { return r.Key == window }) {
		query = append(query, "range", window)
	} else if d, err := ParseWindow(window); err == nil && d > 0 && !f.page.Counted.At.IsZero() {
		query = append(query, "since", f.page.Counted.At.Add(-d).UTC().Format(time.RFC3339))
	}
	return f.Link("/sessions", append(query, filters...)...)
}

// armLink returns the number n as a link to rewardedSessions.
func (f frame) armLink(n int64, slug, arm string, extraQuery ...string) g.Node {
	if n == 0 {
		return g.Text("0")
	}
	about := arm + ", " + countNoun(n, "session")
	if slug != "" {
		about = escapeHidden(shortenName(slug)) + ": " + about
	}
	return h.A(h.Href(f.rewardedSessions(slug, arm, extraQuery...)), ariaLabel(about), g.Text(countText(n)))
}

func (f frame) runHref(name string) string {
	return f.linkByName("/runs/", name, nil, listKey, f.currentList(sessionLists()...))
}

// sessionLists returns the pages that list sessions, with links to sessions and runs.
func sessionLists() []string { return []string{"/sessions", "/samples"} }

const (
	listKey     = "list"  // query key: the list that the reader came from
	maxListSize = 1 << 10 // longest address kept, in bytes
)

// currentList returns the address of the list to which a reader can return: this page if paths contains it, or else
// the value of the "list" query key. The result is "" if that list is not among paths, has no query, or is longer
// than maxListSize. Tenant and window are left out, because every link has both.
func (f frame) currentList(paths ...string) string {
	list := f.query.Get(listKey)
	if slices.Contains(paths, f.path) {
		q := maps.Clone(f.query)
		for _, key := range []string{"tenant", "window", "provisional", listKey} {
			q.Del(key)
		}
		list = address(f.path, q)
	}
	path, query, _ := strings.Cut(list, "?")
	if query == "" || len(list) > maxListSize || !slices.Contains(paths, path) {
		return ""
	}
	return list
}

// parentList returns the name and the address of currentList, or else of the list at paths[0] without filters.
func (f frame) parentList(paths ...string) (name, target string) {
	path, query, _ := strings.Cut(cmp.Or(f.currentList(paths...), paths[0]), "?")
	q, _ := url.ParseQuery(query) // invalid parts in an edited address are dropped
	var pairs []string
	for key := range q {
		if key != "tenant" {
			pairs = append(pairs, key, q.Get(key))
		}
	}
	return map[string]string{"/sessions": "Sessions", "/samples": "Samples", "/lessons": "Lessons"}[path], f.linkInReport(path, pairs...)
}

// breadcrumb returns the link to parentList at the top of a page.
func (f frame) breadcrumb(paths ...string) g.Node {
	name, target := f.parentList(paths...)
	return h.P(h.Class("crumb"), h.A(h.Href(target), g.Text(name)))
}

// linkByName works like Link, for a session or run page or for an action on it.
func (f frame) linkByName(prefix, name string, action []string, query ...string) string {
	segment, nameQuery := PathName(name)
	return f.Link(joinPath(prefix, segment, action), append(query, nameQuery...)...)
}

// nameKey is the query key for a name that a path cannot contain. The path has "-" instead of the name.
const nameKey = "name"

// PathName returns the path segment for a session or run name. Browsers resolve . and .. even if escaped, so these
// names are in the query instead.
func PathName(name string) (segment string, query []string) {
	if name == "." || name == ".." {
		return "-", []string{nameKey, name}
	}
	return url.PathEscape(name), nil
}

func joinPath(prefix, segment string, action []string) string {
	return strings.Join(append([]string{prefix + segment}, action...), "/")
}

// withoutFilters returns this page without the filters in keys and without the saved view, or "" if the query has no
// key from keys.
func (f frame) withoutFilters(keys ...string) string {
	if !f.hasQuery(keys...) {
		return ""
	}
	query := []string{"view", ""}
	for _, key := range keys {
		query = append(query, key, "")
	}
	return f.WithQuery(query...)
}

func (f frame) hasQuery(keys ...string) bool {
	return slices.ContainsFunc(keys, func(key string) bool { return f.query.Get(key) != "" })
}

// csrfInput returns the CSRF token as a hidden field. Every form that writes needs one.
func (f frame) csrfInput() g.Node { return hiddenField(csrfField, f.CSRF) }

// decisionForm returns a form that applies an action and then opens the page at back. The form sends the lesson's
// hash and state, so the action fails if the lesson has changed in the meantime.
func (f frame) decisionForm(l *lesson.Lesson, a lesson.Action, back string, children ...g.Node) g.Node {
	return h.Form(
		h.Method("post"), h.Action(f.lessonHref(l.Slug, string(a))), f.csrfInput(),
		hiddenField("text", l.ContentHash), hiddenField("state", string(l.State)), hiddenField("back", back),
		g.Group(children),
	)
}

// sortLink returns a column heading that sorts the page by key. A second click reverses the order. name tells screen
// readers what the column holds.
func (f frame) sortLink(key, name, text string, largestFirst bool) g.Node {
	keys, orders := [2]string{key, "-" + key}, [2]string{"smallest first", "largest first"}
	first := ifElse(largestFirst, 1, 0)
	next, arrow := first, ifElse(text == "", "↕", "")
	for i, mark := range []string{"▲", "▼"} {
		if f.query.Get("sort") == keys[i] {
			next, arrow = ifElse(i == first, 1-first, first), mark
		}
	}
	return h.A(
		h.Class("sort"), h.Href(f.WithQuery("sort", keys[next])), ariaLabel("Sort by "+name+", "+orders[next]), g.Text(text),
		g.If(arrow != "", g.Group{space(), h.Span(h.Aria("hidden", "true"), g.Text(arrow))}),
	)
}

const rowsPerPage = 100

// pager holds a page number, the page's rows (from inclusive, to exclusive), and the total row count.
type pager struct{ number, from, to, total int }

// pager returns the pager for the query's page number. A number beyond the end means the last page.
func (f frame) pager(total, size int) pager {
	n, err := strconv.Atoi(f.query.Get("page"))
	if err != nil || n < 1 {
		n = 1
	}
	n = min(n, max(1, (total+size-1)/size))
	return pager{n, (n - 1) * size, min(n*size, total), total}
}

// html returns the shown range, with links to the previous and the next page.
func (p pager) html(f frame) g.Node {
	pageLink := func(page int, rel, text string) g.Node {
		return h.A(h.Href(f.WithQuery("page", strconv.Itoa(page))), h.Rel(rel), g.Text(text))
	}
	return pagerNav(
		h.Span(g.Textf("%s to %s of %s", countText(p.from+1), countText(p.to), countText(p.total))),
		g.If(p.from > 0, pageLink(p.number-1, "prev", "Previous")),
		g.If(p.to < p.total, pageLink(p.number+1, "next", "Next")),
	)
}

func pagerNav(children ...g.Node) g.Node {
	return h.Nav(h.Class("pager"), ariaLabel("Rows"), g.Group(children))
}

// olderPager returns the links for a list with the newest entry first. If after is not empty, a link leads to the
// start; if next is not empty, a link leads to older entries.
func (f frame) olderPager(shown g.Node, after, next string) g.Node {
	return pagerNav(
		shown,
		g.If(after != "", h.A(h.Href(f.WithQuery("after", "")), g.Text("Newest"))),
		g.If(next != "", h.A(h.Href(f.WithQuery("after", next)), h.Rel("next"), g.Text("Older"))),
	)
}
