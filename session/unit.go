package session

import (
	"fmt"
	"time"

	"precept/wire"
)

// ByRun is the method of a run's own record: it is no conversation.
const ByRun Method = "run"

// NewRun begins the memory of a run: what was drawn for all of its sessions.
func NewRun(tenant string, c Claim, name string, id ID, now time.Time) *Record {
	now = now.UTC()
	return &Record{ID: id, Tenant: tenant, Agent: c.Agent, Name: name, Method: ByRun, Started: now, Seen: now, IsRun: true, Dirty: true}
}

// UnitID is the ID of the record that the session draws through, false when it is its own. It never
// changes: no lock is needed.
func (r *Record) UnitID() (ID, bool) {
	if r.Unit == "" {
		return ID{}, false
	}
	return ParseID(r.Unit)
}

// Shared says that other sessions draw through the record. Lock it.
func (r *Record) Shared() bool { return r.IsRun || r.Members > 0 }

// AddMember makes the session of rec a member. Lock the unit's record; rec's is nobody else's yet.
func (r *Record) AddMember(rec *Record) {
	r.Members++
	r.Dirty = true
	rec.MemberNo = r.Members
}

// CountTurn counts a turn of a member. Lock the record.
func (r *Record) CountTurn(now time.Time) {
	if now = now.UTC(); now.After(r.Seen) {
		r.Seen = now
	}
	r.Dirty = true
	if r.IsRun {
		r.Turns++
	}
}

// Spend adds what a member's turn cost. Lock the record.
func (r *Record) Spend(u wire.Usage) {
	r.Used.Input += int64(max(u.Input, 0))
	r.Used.Cached += int64(max(u.Cached, 0))
	r.Dirty = true
}

// MemberKey is the key under which the member of that number is found.
func MemberKey(tenant string, unit ID, seat int) EchoKey {
	return EchoKeyOf(tenant, 0, fmt.Sprintf("m:%s/%d", unit, seat))
}

// RunEcho is the key under which feedback on a run waits for it.
func RunEcho(tenant, name string) EchoKey { return EchoKeyOf(tenant, 0, "u:"+Bounded(name)) }

// merge takes over what was drawn at another replica. Lock the record.
func (r *Record) merge(n *Record) {
	r.Assignment.Merge(&n.Assignment, r.before(n))
	r.Members = max(r.Members, n.Members)
}

// before says whose beginning stands: the earlier one's.
func (r *Record) before(n *Record) bool {
	if !r.Started.Equal(n.Started) {
		return r.Started.Before(n.Started)
	}
	return r.Assignment.Category <= n.Assignment.Category
}

// Join takes over what another replica knows of a unit. Each of them may have gone on: nothing of
// either is lost. Lock the record.
func (r *Record) Join(n *Record) {
	if !r.IsRun { // a conversation has one newest state
		if n.Turns > r.Turns || n.Turns == r.Turns && n.Seen.After(r.Seen) {
			r.Adopt(n)
			return
		}
		r.merge(n)
		return
	}
	r.merge(n)
	if n.Started.Before(r.Started) {
		r.Started, r.Agent = n.Started, n.Agent
	}
	if n.Seen.After(r.Seen) {
		r.Seen = n.Seen
	}
	r.Turns = max(r.Turns, n.Turns)
	if n.Used.Input > r.Used.Input {
		r.Used = n.Used
	}
	r.Closed, r.Kept = r.Closed || n.Closed, true
}

// Merged is what stands where a unit's row is written over another one that this replica may not
// have seen.
func Merged(old, row Row) (Row, error) {
	was, err := Decode(old.ID, old.Data)
	if err != nil {
		return row, err
	}
	rec, err := Decode(row.ID, row.Data)
	if err != nil {
		return row, err
	}
	switch {
	case old.StandIn && !row.StandIn:
		return row, nil
	case row.StandIn && !old.StandIn:
		return old, nil
	}
	rec.Join(was)
	if rec.Seen.Before(old.Seen) {
		rec.Seen = old.Seen
	}
	data, err := rec.Encode()
	if err != nil {
		return row, err
	}
	row.Started, row.Seen, row.Closed, row.Data = rec.Started, rec.Seen, row.Closed || old.Closed, data
	return row, nil
}
