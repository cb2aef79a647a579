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

// ImportCounts holds the counts of one import.
type ImportCounts struct {
	Exchanges  int `json:"exchanges"`
	Samples    int `json:"samples"`
	NewSamples int `json:"fresh"`
	OptedOut   int `json:"opted_out"` // exchanges excluded by an opt-out
	Recorded   int `json:"recorded"`  // transcripts skipped because precept recorded the conversation live
}

// Importer stores past conversations. Every field is required.
type Importer struct {
	Now             func() time.Time
	LearningEnabled bool
	// Sessions finds earlier samples, so that NewSamples counts only new samples. It also finds sessions that precept
	// recorded live, stores outcomes, and settles the imported sessions.
	Sessions interface {
		SampleSession(ctx context.Context, tenant, sampleID string) (session.ID, bool, error)
		AddFeedback(ctx context.Context, tenant string, entries map[session.ID][]feedback.Entry) (map[session.ID]int, error)
		FeedbackEntry(ctx context.Context, tenant string, id session.ID, entry string) (feedback.Entry, bool, error)
		pastSessions
		settler
	}
	Openings *OpeningIndex
	Write    func(ctx context.Context, b session.Batch) error
	// RedactImported redacts exchanges and removes opted-out exchanges. answered has, for each exchange, the arguments
	// of the answered calls.
	RedactImported func(list []sample.Exchange, answered [][]string) []sample.Exchange
}

// Import redacts a conversation and stores it as a session outside every experiment. at is when the conversation took
// place. Conversations that precept recorded live are skipped.
//
// IDs are derived from content. The session ID is derived from tenant, source, id and first item, or from tenant and
// all items if source and id are empty. A second import therefore changes nothing, and a longer transcript with an id
// extends the session and replaces the outcome.
func (im *Importer) Import(ctx context.Context, tenant, agent string, transcript detect.Transcript, at time.Time) (ImportCounts, error) {
	var out ImportCounts
	if !im.LearningEnabled {
		return out, errNotLearning
	}
	name := strings.Trim(transcript.Source+"/"+transcript.ID, "/")
	id := importID(tenant, name, transcript.Request)
	list, answered := splitTurns(transcript.Request)
	for i := range list {
		x := &list[i]
		x.Tenant, x.Agent, x.Session, x.SessionName, x.At = tenant, agent, id.String(), name, at.UTC()
		x.ID = exchangeID(id, x)
	}
	cleansed := im.RedactImported(list, answered)
	out.OptedOut = len(list) - len(cleansed)
	if len(cleansed) == 0 {
		return out, nil
	}
	recorded, err := im.isRecorded(ctx, tenant, transcript, cleansed)
	if err != nil {
		return out, err
	}
	if recorded {
		return ImportCounts{Recorded: 1}, nil
	}
	longer, err := im.isLonger(ctx, tenant, id, len(list))
	if err != nil {
		return out, err
	}
	b := session.Batch{Exchanges: cleansed, Echoes: nameEchoes(tenant, id, at, name, cleansed[0].SessionName)}
	if longer {
		row, err := im.importRow(tenant, agent, id, at, cleansed, len(list))
		if err != nil {
			return out, err
		}
		b.Rows = []session.Row{row}
	}
	if err := im.Write(ctx, b); err != nil {
		return out, err
	}
	if longer && transcript.Reward != nil {
		if err := im.storeOutcome(ctx, tenant, id, *transcript.Reward, at); err != nil {
			return out, err
		}
	}
	out.Exchanges = len(cleansed)
	return out, im.settle(ctx, session.Ref{Tenant: tenant, ID: id}, &out)
}

// isLonger reports whether no earlier transcript for this session has more turns. Only then does the transcript replace
// the record and the outcome.
func (im *Importer) isLonger(ctx context.Context, tenant string, id session.ID, turns int) (bool, error) {
	row, ok, err := im.Sessions.Session(ctx, tenant, id)
	if err != nil || !ok {
		return err == nil, err
	}
	rec, err := session.Decode(id, row.Data)
	return err != nil || turns >= rec.Thread.Turns, nil //nolint:nilerr // the transcript replaces an unreadable record
}

