package redis

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	goredis "github.com/redis/go-redis/v9"
	"golang.org/x/sync/errgroup"

	"precept/internal/session"
)

// A migration moves a store from the old layout, one shard for each tenant, to shards, while replicas
// serve:
//
//  1. Each tenant is marked ('moving'): scripts then note the sessions that they may change ('dirty').
//  2. The sessions are copied into the shards. No replica reads the copies.
//  3. The sessions that have changed are copied again, until few are left.
//  4. All tenants are frozen: scripts refuse to write, and the writes of replicas wait in their outboxes.
//     The last sessions are copied, then the values that a tenant has once.
//  5. The number of shards is stored. Each replica reads the number before each call in the old layout,
//     and continues in the shards.
//  6. After a pause the old keys are deleted.
//
// Until step 5 the old layout is complete, and a migration that is killed loses nothing: a further call
// continues. A freeze ends by itself.

const (
	migrateLease   = 15 * time.Second
	migrateFreeze  = 15 * time.Second
	migrateChunk   = 64  // sessions that one step copies
	migrateFew     = 200 // changed sessions that may be left at the freeze
	migrateRounds  = 20  // passes over changed sessions before the freeze
	migrateFreezes = 3   // attempts to switch to the shards within one freeze
	migrateWorkers = 8   // tenants that are copied at once
	migratePage    = 500 // entries of a list that one call reads
)

// ErrMoving reports that the store has moved to shards during a call: repeat the call.
var ErrMoving = fmt.Errorf("the store moves to shards, so the call must be repeated: %w", ErrBusy)

// Migration are the options and the progress of Migrate.
type Migration struct {
	// Owner is the name of the migration in its lease. No other process has the same owner.
	Owner string
	// Shards is the number of shards (256).
	Shards int
	// Pause is the time between the switch to shards and the deletion of the old keys. In this time calls
	// of replicas end that began in the old layout.
	Pause time.Duration
	// Progress is called with the number of copied sessions, if not nil. Calls do not overlap.
	Progress func(sessions int64)
}

// Migrated is the result of a migration.
type Migrated struct {
	Tenants, Sessions int           // of the old layout; a changed session counts for each copy
	Frozen            time.Duration // time during which no replica could write
}

// migrator is a running migration.
type migrator struct {
	s        *Store
	o        Migration
	owner    string
	sessions atomic.Int64

	mu      sync.Mutex
	claimed time.Time // last renewal of the lease
	frozen  []string  // tenants whose freeze is extended with the lease

	progress sync.Mutex // held while Progress runs
}

// Layout describes the keys of a store.
type Layout struct {
	Old    bool     // the store has one shard for each tenant
	Moving bool     // a migration has not ended
	Stray  []string // tenants with sessions that a release without shards has written beside the shards
}

// Layout returns the layout of a store.
func (s *Store) Layout(ctx context.Context) (l Layout, err error) {
	err = s.do(ctx, "layout", func(c client) error {
		l = Layout{Old: s.shards.Load() == 1}
		n, err := c.Exists(ctx, s.commonKey("moving")).Result()
		if l.Moving = n > 0; l.Old || l.Moving || err != nil {
			return err
		}
		names, err := s.tenants(ctx, c)
		if err != nil {
			return err
		}
		for chunk := range slices.Chunk(names, migratePage) {
			sizes, err := piped(ctx, c, chunk, func(p goredis.Pipeliner, tenant string) *goredis.IntCmd {
				return p.Exists(ctx, s.partOf(1, tenantSpot(tenant)).base+"seen")
			})
			if err != nil {
				return err
			}
			for i, tenant := range chunk {
				if sizes[i].Val() > 0 {
					l.Stray = append(l.Stray, tenant)
				}
			}
		}
		return nil
	})
	return l, err
}

// Migrate moves a store of an earlier release to shards while replicas of this release serve. Replicas
// of earlier releases must be stopped. After an error, a call on any machine continues. Migrate
// returns the zero Migrated for a store with shards.
func (s *Store) Migrate(ctx context.Context, o Migration) (done Migrated, err error) {
	if o.Shards == 0 {
		o.Shards = maxShards
	}
	m := &migrator{s: s, o: o, owner: o.Owner}
	if err := s.do(ctx, "migrate", func(client) error { return nil }); err != nil { // reads the number of shards
		return done, err
	}
	state, err := ask(ctx, s, "migrate", func(c client) (string, error) { return c.Get(ctx, m.state()).Result() })
	if err != nil || s.shards.Load() > 1 && state == "" {
		return done, err
	}
	defer func() { _ = s.Unclaim(context.WithoutCancel(ctx), "migrate", m.owner) }()
	if err := m.claim(ctx); err != nil {
		return done, err
	}
	if s.shards.Load() == 1 {
		if done.Tenants, done.Frozen, err = m.move(ctx); err != nil {
			return done, fmt.Errorf("migrate: %w", err)
		}
	}
	done.Sessions = int(m.sessions.Load())
	if err := m.deleteOld(ctx); err != nil {
		return done, fmt.Errorf("delete the old keys: %w", err)
	}
	return done, nil
}

