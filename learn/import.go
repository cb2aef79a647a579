package learn

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"precept/bandit/feedback"
	"precept/bandit/trial"
	"precept/detect"
	"precept/internal/sample"
	"precept/internal/session"
	"precept/internal/wire"
)

// errNotLearning reports that learning is off.
var errNotLearning = errors.New("learning.enabled is false, so no transcript is stored; set learning.enabled to true")

// Imported is the result of one import.
type Imported struct {
	Exchanges int `json:"exchanges"`
	Samples   int `json:"samples"`
	New       int `json:"fresh"`     // new samples
	OptedOut  int `json:"opted_out"` // exchanges that an opt-out excludes
	Recorded  int `json:"recorded"`  // transcripts that are skipped, because precept recorded the conversation live
}

// Importer stores past conversations. Every field is required.
type Importer struct {
	Now   func() time.Time
	Learn bool // learning is enabled
	// Into finds the session of a stored sample, so that Imported.New counts new samples only, and the sessions that
	// precept has recorded live.
	Into interface {
		SampleSession(ctx context.Context, tenant, sampleID string) (session.ID, bool, error)
		pastSessions
	}
	Openings *Openings
	Write    func(ctx context.Context, b session.Batch) error // stores a conversation
	// Cleanse redacts exchanges and removes opted-out exchanges. answered has, for each exchange,
	// the arguments of the calls that the new tool results answer.
	Cleanse func(list []sample.Exchange, answered [][]string) []sample.Exchange
}

// Import stores a past conversation as a session: redacted, without opted-out exchanges, with
// samples. at is the known time of the conversation. The session is outside of every experiment. A
// second import of the same transcript changes nothing. A longer transcript of the conversation adds to the session,
// because the session ID is derived from tenant, source, id and first item, and the ID of an exchange from its
// content. Without a source and an id, all items determine the session ID, and a longer transcript is another session.
// A conversation that precept recorded live, or a part of such a conversation, is skipped.
func (m *Importer) Import(ctx context.Context, tenant, agent string, t detect.Transcript, at time.Time) (Imported, error) {
	var out Imported
	if !m.Learn {
		return out, errNotLearning
	}
	name := strings.Trim(t.Source+"/"+t.ID, "/")
	id := importID(tenant, name, t.Request)
	list, answered := exchangesOf(t.Request)
	for i := range list {
		x := &list[i]
		x.Tenant, x.Agent, x.Session, x.SessionName, x.At = tenant, agent, id.String(), name, at.UTC()
		x.ID = exchangeID(id, x)
	}
	kept := m.Cleanse(list, answered)
	out.OptedOut = len(list) - len(kept)
	if len(kept) == 0 {
		return out, nil
	}
	recorded, err := m.isRecorded(ctx, tenant, t, kept)
	if err != nil {
		return out, err
	}
	if recorded {
		return Imported{Recorded: 1}, nil
	}
	rec := &session.Record{
		Identity: session.Identity{ID: id, Tenant: tenant, Agent: agent, Name: kept[0].SessionName, Method: session.ByImport, Started: at.UTC(), Seen: m.Now().UTC()},
		Thread:   session.Thread{Turns: len(list)},
		State:    session.State{Closed: true},
	}
	rec.Assignment.Exclude(trial.ExcludedImport)
	for i := range kept {
		rec.Facts.Add(&kept[i])
	}
	row, err := rec.Row(func(text string) (string, bool) { return text, true })
	if err != nil {
		return out, err
	}
	b := session.Batch{Rows: []session.Row{row}, Exchanges: kept}
	var ratings []feedback.Entry
	if t.Reward != nil {
		ratings = []feedback.Entry{{ID: "import", At: at.UTC(), Source: feedback.SourceSystem, Type: feedback.TypeScore, Score: *t.Reward, Tier: 2}}
	}
	for _, built := range sample.Build(sampleSession(tenant, id, kept, ratings)) {
		_, known, err := m.Into.SampleSession(ctx, tenant, built.ID)
		if err != nil {
			return out, err
		}
		if !known {
			out.New++
		}
		b.Samples = append(b.Samples, session.StoredSample{Tenant: tenant, Agent: agent, ID: id, Sample: built})
	}
	out.Exchanges, out.Samples = len(kept), len(b.Samples)
	return out, m.Write(ctx, b)
}

// ImportSum is the result of ImportAll.
type ImportSum struct {
	Transcripts int `json:"transcripts"`
	Imported
	Faults []string `json:"faults"` // lines and transcripts that cannot be read; all others are imported
}

