package learn

import (
	"context"
	"strings"

	"precept/bandit/feedback"
	"precept/internal/session"
)

// maxLastCopied bounds units.lastCopied. After a full map is emptied, members get the same feedback again, which has no
// effect.
const maxLastCopied = 4096

// units copies feedback between units and members (feedback/unit.go). Only the goroutine of Learner.Run uses it.
type units struct {
	memory  Memory
	backend memberReader
	touches Touches

	feedback   map[session.Ref][]feedback.Entry // for units with closing members
	lastCopied map[session.Ref]string           // by unit: hashes of the feedback that the members got last
}

func (u *units) reset() { u.feedback = map[session.Ref][]feedback.Entry{} }

// shareFeedback exchanges feedback between a closing member and the unit.
func (u *units) shareFeedback(ctx context.Context, rec *session.Record) error {
	member := rec.Member()
	unit := session.Ref{Tenant: rec.Identity.Tenant, ID: member.Unit}
	entries, ok := u.feedback[unit]
	if !ok {
		var err error
		if entries, err = u.backend.Feedback(ctx, rec.Identity.Tenant, member.Unit); err != nil {
			return err
		}
		u.feedback[unit] = entries
	}
	memberEntries, err := u.backend.Feedback(ctx, rec.Identity.Tenant, member.ID)
	if err != nil {
		return err
	}
	if list := feedback.Missing(feedback.ForUnit(member.ID.String(), member.MemberNumber, memberEntries), entries); len(list) > 0 {
		if err := u.touches.PostFeedback(ctx, rec.Identity.Tenant, map[session.ID][]feedback.Entry{member.Unit: list}); err != nil {
			return err
		}
	}
	if list := feedback.Missing(feedback.ForMembers(member.Unit.String(), entries), memberEntries); len(list) > 0 {
		err = u.touches.PostFeedback(ctx, rec.Identity.Tenant, map[session.ID][]feedback.Entry{member.ID: list})
	}
	return err
}

// copyToMembers copies new feedback on a unit to its members, and reports whether the unit is a run. A session that
// joins the unit later gets the feedback when that session closes.
func (u *units) copyToMembers(ctx context.Context, ref session.Ref) (isRun bool, err error) {
	unit, ok, err := u.memory.Member(ctx, ref.Tenant, ref.ID)
	isRun = unit.Run != ""
	if err != nil || !ok || unit.Members == 0 {
		return isRun, err
	}
	entries, err := u.backend.Feedback(ctx, ref.Tenant, ref.ID)
	if err != nil {
		return isRun, err
	}
	list := feedback.ForMembers(ref.ID.String(), entries)
	if len(list) == 0 {
		return isRun, nil
	}
	var hashes strings.Builder
	for i := range list {
		hashes.WriteString(list[i].Hash)
	}
	hashesText := hashes.String()
	if u.lastCopied[ref] == hashesText {
		return isRun, nil
	}
	if len(u.lastCopied) >= maxLastCopied || u.lastCopied == nil {
		u.lastCopied = map[session.Ref]string{}
	}
	err = session.EachMember(ctx, u.backend, ref.Tenant, &unit, func(ids []session.ID) error {
		perMember := make(map[session.ID][]feedback.Entry, len(ids))
		for _, id := range ids {
			perMember[id] = list
		}
		return u.touches.PostFeedback(ctx, ref.Tenant, perMember)
	})
	if err == nil {
		u.lastCopied[ref] = hashesText
	}
	return isRun, err
}