// state is the key that exists during a migration and the deletion of the old keys.
func (m *migrator) state() string { return m.s.commonKey("moving") }

// old returns the keys of a tenant in the old layout.
func (m *migrator) old(tenant string) part { return m.s.partOf(1, tenantSpot(tenant)) }

// new returns the keys of a spot in the shards.
func (m *migrator) new(sp spot) part { return m.s.partOf(m.o.Shards, sp) }

// claim acquires or renews the lease, and extends the freeze of the tenants.
func (m *migrator) claim(ctx context.Context) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	now := m.s.opt.Now()
	if now.Sub(m.claimed) < migrateLease/4 {
		return nil
	}
	isOwner, err := m.s.Claim(ctx, "migrate", m.owner, now, migrateLease)
	if err == nil && !isOwner {
		err = fmt.Errorf("%w: another process migrates the store; wait for its end, or %v after its crash", ErrBusy, migrateLease)
	}
	if err == nil && len(m.frozen) > 0 {
		err = m.s.do(ctx, "migrate", func(c client) error { return m.stillFrozen(ctx, c, m.frozen...) })
	}
	if err == nil {
		m.claimed = now
	}
	return err
}

// each calls fn for tenants, some at once.
func (m *migrator) each(ctx context.Context, tenants []string, fn func(ctx context.Context, c client, tenant string) error) error {
	g, ctx := errgroup.WithContext(ctx)
	g.SetLimit(migrateWorkers)
	for _, tenant := range tenants {
		g.Go(func() error {
			if err := m.claim(ctx); err != nil {
				return err
			}
			return m.s.do(ctx, "migrate", func(c client) error { return fn(ctx, c, tenant) })
		})
	}
	return g.Wait()
}

// move copies the store and switches to the shards.
func (m *migrator) move(ctx context.Context) (tenants int, frozen time.Duration, err error) {
	names, err := m.s.Tenants(ctx)
	if err != nil {
		return 0, 0, err
	}
	err = m.s.do(ctx, "migrate", func(c client) error { return c.Set(ctx, m.state(), "1", 0).Err() })
	if err == nil {
		err = m.each(ctx, names, m.copyTenant)
	}
	if err == nil {
		err = m.s.do(ctx, "migrate", func(c client) error { return m.copyOptOuts(ctx, c) })
	}
	for round := 0; err == nil && round < migrateRounds; round++ {
		var changed atomic.Int64
		err = m.each(ctx, names, func(ctx context.Context, c client, tenant string) error {
			n, err := m.copyChanged(ctx, c, tenant)
			changed.Add(int64(n))
			return err
		})
		if changed.Load() < migrateFew {
			break
		}
	}
	if err != nil {
		return 0, 0, err
	}
	for range migrateFreezes {
		started := m.s.opt.Now()
		if names, err = m.freeze(ctx); err == nil {
			m.frozen = names
			err = m.finish(ctx, names)
		}
		m.frozen = nil
		frozen += m.s.opt.Now().Sub(started)
		if !errors.Is(err, errThawed) {
			break
		}
	}
	return len(names), frozen, err
}

