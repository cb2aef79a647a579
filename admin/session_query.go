package admin

import (
	"context"
	"time"

	"github.com/labstack/echo/v4"

	"precept/store"
)

// sessionFilters returns the query keys that filter sessions.
func sessionFilters() []string {
	return []string{
		"range", "since", "until", "agent", "model", "lesson", "arm", "verdict", "tool_name", "error_kind", "run", "tag", "length",
		"loops", "min_reward", "max_reward", "words", "tool", "error",
	}
}

func timeRanges() []choice {
	return []choice{
		{"1h", "Last hour"}, {"today", "Today"}, {"yesterday", "Yesterday"}, {"24h", "24 hours"}, {"7d", "7 days"}, {"30d", "30 days"},
	}
}

const zoneCookie = "precept_zone" // the reader's UTC offset, such as +02:00, set by page.js

// zone returns the zone in the query or the cookie, or UTC.
func (p *params) zone() *time.Location {
	parse := func(text string) (*time.Location, bool) {
		at, err := time.Parse("-07:00", text)
		return at.Location(), err == nil
	}
	if l := readParam(p, "zone", "not a UTC offset such as +02:00", parse); l != nil {
		return l
	}
	if cookie, err := p.c.Cookie(zoneCookie); err == nil {
		if l, ok := parse(cookie.Value); ok {
			return l
		}
	}
	return time.UTC
}

// timeBounds returns the query's range. A named range replaces since and until.
func (p *params) timeBounds(now time.Time) (since, until time.Time) {
	zone := p.zone()
	since, until = p.timeIn("since", zone), p.timeIn("until", zone)
	keys := make([]string, 0, len(timeRanges()))
	for _, r := range timeRanges() {
		keys = append(keys, r.Key)
	}
	if name := p.oneOf("range", keys); name != "" {
		return rangeBounds(name, now.In(zone))
	}
	return since, until
}

// rangeBounds returns a named range; until is zero if it ends now.
func rangeBounds(name string, now time.Time) (since, until time.Time) {
	midnight := time.Date(now.Year(), now.Month(), now.Day(), 0, 0, 0, 0, now.Location())
	switch name {
	case "today":
		return midnight, until
	case "yesterday":
		return midnight.AddDate(0, 0, -1), midnight
	default:
		window, _ := ParseWindow(name) // no error: all other names are windows
		return now.Add(-window), until
	}
}

func (s *Server) sessionQuery(c echo.Context) (store.SessionQuery, error) {
	p := params{c: c}
	q := store.SessionQuery{
		Tenant: p.tenant(), After: p.text("after"), Limit: p.number("limit"), Session: p.text("session"),
		Agent: p.text("agent"), Model: p.text("model"), Lesson: p.text("lesson"), Fate: p.oneOf("arm", store.Fates()),
		Run: p.text("run"), ToolName: p.text("tool_name"), ErrorKind: p.text("error_kind"), Tag: p.text("tag"), Length: p.text("length"),
		Verdict: p.oneOf("verdict", store.Verdicts()), Loops: p.boolean("loops"),
		MinReward: p.share("min_reward"), MaxReward: p.share("max_reward"),
		OldestFirst: p.oneOf("order", sessionOrders()) == oldestFirst,
		Text:        store.TextQuery{Words: p.text("words"), Tool: p.text("tool"), Error: p.text("error")},
	}
	q.Since, q.Until = p.timeBounds(s.options.Now())
	return q, p.err
}

// browse returns listSessions' result, with costs. Viewers get no tasks, because the words come from conversations.
func (s *Server) browse(c echo.Context, q *store.SessionQuery, order string, maxWait time.Duration) (store.SessionList, error) {
	l, err := s.listSessions(c, q, order, maxWait)
	for i := range l.Sessions {
		if requestHolder(c).role == viewer {
			l.Sessions[i].Task = ""
		}
	}
	s.setCosts(l.Sessions)
	return l, storeError(err)
}

func (s *Server) setCosts(list []store.SessionItem) {
	prices := s.options.Program.Prices()
	for i := range list {
		prices.setCosts(&list[i])
	}
}

// recentKey identifies sessions that pages share. A named range has no bounds in the key, because bounds that move with
// the clock would give each request a different key.
type recentKey struct {
	Tenant, Range string
	Zone          int       // for a named range, in seconds east of UTC
	Since, Until  time.Time // bounds if Range is empty; zero: no bound
}

func (s *Server) readRecent(ctx context.Context, k recentKey) (store.Recent, error) {
	since, until := k.Since, k.Until
	if k.Range != "" {
		since, until = rangeBounds(k.Range, s.options.Now().In(time.FixedZone("", k.Zone)))
	}
	return s.options.Read.Archive.Recent(ctx, k.Tenant, since, until)
}

// cachedRecent returns sessions for facets and comparisons. cachedRecent waits at most maxWait for a first read, as
// sharedCache.get does. old reports that the sessions are older than the cache allows, usually because a newer read has
// not finished.
func (s *Server) cachedRecent(c echo.Context, q *store.SessionQuery, maxWait time.Duration) (r store.Recent, old bool, err error) {
	k := recentKey{Tenant: q.Tenant, Since: q.Since.UTC(), Until: q.Until.UTC()}
	if name := c.QueryParam("range"); name != "" {
		p := params{c: c}
		_, seconds := time.Time{}.In(p.zone()).Zone()
		k = recentKey{Tenant: q.Tenant, Range: name, Zone: seconds}
	}
	return s.recentSessions.get(c.Request().Context(), k, maxWait)
}

func (s *Server) facets(c echo.Context, q *store.SessionQuery, maxWait time.Duration) (f store.Facets, old bool, err error) {
	r, old, err := s.cachedRecent(c, q, maxWait)
	if err != nil {
		return f, old, err
	}
	return r.Facets(q), old, nil
}

func (s *Server) apiFacets(c echo.Context) error {
	q, err := s.sessionQuery(c)
	if err != nil {
		return err
	}
	f, _, err := s.facets(c, &q, waitForCurrent)
	return sendJSON(c, f, storeError(err))
}
