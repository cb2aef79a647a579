package store

import (
	"context"
	"errors"
	"slices"
	"strconv"
	"strings"
	"time"

	"precept/internal/sample"
	"precept/internal/session"
)

// The limits for one query.
const (
	DefaultRows         = 50 // list size if the query has no limit
	MaxRows             = 200
	maxRowsRead         = 5_000                  // session rows read
	maxSessionsSearched = 1_000                  // sessions searched in one query, by reading the exchanges
	searchTimeLimit     = 750 * time.Millisecond // time after which no further page is read, so that a query takes less than a second
)

// SessionQuery selects sessions, newest first. An empty field matches every session.
type SessionQuery struct {
	Tenant       string
	Since, Until time.Time // bounds for the start
	After        string    // Next from the previous list
	Limit        int       // 0 means DefaultRows; at most MaxRows
	OldestFirst  bool
	Session      string // session name or id, or request or response id; other fields except Tenant are ignored

	Agent, Model string   // whole name, case-insensitive
	Lesson       string   // slug of a matched lesson or, with Fate, of a lesson with this fate
	Fate         string   // one of Fates; without Lesson, the fate of any lesson
	Run          string   // name of a run or a parent session
	ToolName     string   // whole name of a called tool
	ErrorKind    string   // kind of a failed tool result
	Tag          string   // tag sent by the client
	Length       string   // first task's length: s, m, l or xl
	Verdict      string   // one of Verdicts
	Loops        bool     // only sessions with a loop
	MinReward    *float64 // only rewarded sessions
	MaxReward    *float64 // only rewarded sessions

	Text TextQuery
}

// TextQuery selects sessions by text in the exchanges.
type TextQuery struct {
	Words string // text from the user, the model or a tool, case-insensitive
	Tool  string // part of a called tool's name
	Error string // text of a failed call or of an upstream error
}

// Verdicts returns the possible verdicts on a session: the reward quality labels, Unrated (no reward) and StillOpen
// (the session has not closed).
func Verdicts() []string {
	return []string{sample.Good, sample.Acceptable, sample.Poor, Unrated, StillOpen}
}

// Fates returns the lesson fates that a query can ask for. A fate is what happened to a lesson in a session.
func Fates() []string {
	return []string{FateMatched, FateTreated, FateInjected, FateWithheld, FateControl}
}

// The lesson fates that a query can ask for. A matched lesson also has one of the other fates, or was not picked.
const (
	FateMatched  = "matched"
	FateTreated  = "treated" // matched, but not in a control session (a session without lessons, for comparison)
	FateInjected = "injected"
	FateWithheld = "withheld"
	FateControl  = "control" // matched in a control session
)

// The session verdicts in addition to the quality labels.
const (
	Unrated   = "unrated"
	StillOpen = "open"
)

// SessionList is the result of a SessionQuery.
type SessionList struct {
	Sessions    []SessionItem `json:"sessions"`
	Next        string        `json:"next,omitempty"` // the "after" parameter for the next query; may be set even if the page is short
	RowsRead    int           `json:"looked_at"`      // sessions read, not counting runs
	OldestStart *time.Time    `json:"back_to"`        // start of the oldest session read
	NewestStart *time.Time    `json:"up_to"`          // start of the newest session read
	Total       *Total        `json:"total"`          // null: unknown, for example on a later page of a text search
}

// Total is the number of sessions selected by a query.
type Total struct {
	Sessions int  `json:"sessions"` // number of selected sessions
	InRange  int  `json:"of"`       // number of sessions in the time range
	Exact    bool `json:"exact"`    // false: older sessions are not counted, and both numbers are lower bounds
}

// Browse lists the sessions selected by a query.
func (a *Archive) Browse(ctx context.Context, q SessionQuery) (SessionList, error) {
	if q.Session != "" {
		return a.sessionNamed(ctx, q.Tenant, q.Session)
	}
	b := listBuilder{items: newItemBuilder(a), query: &q, limit: rowLimit(q.Limit), out: SessionList{Sessions: []SessionItem{}}}
	within := session.ListRange{Since: q.Since, Until: q.Until, After: q.After, OldestFirst: q.OldestFirst}
	began := a.now()
	for {
		within.Limit = b.pageSize()
		page, err := a.backend.ListSessions(ctx, q.Tenant, within)
		if err != nil {
			return b.out, err
		}
		surplus, err := b.add(ctx, page.List)
		if err != nil {
			return b.out, err
		}
		if surplus > 0 { // a later query continues where a page ends, so end the page at the last listed session
			within.Limit = len(page.List) - surplus
			page, err = a.backend.ListSessions(ctx, q.Tenant, within)
			b.out.Next = page.Next
			return b.out, err
		}
		b.out.Next, within.After = page.Next, page.Next
		limitReached := b.rowsRead >= maxRowsRead || b.sessionsSearched >= maxSessionsSearched || a.now().Sub(began) > searchTimeLimit
		if page.Next == "" || limitReached || len(b.out.Sessions) >= b.limit {
			return b.out, nil
		}
	}
}

