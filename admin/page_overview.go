package admin

import "github.com/labstack/echo/v4"

// overview is the first page: the effect table.
func (s *Server) overview(c echo.Context) error {
	q, err := query(c)
	if err != nil {
		return err
	}
	v := view{Tenant: q.Tenant, Window: c.QueryParam("window"), Provisional: q.Provisional}
	if s.options.Figures != nil {
		v.Figures = s.options.Figures(c.Request().Context())
	}
	r, problem := s.readReport(c, q)
	if problem == "" {
		v.fill(r, s.options.Truth)
	}
	return s.show(c, shown{Page: "overview", Title: "which lesson helped", Live: true, Problem: problem, Data: v})
}
