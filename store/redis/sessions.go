package redis

import (
	"bytes"
	"cmp"
	"context"
	"slices"
	"time"

	goredis "github.com/redis/go-redis/v9"

	"precept/internal/session"
)

// decodeRow decodes a row from a session's fields h (the head: start, last use and closed), d (data) and i (begun
// offline). ok is false if the session has no row.
func decodeRow(tenant string, id session.ID, v []any) (r session.Row, ok bool) {
	if len(v) < 3 {
		return r, false
	}
	head, ok := v[0].(string)
	if !ok || len(head) != 17 {
		return r, false
	}
	data, _ := v[1].(string)
	return session.Row{
		Tenant: tenant, ID: id, Started: fromMicros(decodeOrdered(head[:8])), Seen: fromMicros(decodeOrdered(head[8:16])),
		Closed: head[16] == '1', StartedOffline: v[2] != nil, Data: []byte(data),
	}, true
}

func (s *Store) sessionKey(tenant string, id session.ID) string {
	return s.key(sessionLocation(tenant, id), "s:"+id.String())
}

// Session returns a session's row.
func (s *Store) Session(ctx context.Context, tenant string, id session.ID) (r session.Row, ok bool, err error) {
	err = s.lookUp(ctx, "session", func(c client) error {
		v, err := c.HMGet(ctx, s.sessionKey(tenant, id), "h", "d", "i").Result()
		r, ok = decodeRow(tenant, id, v)
		return err
	})
	return r, ok && err == nil, err
}

// FindEcho returns the sessions with each echo key, newest first, at most session.MaxEchoSessions per key. Keys without
// a session are left out.
func (s *Store) FindEcho(ctx context.Context, tenant string, keys []session.EchoKey) (map[session.EchoKey][]session.ID, error) {
	found := map[session.EchoKey][]session.ID{}
	if len(keys) == 0 {
		return found, ctx.Err()
	}
	err := s.lookUp(ctx, "echoes", func(c client) error {
		values, err := runPipelined(ctx, c, keys, func(p goredis.Pipeliner, k session.EchoKey) *goredis.StringCmd {
			b := encodeEchoKey(k)
			return p.HGet(ctx, s.keyspace(indexLocation(tenant, b)).bucket("e", b), b)
		})
		for i := range values {
			var ids []session.ID
			for v := values[i].Val(); len(v) >= 24; v = v[24:] {
				ids = append(ids, idFromBytes(v[8:24]))
			}
			if len(ids) > 0 {
				found[keys[i]] = ids
			}
		}
		return err
	})
	if err != nil {
		return nil, err
	}
	return found, nil
}

func runPipelined[T any, C goredis.Cmder](ctx context.Context, c client, list []T, command func(p goredis.Pipeliner, element T) C) ([]C, error) {
	if len(list) == 0 {
		return nil, nil
	}
	pipe := c.Pipeline()
	cmds := make([]C, len(list))
	for i, element := range list {
		cmds[i] = command(pipe, element)
	}
	if err := readPipeline(ctx, pipe); err != nil {
		return nil, err
	}
	return cmds, nil
}

// readPipeline runs a pipeline of read commands. A missing value is not an error.
func readPipeline(ctx context.Context, pipe goredis.Pipeliner) error {
	cmds, err := pipe.Exec(ctx)
	if err == nil {
		return nil
	}
	for _, c := range cmds {
		if err := c.Err(); err != nil && !isAbsent(err) {
			return err
		}
	}
	if len(cmds) == 0 {
		return err
	}
	return nil
}

type sessionRef struct {
	tenant  string
	id      session.ID
	started int64 // start in Unix microseconds; 0 means unknown
}

