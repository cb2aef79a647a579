package admin

import (
	"net/url"
	"slices"
	"time"

	"github.com/labstack/echo/v4"

	"precept/report"
)

// overviewView is what the first page shows.
type overviewView struct {
	Tenant, Window string
	Provisional    bool
	Warnings       []string // what makes the table doubtful
	Notes          []string // what it leaves out
	Table          table
	Lessons        int // in all; the table holds the first
	Generated      time.Time
	Definition     string
	Figures        []Figure
}

// overviewRows is how many lessons the first page shows.
const overviewRows = 25

// overview is the first page.
func (s *Server) overview(c echo.Context) error {
	q, err := query(c)
	if err != nil {
		return err
	}
	q.Bands = true
	v := overviewView{Tenant: q.Tenant, Window: c.QueryParam("window"), Provisional: q.Provisional}
	if s.options.Figures != nil {
		v.Figures = s.options.Figures(c.Request().Context())
	}
	r, problem := s.readReport(c, q)
	if problem == "" {
		v.fill(&r, s, s.frame(c, shown{}))
	}
	return s.show(c, shown{Page: "overview", Title: "which lesson helped", Live: true, Problem: problem, Data: v})
}

// fill lays a report out.
func (v *overviewView) fill(r *report.Report, s *Server, f frame) {
	v.Generated, v.Definition, v.Notes = r.GeneratedAt, r.RewardDefinition, leftOut(r)
	if len(r.Lessons) == 0 && r.Global.NTreated+r.Global.NControl == 0 {
		return
	}
	v.Warnings = doubts(r)
	rows := make([]*report.Row, 0, len(r.Lessons))
	for i := range r.Lessons {
		rows = append(rows, &r.Lessons[i])
	}
	slices.SortStableFunc(rows, byEffect)
	v.Lessons = len(rows)
	v.Table = tableOf(r, rows[:min(len(rows), overviewRows)], true, 0, s.options.Truth, func(slug string) string { return f.Link("/lessons/" + url.PathEscape(slug)) })
}
