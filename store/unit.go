package store

import (
	"context"
	"maps"
	"slices"

	"precept/feedback"
	"precept/session"
)

// How feedback goes between a unit and its members: feedback/unit.go.

// passToUnits adds to what the traffic says of members what it says of their units. Of those that
// cannot be asked just now the closing will tell.
func (f *poster) passToUnits(ctx context.Context, tenant string, entries map[session.ID][]feedback.Entry) {
	for _, id := range slices.Collect(maps.Keys(entries)) {
		of, ok, err := f.Known(ctx, tenant, id)
		if err != nil || !ok || of.Unit == (session.ID{}) {
			continue
		}
		if list := feedback.ForUnit(of.ID.String(), of.MemberNo, entries[id]); len(list) > 0 {
			entries[of.Unit] = append(entries[of.Unit], list...)
		}
	}
}

// passToUnit lets the unit of a session know what the session was told, where it has one.
func (f *poster) passToUnit(ctx context.Context, tenant string, id session.ID) error {
	of, ok, err := f.Known(ctx, tenant, id)
	if err != nil || !ok || of.Unit == (session.ID{}) {
		return err
	}
	entries, err := f.be.Feedback(ctx, tenant, of.ID)
	if err != nil {
		return err
	}
	list := feedback.ForUnit(of.ID.String(), of.MemberNo, entries)
	if len(list) == 0 {
		return nil
	}
	return f.Tell(ctx, tenant, map[session.ID][]feedback.Entry{of.Unit: list})
}
