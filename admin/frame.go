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

// pageContent is the part of a page that the handler of the page makes. Server.show adds the frame.
type pageContent struct {
	Title   string
	Main    func(frame) g.Node // the content of the page
	Head    g.Node             // scripts and style sheets of this page alone; nil if none
	Live    bool               // the page refreshes itself
	Counted countedAt
	Problem string // reason why parts of the page are missing; empty: none
	Err     error  // reason why the page is missing; sets the status of the response; nil: none
}

// countedAt holds the time at which the figures of a page were counted.
type countedAt struct {
	At  time.Time
	Old bool // newer figures are being computed
}

// frame holds the navigation and the query of a page. Its methods make links and forms.
type frame struct {
	page   pageContent
	Nav    []link
	Tenant string
	CSRF   string // empty for a program that sends a token; its pages have no forms
	MayAct bool   // the request comes from a browser whose user may change data; the page then has forms
	Viewer bool   // true for a viewer, whose pages have no links to operators' pages
	Notice notice // result of the last action

	path  string
	query url.Values
}

// link is an entry of the navigation.
type link struct {
	Name, Href, Badge string
	IsCurrent         bool
}

// frameOf returns a frame with the path and the query of a request, which is enough to make links.
func frameOf(c echo.Context) frame {
	return frame{Tenant: tenantOf(c), path: c.Request().URL.EscapedPath(), query: c.QueryParams()}
}

// address joins an escaped path and a query.
func address(path string, q url.Values) string {
	if len(q) == 0 {
		return path
	}
	return path + "?" + q.Encode()
}

// Link returns the address of the page at path for the same tenant. query holds alternating keys and values; a pair
// with an empty value is left out.
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

// linkInReport returns the address of another page whose figures count the same sessions as the figures of this page.
// The address keeps the tenant, the window and the choice of open sessions.
func (f frame) linkInReport(path string, query ...string) string {
	return f.Link(path, append([]string{"window", f.query.Get("window"), "provisional", f.query.Get("provisional")}, query...)...)
}

// filteredPages returns the paths of the pages with the filters of the list of sessions.
func filteredPages() []string { return []string{"/sessions", "/traffic", "/compare", "/samples"} }

// linkWithFilters returns the address of another page for the same tenant. Between two of filteredPages, the address
// keeps the filters and the order of the list of sessions. A page keeps the filters that it does not apply, too.
func (f frame) linkWithFilters(path string) string {
	var query []string
	if pages := filteredPages(); path != f.path && slices.Contains(pages, path) && slices.Contains(pages, f.path) {
		for _, key := range append(sessionFilters(), "session", "order", "view") {
			query = append(query, key, f.query.Get(key))
		}
	}
	return f.Link(path, query...)
}

// unappliedNote returns a sentence that names the filters in the query with the given keys, and the reason why this
// page does not apply these filters.
func (f frame) unappliedNote(reason string, keys ...string) g.Node {
	var names []string
	for _, key := range keys {
		if value := f.query.Get(key); value != "" {
			names = append(names, filterName(key)+" "+escapeHidden(shortenName(value)))
		}
	}
	return g.If(len(names) > 0, mutedText(
		g.Text("Filters of the sessions that do not apply here: "), untrustedText(strings.Join(names, ", ")), g.Text(". "+reason+" "),
		h.A(h.Href(f.linkWithFilters("/sessions")), g.Text("The list of sessions")), g.Text(" applies them."),
	))
}

// filterName returns the name of a filter on the page.
func filterName(key string) string { return strings.ReplaceAll(key, "_", " ") }

// helpHref returns the address of a page of the docs, such as EXPERIMENT#outcomes.
func (f frame) helpHref(page string) string {
	name, anchor, found := strings.Cut(page, "#")
	return f.Link("/help/"+name) + ifElse(found, "#"+anchor, "")
}

