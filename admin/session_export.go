package admin

import (
	"encoding/csv"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/labstack/echo/v4"

	"precept/store"
)

func sessionFormats() []string { return []string{"jsonl", "csv", "transcripts"} }

// apiExportSessions sends all selected sessions, read in steps of MaxRows. A store failure after the first byte aborts
// the connection, as in apiExport.
func (s *Server) apiExportSessions(c echo.Context) error {
	q, err := s.sessionQuery(c)
	if err != nil {
		return err
	}
	p := params{c: c}
	format := p.oneOf("format", sessionFormats())
	switch {
	case p.err != nil:
		return p.err
	case c.QueryParam("order") != "" && !slices.Contains(startOrders(), c.QueryParam("order")):
		return echo.NewHTTPError(http.StatusBadRequest, "order: an export has only the orders newest and oldest, because the whole store has no other order")
	case q.After != "" || q.Limit != 0:
		return echo.NewHTTPError(http.StatusBadRequest, "an export has no pages; omit the parameters `after` and `limit`")
	}
	q.Limit = store.MaxRows
	w := &lateHeader{c.Response(), "application/x-ndjson", "precept-sessions.jsonl"}
	write := s.writeSessions(c, w, format)
	if format == "csv" {
		w.contentType, w.fileName = "text/csv; charset=utf-8", "precept-sessions.csv"
	}
	for {
		l, err := s.options.Read.Archive.Browse(c.Request().Context(), q)
		s.setCosts(l.Sessions)
		if err == nil {
			err = write(l.Sessions)
		}
		switch {
		case err != nil && !c.Response().Committed:
			return storeError(err)
		case err != nil:
			s.log(c).Error("an export broke off; the downloaded file is incomplete", "error", err)
			panic(http.ErrAbortHandler)
		case l.Next == "" || q.Session != "":
			w.start()
			return nil
		}
		q.After = l.Next
	}
}

// writeSessions returns a function that writes sessions to w. For csv, the first call also writes the column names.
func (s *Server) writeSessions(c echo.Context, w io.Writer, format string) func(list []store.SessionItem) error {
	lines, table, hasHead := json.NewEncoder(w), csv.NewWriter(w), false
	switch format {
	case "csv":
		return func(list []store.SessionItem) error {
			if !hasHead {
				hasHead = true
				_ = table.Write(csvHead()) // table.Error below returns the error
			}
			for i := range list {
				_ = table.Write(csvRow(&list[i]))
			}
			table.Flush()
			return table.Error()
		}
	case "transcripts":
		return func(list []store.SessionItem) error {
			for i := range list {
				if err := s.writeTranscript(c, lines, &list[i]); err != nil {
					return err
				}
			}
			return nil
		}
	default:
		return func(list []store.SessionItem) error {
			for i := range list {
				if err := lines.Encode(&list[i]); err != nil {
					return err
				}
			}
			return nil
		}
	}
}

// writeTranscript writes a session, one JSON line per part. In each line, the "from" member counts the exchanges
// before that part. Sessions that were deleted in the meantime are skipped.
func (s *Server) writeTranscript(c echo.Context, lines *json.Encoder, x *store.SessionItem) error {
	err := s.options.Read.Archive.EachPart(c.Request().Context(), x.Tenant, x.ID, func(t *store.Transcript) error {
		t.Cost, t.Models = x.Cost, x.Models
		return lines.Encode(t)
	})
	if errors.Is(err, store.ErrNoSession) {
		return nil
	}
	return err
}

func csvHead() []string {
	return []string{
		"session_id", "name", "run", "agent", "model", "started", "seconds", "turns", "input_tokens", "output_tokens", "cost", "errors", "loops",
		"injected", "withheld", "control", "reward", "verdict", "error_kinds", "tools", "tags", "task",
	}
}

// csvRow returns a session's columns. A text that a spreadsheet would run as a formula gets an apostrophe in front.
func csvRow(x *store.SessionItem) []string {
	number := func(n *int) string {
		if n == nil {
			return ""
		}
		return strconv.Itoa(*n)
	}
	output, reward, cost := "", "", ""
	if x.Cost != nil {
		cost = strconv.FormatFloat(*x.Cost, 'g', 6, 64)
	}
	if x.Output != nil {
		output = strconv.FormatInt(*x.Output, 10)
	}
	if x.Reward != nil {
		reward = strconv.FormatFloat(*x.Reward, 'g', -1, 64)
	}
	plain := func(text string) string {
		if text != "" && strings.ContainsRune("=+-@\t\r", rune(text[0])) {
			return "'" + text
		}
		return text
	}
	list := func(names []string) string { return plain(strings.Join(names, " ")) }
	return []string{
		x.ID, plain(x.Name), plain(x.Run), plain(x.Agent), plain(x.Model), x.Started.UTC().Format(time.RFC3339), strconv.FormatFloat(x.Seconds, 'f', 3, 64),
		strconv.Itoa(x.Turns), strconv.FormatInt(x.Input, 10), output, cost, number(x.Errors), strconv.Itoa(x.Loops),
		list(x.Injected), list(x.Withheld), strconv.FormatBool(x.Control), reward, x.Verdict, list(x.ErrorKinds), list(x.Tools), list(x.Tags), plain(x.Task),
	}
}
