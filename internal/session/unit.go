package session

import (
	"context"
	"fmt"
	"slices"
	"time"

	"precept/bandit/trial"
	"precept/internal/price"
	"precept/internal/wire"
)

// ByRun is the Method of a run. A run is not a conversation.
const ByRun Method = "run"

// NewRun returns a run's record. All sessions in the run use this record's coins (random decisions) and picks (chosen
// lessons).
func NewRun(tenant string, c Claim, name string, id ID, now time.Time) *Record {
	now = now.UTC()
	return &Record{
		Identity: Identity{ID: id, Tenant: tenant, Agent: c.Agent, Name: name, Method: ByRun, Started: now, Seen: now},
		Unit:     Unit{IsRun: true},
		State:    State{Dirty: true},
	}
}

// UnitID returns the ID of the run or parent session that has this session's coins. ok is false if the session has its
// own coins.
func (r *Record) UnitID() (ID, bool) {
	if r.Unit.ID == "" {
		return ID{}, false
	}
	return ParseID(r.Unit.ID)
}

// IsShared reports whether other sessions use the coins and picks.
func (r *Record) IsShared() bool { return r.Unit.IsRun || r.Unit.Members > 0 }

// AddMember makes rec's session a member of the unit r, a run or a parent session. The caller locks r. No other
// goroutine may have rec yet.
func (r *Record) AddMember(rec *Record) {
	r.Unit.Members++
	r.State.Dirty = true
	rec.Unit.MemberNumber = r.Unit.Members
}

// CountTurn records a member's turn at now. A run adds the turn to Thread.Turns; a parent session counts only its own
// turns.
func (r *Record) CountTurn(now time.Time) {
	if now = now.UTC(); now.After(r.Identity.Seen) {
		r.Identity.Seen = now
	}
	r.State.Dirty = true
	if r.Unit.IsRun {
		r.Thread.Turns++
	}
}

// AddUsage adds the tokens from a member's turn with a model.
func (r *Record) AddUsage(model string, u wire.Usage) {
	r.countUsage(model, u)
	r.State.Dirty = true
}

func (r *Record) countUsage(model string, u wire.Usage) {
	in, cached, out := int64(max(u.Input, 0)), int64(max(u.Cached, 0)), int64(max(u.Output, 0))
	var t price.Tokens
	if !r.Unit.IsRun { // each session in a run has a cost, and the run has none
		t = price.Tokens{Input: in, Cached: min(cached, in), Written: int64(u.Written), WrittenHour: int64(u.WrittenHour), Output: out}
	}
	r.count(ReplicaCounts{Totals: trial.Totals{Tokens: in + out}, Used: trial.Usage{Input: in, Cached: cached}}, model, t)
}

// AddTotals adds the sums from a turn in the session or a member.
func (r *Record) AddTotals(seen trial.Totals) {
	r.count(ReplicaCounts{Totals: seen}, "", price.Tokens{})
}

// RecordActivity records that the session or a member had a request or reply at now.
func (r *Record) RecordActivity(now time.Time) {
	r.Thread.Totals.NewestMillis, r.State.Dirty = max(r.Thread.Totals.NewestMillis, now.UnixMilli()), true
}

// MemberKey returns the echo key for the member with this number.
func MemberKey(tenant string, unit ID, number int) EchoKey {
	return TenantEchoKey(tenant, fmt.Sprintf("m:%s/%d", unit, number))
}

// RunEchoKey returns the echo key under which feedback waits for a run that is not stored yet.
func RunEchoKey(tenant, name string) EchoKey { return TenantEchoKey(tenant, "u:"+NormalizeName(name)) }

const memberStep = 256 // maximum number of members per FindEcho call

// Member identifies a session, the unit and the unit's members, for feedback.
type Member struct {
	ID           ID
	Unit         ID // zero without a unit
	UnitName     string
	MemberNumber int
	Members      int // number of sessions in the unit, in the unit's own record
	Name         string
	Run          string // run name, in the run's own row
	Answered     bool   // an upstream successfully answered a main request
}

// Member returns the session's identity.
func (r *Record) Member() Member {
	m := Member{ID: r.Identity.ID, UnitName: r.Unit.RunName, MemberNumber: r.Unit.MemberNumber, Members: r.Unit.Members, Name: r.Identity.Name, Answered: r.State.Answered}
	m.Unit, _ = r.UnitID()
	if r.Unit.IsRun {
		m.Name, m.Run = "", r.Identity.Name
	}
	return m
}

// MemberNow is like Member, but locks the record.
func (r *Record) MemberNow() Member {
	r.Lock()
	defer r.Unlock()
	return r.Member()
}

// Finder finds the sessions for echo keys.
type Finder interface {
	FindEcho(ctx context.Context, tenant string, keys []EchoKey) (map[EchoKey][]ID, error)
}

// EachMember calls use with the IDs of a unit's members, with at most memberStep IDs per call.
func EachMember(ctx context.Context, finder Finder, tenant string, unit *Member, use func(ids []ID) error) error {
	all := make([]EchoKey, unit.Members)
	for i := range all {
		all[i] = MemberKey(tenant, unit.ID, i+1)
	}
	for keys := range slices.Chunk(all, memberStep) {
		found, err := finder.FindEcho(ctx, tenant, keys)
		if err != nil {
			return err
		}
		var ids []ID
		for _, key := range keys {
			ids = append(ids, found[key]...)
		}
		if len(ids) > 0 {
			if err := use(ids); err != nil {
				return err
			}
		}
	}
	return nil
}
