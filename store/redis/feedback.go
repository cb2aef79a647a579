package redis

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strconv"

	goredis "github.com/redis/go-redis/v9"

	"precept/bandit/feedback"
	"precept/internal/session"
)

// An entry is kept as its rank and its JSON: scripts compare the ranks.
func packEntry(e *feedback.Entry) (string, error) {
	data, err := e.Encode()
	if err != nil {
		return "", fmt.Errorf("feedback %q: %w: %w", e.ID, session.ErrInvalid, err)
	}
	return string(append(feedback.Rank(e.At, data), data...)), fits("feedback "+e.ID, len(data))
}

func unpackEntry(v string) (e feedback.Entry, err error) {
	if len(v) < feedback.RankSize {
		return e, fmt.Errorf("%w: a feedback is cut", ErrCorrupt)
	}
	if err := json.Unmarshal([]byte(v[feedback.RankSize:]), &e); err != nil {
		return e, fmt.Errorf("%w: a feedback does not parse: %w", ErrCorrupt, err)
	}
	return e, nil
}

// AddFeedback joins entries to the sets of sessions and says how many changed each set: an entry
// with a new id, or a later version of one that is there. Sessions whose set stayed as it was are
// left out. Every order of arrival ends in the same set. session.FeedbackFull tells what a full set
// has no room for. When it fails otherwise, some entries may have been added; do it again.
func (s *Store) AddFeedback(ctx context.Context, tenant string, entries map[session.ID][]feedback.Entry) (map[session.ID]int, error) {
	p, base := newPlan("feedback"), s.base(tenant)
	var of []session.ID
	for _, id := range slices.SortedFunc(maps.Keys(entries), func(a, b session.ID) int { return bytes.Compare(a[:], b[:]) }) {
		for _, e := range entries[id] {
			v, err := packEntry(&e)
			if err != nil {
				return nil, fmt.Errorf("redis: add feedback: %w", err)
			}
			p.add(base, string(id[:]), score(e.At), digest(e.ID), v, strconv.Itoa(s.opt.MaxFeedback))
			of = append(of, id)
		}
	}
	if err := s.commit(ctx, "add feedback", p, tenant); err != nil {
		return nil, err
	}
	return tally(p, of)
}

// tally adds up how many entries changed each session's set; numbers below 0 count what found no
// room.
func tally(p *plan, of []session.ID) (map[session.ID]int, error) {
	added, left := map[session.ID]int{}, session.FeedbackFull(0)
	for i, n := range p.answers() {
		if n > 0 {
			added[of[i]] += int(n)
		} else {
			left -= session.FeedbackFull(n)
		}
	}
	if left > 0 {
		return added, left
	}
	return added, nil
}

// Feedback lists a session's set by time, then id.
func (s *Store) Feedback(ctx context.Context, tenant string, id session.ID) ([]feedback.Entry, error) {
	list, _, err := s.Heard(ctx, tenant, id)
	return list, err
}

// Heard is Feedback, with what a settlement that is made of it says of it
// (session.Settlement.Heard).
func (s *Store) Heard(ctx context.Context, tenant string, id session.ID) (list []feedback.Entry, heard int64, err error) {
	err = s.do(ctx, "feedback", func(c client) error {
		pipe := c.Pipeline()
		n := pipe.HGet(ctx, s.sessionKey(tenant, id), "n") // first: what comes in between is not taken for heard
		values := pipe.HVals(ctx, s.base(tenant)+"f:"+id.String())
		if err := each(ctx, pipe); err != nil {
			return err
		}
		heard = integer(n.Val())
		list, err = unpackEntries(values.Val())
		return err
	})
	return list, heard, err
}

// Unsettled lists closed sessions to which feedback or exchanges came since they were settled, at
// most limit of each tenant, in no order.
func (s *Store) Unsettled(ctx context.Context, limit int) (list []session.Unsettled, err error) {
	some := func(p goredis.Pipeliner, base string) *goredis.StringSliceCmd {
		return p.SRandMemberN(ctx, base+"unsettled", int64(limit))
	}
	err = askAll(ctx, s, "unsettled", some, func(name string, ids *goredis.StringSliceCmd) error {
		for _, id := range ids.Val() {
			list = append(list, session.Unsettled{Tenant: name, ID: toID(id)})
		}
		return nil
	})
	return list, err
}

func unpackEntries(values []string) (list []feedback.Entry, err error) {
	for _, v := range values {
		e, err := unpackEntry(v)
		if err != nil {
			return nil, err
		}
		list = append(list, e)
	}
	feedback.Sort(list)
	return list, nil
}