// DueSessions returns at most limit open sessions that started before the given time, oldest first (ties by id, then
// tenant). It continues after the previous call's last row; the zero Row means the start.
func (s *Store) DueSessions(ctx context.Context, startedBefore time.Time, after session.Row, limit int) (rows []session.Row, err error) {
	last := sessionRef{after.Tenant, after.ID, micros(after.Started)}
	// Closed sessions and sessions without a row are left out, so several pages can be needed.
	for more := limit > 0; more && err == nil && len(rows) < limit; {
		var list []sessionRef
		var page []session.Row
		if list, more, err = s.dueAfter(ctx, last, startedBefore, limit-len(rows)); err == nil && len(list) > 0 {
			page, err = doValue(ctx, s, "due", func(c client) ([]session.Row, error) { return s.readRows(ctx, c, list) })
			rows = append(rows, slices.DeleteFunc(page, func(r session.Row) bool { return r.Closed })...)
			last = list[len(list)-1]
		}
	}
	return rows, err
}

func compareRefs(a, b sessionRef) int {
	return cmp.Or(cmp.Compare(a.started, b.started), bytes.Compare(a.id[:], b.id[:]), cmp.Compare(a.tenant, b.tenant))
}

// dueHeadSize is the size of the start and the id in a due list member, in bytes.
const dueHeadSize = 24

// dueAfter returns at most limit due sessions that follow last and started before the given time, and reports whether
// more can follow.
func (s *Store) dueAfter(ctx context.Context, last sessionRef, startedBefore time.Time, limit int) (list []sessionRef, more bool, err error) {
	by := &goredis.ZRangeBy{Max: "(" + encodeOrdered(micros(startedBefore))}
	var end *sessionRef // position up to which all lists were read; nil means to the ends
	due := func(p goredis.Pipeliner, ks keyspace) *goredis.StringSliceCmd {
		// In the old layout the members have no tenant. The range includes last, because another tenant can have a
		// session with the same start and id.
		by.Min, by.Count = "["+encodeOrdered(last.started)+string(last.id[:]), int64(limit)+1
		if n := s.shards.Load(); n > 1 { // the shards' lists are about equally long
			by.Min = "(" + by.Min[1:] + last.tenant
			by.Count = min(by.Count, 2*int64(limit)/n+16)
		}
		return p.ZRangeByLex(ctx, ks.listPrefix+"due", by)
	}
	err = doEachKeyspace(ctx, s, "due", s.shardKeyspaces, due, func(ks keyspace, cmd *goredis.StringSliceCmd) error {
		var ref sessionRef
		for _, m := range cmd.Val() {
			if len(m) < dueHeadSize {
				continue
			}
			ref = sessionRef{ks.memberTenant(m[dueHeadSize:]), idFromBytes(m[8:dueHeadSize]), decodeOrdered(m[:8])}
			if compareRefs(ref, last) > 0 {
				list = append(list, ref)
			}
		}
		if int64(len(cmd.Val())) == by.Count && (end == nil || compareRefs(ref, *end) < 0) {
			end = &ref
		}
		return nil
	})
	slices.SortFunc(list, compareRefs)
	if end != nil { // the rest of an unfinished list can precede sessions in other lists
		list = slices.DeleteFunc(list, func(ref sessionRef) bool { return compareRefs(ref, *end) > 0 })
	}
	more = len(list) > 0 && (end != nil || len(list) > limit)
	return list[:min(len(list), limit)], more, err
}

// readRows returns session rows, in order. A session with exchanges but no row yet gets an empty row. Other sessions
// without a row are left out.
func (s *Store) readRows(ctx context.Context, c client, list []sessionRef) (rows []session.Row, err error) {
	for chunk := range slices.Chunk(list, 100) {
		values, err := runPipelined(ctx, c, chunk, func(p goredis.Pipeliner, ref sessionRef) *goredis.SliceCmd {
			return p.HMGet(ctx, s.sessionKey(ref.tenant, ref.id), "h", "d", "i", "w")
		})
		if err != nil {
			return nil, err
		}
		for i, ref := range chunk {
			v := values[i].Val()
			r, ok := decodeRow(ref.tenant, ref.id, v)
			if !ok && ref.started != 0 && len(v) > 3 && v[3] != nil { // exchanges, but no row yet
				r, ok = session.Row{Tenant: ref.tenant, ID: ref.id, Started: fromMicros(ref.started), Seen: fromMicros(ref.started)}, true
			}
			if ok {
				rows = append(rows, r)
			}
		}
	}
	return rows, nil
}
