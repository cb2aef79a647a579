package store

import (
	"context"
	"slices"
	"time"

	"precept/feedback"
	"precept/sample"
	"precept/session"
	"precept/trial"
)

// What one answer shows of a session: TurnsShown exchanges, of each text so much, and of all of
// them together.
const (
	TurnsShown = 100

	maxShown = 2 << 20
)

// Transcript is a session as a person reads it.
type Transcript struct {
	SessionItem
	Rewarded  Rewarded   `json:"rewarded"`
	Picks     []PickItem `json:"picks"`      // the coins of the session
	Said      []TurnItem `json:"transcript"` // its exchanges, oldest first
	From      int        `json:"from"`       // how many exchanges stand before them
	Next      int        `json:"next"`       // from where it goes on, also when there is nothing yet
	Exchanges int        `json:"exchanges"`  // how many there are
	OptedOut  []int      `json:"opted_out"`  // turns of which nothing was kept
}

// Rewarded is what a session was worth, and who said so.
type Rewarded struct {
	Value      *float64     `json:"value"` // of what was told so far; null: nobody told
	Tier       int          `json:"tier,omitempty"`
	Definition string       `json:"definition"` // of reward, as it is in force
	Counted    *float64     `json:"counted"`    // what the counters hold; null: the session is open, or nobody told
	Sources    []SourceItem `json:"sources"`
}

// SourceItem is one feedback.
type SourceItem struct {
	feedback.Entry
	Decides bool `json:"decides"` // it is of the highest tier that is there, and its rater's latest
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
	Choices   int             `json:"choices,omitempty"`
	Loops     int             `json:"loops"`
	Lessons   []sample.Lesson `json:"lessons"` // that matched for the first time
	Redacted  map[string]int  `json:"redacted,omitempty"`
	Truncated bool            `json:"truncated"` // the copy of the reply hit its limit
	Hidden    bool            `json:"hidden"`    // it names a path that has opted out since
	Entries   []Entry         `json:"entries"`
}

// Transcript reads one session, from an exchange on: its name is the client's, ours, or its id.
// Like Browse it reads what is stored.
func (a *Archive) Transcript(ctx context.Context, tenant, name string, from int) (Transcript, error) {
	l, rec, err := a.find(ctx, tenant, name)
	if err != nil {
		return Transcript{}, err
	}
	if a.Hides(tenant, rec.Agent) {
		return Transcript{}, ErrNoSession
	}
	t := Transcript{SessionItem: itemOf(&l, rec), Said: []TurnItem{}, Picks: picks(&rec.Assignment), OptedOut: append([]int{}, rec.OptedOut...)}
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

// Block is what a session was shown of a lesson, in the block of its turn; "" when nothing is kept
// of it.
func (a *Archive) Block(ctx context.Context, tenant, name, slug string) (string, error) {
	_, rec, err := a.find(ctx, tenant, name)
	if err != nil || a.Hides(tenant, rec.Agent) {
		return "", err
	}
	for i := range rec.Blocks {
		if slices.Contains(rec.Blocks[i].Slugs, slug) {
			return rec.Blocks[i].Text, nil
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

// say tells the exchanges from t.From on, as many as one answer holds. Those before are read as
// well: a result is known by the call that it answers.
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
			x.Entries = append(x.Entries, withInsertions(request, rec.Blocks, e, r)...)
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