// WithQuery returns the address of this page with a changed query. query holds alternating keys and values; an empty
// value removes its key. The address leads to the first page of rows, because a different order or filter changes the
// rows of each page.
func (f frame) WithQuery(query ...string) string {
	return f.onSamePage(append([]string{"page", "", "after", ""}, query...)...)
}

// onSamePage returns the address of this page with a changed query, as With does, but keeps the page of rows.
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

// lessonHref returns the address of a lesson's page, or of an action on the lesson, with the window of this page. A
// section of a rules file has no page of its own, so lesson returns the address of its row on the page of rules files.
func (f frame) lessonHref(slug string, action ...string) string {
	if trial.Arm(slug).IsRule() {
		return f.linkInReport("/rules") + "#" + sectionAnchor(slug)
	}
	return f.linkInReport(joinPath("/lessons/", url.PathEscape(slug), action), listKey, f.currentList("/lessons"))
}

// sessionHref returns the address of a session's page.
func (f frame) sessionHref(id string) string {
	return f.linkByName("/sessions/", id, nil, listKey, f.currentList(sessionLists()...))
}

// rewardedSessions returns the address of the list of a lesson's rewarded sessions in an arm, such as injected or
// withheld. The list covers the window of this page's report. An empty slug means any lesson. extraQuery holds further
// keys and values of the query, alternating.
func (f frame) rewardedSessions(slug, arm string, extraQuery ...string) string {
	return f.sessionsInWindow(append([]string{"lesson", slug, "arm", arm, "min_reward", "0"}, extraQuery...)...)
}

// sessionsInWindow returns the address of the list of sessions with filters, which are alternating keys and values. The
// list covers the window of this page's report.
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

// armLink returns a link to the list of a lesson's rewarded sessions in an arm. The text of the link is n, the number
// of these sessions. extraQuery holds further keys and values of the link's query, alternating.
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

// runHref returns the address of a run's page.
func (f frame) runHref(name string) string {
	return f.linkByName("/runs/", name, nil, listKey, f.currentList(sessionLists()...))
}

// sessionLists returns the paths of the lists with links to the pages of sessions and runs.
func sessionLists() []string { return []string{"/sessions", "/samples"} }

const (
	listKey     = "list"  // query key: address of the list from which the reader came to the page
	maxListSize = 1 << 10 // maximum length of this address in bytes
)

// currentList returns the address of the list to which a reader of this page can return. If the path of this page is
// one of paths, this page is the list. Otherwise the query key list has the address. currentList returns an empty
// string if the path of the list is not one of paths, if the list has no query, or if the address is longer than
// maxListSize. The address contains neither the tenant nor the window, because every link has both.
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

// parentList returns the name and the address of the list to which a page belongs. This is the list of currentList, or
// else the list at the first of paths, without filters.
func (f frame) parentList(paths ...string) (name, target string) {
	path, query, _ := strings.Cut(cmp.Or(f.currentList(paths...), paths[0]), "?")
	q, _ := url.ParseQuery(query) // an invalid part of an edited address is dropped
	var pairs []string
	for key := range q {
		if key != "tenant" {
			pairs = append(pairs, key, q.Get(key))
		}
	}
	return map[string]string{"/sessions": "Sessions", "/samples": "Samples", "/lessons": "Lessons"}[path], f.linkInReport(path, pairs...)
}

// breadcrumb returns the link to the list of parentList, which is shown at the top of a page.
func (f frame) breadcrumb(paths ...string) g.Node {
	name, target := f.parentList(paths...)
	return h.P(h.Class("crumb"), h.A(h.Href(target), g.Text(name)))
}

// linkByName returns the address of the page or the action of a session or a run, as Link does.
func (f frame) linkByName(prefix, name string, action []string, query ...string) string {
	segment, nameQuery := PathName(name)
	return f.Link(joinPath(prefix, segment, action), append(query, nameQuery...)...)
}

// nameKey is the query key for the name of a session or a run whose path has - in place of the name.
const nameKey = "name"

