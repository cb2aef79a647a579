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

// Echoes come several a turn and are hardly ever asked for: the threads in use stand in memory
// elsewhere, and here is only what a restart must not lose. Their keys are hashes, so that in one
// large B-tree each would change a page of its own, on the disk and in the log. The primary key of
// the table therefore begins with a generation: what is written lands in the newest one, which fits
// into the cache, and a look-up asks all of them (docs/decisions/0032-echoes.md).
const (
	echoesPerKey   = 4
	generationSize = 64 << 10 // echoes, about 1.7 MiB
	generations    = 64       // the oldest is deleted to make room for another one
)

// generation is the one that is written to. It belongs to whoever has the writing connection.
type generation struct{ number, size int64 }

// newestGeneration finds the one that the last run wrote to.
func newestGeneration(c *conn) (g generation) {
	c.row("SELECT gen, count(*) FROM echoes WHERE gen = (SELECT max(gen) FROM echoes) GROUP BY gen").scan(&g.number, &g.size)
	return g
}

// FindEcho finds the sessions that the keys went by in, newest first, at most four a key. Keys
// without any are left out.
func (s *Store) FindEcho(ctx context.Context, tenant string, keys []session.EchoKey) (map[session.EchoKey][]session.ID, error) {
	return read(ctx, s, func(c *conn) map[session.EchoKey][]session.ID {
		found := map[session.EchoKey][]session.ID{}
		n := s.tenant(c, tenant)
		if n == 0 {
			return found
		}
		asked := make(map[int64]session.EchoKey, len(keys))
		for _, k := range keys {
			asked[echoKey(n, k)] = k
		}
		for r := range c.rows(`WITH RECURSIVE g(gen) AS (SELECT min(gen) FROM echoes
			  UNION ALL SELECT (SELECT min(gen) FROM echoes WHERE gen > g.gen) FROM g WHERE gen IS NOT NULL)
			SELECT e.k, s.id FROM g CROSS JOIN json_each(?) j CROSS JOIN echoes e ON e.gen = g.gen AND e.k = j.value
			CROSS JOIN sessions s USING(sid) WHERE s.tenant = ? ORDER BY e.at DESC, e.sid DESC`, jsonOf(slices.Collect(maps.Keys(asked))), n) {
			var place int64
			var id session.ID
			r.scan(&place, &id)
			k := asked[place]
			if ids := found[k]; len(ids) < echoesPerKey && !slices.Contains(ids, id) {
				found[k] = append(ids, id)
			}
		}
		return found
	})
}

// jsonOf is a list of numbers for json_each.
func jsonOf(list []int64) string {
	b, _ := json.Marshal(list) // numbers have no error
	return string(b)
}

const putEcho = "INSERT INTO echoes(gen, k, sid, at) VALUES(?, ?, ?, ?) ON CONFLICT DO UPDATE SET at = excluded.at WHERE excluded.at > at"

// putEchoes writes a batch into the newest generation, and begins another one when it is full.
func (t *tx) putEchoes(list []session.Echo) {
	if len(list) == 0 {
		return
	}
	type entry struct{ key, sid, at int64 }
	batch := make([]entry, 0, len(list))
	for _, e := range list {
		tenant := t.tenant(e.Tenant)
		sid := t.named(sessionKey{tenant, e.ID}, e.At).sid
		batch = append(batch, entry{echoKey(tenant, e.Key), sid, micros(e.At)})
	}
	slices.SortFunc(batch, func(a, b entry) int { return cmp.Compare(a.key, b.key) }) // neighbours lie on one page
	g := t.s.newest
	for _, e := range batch {
		t.db.exec(putEcho, g.number, e.key, e.sid, e.at)
	}
	if g.size += int64(len(batch)); g.size >= generationSize {
		t.fold(g.number)
		g = generation{number: g.number + 1}
	}
	t.done = append(t.done, func() { t.s.newest = g })
}

// fold leaves in a full generation what FindEcho may tell of it, so that a key that goes by in
// every session takes no more room than others, and lets go of the generation that is too old.
func (t *tx) fold(gen int64) {
	t.db.exec(`DELETE FROM echoes WHERE gen = ?1 AND (k, sid) IN (SELECT k, sid FROM
		(SELECT k, sid, row_number() OVER (PARTITION BY k ORDER BY at DESC, sid DESC) AS place FROM echoes WHERE gen = ?1) WHERE place > ?2)`,
		gen, echoesPerKey)
	t.db.exec("DELETE FROM echoes WHERE gen <= ?", gen-generations)
}

// dropOldEchoes deletes the generations, the oldest first, that hold nothing from after the given
// time.
func (s *Store) dropOldEchoes(ctx context.Context, before time.Time) error {
	return s.eachGeneration(ctx, "retain echoes", func(t *tx, gen int64) bool {
		if t.db.number("SELECT 1 FROM echoes WHERE gen = ? AND at >= ? LIMIT 1", gen, before) != 0 {
			return false
		}
		t.db.exec("DELETE FROM echoes WHERE gen = ?", gen)
		return true
	})
}

// dropEchoes deletes the echoes of forgotten sessions. They lead nowhere already, since a session's
// number is never used again; but what was forgotten shall not be recognisable either.
func (s *Store) dropEchoes(ctx context.Context, gone []int64) error {
	if len(gone) == 0 {
		return nil
	}
	list := jsonOf(gone)
	return s.eachGeneration(ctx, "forget echoes", func(t *tx, gen int64) bool {
		t.db.exec("DELETE FROM echoes WHERE gen = ? AND sid IN (SELECT value FROM json_each(?))", gen, list)
		return true
	})
}

// eachGeneration runs fn for each generation, the oldest first, until it says no, in a transaction
// of its own: the recorder gets its turn in between.
func (s *Store) eachGeneration(ctx context.Context, op string, fn func(t *tx, gen int64) bool) error {
	for last, more := int64(-1), true; more; {
		var gen int64
		err := s.update(ctx, op, func(t *tx) {
			gen = t.db.number("SELECT coalesce(min(gen), -1) FROM echoes WHERE gen > ?", last)
			more = gen >= 0 && fn(t, gen)
		})
		if err != nil {
			return err
		}
		last = gen
	}
	return nil
}
