package admin

import (
	"cmp"
	"slices"
	"strings"
	"time"

	"precept/internal/price"
	"precept/store"
)

// Traffic holds figures over time, by model and by agent. A session is counted at its start time.
type Traffic struct {
	Since        time.Time       `json:"since"` // start of the first bucket
	Until        time.Time       `json:"until"` // end of the last bucket
	Seconds      int             `json:"bucket_seconds"`
	Currency     string          `json:"currency"` // currency for all costs; empty: unknown
	SessionsRead int             `json:"read"`     // sessions read, before the filters
	Complete     bool            `json:"whole"`    // false: sessions before since are not counted
	Sum          TrafficSum      `json:"sum"`
	Buckets      []TrafficBucket `json:"buckets"` // oldest first; empty without sessions
	Models       []TrafficRow    `json:"models"`  // most sessions first
	Agents       []TrafficRow    `json:"agents"`  // most sessions first
	Tenants      []TrafficRow    `json:"tenants"` // only with the tenants parameter; ordered by name

	tenants []Traffic // in the order of Tenants
}

// TrafficBucket is a part of the time range: between five seconds and several days.
type TrafficBucket struct {
	Since time.Time  `json:"since"`
	Until time.Time  `json:"until"`
	Sum   TrafficSum `json:"sum"`
}

// TrafficRow holds the figures for a model, an agent or a tenant. Names that differ only in case share a row.
type TrafficRow struct {
	Value string     `json:"value"` // empty: unknown
	Sum   TrafficSum `json:"sum"`
}

// TrafficSum holds figures for a group of sessions.
type TrafficSum struct {
	Sessions int                `json:"sessions"`
	Turns    int                `json:"turns"`
	Failed   int                `json:"failed"`             // sessions with a failed upstream reply
	Statuses []store.FacetValue `json:"statuses"`           // sessions by failed reply status; a session can have several
	Errors   int                `json:"errors"`             // failed tool results
	Input    int64              `json:"input_tokens"`       // including cached tokens
	Cached   int64              `json:"cached_tokens"`      // input tokens from the provider's prompt cache
	Written  int64              `json:"cache_write_tokens"` // input tokens written to the prompt cache
	Output   int64              `json:"output_tokens"`      // output tokens
	Unknown  int                `json:"unknown"`            // sessions from an older release; without errors and output tokens
	Cost     *float64           `json:"cost"`               // null: no session has a cost
	Unpriced int                `json:"unpriced"`           // sessions with tokens and an unpriced model
	Seconds  *float64           `json:"median_seconds"`     // median duration, ignoring sessions without one; null: none

	statuses  map[string]int
	durations []float64
}

const (
	maxBars    = 72                  // maximum number of buckets, if they are shorter than one day
	maxBuckets = 120                 // maximum number of buckets, if they last one day or more
	maxLead    = 31 * 24 * time.Hour // longest empty time shown before the oldest session; at least as long as every predefined range
)

// upstreamKind is the prefix for failed replies in SessionItem.Kinds, such as upstream-429.
const upstreamKind = "upstream-"

// addSession adds the figures of one session except the input tokens and the cost.
func (t *TrafficSum) addSession(x *store.SessionItem) {
	t.Sessions, t.Turns = t.Sessions+1, t.Turns+x.Turns
	hasFailed := false
	for _, kind := range x.ErrorKinds {
		if status, ok := strings.CutPrefix(kind, upstreamKind); ok {
			if t.statuses == nil {
				t.statuses = map[string]int{}
			}
			t.statuses[status]++
			hasFailed = true
		}
	}
	if hasFailed {
		t.Failed++
	}
	if x.Errors != nil && x.Output != nil {
		t.Errors, t.Output = t.Errors+*x.Errors, t.Output+*x.Output
	} else {
		t.Unknown++
	}
	if x.Seconds > 0 {
		t.durations = append(t.durations, x.Seconds)
	}
}

// addTokens adds input tokens, and the cost of input and output.
func (t *TrafficSum) addTokens(tokens price.Tokens, cost *float64) {
	t.Input, t.Cached, t.Written = t.Input+tokens.Input, t.Cached+tokens.Cached, t.Written+tokens.Written
	switch {
	case cost != nil && t.Cost == nil:
		t.Cost = new(*cost)
	case cost != nil:
		*t.Cost += *cost
	case tokens.Input+tokens.Output > 0:
		t.Unpriced++
	}
}

// setAggregates sets the fields that need all sessions.
func (t *TrafficSum) setAggregates() {
	t.Statuses = make([]store.FacetValue, 0, len(t.statuses))
	for status, n := range t.statuses {
		t.Statuses = append(t.Statuses, store.FacetValue{Value: status, Sessions: n})
	}
	slices.SortFunc(t.Statuses, func(x, y store.FacetValue) int { return strings.Compare(x.Value, y.Value) })
	if n := len(t.durations); n > 0 {
		slices.Sort(t.durations)
		t.Seconds = new((t.durations[(n-1)/2] + t.durations[n/2]) / 2)
	}
}

