package admin

import (
	"cmp"
	"errors"
	"slices"
	"time"

	"github.com/labstack/echo/v4"
	g "maragu.dev/gomponents"
	h "maragu.dev/gomponents/html"

	"precept/store"
)

type trafficView struct {
	traffic    Traffic
	prices     Prices
	zone       *time.Location
	filterView sessionsView // filters with counts
	tenants    int          // tenants with data; 0: unknown
	reading    bool         // sessions are being read for the first time
}

// readTraffic returns the traffic and the counted sessions; maxWait and old are as in cachedRecent.
func (s *Server) readTraffic(c echo.Context, q *store.SessionQuery, maxWait time.Duration) (t Traffic, r store.Recent, old bool, err error) {
	if r, old, err = s.cachedRecent(c, q, maxWait); err != nil {
		return t, r, old, err
	}
	p, prices := params{c: c}, s.options.Program.Prices()
	t = computeTraffic(&r, q, &prices, s.options.Now(), p.zone())
	if p.boolean("tenants") {
		err = s.addTenants(c, &t, q, maxWait)
	}
	return t, r, old, cmp.Or(p.err, err)
}

// maxTenants bounds the tenants table. Each tenant needs an entry in the recent sessions cache.
const maxTenants = maxShared / 2

// addTenants adds the tenants with data, except those whose sessions are being read for the first time. If maxWait is
// waitForCurrent, the caller wants a complete answer, so addTenants returns errComputing instead of leaving out
// tenants.
func (s *Server) addTenants(c echo.Context, t *Traffic, q *store.SessionQuery, maxWait time.Duration) error {
	names, err := s.tenantNames(c.Request().Context())
	if err != nil {
		return err
	}
	prices, p := s.options.Program.Prices(), params{c: c}
	for _, name := range names[:min(len(names), maxTenants)] {
		query := *q
		query.Tenant = name
		r, _, err := s.cachedRecent(c, &query, maxWait)
		if errors.Is(err, errComputing) && maxWait != waitForCurrent {
			continue
		}
		if err != nil {
			return err
		}
		x := computeTraffic(&r, &query, &prices, s.options.Now(), p.zone())
		t.tenants, t.Tenants = append(t.tenants, x), append(t.Tenants, TrafficRow{Value: name, Sum: x.Sum})
	}
	return nil
}

func (s *Server) apiTraffic(c echo.Context) error {
	q, err := s.sessionQuery(c)
	if err != nil {
		return err
	}
	t, _, _, err := s.readTraffic(c, &q, waitForCurrent)
	return sendJSON(c, t, storeError(err))
}

func (s *Server) trafficPage(c echo.Context) error {
	q, err := s.sessionQuery(c)
	q.Session, q.Text = "", store.TextQuery{}
	p := params{c: c}
	v := trafficView{zone: p.zone(), prices: s.options.Program.Prices(), filterView: sessionsView{query: q, dataURL: s.options.Address.DataURL}}
	page := pageContent{Title: "traffic", Main: v.html, Live: true}
	if err == nil {
		var old bool
		var recent store.Recent
		if names, err := s.tenantNames(c.Request().Context()); err == nil { // on error, the page lacks the link to the tenants
			v.tenants = len(names)
		}
		v.traffic, recent, old, err = s.readTraffic(c, &q, maxPageWait)
		if v.reading = errors.Is(err, errComputing) || err == nil && old && len(recent.Sessions) == 0; v.reading {
			err = nil
		}
		v.filterView.facets, v.filterView.counting, v.filterView.found.RowsRead = recent.Facets(&q), v.reading, len(recent.Sessions)
	}
	if err != nil {
		page.Live, page.Err = false, storeError(err)
	}
	return s.show(c, page)
}

// listOnlyKeys returns the query keys that apply only to the sessions page.
func listOnlyKeys() []string { return []string{"words", "tool", "error", "session"} }

