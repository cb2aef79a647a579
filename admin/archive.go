package admin

import (
	"context"
	"errors"
	"io"
	"net/http"

	"github.com/labstack/echo/v4"

	"precept/feedback"
	names "precept/session"
	"precept/store"
)

// Archive is what is kept of sessions and samples. Each question looks at a bounded part of it.
type Archive interface {
	Browse(ctx context.Context, q store.SessionQuery) (store.SessionList, error)
	Transcript(ctx context.Context, tenant, name string, from int) (store.Transcript, error)
	Block(ctx context.Context, tenant, name, slug string) (string, error)
	BrowseSamples(ctx context.Context, q *store.SampleQuery) (store.SampleList, error)
}

// Rater takes a feedback in, whoever's session it is.
type Rater interface {
	Rate(ctx context.Context, tenant string, p feedback.Post) (store.Posted, error)
}

// Export says what an export holds.
type Export struct {
	Format string // one of ExportFormats
	store.SampleQuery
}

// ExportFormats are those of precept export.
func ExportFormats() []string {
	return []string{"mplp", "openai", "preference", "experiment", "parquet"}
}

// Exporter writes a selection of what was learned.
type Exporter interface {
	Export(ctx context.Context, w io.Writer, e Export) error
}

// noArchive is the answer where nothing is kept.
func noArchive() error {
	return echo.NewHTTPError(http.StatusServiceUnavailable,
		"nothing is kept here: precept runs without a store")
}

// archiveError tells a failed question in the words of the person who asked it.
func (s *Server) archiveError(c echo.Context, err error) error {
	switch {
	case errors.Is(err, context.Canceled):
		return err
	case errors.Is(err, names.ErrPlace):
		return echo.NewHTTPError(http.StatusBadRequest,
			"after: this is no place in the list; take it from the answer before, or leave it out")
	case errors.Is(err, store.ErrNoSession):
		return echo.NewHTTPError(http.StatusNotFound, "nothing is kept of this session: "+
			"it is unknown, forgotten, opted out, or its first turn is not stored yet")
	}
	if advice, ok := store.NoRoom(err); ok {
		return echo.NewHTTPError(http.StatusTooManyRequests, advice)
	}
	s.log(c).Error("the store could not be read for the dashboard", "error", err)
	return echo.NewHTTPError(http.StatusServiceUnavailable, "the store cannot be read right now; "+
		"requests are not affected. Try again, and see the log if it stays so")
}
