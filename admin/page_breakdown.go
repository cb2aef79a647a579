package admin

import (
	"cmp"
	"errors"
	"slices"
	"time"

	"github.com/labstack/echo/v4"
	g "maragu.dev/gomponents"
	h "maragu.dev/gomponents/html"

	"precept/bandit/report"
	"precept/store"
)

// breakdownView shows lessons' effects in parts of the sessions, for example by model.
type breakdownView struct {
	by          choice
	survey      *report.Survey
	reading     bool          // sessions are being read, and no earlier survey has enough data for a cell
	cells       []report.Cell // with enough data
	sparseCells int           // with too little data
}

// dimensions returns the properties that divide the sessions.
func dimensions() []choice {
	return []choice{{report.ByAgent, "Agent"}, {report.ByModel, "Model"}, {report.ByLength, "Task length"}}
}

// lengths describes the length classes for a session's first message.
func lengths() map[string]string {
	return map[string]string{
		"s": "under 100 bytes", "m": "100 to 500 bytes", "l": "500 to 4,000 bytes", "xl": "4,000 bytes and more",
	}
}

func (s *Server) breakdown(c echo.Context) error {
	q, err := reportQuery(c)
	if err != nil {
		return err
	}
	v := breakdownView{by: dimensions()[0]}
	if i := slices.IndexFunc(dimensions(), func(w choice) bool { return w.Key == c.QueryParam("by") }); i > 0 {
		v.by = dimensions()[i]
	}
	survey, old, err := s.surveys.get(c.Request().Context(), q.Tenant, maxPageWait)
	page := pageContent{Title: "Breakdown", Main: v.html, Live: old}
	switch v.reading = errors.Is(err, errComputing); {
	case v.reading:
	case err != nil:
		s.log(c).Error("the stored sessions cannot be read for the breakdown; to check the store, run `precept doctor`", "tenant", q.Tenant, "error", err)
		page.Live, page.Problem = false, "The stored sessions cannot be read; the log has the reason. "+
			"Requests are not affected."
	default:
		v.survey, page.Counted = survey, countedAt{survey.Made, old}
		all, _ := survey.Cells(v.by.Key)
		v.cells = slices.DeleteFunc(slices.Clone(all), func(x report.Cell) bool { return !x.HasEffect })
		v.sparseCells = len(all) - len(v.cells)
		v.reading = old && len(v.cells) == 0 // the newer survey can have cells
	}
	return s.show(c, page)
}

func (v *breakdownView) html(f frame) g.Node {
	return g.Group{
		title("Breakdown", h.Nav(h.Class("ways"), ariaLabel("Break down by"), g.Map(dimensions(), func(w choice) g.Node {
			return h.A(h.Href(f.Link("/breakdown", "by", w.Key)), g.If(w == v.by, h.Aria("current", "true")), g.Text(w.Name))
		}))),
		v.list(f),
	}
}

func (v *breakdownView) list(f frame) g.Node {
	switch {
	case len(v.cells) > 0:
		p := f.pager(len(v.cells), rowsPerPage)
		return g.Group{
			h.P(h.Class("warning"), g.Textf("Exploratory. Lessons are withheld at random from all sessions together, so an effect in a subset is a hint, not a verdict. Effects are moved towards the lesson's mean, and intervals are widened for the %s cells on the page.", countText(len(v.cells)))),
			scrollRegion(ariaLabel("Effects by "+v.by.Name), v.table(f, v.cells[p.from:p.to])), p.html(f),
		}
	case v.reading:
		return emptyState("The stored sessions are being read", h.P(g.Text(
			"The first time takes a few seconds. The table then appears here.")))
	default:
		return g.Iff(f.page.Problem == "", v.sparseDataNote)
	}
}

// storedCounts returns the number of sessions read and the earliest date.
func (v *breakdownView) storedCounts() (sessions, since string) {
	return countText(v.survey.Sessions), v.survey.Since.UTC().Format(time.DateOnly)
}

func (v *breakdownView) table(f frame, cells []report.Cell) g.Node {
	effects := make([]*effect, len(cells))
	for i, x := range cells {
		effects[i] = &effect{x.Shrunken, x.Lo, x.Hi}
	}
	axis := fitAxis(effects, nil, 0)
	unit := func(name string) g.Node { return smallLine(g.Text(name)) }
	sessions, since := v.storedCounts()
	rows := make(g.Group, len(cells))
	for i := range cells {
		rows[i] = v.row(f, &cells[i], axis, effects[i])
	}
	return h.Table(
		h.Class("effects cards"),
		h.Caption(
			g.Text("From "+sessions+" closed sessions with a reward since "+since),
			g.If(!v.survey.Complete, g.Text(", the newest within the time limit")), g.Text("."),
			g.If(v.sparseCells > 0, g.Textf(
				" Cells that are not shown, because they have too little data (under 50 sessions, or under 10 in an arm): %d.", v.sparseCells)),
		),
		headingRow(
			wordColumns(v.by.Name, "Lesson"), numberColumn(termButton("exploratory"), unit("points")),
			axis.head("Forest plot"), numberColumn(termButton("corrected"), unit("points")), numberColumn(g.Text("As measured"), unit("points")),
			numberColumn(termButton("injected"), unit("sessions")), numberColumn(termButton("withheld"), unit("sessions")),
		),
		h.TBody(rows),
	)
}

// row returns the effect of a lesson, or of all lessons, in one part of the sessions.
func (v *breakdownView) row(f frame, x *report.Cell, axis axis, e *effect) g.Node {
	part := cmp.Or(x.Value, "unknown")
	if v.by.Key == report.ByLength {
		part = cmp.Or(lengths()[part], part)
	}
	lesson := h.A(h.Href(f.lessonHref(x.Slug)), untrustedText(x.Slug))
	if x.Slug == "" {
		lesson = g.Text("all together, against control")
	}
	side := func(n int64, arm string) g.Node {
		if x.Value == "" { // the sessions page cannot filter by unknown
			return g.Text(countText(n))
		}
		return f.armLink(n, x.Slug, arm, v.by.Key, x.Value)
	}
	return h.Tr(
		g.If(x.Slug == "", h.Class("all")),
		rowHead(h.Class("name"), untrustedText(part)),
		h.Td(h.Class("text wrap"), lesson),
		cell("Shrunken effect, points", h.Class("effect "+e.tone()), g.Text(e.points())),
		axis.cell(e, nil),
		cell("Corrected interval, points", g.Text(e.interval())),
		cell("As measured, points", g.Text(points(&x.Effect))),
		cell("Injected, sessions", side(x.Injected, ifElse(x.Slug == "", store.FateTreated, store.FateInjected))),
		cell("Withheld, sessions", side(x.Withheld, ifElse(x.Slug == "", store.FateControl, store.FateWithheld))),
	)
}

func (v *breakdownView) sparseDataNote() g.Node {
	sessions, since := v.storedCounts()
	text := "A cell needs 50 closed sessions with a reward, at least 10 injected and 10 withheld. " + sessions + " closed sessions with a reward are stored since " + since
	if v.sparseCells > 0 {
		text += "; " + countNoun(v.sparseCells, "cell") + plural(v.sparseCells, " has", " have") + " too few of them"
	}
	return emptyState(
		"Too little data in each part",
		h.P(g.Text(text+".")),
		h.P(
			g.Text("Agents are distinguished by "), code("Precept-Agent"), g.Text(", the path form "),
			code("/p/agent=NAME/v1"), g.Text(", or the User-Agent."),
		),
	)
}
