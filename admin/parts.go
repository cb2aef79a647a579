package admin

import (
	"fmt"
	"html/template"
	"slices"
	"strconv"
	"strings"
	"time"

	"precept/lesson"
)

// stat is a figure with its unit and its definition, which are its term's.
type stat struct {
	Term  term
	Value string
	Note  string // what it is measured against, or since when
	Tone  string // good, bad, warn or nothing
}

// Unit is what the value counts: one session, two sessions.
func (s stat) Unit() string {
	if s.Value == "1" {
		return strings.TrimSuffix(s.Term.Unit, "s")
	}
	return s.Term.Unit
}

// sorter is a column's head that sorts.
type sorter struct{ Name, Href, Label, Arrow string }

// Sorter sorts this page by a column: first as it is most wanted (down is largest first), the
// second time the other way.
func (f frame) Sorter(key, name string, down bool) sorter {
	one, other, words := key, "-"+key, [2]string{"smallest first", "largest first"}
	if down {
		one, other, words = other, one, [2]string{words[1], words[0]}
	}
	out := sorter{Name: name, Href: f.With("sort", one), Label: "Sort by " + name + ", " + words[0]}
	switch f.query.Get("sort") {
	case one:
		out.Href, out.Label = f.With("sort", other), "Sort by "+name+", "+words[1]
		out.Arrow = arrow(one)
	case other:
		out.Arrow = arrow(other)
	}
	return out
}

func arrow(key string) string {
	if strings.HasPrefix(key, "-") {
		return "▼"
	}
	return "▲"
}

// pager is which rows are shown.
type pager struct {
	First, Last, Total int
	Prev, Next         string
}

// rowsPerPage is how many rows of a table a page shows.
const rowsPerPage = 100

// pageOf cuts the rows that the query's page names out of total; from and to are their bounds. A
// page beyond the last is the last.
func (f frame) pageOf(total, size int) (p pager, from, to int) {
	n := 1
	if _, err := fmt.Sscanf(f.query.Get("page"), "%d", &n); err != nil || n < 1 {
		n = 1
	}
	n = min(n, max(1, (total+size-1)/size))
	from, to = (n-1)*size, min(n*size, total)
	p = pager{First: from + 1, Last: to, Total: total}
	if n > 1 {
		p.Prev = f.With("page", fmt.Sprint(n-1))
	}
	if to < total {
		p.Next = f.With("page", fmt.Sprint(n+1))
	}
	return p, from, to
}

// functions are what templates may call.
func (s *Server) functions() template.FuncMap {
	return template.FuncMap{
		"term":    s.term,
		"effects": effects,
		"points":  anyPoints,
		"decide":  decide,
		"visible": visible,
		"grouped": grouped,
		"short":   short,
		"rfc3339": func(t time.Time) string { return t.UTC().Format(time.RFC3339) },
		"utc":     func(t time.Time) string { return t.UTC().Format("2006-01-02 15:04 UTC") },
	}
}

// decision is a button of the queue.
type decision struct {
	Lesson                        *lesson.Lesson
	Action, Name, Key, CSRF, Back string
}

func decide(f frame, l *lesson.Lesson, action, name, key string) decision {
	return decision{l, action, name, key, f.CSRF, f.With("backtest", "")}
}

// anyPoints writes an effect, be it there for sure or not.
func anyPoints(x any) string {
	switch x := x.(type) {
	case float64:
		return points(&x)
	case *float64:
		return points(x)
	default:
		return none
	}
}

// effectTable is what the part "effects" takes: a table, and the heads that sort it.
type effectTable struct {
	Table table
	Sorts *sorts
}

func effects(t table, s ...*sorts) effectTable {
	out := effectTable{Table: t}
	if len(s) > 0 {
		out.Sorts = s[0]
	}
	return out
}

// sorts are the heads of an effect table that sort it.
type sorts struct{ Name, Verdict, Effect, Told, Needs, Tokens sorter }

// Sorts are the heads of this page's effect table.
func (f frame) Sorts() *sorts {
	by := func(key, name string, down bool) sorter {
		s := f.Sorter(key, name, down)
		if s.Arrow == "" {
			s.Arrow = "↕"
		}
		s.Name = ""
		return s
	}
	first := f.Sorter("name", "Lesson", false)
	return &sorts{first, by("verdict", "verdict", false), by("effect", "effect", true), by("told", "told sessions", true), by("needs", "missing picks", true), by("tokens", "tokens", true)}
}

// term finds a word of the glossary. A page that names one that is not there is a fault of ours,
// and told.
func (s *Server) term(key string) (term, error) {
	for _, t := range s.terms {
		if t.Key == key {
			return t, nil
		}
	}
	return term{}, fmt.Errorf("the glossary has no %q", key)
}

// find is a word of the glossary; an empty one where there is none, which term tells of when it is
// shown.
func find(terms []term, key string) term {
	i := slices.IndexFunc(terms, func(t term) bool { return t.Key == key })
	if i < 0 {
		return term{Key: key, Name: key}
	}
	return terms[i]
}

func mean(x *float64) string {
	if x == nil {
		return none
	}
	return strconv.FormatFloat(*x, 'f', 3, 64)
}

// chance writes a probability. Nothing is certain, however it would be rounded.
func chance(p float64) string {
	switch {
	case p < 0.005:
		return "< 1%"
	case p > 0.995:
		return "> 99%"
	}
	return percent(&p)
}

func percent(x *float64) string {
	if x == nil {
		return none
	}
	return strconv.FormatFloat(*x*100, 'f', 0, 64) + "%"
}
