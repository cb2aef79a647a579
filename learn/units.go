package learn

import (
	"context"
	"strings"

	"precept/bandit/feedback"
	"precept/internal/session"
)

// mostPassedOn bounds the units whose passed feedback is remembered. Beyond the bound, members get
// the same feedback again, without effect.
const mostPassedOn = 4096

// units exchange feedback between a unit and its members (feedback/unit.go). Only the goroutine of
// Learner.Run uses units.
type units struct {
	memory  Memory
	be      tellers
	touches Touches

	feedback   map[session.Ref][]feedback.Entry // feedback of units with closing members
	lastPassed map[session.Ref]string           // last feedback of a unit that was passed to the members
}

// reset drops the cached feedback of units.
func (u *units) reset() { u.feedback = map[session.Ref][]feedback.Entry{} }

// share exchanges the feedback of a closing member with the unit, in both directions.
func (u *units) share(ctx context.Context, rec *session.Record) error {
	of := rec.Member()
	at := session.Ref{Tenant: rec.Identity.Tenant, ID: of.Unit}
	entries, ok := u.feedback[at]
	if !ok {
		var err error
		if entries, err = u.be.Feedback(ctx, rec.Identity.Tenant, of.Unit); err != nil {
			return err
		}
		u.feedback[at] = entries
	}
	own, err := u.be.Feedback(ctx, rec.Identity.Tenant, of.ID)
	if err != nil {
		return err
	}
	if list := feedback.Missing(feedback.ForUnit(of.ID.String(), of.MemberNo, own), entries); len(list) > 0 {
		if err := u.touches.PostFeedback(ctx, rec.Identity.Tenant, map[session.ID][]feedback.Entry{of.Unit: list}); err != nil {
			return err
		}
	}
	if list := feedback.Missing(feedback.ForMembers(of.Unit.String(), entries), own); len(list) > 0 {
		err = u.touches.PostFeedback(ctx, rec.Identity.Tenant, map[session.ID][]feedback.Entry{of.ID: list})
	}
	return err
}

// passToMembers passes new feedback on a unit to the members. A session that becomes a member later
// gets the feedback at closing.
func (u *units) passToMembers(ctx context.Context, at session.Ref) error {
	of, ok, err := u.memory.Member(ctx, at.Tenant, at.ID)
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
	if u.lastPassed[at] == news {
		return nil
	}
	if len(u.lastPassed) >= mostPassedOn || u.lastPassed == nil {
		u.lastPassed = map[session.Ref]string{}
	}
	err = session.EachMember(ctx, u.be, at.Tenant, &of, func(ids []session.ID) error {
		perMember := make(map[session.ID][]feedback.Entry, len(ids))
		for _, one := range ids {
			perMember[one] = list
		}
		return u.touches.PostFeedback(ctx, at.Tenant, perMember)
	})
	if err == nil {
		u.lastPassed[at] = news
	}
	return err
}
