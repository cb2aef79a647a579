package admin

import (
	"cmp"
	"errors"
	"fmt"
	"net/url"
	"time"

	"github.com/labstack/echo/v4"
	g "maragu.dev/gomponents"
	h "maragu.dev/gomponents/html"

	"precept/bandit/report"
	"precept/store"
)

type sessionsView struct {
	found    store.SessionList
	query    store.SessionQuery
	facets   store.Facets
	order    string
	counting bool   // the first facet count is running
	reading  bool   // the list is sorted by cost or duration, and the first read for the sorting is running
	searched bool   // the query searches conversations
	dataURL  string // base URL for agents
	prices   Prices
	views    []View
}

func (s *Server) sessionsPage(c echo.Context) error {
	q, err := s.sessionQuery(c)
	v := sessionsView{
		query: q, order: newestFirst, searched: q.SearchesText(), dataURL: s.options.Address.DataURL, prices: s.options.Program.Prices(),
	}
	if asked := c.QueryParam("order"); asked != "" && (!v.searched || asked == oldestFirst) {
		v.order = asked
	}
	if err == nil {
		v.found, err = s.browse(c, &q, v.order, maxPageWait)
	}
	if errors.Is(err, errComputing) {
		v.reading, err = true, nil
	}
	page := pageContent{Title: "sessions", Main: v.html, Live: err == nil && q.After == "" && !v.searched, Err: err}
	if err == nil {
		var old bool
		v.facets, old, err = s.facets(c, &q, maxPageWait)
		v.counting = errors.Is(err, errComputing) || err == nil && old && v.facets.RowsRead == 0
		if err != nil && !v.counting {
			s.log(c).Error("the session filters cannot be counted; to check the store, run `precept doctor`", "tenant", q.Tenant, "error", err)
			page.Problem = "The filter counts are missing; the log has the reason."
		}
		page.Live = page.Live || old && q.After == ""
	}
	if v.views, err = s.viewsFor(c); err != nil {
		s.log(c).Error("saved views cannot be read; to check the store, run `precept doctor`", "tenant", q.Tenant, "error", err)
		page.Problem = cmp.Or(page.Problem, "The saved views cannot be read; the log has the reason.")
	}
	return s.show(c, page)
}

func (v *sessionsView) html(f frame) g.Node {
	clear := f.withoutFilters(append(sessionFilters(), "session")...)
	searched := v.searchedRange()
	return g.Group{
		title("Sessions", h.Form(
			h.Method("get"), h.Action("/sessions"), h.Class("jump"), h.Role("search"), ariaLabel("Open a session"),
			hiddenField("tenant", f.Tenant), hiddenQueryFields(f, "order"),
			h.Label(h.For("session"), g.Text("Name or id"), h.Title("session name or id, or the id of a request or a response")), textInput("session", v.query.Session, "22"), h.Button(g.Text("Find")),
		)),
		v.filters(f, clear),
		h.Div(
			h.Class("browse"),
			v.sidebar(f, v.viewLinks(f)),
			h.Div(
				filterChips(f, sessionFilters()),
				g.Iff(f.page.Err == nil, func() g.Node { return v.list(f, clear != "", searched) }),
				v.pager(f, g.If(v.found.RowsRead > 0, h.Span(
					g.Text(countText(len(v.found.Sessions))+" shown"),
					g.If(clear != "", g.Group{g.Textf(" of the %s sessions ", countText(v.found.RowsRead)), searched}),
				))),
				g.If(!f.Viewer && len(v.found.Sessions) > 0, v.exports(f)),
				mutedText(g.Text("Redacted and opted-out text is never stored.")),
			),
		),
	}
}

// filters returns the search form, with hidden fields for the selected facets.
func (v *sessionsView) filters(f frame, clearHref string) g.Node {
	q := &v.query
	share := func(label, name string) g.Node {
		return field(label, name, h.Input(
			h.ID(name), h.Name(name), h.Type("number"), h.Min("0"), h.Max("1"), h.Step("any"), h.Value(escapeHidden(f.query.Get(name))),
		))
	}
	return filterForm(
		"/sessions", "Filter sessions", clearHref,
		hiddenQueryFields(f, "order", "view", "range", "agent", "model", "lesson", "arm", "verdict", "tool_name", "error_kind", "run", "tag", "length"),
		g.If(!f.Viewer, g.Group{
			textField("Search words", "words", q.Text.Words, "26", h.Placeholder("in messages, calls and answers")),
			textField("Error text", "error", q.Text.Error, "16", h.Placeholder("ECONNREFUSED")),
		}),
		h.Details(
			h.Class("more-filters"), g.If(f.hasQuery("tool", "since", "until", "min_reward", "max_reward", "loops", "tenant"), g.Attr("open")),
			h.Summary(g.Text("More filters")),
			h.Div(
				g.If(!f.Viewer, textField("Tool name contains", "tool", q.Text.Tool, "14")),
				g.If(f.query.Get("range") == "", g.Group{
					dateField("Started on or after", "since", f.query.Get("since"), "2026-01-31"),
					dateField("Started before", "until", f.query.Get("until"), "2026-02-28"),
				}),
				share("Reward from", "min_reward"), share("to", "max_reward"),
				textField("Tenant", "tenant", f.Tenant, "9"),
				checkboxField("with a loop", "loops", "true", q.Loops),
			),
		),
	)
}

