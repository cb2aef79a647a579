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

// ExportJob is one export, written record by record.
type ExportJob struct {
	StoreReader
	Filter         *sample.Filter
	Agent, Session string // exported agent, and session by name, id or request id; "" exports all
	Out            io.Writer
	OnRead         func()       // if set, called for each sample or session, even a filtered one
	Records        int          // written JSON lines, or Parquet rows
	Pairs          PairFeedback // sessions in a "preference" export

	candidates       []session.ID // possible ids of Session, for the tenant candidatesTenant
	candidatesTenant string
}

// PairFeedback counts the sessions in an export of answer pairs (a rejected and a better answer) by feedback.
type PairFeedback struct {
	Sessions int // sessions with stored exchanges, selected by the filter
	Rated    int // sessions with feedback from a person
	Pairable int // sessions with a correction or a rejection by a person, which a pair needs
}

func (f *PairFeedback) add(s *sample.Session) {
	rated, judged := s.HumanFeedback()
	f.Sessions++
	if rated {
		f.Rated++
	}
	if judged {
		f.Pairable++
	}
}

// Write writes the selected samples or sessions in a format: "parquet" and "mplp" contain samples, "experiment" the
// experiment's random assignments, "preference" answer pairs, and the others chat messages.
func (j *ExportJob) Write(ctx context.Context, format string) error {
	var err error
	if format == "parquet" {
		p, err := lake.NewWriter(j.Out)
		if err != nil {
			return err
		}
		err = j.Samples(ctx, func(s *session.StoredSample) error {
			j.Records++
			return p.Add(s)
		})
		if err != nil {
			return err
		}
		return p.Close()
	}
	lines := sample.NewExporter(j.Out)
	switch format {
	case "mplp":
		err = j.Samples(ctx, func(s *session.StoredSample) error { return lines.WriteLine(&s.Sample) })
	case "experiment":
		err = j.writeTrials(ctx, lines)
	case "preference":
		err = j.sessions(ctx, func(s *sample.Session) error {
			j.Pairs.add(s)
			return lines.WritePreferences(s)
		})
	default:
		err = j.sessions(ctx, lines.WriteChat)
	}
	j.Records = lines.Lines()
	if err != nil {
		return err
	}
	return lines.Flush()
}

// Samples calls write for each selected sample.
func (j *ExportJob) Samples(ctx context.Context, write func(*session.StoredSample) error) error {
	return j.EachSample(ctx, j.Filter.Tenant, j.Filter.From, j.Filter.To, func(s session.StoredSample) error {
		j.reportRead()
		if !j.selectsSession(s.Tenant, s.ID, s.Sample.Meta["session_name"]) || !j.selectsAgent(s.Agent) || !j.Filter.Match(s.Tenant, &s.Sample) {
			return nil
		}
		return write(&s)
	})
}

func (j *ExportJob) reportRead() {
	if j.OnRead != nil {
		j.OnRead()
	}
}

// selectsSession reports whether j.Session is the session's id, its name, or the id of one of its requests. name is a
// string, or nil if unknown.
func (j *ExportJob) selectsSession(tenant string, id session.ID, name any) bool {
	if j.Session == "" || j.Session == id.String() || j.Session == name {
		return true
	}
	if j.candidates == nil || j.candidatesTenant != tenant {
		j.candidatesTenant, j.candidates = tenant, session.IDsByName(tenant, j.Session)
	}
	requestSession, ok := session.ParseRequestID(j.Session)
	return ok && requestSession == id || slices.Contains(j.candidates, id)
}

// selectsRow reports whether the export contains a row's session.
func (j *ExportJob) selectsRow(r *session.Row) bool {
	if j.selectsSession(r.Tenant, r.ID, nil) {
		return true
	}
	if isPlainName(j.Session) && !bytes.Contains(r.Data, []byte(j.Session)) {
		return false // skip decoding, the slowest step
	}
	rec, err := session.Decode(r.ID, r.Data)
	return err == nil && rec.Identity.Name == j.Session
}

// isPlainName reports whether the name contains only characters that JSON does not escape.
func isPlainName(name string) bool {
	return !strings.ContainsFunc(name, func(r rune) bool {
		return (r < 'a' || r > 'z') && (r < 'A' || r > 'Z') && (r < '0' || r > '9') && !strings.ContainsRune("-_.:/ ", r)
	})
}

func (j *ExportJob) selectsAgent(agent string) bool {
	return j.Agent == "" || j.Agent == agent
}

// sessions calls write for each selected session. If the filter has families, qualities or a lesson, at least one
// sample in the session must match.
func (j *ExportJob) sessions(ctx context.Context, write func(*sample.Session) error) error {
	wanted := *j.Filter
	wanted.From, wanted.To = time.Time{}, time.Time{}
	anySample := len(wanted.Families)+len(wanted.Quality) == 0 && wanted.Lesson == ""
	return j.EachSession(ctx, j.Filter.Tenant, j.Filter.From, j.Filter.To, func(r session.Row, _ session.SettledState) error {
		j.reportRead()
		if !j.selectsRow(&r) {
			return nil
		}
		s, err := transcript(ctx, j, r)
		if err != nil || len(s.Exchanges) == 0 || !j.selectsAgent(s.Agent) {
			return err
		}
		if !anySample && !slices.ContainsFunc(sample.Build(s), func(m sample.Sample) bool { return wanted.Match(r.Tenant, &m) }) {
			return nil
		}
		return write(&s)
	})
}

func transcript(ctx context.Context, reader StoreReader, r session.Row) (sample.Session, error) {
	s := sample.Session{Tenant: r.Tenant, ID: r.ID.String(), IsFailure: func(tool, args, text string, isError int8) bool {
		return detect.Classify(tool, args, text, isError).Outcome == detect.Error
	}}
	var err error
	if s.Exchanges, err = reader.Exchanges(ctx, r.Tenant, r.ID); err != nil || len(s.Exchanges) == 0 {
		return s, err
	}
	s.Agent, s.Name = s.Exchanges[0].Agent, s.Exchanges[0].SessionName
	entries, err := reader.Feedback(ctx, r.Tenant, r.ID)
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
		if f.Turn == 0 && !complete { // a text may quote an opted-out turn
			rating.Comment, rating.Correction, rating.Details = "", nil, nil
		}
		s.Ratings = append(s.Ratings, rating)
	}
	return s, nil
}

// hasAllTurns reports whether no turn was opted out, was dropped or has expired. Side requests (an agent's title or
// summary requests) are not turns.
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
