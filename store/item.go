package store

import (
	"cmp"
	"context"
	"slices"
	"strings"
	"time"

	"precept/bandit/trial"
	"precept/internal/price"
	"precept/internal/sample"
	"precept/internal/session"
)

// SessionItem is a session in a list.
type SessionItem struct {
	ID       string    `json:"session_id"`
	Name     string    `json:"name"`
	Tenant   string    `json:"tenant"`
	Run      string    `json:"run,omitempty"`    // name of the run or parent session
	Parent   string    `json:"parent,omitempty"` // a sub-agent's parent session, whose input tokens and cost include this session's
	Agent    string    `json:"agent"`
	Model    string    `json:"model,omitempty"`
	Dialect  string    `json:"dialect,omitempty"`
	Method   string    `json:"method,omitempty"` // how the session was identified
	Started  time.Time `json:"started"`
	Seen     time.Time `json:"seen"`
	Closed   bool      `json:"closed"`
	Turns    int       `json:"turns"`
	Loops    int       `json:"loops"`
	Matched  []string  `json:"matched"`
	Injected []string  `json:"injected"`
	Withheld []string  `json:"withheld"`
	Control  bool      `json:"control"`  // in the control group
	Excluded bool      `json:"excluded"` // excluded from the experiment
	Refused  bool      `json:"refused"`  // the upstream rejected a block, so precept forwards requests unchanged
	Reward   *float64  `json:"reward"`   // null: no feedback, or the session is open
	Tier     int       `json:"tier,omitempty"`
	Verdict  string    `json:"verdict"`
	Input    int64     `json:"input_tokens"`
	Cached   int64     `json:"cached_tokens"`
	Written  int64     `json:"cache_write_tokens"` // input tokens written to the provider's prompt cache
	Found    *Found    `json:"found,omitempty"`    // first search hit

	Task           string       `json:"task,omitempty"` // user's first words; empty: the session opted out, or an older release stored the row
	Seconds        float64      `json:"seconds"`        // from the start to the newest reply's end
	Errors         *int         `json:"errors"`         // failed tool results; null: some turns are unknown, such as turns from an older release
	Output         *int64       `json:"output_tokens"`  // null: some turns are unknown
	Tools          []string     `json:"tools"`          // names of the called tools
	ErrorKinds     []string     `json:"error_kinds"`    // kinds of failed tool results, and upstream-STATUS for failed replies
	Tags           []string     `json:"tags"`           // tags sent by the client
	Length         string       `json:"length"`         // first task's length class: s (under 100 bytes), m (500), l (4,000) or xl; empty: no lesson was considered
	Cost           *float64     `json:"cost"`           // cost at the models' prices (see prices in the configuration); null: a model has no price
	Models         []ModelUsage `json:"models"`         // tokens by model, most input tokens first; a sub-agent's tokens also count for the parent session
	CoversAllTurns bool         `json:"-"`              // Tools, ErrorKinds and Tags cover all turns

	ExcludedFor trial.ExclusionReason `json:"excluded_for,omitempty"` // why the session is excluded; empty: not excluded, or excluded by an older release
}

// ModelUsage holds a session's tokens with one model.
type ModelUsage struct {
	Model       string   `json:"model"`                 // empty: unknown
	Input       int64    `json:"input_tokens"`          // including cached and written tokens
	Cached      int64    `json:"cached_tokens"`         // read from the provider's prompt cache
	Written     int64    `json:"cache_write_tokens"`    // written to the prompt cache
	WrittenHour int64    `json:"cache_write_1h_tokens"` // part of cache_write_tokens that the cache keeps for an hour
	Output      int64    `json:"output_tokens"`
	Cost        *float64 `json:"cost"` // null: the model has no price
}

// Tokens returns the counts.
func (m *ModelUsage) Tokens() price.Tokens {
	return price.Tokens{Input: m.Input, Cached: m.Cached, Written: m.Written, WrittenHour: m.WrittenHour, Output: m.Output}
}