// importRow returns the row for an imported session, which is closed and excluded from the experiment.
func (im *Importer) importRow(tenant, agent string, id session.ID, at time.Time, cleansed []sample.Exchange, turns int) (session.Row, error) {
	rec := &session.Record{
		Identity: session.Identity{ID: id, Tenant: tenant, Agent: agent, Name: cleansed[0].SessionName, Method: session.ByImport, Started: at.UTC(), Seen: im.Now().UTC()},
		Thread:   session.Thread{Turns: turns},
		State:    session.State{Closed: true},
	}
	rec.Assignment.Exclude(trial.ExcludedImport)
	for i := range cleansed {
		rec.Facts.Add(&cleansed[i])
	}
	return rec.Row(func(text string) (string, bool) { return text, true })
}

// nameEchoes returns the keys that identify a session by name, as the proxy adds them for a live session.
func nameEchoes(tenant string, id session.ID, at time.Time, names ...string) (list []session.Echo) {
	for _, name := range slices.Compact(names) {
		if name != "" {
			list = append(list, session.Echo{Tenant: tenant, ID: id, Key: session.TenantEchoKey(tenant, "s:"+name), At: at.UTC()})
		}
	}
	return list
}

const outcomeID = "import"

// storeOutcome stores a transcript's outcome as feedback. A different outcome replaces the stored one.
func (im *Importer) storeOutcome(ctx context.Context, tenant string, id session.ID, reward float64, at time.Time) error {
	e := feedback.Entry{ID: outcomeID, At: at.UTC(), Source: feedback.SourceSystem, Type: feedback.TypeScore, Score: reward, Tier: feedback.TierVerifier}
	stored, ok, err := im.Sessions.FeedbackEntry(ctx, tenant, id, outcomeID)
	switch {
	case err != nil:
		return err
	case ok && stored.Score == reward:
		return nil
	case ok && !e.At.After(stored.At): // the store keeps the later version
		e.At = stored.At.Add(time.Microsecond)
	}
	e.Hash = e.ContentHash()
	_, err = im.Sessions.AddFeedback(ctx, tenant, map[session.ID][]feedback.Entry{id: {e}})
	if _, full := errors.AsType[session.FeedbackFull](err); full { // the session has other feedback with an outcome
		return nil
	}
	return err
}

// settle builds an imported session's samples from all stored exchanges and feedback. It also settles the session, so
// that later data leads to new samples, as for a live session. Without new data, settle changes nothing in the store.
// It sets the sample counts in counts.
func (im *Importer) settle(ctx context.Context, ref session.Ref, counts *ImportCounts) error {
	old, err := im.Sessions.SettledState(ctx, ref.Tenant, ref.ID)
	if err != nil {
		return err
	}
	entries, state, err := im.Sessions.SessionFeedback(ctx, ref.Tenant, ref.ID)
	if err != nil {
		return err
	}
	exchanges, err := im.Sessions.Exchanges(ctx, ref.Tenant, ref.ID)
	if err != nil || len(exchanges) == 0 {
		return err
	}
	b := session.Batch{ReplacedSamples: []session.Ref{ref}}
	for _, built := range sample.Build(sampleSession(ref.Tenant, ref.ID, withoutUnfinished(exchanges), entries)) {
		_, known, err := im.Sessions.SampleSession(ctx, ref.Tenant, built.ID)
		if err != nil {
			return err
		}
		if !known {
			counts.NewSamples++
		}
		b.Samples = append(b.Samples, session.StoredSample{Tenant: ref.Tenant, Agent: exchanges[0].Agent, ID: ref.ID, Sample: built})
	}
	counts.Samples = len(b.Samples)
	if old.Version > 0 && state == 0 {
		return nil
	}
	step, err := importSettlement(ref, old, entries, state)
	if err != nil {
		return err
	}
	if err := im.Write(ctx, b); err != nil {
		return err
	}
	// If the step is not applied, the learner has settled the session in the meantime.
	_, err = im.Sessions.Settle(ctx, []session.Settlement{step})
	return err
}

// importSettlement returns a settlement that changes no counter. state is the feedback state for entries.
func importSettlement(ref session.Ref, old session.SettledState, entries []feedback.Entry, state int64) (session.Settlement, error) {
	var a trial.Assignment
	a.Exclude(trial.ExcludedImport)
	frozen, err := json.Marshal(&a)
	if err != nil {
		return session.Settlement{}, err
	}
	def, err := decodeFrozen(frozen, &a)
	if err != nil {
		return session.Settlement{}, err
	}
	out := feedback.Reward(entries, def.Tiers)
	return session.Settlement{
		Tenant: ref.Tenant, ID: ref.ID, From: old.Version, FeedbackState: state,
		To: session.SettledState{Version: old.Version + 1, Rewarded: out.OK, Reward: out.Reward, Tier: out.Tier, AssignmentAtClose: frozen},
	}, nil
}

