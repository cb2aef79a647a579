package admin

import (
	"net/http"

	"github.com/labstack/echo/v4"

	"precept/sample"
	"precept/store"
)

// families and qualities are what samples can be chosen by.
func families() []string {
	return []string{sample.IntentResolution, sample.DialogResponse, sample.ErrorCorrection, sample.PlanOptimization}
}

func qualities() []string {
	return []string{sample.Good, sample.Acceptable, sample.Poor, store.Unrated}
}

// sampleQuery reads the filters of a list of samples. family and quality may be given several
// times, or as a list with commas.
func sampleQuery(c echo.Context) (store.SampleQuery, error) {
	p := params{c: c}
	q := store.SampleQuery{
		Filter: sample.Filter{
			Tenant: p.tenant(), From: p.time("since"), To: p.time("until"), Lesson: p.text("lesson"),
		},
		Session: p.text("session"), Agent: p.text("agent"), After: p.text("after"), Limit: p.number("limit"),
	}
	q.Families, q.Quality = p.many("family", families()), p.many("quality", qualities())
	return q, p.err
}

// browseSamples answers what a request asks of the samples, for the page and for programs alike.
func (s *Server) browseSamples(c echo.Context) (store.SampleQuery, store.SampleList, error) {
	q, err := sampleQuery(c)
	if err != nil {
		return q, store.SampleList{}, err
	}
	if s.options.Archive == nil {
		return q, store.SampleList{}, noArchive()
	}
	l, err := s.options.Archive.BrowseSamples(c.Request().Context(), &q)
	if err != nil {
		return q, store.SampleList{}, s.archiveError(c, err)
	}
	return q, l, nil
}

// apiSamples answers GET /api/samples.
func (s *Server) apiSamples(c echo.Context) error {
	_, l, err := s.browseSamples(c)
	if err != nil {
		return err
	}
	return c.JSON(http.StatusOK, l)
}

// apiExport answers GET /api/export with a file: the selection of the samples' page, or the
// sessions that gave it. It is written as it is read; a store that fails in its middle ends the
// connection, so that half a file is not taken for a whole one.
func (s *Server) apiExport(c echo.Context) error {
	q, err := sampleQuery(c)
	if err != nil {
		return err
	}
	p := params{c: c}
	e := Export{Format: p.oneOf("format", ExportFormats()), SampleQuery: q}
	if e.Format == "" {
		e.Format = "mplp"
	}
	switch {
	case p.err != nil:
		return p.err
	case e.Format == "experiment" && !ofDraws(&q):
		return echo.NewHTTPError(http.StatusBadRequest, "draws are chosen by tenant, since, until and lesson: "+
			"leave family, quality, agent and session out for format=experiment")
	case q.After != "":
		return echo.NewHTTPError(http.StatusBadRequest, "an export is whole: leave after out")
	case s.options.Export == nil:
		return noArchive()
	}
	kind, name := "application/x-ndjson", "precept-"+e.Format+".jsonl"
	if e.Format == "parquet" {
		kind, name = "application/vnd.apache.parquet", "precept.parquet"
	}
	w := &late{c: c, kind: kind, name: name}
	err = s.options.Export.Export(c.Request().Context(), w, e)
	switch {
	case err == nil:
		w.begin()
		return nil
	case !c.Response().Committed:
		return s.archiveError(c, err)
	}
	s.log(c).Error("an export broke off", "error", err)
	panic(http.ErrAbortHandler)
}

// ofDraws says that a selection of samples can be one of draws as well.
func ofDraws(q *store.SampleQuery) bool {
	return len(q.Families)+len(q.Quality) == 0 && q.Agent+q.Session == ""
}

// late sends the head of an answer with its first byte: until then a failure can still be told as
// one.
type late struct {
	c          echo.Context
	kind, name string
}

func (l *late) begin() {
	r := l.c.Response()
	if r.Committed {
		return
	}
	r.Header().Set(echo.HeaderContentType, l.kind)
	r.Header().Set(echo.HeaderContentDisposition, `attachment; filename="`+l.name+`"`)
	r.WriteHeader(http.StatusOK)
}

func (l *late) Write(b []byte) (int, error) {
	l.begin()
	return l.c.Response().Write(b)
}
