package store

import (
	"context"
	"slices"
	"time"

	"precept/bandit/feedback"
	"precept/bandit/trial"
	"precept/internal/redact"
	"precept/internal/sample"
	"precept/internal/session"
)

const (
	// TurnsShown is the largest number of exchanges in one Transcript.
	TurnsShown = 100

	maxShown = 2 << 20 // bytes of text after which a Transcript ends
)

// Transcript is a session with its exchanges, for a person to read. The API publishes the fields of
// SessionItem and of Transcript in one JSON object; encoding/json joins the fields of an embedded
// type only.
type Transcript struct {
	SessionItem
	Rewarded  Rewarded   `json:"rewarded"`
	Picks     []PickItem `json:"picks"`      // picked lessons; for a session of a unit, the picks of all sessions of the unit
	Fates     []Fate     `json:"lessons"`    // state of each lesson that matched or nearly matched, and of each measured section of a rules file
	TurnItems []TurnItem `json:"transcript"` // exchanges, oldest first
	From      int        `json:"from"`       // number of exchanges before the first exchange of transcript
	Next      int        `json:"next"`       // from of the next query; equal to Exchanges at the end
	Exchanges int        `json:"exchanges"`  // number of exchanges of the session
	OptedOut  []int      `json:"opted_out"`  // turns that opted out
}

// Rewarded is the reward of a session, with its sources.
type Rewarded struct {
	Value      *float64     `json:"value"` // reward by the feedback so far; null: no feedback
	Tier       int          `json:"tier,omitempty"`
	Definition string       `json:"definition"` // active definition of the reward
	Counted    *float64     `json:"counted"`    // reward in the counters; null: open, or no feedback
	Sources    []SourceItem `json:"sources"`
}

// SourceItem is one entry of feedback on a session.
type SourceItem struct {
	feedback.Entry
	Decides bool `json:"decides"` // the reward is computed from this feedback: the rater's latest, of the highest tier with feedback
}

// PickItem is a picked lesson with its coin, the random decision to inject or to withhold the lesson.
type PickItem struct {
	Slug       string  `json:"slug"`
	Arm        string  `json:"arm"`
	Injected   bool    `json:"injected"`
	Propensity float64 `json:"propensity"` // probability of injection
	Turn       int     `json:"turn"`
	Trial      string  `json:"trial,omitempty"`
}

// Fate is the state of one lesson in one session (injected, withheld, ...), with its reason.
type Fate struct {
	Slug       string  `json:"slug"`
	State      string  `json:"state"`                // injected, withheld, control, not_picked or not_matched
	Why        string  `json:"why,omitempty"`        // not_picked: slots, room, rank or empty if unknown; not_matched: a sentence
	By         string  `json:"by,omitempty"`         // triggers of the match, by the present text of the lesson; empty if unknown
	Propensity float64 `json:"propensity,omitempty"` // injected and withheld: probability of injection
	Turn       int     `json:"turn,omitempty"`
	Shared     bool    `json:"shared,omitempty"` // section of a rules file in a request of this session or of another session of its unit
}

// The states of a Fate in addition to FateInjected, FateWithheld and FateControl. No query selects them.
const (
	NotPicked  = "not_picked"
	NotMatched = "not_matched"
)

// fatesOf returns the state of each lesson that matched in a session, then the state of each other pick of the
// assignment. In a unit the sessions share the assignment, and a pick of a lesson that did not match in the session
// belongs to another session. The assignment does not name the sessions with a measured section of a rules file.
func fatesOf(x *SessionItem, a *trial.Assignment, shared bool) []Fate {
	out := []Fate{}
	for _, slug := range x.Matched {
		f := Fate{Slug: slug, State: NotPicked}
		if x.Control {
			f.State = FateControl
		}
		for i := range a.Matched {
			if a.Matched[i].Arm.Slug() == slug {
				f.Why = string(a.Matched[i].Passed)
			}
		}
		if p, ok := a.Pick(slug); ok {
			f = fateOf(&p)
		}
		out = append(out, f)
	}
	for i := range a.Picks {
		p := &a.Picks[i]
		if slices.Contains(x.Matched, p.Slug) || shared && !p.Arm.IsRule() {
			continue
		}
		f := fateOf(p)
		f.Shared = shared
		out = append(out, f)
	}
	return out
}

func fateOf(p *trial.Pick) Fate {
	f := Fate{Slug: p.Slug, State: FateWithheld, Propensity: p.Propensity, Turn: p.Turn}
	if p.Injected {
		f.State = FateInjected
	}
	return f
}

