package learn

import (
	"context"
	"strings"

	"precept/bandit/feedback"
	"precept/internal/session"
)

// mostPassedOn bounds for how many units it is remembered what their members were told; of more
// they are told again.
const mostPassedOn = 4096

// units lets a unit and its members know what was said of each other (feedback/unit.go). It belongs
// to the closer's goroutine.
type units struct {
	memory  Memory
	be      tellers
	touches Touches

	said   map[session.Ref][]feedback.Entry // of units whose members close
	passed map[session.Ref]string           // what was said of a unit that its members have been told
}

// begin forgets what units were told: it is read anew.
func (u *units) begin() { u.said = map[session.Ref][]feedback.Entry{} }

// share is done when a member closes: its unit hears what it was told, in case it has not, and it
// hears what was said of the unit.
func (u *units) share(ctx context.Context, rec *session.Record) error {
	of := rec.Member()
	at := session.Ref{Tenant: rec.Identity.Tenant, ID: of.Unit}
	said, ok := u.said[at]
	if !ok {
		var err error
		if said, err = u.be.Feedback(ctx, rec.Identity.Tenant, of.Unit); err != nil {
			return err
		}
		u.said[at] = said
	}
	own, err := u.be.Feedback(ctx, rec.Identity.Tenant, of.ID)
	if err != nil {
		return err
	}
	if list := feedback.Missing(feedback.ForUnit(of.ID.String(), of.MemberNo, own), said); len(list) > 0 {
		if err := u.touches.Tell(ctx, rec.Identity.Tenant, map[session.ID][]feedback.Entry{of.Unit: list}); err != nil {
			return err
		}
	}
	if list := feedback.Missing(feedback.ForMembers(of.Unit.String(), said), own); len(list) > 0 {
		err = u.touches.Tell(ctx, rec.Identity.Tenant, map[session.ID][]feedback.Entry{of.ID: list})
	}
	return err
}

// passToMembers lets the members of a unit know what was said of it, when that is news. Who becomes
// one later asks when it closes.
func (u *units) passToMembers(ctx context.Context, at session.Ref) error {
	of, ok, err := u.memory.Known(ctx, at.Tenant, at.ID)
	if err != nil || !ok || of.Members == 0 {
		return err
	}
	entries, err := u.be.Feedback(ctx, at.Tenant, at.ID)
	if err != nil {
		return err
	}
	list := feedback.ForMembers(at.ID.String(), entries)
	if len(list) == 0 {
		return nil
	}
	var hashes strings.Builder
	for i := range list {
		hashes.WriteString(list[i].Hash)
	}
	news := hashes.String()
	if u.passed[at] == news {
		return nil
	}
	if len(u.passed) >= mostPassedOn || u.passed == nil {
		u.passed = map[session.Ref]string{}
	}
	err = session.EachMember(ctx, u.be, at.Tenant, &of, func(ids []session.ID) error {
		told := make(map[session.ID][]feedback.Entry, len(ids))
		for _, one := range ids {
			told[one] = list
		}
		return u.touches.Tell(ctx, at.Tenant, told)
	})
	if err == nil {
		u.passed[at] = news
	}
	return err
}
