package server

import (
	"bytes"
	"context"
	"io"
	"slices"
	"strings"
	"time"

	"precept/cmd/precept/lake"
	"precept/detect"
	"precept/internal/sample"
	"precept/internal/session"
)

// ExportJob is one export. An export streams, so that memory holds only one page of store rows and one output record.
type ExportJob struct {
	Evidence
	Filter         *sample.Filter
	Agent, Session string // exported agent, and exported session by name, id or request id; "" exports all
	Out            io.Writer
	Seen           func() // called for each sample or session that was read, even if a filter excludes it; may be nil
	Records        int    // number of records that Write has written: lines of JSON, or rows of a Parquet file

	candidates   []session.ID // ids that a session named Session may have in the tenant candidatesOf
	candidatesOf string
}

// Write writes the selected samples or sessions in a format. "parquet" and "mplp" contain samples, "experiment"
// contains the trials of lessons, and "preference" contains pairs of answers. Any other format contains chat
// messages.
func (x *ExportJob) Write(ctx context.Context, format string) error {
	var err error
	if format == "parquet" {
		p, err := lake.NewWriter(x.Out)
		if err != nil {
			return err
		}
		err = x.Samples(ctx, func(s *session.StoredSample) error {
			x.Records++
			return p.Add(s)
		})
		if err != nil {
			return err
		}
		return p.Close()
	}
	lines := sample.NewExporter(x.Out)
	switch format {
	case "mplp":
		err = x.Samples(ctx, func(s *session.StoredSample) error { return lines.Line(&s.Sample) })
	case "experiment":
		err = x.trials(ctx, lines)
	case "preference":
		err = x.sessions(ctx, lines.Preferences)
	default:
		err = x.sessions(ctx, lines.Chat)
	}
	x.Records = lines.Lines()
	if err != nil {
		return err
	}
	return lines.Flush()
}

// Samples calls write for each selected sample.
func (x *ExportJob) Samples(ctx context.Context, write func(*session.StoredSample) error) error {
	return x.EachSample(ctx, x.Filter.Tenant, x.Filter.From, x.Filter.To, func(s session.StoredSample) error {
		x.progress()
		if !x.selectsSession(s.Tenant, s.ID, s.Sample.Meta["session_name"]) || !x.selectsAgent(s.Agent) || !x.Filter.Match(s.Tenant, &s.Sample) {
			return nil
		}
		return write(&s)
	})
}

func (x *ExportJob) progress() {
	if x.Seen != nil {
		x.Seen()
	}
}

// selectsSession reports whether x.Session is empty or identifies a session by its id, its name, or the id of one of
// its requests. name is a string, or nil if unknown.
func (x *ExportJob) selectsSession(tenant string, id session.ID, name any) bool {
	if x.Session == "" || x.Session == id.String() || x.Session == name {
		return true
	}
	if x.candidates == nil || x.candidatesOf != tenant {
		x.candidatesOf, x.candidates = tenant, session.Candidates(tenant, x.Session)
	}
	of, ok := session.OfRequest(x.Session)
	return ok && of == id || slices.Contains(x.candidates, id)
}

// selectsRow reports whether x.Session is empty or identifies the session of a row.
func (x *ExportJob) selectsRow(r *session.Row) bool {
	if x.selectsSession(r.Tenant, r.ID, nil) {
		return true
	}
	if isPlainName(x.Session) && !bytes.Contains(r.Data, []byte(x.Session)) {
		return false // saves decoding, which dominates an export of one session
	}
	rec, err := session.Decode(r.ID, r.Data)
	return err == nil && rec.Identity.Name == x.Session
}

// isPlainName reports whether an encoded row contains the name unescaped. JSON does not escape letters, digits and
// the other characters that isPlainName permits.
func isPlainName(name string) bool {
	return !strings.ContainsFunc(name, func(r rune) bool {
		return (r < 'a' || r > 'z') && (r < 'A' || r > 'Z') && (r < '0' || r > '9') && !strings.ContainsRune("-_.:/ ", r)
	})
}

// selectsAgent reports whether x.Agent is empty or equals agent.
func (x *ExportJob) selectsAgent(agent string) bool {
	return x.Agent == "" || x.Agent == agent
}

// sessions calls write for each session that began between Filter.From and Filter.To. If the filter has families,
// qualities or a lesson, at least one sample of the session must match the filter.
func (x *ExportJob) sessions(ctx context.Context, write func(*sample.Session) error) error {
	wanted := *x.Filter
	wanted.From, wanted.To = time.Time{}, time.Time{}
	all := len(wanted.Families)+len(wanted.Quality) == 0 && wanted.Lesson == ""
	return x.EachSession(ctx, x.Filter.Tenant, x.Filter.From, x.Filter.To, func(r session.Row, _ session.Applied) error {
		x.progress()
		if !x.selectsRow(&r) {
			return nil
		}
		s, err := transcript(ctx, x, r)
		if err != nil || len(s.Exchanges) == 0 || !x.selectsAgent(s.Agent) {
			return err
		}
		if !all && !slices.ContainsFunc(sample.Build(s), func(m sample.Sample) bool { return wanted.Match(r.Tenant, &m) }) {
			return nil
		}
		return write(&s)
	})
}

// transcript returns a session with its stored exchanges and feedback.
func transcript(ctx context.Context, e Evidence, r session.Row) (sample.Session, error) {
	s := sample.Session{Tenant: r.Tenant, ID: r.ID.String(), Failing: func(tool, args, text string, isError int8) bool {
		return detect.Classify(tool, args, text, isError).Outcome == detect.Error
	}}
	var err error
	if s.Exchanges, err = e.Exchanges(ctx, r.Tenant, r.ID); err != nil || len(s.Exchanges) == 0 {
		return s, err
	}
	s.Agent, s.Name = s.Exchanges[0].Agent, s.Exchanges[0].SessionName
	entries, err := e.Feedback(ctx, r.Tenant, r.ID)
	if err != nil {
		return s, err
	}
	complete := hasAllTurns(&r, s.Exchanges)
	for _, f := range entries {
		rating := sample.Rating{
			At: f.At, Source: f.Source, Type: f.Type, Score: f.Score, Label: f.Label,
			Comment:    f.Comment,
			Correction: f.Correction, Details: f.Details, Turn: f.Turn,
		}
		if f.Turn == 0 && !complete { // the texts may quote an opted-out turn, which is not stored
			rating.Comment, rating.Correction, rating.Details = "", nil, nil
		}
		s.Ratings = append(s.Ratings, rating)
	}
	return s, nil
}

// hasAllTurns reports whether the exchanges include every turn of a session. An exchange is missing if the client
// opted out for the turn, or if the exchange was dropped or has expired. Side requests are not turns.
func hasAllTurns(r *session.Row, list []sample.Exchange) bool {
	rec, err := session.Decode(r.ID, r.Data)
	if err != nil {
		return false
	}
	turns := map[int]bool{}
	for i := range list {
		turns[list[i].Turn] = true
	}
	return len(turns) >= rec.Thread.Turns
}
