package admin

import (
	"context"
	"errors"
	"io"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

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
	return echo.NewHTTPError(http.StatusServiceUnavailable, "nothing is kept here: precept runs without a store")
}

// archiveError tells a failed question in the words of the person who asked it.
func (s *Server) archiveError(c echo.Context, err error) error {
	switch {
	case errors.Is(err, names.ErrPlace):
		return echo.NewHTTPError(http.StatusBadRequest, "after: this is no place in the list; take it from the answer before, or leave it out")
	case errors.Is(err, store.ErrNoSession):
		return echo.NewHTTPError(http.StatusNotFound, "nothing is kept of this session: it is unknown, forgotten, opted out, or its first turn is not stored yet")
	case errors.Is(err, context.Canceled):
		return err
	}
	if advice, ok := store.NoRoom(err); ok {
		return echo.NewHTTPError(http.StatusTooManyRequests, advice)
	}
	if s.options.Log != nil {
		s.log(c).Error("the store could not be read for the dashboard", "error", err)
	}
	return echo.NewHTTPError(http.StatusServiceUnavailable, "the store cannot be read right now; requests are not affected. Try again, and see the log if it stays so")
}

// params reads the query of a list, and keeps the first fault.
type params struct {
	c   echo.Context
	err error
}

func (p *params) fault(name, text string) {
	if p.err == nil {
		p.err = echo.NewHTTPError(http.StatusBadRequest, name+": "+text)
	}
}

// longest is the most that a parameter may have, in bytes.
const longest = 256

func (p *params) text(name string) string {
	t := p.c.QueryParam(name)
	if len(t) > longest {
		p.fault(name, "it is longer than 256 bytes")
		return ""
	}
	return t
}

func (p *params) tenant() string {
	if t := p.text("tenant"); t != "" {
		return t
	}
	return "default"
}

func (p *params) number(name string) int {
	t := p.c.QueryParam(name)
	if t == "" {
		return 0
	}
	n, err := strconv.Atoi(t)
	if err != nil || n < 0 {
		p.fault(name, "it is a whole number, 0 or more")
	}
	return n
}

func (p *params) share(name string) *float64 {
	t := p.c.QueryParam(name)
	if t == "" {
		return nil
	}
	x, err := strconv.ParseFloat(t, 64)
	if err != nil || !(x >= 0 && x <= 1) {
		p.fault(name, "it is a number from 0 to 1")
		return nil
	}
	return &x
}

func (p *params) yes(name string) bool {
	t := p.c.QueryParam(name)
	if t == "" {
		return false
	}
	b, err := strconv.ParseBool(t)
	if err != nil {
		p.fault(name, "it is true or false")
	}
	return b
}

// time reads a day, a day with minutes as a browser's field has it (UTC), or RFC 3339.
func (p *params) time(name string) time.Time {
	t := p.c.QueryParam(name)
	if t == "" {
		return time.Time{}
	}
	for _, layout := range []string{time.DateOnly, "2006-01-02T15:04", time.RFC3339} {
		if at, err := time.Parse(layout, t); err == nil {
			return at
		}
	}
	p.fault(name, "it is a time such as 2026-01-31 or 2026-01-31T12:00:00Z")
	return time.Time{}
}

// oneOf reads a word out of a list.
func (p *params) oneOf(name string, words []string) string {
	t := p.c.QueryParam(name)
	if t == "" {
		return ""
	}
	if slices.Contains(words, t) {
		return t
	}
	p.fault(name, "it is one of "+list(words))
	return ""
}

func list(words []string) string {
	last := len(words) - 1
	return strings.Join(words[:last], ", ") + " or " + words[last]
}
