package admin

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
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

// find is a word of the glossary; without a definition where there is none, which the tests of the
// pages look for.
func find(key string) term {
	terms := glossary()
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
