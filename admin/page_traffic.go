package admin

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"
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

// addTenants adds tenants with data. It leaves out tenants being read for the first time, except with maxWait =
// waitForCurrent: then the caller wants a complete answer, and addTenants returns errComputing.
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
				f.unappliedNote("Traffic figures do not search conversations.", listOnlyKeys()...),
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
			g.Text("A session is one agent conversation. Turns, failures, tokens and cost count at the session start. "+
				"Each bar is "+v.barLength()+", in the zone "+v.zoneName()+", and links to the sessions."),
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

func (v *trafficView) barLength() string {
	switch hours := v.traffic.Hours; hours {
	case 1:
		return "an hour"
	case 24:
		return "a day"
	default:
		return countNoun(hours/24, "day")
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
	return at.In(v.zone).Format(ifElse(v.traffic.Hours == 1, "2006-01-02 15:04", time.DateOnly))
}

// strip is a row of bars, one per bucket, on a separate scale.
type strip struct {
	name  string
	term  string // glossary key for the name, if any
	tone  string // CSS class for the bars; empty: default colour
	kind  string // error kind in the session list that a bar links to; empty: every kind
	value func(t *TrafficSum) float64
	text  func(x float64) string // nil: whole numbers
}

func (s *strip) format(x float64) string {
	if s.text != nil {
		return s.text(x)
	}
	return countText(int64(x))
}

func (v *trafficView) sessionStrips() []strip {
	return []strip{
		{name: "Sessions", value: func(t *TrafficSum) float64 { return float64(t.Sessions) }},
		{name: "Turns", term: "turns", value: func(t *TrafficSum) float64 { return float64(t.Turns) }},
	}
}

// maxStatuses bounds the strips for failed replies.
const maxStatuses = 6

func (v *trafficView) shownStatuses() []store.FacetValue {
	list := slices.Clone(v.traffic.Sum.Statuses)
	slices.SortStableFunc(list, func(x, y store.FacetValue) int { return y.Sessions - x.Sessions })
	return list[:min(len(list), maxStatuses)]
}

func (v *trafficView) failureStrips() (out []strip) {
	for _, status := range v.shownStatuses() {
		out = append(out, strip{
			name: "Sessions with a failed reply, status " + escapeHidden(shortenName(status.Value)), tone: "bad", kind: upstreamKind + status.Value,
			value: func(t *TrafficSum) float64 { return float64(t.sessionsWith(status.Value)) },
		})
	}
	if v.traffic.Sum.Errors > 0 {
		out = append(out, strip{name: "Failed tool results", tone: "warn", value: func(t *TrafficSum) float64 { return float64(t.Errors) }})
	}
	return out
}

// failureNotes explains failures and names those not charted.
func (v *trafficView) failureNotes() g.Node {
	t := &v.traffic.Sum
	statuses := len(t.Statuses)
	return g.Group{
		g.If(statuses == 0, mutedText(g.Text("No session has a failed model API reply."))),
		g.If(statuses > 0, mutedText(
			g.Textf("%s of %s had a failed model API reply. ", countText(t.Failed), countNoun(t.Sessions, "session")),
			g.Text("A status of 400 or more is a failure, such as 429 for too many requests. A session counts once per status. "),
			g.If(statuses > maxStatuses, g.Textf("The charts show the %d most frequent of %d statuses.", maxStatuses, statuses)),
		)),
		g.If(t.Errors == 0 && t.Unknown < t.Sessions, mutedText(g.Text("No session has a failed tool result."))),
		g.If(t.Unknown > 0, mutedText(g.Textf("Some turns in %s are unknown, such as turns from an older release; failed tool results and output tokens in these sessions are not counted.", countNoun(t.Unknown, "session")))),
	}
}

func (v *trafficView) tokenStrips() []strip {
	out := []strip{
		{name: "Input", value: func(t *TrafficSum) float64 { return float64(t.Input) }},
		{name: "Cached input", tone: "quiet", value: func(t *TrafficSum) float64 { return float64(t.Cached) }},
		{name: "Output", value: func(t *TrafficSum) float64 { return float64(t.Output) }},
	}
	if v.traffic.Sum.Cost != nil {
		out = append(out, strip{name: "Cost", term: "spending", tone: "good", text: v.prices.amount, value: func(t *TrafficSum) float64 {
			if t.Cost == nil {
				return 0
			}
			return *t.Cost
		}})
	}
	return out
}

// costNotes names sessions without a cost and says where prices come from.
func (v *trafficView) costNotes() g.Node {
	t := &v.traffic.Sum
	mean := meanPrice{known: t.Cost != nil}
	return g.Group{
		g.If(t.Unpriced > 0, mutedText(g.Textf("The cost leaves out %s with a model without a price. Add the model to the key prices.", countNoun(t.Unpriced, "session")))),
		mean.note(&v.prices),
	}
}

// chart returns strips of bars, and the numbers as a table.
func (v *trafficView) chart(f frame, id, name string, strips []strip, notes ...g.Node) g.Node {
	t := &v.traffic
	return section(
		id, name, g.Group(notes),
		g.Iff(len(strips) > 0, func() g.Node {
			return g.Group{
				g.Map(strips, func(s strip) g.Node { return v.bars(f, &s) }),
				h.P(h.Class("axis quiet"), h.Span(g.Text(v.label(t.Buckets[0].Since))), h.Span(g.Text(v.label(t.Buckets[len(t.Buckets)-1].Since)))),
				collapsible(name+", as a table", grid(
					ariaLabel(name+" over time"),
					headingRow(wordColumns("Begun, "+v.zoneName()), g.Map(strips, func(s strip) g.Node { return numberColumn(g.Text(s.name)) })),
					g.Map(t.Buckets, func(b TrafficBucket) g.Node {
						return g.If(b.Sum.Sessions > 0, h.Tr(
							rowHead(h.A(h.Href(v.bucketSessions(f, &b)), g.Text(v.label(b.Since)))),
							g.Map(strips, func(s strip) g.Node { return numberCells(s.format(s.value(&b.Sum))) }),
						))
					}),
				)),
			}
		}),
	)
}

// bars returns a strip with the total and the highest bar. Screen readers and the keyboard use the table instead.
func (v *trafficView) bars(f frame, s *strip) g.Node {
	const width, height = 10, 48.0
	t, maxValue := &v.traffic, 0.0
	for i := range t.Buckets {
		maxValue = max(maxValue, s.value(&t.Buckets[i].Sum))
	}
	rect := func(class string, x, y, width, height float64) g.Node {
		return g.El("rect", h.Class(class), g.Attr("x", coordinate(x)), g.Attr("y", coordinate(y)), g.Attr("width", coordinate(width)), g.Attr("height", coordinate(height)))
	}
	var bars g.Group
	for i := range t.Buckets {
		b := &t.Buckets[i]
		x := s.value(&b.Sum)
		if x <= 0 {
			continue
		}
		left, size := float64(i*width), max(height*x/maxValue, 1)
		bars = append(bars, h.A(
			g.If(s.canListSessions(f), h.Href(v.bucketSessions(f, b, s.query()...))), h.TabIndex("-1"), g.El("title", g.Text(v.label(b.Since)+": "+s.format(x))),
			rect("hit", left, 0, width, height), rect("bar", left+1, height-size, width-2, size),
		))
	}
	name := g.Node(h.Span(g.Text(s.name)))
	if s.term != "" {
		name = termButton(s.term)
	}
	return h.Div(
		h.Class("strip"),
		h.P(name, space(), h.Strong(g.Text(s.format(s.value(&t.Sum)))), h.Span(h.Class("quiet"), g.Text(", at most "+s.format(maxValue)+" in "+v.barLength()))),
		h.SVG(
			h.Class("traffic "+s.tone), g.Attr("viewBox", fmt.Sprintf("0 0 %d %g", width*len(t.Buckets), height)), g.Attr("preserveAspectRatio", "none"),
			h.Aria("hidden", "true"), bars,
		),
	)
}

// query returns the filters for the list of sessions that a bar counts, without the time.
func (s *strip) query() []string {
	if s.kind == "" {
		return nil
	}
	return []string{"error_kind", s.kind}
}

// canListSessions reports whether the session list can show exactly the sessions that a bar counts. The list can filter
// by one error kind only, so the page's filter must not name a different kind.
func (s *strip) canListSessions(f frame) bool {
	kind := f.query.Get("error_kind")
	return s.kind == "" || kind == "" || strings.EqualFold(kind, s.kind)
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
		t, sessions := &x.Sum, g.Node(g.Text(countText(x.Sum.Sessions)))
		if x.Value != "" && len(x.Value) <= maxNameBytes && t.Sessions > 0 {
			sessions = h.A(h.Href(v.sessions(f, key, x.Value)), ariaLabel(escapeHidden(shortenName(x.Value))+": "+countNoun(t.Sessions, "session")), sessions)
		}
		return h.Tr(
			rowHead(h.Class("name"), ifElse(x.Value == "", g.Node(g.Text("unknown")), untrustedText(shortenName(x.Value)))),
			cell("Sessions", sessions, smallLine(g.Text(countNoun(t.Turns, "turn")))),
			cell("Sessions with failed replies", g.If(t.Failed > 0, h.Class("warn")), g.Text(countText(t.Failed))),
			cell("Failed tool results", g.If(t.Errors > 0, h.Class("warn")), g.Text(countText(t.Errors))),
			cell("Cost", v.cost(t)),
			cell("Median duration", g.Text(medianText(t.Seconds))),
		)
	}
	return section("by-"+key, "By "+key, scrollRegion(ariaLabelledBy("by-"+key), h.Table(
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