// TurnItem is one exchange. The fields are those of the API's JSON object.
type TurnItem struct {
	Turn      int             `json:"turn"`
	ID        string          `json:"exchange_id"`
	RequestID string          `json:"request_id"`
	Response  string          `json:"response_id,omitempty"` // id that the upstream gave the response
	At        time.Time       `json:"at"`
	Model     string          `json:"model"`
	Status    int             `json:"status"`
	Outcome   string          `json:"outcome"`
	Finish    string          `json:"finish,omitempty"`
	LatencyMS float64         `json:"latency_ms"`
	FirstMS   float64         `json:"first_byte_ms"`
	Input     int             `json:"input_tokens"`
	Cached    int             `json:"cached_tokens"`
	Output    int             `json:"output_tokens"`
	Choices   int             `json:"choices,omitempty"` // number of choices, if there are several; the first is shown
	Loops     int             `json:"loops"`
	Lessons   []sample.Lesson `json:"lessons"` // lessons that matched for the first time
	Redacted  map[string]int  `json:"redacted,omitempty"`
	Truncated bool            `json:"truncated"` // the reply is longer than its copy
	Hidden    bool            `json:"hidden"`    // the exchange names an opted-out path, and has no entries
	Entries   []Entry         `json:"entries"`
}

// Transcript returns one session with its exchanges, beginning with the exchange number from, counted
// from 0. name is the client's name of the session, precept's name, or the id.
func (a *Archive) Transcript(ctx context.Context, tenant, name string, from int) (Transcript, error) {
	t, turns, err := a.transcript(ctx, tenant, name)
	if err != nil {
		return t, err
	}
	turns.skip(from)
	turns.fill(&t, false)
	return t, nil
}

// EachPart calls use with consecutive parts of one session's transcript, in which texts are not cut.
// EachPart reads the stored exchanges once.
func (a *Archive) EachPart(ctx context.Context, tenant, name string, use func(*Transcript) error) error {
	t, turns, err := a.transcript(ctx, tenant, name)
	if err != nil {
		return err
	}
	for {
		turns.fill(&t, true)
		if err := use(&t); err != nil || t.Next >= t.Exchanges {
			return err
		}
	}
}

// transcript returns a transcript without exchanges, and the reader of the exchanges.
func (a *Archive) transcript(ctx context.Context, tenant, name string) (Transcript, *turnReader, error) {
	l, rec, err := a.find(ctx, tenant, name)
	if err != nil {
		return Transcript{}, nil, err
	}
	if a.Hides(tenant, rec.Identity.Agent) {
		return Transcript{}, nil, ErrNoSession
	}
	items := newItems(a)
	x, err := items.itemOfRecord(ctx, &l, rec)
	if err != nil {
		return Transcript{}, nil, err
	}
	assignment, shared := &rec.Assignment, false
	if u, err := items.unitOf(ctx, rec); err == nil && u != nil && u.record != nil {
		assignment, shared = &u.record.Assignment, true
	}
	t := Transcript{SessionItem: x, TurnItems: []TurnItem{}, Picks: picks(assignment), Fates: fatesOf(&x, assignment, shared), OptedOut: append([]int{}, rec.OptOut.Turns...)}
	entries, err := a.backend.Feedback(ctx, tenant, l.Row.ID)
	if err != nil {
		return t, nil, err
	}
	ex, err := a.exchanges(ctx, tenant, l.Row.ID)
	if err != nil {
		return t, nil, err
	}
	late := NewLateOptOut(a.optOut.Load(), &l.Row, ex)
	t.Rewarded = a.rewardOf(&l, late.Feedback(entries))
	hidden := late.hidden
	if len(ex) > 0 && ex[0].Turn <= 1 && hidden[0] {
		t.Task = "" // the words of a hidden exchange
	}
	t.Exchanges = len(ex)
	return t, &turnReader{archive: a, record: rec, exchanges: ex, hidden: hidden, reading: sample.NewReader(), redactor: a.redactor()}, nil
}

// Shown returns the exchanges of a session that a person may read: none of a session that opted out,
// and no exchange that names an opted-out path.
func (a *Archive) Shown(ctx context.Context, tenant, name string) ([]sample.Exchange, error) {
	l, rec, err := a.find(ctx, tenant, name)
	if err != nil || a.Hides(tenant, rec.Identity.Agent) {
		return nil, err
	}
	list, err := a.exchanges(ctx, tenant, l.Row.ID)
	if err != nil {
		return nil, err
	}
	return a.optOut.Load().Visible(list), nil
}