// copyTenant copies the sessions of a tenant, in the order of their last use. The position is stored. A
// session that moves in the list meanwhile is among the changed sessions.
func (m *migrator) copyTenant(ctx context.Context, c client, tenant string) error {
	base := m.old(tenant).base
	if err := c.SetNX(ctx, base+"moving", "-inf", 0).Err(); err != nil {
		return err
	}
	from, err := c.Get(ctx, base+"moving").Result()
	for err == nil && from != "end" {
		by := &goredis.ZRangeBy{Min: from, Max: "+inf", Count: migratePage}
		list, failed := c.ZRangeByScoreWithScores(ctx, base+"seen", by).Result()
		if failed != nil {
			return failed
		}
		next := "end"
		if len(list) == migratePage { // the sessions of the last time may be incomplete
			last := list[len(list)-1].Score
			list = slices.DeleteFunc(list, func(z goredis.Z) bool { return z.Score == last })
			next = formatScore(last)
			if len(list) == 0 {
				same, failed := c.ZRangeByScoreWithScores(ctx, base+"seen", &goredis.ZRangeBy{Min: next, Max: next}).Result()
				if failed != nil {
					return failed
				}
				list, next = same, "("+next
			}
		}
		ids := make([]string, len(list))
		for i, z := range list {
			ids[i], _ = z.Member.(string)
		}
		if err = m.copySessions(ctx, c, tenant, ids); err == nil {
			err = c.Set(ctx, base+"moving", next, 0).Err()
		}
		from = next
	}
	if err != nil {
		return err
	}
	return m.copyStream(ctx, c, tenant)
}

// copyChanged copies sessions that have changed, and returns the number of sessions.
func (m *migrator) copyChanged(ctx context.Context, c client, tenant string) (n int, err error) {
	base := m.old(tenant).base
	var ids []string
	for {
		args := append([]any{migratePage, base}, anys(ids)...)
		ids, err = m.s.runScript(ctx, c, "changed", part{base: base + "moving:"}, args...).StringSlice()
		if err != nil || len(ids) == 0 {
			break
		}
		if err = m.copySessions(ctx, c, tenant, ids); err != nil {
			return n, err
		}
		n += len(ids)
	}
	if err != nil {
		return n, err
	}
	return n, m.copyStream(ctx, c, tenant)
}

// kinds are the kinds of the keys of a session.
const kinds = "sxmfk"

// oldSession is a session as the old layout holds the session.
type oldSession struct {
	id        session.ID
	dumps     [len(kinds)]*goredis.StringCmd
	heads     *goredis.SliceCmd // h and w
	unsettled *goredis.BoolCmd  // whether unsettled
	scores    [3]*goredis.FloatCmd
	trail     *goredis.StringCmd
	samples   *goredis.StringSliceCmd // fields of m
	entries   *goredis.SliceCmd       // entries of the stream in m
	begun     string                  // start, if due
}

// copySessions copies sessions with their index entries, or deletes the copies of sessions that have left.
func (m *migrator) copySessions(ctx context.Context, c client, tenant string, ids []string) error {
	for chunk := range slices.Chunk(ids, migrateChunk) {
		if err := m.claim(ctx); err != nil {
			return err
		}
		list, err := m.readSessions(ctx, c, tenant, chunk)
		if err == nil {
			err = m.copyIndex(ctx, c, tenant, list)
		}
		if err == nil {
			err = m.writeSessions(ctx, c, tenant, list)
		}
		if err != nil {
			return err
		}
		m.copied(len(chunk))
	}
	return nil
}

// copied adds a number of copied sessions to the progress.
func (m *migrator) copied(sessions int) {
	m.progress.Lock()
	defer m.progress.Unlock()
	if n := m.sessions.Add(int64(sessions)); m.o.Progress != nil {
		m.o.Progress(n)
	}
}

// readSessions reads sessions from the old layout.
func (m *migrator) readSessions(ctx context.Context, c client, tenant string, ids []string) ([]*oldSession, error) {
	base, pipe := m.old(tenant).base, c.Pipeline()
	list := make([]*oldSession, len(ids))
	for i, text := range ids {
		r := &oldSession{id: toID(text)}
		name := r.id.String()
		for n, kind := range kinds {
			r.dumps[n] = pipe.Dump(ctx, base+string(kind)+":"+name)
		}
		r.heads = pipe.HMGet(ctx, base+"s:"+name, "h", "w")
		r.unsettled = pipe.SIsMember(ctx, base+"unsettled", text)
		for n, key := range [...]string{"seen", "order", "told"} {
			r.scores[n] = pipe.ZScore(ctx, base+key, text)
		}
		r.trail = pipe.Get(ctx, base+"k:"+name)
		r.samples = pipe.HKeys(ctx, base+"m:"+name)
		list[i] = r
	}
	if err := each(ctx, pipe); err != nil {
		return nil, err
	}
	pipe = c.Pipeline()
	starts := map[*oldSession]map[string]*goredis.FloatCmd{}
	for _, r := range list {
		starts[r] = map[string]*goredis.FloatCmd{}
		head, _ := r.heads.Val()[0].(string)
		early, _ := r.heads.Val()[1].(string)
		for _, begun := range []string{head[:min(8, len(head))], early} {
			if begun != "" {
				starts[r][begun] = pipe.ZScore(ctx, base+"due", begun+string(r.id[:]))
			}
		}
		if fields := entryFields(r.samples.Val()); len(fields) > 0 {
			r.entries = pipe.HMGet(ctx, base+"m:"+r.id.String(), fields...)
		}
	}
	if err := each(ctx, pipe); err != nil {
		return nil, err
	}
	for _, r := range list {
		for begun, cmd := range starts[r] {
			if cmd.Err() == nil {
				r.begun = begun
			}
		}
	}
	return list, nil
}