func (v *trafficView) html(f frame) g.Node {
	if f.page.Err != nil {
		return title("Traffic")
	}
	filters := slices.DeleteFunc(sessionFilters(), func(key string) bool { return slices.Contains(listOnlyKeys(), key) })
	return g.Group{
		title("Traffic"),
		h.Div(
			h.Class("browse"),
			v.filterView.sidebar(f, nil),
			h.Div(
				filterChips(f, filters),
				f.unappliedNote("The traffic figures cannot search conversations.", listOnlyKeys()...),
				v.content(f, f.hasQuery(filters...)),
			),
		),
	}
}

// content returns charts and tables, or why there are none.
func (v *trafficView) content(f frame, filtered bool) g.Node {
	t := &v.traffic
	switch {
	case v.reading:
		return emptyState("The stored sessions are being read", h.P(g.Text("The charts then appear here.")))
	case t.Sum.Sessions == 0:
		return g.Group{v.filterView.list(f, filtered, nil), v.tenantFigures(f)}
	}
	return g.Group{
		h.P(
			g.Text("A session is one agent conversation, open or closed, in the experiment or not. Its turns, failures, tokens and cost count at the session's start. "+
				"Each bar covers "+v.barLength()+", in the zone "+v.zoneName()+", and links to the sessions."),
			g.If(!t.Complete, g.Group{g.Textf(" Only the newest %s are counted, since ", countNoun(t.SessionsRead, "session")), timeNode(t.Since), g.Text("; older sessions in the time range are not.")}),
		),
		v.chart(f, "sessions", "Sessions and turns", v.sessionStrips()),
		v.chart(f, "failures", "Failures", v.failureStrips(), v.failureNotes()),
		v.chart(f, "tokens", "Tokens and cost", v.tokenStrips(), v.costNotes()),
		v.table(f, "model", "Model", t.Models),
		v.table(f, "agent", "Agent", t.Agents),
		v.tenantFigures(f),
	}
}

// tenantFigures returns the table by tenant or a link to it; nil for one tenant.
func (v *trafficView) tenantFigures(f frame) g.Node {
	shown := len(v.traffic.Tenants)
	switch {
	case shown > 0:
		return g.Group{
			v.table(f, "tenant", "Tenant", v.traffic.Tenants),
			g.If(shown < v.tenants, mutedText(g.Textf("%d of %d tenants.", shown, v.tenants))),
		}
	case v.tenants > 1:
		return h.P(
			g.Text("These are the sessions in the tenant "), untrustedText(shortenName(f.Tenant)), g.Text(". "),
			h.A(h.Href(f.WithQuery("tenants", "true")), g.Text("Show figures per tenant")), g.Text(" (a tenant is a customer or team with separate data)."),
		)
	}
	return nil
}

// basis returns which sessions the totals cover, or "" if they cover all sessions in the time range.
func (v *trafficView) basis(t *Traffic) string {
	return ifElse(t.Complete, "", "in the newest "+countNoun(t.SessionsRead, "session"))
}

// barLength returns the time that a bar covers, such as "5 minutes".
func (v *trafficView) barLength() string {
	switch seconds := v.traffic.Seconds; {
	case seconds == 60:
		return "a minute"
	case seconds == 60*60:
		return "an hour"
	case seconds == 24*60*60:
		return "a day"
	case seconds < 60:
		return countNoun(seconds, "second")
	case seconds < 60*60:
		return countNoun(seconds/60, "minute")
	default:
		return countNoun(seconds/(24*60*60), "day")
	}
}

// zoneName returns the reader's UTC offset.
func (v *trafficView) zoneName() string {
	if _, seconds := v.traffic.Since.In(v.zone).Zone(); seconds == 0 {
		return "UTC"
	}
	return "UTC" + v.traffic.Since.In(v.zone).Format("-07:00")
}

// label returns a bucket's start in the reader's zone.
func (v *trafficView) label(at time.Time) string {
	layout := "2006-01-02 15:04"
	switch seconds := v.traffic.Seconds; {
	case seconds < 60:
		layout = time.DateTime
	case seconds >= 24*60*60:
		layout = time.DateOnly
	}
	return at.In(v.zone).Format(layout)
}

