package admin

import (
	"slices"
	"strconv"
	"strings"

	"github.com/labstack/echo/v4"
	g "maragu.dev/gomponents"
	h "maragu.dev/gomponents/html"

	"precept/bandit/report"
)

// lessonsView is the data of the page of all lessons.
type lessonsView struct {
	counted reported
	filter  lessonsFilter
	rows    []*report.Row // filtered rows, in order
	total   int           // number of rows before the filter
	states  []string
	truth   truths
}

// zooms lists the scales of the forest plot.
func zooms() []choice {
	return []choice{
		{"", "fits the data"},
		{"all", "whole intervals"},
		{"5", "±5 points"},
		{"10", "±10 points"},
		{"25", "±25 points"},
		{"50", "±50 points"},
		{"100", "±100 points"},
	}
}

// verdicts lists the groups of verdicts, as advise returns them, and the cautions by counts.
func verdicts() []choice {
	return []choice{
		{"", "any"},
		{"helps", "helps"},
		{"harms", "harms"},
		{"none", "no material effect"},
		{"open", "still open"},
		{"invalid", "invalid"},
		{"waits", "waits for approval"},
		{"caution", "caution by counts"},
	}
}

// lessonsFilter holds the filters of the query.
type lessonsFilter struct {
	Words, State, Verdict, Zoom, Sort string
	Old                               bool // show older texts, too
}

// lessonsPage shows one page of the filtered and sorted lessons.
func (s *Server) lessonsPage(c echo.Context) error {
	r, err := s.readReport(c)
	if err != nil {
		return err
	}
	v := lessonsView{counted: r, truth: s.options.Truth, filter: lessonsFilter{
		Words: c.QueryParam("q"), State: c.QueryParam("state"), Verdict: c.QueryParam("verdict"),
		Zoom: c.QueryParam("zoom"), Sort: c.QueryParam("sort"), Old: c.QueryParam("old") != "",
	}}
	v.filterAndSort()
	return s.show(c, pageContent{Title: "Lessons", Main: v.html, Live: r.asOf.Old, Counted: r.asOf, Problem: r.problem})
}

// reach returns the selected half-width of the plot in points: 0 fits the effects, -1 fits whole intervals.
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

// filterAndSort sets rows, total and states from the report and the filter.
func (v *lessonsView) filterAndSort() {
	for i := range v.counted.report.Lessons {
		l := &v.counted.report.Lessons[i]
		if isPast(l) && !v.filter.Old {
			continue
		}
		v.total++
		if !slices.Contains(v.states, l.State) {
			v.states = append(v.states, l.State)
		}
		if v.filter.fits(l) {
			v.rows = append(v.rows, l)
		}
	}
	slices.Sort(v.states)
	slices.SortStableFunc(v.rows, order(v.filter.Sort))
}

// isPast reports whether no session gets the row's text any more.
func isPast(l *report.Row) bool {
	return l.State == "edited" || l.State == "removed" || l.State == "shown otherwise"
}

// fits reports whether a row passes the filters of name, state and verdict.
func (f *lessonsFilter) fits(l *report.Row) bool {
	slug := strings.ToLower(l.Slug)
	for word := range strings.FieldsSeq(strings.ToLower(f.Words)) {
		if !strings.Contains(slug, word) {
			return false
		}
	}
	return (f.State == "" || l.State == f.State) && (f.Verdict == "" || advise(l).Group == f.Verdict || f.Verdict == "caution" && cautionByCounts(l))
}

func (v *lessonsView) html(f frame) g.Node {
	return g.Group{
		title("Lessons"),
		filters(
			"/lessons", "Filter lessons", f.clear("q", "verdict", "state", "zoom", "window", "old"),
			hiddenField("tenant", f.Tenant), hiddenField("sort", v.filter.Sort),
			wordField("Name", "q", v.filter.Words, "16", h.Type("search")),
			choiceField("Verdict", "verdict", verdicts(), v.filter.Verdict),
			choiceField("State", "state", anyOf(v.states...), v.filter.State),
			choiceField("Scale", "zoom", zooms(), v.filter.Zoom),
			windowField(f.query.Get("window")),
			tickField("older texts", "old", "1", v.filter.Old),
		),
		g.If(f.page.Problem == "", g.Map(doubts(&v.counted.report), problem)),
		v.list(f),
	}
}

func (v *lessonsView) list(f frame) g.Node {
	switch {
	case len(v.rows) > 0:
		p := f.pageOf(len(v.rows), rowsPerPage)
		t := tableOf(&v.counted.report, v.rows[p.from:p.to], false, v.filter.reach(), v.truth)
		return g.Group{scroll(labelled("Effects of lessons"), t.html(f, true)), p.html(f)}
	case v.total > 0:
		return empty("No lesson matches the filter", h.P(
			g.Text("There "+plural(v.total, "is", "are")+" "+countOf(v.total, "lesson")+". "),
			h.A(h.Href(f.Link("/lessons")), g.Text("Show all lessons.")),
		))
	default:
		return g.Iff(f.page.Problem == "", noLessons)
	}
}