type listBuilder struct {
	items            *itemBuilder
	query            *SessionQuery
	limit            int
	out              SessionList
	rowsRead         int // including runs' rows
	sessionsSearched int
}

// pageSize returns the number of sessions to read next. If the query has filters, pageSize returns more than the number
// of sessions still missing from the list, because filters drop some sessions.
func (b *listBuilder) pageSize() int {
	switch {
	case b.query.SearchesText():
		return DefaultRows
	case b.query.hasFilters():
		return MaxRows
	default:
		return b.limit - len(b.out.Sessions)
	}
}

// add adds a page's selected sessions until the list is full. unexamined is the number of sessions left in the page.
func (b *listBuilder) add(ctx context.Context, list []session.ListedSession) (unexamined int, err error) {
	for i := range list {
		l := &list[i]
		b.rowsRead++
		b.out.widenRange(l.Row.Started)
		item, ok, err := b.items.item(ctx, l)
		if err != nil {
			return 0, err
		}
		if ok {
			b.out.RowsRead++
		}
		if ok = ok && b.query.selectsWithTools(&item); ok && b.query.SearchesText() {
			b.sessionsSearched++
			if item.Found, ok, err = b.items.archive.search(ctx, l, newTextSearch(b.query.Text.Words, b.query.Text.Tool, b.query.Text.Error)); err != nil {
				return 0, err
			}
		}
		if ok {
			b.out.Sessions = append(b.out.Sessions, item)
		}
		if remaining := len(list) - 1 - i; remaining > 0 && len(b.out.Sessions) == b.limit {
			return remaining, nil
		}
	}
	return 0, nil
}

func (l *SessionList) widenRange(started time.Time) {
	if l.OldestStart == nil || started.Before(*l.OldestStart) {
		l.OldestStart = &started
	}
	if l.NewestStart == nil || started.After(*l.NewestStart) {
		l.NewestStart = &started
	}
}

func (a *Archive) sessionNamed(ctx context.Context, tenant, name string) (SessionList, error) {
	out := SessionList{Sessions: []SessionItem{}}
	l, rec, err := a.find(ctx, tenant, name)
	if errors.Is(err, ErrNoSession) {
		return out, nil
	}
	if err != nil || a.Hides(tenant, rec.Identity.Agent) {
		return out, err
	}
	x, err := newItemBuilder(a).itemFromRecord(ctx, &l, rec)
	out.Sessions, out.RowsRead = append(out.Sessions, x), 1
	out.widenRange(l.Row.Started)
	return out, err
}

func rowLimit(limit int) int {
	if limit <= 0 {
		return DefaultRows
	}
	return min(limit, MaxRows)
}

// BrowseOrdered lists the sessions in recent that a query selects, ordered by compare. It ignores q.Since, q.Until and
// q.Text. q.After is Next from an earlier ordered list.
func (a *Archive) BrowseOrdered(ctx context.Context, recent *Recent, q *SessionQuery, compare func(x, y *SessionItem) int) (SessionList, error) {
	out := SessionList{Sessions: []SessionItem{}, RowsRead: len(recent.Sessions)}
	from := 0
	if q.After != "" {
		text, ok := strings.CutPrefix(q.After, orderedPrefix)
		n, err := strconv.Atoi(text)
		if !ok || err != nil || n < 0 {
			return out, session.ErrUnknownPosition
		}
		from = n
	}
	var selected []*SessionItem
	for i := range recent.Sessions {
		x := &recent.Sessions[i]
		out.widenRange(x.Started)
		if q.Selects(x) {
			selected = append(selected, x)
		}
	}
	out.Total = &Total{len(selected), len(recent.Sessions), recent.Complete}
	slices.SortStableFunc(selected, compare)
	from = min(from, len(selected))
	to := min(from+rowLimit(q.Limit), len(selected))
	if to < len(selected) {
		out.Next = orderedPrefix + strconv.Itoa(to)
	}
	items := newItemBuilder(a)
	for _, x := range selected[from:to] {
		id, _ := session.ParseID(x.ID)
		item, ok, err := items.itemByID(ctx, q.Tenant, id)
		if err != nil {
			return out, err
		}
		if ok { // otherwise the session was deleted after recent was read
			out.Sessions = append(out.Sessions, item)
		}
	}
	return out, nil
}