// ImportAll imports the transcripts of r, which has one of the formats of detect.Read. at is the known time of the
// transcripts, and agent their agent. With agent "", the agent of a transcript is its source, or "import". ImportAll
// calls done after each transcript.
func (m *Importer) ImportAll(ctx context.Context, tenant, agent string, r io.Reader, at time.Time, done func()) (ImportSum, error) {
	sum := ImportSum{Faults: []string{}}
	var fatal error
	err := detect.Read(r, func(t detect.Transcript) error {
		var got Imported
		if got, fatal = m.Import(ctx, tenant, cmp.Or(agent, t.Source, "import"), t, at); fatal != nil {
			return fatal
		}
		sum.Transcripts++
		sum.Imported.add(got)
		done()
		return nil
	})
	if fatal != nil {
		return sum, fatal
	}
	if err != nil {
		sum.Faults = strings.Split(err.Error(), "\n")
	}
	return sum, nil
}

// Add adds the counts and faults of another import.
func (s *ImportSum) Add(other ImportSum) {
	s.Transcripts += other.Transcripts
	s.Imported.add(other.Imported)
	s.Faults = append(s.Faults, other.Faults...)
}

func (i *Imported) add(other Imported) {
	i.Exchanges += other.Exchanges
	i.Samples += other.Samples
	i.New += other.New
	i.OptedOut += other.OptedOut
	i.Recorded += other.Recorded
}

// importID returns the session ID of an imported conversation.
func importID(tenant, name string, req *wire.Request) (id session.ID) {
	h := sha256.New()
	parts := []string{"precept import", tenant, name}
	if req.Len() > 0 {
		parts = append(parts, string(req.Raw(0)))
	}
	if name == "" { // only the name distinguishes transcripts with equal first items
		for i := 1; i < req.Len(); i++ {
			parts = append(parts, string(req.Raw(i)))
		}
	}
	for _, p := range parts {
		_, _ = fmt.Fprintf(h, "%d:%s", len(p), p)
	}
	copy(id[:], h.Sum(nil))
	return id
}

// exchangeID returns an ID in the form of a UUID v4, derived from the content of the exchange.
func exchangeID(sessionID session.ID, x *sample.Exchange) string {
	h := sha256.New()
	_, _ = fmt.Fprintf(h, "%s/%d", sessionID, x.Turn)
	parts := []string{x.Reply.Text}
	for _, item := range x.New {
		parts = append(parts, string(item))
	}
	for _, c := range x.Reply.Calls {
		parts = append(parts, c.ID, c.Name, c.Args)
	}
	for _, p := range parts {
		_, _ = fmt.Fprintf(h, "%d:%s", len(p), p)
	}
	b := h.Sum(nil)[:16]
	b[6], b[8] = b[6]&0x0f|0x40, b[8]&0x3f|0x80
	text := hex.EncodeToString(b)
	return strings.Join([]string{text[:8], text[8:12], text[12:16], text[16:20], text[20:]}, "-")
}

// exchangesOf splits the items of a transcript into the turns that the proxy would have seen. answered has, for each
// turn, the arguments of the calls that the turn's tool results answer.
func exchangesOf(req *wire.Request) (list []sample.Exchange, answered [][]string) {
	var results detect.Results
	for from := 0; from < req.Len(); {
		x := sample.Exchange{Turn: len(list) + 1, Dialect: req.Dialect.String(), Status: 200, Outcome: sample.Incomplete, NewFrom: from}
		if from == 0 {
			x.Facts.Task = session.FirstWords(req)
		}
		pos := from
		for pos < req.Len() && req.Role(pos) != wire.RoleAssistant {
			x.New = append(x.New, json.RawMessage(slices.Clone(req.Raw(pos))))
			pos++
		}
		args := judgeResults(&x, &results, req, from, pos)
		var words []string
		for ; pos < req.Len() && req.Role(pos) == wire.RoleAssistant; pos++ {
			it := req.Item(pos)
			if it.Text != "" {
				words = append(words, it.Text)
			}
			for _, c := range it.Calls {
				x.Reply.Calls = append(x.Reply.Calls, sample.Call{ID: c.ID, Name: c.Name, Args: c.Args})
			}
			x.Outcome = sample.Complete
		}
		x.Reply.Text = strings.Join(words, "\n")
		list, answered = append(list, x), append(answered, args)
		from = pos
	}
	return list, answered
}

// judgeResults adds to x the outcomes of the tool results in the items [from, to), and returns the arguments of the
// answered calls.
func judgeResults(x *sample.Exchange, results *detect.Results, req *wire.Request, from, to int) (args []string) {
	var judged sample.Verdicts
	for ; from < to; from++ {
		for _, res := range req.Item(from).Results {
			c, ok := req.CallOf(res.CallID)
			if ok {
				args = append(args, c.Args)
			}
			if results.Classify(c, res).Outcome == detect.Error {
				judged.Failed = append(judged.Failed, judged.Results)
				for _, kind := range results.Kinds(c, res) {
					x.Facts.Kinds = append(x.Facts.Kinds, string(kind))
				}
			}
			judged.Results++
		}
	}
	if judged.Results > 0 {
		x.Verdicts = &judged
	}
	return args
}
