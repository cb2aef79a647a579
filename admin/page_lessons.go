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

type lessonsView struct {
	pageReport  pageReport
	filter      lessonsFilter
	rows        []*report.Row // filtered and sorted
	total       int           // rows before the filter
	states      []string
	trueEffects trueEffects
}

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

// verdicts returns the choices for the verdict filter. The choice "open" is listed only if it is selected, because only
// older links contain it.
func verdicts(chosen string) []choice {
	list := []choice{
		{"", "any"},
		{"helps", "helps, also proven"},
		{"harms", "harms, also proven"},
		{string(report.LikelyHelps), string(report.LikelyHelps)},
		{string(report.LikelyHarms), string(report.LikelyHarms)},
		{"none", string(report.NoEffect)},
		{string(report.Unproven), string(report.Unproven)},
		{string(report.Benched), string(report.Benched)},
		{"invalid", string(report.Invalid)},
		{"waits", "waits for approval"},
		{"paused", "paused"},
		{"caution", "became a caution"},
	}
	if chosen == "open" {
		list = append(list, choice{"open", "unproven, benched or likely"})
	}
	return list
}

type lessonsFilter struct {
	Words, State, Verdict, Zoom, Sort string
	Old                               bool // show older texts, too
}

func (s *Server) lessonsPage(c echo.Context) error {
	r, err := s.readReport(c)
	if err != nil {
		return err
	}
	v := lessonsView{pageReport: r, trueEffects: s.options.TrueEffect, filter: lessonsFilter{
		Words: c.QueryParam("q"), State: c.QueryParam("state"), Verdict: c.QueryParam("verdict"),
		Zoom: c.QueryParam("zoom"), Sort: c.QueryParam("sort"), Old: c.QueryParam("old") != "",
	}}
	v.filterAndSort()
	return s.show(c, pageContent{Title: "Lessons", Main: v.html, Live: r.asOf.Old, Counted: r.asOf, Problem: r.problem})
}

// plotZoom returns the zoom for fitAxis: the half-width in points, 0 to fit effects, -1 to fit intervals.
func (f lessonsFilter) plotZoom() float64 {
	if f.Zoom == "all" {
		return -1
	}
	x, err := strconv.ParseFloat(f.Zoom, 64)
	if err != nil || !(x >= 1 && x <= 100) {
		return 0
	}
	return x
}

func (v *lessonsView) filterAndSort() {
	for i := range v.pageReport.report.Lessons {
		l := &v.pageReport.report.Lessons[i]
		if isPast(l) && !v.filter.Old {
			continue
		}
		v.total++
		if state := rowState(l); !slices.Contains(v.states, state) {
			v.states = append(v.states, state)
		}
		if v.filter.matches(l) {
			v.rows = append(v.rows, l)
		}
	}
	slices.Sort(v.states)
	slices.SortStableFunc(v.rows, rowOrder(v.filter.Sort))
}

// isPast reports whether no session gets the row's text any more.
func isPast(l *report.Row) bool {
	return l.State == "edited" || l.State == "removed" || l.State == "shown otherwise"
}

// matches reports whether a row passes the filters. The slug must contain every word in the name filter.
func (f *lessonsFilter) matches(l *report.Row) bool {
	slug := strings.ToLower(l.Slug)
	for word := range strings.FieldsSeq(strings.ToLower(f.Words)) {
		if !strings.Contains(slug, word) {
			return false
		}
	}
	if f.State != "" && f.State != rowState(l) {
		return false
	}
	a := advise(l)
	return f.Verdict == "" || f.Verdict == a.Group || f.Verdict == a.Words || f.Verdict == "caution" && isCautionByCounts(l)
}

func (v *lessonsView) html(f frame) g.Node {
	return g.Group{
		title("Lessons"),
		filterForm(
			"/lessons", "Filter lessons", f.withoutFilters("q", "verdict", "state", "zoom", "window", "old", "provisional"),
			hiddenField("tenant", f.Tenant), hiddenQueryFields(f, "sort"),
			textField("Name", "q", v.filter.Words, "16", h.Type("search")),
			choiceField("Verdict", "verdict", verdicts(v.filter.Verdict), v.filter.Verdict),
			choiceField("State", "state", choicesWithAny(v.states...), v.filter.State),
			choiceField("Scale", "zoom", zooms(), v.filter.Zoom),
			windowField(f.query.Get("window")),
			checkboxField("older texts", "old", "1", v.filter.Old),
			checkboxField("with open sessions", "provisional", "true", v.pageReport.key.Provisional),
		),
		g.If(f.page.Problem == "", g.Map(reportWarnings(&v.pageReport.report), problem)),
		v.list(f),
	}
}

func (v *lessonsView) list(f frame) g.Node {
	switch {
	case len(v.rows) > 0:
		p := f.pager(len(v.rows), rowsPerPage)
		t := newEffectTable(&v.pageReport.report, v.rows[p.from:p.to], false, v.filter.plotZoom(), v.trueEffects)
		return g.Group{scrollRegion(ariaLabel("Lesson effects"), t.html(f, true)), p.html(f)}
	case v.total > 0:
		return emptyState("No lesson matches the filter", h.P(
			g.Text("There "+plural(v.total, "is", "are")+" "+countNoun(v.total, "lesson")+". "),
			h.A(h.Href(f.withoutFilters("q", "verdict", "state")), g.Text("Show all lessons.")),
		))
	default:
		return g.Iff(f.page.Problem == "", noLessons)
	}
}