// entryFields returns the fields of the samples of a session that hold entries of the stream.
func entryFields(fields []string) (entries []string) {
	for _, name := range fields {
		if strings.HasPrefix(name, ":") {
			entries = append(entries, name)
		}
	}
	return entries
}

// copyIndex copies the index entries of sessions, as Write does: an entry of a session that has left is
// deleted.
func (m *migrator) copyIndex(ctx context.Context, c client, tenant string, list []*oldSession) error {
	type entry struct {
		source *oldSession
		kind   string
		key    string
	}
	const size = 9
	old := m.old(tenant)
	var entries []entry
	for _, r := range list {
		for trail := r.trail.Val(); len(trail) >= size; trail = trail[size:] {
			entries = append(entries, entry{r, trail[:1], trail[1:size]})
		}
	}
	add := newPlan("write")
	add.shards = m.o.Shards
	for chunk := range slices.Chunk(entries, migratePage) {
		values, err := piped(ctx, c, chunk, func(p goredis.Pipeliner, e entry) *goredis.StringCmd {
			if e.kind == "e" {
				return p.HGet(ctx, old.bucket("e", e.key), e.key)
			}
			return p.HGet(ctx, old.bucket("i", e.key), e.key)
		})
		if err != nil {
			return err
		}
		for i, e := range chunk {
			id, v := string(e.source.id[:]), values[i].Val()
			if e.kind != "e" {
				if v == id {
					add.add(indexSpot(tenant, e.key), "i", id, e.key)
				}
				continue
			}
			for ; len(v) >= 24; v = v[24:] {
				if v[8:24] == id {
					add.add(indexSpot(tenant, e.key), "e", id, e.key, v[:8])
				}
			}
		}
	}
	return m.s.run(ctx, c, add)
}

// deletedEntries returns the entries of the stream that a copy of the samples names and the session does
// not name any more.
func (r *oldSession) deletedEntries(copied map[string]string) (list []string) {
	kept := map[string]bool{}
	if r.entries != nil {
		for _, v := range r.entries.Val() {
			text, _ := v.(string)
			kept[text] = true
		}
	}
	for name, entry := range copied {
		if strings.HasPrefix(name, ":") && !kept[entry] {
			list = append(list, entry)
		}
	}
	return list
}

// lists returns the arguments of immigrate.lua.
func (r *oldSession) lists() []any {
	args := []any{string(r.id[:])}
	for _, cmd := range r.scores {
		text := ""
		if cmd.Err() == nil {
			text = formatScore(cmd.Val())
		}
		args = append(args, text)
	}
	return append(args, r.begun, bit(r.unsettled.Val()))
}

// writeSessions writes sessions into the shards.
func (m *migrator) writeSessions(ctx context.Context, c client, tenant string, list []*oldSession) error {
	type copied struct {
		trail   *goredis.StringCmd
		entries *goredis.MapStringStringCmd
	}
	pipe, before := c.Pipeline(), make([]copied, len(list))
	for i, r := range list {
		in := m.new(sessionSpot(tenant, r.id))
		before[i] = copied{pipe.Get(ctx, in.base+"k:"+r.id.String()), pipe.HGetAll(ctx, in.base+"m:"+r.id.String())}
	}
	if err := each(ctx, pipe); err != nil {
		return err
	}
	pipe = c.Pipeline()
	lists, unindex := newPlan("immigrate"), newPlan("unindex")
	lists.shards, unindex.shards = m.o.Shards, m.o.Shards
	for i, r := range list {
		sp := sessionSpot(tenant, r.id)
		in, id := m.new(sp), string(r.id[:])
		for _, entry := range r.deletedEntries(before[i].entries.Val()) {
			pipe.XDel(ctx, in.base+"samples", entry)
		}
		for n, kind := range kinds {
			if key := in.base + string(kind) + ":" + r.id.String(); r.dumps[n].Val() == "" {
				pipe.Del(ctx, key)
			} else {
				pipe.RestoreReplace(ctx, key, 0, r.dumps[n].Val())
			}
		}
		if r.scores[0].Err() != nil { // the session has left
			for trail := before[i].trail.Val(); len(trail) >= 9; trail = trail[9:] {
				unindex.add(indexSpot(tenant, trail[1:9]), trail[:1], trail[1:9], id)
			}
			lists.add(sp, id, "", "", "", "", "0")
			continue
		}
		lists.add(sp, r.lists()...)
	}
	if _, err := pipe.Exec(ctx); err != nil {
		return err
	}
	if err := m.s.run(ctx, c, unindex); err != nil {
		return err
	}
	return m.s.run(ctx, c, lists)
}

