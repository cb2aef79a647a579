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
	"strings"
	"time"

	goredis "github.com/redis/go-redis/v9"

	"precept/bandit/feedback"
	"precept/internal/session"
)

// packEntry encodes an entry as its rank (feedback.Rank) and JSON. If an entry has two versions, the scripts keep the
// version with the greater rank.
func packEntry(e *feedback.Entry) (string, error) {
	data, err := e.Encode()
	if err != nil {
		return "", fmt.Errorf("feedback %q: %w: %w", e.ID, session.ErrInvalid, err)
	}
	return string(append(feedback.Rank(e.At, data), data...)), checkSize("feedback "+e.ID, len(data))
}

func unpackEntry(v string) (e feedback.Entry, err error) {
	if len(v) < feedback.RankSize {
		return e, fmt.Errorf("%w: a feedback entry is truncated", ErrCorrupt)
	}
	if err := json.Unmarshal([]byte(v[feedback.RankSize:]), &e); err != nil {
		return e, fmt.Errorf("%w: a feedback entry does not parse: %w", ErrCorrupt, err)
	}
	return e, nil
}

// AddFeedback adds entries to sessions' feedback, and returns the number of changes by session. A later version of an
// entry replaces the earlier one, whichever arrives first.
//
// The error is a session.FeedbackFull if a session has reached the limit. After any other error the caller retries the
// call.
func (s *Store) AddFeedback(ctx context.Context, tenant string, entries map[session.ID][]feedback.Entry) (map[session.ID]int, error) {
	p := newPlan("feedback")
	var ids []session.ID
	for _, id := range slices.SortedFunc(maps.Keys(entries), func(a, b session.ID) int { return bytes.Compare(a[:], b[:]) }) {
		for _, e := range entries[id] {
			v, err := packEntry(&e)
			if err != nil {
				return nil, fmt.Errorf("redis: add feedback: %w", err)
			}
			p.add(sessionLocation(tenant, id), string(id[:]), timeScore(e.At), digest(e.ID), v, strconv.Itoa(s.options.MaxFeedback))
			ids = append(ids, id)
		}
	}
	if err := s.writePlan(ctx, "add feedback", p, tenant); err != nil {
		return nil, err
	}
	return sumAdded(p, ids)
}

// sumAdded returns the number of changes by session. A negative script result counts entries rejected at the feedback
// limit.
func sumAdded(p *plan, ids []session.ID) (map[session.ID]int, error) {
	added, rejected := map[session.ID]int{}, session.FeedbackFull(0)
	for i, n := range p.results() {
		if n > 0 {
			added[ids[i]] += int(n)
		} else {
			rejected -= session.FeedbackFull(n)
		}
	}
	if rejected > 0 {
		return added, rejected
	}
	return added, nil
}

// Feedback returns a session's feedback, ordered by time and id.
func (s *Store) Feedback(ctx context.Context, tenant string, id session.ID) ([]feedback.Entry, error) {
	list, _, err := s.SessionFeedback(ctx, tenant, id)
	return list, err
}

// FeedbackEntry returns the session's entry with the given id.
func (s *Store) FeedbackEntry(ctx context.Context, tenant string, id session.ID, entry string) (e feedback.Entry, ok bool, err error) {
	return s.feedbackEntry(ctx, func() string { return s.key(sessionLocation(tenant, id), "f:"+id.String()) }, entry)
}

// feedbackEntry returns the entry with the given id from the hash at key. ok is also false if the entry does not
// decode, or has a different id with the same digest.
func (s *Store) feedbackEntry(ctx context.Context, key func() string, id string) (e feedback.Entry, ok bool, err error) {
	text, err := doValue(ctx, s, "feedback entry", func(c client) (string, error) {
		text, err := c.HGet(ctx, key(), digest(id)).Result()
		if isAbsent(err) {
			err = nil
		}
		return text, err
	})
	if err != nil || text == "" {
		return feedback.Entry{}, false, err
	}
	e, decodeErr := unpackEntry(text)
	return e, decodeErr == nil && e.ID == id, nil
}

