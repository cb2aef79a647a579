package admin

import (
	"cmp"
	"slices"
	"strconv"
	"strings"

	"github.com/labstack/echo/v4"
	g "maragu.dev/gomponents"
	h "maragu.dev/gomponents/html"

	"precept/report"
)

// lessonsView is what the page of all lessons shows.
type lessonsView struct {
	filter lessonsFilter
	report report.Report
	rows   []*report.Row // what the filter leaves, in order
	total  int           // before the filter
	states []string
	truth  func(string) (float64, bool)
}

// zoom is a choice of a list: a scale of the forest plot, or a group of verdicts.
type zoom struct{ Key, Name string }

// zooms are the scales: fitted, everything, or so many points on both sides of 0.
func zooms() []zoom {
	return []zoom{
		{"", "fits the data"},
		{"all", "whole intervals"},
		{"5", "±5 points"},
		{"10", "±10 points"},
		{"25", "±25 points"},
		{"50", "±50 points"},
		{"100", "±100 points"},
	}
}

// verdicts are the groups that advise gives.
func verdicts() []zoom {
	return []zoom{
		{"helps", "helps"},
		{"harms", "harms"},
		{"none", "no material effect"},
		{"open", "still open"},
		{"invalid", "invalid"},
		{"waits", "waits for approval"},
	}
}

// lessonsFilter is what the query asks for.
type lessonsFilter struct {
	Words, State, Verdict, Zoom, Sort string
	Old                               bool
}

// lessonsPage shows the lessons: filtered, sorted, a page of them.
func (s *Server) lessonsPage(c echo.Context) error {
	q, err := query(c)
	if err != nil {
		return err
	}
	r, at, problem := s.readReport(c, q)
	v := lessonsView{report: r, truth: s.options.Truth, filter: lessonsFilter{
		Words: c.QueryParam("q"), State: c.QueryParam("state"), Verdict: c.QueryParam("verdict"),
		Zoom: c.QueryParam("zoom"), Sort: c.QueryParam("sort"), Old: c.QueryParam("old") != "",
	}}
	v.choose()
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
func (v *lessonsView) choose() {
	for i := range v.report.Lessons {
		l := &v.report.Lessons[i]
		if past(l) && !v.filter.Old {
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

// past says that a row is of a text that no session gets any more.
func past(l *report.Row) bool {
	return l.State == "edited" || l.State == "removed" || l.State == "shown otherwise"
}

func (f *lessonsFilter) fits(l *report.Row) bool {
	slug := strings.ToLower(l.Slug)
	for word := range strings.FieldsSeq(strings.ToLower(f.Words)) {
		if !strings.Contains(slug, word) {
			return false
		}
	}
	return (f.State == "" || l.State == f.State) && (f.Verdict == "" || advise(l).Group == f.Verdict)
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
				return cmp.Or(
					unknownLast(x, y), cmp.Compare(value(x.Effect), value(y.Effect)), strings.Compare(x.Slug, y.Slug),
				)
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

func (v *lessonsView) html(f frame) g.Node {
	return g.Group{
		title("Lessons", v.form(f)),
		g.If(f.Problem == "", g.Map(doubts(&v.report), problem)),
		v.list(f),
	}
}

func (v *lessonsView) form(f frame) g.Node {
	choose := func(name, key, chosen string, first g.Node, choices []zoom) g.Node {
		return h.Label(g.Text(name+" "), h.Select(
			h.Name(key), first,
			g.Map(choices, func(z zoom) g.Node { return option(z.Key, z.Name, z.Key == chosen) }),
		))
	}
	anyOne := option("", "any", false)
	states := make([]zoom, 0, len(v.states))
	for _, s := range v.states {
		states = append(states, zoom{s, s})
	}
	return h.Form(
		h.Method("get"), h.Action("/lessons"), h.Role("search"),
		hiddenField("tenant", f.Tenant), hiddenField("sort", v.filter.Sort),
		h.Label(g.Text("Name "), h.Input(
			h.Type("search"), h.Name("q"), h.Value(v.filter.Words), h.MaxLength("256"), g.Attr("size", "14"),
		)),
		choose("Verdict", "verdict", v.filter.Verdict, anyOne, verdicts()),
		choose("State", "state", v.filter.State, anyOne, states),
		choose("Scale", "zoom", v.filter.Zoom, nil, zooms()),
		windowField(f.query.Get("window")),
		tickField("older texts", "old", "1", v.filter.Old),
		h.Button(g.Text("Show")),
	)
}

func (v *lessonsView) list(f frame) g.Node {
	switch {
	case len(v.rows) > 0:
		p := f.pageOf(len(v.rows), rowsPerPage)
		t := tableOf(&v.report, v.rows[p.from:p.to], false, v.filter.reach(), v.truth)
		return g.Group{scroll(labelled("Effects of lessons"), t.html(f, true)), p.html(f)}
	case v.total > 0:
		return empty("No lesson fits the filter", h.P(
			g.Text("There "+plural(v.total, "is", "are")+" "+things(v.total, "lesson")+". "),
			h.A(h.Href(f.Link("/lessons")), g.Text("Show all of them.")),
		))
	case f.Problem != "":
		return nil
	default:
		return noLessons()
	}
}
