package admin

import (
	"net/http"
	"slices"
	"strings"

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
		Filter:  sample.Filter{Tenant: p.tenant(), From: p.time("since"), To: p.time("until"), Lesson: p.text("lesson")},
		Session: p.text("session"), Agent: p.text("agent"), After: p.text("after"), Limit: p.number("limit"),
	}
	q.Families = p.many("family", families())
	q.Quality = p.many("quality", qualities())
	return q, p.err
}

// many reads several words out of a list.
func (p *params) many(name string, words []string) []string {
	var out []string
	for _, t := range p.c.QueryParams()[name] {
		for w := range strings.SplitSeq(t, ",") {
			if w = strings.TrimSpace(w); w == "" {
				continue
			}
			if !slices.Contains(words, w) {
				p.fault(name, "it is one of "+list(words))
				return nil
			}
			out = append(out, w)
		}
	}
	return out
}

// apiSamples answers GET /api/samples.
func (s *Server) apiSamples(c echo.Context) error {
	q, err := sampleQuery(c)
	if err != nil {
		return err
	}
	if s.options.Archive == nil {
		return noArchive()
	}
	l, err := s.options.Archive.BrowseSamples(c.Request().Context(), &q)
	if err != nil {
		return s.archiveError(c, err)
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
		return echo.NewHTTPError(http.StatusBadRequest, "draws are chosen by tenant, since, until and lesson: leave family, quality, agent and session out for format=experiment")
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
		return w.begin()
	case !w.begun:
		return s.archiveError(c, err)
	}
	if s.options.Log != nil {
		s.log(c).Error("an export broke off", "error", err)
	}
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
	begun      bool
}

func (l *late) begin() error {
	if l.begun {
		return nil
	}
	l.begun = true
	h := l.c.Response().Header()
	h.Set(echo.HeaderContentType, l.kind)
	h.Set(echo.HeaderContentDisposition, `attachment; filename="`+l.name+`"`)
	l.c.Response().WriteHeader(http.StatusOK)
	return nil
}

func (l *late) Write(b []byte) (int, error) {
	if err := l.begin(); err != nil {
		return 0, err
	}
	return l.c.Response().Write(b)
}