// SessionFeedback returns a session's feedback. Pass state as FeedbackState in a settlement that counts this feedback.
func (s *Store) SessionFeedback(ctx context.Context, tenant string, id session.ID) (list []feedback.Entry, state int64, err error) {
	err = s.do(ctx, "feedback", func(c client) error {
		pipe := c.Pipeline()
		n := pipe.HGet(ctx, s.sessionKey(tenant, id), "n") // read first, so that feedback between the two reads stays unsettled
		values := pipe.HVals(ctx, s.key(sessionLocation(tenant, id), "f:"+id.String()))
		if err := readPipeline(ctx, pipe); err != nil {
			return err
		}
		state = parseInt(n.Val())
		list, err = unpackEntries(values.Val())
		return err
	})
	return list, state, err
}

// UnsettledSessions returns at most limit closed sessions that got feedback or exchanges after the settlement. The
// order is random, so that replicas take different sessions.
func (s *Store) UnsettledSessions(ctx context.Context, limit int) (list []session.UnsettledSession, err error) {
	const size = len(session.ID{})
	found, total := map[keyspace][]string{}, 0
	err = s.do(ctx, "unsettled", func(c client) error {
		keyspaces, err := s.shardKeyspaces(ctx, c)
		for share := 0; err == nil && len(keyspaces) > 0 && total < limit; {
			share += (limit - total + len(keyspaces) - 1) / len(keyspaces)
			members, pipeErr := runPipelined(ctx, c, keyspaces, func(p goredis.Pipeliner, ks keyspace) *goredis.StringSliceCmd {
				return p.SRandMemberN(ctx, ks.listPrefix+"unsettled", int64(share))
			})
			if pipeErr != nil {
				return pipeErr
			}
			var more []keyspace // read again with a larger share
			for i, ks := range keyspaces {
				if total += len(members[i].Val()) - len(found[ks]); len(members[i].Val()) == share {
					more = append(more, ks)
				}
				found[ks] = members[i].Val()
			}
			keyspaces = more
		}
		return err
	})
	for remaining := true; remaining && len(list) < limit; { // each round takes one session per keyspace
		remaining = false
		for ks, members := range found {
			if len(members) == 0 || len(list) >= limit {
				continue
			}
			remaining, found[ks] = true, members[1:]
			if m := members[0]; len(m) >= size {
				list = append(list, session.UnsettledSession{Tenant: ks.memberTenant(m[size:]), ID: idFromBytes(m)})
			}
		}
	}
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

// RatedOpenSessions returns a tenant's open sessions that have feedback, at most limit, and their feedback. after is
// last from the previous call; "" means the start. Each shard gets an equal share of the limit, and orders the sessions
// by newest feedback.
func (s *Store) RatedOpenSessions(ctx context.Context, tenant, after string, limit int) (rows []session.Row, entries [][]feedback.Entry, last string, err error) {
	err = s.do(ctx, "feedback of open sessions", func(c client) error {
		keyspaces, sequences := s.tenantKeyspaces(tenant), parseSequences(after)
		latest, err := s.newestFeedback(ctx, c, keyspaces)
		if err != nil {
			return err
		}
		for shard, sequence := range sequences {
			if latest[shard] < sequence { // Redis has lost data, and the numbers restart, so read the whole shard
				delete(sequences, shard)
			}
		}
		shards := slices.DeleteFunc(slices.Collect(maps.Keys(latest)), func(shard int) bool { return latest[shard] == sequences[shard] })
		slices.Sort(shards)
		shards = shards[:min(len(shards), limit)]
		share := limit / max(len(shards), 1)
		pages, err := runPipelined(ctx, c, shards, func(p goredis.Pipeliner, shard int) *goredis.ZSliceCmd {
			by := &goredis.ZRangeBy{Min: "(" + strconv.FormatInt(sequences[shard], 10), Max: "+inf", Count: int64(share)}
			return p.ZRangeByScoreWithScores(ctx, keyspaces[shard].base+"told", by)
		})
		if err != nil {
			return err
		}
		var list []goredis.Z
		for i, shard := range shards {
			page := pages[i].Val()
			list = append(list, page...)
			sequences[shard] = latest[shard] // after the last page; sessions with later numbers have left the list
			if len(page) == share {
				sequences[shard] = int64(page[len(page)-1].Score)
			}
		}
		last = formatSequences(sequences)
		rows, entries, err = s.readRatedOpenSessions(ctx, c, tenant, list)
		return err
	})
	return rows, entries, last, err
}

// newestFeedback returns, by shard, the newest feedback's sequence number among the tenant's open sessions. Shards
// without feedback are left out.
func (s *Store) newestFeedback(ctx context.Context, c client, keyspaces []keyspace) (map[int]int64, error) {
	latest := map[int]int64{}
	cmds, err := runPipelined(ctx, c, keyspaces, func(p goredis.Pipeliner, ks keyspace) goredis.Cmder {
		if ks.tenantArg == "" {
			return p.HGet(ctx, ks.listPrefix+"t", "told")
		}
		return p.ZScore(ctx, ks.listPrefix+"told", ks.tenant)
	})
	for i, cmd := range cmds {
		switch cmd := cmd.(type) {
		case *goredis.StringCmd:
			latest[i] = parseInt(cmd.Val())
		case *goredis.FloatCmd:
			latest[i] = int64(cmd.Val())
		}
		if latest[i] == 0 {
			delete(latest, i)
		}
	}
	return latest, err
}

func formatSequences(sequences map[int]int64) string {
	var list []string
	for _, shard := range slices.Sorted(maps.Keys(sequences)) {
		list = append(list, fmt.Sprintf("%d:%d", shard, sequences[shard]))
	}
	return strings.Join(list, " ")
}

func parseSequences(text string) map[int]int64 {
	sequences := map[int]int64{}
	for pair := range strings.FieldsSeq(text) {
		var shard int
		var sequence int64
		if _, err := fmt.Sscanf(pair, "%d:%d", &shard, &sequence); err == nil {
			sequences[shard] = sequence
		}
	}
	return sequences
}

// readRatedOpenSessions returns session rows and feedback. It leaves out sessions without a row, and sessions with
// feedback that does not decode, because closing such a session reports the error.
func (s *Store) readRatedOpenSessions(ctx context.Context, c client, tenant string, members []goredis.Z) (rows []session.Row, entries [][]feedback.Entry, err error) {
	ids := make([]session.ID, len(members))
	rowCommands := make([]*goredis.SliceCmd, len(members))
	entryCommands := make([]*goredis.StringSliceCmd, len(members))
	pipe := c.Pipeline()
	for i, z := range members {
		member, _ := z.Member.(string)
		ids[i] = idFromBytes(member)
		rowCommands[i] = pipe.HMGet(ctx, s.sessionKey(tenant, ids[i]), "h", "d", "i")
		entryCommands[i] = pipe.HVals(ctx, s.key(sessionLocation(tenant, ids[i]), "f:"+ids[i].String()))
	}
	if len(members) == 0 {
		return nil, nil, nil
	}
	if err := readPipeline(ctx, pipe); err != nil {
		return nil, nil, err
	}
	for i, id := range ids {
		r, ok := decodeRow(tenant, id, rowCommands[i].Val())
		if !ok {
			continue
		}
		if set, err := unpackEntries(entryCommands[i].Val()); err == nil {
			rows, entries = append(rows, r), append(entries, set)
		}
	}
	return rows, entries, nil
}

// AreSettled reports, for each session, whether the session was settled.
func (s *Store) AreSettled(ctx context.Context, tenant string, ids []session.ID) ([]bool, error) {
	out := make([]bool, 0, len(ids))
	err := s.do(ctx, "settled", func(c client) error {
		for chunk := range slices.Chunk(ids, 500) {
			cmds, err := runPipelined(ctx, c, chunk, func(p goredis.Pipeliner, id session.ID) *goredis.BoolCmd {
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

// Park stores feedback on a session that is not stored yet, under an echo key (a hash by which later requests find the
// session). A later version of an entry replaces the earlier one. The caller then looks the key up again, because the
// session might have been stored in the meantime.
func (s *Store) Park(ctx context.Context, tenant string, key session.EchoKey, e feedback.Entry) error {
	v, err := packEntry(&e)
	if err != nil {
		return fmt.Errorf("redis: store early feedback: %w", err)
	}
	k, n := encodeEchoKey(key), 0
	err = s.withTenants(ctx, "store early feedback", []string{tenant}, func(c client) error {
		n, err = s.script(ctx, c, "park", tenantLocation(tenant), s.options.MaxParked, s.options.MaxFeedback, k, hex.EncodeToString([]byte(k)), digest(e.ID), timeScore(e.At), v).Int()
		return err
	})
	if err == nil && n == 0 {
		err = fmt.Errorf("redis: store early feedback: %w", session.ErrParkingFull)
	}
	return err
}

// ParkedEntry returns the entry with the given id parked under a key.
func (s *Store) ParkedEntry(ctx context.Context, tenant string, key session.EchoKey, id string) (e feedback.Entry, ok bool, err error) {
	name := "p:" + hex.EncodeToString([]byte(encodeEchoKey(key)))
	return s.feedbackEntry(ctx, func() string { return s.key(tenantLocation(tenant), name) }, id)
}

// Unpark moves the feedback parked under each key to the key's session, and returns the number of changes by session.
// Entries are added before they are deleted, so that a crash loses no entry.
func (s *Store) Unpark(ctx context.Context, tenant string, sessions map[session.EchoKey]session.ID) (map[session.ID]int, error) {
	if len(sessions) == 0 {
		return map[session.ID]int{}, ctx.Err()
	}
	additions, deletions := newPlan("feedback"), newPlan("unpark")
	var ids []session.ID
	err := s.do(ctx, "join feedback", func(c client) error {
		location := tenantLocation(tenant)
		waiting, err := c.ZCard(ctx, s.key(location, "parked")).Result()
		if err != nil || waiting == 0 { // usually no feedback is parked
			return err
		}
		keys := slices.Sorted(maps.Keys(sessions))
		parked, err := runPipelined(ctx, c, keys, func(p goredis.Pipeliner, k session.EchoKey) *goredis.MapStringStringCmd {
			return p.HGetAll(ctx, s.key(location, "p:"+hex.EncodeToString([]byte(encodeEchoKey(k)))))
		})
		if err != nil {
			return err
		}
		for i, k := range keys {
			b, id := encodeEchoKey(k), sessions[k]
			for field, value := range parked[i].Val() {
				entryScore := "0"
				if e, err := unpackEntry(value); err == nil {
					entryScore = timeScore(e.At)
				}
				additions.add(sessionLocation(tenant, id), string(id[:]), entryScore, field, value, strconv.Itoa(s.options.MaxFeedback))
				deletions.add(location, b, hex.EncodeToString([]byte(b)), field, value)
				ids = append(ids, id)
			}
		}
		if err := s.runPlan(ctx, c, additions); err != nil {
			return err
		}
		return s.runPlan(ctx, c, deletions)
	})
	if err != nil {
		return nil, err
	}
	return sumAdded(additions, ids)
}

// PurgeParked deletes the feedback parked before the given time, and returns the number of entries.
func (s *Store) PurgeParked(ctx context.Context, before time.Time) (n int, err error) {
	var tenants []string // tenants with parked feedback
	size := func(p goredis.Pipeliner, ks keyspace) *goredis.IntCmd { return p.ZCard(ctx, ks.base+"parked") }
	err = doEachKeyspace(ctx, s, "purge parked feedback", s.parkedKeyspaces, size, func(ks keyspace, cmd *goredis.IntCmd) error {
		if cmd.Val() > 0 {
			tenants = append(tenants, ks.tenant)
		}
		return nil
	})
	if err != nil {
		return 0, err
	}
	for _, name := range tenants {
		deleted, err := s.purgeTenant(ctx, name, "("+timeScore(before))
		n += deleted
		if err != nil {
			return n, err
		}
	}
	return n, nil
}

// purgeTenant deletes a tenant's parked feedback with scores up to bound, in ZRANGEBYSCORE syntax.
func (s *Store) purgeTenant(ctx context.Context, tenant, bound string) (n int, err error) {
	for deleted := maxCallItems; deleted == maxCallItems; n += deleted {
		deleted, err = doValue(ctx, s, "purge parked feedback", func(c client) (int, error) {
			return s.script(ctx, c, "purge", tenantLocation(tenant), bound, maxCallItems).Int()
		})
		if err != nil {
			return n, err
		}
	}
	return n, nil
}
