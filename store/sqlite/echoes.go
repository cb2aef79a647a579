package sqlite

import (
	"cmp"
	"context"
	"encoding/json"
	"maps"
	"slices"
	"time"

	"precept/internal/session"
)

// An echo is a key by which feedback and later turns find a session. A turn writes several echoes. Look-ups are rare,
// because the sessions in use are in memory. The keys are hashes: in one large B-tree each echo would change another
// page of the WAL and of the file. The primary key of the table therefore begins with a generation. New echoes go to
// the newest generation, which fits into the cache, and a look-up reads all generations
// (docs/decisions/0032-echoes.md).
const (
	echoesPerKey   = session.MaxEchoSessions
	generationSize = 64 << 10 // echoes, about 1.7 MiB
	generations    = 64       // a new generation replaces the oldest one
)

// generation is a generation of the table echoes. size is its number of echoes. The holder of the
// connection for writes owns Store.newestGen.
type generation struct{ number, size int64 }

// newestGeneration returns the newest generation in the table.
func newestGeneration(c *conn) (g generation) {
	c.row("SELECT gen, count(*) FROM echoes WHERE gen = (SELECT max(gen) FROM echoes) GROUP BY gen").scan(&g.number, &g.size)
	return g
}

// FindEcho returns the sessions in which the keys occurred, newest first, at most session.MaxEchoSessions for a key.
// Keys without a session are left out.
func (s *Store) FindEcho(ctx context.Context, tenant string, keys []session.EchoKey) (map[session.EchoKey][]session.ID, error) {
	return read(ctx, s, func(c *conn) map[session.EchoKey][]session.ID {
		found := map[session.EchoKey][]session.ID{}
		n := s.tenant(c, tenant)
		if n == 0 {
			return found
		}
		keyOf := make(map[int64]session.EchoKey, len(keys))
		for _, k := range keys {
			keyOf[echoKey(n, k)] = k
		}
		for r := range c.rows(`WITH RECURSIVE g(gen) AS (SELECT min(gen) FROM echoes
			  UNION ALL SELECT (SELECT min(gen) FROM echoes WHERE gen > g.gen) FROM g WHERE gen IS NOT NULL)
			SELECT e.k, s.id FROM g CROSS JOIN json_each(?) j CROSS JOIN echoes e ON e.gen = g.gen AND e.k = j.value
			CROSS JOIN sessions s USING(sid) WHERE s.tenant = ? ORDER BY e.at DESC, e.sid DESC`, jsonOf(slices.Collect(maps.Keys(keyOf))), n) {
			var stored int64
			var id session.ID
			r.scan(&stored, &id)
			k := keyOf[stored]
			if ids := found[k]; len(ids) < echoesPerKey && !slices.Contains(ids, id) {
				found[k] = append(ids, id)
			}
		}
		return found
	})
}

// jsonOf encodes a list of numbers for json_each.
func jsonOf(list []int64) string {
	b, _ := json.Marshal(list) // numbers always encode
	return string(b)
}

const putEcho = "INSERT INTO echoes(gen, k, sid, at) VALUES(?, ?, ?, ?) ON CONFLICT DO UPDATE SET at = excluded.at WHERE excluded.at > at"

// putEchoes writes echoes into the newest generation, and starts the next generation when the newest is
// full.
func (t *tx) putEchoes(list []session.Echo) {
	if len(list) == 0 {
		return
	}
	type entry struct{ key, sid, at int64 }
	batch := make([]entry, 0, len(list))
	for _, e := range list {
		tenant := t.tenant(e.Tenant)
		sid := t.findOrAdd(sessionKey{tenant, e.ID}, e.At).sid
		batch = append(batch, entry{echoKey(tenant, e.Key), sid, micros(e.At)})
	}
	slices.SortFunc(batch, func(a, b entry) int { return cmp.Compare(a.key, b.key) }) // neighbours share a page
	g := t.s.newestGen
	for _, e := range batch {
		t.db.exec(putEcho, g.number, e.key, e.sid, e.at)
	}
	if g.size += int64(len(batch)); g.size >= generationSize {
		t.compactGeneration(g.number)
		g = generation{number: g.number + 1}
	}
	t.onCommit = append(t.onCommit, func() { t.s.newestGen = g })
}

// compactGeneration deletes from a full generation the echoes that FindEcho never returns: a key that
// occurs in all sessions keeps echoesPerKey echoes only. compactGeneration also deletes the generations
// that are too old.
func (t *tx) compactGeneration(gen int64) {
	t.db.exec(`DELETE FROM echoes WHERE gen = ?1 AND (k, sid) IN (SELECT k, sid FROM
		(SELECT k, sid, row_number() OVER (PARTITION BY k ORDER BY at DESC, sid DESC) AS place FROM echoes WHERE gen = ?1) WHERE place > ?2)`,
		gen, echoesPerKey)
	t.db.exec("DELETE FROM echoes WHERE gen <= ?", gen-generations)
}

// dropOldEchoes deletes the oldest generations whose echoes are all from before the given time.
func (s *Store) dropOldEchoes(ctx context.Context, before time.Time) error {
	return s.eachGeneration(ctx, "retain echoes", func(t *tx, gen int64) bool {
		if t.db.integer("SELECT 1 FROM echoes WHERE gen = ? AND at >= ? LIMIT 1", gen, before) != 0 {
			return false
		}
		t.db.exec("DELETE FROM echoes WHERE gen = ?", gen)
		return true
	})
}

// dropEchoes deletes the echoes of deleted sessions. FindEcho returns no deleted session, because numbers
// of sessions are not reused. dropEchoes exists because no data of a deleted session may stay in the file.
func (s *Store) dropEchoes(ctx context.Context, sids []int64) error {
	if len(sids) == 0 {
		return nil
	}
	list := jsonOf(sids)
	return s.eachGeneration(ctx, "forget echoes", func(t *tx, gen int64) bool {
		t.db.exec("DELETE FROM echoes WHERE gen = ? AND sid IN (SELECT value FROM json_each(?))", gen, list)
		return true
	})
}

// eachGeneration runs fn for each generation, the oldest first, until fn returns false. Each
// generation is one transaction, so that other writes can run in between.
func (s *Store) eachGeneration(ctx context.Context, op string, fn func(t *tx, gen int64) bool) error {
	for last, more := int64(-1), true; more; {
		var gen int64
		err := s.update(ctx, op, func(t *tx) {
			gen = t.db.integer("SELECT coalesce(min(gen), -1) FROM echoes WHERE gen > ?", last)
			more = gen >= 0 && fn(t, gen)
		})
		if err != nil {
			return err
		}
		last = gen
	}
	return nil
}