// orderedPrefix begins the position string (Next, After) of an ordered list. The rest of the string is the number of
// sessions before the page.
const orderedPrefix = "n"

func (q *SessionQuery) hasFilters() bool {
	return q.Agent+q.Model+q.Lesson+q.Fate+q.Verdict+q.Run+q.ToolName+q.ErrorKind+q.Tag+q.Length != "" ||
		q.Loops || q.MinReward != nil || q.MaxReward != nil || q.SearchesText()
}

// SearchesText reports whether the query needs the sessions' exchanges.
func (q *SessionQuery) SearchesText() bool { return q.Text.Words+q.Text.Tool+q.Text.Error != "" }

// Selects reports whether a session's row satisfies the query. Selects ignores the Text field.
func (q *SessionQuery) Selects(x *SessionItem) bool {
	withoutText := *q
	withoutText.Text = TextQuery{}
	return withoutText.selectsWithTools(x)
}

// selectsWithTools is like Selects, but also checks Text.Tool if the row lists the tools from every turn.
func (q *SessionQuery) selectsWithTools(x *SessionItem) bool {
	if q.Text.Tool != "" && x.CoversAllTurns && !slices.ContainsFunc(x.Tools, func(name string) bool {
		return strings.Contains(strings.ToLower(name), strings.ToLower(q.Text.Tool))
	}) {
		return false // no exchange has such a tool, so a search would read all exchanges in vain
	}
	for _, d := range dimensions {
		if value := d.queryValue(q); value != "" && !slices.ContainsFunc(d.values(x), func(v string) bool { return strings.EqualFold(v, value) }) {
			return false
		}
	}
	switch {
	case q.Lesson+q.Fate != "" && !x.hasFate(q.Lesson, q.Fate),
		q.Loops && x.Loops == 0,
		q.MinReward != nil && (x.Reward == nil || *x.Reward < *q.MinReward),
		q.MaxReward != nil && (x.Reward == nil || *x.Reward > *q.MaxReward):
		return false
	}
	return true
}

// SampleQuery selects samples, newest first.
type SampleQuery struct {
	Filter  sample.Filter // Tenant is required
	Agent   string        // whole name
	Session string        // id
	After   string
	Limit   int // 0 means DefaultRows; at most MaxRows
}

// SampleItem is a sample in a list.
type SampleItem struct {
	Session string        `json:"session_id"`
	Tenant  string        `json:"tenant"`
	Agent   string        `json:"agent"`
	Sample  sample.Sample `json:"sample"`
}

// SampleList is the result of a SampleQuery.
type SampleList struct {
	Samples  []SampleItem `json:"samples"`
	Next     string       `json:"next,omitempty"` // the "after" parameter for the next query; may be set even if the page is short
	RowsRead int          `json:"looked_at"`      // samples read
}

// BrowseSamples lists the samples selected by a query.
func (a *Archive) BrowseSamples(ctx context.Context, q *SampleQuery) (SampleList, error) {
	out := SampleList{Samples: []SampleItem{}}
	limit, sessionID := rowLimit(q.Limit), q.Session
	if _, isID := session.ParseID(sessionID); sessionID != "" && !isID {
		l, _, err := a.find(ctx, q.Filter.Tenant, sessionID)
		if errors.Is(err, ErrNoSession) {
			return out, nil
		}
		if err != nil {
			return out, err
		}
		sessionID = l.Row.ID.String()
	}
	within := session.ListRange{Since: q.Filter.From, Until: q.Filter.To, After: q.After, Limit: limit}
	began := a.now()
	for {
		page, err := a.backend.ListSamples(ctx, q.Filter.Tenant, within)
		if err != nil {
			return out, err
		}
		for i := range page.List {
			out.RowsRead++
			m := &page.List[i]
			if a.Hides(m.Tenant, m.Agent) || q.Agent != "" && q.Agent != m.Agent || sessionID != "" && sessionID != m.ID.String() || !q.Filter.Match(m.Tenant, &m.Sample) {
				continue
			}
			if hidden, err := a.hidesSample(ctx, m); err != nil || hidden {
				if err != nil {
					return out, err
				}
				continue
			}
			out.Samples = append(out.Samples, SampleItem{Session: m.ID.String(), Tenant: m.Tenant, Agent: m.Agent, Sample: m.Sample})
		}
		out.Next, within.After = page.Next, page.Next
		within.Limit = limit - len(out.Samples)
		if page.Next == "" || len(out.Samples) >= limit || out.RowsRead >= maxRowsRead || a.now().Sub(began) > searchTimeLimit {
			return out, nil
		}
	}
}
