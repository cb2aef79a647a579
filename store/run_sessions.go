package store

import (
	"context"
	"slices"

	"precept/internal/session"
)

// maxRunSessions is the maximum number of sessions in a RunSessions, not counting the parent.
const maxRunSessions = 200

// RunSessions lists the sessions of a run, or a parent session and the sessions that it started, oldest first.
type RunSessions struct {
	Name     string        `json:"name"`
	Sessions []SessionItem `json:"sessions"`
	Unlisted int           `json:"more"`    // number of unlisted sessions
	Reward   *float64      `json:"reward"`  // shared reward; null: none
	Verdict  string        `json:"verdict"` // verdict on the shared reward
}

// Run returns the sessions of the run or the parent session with the given name. If there is no such session, the error
// is ErrNoSession.
func (a *Archive) Run(ctx context.Context, tenant, name string) (RunSessions, error) {
	out := RunSessions{Name: name, Sessions: []SessionItem{}}
	listed, rec, err := a.find(ctx, tenant, name)
	if err != nil {
		return out, err
	}
	if a.Hides(tenant, rec.Identity.Agent) {
		return out, ErrNoSession
	}
	items := newItemBuilder(a)
	items.units[listed.Row.ID] = &unit{rec, listed.SettledState, listed.Row.Closed}
	x, err := items.itemFromRecord(ctx, &listed, rec)
	if err != nil {
		return out, err
	}
	out.Reward, out.Verdict = x.Reward, x.Verdict
	if !rec.Unit.IsRun {
		out.Sessions = append(out.Sessions, x)
	}
	member := rec.Member()
	out.Unlisted, member.Members = max(member.Members-maxRunSessions, 0), min(member.Members, maxRunSessions)
	err = session.EachMember(ctx, a.backend, tenant, &member, func(ids []session.ID) error {
		for _, id := range ids {
			x, ok, err := items.itemByID(ctx, tenant, id)
			if err != nil {
				return err
			}
			if ok {
				out.Sessions = append(out.Sessions, x)
			}
		}
		return nil
	})
	slices.SortStableFunc(out.Sessions, func(x, y SessionItem) int { return x.Started.Compare(y.Started) })
	return out, err
}