// copyStream copies the entries of the stream of samples behind the stored position.
func (m *migrator) copyStream(ctx context.Context, c client, tenant string) error {
	base := m.old(tenant).base
	position, err := c.Get(ctx, base+"moving:stream").Result()
	if err != nil && !absent(err) {
		return err
	}
	for {
		from := "-"
		if position != "" {
			from = "(" + position
		}
		entries, err := c.XRangeN(ctx, base+"samples", from, "+", migratePage).Result()
		if err != nil || len(entries) == 0 {
			return err
		}
		if err := m.claim(ctx); err != nil {
			return err
		}
		p := newPlan("entries")
		p.shards = m.o.Shards
		for _, e := range entries {
			text := func(name string) string { v, _ := e.Values[name].(string); return v }
			id, ok := session.ParseID(text("session"))
			if !ok {
				return fmt.Errorf("%w: a sample names the session %q", ErrCorrupt, text("session"))
			}
			ms, _, _ := strings.Cut(e.ID, "-")
			p.add(sessionSpot(tenant, id), string(id[:]), e.ID, ms, text("sample_id"), text("family"), text("tenant"), text("agent"), text("created_at"), text("at"))
		}
		position = entries[len(entries)-1].ID
		if err := m.s.run(ctx, c, p); err != nil {
			return err
		}
		if err := c.Set(ctx, base+"moving:stream", position, 0).Err(); err != nil {
			return err
		}
	}
}

// copyOptOuts copies the marks of opted-out sessions.
func (m *migrator) copyOptOuts(ctx context.Context, c client) error {
	prefix := m.s.commonKey("optout:")
	copyNode := func(ctx context.Context, c *goredis.Client) error {
		it := c.Scan(ctx, 0, globEscape(prefix)+"*", 1000).Iterator()
		var names []string
		for it.Next(ctx) {
			names = append(names, strings.TrimPrefix(it.Val(), prefix))
		}
		if err := it.Err(); err != nil {
			return err
		}
		return m.copyMarks(ctx, m.s.client, names)
	}
	switch c := c.(type) {
	case *goredis.ClusterClient:
		return c.ForEachMaster(ctx, copyNode)
	case *goredis.Client:
		return copyNode(ctx, c)
	}
	return nil
}