// hasFate reports whether a lesson has a fate in the session (see Fates). An empty slug means any lesson, and an empty
// fate any fate.
func (s *SessionItem) hasFate(slug, fate string) bool {
	list := s.Matched
	switch fate {
	case FateTreated:
		if s.Control {
			return false
		}
	case FateInjected:
		list = s.Injected
	case FateWithheld:
		list = s.Withheld
	case FateControl:
		if !s.Control {
			return false
		}
		if slug == "" {
			return true
		}
	}
	if slug == "" {
		return len(list) > 0
	}
	return slices.Contains(list, slug) || fate == "" && (slices.Contains(s.Injected, slug) || slices.Contains(s.Withheld, slug))
}

// itemBuilder converts stored sessions to list items. It reads each unit (a run or a parent session) once, because the
// unit's sessions share a reward and a random lesson assignment.
type itemBuilder struct {
	archive *Archive
	units   map[session.ID]*unit
}

type unit struct {
	record  *session.Record // nil means that the unit is not stored
	settled session.SettledState
	closed  bool
}

func newItemBuilder(a *Archive) *itemBuilder {
	return &itemBuilder{archive: a, units: map[session.ID]*unit{}}
}

// item returns a stored session's list item. ok is false for a hidden session, and for a run, because a run is not a
// conversation.
func (b *itemBuilder) item(ctx context.Context, l *session.ListedSession) (x SessionItem, ok bool, err error) {
	rec, err := session.Decode(l.Row.ID, l.Row.Data)
	if err != nil { // the record is damaged, or from a different version
		rec = &session.Record{Identity: session.Identity{Name: l.Row.ID.String()}}
	}
	if rec.IsShared() {
		b.units[l.Row.ID] = &unit{rec, l.SettledState, l.Row.Closed}
	}
	if rec.Unit.IsRun || b.archive.Hides(l.Row.Tenant, rec.Identity.Agent) {
		return x, false, nil
	}
	x, err = b.itemFromRecord(ctx, l, rec)
	return x, true, err
}

func (b *itemBuilder) itemByID(ctx context.Context, tenant string, id session.ID) (x SessionItem, ok bool, err error) {
	row, ok, err := b.archive.backend.Session(ctx, tenant, id)
	if err != nil || !ok {
		return x, false, err
	}
	settled, err := b.archive.backend.SettledState(ctx, tenant, id)
	if err != nil {
		return x, false, err
	}
	return b.item(ctx, &session.ListedSession{Row: row, SettledState: settled})
}

func (b *itemBuilder) readUnit(ctx context.Context, rec *session.Record) (*unit, error) {
	id, ok := rec.UnitID()
	if !ok {
		return nil, nil //nolint:nilnil // most sessions have no unit
	}
	if u := b.units[id]; u != nil {
		return u, nil
	}
	row, ok, err := b.archive.backend.Session(ctx, rec.Identity.Tenant, id)
	if err != nil {
		return nil, err
	}
	u := &unit{closed: row.Closed}
	if ok {
		if u.record, err = session.Decode(id, row.Data); err != nil {
			u.record = nil // the record is damaged, or from a different version
		}
		if u.settled, err = b.archive.backend.SettledState(ctx, rec.Identity.Tenant, id); err != nil {
			return nil, err
		}
	}
	b.units[id] = u
	return u, nil
}

