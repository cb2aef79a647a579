package store

import (
	"cmp"
	"context"
	"slices"
	"strings"
	"time"

	"precept/internal/session"
)

// Recent holds the newest sessions in a time range.
type Recent struct {
	Sessions    []SessionItem
	OldestStart time.Time // start of the oldest session read
	Complete    bool      // the range has no older session
}

// Facets lists, for each facet (a property such as the agent), the values in the selected sessions, with session
// counts. The values of a facet ignore the query's condition on that facet, so that a page can offer the other values.
type Facets struct {
	Selected    int           `json:"counted"` // number of selected sessions
	RowsRead    int           `json:"read"`    // sessions read
	OldestStart time.Time     `json:"back_to"` // start of the oldest session read
	Complete    bool          `json:"whole"`   // the time range has no older session
	Agents      []FacetValue  `json:"agent"`
	Models      []FacetValue  `json:"model"`
	Verdicts    []FacetValue  `json:"verdict"`
	Tools       []FacetValue  `json:"tool_name"`
	ErrorKinds  []FacetValue  `json:"error_kind"`
	Runs        []FacetValue  `json:"run"`
	Tags        []FacetValue  `json:"tag"`
	Lengths     []FacetValue  `json:"length"`
	Lessons     []LessonFacet `json:"lesson"`
	Controls    int           `json:"control"` // number of control sessions
	WithLoops   int           `json:"loops"`   // number of sessions with a loop
}

// FacetValue is a value with a session count.
type FacetValue struct {
	Value    string `json:"value"`
	Sessions int    `json:"sessions"`
}

// LessonFacet counts, for one lesson and each fate (see Fates), the sessions where the lesson has that fate.
type LessonFacet struct {
	Slug     string `json:"slug"`
	Matched  int    `json:"matched"`
	Injected int    `json:"injected"`
	Withheld int    `json:"withheld"`
	Control  int    `json:"control"`
}

type dimension struct {
	queryValue func(*SessionQuery) string // value in the query; "" means all
	values     func(*SessionItem) []string
	facet      func(*Facets) *[]FacetValue // facet list in the answer
}

var dimensions = []dimension{ //nolint:gochecknoglobals // a table, never written
	{
		func(q *SessionQuery) string { return q.Agent }, func(x *SessionItem) []string { return []string{x.Agent} },
		func(f *Facets) *[]FacetValue { return &f.Agents },
	},
	{
		func(q *SessionQuery) string { return q.Model }, func(x *SessionItem) []string { return []string{x.Model} },
		func(f *Facets) *[]FacetValue { return &f.Models },
	},
	{
		func(q *SessionQuery) string { return q.Verdict }, func(x *SessionItem) []string { return []string{x.Verdict} },
		func(f *Facets) *[]FacetValue { return &f.Verdicts },
	},
	{
		func(q *SessionQuery) string { return q.ToolName }, func(x *SessionItem) []string { return x.Tools },
		func(f *Facets) *[]FacetValue { return &f.Tools },
	},
	{
		func(q *SessionQuery) string { return q.ErrorKind }, func(x *SessionItem) []string { return x.ErrorKinds },
		func(f *Facets) *[]FacetValue { return &f.ErrorKinds },
	},
	{
		func(q *SessionQuery) string { return q.Run }, func(x *SessionItem) []string { return []string{x.Run} },
		func(f *Facets) *[]FacetValue { return &f.Runs },
	},
	{
		func(q *SessionQuery) string { return q.Tag }, func(x *SessionItem) []string { return x.Tags },
		func(f *Facets) *[]FacetValue { return &f.Tags },
	},
	{
		func(q *SessionQuery) string { return q.Length }, func(x *SessionItem) []string { return []string{x.Length} },
		func(f *Facets) *[]FacetValue { return &f.Lengths },
	},
}

