package redis

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	goredis "github.com/redis/go-redis/v9"

	"precept/internal/session"
)

// Epoch returns a value that changes when Redis might have lost data: after a server restart, a failover or a flush. A
// writer that has a copy of the last writes then repeats them.
func (s *Store) Epoch(ctx context.Context) (string, error) {
	epoch, err := doValue(ctx, s, "epoch", func(c client) (string, error) {
		now, err := c.Time(ctx).Result()
		if err != nil {
			return "", err
		}
		// The mark is the server's time at the first Epoch call on an empty Redis, so it changes after all data is
		// lost.
		key := s.commonKey("epoch")
		pipe := c.Pipeline()
		pipe.SetNX(ctx, key, strconv.FormatInt(now.UnixNano(), 36), 0)
		mark := pipe.Get(ctx, key)
		if err := readPipeline(ctx, pipe); err != nil {
			return "", err
		}
		runIDs, err := s.readInfoField(ctx, c, "server", "run_id")
		return hashEpoch(mark.Val(), runIDs), err
	})
	if err == nil {
		if old := s.epoch.Swap(&epoch); old != nil && *old != epoch {
			s.markUncertain() // the tenant list might also be lost
			s.invalidateProgress()
		}
	}
	return epoch, err
}

// Now returns the Redis server's time, which is the same for all replicas.
func (s *Store) Now(ctx context.Context) (time.Time, error) {
	return doValue(ctx, s, "time", func(c client) (time.Time, error) { return c.Time(ctx).Result() })
}

func hashEpoch(mark string, runIDs []string) string {
	slices.Sort(runIDs)
	sum := sha256.Sum256([]byte(mark + " " + strings.Join(runIDs, " ")))
	return hex.EncodeToString(sum[:12])
}

// erasureAge is the age at which an erasure (a deletion that all replicas repeat) leaves the list. A replica that was
// down for longer could store an erased session again.
const erasureAge = 24 * time.Hour

// Announce appends an erasure to the list for all replicas, so that no replica writes the sessions again, and returns
// the erasure's position.
func (s *Store) Announce(ctx context.Context, e session.Erasure) (position string, err error) {
	var ids strings.Builder
	for i := range e.IDs {
		ids.Write(e.IDs[i][:])
	}
	return doValue(ctx, s, "announce", func(c client) (string, error) {
		return c.XAdd(ctx, &goredis.XAddArgs{
			Stream: s.commonKey("erasures"), MinID: strconv.FormatInt(e.At.Add(-erasureAge).UnixMilli(), 10), Approx: true,
			Values: []any{"t", e.Tenant, "i", ids.String(), "at", micros(e.At)},
		}).Result()
	})
}

// Erasures returns up to 200 erasures after a position in the list; "" means from the first one.
func (s *Store) Erasures(ctx context.Context, after string) (list []session.Erasure, err error) {
	const count = 200
	from := "-"
	if after != "" {
		from = "(" + after
	}
	entries, err := doValue(ctx, s, "erasures", func(c client) ([]goredis.XMessage, error) {
		return c.XRangeN(ctx, s.commonKey("erasures"), from, "+", count).Result()
	})
	for _, m := range entries {
		list = append(list, decodeErasure(m))
	}
	return list, err
}

// decodeErasure decodes an erasure. After a failure the result has no tenant, and callers skip it.
func decodeErasure(m goredis.XMessage) session.Erasure {
	text := func(field string) string {
		v, _ := m.Values[field].(string)
		return v
	}
	e := session.Erasure{Position: m.ID, Tenant: text("t")}
	usec, _ := strconv.ParseInt(text("at"), 10, 64)
	e.At = time.UnixMicro(usec).UTC()
	ids := text("i")
	for ; len(ids) >= len(session.ID{}); ids = ids[len(session.ID{}):] {
		e.IDs = append(e.IDs, session.ID([]byte(ids[:len(session.ID{})])))
	}
	if ids != "" { // an id is incomplete; without ids the erasure would delete the whole tenant
		e.Tenant, e.IDs = "", nil
	}
	return e
}

// optOutTTL is how long an opt-out mark is stored after the last PutOptOutMarks call for the session.
const optOutTTL = 30 * 24 * time.Hour

// optOutName returns a hash of a session id, the name of the session's opt-out mark.
func optOutName(id session.ID) string {
	sum := sha256.Sum256(append([]byte("precept opted out\x00"), id[:]...))
	return string(sum[:16])
}

// PutOptOutMarks stores marks on opted-out sessions for all replicas. Of two marks on a session, the one with more
// hidden items stays, because a late mark must not make items visible again.
func (s *Store) PutOptOutMarks(ctx context.Context, marks map[session.ID]session.OptOutMark) error {
	p := newPlan("optout")
	for id, m := range marks {
		name := optOutName(id)
		p.add(location{kind: shardKeys, hash: name[0]}, name, strconv.Itoa(m.Turns), strconv.Itoa(m.Items), durationMillis(optOutTTL))
	}
	return s.writePlan(ctx, "opt out", p)
}

// OptOutMark returns a session's opt-out mark; ok is false if there is none.
func (s *Store) OptOutMark(ctx context.Context, id session.ID) (m session.OptOutMark, ok bool, err error) {
	err = s.lookUp(ctx, "opt out", func(c client) error {
		name := optOutName(id)
		text, err := c.Get(ctx, s.key(location{kind: shardKeys, hash: name[0]}, fmt.Sprintf("optout:%x", name))).Result()
		if err != nil {
			return err
		}
		_, err = fmt.Sscan(text, &m.Turns, &m.Items)
		ok = err == nil
		return err
	})
	return m, ok, err
}
