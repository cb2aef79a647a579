package session

import (
	"context"
	"slices"
)

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
