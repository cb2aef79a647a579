package admin

import (
	"cmp"
	"slices"
	"strconv"
	"strings"

	"github.com/labstack/echo/v4"

	"precept/report"
)

// lessonsView is what the page of all lessons shows.
type lessonsView struct {
	Filter   lessonsFilter
	Warnings []string
	Table    table
	Pager    pager
	Total    int // before the filter
	States   []string
}

// zoom is a choice of a list: a scale of the forest plot, or a group of verdicts.
type zoom struct{ Key, Name string }

// zooms are the scales: fitted, everything, or so many points on both sides of 0.
func zooms() []zoom {
	return []zoom{{"", "fits the data"}, {"all", "whole intervals"}, {"5", "±5 points"}, {"10", "±10 points"}, {"25", "±25 points"}, {"50", "±50 points"}, {"100", "±100 points"}}
}

// verdicts are the groups that advise gives.
func verdicts() []zoom {
	return []zoom{{"helps", "helps"}, {"harms", "harms"}, {"none", "no material effect"}, {"open", "still open"}, {"invalid", "invalid"}, {"waits", "waits for approval"}}
}

// lessonsFilter is what the query asks for.
type lessonsFilter struct {
	Words, State, Verdict, Zoom, Sort, Window string
	Old                                       bool
}

// lessonsPage shows the lessons: filtered, sorted, a page of them.
func (s *Server) lessonsPage(c echo.Context) error {
	q, err := query(c)
	if err != nil {
		return err
	}
	r, at, problem := s.readReport(c, q)
	f := s.frame(c, shown{})
	v := lessonsView{
		Filter: lessonsFilter{
			Words: c.QueryParam("q"), State: c.QueryParam("state"), Verdict: c.QueryParam("verdict"), Zoom: c.QueryParam("zoom"), Sort: c.QueryParam("sort"),
			Window: c.QueryParam("window"), Old: c.QueryParam("old") != "",
		},
		Warnings: doubts(&r),
	}
	rows := v.choose(&r)
	var from, to int
	v.Pager, from, to = f.pageOf(len(rows), rowsPerPage)
	v.Table = tableOf(&r, rows[from:to], false, v.Filter.reach(), s.options.Truth, f.lesson)
	return s.show(c, shown{Title: "Lessons", Main: v.html, Live: at.Old, Counted: at, Problem: problem})
}

// reach is the zoom as fit takes it.
func (f lessonsFilter) reach() float64 {
	if f.Zoom == "all" {
		return -1
	}
	x, err := strconv.ParseFloat(f.Zoom, 64)
	if err != nil || !(x >= 1 && x <= 100) {
		return 0
	}
	return x
}

// choose filters and sorts.
func (v *lessonsView) choose(r *report.Report) []*report.Row {
	words := strings.Fields(strings.ToLower(v.Filter.Words))
	var out []*report.Row
	for i := range r.Lessons {
		l := &r.Lessons[i]
		old := l.State == "edited" || l.State == "removed" || l.State == "shown otherwise"
		if old && !v.Filter.Old {
			continue
		}
		v.Total++
		if !slices.Contains(v.States, l.State) {
			v.States = append(v.States, l.State)
		}
		if v.Filter.State != "" && l.State != v.Filter.State || v.Filter.Verdict != "" && advise(l).Group != v.Filter.Verdict {
			continue
		}
		slug := strings.ToLower(l.Slug)
		if slices.ContainsFunc(words, func(w string) bool { return !strings.Contains(slug, w) }) {
			continue
		}
		out = append(out, l)
	}
	slices.Sort(v.States)
	slices.SortStableFunc(out, order(v.Filter.Sort))
	return out
}

// order is how rows are sorted; by effect, the largest first, when the query does not say.
func order(key string) func(x, y *report.Row) int {
	key, down := strings.CutPrefix(key, "-")
	by := func(x, y *report.Row) int { return strings.Compare(x.Slug, y.Slug) }
	switch key {
	case "name":
	case "effect":
		if !down { // the worst first, and those without an effect at the end all the same
			return func(x, y *report.Row) int {
				return cmp.Or(cmp.Compare(known(y.Effect), known(x.Effect)), cmp.Compare(value(x.Effect), value(y.Effect)), strings.Compare(x.Slug, y.Slug))
			}
		}
		return byEffect
	case "verdict":
		by = func(x, y *report.Row) int { return strings.Compare(advise(x).Group, advise(y).Group) }
	case "told":
		by = func(x, y *report.Row) int { return cmp.Compare(x.Told, y.Told) }
	case "needs":
		by = func(x, y *report.Row) int { return cmp.Compare(x.NeedsPicks, y.NeedsPicks) }
	case "tokens":
		by = func(x, y *report.Row) int { return cmp.Compare(x.Tokens, y.Tokens) }
	case "helps":
		by = func(x, y *report.Row) int { return cmp.Compare(x.PHelps, y.PHelps) }
	default:
		return byEffect
	}
	if down {
		up := by
		by = func(x, y *report.Row) int { return up(y, x) }
	}
	return func(x, y *report.Row) int { return cmp.Or(by(x, y), byEffect(x, y)) }
}