// globEscape escapes the special characters of a pattern of SCAN.
func globEscape(text string) string {
	return strings.NewReplacer(`\`, `\\`, "*", `\*`, "?", `\?`, "[", `\[`, "]", `\]`).Replace(text)
}

// copyChangedMarks copies the marks of sessions that opted out during the migration.
func (m *migrator) copyChangedMarks(ctx context.Context, c client) error {
	var ids []string
	for {
		args := append([]any{migratePage, m.s.commonKey("")}, anys(ids)...)
		var err error
		if ids, err = m.s.runScript(ctx, c, "changed", part{base: m.s.commonKey("moving:")}, args...).StringSlice(); err != nil || len(ids) == 0 {
			return err
		}
		names := make([]string, len(ids))
		for i, id := range ids {
			names[i] = hex.EncodeToString([]byte(id))
		}
		if err := m.copyMarks(ctx, c, names); err != nil {
			return err
		}
	}
}

// copyMarks copies marks of opted-out sessions by the hex of their names.
func (m *migrator) copyMarks(ctx context.Context, c client, names []string) error {
	p := newPlan("optout")
	p.shards = m.o.Shards
	for chunk := range slices.Chunk(names, migratePage) {
		key := func(name string) string { return m.s.commonKey("optout:" + name) }
		values, err := piped(ctx, c, chunk, func(p goredis.Pipeliner, name string) *goredis.StringCmd { return p.Get(ctx, key(name)) })
		if err != nil {
			return err
		}
		lives, err := piped(ctx, c, chunk, func(p goredis.Pipeliner, name string) *goredis.DurationCmd { return p.PTTL(ctx, key(name)) })
		if err != nil {
			return err
		}
		for i, name := range chunk {
			turns, items, ok := strings.Cut(values[i].Val(), " ")
			raw, err := hex.DecodeString(name)
			if !ok || err != nil || lives[i].Val() <= 0 || len(raw) != len(session.ID{}) { // the mark has expired
				continue
			}
			p.add(spot{kind: spotMarks, hash: raw[0]}, string(raw), turns, items, millis(lives[i].Val()))
		}
	}
	return m.s.run(ctx, c, p)
}

// freeze ends the writes in the old layout for a while, first the registration of tenants, and returns all
// tenants.
func (m *migrator) freeze(ctx context.Context) (names []string, err error) {
	err = m.s.do(ctx, "migrate", func(c client) error {
		if err := c.Set(ctx, m.s.commonKey("frozen"), m.owner, migrateFreeze).Err(); err != nil {
			return err
		}
		if names, err = m.s.tenants(ctx, c); err != nil {
			return err
		}
		for chunk := range slices.Chunk(names, migratePage) {
			_, err := piped(ctx, c, chunk, func(p goredis.Pipeliner, tenant string) *goredis.StatusCmd {
				return p.Set(ctx, m.old(tenant).base+"frozen", m.owner, migrateFreeze)
			})
			if err != nil {
				return err
			}
		}
		return nil
	})
	return names, err
}

// finish copies the rest of a frozen store, and switches to the shards.
func (m *migrator) finish(ctx context.Context, names []string) error {
	err := m.each(ctx, names, func(ctx context.Context, c client, tenant string) error {
		if err := m.copyTenant(ctx, c, tenant); err != nil { // of a tenant that was registered meanwhile
			return err
		}
		if _, err := m.copyChanged(ctx, c, tenant); err != nil {
			return err
		}
		return m.copyValues(ctx, c, tenant)
	})
	if err != nil {
		return err
	}
	return m.s.do(ctx, "migrate", func(c client) error {
		if err := m.copyChangedMarks(ctx, c); err != nil {
			return err
		}
		now, err := c.Time(ctx).Result()
		if err != nil {
			return err
		}
		deadline := now.Add(migrateFreeze / 2) // all tenants stay frozen for longer
		if err := m.stillFrozen(ctx, c, names...); err != nil {
			return err
		}
		done, err := m.s.runScript(ctx, c, "switch", m.s.partOf(m.o.Shards, spot{}), m.o.Shards, deadline.UnixMilli()).Int()
		if err == nil && done == 0 {
			err = errThawed
		}
		return err
	})
}

// errThawed reports that a freeze has ended too early.
var errThawed = fmt.Errorf("a freeze has ended before its tenant was copied: %w", ErrBusy)

// stillFrozen extends the freeze of tenants and of the registration, and fails if a freeze has ended.
func (m *migrator) stillFrozen(ctx context.Context, c client, names ...string) error {
	keys := []string{m.s.commonKey("frozen")}
	for _, tenant := range names {
		keys = append(keys, m.old(tenant).base+"frozen")
	}
	for chunk := range slices.Chunk(keys, migratePage) {
		results, err := piped(ctx, c, chunk, func(p goredis.Pipeliner, key string) *goredis.BoolCmd { return p.PExpire(ctx, key, migrateFreeze) })
		if err != nil {
			return err
		}
		for _, cmd := range results {
			if !cmd.Val() {
				return errThawed
			}
		}
	}
	return nil
}

// copyValues copies the values that a tenant has once, and the lists of marks and unfinished deletions.
func (m *migrator) copyValues(ctx context.Context, c client, tenant string) error {
	old, home := m.old(tenant).base, m.new(tenantSpot(tenant))
	// An earlier call that was killed may have copied rows and parked feedback that have left.
	for _, set := range []struct {
		base   string
		remove bool
	}{{home.base, true}, {old, false}} {
		keys, err := valueKeys(ctx, c, set.base)
		if err != nil {
			return err
		}
		for chunk := range slices.Chunk(keys, migratePage) {
			if err := m.claim(ctx); err != nil {
				return err
			}
			if set.remove {
				_, err = piped(ctx, c, chunk, func(p goredis.Pipeliner, key string) *goredis.IntCmd { return p.Del(ctx, home.base+key) })
			} else {
				err = m.copyKeys(ctx, c, old, home.base, chunk)
			}
			if err != nil {
				return err
			}
		}
	}
	if err := m.copySums(ctx, c, tenant); err != nil {
		return err
	}
	if err := m.copyMembers(ctx, c, tenant); err != nil {
		return err
	}
	return m.copyGroups(ctx, c, tenant)
}

// valueKeys returns the keys of the values that a tenant has once, the lists of these keys last.
func valueKeys(ctx context.Context, c client, base string) (keys []string, err error) {
	rows, err := c.HKeys(ctx, base+"counters").Result()
	if err != nil {
		return nil, err
	}
	for _, k := range rows {
		keys = append(keys, "c:"+k)
	}
	parked, err := c.ZRangeByScore(ctx, base+"parked", &goredis.ZRangeBy{Min: "-inf", Max: "+inf"}).Result()
	if err != nil {
		return nil, err
	}
	for _, member := range parked {
		keys = append(keys, "p:"+hex.EncodeToString([]byte(member[:min(8, len(member))])))
	}
	slices.Sort(keys)
	return append(slices.Compact(keys), "maxima", "priors", "notes", "jots", "counters", "parked"), nil
}

// copyKeys copies keys as they are.
func (m *migrator) copyKeys(ctx context.Context, c client, from, to string, keys []string) error {
	dumps, err := piped(ctx, c, keys, func(p goredis.Pipeliner, key string) *goredis.StringCmd { return p.Dump(ctx, from+key) })
	if err != nil {
		return err
	}
	pipe := c.Pipeline()
	for i, key := range keys {
		if dumps[i].Val() != "" {
			pipe.RestoreReplace(ctx, to+key, 0, dumps[i].Val())
		}
	}
	_, err = pipe.Exec(ctx)
	return err
}

// copySums copies the totals of a tenant.
func (m *migrator) copySums(ctx context.Context, c client, tenant string) error {
	old := m.old(tenant).base
	sums, err := c.HGetAll(ctx, old+"t").Result()
	if err != nil {
		return err
	}
	n, err := c.ZCard(ctx, old+"order").Result() // the earliest releases did not count the sessions
	if err != nil {
		return err
	}
	sums["sessions"] = strconv.FormatInt(n, 10)
	p := newPlan("sums")
	p.shards = m.o.Shards
	for _, name := range []string{"exchanges", "exchanges_ever", "samples", "samples_ever", "feedback", "late", "sessions"} {
		p.add(tenantSpot(tenant), name, strconv.FormatInt(integer(sums[name]), 10))
	}
	return m.s.run(ctx, c, p)
}

// copyMembers copies the marks of sessions that are set aside, and the unfinished deletions.
func (m *migrator) copyMembers(ctx context.Context, c client, tenant string) error {
	const size = len(session.ID{})
	old, copied := m.old(tenant).base, m.new(tenantSpot(tenant)).base+"movingaside"
	earlier, err := c.SMembers(ctx, copied).Result()
	if err != nil {
		return err
	}
	marks, err := c.HGetAll(ctx, old+"aside").Result()
	if err != nil {
		return err
	}
	deletions, err := c.HGetAll(ctx, old+"gone").Result()
	if err != nil || len(earlier)+len(marks)+len(deletions) == 0 {
		return err
	}
	lists := func(field string) string { return m.new(sessionSpot(tenant, toID(field))).lists }
	for field := range marks {
		if err := c.SAdd(ctx, copied, field).Err(); err != nil {
			return err
		}
	}
	pipe := c.Pipeline()
	for _, field := range earlier {
		pipe.HDel(ctx, lists(field)+"aside", field+"\x00"+tenant)
	}
	for field, value := range marks {
		pipe.HSet(ctx, lists(field)+"aside", field+"\x00"+tenant, value)
	}
	for field, trail := range deletions {
		if len(field) >= size {
			pipe.HSet(ctx, lists(field)+"gone", field[:size]+tenant, trail)
		}
	}
	_, err = pipe.Exec(ctx)
	return err
}

// copyGroups copies the places of consumer groups to the streams of the shards.
func (m *migrator) copyGroups(ctx context.Context, c client, tenant string) error {
	groups, err := c.XInfoGroups(ctx, m.old(tenant).base+"samples").Result()
	if err != nil {
		if isMissingStream(err) {
			return nil
		}
		return err
	}
	for _, g := range groups {
		places := map[string]string{}
		for shard := range m.o.Shards {
			places[m.s.partIn(m.o.Shards, tenant, shard).base+"samples"] = g.LastDeliveredID
		}
		if err := m.s.ackSamples(ctx, c, g.Name, places); err != nil {
			return err
		}
	}
	return nil
}

// deleteOld deletes the keys of the old layout, which no replica uses any more.
func (m *migrator) deleteOld(ctx context.Context) error {
	names, err := m.s.Tenants(ctx)
	if err != nil {
		return err
	}
	err = m.each(ctx, names, func(ctx context.Context, c client, tenant string) error {
		return c.Set(ctx, m.old(tenant).base+"frozen", m.owner, 0).Err() // also for a replica that was paused for a long time
	})
	if err != nil {
		return err
	}
	for remaining := m.o.Pause; remaining > 0; remaining -= time.Second {
		if err := errors.Join(m.claim(ctx), wait(ctx, min(time.Second, remaining))); err != nil {
			return err
		}
	}
	if err := m.each(ctx, names, m.deleteTenant); err != nil {
		return err
	}
	return m.s.do(ctx, "migrate", func(c client) error {
		return c.Del(ctx, m.s.commonKey("frozen"), m.s.commonKey("dirty"), m.s.commonKey("taken"), m.state()).Err()
	})
}

// wait waits for a duration or the end of the context.
func wait(ctx context.Context, d time.Duration) error {
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(d):
		return nil
	}
}

// movedMark is the value of the key of the totals of a tenant that has moved: most calls of a release
// without shards fail at the wrong type. The key 'frozen' refuses the calls of this release.
const movedMark = "the tenant has moved to shards"

// deleteTenant deletes the keys of a tenant in the old layout.
func (m *migrator) deleteTenant(ctx context.Context, c client, tenant string) error {
	base := m.old(tenant).base
	if err := m.deleteSessions(ctx, c, tenant); err != nil {
		return err
	}
	values, err := valueKeys(ctx, c, base)
	if err != nil {
		return err
	}
	keys := append([]string{
		"order", "due", "unsettled", "told", "aside", "gone", "samples", "exchanges", "dirty", "taken", "moving", "moving:stream",
	}, values...)
	for chunk := range slices.Chunk(keys, migratePage) {
		for i := range chunk {
			chunk[i] = base + chunk[i]
		}
		if err := c.Del(ctx, chunk...).Err(); err != nil {
			return err
		}
	}
	pipe := c.Pipeline()
	pipe.Set(ctx, base+"t", movedMark, 0)
	home := m.s.partOf(m.o.Shards, tenantSpot(tenant)).base
	pipe.Del(ctx, home+"movingsums")
	pipe.Del(ctx, home+"movingaside")
	for shard := range m.o.Shards {
		pipe.Del(ctx, m.s.partIn(m.o.Shards, tenant, shard).base+"moving")
	}
	_, err = pipe.Exec(ctx)
	return err
}

// deleteSessions deletes the sessions of a tenant in the old layout, with their index entries.
func (m *migrator) deleteSessions(ctx context.Context, c client, tenant string) error {
	old := m.old(tenant)
	for {
		ids, err := c.ZRangeByScore(ctx, old.base+"seen", &goredis.ZRangeBy{Min: "-inf", Max: "+inf", Count: callItems}).Result()
		if err != nil || len(ids) == 0 {
			return err
		}
		if err := m.claim(ctx); err != nil {
			return err
		}
		trails, err := piped(ctx, c, ids, func(p goredis.Pipeliner, id string) *goredis.StringCmd {
			return p.Get(ctx, old.base+"k:"+toID(id).String())
		})
		if err != nil {
			return err
		}
		var keys []string
		for i, id := range ids {
			for _, kind := range kinds {
				keys = append(keys, old.base+string(kind)+":"+toID(id).String())
			}
			for trail := trails[i].Val(); len(trail) >= 9; trail = trail[9:] {
				kind := trail[:1]
				if kind != "e" {
					kind = "i"
				}
				keys = append(keys, old.bucket(kind, trail[1:9]))
			}
		}
		for chunk := range slices.Chunk(keys, migratePage) {
			if err := c.Del(ctx, chunk...).Err(); err != nil {
				return err
			}
		}
		if err := c.ZRem(ctx, old.base+"seen", anys(ids)...).Err(); err != nil {
			return err
		}
	}
}