// Block returns the text that was inserted into a session with a lesson; "" means no such text is stored.
func (a *Archive) Block(ctx context.Context, tenant, name, slug string) (string, error) {
	_, rec, err := a.find(ctx, tenant, name)
	if err != nil || a.Hides(tenant, rec.Identity.Agent) {
		return "", err
	}
	for i := range rec.Lessons.Blocks {
		if slices.Contains(rec.Lessons.Blocks[i].Slugs, slug) {
			return rec.Lessons.Blocks[i].Text, nil
		}
	}
	return "", nil
}

// rewardOf returns the reward of a session by its feedback.
func (a *Archive) rewardOf(l *session.Listed, entries []feedback.Entry) Rewarded {
	out := Rewarded{Definition: a.reward.String(), Sources: []SourceItem{}}
	if o := feedback.Reward(entries, a.reward.Tiers); o.OK {
		out.Value, out.Tier = &o.Reward, o.Tier
	}
	if l.Applied.Rewarded {
		out.Counted = &l.Applied.Reward
	}
	decides := feedback.Decisive(entries, a.reward.Tiers)
	for _, e := range entries {
		out.Sources = append(out.Sources, SourceItem{Entry: e, Decides: decides[e.ID]})
	}
	return out
}

// picks returns the picks of an assignment.
func picks(a *trial.Assignment) []PickItem {
	out := make([]PickItem, 0, len(a.Picks))
	for i := range a.Picks {
		p := &a.Picks[i]
		out = append(out, PickItem{Slug: p.Slug, Arm: string(p.Arm), Injected: p.Injected, Propensity: p.Propensity, Turn: p.Turn, Trial: p.Trial})
	}
	return out
}

// turnReader reads the exchanges of a session in order: an exchange may hold the calls that the results
// of a later exchange answer.
type turnReader struct {
	archive   *Archive
	record    *session.Record
	exchanges []sample.Exchange
	hidden    []bool // whether each exchange is hidden
	reading   *sample.Reader
	redactor  *redact.Redactor
	next      int // index of the next exchange
}

// skip reads the exchanges before an index.
func (r *turnReader) skip(index int) {
	for ; r.next < min(index, len(r.exchanges)); r.next++ {
		r.reading.Request(&r.exchanges[r.next])
		r.reading.Reply(&r.exchanges[r.next])
	}
}

// fill replaces the exchanges of a transcript by the next exchanges, as many as one Transcript holds.
// whole leaves long texts uncut.
func (r *turnReader) fill(t *Transcript, whole bool) {
	t.TurnItems, t.From = []TurnItem{}, r.next
	for shown := 0; r.next < len(r.exchanges) && len(t.TurnItems) < TurnsShown && shown < maxShown; r.next++ {
		e := &r.exchanges[r.next]
		request, reply := r.reading.Request(e), r.reading.Reply(e)
		x := turnItem(e, r.hidden[r.next])
		if !x.Hidden {
			x.Entries = append(x.Entries, withInsertions(request, r.record.Lessons.Blocks, e, r.redactor)...)
			x.Entries = append(x.Entries, entriesOf(reply)...)
			if e.Reply.Error != "" {
				x.Entries = append(x.Entries, Entry{Kind: KindError, Text: e.Reply.Error})
			}
		}
		for k := range x.Entries {
			if !whole {
				x.Entries[k].cut()
			}
			shown += len(x.Entries[k].Text)
		}
		t.TurnItems = append(t.TurnItems, x)
	}
	t.Next = r.next
}

// turnItem returns an exchange without entries.
func turnItem(e *sample.Exchange, hidden bool) TurnItem {
	return TurnItem{
		Turn: e.Turn, ID: e.ID, RequestID: e.RequestID, Response: e.Reply.ID, At: e.At, Model: e.Model, Status: e.Status, Outcome: e.Outcome, Finish: e.Reply.Finish,
		LatencyMS: e.LatencyMS, FirstMS: e.FirstMS, Input: max(e.Reply.InputTokens, 0), Cached: max(e.Reply.CachedTokens, 0), Output: max(e.Reply.OutputTokens, 0),
		Choices: e.Reply.Choices, Loops: e.Loops, Lessons: append([]sample.Lesson{}, e.Lessons...), Redacted: e.Redacted, Truncated: e.Truncated,
		Hidden: hidden, Entries: []Entry{},
	}
}
