package store

import (
	"context"
	"errors"
	"slices"
	"strings"
	"time"

	"precept/internal/sample"
	"precept/internal/session"
)

// What one question about sessions or samples may look at. Who wants more asks again with Next.
const (
	DefaultRows = 50
	MaxRows     = 200
	maxScan     = 5_000           // sessions, by what their rows say
	maxRead     = 1_000           // of them, sessions of which what was said is read
	maxSearch   = 2 * time.Second // and no new page is begun behind it
)

// SessionQuery says which sessions are asked for, newest first. What is empty asks for nothing.
type SessionQuery struct {
	Tenant       string
	Since, Until time.Time // of the start
	After        string    // Next of the answer before
	Limit        int       // 0: DefaultRows; at most MaxRows
	Session      string    // the one session of this name or id; what else is asked for is not looked at

	Agent, Model string   // the whole name
	Lesson       string   // a slug that matched in it
	Verdict      string   // one of Verdicts
	Loops        bool     // with a loop only
	MinReward    *float64 // told, and at least this
	MaxReward    *float64 // told, and at most this

	Words string // said by anybody, or in an answer of a tool; case does not count
	Tool  string // called in it, the name or a part of it
	Error string // in a failed call's answer, or in an error of the upstream
}

// Verdicts are what a session's reward comes to; StillOpen is one that is not closed yet, Unrated
// one of which nobody told.
func Verdicts() []string {
	return []string{sample.Good, sample.Acceptable, sample.Poor, Unrated, StillOpen}
}

// The verdicts on sessions beside the quality labels.
const (
	Unrated   = "unrated"
	StillOpen = "open"
)

// SessionItem is a session in a list.
type SessionItem struct {
	ID       string    `json:"session_id"`
	Name     string    `json:"name"`
	Tenant   string    `json:"tenant"`
	Run      string    `json:"run,omitempty"` // the run that it belongs to, or the named session whose sub-agent it is; of a run's own row its name
	Agent    string    `json:"agent"`
	Model    string    `json:"model,omitempty"`
	Dialect  string    `json:"dialect,omitempty"`
	Method   string    `json:"method,omitempty"` // how it was recognised
	Started  time.Time `json:"started"`
	Seen     time.Time `json:"seen"`
	Closed   bool      `json:"closed"`
	Turns    int       `json:"turns"`
	Loops    int       `json:"loops"`
	Matched  []string  `json:"matched"`
	Injected []string  `json:"injected"`
	Withheld []string  `json:"withheld"`
	Control  bool      `json:"control"`  // it gets nothing, by the coin
	Excluded bool      `json:"excluded"` // no part of the experiment
	Refused  bool      `json:"refused"`  // the upstream took its requests only unchanged
	Reward   *float64  `json:"reward"`   // null: nobody told, or it is not closed
	Tier     int       `json:"tier,omitempty"`
	Verdict  string    `json:"verdict"`
	Input    int64     `json:"input_tokens"`
	Cached   int64     `json:"cached_tokens"`
	Found    *Found    `json:"found,omitempty"` // of a search: where
}

// SessionList is the answer to a SessionQuery.
type SessionList struct {
	Sessions []SessionItem `json:"sessions"`
	Next     string        `json:"next,omitempty"` // asks for what comes behind; there may be more although this page is short
	Looked   int           `json:"looked_at"`      // how many sessions were looked at for it
	Back     *time.Time    `json:"back_to"`        // the start of the oldest of them
}

// Browse lists sessions. It reads what is stored: what was redacted or opted out is not there to be
// shown, and a turn appears when it has been delivered.
func (a *Archive) Browse(ctx context.Context, q SessionQuery) (SessionList, error) {
	if q.Session != "" {
		return a.one(ctx, q.Tenant, q.Session)
	}
	b := browsing{a: a, q: &q, limit: rows(q.Limit), out: SessionList{Sessions: []SessionItem{}}}
	of := session.Stretch{Since: q.Since, Until: q.Until, After: q.After}
	began := a.now()
	for {
		of.Most = b.most()
		page, err := a.be.Newest(ctx, q.Tenant, of)
		if err != nil {
			return b.out, err
		}
		left, err := b.look(ctx, page.List)
		if err != nil {
			return b.out, err
		}
		if left > 0 { // the page is asked for again: a place is known of its last entry only
			of.Most = len(page.List) - left
			page, err = a.be.Newest(ctx, q.Tenant, of)
			b.out.Next = page.Next
			return b.out, err
		}
		b.out.Next, of.After = page.Next, page.Next
		over := b.out.Looked >= maxScan || b.reads >= maxRead || a.now().Sub(began) > maxSearch
		if page.Next == "" || over || len(b.out.Sessions) >= b.limit {
			return b.out, nil
		}
	}
}

// browsing is a list that is being made.
type browsing struct {
	a     *Archive
	q     *SessionQuery
	limit int
	out   SessionList
	reads int // sessions of which what was said was read
}