// PathName returns the segment of a path for the name of a session or a run, and the query key and value that the
// address needs. Browsers resolve the segments . and .. even if the segments are escaped, so the query has these names.
func PathName(name string) (segment string, query []string) {
	if name == "." || name == ".." {
		return "-", []string{nameKey, name}
	}
	return url.PathEscape(name), nil
}

// joinPath returns prefix with the segment, followed by the parts of action with slashes between them.
func joinPath(prefix, segment string, action []string) string {
	return strings.Join(append([]string{prefix + segment}, action...), "/")
}

// withoutFilters returns the address of this page without the filters in keys and without the saved view. If the query
// has none of the keys, withoutFilters returns an empty string. The order, the tenant and other parameters stay.
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

// hasQuery reports whether the query has a value for at least one of the keys.
func (f frame) hasQuery(keys ...string) bool {
	return slices.ContainsFunc(keys, func(key string) bool { return f.query.Get(key) != "" })
}

// csrfInput returns the hidden field with the CSRF token, which every form that writes needs.
func (f frame) csrfInput() g.Node { return hiddenField(csrfField, f.CSRF) }

// decisionForm returns a form that applies action a to lesson l. After the action, the browser opens the address in
// back. The form sends the hash and the state of l, so that the action fails if the lesson has changed since the page
// was made.
func (f frame) decisionForm(l *lesson.Lesson, a lesson.Action, back string, children ...g.Node) g.Node {
	return h.Form(
		h.Method("post"), h.Action(f.lessonHref(l.Slug, string(a))), f.csrfInput(),
		hiddenField("text", l.ContentHash), hiddenField("state", string(l.State)), hiddenField("back", back),
		g.Group(children),
	)
}

// sortLink returns a link for a column heading that sorts the page by key. The first click sorts the largest first if
// largestFirst is true, else the smallest first. The second click reverses the order. text is the visible text, and
// name describes the column to screen readers.
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

// rowsPerPage is the number of table rows that a page shows.
const rowsPerPage = 100

// pager holds the page number, the rows that the page shows (from inclusive, to exclusive), and the total number of
// rows.
type pager struct{ number, from, to, total int }

// pageOf returns the pager of the page number in the query, with size rows on each page. A page number beyond the end
// means the last page.
func (f frame) pageOf(total, size int) pager {
	n, err := strconv.Atoi(f.query.Get("page"))
	if err != nil || n < 1 {
		n = 1
	}
	n = min(n, max(1, (total+size-1)/size))
	return pager{n, (n - 1) * size, min(n*size, total), total}
}

// html returns the range of the shown rows, with links to the previous and the next page.
func (p pager) html(f frame) g.Node {
	to := func(page int, rel, text string) g.Node {
		return h.A(h.Href(f.WithQuery("page", strconv.Itoa(page))), h.Rel(rel), g.Text(text))
	}
	return pagerNav(
		h.Span(g.Textf("%s to %s of %s", countText(p.from+1), countText(p.to), countText(p.total))),
		g.If(p.from > 0, to(p.number-1, "prev", "Previous")),
		g.If(p.to < p.total, to(p.number+1, "next", "Next")),
	)
}

func pagerNav(children ...g.Node) g.Node {
	return h.Nav(h.Class("pager"), ariaLabel("Rows"), g.Group(children))
}

// olderPager returns the links of a list that begins with the newest entry. after is the position after which this
// page begins; if after is not empty, a link leads to the start of the list. next is the position of the last entry of
// this page; if next is not empty, a link leads to the older entries.
func (f frame) olderPager(shown g.Node, after, next string) g.Node {
	return pagerNav(
		shown,
		g.If(after != "", h.A(h.Href(f.WithQuery("after", "")), g.Text("Newest"))),
		g.If(next != "", h.A(h.Href(f.WithQuery("after", next)), h.Rel("next"), g.Text("Older"))),
	)
}
