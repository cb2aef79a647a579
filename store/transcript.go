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

	maxShownBytes = 2 << 20 // text bytes at which a Transcript ends
)

// Transcript is a session with exchanges, for a person to read. SessionItem is embedded, because the API returns both
// types' fields in one JSON object.
type Transcript struct {
	SessionItem
	Rewarded  RewardDetail `json:"rewarded"`
	Picks     []PickItem   `json:"picks"`      // picked lessons; for a session in a unit, the picks in all the unit's sessions
	Fates     []Fate       `json:"lessons"`    // state of each lesson that matched or nearly matched, and of each measured rules file section
	TurnItems []TurnItem   `json:"transcript"` // exchanges, oldest first
	From      int          `json:"from"`       // number of exchanges before the first exchange in transcript
	Next      int          `json:"next"`       // from value for the next query; equal to exchanges at the end
	Exchanges int          `json:"exchanges"`  // number of exchanges in the session
	OptedOut  []int        `json:"opted_out"`  // turns that opted out
}

// RewardDetail is a session's reward with its sources. The sessions in a unit (a run, or a parent session with its
// sub-agents) share one reward, but each lists only feedback on itself.
type RewardDetail struct {
	Value      *float64     `json:"value"`            // reward that the feedback so far yields; null: no feedback
	Shared     bool         `json:"shared,omitempty"` // the reward is the unit's
	Tier       int          `json:"tier,omitempty"`
	Definition string       `json:"definition"` // active reward definition
	Counted    *float64     `json:"counted"`    // reward in the counters; null: the session is open, is excluded from the experiment, or has no feedback
	Sources    []SourceItem `json:"sources"`
}

// SourceItem is one entry of feedback on a session.
type SourceItem struct {
	feedback.Entry
	Decides bool `json:"decides"` // this feedback decides the reward: the rater's latest entry, in the best tier with feedback
}

// PickItem is a picked lesson with the random decision to inject or to withhold it.
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
	Why        string  `json:"why,omitempty"`        // not_picked: "slots" (better lessons took the slots), "room" (the text is too long), "rank" (no gain expected) or empty (unknown); not_matched: a sentence
	Triggers   string  `json:"by,omitempty"`         // triggers in the lesson's current text that match the session; empty: unknown
	Propensity float64 `json:"propensity,omitempty"` // probability of injection, for injected and withheld
	Turn       int     `json:"turn,omitempty"`
	Shared     bool    `json:"shared,omitempty"` // the lesson is a rules file section, in this session or another session in the unit
}

// Further states for a Fate, not available in queries.
const (
	NotPicked  = "not_picked"
	NotMatched = "not_matched"
)

// lessonFates returns the fates of the lessons that matched in a session, then those of the other lessons in the
// assignment. If the assignment is shared, the other lessons are only rules file sections, because a shared assignment
// does not say which sessions have a section.
func lessonFates(x *SessionItem, a *trial.Assignment, shared bool) []Fate {
	out := []Fate{}
	for _, slug := range x.Matched {
		f := Fate{Slug: slug, State: NotPicked}
		if x.Control {
			f.State = FateControl
		}
		for i := range a.Matched {
			if a.Matched[i].Arm.Slug() == slug {
				f.Why = string(a.Matched[i].PassReason)
			}
		}
		if p, ok := a.Pick(slug); ok {
			f = pickFate(&p)
		}
		out = append(out, f)
	}
	for i := range a.Picks {
		p := &a.Picks[i]
		if slices.Contains(x.Matched, p.Slug) || shared && !p.Arm.IsRule() {
			continue
		}
		f := pickFate(p)
		f.Shared = shared
		out = append(out, f)
	}
	return out
}

func pickFate(p *trial.Pick) Fate {
	f := Fate{Slug: p.Slug, State: FateWithheld, Propensity: p.Propensity, Turn: p.Turn}
	if p.Injected {
		f.State = FateInjected
	}
	return f
}

// TurnItem is one exchange.
type TurnItem struct {
	Turn        int             `json:"turn"`
	ID          string          `json:"exchange_id"`
	RequestID   string          `json:"request_id"`
	Response    string          `json:"response_id,omitempty"` // response id from the upstream
	At          time.Time       `json:"at"`
	Model       string          `json:"model"`
	Status      int             `json:"status"`
	Outcome     string          `json:"outcome"`
	Finish      string          `json:"finish,omitempty"`
	LatencyMS   float64         `json:"latency_ms"`
	FirstByteMS float64         `json:"first_byte_ms"`
	Input       int             `json:"input_tokens"`
	Cached      int             `json:"cached_tokens"`
	Written     int             `json:"cache_write_tokens"` // input tokens written to the provider's prompt cache
	Output      int             `json:"output_tokens"`
	Choices     int             `json:"choices,omitempty"` // number of choices, if there are several; the first is shown
	Loops       int             `json:"loops"`
	Lessons     []sample.Lesson `json:"lessons"` // lessons that matched for the first time
	Redacted    map[string]int  `json:"redacted,omitempty"`
	Truncated   bool            `json:"truncated"` // the copied reply is incomplete
	Hidden      bool            `json:"hidden"`    // the exchange names an opted-out path, and has no entries
	Entries     []Entry         `json:"entries"`
}

