package redis

import (
	"bytes"
	"context"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"time"

	goredis "github.com/redis/go-redis/v9"

	"precept/bandit/feedback"
	"precept/internal/session"
)

// packEntry encodes an entry as its rank and its JSON. Scripts compare the ranks.
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

// AddFeedback adds entries to the sets of sessions and returns the number of entries that changed
// each set: new ids, and later versions of known ids. Sessions without a change are left out. Every
// order of arrival results in the same set. The error is a session.FeedbackFull if a set has no
// room. After any other error some entries may have been added: repeat the call.
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

// tally adds up the entries that changed each set. Numbers below 0 count entries without room.
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

// Feedback returns the set of a session, by time and id.
func (s *Store) Feedback(ctx context.Context, tenant string, id session.ID) ([]feedback.Entry, error) {
	list, _, err := s.SessionFeedback(ctx, tenant, id)
	return list, err
}

// SessionFeedback returns the feedback of a session, and the value that session.Settlement.FeedbackState must have in
// a settlement based on the feedback.
func (s *Store) SessionFeedback(ctx context.Context, tenant string, id session.ID) (list []feedback.Entry, state int64, err error) {
	err = s.do(ctx, "feedback", func(c client) error {
		pipe := c.Pipeline()
		n := pipe.HGet(ctx, s.sessionKey(tenant, id), "n") // read first: feedback that arrives between the two reads stays unsettled
		values := pipe.HVals(ctx, s.base(tenant)+"f:"+id.String())
		if err := each(ctx, pipe); err != nil {
			return err
		}
		state = integer(n.Val())
		list, err = unpackEntries(values.Val())
		return err
	})
	return list, state, err
}

// Unsettled returns closed sessions with feedback or exchanges after their settlement, at most
// limit of each tenant, in no order.
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

// OpenFeedback returns at most limit open sessions of a tenant with feedback, and all feedback of
// each. The sessions are in the order of their newest feedback, oldest first, from the place after
// on: 0, or the place last of the previous call.
func (s *Store) OpenFeedback(ctx context.Context, tenant string, after int64, limit int) (rows []session.Row, entries [][]feedback.Entry, last int64, err error) {
	err = s.do(ctx, "feedback of open sessions", func(c client) error {
		key := s.base(tenant) + "told"
		last = after
		pipe := c.Pipeline()
		latest := pipe.HGet(ctx, s.base(tenant)+"t", "told")
		page := pipe.ZRangeByScoreWithScores(ctx, key, openBehind(after, limit))
		if err := each(ctx, pipe); err != nil {
			return err
		}
		list := page.Val()
		if integer(latest.Val()) < after { // the server has lost data, and the places start below after
			last = 0
			if list, err = c.ZRangeByScoreWithScores(ctx, key, openBehind(0, limit)).Result(); err != nil {
				return err
			}
		}
		rows, entries, err = s.openFeedback(ctx, c, tenant, list)
		switch {
		case err != nil:
		case len(list) < limit: // the last page: later places belong to sessions that left the list
			last = integer(latest.Val())
		default:
			last = int64(list[len(list)-1].Score)
		}
		return err
	})
	return rows, entries, last, err
}

func openBehind(after int64, limit int) *goredis.ZRangeBy {
	return &goredis.ZRangeBy{Min: "(" + strconv.FormatInt(after, 10), Max: "+inf", Count: int64(limit)}
}

// openFeedback returns the rows and the feedback of sessions. Sessions without a row are left out,
// as are sessions with unreadable feedback: the closing reports unreadable feedback, and other
// sessions must not wait.
func (s *Store) openFeedback(ctx context.Context, c client, tenant string, list []goredis.Z) (rows []session.Row, entries [][]feedback.Entry, err error) {
	ids := make([]session.ID, len(list))
	heads := make([]*goredis.SliceCmd, len(list))
	values := make([]*goredis.StringSliceCmd, len(list))
	pipe := c.Pipeline()
	for i, z := range list {
		member, _ := z.Member.(string)
		ids[i] = toID(member)
		heads[i] = pipe.HMGet(ctx, s.sessionKey(tenant, ids[i]), "h", "d", "i")
		values[i] = pipe.HVals(ctx, s.base(tenant)+"f:"+ids[i].String())
	}
	if len(list) == 0 {
		return nil, nil, nil
	}
	if err := each(ctx, pipe); err != nil {
		return nil, nil, err
	}
	for i, id := range ids {
		r, ok := toRow(tenant, id, heads[i].Val())
		if !ok {
			continue
		}
		if ofRow, err := unpackEntries(values[i].Val()); err == nil {
			rows, entries = append(rows, r), append(entries, ofRow)
		}
	}
	return rows, entries, nil
}

