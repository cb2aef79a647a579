package redis

import (
	"context"
	"fmt"
	"slices"
	"strings"

	goredis "github.com/redis/go-redis/v9"

	"precept/internal/session"
)

// copyAllSessions copies a tenant's sessions, ordered by last use, from the position in the 'moving' key.
// copyChangedSessions copies the sessions that move in the list in the meantime.
func (m *migrator) copyAllSessions(ctx context.Context, c client, tenant string) error {
	base := m.oldKeys(tenant).base
	if err := c.SetNX(ctx, base+"moving", "-inf", 0).Err(); err != nil {
		return err
	}
	from, err := c.Get(ctx, base+"moving").Result()
	for err == nil && from != "end" {
		by := &goredis.ZRangeBy{Min: from, Max: "+inf", Count: migratePage}
		list, rangeErr := c.ZRangeByScoreWithScores(ctx, base+"seen", by).Result()
		if rangeErr != nil {
			return rangeErr
		}
		next := "end"
		if len(list) == migratePage { // the next page can begin with sessions that have the same time
			last := list[len(list)-1].Score
			list = slices.DeleteFunc(list, func(z goredis.Z) bool { return z.Score == last })
			next = formatScore(last)
			if len(list) == 0 {
				same, rangeErr := c.ZRangeByScoreWithScores(ctx, base+"seen", &goredis.ZRangeBy{Min: next, Max: next}).Result()
				if rangeErr != nil {
					return rangeErr
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
	return err
}

// copyChangedSessions copies the sessions changed since they were last copied, then the new entries in the sample
// stream.
func (m *migrator) copyChangedSessions(ctx context.Context, c client, tenant string) (err error) {
	base := m.oldKeys(tenant).base
	for ids := []string(nil); ; {
		args := append([]any{migratePage, base}, toArgs(ids)...)
		ids, err = m.store.runScript(ctx, c, "changed", keyspace{base: base + "moving:"}, args...).StringSlice()
		if err == nil && len(ids) == 0 {
			return m.copyStream(ctx, c, tenant)
		}
		if err == nil {
			err = m.copySessions(ctx, c, tenant, ids)
		}
		if err != nil {
			return err
		}
	}
}

// sessionKeyKinds has the first letter of each session key: row, exchanges, samples, feedback, and list of index
// entries.
const sessionKeyKinds = "sxmfk"

type oldSession struct {
	id           session.ID
	dumps        [len(sessionKeyKinds)]*goredis.StringCmd
	headFields   *goredis.SliceCmd // fields h (head) and w (start, if the session has no row yet) of the s key
	unsettled    *goredis.BoolCmd
	scores       [3]*goredis.FloatCmd // scores in the sorted sets "seen", "order" and "told"
	indexEntries *goredis.StringCmd
	samples      *goredis.StringSliceCmd // field names of the m key
	entries      *goredis.SliceCmd       // stream entry ids in the m key; nil means none
	dueStart     string                  // start in the list of due sessions; "" means not due
}

// copySessions copies sessions and their index entries. If a session has been deleted in the meantime, its copy is
// deleted.
func (m *migrator) copySessions(ctx context.Context, c client, tenant string, ids []string) error {
	for chunk := range slices.Chunk(ids, migrateChunk) {
		if err := m.renewLease(ctx); err != nil {
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
		m.addProgress(len(chunk))
	}
	return nil
}

func (m *migrator) addProgress(sessions int) {
	m.progressMu.Lock()
	defer m.progressMu.Unlock()
	if n := m.sessions.Add(int64(sessions)); m.options.Progress != nil {
		m.options.Progress(n)
	}
}

func (m *migrator) readSessions(ctx context.Context, c client, tenant string, ids []string) ([]*oldSession, error) {
	base, pipe := m.oldKeys(tenant).base, c.Pipeline()
	list := make([]*oldSession, len(ids))
	for i, text := range ids {
		r := &oldSession{id: idFromBytes(text)}
		name := r.id.String()
		for n, kind := range sessionKeyKinds {
			r.dumps[n] = pipe.Dump(ctx, base+string(kind)+":"+name)
		}
		r.headFields = pipe.HMGet(ctx, base+"s:"+name, "h", "w")
		r.unsettled = pipe.SIsMember(ctx, base+"unsettled", text)
		for n, key := range [...]string{"seen", "order", "told"} {
			r.scores[n] = pipe.ZScore(ctx, base+key, text)
		}
		r.indexEntries = pipe.Get(ctx, base+"k:"+name)
		r.samples = pipe.HKeys(ctx, base+"m:"+name)
		list[i] = r
	}
	if err := readPipeline(ctx, pipe); err != nil {
		return nil, err
	}
	pipe = c.Pipeline()
	starts := map[*oldSession]map[string]*goredis.FloatCmd{}
	for _, r := range list {
		starts[r] = map[string]*goredis.FloatCmd{}
		head, _ := r.headFields.Val()[0].(string)
		early, _ := r.headFields.Val()[1].(string)
		for _, start := range []string{head[:min(8, len(head))], early} {
			if start != "" {
				starts[r][start] = pipe.ZScore(ctx, base+"due", start+string(r.id[:]))
			}
		}
		if fields := entryFields(r.samples.Val()); len(fields) > 0 {
			r.entries = pipe.HMGet(ctx, base+"m:"+r.id.String(), fields...)
		}
	}
	if err := readPipeline(ctx, pipe); err != nil {
		return nil, err
	}
	for _, r := range list {
		for start, cmd := range starts[r] {
			if cmd.Err() == nil {
				r.dueStart = start
			}
		}
	}
	return list, nil
}

func entryFields(fields []string) (entries []string) {
	for _, name := range fields {
		if strings.HasPrefix(name, ":") {
			entries = append(entries, name)
		}
	}
	return entries
}

// copyIndex copies sessions' index entries. This comes first, because a session without index entries is never found.
// writeSessions deletes the index entries for deleted sessions.
func (m *migrator) copyIndex(ctx context.Context, c client, tenant string, list []*oldSession) error {
	type entry struct {
		source *oldSession
		kind   string // "e" for an echo key, "m" for a sample id
		key    string
	}
	const size = 9
	old := m.oldKeys(tenant)
	var entries []entry
	for _, r := range list {
		for remaining := r.indexEntries.Val(); len(remaining) >= size; remaining = remaining[size:] {
			entries = append(entries, entry{r, remaining[:1], remaining[1:size]})
		}
	}
	add := newPlan("write")
	add.shardCount = m.options.Shards
	for chunk := range slices.Chunk(entries, migratePage) {
		values, err := runPipelined(ctx, c, chunk, func(p goredis.Pipeliner, e entry) *goredis.StringCmd {
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
					add.add(indexLocation(tenant, e.key), "i", id, e.key)
				}
				continue
			}
			for ; len(v) >= 24; v = v[24:] {
				if v[8:24] == id {
					add.add(indexLocation(tenant, e.key), "e", id, e.key, v[:8])
				}
			}
		}
	}
	return m.store.runPlan(ctx, c, add)
}

func (o *oldSession) deletedEntries(copied map[string]string) (list []string) {
	currentEntries := map[string]bool{}
	if o.entries != nil {
		for _, v := range o.entries.Val() {
			text, _ := v.(string)
			currentEntries[text] = true
		}
	}
	for name, entry := range copied {
		if strings.HasPrefix(name, ":") && !currentEntries[entry] {
			list = append(list, entry)
		}
	}
	return list
}

func (o *oldSession) immigrateArgs() []any {
	args := []any{string(o.id[:])}
	for _, cmd := range o.scores {
		text := ""
		if cmd.Err() == nil {
			text = formatScore(cmd.Val())
		}
		args = append(args, text)
	}
	return append(args, o.dueStart, boolDigit(o.unsettled.Val()))
}

func (m *migrator) writeSessions(ctx context.Context, c client, tenant string, list []*oldSession) error {
	type copiedSession struct {
		indexEntries *goredis.StringCmd
		entries      *goredis.MapStringStringCmd
	}
	pipe, before := c.Pipeline(), make([]copiedSession, len(list))
	for i, r := range list {
		ks := m.newKeys(sessionLocation(tenant, r.id))
		before[i] = copiedSession{pipe.Get(ctx, ks.base+"k:"+r.id.String()), pipe.HGetAll(ctx, ks.base+"m:"+r.id.String())}
	}
	if err := readPipeline(ctx, pipe); err != nil {
		return err
	}
	pipe = c.Pipeline()
	lists, unindex := newPlan("immigrate"), newPlan("unindex")
	lists.shardCount, unindex.shardCount = m.options.Shards, m.options.Shards
	for i, r := range list {
		loc := sessionLocation(tenant, r.id)
		ks, id := m.newKeys(loc), string(r.id[:])
		for _, entry := range r.deletedEntries(before[i].entries.Val()) {
			pipe.XDel(ctx, ks.base+"samples", entry)
		}
		for n, kind := range sessionKeyKinds {
			if key := ks.base + string(kind) + ":" + r.id.String(); r.dumps[n].Val() == "" {
				pipe.Del(ctx, key)
			} else {
				pipe.RestoreReplace(ctx, key, 0, r.dumps[n].Val())
			}
		}
		if r.scores[0].Err() != nil { // the session was deleted
			for entries := before[i].indexEntries.Val(); len(entries) >= 9; entries = entries[9:] {
				unindex.add(indexLocation(tenant, entries[1:9]), entries[:1], entries[1:9], id)
			}
			lists.add(loc, id, "", "", "", "", "0")
			continue
		}
		lists.add(loc, r.immigrateArgs()...)
	}
	if _, err := pipe.Exec(ctx); err != nil {
		return err
	}
	if err := m.store.runPlan(ctx, c, unindex); err != nil {
		return err
	}
	return m.store.runPlan(ctx, c, lists)
}

// copyStream copies the sample stream entries after the position in the 'moving:stream' key, and advances the position.
func (m *migrator) copyStream(ctx context.Context, c client, tenant string) error {
	base := m.oldKeys(tenant).base
	position, err := c.Get(ctx, base+"moving:stream").Result()
	if err != nil && !isAbsent(err) {
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
		if err := m.renewLease(ctx); err != nil {
			return err
		}
		p := newPlan("entries")
		p.shardCount = m.options.Shards
		for _, e := range entries {
			text := func(name string) string { v, _ := e.Values[name].(string); return v }
			id, ok := session.ParseID(text("session"))
			if !ok {
				return fmt.Errorf("%w: a sample names the session %q", ErrCorrupt, text("session"))
			}
			ms, _, _ := strings.Cut(e.ID, "-")
			p.add(sessionLocation(tenant, id), string(id[:]), e.ID, ms, text("sample_id"), text("family"), text("tenant"), text("agent"), text("created_at"), text("at"))
		}
		position = entries[len(entries)-1].ID
		if err := m.store.runPlan(ctx, c, p); err != nil {
			return err
		}
		if err := c.Set(ctx, base+"moving:stream", position, 0).Err(); err != nil {
			return err
		}
	}
}