// withoutUnfinished drops exchanges that a longer transcript repeats with a reply. Both versions of the exchange are
// stored, because an imported exchange's id depends on the reply.
func withoutUnfinished(list []sample.Exchange) []sample.Exchange {
	finished := map[int]bool{}
	for i := range list {
		if list[i].Outcome == sample.Complete {
			finished[list[i].Turn] = true
		}
	}
	return slices.DeleteFunc(slices.Clone(list), func(x sample.Exchange) bool { return x.Outcome == sample.Incomplete && finished[x.Turn] })
}

// ImportResult is the result of ImportAll.
type ImportResult struct {
	Transcripts int `json:"transcripts"`
	ImportCounts
	Errors []string `json:"faults"` // messages about unreadable lines and transcripts; all others are imported
}

// ImportAll imports the transcripts in r, which have a format that detect.ReadTranscripts reads, and calls done after
// each. If agent is "", the agent is the transcript's source, or else "import". at is when the transcripts were
// recorded.
func (im *Importer) ImportAll(ctx context.Context, tenant, agent string, r io.Reader, at time.Time, done func()) (ImportResult, error) {
	sum := ImportResult{Errors: []string{}}
	var fatal error
	err := detect.ReadTranscripts(r, func(t detect.Transcript) error {
		var got ImportCounts
		if got, fatal = im.Import(ctx, tenant, cmp.Or(agent, t.Source, "import"), t, at); fatal != nil {
			return fatal
		}
		sum.Transcripts++
		sum.ImportCounts.add(got)
		done()
		return nil
	})
	if fatal != nil {
		return sum, fatal
	}
	if err != nil {
		sum.Errors = strings.Split(err.Error(), "\n")
	}
	return sum, nil
}

// Add adds the counts and errors from another import.
func (s *ImportResult) Add(other ImportResult) {
	s.Transcripts += other.Transcripts
	s.ImportCounts.add(other.ImportCounts)
	s.Errors = append(s.Errors, other.Errors...)
}

func (c *ImportCounts) add(other ImportCounts) {
	c.Exchanges += other.Exchanges
	c.Samples += other.Samples
	c.NewSamples += other.NewSamples
	c.OptedOut += other.OptedOut
	c.Recorded += other.Recorded
}

func importID(tenant, name string, req *wire.Request) (id session.ID) {
	h := sha256.New()
	parts := []string{"precept import", tenant, name}
	if req.Len() > 0 {
		parts = append(parts, string(req.Raw(0)))
	}
	if name == "" { // without a name, only the items distinguish transcripts
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

// exchangeID returns an ID that has the form of a UUID v4 and is derived from the content.
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

// splitTurns splits a transcript into the turns that the proxy would have recorded. callArgs has, for each turn, the
// arguments of the answered calls.
func splitTurns(req *wire.Request) (list []sample.Exchange, callArgs [][]string) {
	var results detect.Results
	for from := 0; from < req.Len(); {
		x := sample.Exchange{Turn: len(list) + 1, Dialect: req.Dialect.String(), Status: 200, Outcome: sample.Incomplete, FirstNew: from}
		if from == 0 {
			x.Facts.Task = session.FirstWords(req)
		}
		pos := from
		for pos < req.Len() && req.Role(pos) != wire.RoleAssistant {
			x.New = append(x.New, json.RawMessage(slices.Clone(req.Raw(pos))))
			pos++
		}
		args := classifyResults(&x, &results, req, from, pos)
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
		list, callArgs = append(list, x), append(callArgs, args)
		from = pos
	}
	return list, callArgs
}

// classifyResults adds the outcomes of the tool results in the items [from, to) to x, and returns the arguments of the
// matching calls.
func classifyResults(x *sample.Exchange, results *detect.Results, req *wire.Request, from, to int) (args []string) {
	var verdicts sample.ResultJudgements
	for ; from < to; from++ {
		for _, res := range req.Item(from).Results {
			c, ok := req.FindCall(res.CallID)
			if ok {
				args = append(args, c.Args)
			}
			if results.Classify(c, res).Outcome == detect.Error {
				verdicts.Failed = append(verdicts.Failed, verdicts.Results)
				for _, kind := range results.Kinds(c, res) {
					x.Facts.Kinds = append(x.Facts.Kinds, string(kind))
				}
			}
			verdicts.Results++
		}
	}
	if verdicts.Results > 0 {
		x.ResultJudgements = &verdicts
	}
	return args
}