// searchedRange says which start times were searched.
func (v *sessionsView) searchedRange() g.Node {
	at := func(t *time.Time) g.Node {
		if t == nil {
			return timeNode(time.Time{})
		}
		return timeNode(*t)
	}
	if v.query.OldestFirst {
		return g.Group{g.Text("from "), at(v.found.OldestStart), g.Text(" to "), at(v.found.NewestStart)}
	}
	return g.Group{g.Text("since "), at(v.found.OldestStart)}
}

func (v *sessionsView) pager(f frame, shown g.Node) g.Node {
	if !v.query.OldestFirst {
		return f.olderPager(shown, v.query.After, v.found.Next)
	}
	return pagerNav(
		shown,
		g.If(v.query.After != "", h.A(h.Href(f.WithQuery("after", "")), g.Text("Oldest"))),
		g.If(v.found.Next != "", h.A(h.Href(f.WithQuery("after", v.found.Next)), h.Rel("next"), g.Text("Newer"))),
	)
}

// list returns the sessions, or why there are none.
func (v *sessionsView) list(f frame, filtered bool, searched g.Node) g.Node {
	switch {
	case len(v.found.Sessions) > 0:
		return sessionTable(f, v.caption(f), v.orderLink, v.found.Sessions, v.prices)
	case v.reading:
		return emptyState("The stored sessions are being read", h.P(g.Text("The list then appears here.")))
	case !filtered:
		return emptyState("No session yet", h.P(
			g.Text("A session appears a few seconds after its first turn ends. "+
				"Point an agent at precept's data listener: "),
			code("OPENAI_BASE_URL="+v.dataURL+"/v1"), g.Text("."),
		))
	case v.found.Next != "":
		return emptyState("No matching session", h.P(
			g.Textf("None of the %s sessions ", countText(v.found.RowsRead)), searched,
			g.Text(ifElse(v.query.OldestFirst, " matches. There are newer sessions.", " matches. There are older sessions.")),
		))
	case v.query.Session != "":
		return emptyState("No matching session", h.P(g.Text("No session has this name or id. Use another name, or select another tenant.")))
	case v.found.RowsRead == 0:
		return emptyState("No matching session", h.P(g.Text("No session is in this time range. Use another range, or select another tenant.")))
	default:
		return emptyState("No matching session", h.P(g.Textf(
			"None of the %s sessions matches. Use fewer filters, or select another tenant.", countText(v.found.RowsRead))))
	}
}

// exports returns links that export the sessions on all pages.
func (v *sessionsView) exports(f frame) g.Node {
	about := map[string]string{"csv": "rows, for a spreadsheet", "jsonl": "rows, as JSON lines", "transcripts": "whole conversations, as JSON lines"}
	q := url.Values{"tenant": {v.query.Tenant}}
	for _, key := range append(sessionFilters(), "session") {
		if value := f.query.Get(key); value != "" {
			q.Set(key, value)
		}
	}
	if v.query.OldestFirst {
		q.Set("order", oldestFirst)
	}
	return h.P(
		h.Class("export-row"), ariaLabel("Export all selected sessions"), h.Role("group"), g.Text("Export all selected sessions: "),
		g.Map(sessionFormats(), func(format string) g.Node {
			q.Set("format", format)
			return g.Group{h.A(h.Class("button"), h.Href(address("/api/export/sessions", q)), g.Attr("download"), h.Title(about[format]), g.Text(format)), space()}
		}),
	)
}

// sessionTable returns a table of sessions. If orderLink is nil, the headings have no links.
func sessionTable(f frame, caption g.Node, orderLink func(f frame, name, largest, smallest string) g.Node, list []store.SessionItem, prices Prices) g.Node {
	link := func(name, largest, smallest string) g.Node {
		return g.Iff(orderLink != nil, func() g.Node { return orderLink(f, name, largest, smallest) })
	}
	return scrollRegion(ariaLabel("Sessions"), h.Table(
		h.Class("list cards"), h.Caption(caption),
		headingRow(
			wordColumns("Task", "Started"), numberColumn(termButton("duration"), link("duration", longestFirst, shortestFirst), smallLine(termButton("turns"))),
			numberColumn(termButton("spending"), link("cost", costliestFirst, cheapestFirst)),
			numberColumn(termButton("errors")), numberColumn(termButton("loops")), wordColumn(termButton("session-lessons")), numberColumn(termButton("session-reward")),
		),
		h.TBody(g.Map(list, func(x store.SessionItem) g.Node { return sessionRow(f, &x, prices) })),
	))
}