// Settled reports, for each session, whether the counters contain the session.
func (s *Store) Settled(ctx context.Context, tenant string, ids []session.ID) ([]bool, error) {
	out := make([]bool, 0, len(ids))
	err := s.do(ctx, "settled", func(c client) error {
		for part := range slices.Chunk(ids, 500) {
			cmds, err := piped(ctx, c, part, func(p goredis.Pipeliner, id session.ID) *goredis.BoolCmd {
				return p.HExists(ctx, s.sessionKey(tenant, id), "a")
			})
			if err != nil {
				return err
			}
			for _, cmd := range cmds {
				out = append(out, cmd.Val())
			}
		}
		return nil
	})
	return out, err
}

// Park stores feedback until the key occurs. Versions of one entry merge as in AddFeedback. The key
// may occur between the caller's look-up and Park: look the key up again afterwards.
func (s *Store) Park(ctx context.Context, tenant string, key session.EchoKey, e feedback.Entry) error {
	v, err := packEntry(&e)
	if err != nil {
		return fmt.Errorf("redis: park: %w", err)
	}
	k, n := echoBytes(key), 0
	err = s.change(ctx, "park", []string{tenant}, func(c client) error {
		n, err = s.script(ctx, c, "park", s.base(tenant), s.opt.MaxParked, s.opt.MaxFeedback, k, hex.EncodeToString([]byte(k)), digest(e.ID), score(e.At), v).Int()
		return err
	})
	if err == nil && n == 0 {
		err = fmt.Errorf("redis: park: %w", session.ErrParkingFull)
	}
	return err
}

// Join moves parked feedback to the sessions of the keys, each key in one step, and returns the
// number of entries that changed each set, as AddFeedback does.
func (s *Store) Join(ctx context.Context, tenant string, owners map[session.EchoKey]session.ID) (map[session.ID]int, error) {
	if len(owners) == 0 {
		return map[session.ID]int{}, ctx.Err()
	}
	p, base := newPlan("join"), s.base(tenant)
	var of []session.ID
	for _, k := range slices.Sorted(maps.Keys(owners)) {
		b, id := echoBytes(k), owners[k]
		p.add(base, b, hex.EncodeToString([]byte(b)), string(id[:]), strconv.Itoa(s.opt.MaxFeedback))
		of = append(of, id)
	}
	err := s.do(ctx, "join feedback", func(c client) error {
		waiting, err := c.ZCard(ctx, base+"parked").Result()
		if err != nil || waiting == 0 {
			p.calls = nil // the usual case
			return err
		}
		return s.run(ctx, c, p)
	})
	if err != nil {
		return nil, err
	}
	return tally(p, of)
}

// PurgeParked deletes parked feedback from before a time and returns the number of entries.
func (s *Store) PurgeParked(ctx context.Context, before time.Time) (n int, err error) {
	names, err := s.Tenants(ctx)
	if err != nil {
		return 0, err
	}
	for _, name := range names {
		gone, err := s.purge(ctx, name, "("+score(before))
		n += gone
		if err != nil {
			return n, err
		}
	}
	return n, nil
}

// purge deletes parked feedback of a tenant up to a bound, in steps.
func (s *Store) purge(ctx context.Context, tenant, bound string) (n int, err error) {
	for gone := callItems; gone == callItems; n += gone {
		gone, err = ask(ctx, s, "purge parked feedback", func(c client) (int, error) {
			return s.script(ctx, c, "purge", s.base(tenant), bound, callItems).Int()
		})
		if err != nil {
			return n, err
		}
	}
	return n, nil
}