// Recent reads the newest sessions in a time range: at most maxRowsRead, for at most searchTimeLimit.
func (a *Archive) Recent(ctx context.Context, tenant string, since, until time.Time) (Recent, error) {
	builder, out, began := newItemBuilder(a), Recent{}, a.now()
	within := session.ListRange{Since: since, Until: until, Limit: MaxRows}
	for read := 0; ; {
		page, err := a.backend.ListSessions(ctx, tenant, within)
		if err != nil {
			return out, err
		}
		for i := range page.List {
			l := &page.List[i]
			read, out.OldestStart = read+1, l.Row.Started
			x, ok, err := builder.item(ctx, l)
			if err != nil {
				return out, err
			}
			if ok {
				x.Name, x.Task, x.Found = "", "", nil // facets do not need these fields, and the caller keeps the list
				out.Sessions = append(out.Sessions, x)
			}
		}
		within.After = page.Next
		out.Complete = page.Next == ""
		if out.Complete || read >= maxRowsRead || a.now().Sub(began) > searchTimeLimit {
			return out, nil
		}
	}
}

// Total returns the number of sessions selected by the query. Total ignores the Text field.
func (r *Recent) Total(q *SessionQuery) Total {
	t := Total{InRange: len(r.Sessions), Exact: r.Complete}
	for i := range r.Sessions {
		if q.Selects(&r.Sessions[i]) {
			t.Sessions++
		}
	}
	return t
}

// Facets counts the values found in the sessions selected by the query. Facets ignores the Text field.
func (r *Recent) Facets(q *SessionQuery) Facets {
	f := Facets{RowsRead: len(r.Sessions), OldestStart: r.OldestStart, Complete: r.Complete}
	withoutText := *q
	withoutText.Text = TextQuery{}
	counts := make([]map[string]int, len(dimensions))
	withoutDimension := make([]SessionQuery, len(dimensions))
	for i := range dimensions {
		counts[i], withoutDimension[i] = map[string]int{}, withoutText.without(i)
	}
	withoutLesson, lessons := withoutText, map[string]*LessonFacet{}
	withoutLesson.Lesson, withoutLesson.Fate = "", ""
	withoutLoops := withoutText
	withoutLoops.Loops = false
	for n := range r.Sessions {
		x := &r.Sessions[n]
		if withoutText.selectsWithTools(x) {
			f.Selected++
		}
		for i := range dimensions {
			if withoutDimension[i].selectsWithTools(x) {
				for _, value := range dimensions[i].values(x) {
					counts[i][value]++
				}
			}
		}
		if withoutLoops.selectsWithTools(x) && x.Loops > 0 {
			f.WithLoops++
		}
		if withoutLesson.selectsWithTools(x) {
			f.addLessons(lessons, x)
		}
	}
	for i := range dimensions {
		*dimensions[i].facet(&f) = rankValues(counts[i])
	}
	f.Lessons = make([]LessonFacet, 0, len(lessons))
	for slug, l := range lessons {
		if len(slug) > maxValueBytes {
			continue
		}
		f.Lessons = append(f.Lessons, *l)
	}
	slices.SortFunc(f.Lessons, func(x, y LessonFacet) int {
		return cmp.Or(cmp.Compare(y.Matched, x.Matched), strings.Compare(x.Slug, y.Slug))
	})
	return f
}

func (q *SessionQuery) without(dimension int) SessionQuery {
	out := *q
	*[]*string{&out.Agent, &out.Model, &out.Verdict, &out.ToolName, &out.ErrorKind, &out.Run, &out.Tag, &out.Length}[dimension] = ""
	return out
}

func (f *Facets) addLessons(lessons map[string]*LessonFacet, x *SessionItem) {
	if x.Control {
		f.Controls++
	}
	lessonFacet := func(slug string) *LessonFacet {
		l := lessons[slug]
		if l == nil {
			l = &LessonFacet{Slug: slug}
			lessons[slug] = l
		}
		return l
	}
	for _, slug := range x.Matched {
		l := lessonFacet(slug)
		l.Matched++
		if x.Control {
			l.Control++
		}
	}
	for _, slug := range x.Injected {
		lessonFacet(slug).Injected++
	}
	for _, slug := range x.Withheld {
		lessonFacet(slug).Withheld++
	}
}

const maxValueBytes = 256

// rankValues returns a facet's values, most frequent first. It leaves out empty and long values.
func rankValues(counts map[string]int) []FacetValue {
	out := make([]FacetValue, 0, len(counts))
	for value, n := range counts {
		if value != "" && len(value) <= maxValueBytes {
			out = append(out, FacetValue{value, n})
		}
	}
	slices.SortFunc(out, func(x, y FacetValue) int {
		return cmp.Or(cmp.Compare(y.Sessions, x.Sessions), strings.Compare(x.Value, y.Value))
	})
	return out
}