func sessionRow(f frame, x *store.SessionItem, prices Prices) g.Node {
	name := escapeHidden(shortenName(sessionName(x)))
	shown, about := name, name
	if x.Task != "" {
		shown, about = escapeHidden(x.Task), name+" · "+x.ID
	}
	return h.Tr(
		rowHead(
			h.Class("wrap name"),
			ifElse(f.Viewer,
				h.Span(h.Title(about), g.Text(shown)), h.A(h.Href(f.sessionHref(x.ID)), h.Title(about), g.Text(shown))),
			smallLine(
				untrustedText(shortenName(x.Agent)), g.If(x.Model != "", g.Group{g.Text(" · "), untrustedText(shortenName(x.Model))}),
				g.If(x.Run != "", g.Group{g.Text(" · run "), ifElse(f.Viewer, untrustedText(shortenName(x.Run)), g.Node(h.A(h.Href(f.runHref(x.Run)), untrustedText(shortenName(x.Run)))))}),
			),
			g.Iff(x.Found != nil, func() g.Node {
				return h.Span(h.Class("hit"), untrustedText(fmt.Sprintf("turn %d, %s: %s", x.Found.Turn, x.Found.Role, x.Found.Text)))
			}),
		),
		cell("Started", h.Class("text when"), timeNode(x.Started)),
		cell("Duration", g.Text(durationText(x.Seconds)), smallLine(g.Text(countNoun(x.Turns, "turn")))),
		cell("Cost", sessionCost(x, &prices)),
		cell("Errors", g.If(x.Errors != nil && *x.Errors > 0, h.Class("warn")), g.Text(knownCount(x.Errors))),
		cell("Loops", g.If(x.Loops > 0, h.Class("warn")), g.Text(countText(x.Loops))),
		cell("Lessons", h.Class("text wrap slugs"), sessionLessons(x)),
		cell("Reward", h.Class(verdictTone(x.Verdict)), g.Text(decimalText(x.Reward, 2)), smallLine(g.Text(x.Verdict))),
	)
}

// sessionCost returns the cost, if known, and the tokens.
func sessionCost(x *store.SessionItem, p *Prices) g.Node {
	tokens := x.Input
	if x.Output != nil {
		tokens += *x.Output
	}
	price, _ := p.Models.Price(x.Model)
	switch {
	case tokens <= 0:
		return g.Text(noValue)
	case x.Cost != nil:
		return g.Group{g.Text(p.amount(*x.Cost)), smallLine(g.Text(countText(tokens)+" tokens"), g.If(price.NoOutput, g.Text(", input only")))}
	case p.Models != nil && len(unpricedModels(x)) > 0:
		return g.Group{g.Text(countText(tokens)), smallLine(g.Text("tokens; no price"))}
	}
	return g.Group{g.Text(countText(tokens)), smallLine(g.Text("tokens"))}
}

// knownCount formats a count, or returns a dash for a session from an older release.
func knownCount[N int | int64](n *N) string {
	if n == nil {
		return noValue
	}
	return countText(*n)
}

// durationText formats a duration in the two largest units.
func durationText(seconds float64) string {
	d := time.Duration(seconds * float64(time.Second))
	switch {
	case d < time.Second:
		return fmt.Sprintf("%d ms", d.Milliseconds())
	case d < time.Minute:
		return fmt.Sprintf("%.0f s", d.Seconds())
	case d < time.Hour:
		return fmt.Sprintf("%d min %02d s", int(d.Minutes()), int(d.Seconds())%60)
	case d < 48*time.Hour:
		return fmt.Sprintf("%d h %02d min", int(d.Hours()), int(d.Minutes())%60)
	}
	return fmt.Sprintf("%d days", int(d.Hours())/24)
}

// sessionLessons returns the picked lessons, or marks control and excluded sessions.
func sessionLessons(x *store.SessionItem) g.Node {
	return g.Group{
		g.If(x.Control, h.Span(h.Class("slug control"), g.Text("control"))),
		limitedList(x.Injected, h.Span, func(slug string) g.Node { return h.Span(h.Class("slug"), untrustedText(slug)) }),
		limitedList(x.Withheld, h.Span, func(slug string) g.Node {
			return h.Span(h.Class("slug ghost"), h.Title("withheld at random"), untrustedText(slug))
		}),
		g.If(x.Excluded, h.Span(h.Class("quiet"), h.Title(report.ExclusionCause(x.ExcludedFor)), g.Text("outside the experiment"))),
	}
}
