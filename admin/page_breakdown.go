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
	Cells           []report.Cell // those of the page that have enough data
	Axis            axis
	Looks           int
	Thin            int // cells with too little data
	Sessions, Since string
	Whole           bool
	Reading         bool // the sessions are being read for the first time
	Pager           pager
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
	v := breakdownView{By: report.OfAgent, Name: "Agent"}
	for _, w := range ways() {
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
	v.Cells = kept[from:to]
	spans := make([]span, 0, len(v.Cells))
	for _, x := range v.Cells {
		spans = append(spans, span{x.Lo, x.Shrunken, x.Hi})
	}
	v.Axis = fit(spans, nil, 0)
}
