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

// An echo is a key by which feedback and later turns find a session. The keys are hashes, so in one large B-tree each
// new key would change a different page. The primary key therefore begins with the number of a generation (a group of
// echoes written and deleted together). The newest generation fits into the cache. A look-up, which is rare, reads all
// generations (docs/decisions/0032-echoes.md).
const (
	maxEchoesPerKey   = session.MaxEchoSessions
	maxGenerationSize = 64 << 10 // echoes per generation, about 1.7 MiB
	maxGenerations    = 64       // a new generation replaces the oldest
)

type generation struct{ number, size int64 }

func newestGeneration(c *conn) (g generation) {
	c.queryRow("SELECT gen, count(*) FROM echoes WHERE gen = (SELECT max(gen) FROM echoes) GROUP BY gen").scan(&g.number, &g.size)
	return g
}

// FindEcho returns the sessions with the keys, newest first, at most session.MaxEchoSessions per key. Keys without a
// session are left out.
func (s *Store) FindEcho(ctx context.Context, tenant string, keys []session.EchoKey) (map[session.EchoKey][]session.ID, error) {
	return read(ctx, s, func(c *conn) map[session.EchoKey][]session.ID {
		found := map[session.EchoKey][]session.ID{}
		tenantNumber := s.tenantNumber(c, tenant)
		if tenantNumber == 0 {
			return found
		}
		keyByHash := make(map[int64]session.EchoKey, len(keys))
		for _, k := range keys {
			keyByHash[echoKey(tenantNumber, k)] = k
		}
		for r := range c.query(`WITH RECURSIVE g(gen) AS (SELECT min(gen) FROM echoes
			  UNION ALL SELECT (SELECT min(gen) FROM echoes WHERE gen > g.gen) FROM g WHERE gen IS NOT NULL)
			SELECT e.k, s.id FROM g CROSS JOIN json_each(?) j CROSS JOIN echoes e ON e.gen = g.gen AND e.k = j.value
			CROSS JOIN sessions s USING(sid) WHERE s.tenant = ? ORDER BY e.at DESC, e.sid DESC`, encodeNumbers(slices.Collect(maps.Keys(keyByHash))), tenantNumber) {
			var stored int64
			var id session.ID
			r.scan(&stored, &id)
			k := keyByHash[stored]
			if ids := found[k]; len(ids) < maxEchoesPerKey && !slices.Contains(ids, id) {
				found[k] = append(ids, id)
			}
		}
		return found
	})
}

func encodeNumbers(list []int64) string {
	b, _ := json.Marshal(list) // numbers always encode
	return string(b)
}

const insertEcho = "INSERT INTO echoes(gen, k, sid, at) VALUES(?, ?, ?, ?) ON CONFLICT DO UPDATE SET at = excluded.at WHERE excluded.at > at"

// putEchoes writes echoes into the newest generation. If the generation is then full, the next echoes begin a new one.
func (t *tx) putEchoes(list []session.Echo) {
	if len(list) == 0 {
		return
	}
	type entry struct{ key, sid, at int64 }
	batch := make([]entry, 0, len(list))
	for _, e := range list {
		tenant := t.findOrAddTenant(e.Tenant)
		sid := t.findOrAdd(sessionKey{tenant, e.ID}, e.At).sid
		batch = append(batch, entry{echoKey(tenant, e.Key), sid, micros(e.At)})
	}
	slices.SortFunc(batch, func(a, b entry) int { return cmp.Compare(a.key, b.key) }) // neighbouring keys are often on the same page
	g := t.store.newestGen
	for _, e := range batch {
		t.db.exec(insertEcho, g.number, e.key, e.sid, e.at)
	}
	if g.size += int64(len(batch)); g.size >= maxGenerationSize {
		t.compactGeneration(g.number)
		g = generation{number: g.number + 1}
	}
	t.onCommit = append(t.onCommit, func() { t.store.newestGen = g })
}

// compactGeneration keeps only the newest maxEchoesPerKey echoes per key in a full generation, because FindEcho returns
// no more. It also deletes the generations beyond the newest maxGenerations.
func (t *tx) compactGeneration(gen int64) {
	t.db.exec(`DELETE FROM echoes WHERE gen = ?1 AND (k, sid) IN (SELECT k, sid FROM
		(SELECT k, sid, row_number() OVER (PARTITION BY k ORDER BY at DESC, sid DESC) AS place FROM echoes WHERE gen = ?1) WHERE place > ?2)`,
		gen, maxEchoesPerKey)
	t.db.exec("DELETE FROM echoes WHERE gen <= ?", gen-maxGenerations)
}

// dropOldEchoes deletes generations, oldest first, and stops at the first generation with an echo written at the given
// time or later.
func (s *Store) dropOldEchoes(ctx context.Context, before time.Time) error {
	return s.eachGeneration(ctx, "retain echoes", func(t *tx, gen int64) bool {
		if t.db.queryInt("SELECT 1 FROM echoes WHERE gen = ? AND at >= ? LIMIT 1", gen, before) != 0 {
			return false
		}
		t.db.exec("DELETE FROM echoes WHERE gen = ?", gen)
		return true
	})
}

// dropEchoes deletes the echoes of deleted sessions, because no data of a deleted session may stay in the file.
func (s *Store) dropEchoes(ctx context.Context, sids []int64) error {
	if len(sids) == 0 {
		return nil
	}
	list := encodeNumbers(sids)
	return s.eachGeneration(ctx, "forget echoes", func(t *tx, gen int64) bool {
		t.db.exec("DELETE FROM echoes WHERE gen = ? AND sid IN (SELECT value FROM json_each(?))", gen, list)
		return true
	})
}

// eachGeneration calls fn with each generation, oldest first, until fn returns false. Each call is a transaction, so
// that other writes can run in between.
func (s *Store) eachGeneration(ctx context.Context, op string, fn func(t *tx, gen int64) bool) error {
	for last, more := int64(-1), true; more; {
		var gen int64
		err := s.update(ctx, op, func(t *tx) {
			gen = t.db.queryInt("SELECT coalesce(min(gen), -1) FROM echoes WHERE gen > ?", last)
			more = gen >= 0 && fn(t, gen)
		})
		if err != nil {
			return err
		}
		last = gen
	}
	return nil
}
