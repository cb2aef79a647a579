package store

import (
	"context"
	"slices"
	"time"

	"precept/bandit/feedback"
	"precept/bandit/trial"
	"precept/internal/sample"
	"precept/internal/session"
)

const (
	// TurnsShown is how many exchanges one answer shows at most.
	TurnsShown = 100

	maxShown = 2 << 20 // bytes of their texts: an answer that has more ends before TurnsShown
)

// Transcript is a session as a person reads it.
type Transcript struct {
	SessionItem
	Rewarded  Rewarded   `json:"rewarded"`
	Picks     []PickItem `json:"picks"`      // the coins of the session
	Said      []TurnItem `json:"transcript"` // exchanges of it, oldest first
	From      int        `json:"from"`       // how many exchanges come before those
	Next      int        `json:"next"`       // what to ask for next as from; equal to Exchanges: that was all so far
	Exchanges int        `json:"exchanges"`  // how many the session has in all
	OptedOut  []int      `json:"opted_out"`  // turns of which nothing was kept
}

// Rewarded is what a session was worth, and who said so.
type Rewarded struct {
	Value      *float64     `json:"value"` // the reward by the feedback so far; null: there is none
	Tier       int          `json:"tier,omitempty"`
	Definition string       `json:"definition"` // of reward that is in force
	Counted    *float64     `json:"counted"`    // what the counters hold of it; null: it is open, or has no feedback
	Sources    []SourceItem `json:"sources"`
}

// SourceItem is one feedback.
type SourceItem struct {
	feedback.Entry
	Decides bool `json:"decides"` // the reward follows from it: of the highest tier that has any, its rater's latest
}

// PickItem is a lesson that was chosen, and how its coin fell.
type PickItem struct {
	Slug       string  `json:"slug"`
	Arm        string  `json:"arm"`
	Injected   bool    `json:"injected"`
	Propensity float64 `json:"propensity"` // the chance of being injected
	Turn       int     `json:"turn"`
	Trial      string  `json:"trial,omitempty"`
}

// TurnItem is one exchange.
type TurnItem struct {
	Turn      int             `json:"turn"`
	ID        string          `json:"exchange_id"`
	RequestID string          `json:"request_id"`
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
	Choices   int             `json:"choices,omitempty"` // of the reply, where it has several: the first is shown
	Loops     int             `json:"loops"`
	Lessons   []sample.Lesson `json:"lessons"` // that matched for the first time
	Redacted  map[string]int  `json:"redacted,omitempty"`
	Truncated bool            `json:"truncated"` // the copy of the reply hit its limit
	Hidden    bool            `json:"hidden"`    // it names a path that has opted out since: it has no entries
	Entries   []Entry         `json:"entries"`
}

// Transcript reads one session from the exchange from on, counted from 0. name is the client's name
// of it, ours, or its id. Like Browse it reads what is stored.
func (a *Archive) Transcript(ctx context.Context, tenant, name string, from int) (Transcript, error) {
	l, rec, err := a.find(ctx, tenant, name)
	if err != nil {
		return Transcript{}, err
	}
	if a.Hides(tenant, rec.Identity.Agent) {
		return Transcript{}, ErrNoSession
	}
	t := Transcript{SessionItem: itemOf(&l, rec), Said: []TurnItem{}, Picks: picks(&rec.Assignment), OptedOut: append([]int{}, rec.OptOut.Turns...)}
	entries, err := a.be.Feedback(ctx, tenant, l.ID)
	if err != nil {
		return t, err
	}
	t.Rewarded = a.rewarded(&l, entries)
	ex, err := a.be.Exchanges(ctx, tenant, l.ID)
	if err != nil {
		return t, err
	}
	t.Exchanges, t.From = len(ex), min(max(from, 0), len(ex))
	a.say(&t, rec, ex)
	return t, nil
}

// Block is the text that was inserted into a session when it was shown a lesson; "" when none is
// kept.
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

func (a *Archive) rewarded(l *session.Listed, entries []feedback.Entry) Rewarded {
	out := Rewarded{Definition: a.reward.String(), Sources: []SourceItem{}}
	if o := feedback.Reward(entries, a.reward.Tiers); o.OK {
		out.Value, out.Tier = &o.Reward, o.Tier
	}
	if l.Applied.Told {
		out.Counted = &l.Applied.Reward
	}
	decides := feedback.Decisive(entries, a.reward.Tiers)
	for _, e := range entries {
		out.Sources = append(out.Sources, SourceItem{Entry: e, Decides: decides[e.ID]})
	}
	return out
}

func picks(a *trial.Assignment) []PickItem {
	out := make([]PickItem, 0, len(a.Picks))
	for i := range a.Picks {
		p := &a.Picks[i]
		out = append(out, PickItem{Slug: p.Slug, Arm: string(p.Arm), Injected: p.Injected, Propensity: p.Propensity, Turn: p.Turn, Trial: p.Trial})
	}
	return out
}

// say adds the exchanges from t.From on, as many as one answer holds. Those before are read as
// well: what a tool's result answers may stand in them.
func (a *Archive) say(t *Transcript, rec *session.Record, ex []sample.Exchange) {
	reading, shown, r := sample.NewReading(), 0, a.redactor()
	t.Next = t.From
	for i := range ex {
		e := &ex[i]
		request, reply := reading.Request(e), reading.Reply(e)
		if i < t.From {
			continue
		}
		if len(t.Said) == TurnsShown || shown >= maxShown {
			return
		}
		x := a.turnItem(e)
		if !x.Hidden {
			x.Entries = append(x.Entries, withInsertions(request, rec.Lessons.Blocks, e, r)...)
			x.Entries = append(x.Entries, entriesOf(reply)...)
			if e.Reply.Error != "" {
				x.Entries = append(x.Entries, Entry{Kind: KindError, Text: e.Reply.Error})
			}
		}
		for k := range x.Entries {
			x.Entries[k].cut()
			shown += len(x.Entries[k].Text)
		}
		t.Said, t.Next = append(t.Said, x), i+1
	}
}

func (a *Archive) turnItem(e *sample.Exchange) TurnItem {
	return TurnItem{
		Turn: e.Turn, ID: e.ID, RequestID: e.RequestID, At: e.At, Model: e.Model, Status: e.Status, Outcome: e.Outcome, Finish: e.Reply.Finish,
		LatencyMS: e.LatencyMS, FirstMS: e.FirstMS, Input: max(e.Reply.InputTokens, 0), Cached: max(e.Reply.CachedTokens, 0), Output: max(e.Reply.OutputTokens, 0),
		Choices: e.Reply.Choices, Loops: e.Loops, Lessons: append([]sample.Lesson{}, e.Lessons...), Redacted: e.Redacted, Truncated: e.Truncated,
		Hidden: a.veiledNow(e), Entries: []Entry{},
	}
}