// most is how many sessions to ask for: more than are wanted, where most of them are not.
func (b *browsing) most() int {
	switch {
	case b.q.searches():
		return DefaultRows
	case b.q.filters():
		return MaxRows
	default:
		return b.limit - len(b.out.Sessions)
	}
}

// look looks at a page's sessions, and says how many of them it left when the list was full.
func (b *browsing) look(ctx context.Context, list []session.Listed) (left int, err error) {
	for i := range list {
		l := &list[i]
		b.out.Looked++
		b.out.Back = &l.Started
		item, ok := b.a.item(l)
		if ok = ok && b.q.wants(&item); ok && b.q.searches() {
			b.reads++
			if item.Found, ok, err = b.a.search(ctx, l, newHunt(b.q.Words, b.q.Tool, b.q.Error)); err != nil {
				return 0, err
			}
		}
		if ok {
			b.out.Sessions = append(b.out.Sessions, item)
		}
		if rest := len(list) - 1 - i; rest > 0 && len(b.out.Sessions) == b.limit {
			return rest, nil
		}
	}
	return 0, nil
}

// one lists the session of a name, if there is one.
func (a *Archive) one(ctx context.Context, tenant, name string) (SessionList, error) {
	out := SessionList{Sessions: []SessionItem{}}
	l, rec, err := a.find(ctx, tenant, name)
	if errors.Is(err, ErrNoSession) {
		return out, nil
	}
	if err == nil && !a.Hides(tenant, rec.Identity.Agent) {
		out.Sessions, out.Looked, out.Back = append(out.Sessions, itemOf(&l, rec)), 1, &l.Started
	}
	return out, err
}

func rows(limit int) int {
	if limit <= 0 {
		return DefaultRows
	}
	return min(limit, MaxRows)
}

// filters says that the answer may leave sessions out.
func (q *SessionQuery) filters() bool {
	return q.Agent+q.Model+q.Lesson+q.Verdict != "" || q.Loops || q.MinReward != nil || q.MaxReward != nil || q.searches()
}

// searches says that what was said has to be read.
func (q *SessionQuery) searches() bool { return q.Words+q.Tool+q.Error != "" }

// wants says whether a session is asked for, as far as its row tells.
func (q *SessionQuery) wants(x *SessionItem) bool {
	switch {
	case q.Agent != "" && !strings.EqualFold(q.Agent, x.Agent),
		q.Model != "" && !strings.EqualFold(q.Model, x.Model),
		q.Lesson != "" && !slices.Contains(x.Matched, q.Lesson),
		q.Verdict != "" && q.Verdict != x.Verdict,
		q.Loops && x.Loops == 0:
		return false
	}
	if q.MinReward != nil && (x.Reward == nil || *x.Reward < *q.MinReward) {
		return false
	}
	return q.MaxReward == nil || x.Reward != nil && *x.Reward <= *q.MaxReward
}

// item tells a session; ok is false for one of which nothing may be shown.
func (a *Archive) item(l *session.Listed) (x SessionItem, ok bool) {
	rec, err := session.Decode(l.ID, l.Data)
	if err != nil { // by another version, or damaged: that there is one can be told
		rec = &session.Record{Identity: session.Identity{Name: l.ID.String()}}
	}
	if a.Hides(l.Tenant, rec.Identity.Agent) {
		return x, false
	}
	return itemOf(l, rec), true
}

func itemOf(l *session.Listed, rec *session.Record) SessionItem {
	x := SessionItem{
		ID: l.ID.String(), Name: rec.Identity.Name, Tenant: l.Tenant, Agent: rec.Identity.Agent, Model: rec.Identity.Model, Dialect: rec.Identity.Dialect.String(), Method: string(rec.Identity.Method),
		Started: l.Started, Seen: l.Seen, Closed: l.Closed || l.Applied.Version > 0, Turns: rec.Thread.Turns, Loops: rec.Lessons.Loops.Count,
		Matched: append([]string{}, rec.Lessons.Matched...), Injected: []string{}, Withheld: []string{},
		Control: rec.Assignment.Control, Excluded: rec.Assignment.Excluded, Refused: rec.State.Refused,
		Input: rec.Thread.Used.Input, Cached: rec.Thread.Used.Cached, Verdict: StillOpen,
	}
	if x.Run = rec.Unit.RunName; rec.Unit.IsRun {
		x.Run = rec.Identity.Name
	}
	for i := range rec.Assignment.Picks {
		p := &rec.Assignment.Picks[i]
		if p.Injected {
			x.Injected = append(x.Injected, p.Slug)
		} else {
			x.Withheld = append(x.Withheld, p.Slug)
		}
	}
	if x.Closed {
		x.Verdict = Unrated
	}
	if l.Applied.Told {
		reward := l.Applied.Reward
		x.Reward, x.Tier, x.Verdict = &reward, l.Applied.Tier, sample.LabelOf(reward)
	}
	return x
}