// Transcript returns one session with exchanges, starting at index from. name is the client's or precept's session
// name, or the id.
func (a *Archive) Transcript(ctx context.Context, tenant, name string, from int) (Transcript, error) {
	t, turns, err := a.openTranscript(ctx, tenant, name)
	if err != nil {
		return t, err
	}
	turns.skip(from)
	turns.fill(&t, false)
	return t, nil
}

// EachPart calls use with each part of one session's transcript in order. Long texts are not cut.
func (a *Archive) EachPart(ctx context.Context, tenant, name string, use func(*Transcript) error) error {
	t, turns, err := a.openTranscript(ctx, tenant, name)
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

func (a *Archive) openTranscript(ctx context.Context, tenant, name string) (Transcript, *turnReader, error) {
	l, rec, err := a.find(ctx, tenant, name)
	if err != nil {
		return Transcript{}, nil, err
	}
	if a.Hides(tenant, rec.Identity.Agent) {
		return Transcript{}, nil, ErrNoSession
	}
	items := newItemBuilder(a)
	x, err := items.itemFromRecord(ctx, &l, rec)
	if err != nil {
		return Transcript{}, nil, err
	}
	assignment, shared, settled := &rec.Assignment, false, l.SettledState
	if u, err := items.readUnit(ctx, rec); err == nil && u != nil && u.record != nil {
		assignment, shared, settled = &u.record.Assignment, true, u.settled
	}
	t := Transcript{SessionItem: x, TurnItems: []TurnItem{}, Picks: pickItems(assignment), Fates: lessonFates(&x, assignment, shared), OptedOut: append([]int{}, rec.OptOut.Turns...)}
	entries, err := a.backend.Feedback(ctx, tenant, l.Row.ID)
	if err != nil {
		return t, nil, err
	}
	exchanges, err := a.exchanges(ctx, tenant, l.Row.ID)
	if err != nil {
		return t, nil, err
	}
	late := NewLateOptOut(a.optOut.Load(), &l.Row, exchanges)
	if shared {
		if t.Rewarded, err = a.sharedReward(ctx, settled, rec, late.VisibleFeedback(entries)); err != nil {
			return t, nil, err
		}
	} else {
		t.Rewarded = a.rewardDetail(settled, late.VisibleFeedback(entries))
	}
	if t.SessionItem.Excluded {
		t.Rewarded.Counted = nil
	}
	hidden := late.hidden
	if len(exchanges) > 0 && exchanges[0].Turn <= 1 && hidden[0] {
		t.Task = "" // text from the hidden first exchange
	}
	t.Exchanges = len(exchanges)
	return t, &turnReader{record: rec, exchanges: exchanges, hidden: hidden, reader: sample.NewMessageReader(), redactor: a.redactor()}, nil
}

// VisibleExchanges returns a session's exchanges that did not opt out.
func (a *Archive) VisibleExchanges(ctx context.Context, tenant, name string) ([]sample.Exchange, error) {
	l, rec, err := a.find(ctx, tenant, name)
	if err != nil || a.Hides(tenant, rec.Identity.Agent) {
		return nil, err
	}
	list, err := a.exchanges(ctx, tenant, l.Row.ID)
	if err != nil {
		return nil, err
	}
	return a.optOut.Load().VisibleExchanges(list), nil
}

// InsertedText returns the text that was inserted into a session for a lesson; "" means none is stored.
func (a *Archive) InsertedText(ctx context.Context, tenant, name, slug string) (string, error) {
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

// rewardDetail computes the reward from entries, and marks the entries that decide it. settled has the reward in the
// counters.
func (a *Archive) rewardDetail(settled session.SettledState, entries []feedback.Entry) RewardDetail {
	out := RewardDetail{Definition: a.reward.String(), Sources: []SourceItem{}}
	if o := feedback.Reward(entries, a.reward.Tiers); o.OK {
		out.Value, out.Tier = &o.Reward, o.Tier
	}
	if settled.Rewarded {
		out.Counted = &settled.Reward
	}
	decides := feedback.DecisiveIDs(entries, a.reward.Tiers)
	for _, e := range entries {
		out.Sources = append(out.Sources, SourceItem{Entry: e, Decides: decides[e.ID]})
	}
	return out
}

// sharedReward returns the unit's reward. The reward comes from the feedback on all sessions in the unit, but the
// result lists only the feedback on this session.
func (a *Archive) sharedReward(ctx context.Context, settled session.SettledState, rec *session.Record, entries []feedback.Entry) (RewardDetail, error) {
	member := rec.Member()
	all, err := a.backend.Feedback(ctx, rec.Identity.Tenant, member.Unit)
	if err != nil {
		return RewardDetail{}, err
	}
	copies := feedback.ForUnit(member.ID.String(), member.MemberNumber, entries)
	all = append(all, feedback.Missing(copies, all)...) // feedback that is copied to the unit only when the session closes
	out := a.rewardDetail(settled, all)
	decides := map[string]bool{}
	for i := range out.Sources {
		if e := &out.Sources[i]; e.Decides {
			decides[e.ID], decides[e.CopyForMember(member.Unit.String()).ID] = true, true
		}
	}
	out.Shared, out.Sources = true, []SourceItem{}
	for i := range entries {
		e := &entries[i]
		out.Sources = append(out.Sources, SourceItem{Entry: *e, Decides: decides[e.ID] || decides[e.CopyForUnit(member.ID.String()).ID]})
	}
	return out, nil
}

func pickItems(a *trial.Assignment) []PickItem {
	out := make([]PickItem, 0, len(a.Picks))
	for i := range a.Picks {
		p := &a.Picks[i]
		out = append(out, PickItem{Slug: p.Slug, Arm: string(p.Arm), Injected: p.Injected, Propensity: p.Propensity, Turn: p.Turn, Trial: p.Trial})
	}
	return out
}

// turnReader converts a session's exchanges to transcript items. It reads all exchanges in order, because the result of
// a call is in a later exchange.
type turnReader struct {
	record    *session.Record
	exchanges []sample.Exchange
	hidden    []bool // per exchange
	reader    *sample.MessageReader
	redactor  *redact.Redactor
	next      int
}

func (r *turnReader) skip(index int) {
	for ; r.next < min(index, len(r.exchanges)); r.next++ {
		r.reader.Request(&r.exchanges[r.next])
		r.reader.Reply(&r.exchanges[r.next])
	}
}

// fill replaces t's exchanges with the next ones, up to TurnsShown exchanges or maxShownBytes bytes of text. Long texts
// are cut unless uncut is true.
func (r *turnReader) fill(t *Transcript, uncut bool) {
	t.TurnItems, t.From = []TurnItem{}, r.next
	for shownBytes := 0; r.next < len(r.exchanges) && len(t.TurnItems) < TurnsShown && shownBytes < maxShownBytes; r.next++ {
		e := &r.exchanges[r.next]
		request, reply := r.reader.Request(e), r.reader.Reply(e)
		x := newTurnItem(e, r.hidden[r.next])
		if !x.Hidden {
			x.Entries = append(x.Entries, withInsertions(request, r.record.Lessons.Blocks, e, r.redactor)...)
			x.Entries = append(x.Entries, messageEntries(reply)...)
			if e.Reply.Error != "" {
				x.Entries = append(x.Entries, Entry{Kind: KindError, Text: e.Reply.Error})
			}
		}
		for k := range x.Entries {
			if !uncut {
				x.Entries[k].truncate()
			}
			shownBytes += len(x.Entries[k].Text)
		}
		t.TurnItems = append(t.TurnItems, x)
	}
	t.Next = r.next
}

func newTurnItem(e *sample.Exchange, hidden bool) TurnItem {
	return TurnItem{
		Turn: e.Turn, ID: e.ID, RequestID: e.RequestID, Response: e.Reply.ID, At: e.At, Model: e.Model, Status: e.Status, Outcome: e.Outcome, Finish: e.Reply.Finish,
		LatencyMS: e.LatencyMS, FirstByteMS: e.FirstByteMS, Input: max(e.Reply.InputTokens, 0), Cached: max(e.Reply.CachedTokens, 0), Written: e.Reply.Written, Output: max(e.Reply.OutputTokens, 0),
		Choices: e.Reply.Choices, Loops: e.Loops, Lessons: append([]sample.Lesson{}, e.Lessons...), Redacted: e.Redacted, Truncated: e.Truncated,
		Hidden: hidden, Entries: []Entry{},
	}
}