func (t *TrafficSum) sessionsWith(status string) int { return t.statuses[status] }

// computeTraffic returns the selected sessions' traffic. Hours and days are aligned to zone.
func computeTraffic(r *store.Recent, q *store.SessionQuery, p *Prices, now time.Time, zone *time.Location) Traffic {
	t := Traffic{Currency: p.Currency, SessionsRead: len(r.Sessions), Complete: r.Complete, Buckets: []TrafficBucket{}, Tenants: []TrafficRow{}}
	models, agents, priceOf, priceSession := map[string]*TrafficRow{}, map[string]*TrafficRow{}, p.priceFunc(), p.costFunc()
	if len(r.Sessions) > 0 {
		t.setBuckets(r, q, now, zone)
	}
	var selected []*store.SessionItem
	isSelected := map[string]bool{} // by ID
	for i := range r.Sessions {
		if x := &r.Sessions[i]; !x.Started.Before(t.Since) && x.Started.Before(t.Until) && q.Selects(x) {
			selected, isSelected[x.ID] = append(selected, x), true
		}
	}
	for _, x := range selected {
		n, _ := slices.BinarySearchFunc(t.Buckets, x.Started, func(b TrafficBucket, at time.Time) int {
			return ifElse(at.Before(b.Until), 1, -1)
		})
		all := [...]*TrafficSum{&t.Sum, &t.Buckets[n].Sum, &rowFor(agents, x.Agent).Sum}
		for _, sum := range all {
			sum.addSession(x)
		}
		rowFor(models, x.Model).Sum.addSession(x)
		if isSelected[x.Parent] { // the parent's tokens include the sub-agent's tokens
			continue
		}
		tokens := price.Tokens{Input: x.Input, Cached: x.Cached, Written: x.Written}
		if x.Output != nil {
			tokens.Output = *x.Output
		}
		cost := priceSession(x)
		for _, sum := range all {
			sum.addTokens(tokens, cost)
		}
		for j := range x.Models {
			m := &x.Models[j]
			var cost *float64
			if modelPrice := priceOf(m.Model); modelPrice != nil {
				cost = new(modelPrice.Cost(m.Tokens()))
			}
			rowFor(models, m.Model).Sum.addTokens(m.Tokens(), cost)
		}
	}
	t.Sum.setAggregates()
	for i := range t.Buckets {
		t.Buckets[i].Sum.setAggregates()
	}
	t.Models, t.Agents = trafficRows(models), trafficRows(agents)
	return t
}

// setBuckets divides the window into buckets. The window begins at the query's start. If the query has no start, or
// if the start is much earlier than the oldest session (maxLead), or if not all sessions were read, the window begins
// at the oldest session.
func (t *Traffic) setBuckets(r *store.Recent, q *store.SessionQuery, now time.Time, zone *time.Location) {
	t.Since, t.Until = q.Since, now
	if r.OldestStart.Sub(t.Since) > maxLead || !r.Complete && t.Since.Before(r.OldestStart) {
		t.Since = r.OldestStart
	}
	for i := range r.Sessions {
		if at := r.Sessions[i].Started; !at.Before(t.Until) { // another replica's clock is ahead
			t.Until = at.Add(1)
		}
	}
	if !q.Until.IsZero() && q.Until.Before(t.Until) {
		t.Until = q.Until
	}
	unit := 24 * time.Hour
	for _, d := range []time.Duration{5 * time.Second, 15 * time.Second, time.Minute, 5 * time.Minute, 15 * time.Minute, time.Hour} {
		if t.Until.Sub(t.Since) <= maxBars*d {
			unit = d
			break
		}
	}
	_, seconds := t.Since.In(zone).Zone()
	offset := time.Duration(seconds) * time.Second
	first := t.Since.Add(offset).Truncate(unit).Add(-offset)
	step := unit * (1 + t.Until.Sub(first)/(unit*maxBuckets))
	t.Seconds = int(step / time.Second)
	for at := first; at.Before(t.Until); at = at.Add(step) {
		b := TrafficBucket{Since: at, Until: at.Add(step)}
		if b.Since.Before(t.Since) {
			b.Since = t.Since
		}
		if b.Until.After(t.Until) {
			b.Until = t.Until
		}
		t.Buckets = append(t.Buckets, b)
	}
}

// rowFor returns the row for a name. rowFor ignores case, as the sessions page does.
func rowFor(rows map[string]*TrafficRow, name string) *TrafficRow {
	key := strings.ToLower(name)
	if rows[key] == nil {
		rows[key] = &TrafficRow{Value: name}
	}
	return rows[key]
}

func trafficRows(rows map[string]*TrafficRow) []TrafficRow {
	out := make([]TrafficRow, 0, len(rows))
	for _, row := range rows {
		row.Sum.setAggregates()
		out = append(out, *row)
	}
	slices.SortFunc(out, func(x, y TrafficRow) int {
		return cmp.Or(cmp.Compare(y.Sum.Sessions, x.Sum.Sessions), strings.Compare(x.Value, y.Value))
	})
	return out
}
