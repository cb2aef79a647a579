package admin

import (
	"errors"
	"time"

	"github.com/labstack/echo/v4"

	"precept/report"
)

// breakdownView is what lessons do in parts of the sessions.
type breakdownView struct {
	By, Name        string
	Ways            []zoom
	Rows            []breakdownRow
	Ticks           []tick
	Looks           int
	Thin            int // cells with too little data
	Sessions, Since string
	Whole           bool
	Reading         bool // the sessions are being read for the first time
	Pager           pager
}

// breakdownRow is one cell that may be shown.
type breakdownRow struct {
	Value, Lesson, Href        string
	All                        bool
	Shrunken, Effect, Interval string
	Injected, Withheld, Tone   string
	Plot                       *plot
}

// ways are what the sessions can be parted by.
func ways() []zoom {
	return []zoom{{report.OfAgent, "Agent"}, {report.OfModel, "Model"}, {report.OfLength, "Length of the task"}}
}

// lengths are the words for the bands of the first message's length.
func lengths(band string) string {
	switch band {
	case "s":
		return "under 100 bytes"
	case "m":
		return "100 to 500 bytes"
	case "l":
		return "500 to 4,000 bytes"
	case "xl":
		return "4,000 bytes and more"
	}
	return band
}

// breakdown shows effects by agent, model or length of the task.
func (s *Server) breakdown(c echo.Context) error {
	q, err := query(c)
	if err != nil {
		return err
	}
	v := breakdownView{By: report.OfAgent, Name: "Agent", Ways: ways()}
	for _, w := range v.Ways {
		if c.QueryParam("by") == w.Key {
			v.By, v.Name = w.Key, w.Name
		}
	}
	survey, old, err := s.surveys.get(c.Request().Context(), q.Tenant, patience)
	if errors.Is(err, errBeingMade) {
		v.Reading = true
		return s.show(c, shown{Title: "Breakdown", Main: v.html, Live: true})
	}
	if err != nil {
		if s.options.Log != nil {
			s.log(c).Error("survey failed", "tenant", q.Tenant, "error", err)
		}
		return s.show(c, shown{Title: "Breakdown", Main: v.html, Problem: "The stored sessions cannot be read right now; the log says why. Requests are not affected."})
	}
	v.Sessions, v.Since, v.Whole = count(survey.Sessions), survey.Since.UTC().Format(time.DateOnly), survey.Whole
	v.fill(survey, s.frame(c, shown{}))
	return s.show(c, shown{Title: "Breakdown", Main: v.html, Live: old, Counted: counted{survey.Made, old}})
}

// fill lays the cells out that have enough data.
func (v *breakdownView) fill(survey *report.Survey, f frame) {
	cells, looks := survey.Cells(v.By)
	v.Looks = looks
	var kept []report.Cell
	for _, x := range cells {
		if x.Enough {
			kept = append(kept, x)
		}
	}
	v.Thin = len(cells) - len(kept)
	var from, to int
	v.Pager, from, to = f.pageOf(len(kept), rowsPerPage)
	kept = kept[from:to]
	spans := make([]span, 0, len(kept))
	for _, x := range kept {
		spans = append(spans, span{x.Lo, x.Shrunken, x.Hi})
	}
	a := fit(spans, nil, 0)
	v.Ticks = a.Ticks()
	for _, x := range kept {
		row := breakdownRow{
			Value: x.Value, Lesson: x.Slug, Href: f.lesson(x.Slug), All: x.Slug == "",
			Shrunken: points(&x.Shrunken), Effect: points(&x.Effect), Interval: points(&x.Lo) + " to " + points(&x.Hi),
			Injected: count(x.Injected), Withheld: count(x.Withheld), Tone: tone(&x.Lo, &x.Hi), Plot: a.plot(v.Ticks, &x.Shrunken, &x.Lo, &x.Hi, nil),
		}
		if v.By == report.OfLength {
			row.Value = lengths(x.Value)
		}
		if row.Value == "" {
			row.Value = "unknown"
		}
		v.Rows = append(v.Rows, row)
	}
}