func (v *trafficView) bucketSessions(f frame, b *TrafficBucket, query ...string) string {
	return sessionsWithoutSearch(f, append([]string{
		"range", "", "since", b.Since.UTC().Format(time.RFC3339Nano), "until", b.Until.UTC().Format(time.RFC3339Nano),
	}, query...)...)
}

func (v *trafficView) sessions(f frame, key, value string) string {
	t := &v.traffic
	if i := slices.IndexFunc(t.Tenants, func(x TrafficRow) bool { return x.Value == value }); key == "tenant" && i >= 0 {
		t = &t.tenants[i]
	}
	if !t.Complete {
		return v.bucketSessions(f, &TrafficBucket{Since: t.Since, Until: t.Until}, key, value)
	}
	return sessionsWithoutSearch(f, key, value)
}

// table returns figures by model, agent or tenant.
func (v *trafficView) table(f frame, key, name string, rows []TrafficRow) g.Node {
	row := func(x TrafficRow) g.Node {
		basis := "" // each tenant has a limit of its own
		if i := slices.IndexFunc(v.traffic.Tenants, func(t TrafficRow) bool { return t.Value == x.Value }); key == "tenant" && i >= 0 {
			basis = v.basis(&v.traffic.tenants[i])
		}
		t, sessions := &x.Sum, g.Node(g.Text(countText(x.Sum.Sessions)))
		if x.Value != "" && len(x.Value) <= maxNameBytes && t.Sessions > 0 {
			sessions = h.A(h.Href(v.sessions(f, key, x.Value)), ariaLabel(escapeHidden(shortenName(x.Value))+": "+countNoun(t.Sessions, "session")), sessions)
		}
		return h.Tr(
			rowHead(h.Class("name"), ifElse(x.Value == "", g.Node(g.Text("unknown")), untrustedText(shortenName(x.Value)))),
			cell("Sessions", sessions, smallLine(g.Text(countNoun(t.Turns, "turn"))), g.If(basis != "", smallLine(g.Text(basis)))),
			cell("Sessions with failed replies", g.If(t.Failed > 0, h.Class("warn")), g.Text(countText(t.Failed))),
			cell("Failed tool results", g.If(t.Errors > 0, h.Class("warn")), g.Text(countText(t.Errors))),
			cell("Cost", v.cost(t)),
			cell("Median duration", g.Text(medianText(t.Seconds))),
		)
	}
	title := "By " + key
	if basis := v.basis(&v.traffic); basis != "" && key != "tenant" {
		title += ", " + basis
	}
	return section("by-"+key, title, scrollRegion(ariaLabelledBy("by-"+key), h.Table(
		h.Class("figures traffic cards"),
		headingRow(
			wordColumns(name), numberColumn(g.Text("Sessions"), smallLine(termButton("turns"))), numberColumn(g.Text("Sessions with"), smallLine(g.Text("failed replies"))),
			numberColumn(g.Text("Failed"), smallLine(g.Text("tool results"))), numberColumn(termButton("spending"), smallLine(g.Text("tokens"))),
			numberColumn(g.Text("Median "), termButton("duration")),
		),
		h.TBody(limitedList(rows, lastRow, row)),
	)))
}

// maxNameBytes is the longest name that a query accepts (params.text).
const maxNameBytes = 256

// cost returns the cost, if known, and the tokens.
func (v *trafficView) cost(t *TrafficSum) g.Node {
	tokens := countText(t.Input + t.Output)
	switch {
	case t.Cost != nil:
		return g.Group{
			g.Text(v.prices.amount(*t.Cost)),
			smallLine(g.Text(tokens+" tokens"), g.If(t.Unpriced > 0, g.Text(", without "+countNoun(t.Unpriced, "session")))),
		}
	case t.Unpriced > 0:
		return g.Group{g.Text(noValue), smallLine(g.Text(tokens + " tokens; no price"))}
	}
	return g.Text(noValue)
}

func medianText(seconds *float64) string {
	if seconds == nil {
		return noValue
	}
	return durationText(*seconds)
}