func (b *itemBuilder) itemFromRecord(ctx context.Context, l *session.ListedSession, rec *session.Record) (SessionItem, error) {
	x := SessionItem{
		ID: l.Row.ID.String(), Name: rec.Identity.Name, Tenant: l.Row.Tenant, Agent: rec.Identity.Agent, Model: rec.Identity.Model, Dialect: rec.Identity.Dialect.String(), Method: string(rec.Identity.Method),
		Started: l.Row.Started, Seen: l.Row.Seen, Closed: l.Row.Closed || l.SettledState.Version > 0, Turns: rec.Thread.Turns, Loops: rec.Lessons.Loops.Count,
		Matched: append([]string{}, rec.Lessons.Matched...), Injected: []string{}, Withheld: []string{},
		Control: rec.Assignment.Control, Excluded: rec.Assignment.Excluded, ExcludedFor: rec.Assignment.ExcludedFor, Refused: rec.State.PassThrough,
		Input: rec.Thread.Used.Input, Cached: rec.Thread.Used.Cached, Verdict: StillOpen,
	}
	b.archive.addFacts(&x, rec)
	x.addModels(rec)
	x.Run = rec.Unit.RunName
	if rec.Unit.IsRun {
		x.Run = rec.Identity.Name
	}
	assignment, settled := &rec.Assignment, l.SettledState
	u, err := b.readUnit(ctx, rec)
	if err != nil {
		return x, err
	}
	if u != nil && u.record != nil {
		assignment = &u.record.Assignment
		if !u.record.Unit.IsRun {
			x.Parent = u.record.Identity.ID.String()
		}
		x.Control, x.Excluded = assignment.Control, x.Excluded || assignment.Excluded
		x.ExcludedFor = cmp.Or(x.ExcludedFor, assignment.ExcludedFor)
		x.Closed = x.Closed || u.closed || u.settled.Version > 0
		if u.settled.Version > 0 || !settled.Rewarded { // the unit's reward is each session's reward
			settled = u.settled
		}
	}
	_, _, x.Length = trial.CategoryParts(assignment.Category)
	x.addBuiltIn(assignment, u != nil)
	for i := range assignment.Picks {
		p := &assignment.Picks[i]
		switch {
		case u != nil && !slices.Contains(x.Matched, p.Slug): // a pick in another session of the unit
		case p.Injected:
			x.Injected = append(x.Injected, p.Slug)
		default:
			x.Withheld = append(x.Withheld, p.Slug)
		}
	}
	if x.Closed {
		x.Verdict = Unrated
	}
	if settled.Rewarded {
		reward := settled.Reward
		x.Reward, x.Tier, x.Verdict = &reward, settled.Tier, sample.ScoreLabel(reward)
	}
	return x, nil
}

// addModels sets the tokens by model.
func (s *SessionItem) addModels(rec *session.Record) {
	output := int64(0)
	if s.Output != nil {
		output = *s.Output
	}
	s.Models = []ModelUsage{}
	for model, t := range rec.TokensByModel(output) {
		s.Models = append(s.Models, ModelUsage{Model: model, Input: t.Input, Cached: t.Cached, Written: t.Written, WrittenHour: t.WrittenHour, Output: t.Output})
		s.Written += t.Written
	}
	slices.SortFunc(s.Models, func(x, y ModelUsage) int {
		return cmp.Or(cmp.Compare(y.Input, x.Input), strings.Compare(x.Model, y.Model))
	})
}

// addBuiltIn adds the loop warning and the measured rules file sections (parts of a CLAUDE.md or AGENTS.md) to the
// matched lessons, because only the assignment lists them. If other sessions share the assignment, addBuiltIn adds only
// the loop warning, and only if the session has a loop.
func (s *SessionItem) addBuiltIn(a *trial.Assignment, shared bool) {
	add := func(arm trial.Arm) {
		slug := arm.Slug()
		if (arm == trial.LoopArm && (!shared || s.Loops > 0) || arm.IsRule() && !shared) && !slices.Contains(s.Matched, slug) {
			s.Matched = append(s.Matched, slug)
		}
	}
	for i := range a.Matched {
		add(a.Matched[i].Arm)
	}
	for i := range a.Picks {
		add(a.Picks[i].Arm)
	}
}

// addFacts sets the fields that come from rec.Facts. Older releases' rows have no facts.
func (a *Archive) addFacts(x *SessionItem, rec *session.Record) {
	f := &rec.Facts
	x.Tools, x.ErrorKinds, x.Tags = append([]string{}, f.Tools...), append([]string{}, f.ErrorKinds...), append([]string{}, f.Tags...)
	ended := f.Ended
	x.CoversAllTurns = f.Turns > 0 && f.Turns >= rec.Thread.Turns
	if f.Turns > 0 && f.Turns >= cmp.Or(f.Newest, rec.Thread.Turns) {
		errors, output := f.Errors, f.Output
		x.Errors, x.Output = &errors, &output
	}
	// An imported session's last use is the import time.
	if ended.Before(x.Seen) && rec.Identity.Method != session.ByImport {
		ended = x.Seen
	}
	x.Seconds = max(ended.Sub(x.Started).Seconds(), 0)
	// If the opt-out patterns have changed since the row was stored, a call in the first turn might name an opted-out
	// path. The row does not contain the calls, so the task stays hidden.
	if o := a.optOut.Load(); o.PathHash() == "" || o.PathHash() == f.Paths && !o.NamesPath(f.Task) {
		x.Task = f.Task
	}
}
