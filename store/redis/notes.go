package redis

import (
	"cmp"
	"context"
	"errors"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"precept/internal/session"
)

// SessionNote returns the distiller's note about a session, or nil if there is none. The distiller is the worker that
// proposes lessons.
func (s *Store) SessionNote(ctx context.Context, tenant string, id session.ID) (data []byte, err error) {
	err = s.do(ctx, "session note", func(c client) error {
		pipe := c.Pipeline()
		inTenantHash, inSessionHash := pipe.HGet(ctx, s.key(tenantLocation(tenant), "jots"), string(id[:])), pipe.HGet(ctx, s.sessionKey(tenant, id), "jot")
		if err := readPipeline(ctx, pipe); err != nil {
			return err
		}
		if text := cmp.Or(inTenantHash.Val(), inSessionHash.Val()); text != "" {
			data = []byte(text)
		}
		return nil
	})
	return data, err
}

// TenantNote returns the tenant's note with this key; nil means none.
func (s *Store) TenantNote(ctx context.Context, tenant, key string) (data []byte, err error) {
	data, _, err = s.readField(ctx, "note", tenantLocation(tenant), "notes", key)
	return data, err
}

// scanNotes is HSCAN's COUNT argument, the approximate number of notes per call.
const scanNotes = 500

// EachNote calls fn with each of the tenant's notes whose key begins with prefix, in key order.
func (s *Store) EachNote(ctx context.Context, tenant, prefix string, fn func(key string, data []byte) error) error {
	found := map[string]string{} // a scan can return a note twice
	err := s.do(ctx, "notes", func(c client) error {
		it := c.HScan(ctx, s.key(tenantLocation(tenant), "notes"), 0, "", scanNotes).Iterator()
		for it.Next(ctx) {
			if key := it.Val(); it.Next(ctx) && strings.HasPrefix(key, prefix) {
				found[key] = it.Val()
			}
		}
		return it.Err()
	})
	if err != nil {
		return err
	}
	for _, key := range slices.Sorted(maps.Keys(found)) {
		if err := errors.Join(ctx.Err(), fn(key, []byte(found[key]))); err != nil {
			return err
		}
	}
	return nil
}

// WriteNotes writes notes for sessions and for the tenant. A note for a missing session is dropped, and a tenant's note
// with empty data is deleted. A Lua script can write to only one shard. Therefore all notes are first stored in the
// tenant's shard (session notes in the hash 'jots'). Session notes then move to the sessions' shards.
func (s *Store) WriteNotes(ctx context.Context, tenant string, sessionNotes map[session.ID][]byte, tenantNotes map[string][]byte) error {
	p, tenantLoc := newPlan("notes"), tenantLocation(tenant)
	for _, key := range slices.Sorted(maps.Keys(tenantNotes)) {
		p.add(tenantLoc, "n", "notes", key, string(tenantNotes[key]))
	}
	for id, data := range sessionNotes {
		p.add(tenantLoc, "n", "jots", string(id[:]), string(data))
	}
	if len(p.items) == 0 {
		return ctx.Err()
	}
	return s.withTenants(ctx, "write notes", []string{tenant}, func(c client) error {
		if err := s.runPlan(ctx, c, p); err != nil {
			return err
		}
		return s.moveSessionNotes(ctx, c, tenant)
	})
}

// moveSessionNotes moves session notes from the tenant's keys to the sessions' keys, including notes left by failed
// calls.
func (s *Store) moveSessionNotes(ctx context.Context, c client, tenant string) error {
	key := s.key(tenantLocation(tenant), "jots")
	sessionNotes, err := c.HGetAll(ctx, key).Result()
	if err != nil || len(sessionNotes) == 0 {
		return err
	}
	p := newPlan("notes")
	for id, text := range sessionNotes {
		p.add(sessionLocation(tenant, idFromBytes(id)), "s", id, "jot", text)
	}
	if err := s.runPlan(ctx, c, p); err != nil {
		return err
	}
	return s.deleteFields(ctx, c, s.keyspace(tenantLocation(tenant)), "jots", slices.Collect(maps.Keys(sessionNotes))...)
}

// AcquireLease acquires or renews owner's lease on the work called name. The Redis server measures the time; only
// stores without a server use the time argument.
func (s *Store) AcquireLease(ctx context.Context, name, owner string, _ time.Time, ttl time.Duration) (bool, error) {
	n, err := s.runLockScript(ctx, "take", "claim:"+name, owner, durationMillis(ttl))
	return n > 0, err
}

// ReleaseLease ends the lease if owner still holds it.
func (s *Store) ReleaseLease(ctx context.Context, name, owner string) error {
	_, err := s.runLockScript(ctx, "free", "claim:"+name, owner)
	return err
}

func (s *Store) runLockScript(ctx context.Context, args ...any) (int, error) {
	return doValue(ctx, s, "lock", func(c client) (int, error) { return s.script(ctx, c, "lock", location{}, args...).Int() })
}

func durationMillis(d time.Duration) string { return strconv.FormatInt(max(d.Milliseconds(), 1), 10) }
