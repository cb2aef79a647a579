package admin

import (
	"cmp"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/labstack/echo/v4"
	g "maragu.dev/gomponents"
	h "maragu.dev/gomponents/html"

	"precept/store"
)

// Values of the "order" query key.
const (
	newestFirst    = "newest"
	oldestFirst    = "oldest"
	costliestFirst = "costliest"
	cheapestFirst  = "cheapest"
	longestFirst   = "longest"
	shortestFirst  = "shortest"
)

// sessionOrders returns the orders, the default first. Stores have an index for the start only, so for the last four
// orders, the sessions from cachedRecent are sorted in memory.
func sessionOrders() []string {
	return []string{newestFirst, oldestFirst, costliestFirst, cheapestFirst, longestFirst, shortestFirst}
}

// startOrders returns the orders by start.
func startOrders() []string { return []string{newestFirst, oldestFirst} }

// sessionCompare returns the comparison for an order by cost or duration, and nil for an order by start. Sessions
// without a cost come last.
func sessionCompare(order string, p *Prices) func(x, y *store.SessionItem) int {
	sign := ifElse(order == costliestFirst || order == longestFirst, -1, 1)
	switch order {
	case costliestFirst, cheapestFirst:
		priceSession := p.costFunc()
		return func(x, y *store.SessionItem) int {
			a, b := priceSession(x), priceSession(y)
			switch {
			case a == nil && b == nil:
				return 0
			case a == nil:
				return 1
			case b == nil:
				return -1
			}
			return sign * cmp.Compare(*a, *b)
		}
	case longestFirst, shortestFirst:
		return func(x, y *store.SessionItem) int { return sign * cmp.Compare(x.Seconds, y.Seconds) }
	}
	return nil
}

// errOrderedSearch refuses a text search with an order by cost or duration, because a search reads conversations in
// start order.
var errOrderedSearch = echo.NewHTTPError(http.StatusBadRequest,
	"order: a text search has only the orders newest and oldest; omit words, tool and error, or the order")

// listSessions returns the selected sessions with the total. listSessions waits at most maxWait for the sessions from
// cachedRecent. Without them, a list by cost or duration fails with errComputing, and a list by start has no total.
func (s *Server) listSessions(c echo.Context, q *store.SessionQuery, order string, maxWait time.Duration) (store.SessionList, error) {
	prices := s.options.Program.Prices()
	if compare := sessionCompare(order, &prices); compare != nil && q.Session == "" {
		if q.SearchesText() {
			return store.SessionList{}, errOrderedSearch
		}
		recent, old, err := s.cachedRecent(c, q, maxWait)
		if err == nil && old && len(recent.Sessions) == 0 {
			err = errComputing
		}
		if err != nil {
			return store.SessionList{}, err
		}
		return s.options.Read.Archive.BrowseOrdered(c.Request().Context(), &recent, q, compare)
	}
	l, err := s.options.Read.Archive.Browse(c.Request().Context(), *q)
	if err != nil {
		return l, err
	}
	switch shown := len(l.Sessions); {
	case q.After == "" && l.Next == "":
		l.Total = &store.Total{Sessions: shown, InRange: l.RowsRead, Exact: true}
	case q.SearchesText() && q.After == "":
		l.Total = &store.Total{Sessions: shown, InRange: l.RowsRead}
	case !q.SearchesText():
		if recent, old, err := s.cachedRecent(c, q, maxWait); err == nil && (!old || len(recent.Sessions) > 0) {
			t := recent.Total(q)
			t.Sessions, t.InRange = max(t.Sessions, shown), max(t.InRange, l.RowsRead) // the list may be newer than the count
			l.Total = &t
		}
	}
	return l, nil
}

// totalText returns the total in words, such as "112 of 2,000 sessions. ".
func (v *sessionsView) totalText(f frame, isByStart bool) g.Node {
	t := v.found.Total
	if t == nil {
		return nil
	}
	within := ifElse(f.hasQuery("range", "since", "until"), " in the time range", "")
	inRange := countNoun(t.InRange, "session") + within
	switch isAll := t.Sessions == t.InRange; {
	case t.Exact:
		return g.Text(ifElse(isAll, "", countText(t.Sessions)+" of ") + inRange + ". ")
	case !isByStart && v.found.OldestStart != nil:
		return g.Group{
			g.Text(ifElse(isAll, "The", countText(t.Sessions)+" of the") + " newest " + inRange + ", since "), timeNode(*v.found.OldestStart),
			g.Text("; older sessions are not in this order. "),
		}
	case isAll || v.searched:
		return g.Text("At least " + countNoun(t.Sessions, "session") + within + ". ")
	}
	return g.Text(countText(t.Sessions) + " of the newest " + inRange + "; older sessions are not counted. ")
}

// caption names the total and the order, and says how a search reads sessions.
func (v *sessionsView) caption(f frame) g.Node {
	orders, isByStart := sessionOrders(), slices.Contains(startOrders(), v.order)
	if v.searched {
		orders = startOrders()
	}
	var links g.Group
	for _, key := range orders {
		if key == v.order {
			continue
		}
		links = append(links, g.If(len(links) > 0, g.Text(", ")), h.A(
			h.Href(f.WithQuery("order", ifElse(key == newestFirst, "", key))), g.Text(ifElse(len(links) == 0, "Show the "+key+" first", key)),
		))
	}
	asked := f.query.Get("order")
	return g.Group{
		v.totalText(f, isByStart), g.Text(strings.ToUpper(v.order[:1]) + v.order[1:] + " first"),
		g.If(v.searched && asked != v.order && slices.Contains(sessionOrders(), asked), g.Text(", because a text search has no order by cost or duration")),
		g.Text(". "), g.If(v.query.Session == "", links),
		g.If(v.searched, g.Text(". The search reads the sessions one by one.")),
	}
}

// orderLink returns a column heading that orders the list. The first click shows the largest value first, the second
// the smallest.
func (v *sessionsView) orderLink(f frame, name, largest, smallest string) g.Node {
	next, arrow := largest, "↕"
	switch v.order {
	case largest:
		next, arrow = smallest, "▼"
	case smallest:
		arrow = "▲"
	}
	return g.If(!v.searched && v.query.Session == "", g.Group{space(), h.A(
		h.Class("sort"), h.Href(f.WithQuery("order", next)), ariaLabel("Sort by "+name+", "+next+" first"), h.Span(h.Aria("hidden", "true"), g.Text(arrow)),
	)})
}
