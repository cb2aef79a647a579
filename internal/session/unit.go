package session

import (
	"context"
	"fmt"
	"slices"
	"time"

	"precept/internal/wire"
)

// ByRun is the method of a run's own record: it is no conversation.
const ByRun Method = "run"

// NewRun begins the memory of a run: what was drawn for all of its sessions.
func NewRun(tenant string, c Claim, name string, id ID, now time.Time) *Record {
	now = now.UTC()
	return &Record{
		Identity: Identity{ID: id, Tenant: tenant, Agent: c.Agent, Name: name, Method: ByRun, Started: now, Seen: now},
		Unit:     Unit{IsRun: true},
		State:    State{Dirty: true},
	}
}

// UnitID is the ID of the record that the session draws through, false when it is its own. It never
// changes: no lock is needed.
func (r *Record) UnitID() (ID, bool) {
	if r.Unit.ID == "" {
		return ID{}, false
	}
	return ParseID(r.Unit.ID)
}

// Shared says that other sessions draw through the record. Lock it.
func (r *Record) Shared() bool { return r.Unit.IsRun || r.Unit.Members > 0 }

// AddMember makes the session of rec a member. Lock the unit's record; rec's is nobody else's yet.
func (r *Record) AddMember(rec *Record) {
	r.Unit.Members++
	r.State.Dirty = true
	rec.Unit.MemberNo = r.Unit.Members
}

// CountTurn counts a turn of a member. Lock the record.
func (r *Record) CountTurn(now time.Time) {
	if now = now.UTC(); now.After(r.Identity.Seen) {
		r.Identity.Seen = now
	}
	r.State.Dirty = true
	if r.Unit.IsRun {
		r.Thread.Turns++
	}
}

// Spend adds what a member's turn cost. Lock the record.
func (r *Record) Spend(u wire.Usage) {
	r.Thread.Used.Input += int64(max(u.Input, 0))
	r.Thread.Used.Cached += int64(max(u.Cached, 0))
	r.State.Dirty = true
}

// MemberKey is the key under which the member of that number is found.
func MemberKey(tenant string, unit ID, seat int) EchoKey {
	return EchoKeyOf(tenant, fmt.Sprintf("m:%s/%d", unit, seat))
}

// RunEcho is the key under which feedback on a run waits for it.
func RunEcho(tenant, name string) EchoKey { return EchoKeyOf(tenant, "u:"+Bounded(name)) }

// memberStep is how many members are looked for in one step.
const memberStep = 256

// Member is who a session is, for feedback.
type Member struct {
	ID       ID
	Unit     ID // none: its own
	MemberNo int
	Members  int
	Name     string
	Run      string // its name, of a run's own row
}

// Member says who the session is. Lock the record.
func (r *Record) Member() Member {
	m := Member{ID: r.Identity.ID, MemberNo: r.Unit.MemberNo, Members: r.Unit.Members, Name: r.Identity.Name}
	m.Unit, _ = r.UnitID()
	if r.Unit.IsRun {
		m.Name, m.Run = "", r.Identity.Name
	}
	return m
}

// Finder looks up in which sessions something went by.
type Finder interface {
	FindEcho(ctx context.Context, tenant string, keys []EchoKey) (map[EchoKey][]ID, error)
}

// EachMember goes through a unit's members, some at a time.
func EachMember(ctx context.Context, in Finder, tenant string, of *Member, use func(ids []ID) error) error {
	all := make([]EchoKey, of.Members)
	for i := range all {
		all[i] = MemberKey(tenant, of.ID, i+1)
	}
	for keys := range slices.Chunk(all, memberStep) {
		found, err := in.FindEcho(ctx, tenant, keys)
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
