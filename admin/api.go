package admin

import (
	_ "embed" // for openapi.yaml
	"errors"
	"net/http"
	"time"

	"github.com/labstack/echo/v4"
)

// openAPIDocument describes both listeners. Tests compare it with routes and responses.
//
//go:embed openapi.yaml
var openAPIDocument []byte //nolint:gochecknoglobals // embedded, never written

func serveOpenAPI(c echo.Context) error {
	return c.Blob(http.StatusOK, "application/yaml", openAPIDocument)
}

// sendJSON sends value as JSON. If err is not nil, sendJSON returns err, and echo passes err to Server.handleError,
// which sends the response. For errComputing, sendJSON also sets Retry-After.
func sendJSON(c echo.Context, value any, err error) error {
	if err != nil {
		if errors.Is(err, errComputing) {
			c.Response().Header().Set("Retry-After", "5")
		}
		return err
	}
	return c.JSON(http.StatusOK, value)
}

// apiReport computes a new report for each request, unlike pages, which share reports.
func (s *Server) apiReport(c echo.Context) error {
	q, err := reportQuery(c)
	if err != nil {
		return err
	}
	r, err := s.options.Read.Report.Report(c.Request().Context(), q)
	return sendJSON(c, r, err)
}

// maxCountWait is how long GET /api/sessions waits for the total, or for a list that is sorted by cost or duration.
const maxCountWait = 2 * time.Second

func (s *Server) apiSessions(c echo.Context) error {
	q, err := s.sessionQuery(c)
	if err != nil {
		return err
	}
	l, err := s.browse(c, &q, c.QueryParam("order"), maxCountWait)
	return sendJSON(c, l, err)
}

func (s *Server) apiSession(c echo.Context) error {
	t, err := s.transcript(c)
	return sendJSON(c, t, err)
}

func (s *Server) apiSamples(c echo.Context) error {
	_, l, err := s.browseSamples(c)
	return sendJSON(c, l, err)
}

func (s *Server) apiHealth(c echo.Context) error { return sendJSON(c, s.health(c), nil) }

// apiExport streams the selected samples or, with format=experiment, the random assignments. If the store fails after
// the first byte, the connection is aborted, so that the client notices that the file is incomplete.
func (s *Server) apiExport(c echo.Context) error {
	p := params{c: c}
	q := sampleQuery(&p, s.options.Now())
	e := Export{Format: p.oneOf("format", ExportFormats()), SampleQuery: *q}
	if e.Format == "" {
		e.Format = "mplp"
	}
	switch {
	case p.err != nil:
		return p.err
	case e.Format == "experiment" && !appliesToExperiment(q):
		return echo.NewHTTPError(http.StatusBadRequest, "format=experiment has only the filters tenant, lesson and time: "+
			"omit family, quality, agent and session")
	case q.After != "":
		return echo.NewHTTPError(http.StatusBadRequest, "an export has no pages: omit after")
	}
	kind, name := "application/x-ndjson", "precept-"+e.Format+".jsonl"
	if e.Format == "parquet" {
		kind, name = "application/vnd.apache.parquet", "precept.parquet"
	}
	w := &lateHeader{c.Response(), kind, name}
	switch err := s.options.Read.Export.Export(c.Request().Context(), w, e); {
	case err == nil:
		w.start()
		return nil
	case !c.Response().Committed:
		return storeError(err)
	default:
		s.log(c).Error("an export broke off; the downloaded file is incomplete", "error", err)
		panic(http.ErrAbortHandler)
	}
}

// lateHeader sends the response header with the first body byte, so that an error before the first byte gets the
// right status.
type lateHeader struct {
	*echo.Response
	contentType, fileName string
}

func (l *lateHeader) start() {
	if !l.Committed {
		l.Header().Set(echo.HeaderContentType, l.contentType)
		l.Header().Set(echo.HeaderContentDisposition, `attachment; filename="`+l.fileName+`"`)
		l.WriteHeader(http.StatusOK)
	}
}

func (l *lateHeader) Write(b []byte) (int, error) {
	l.start()
	return l.Response.Write(b)
}
