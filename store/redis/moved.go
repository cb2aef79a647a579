package redis

import (
	"context"
	"slices"
	"strconv"
	"sync"

	goredis "github.com/redis/go-redis/v9"

	"precept/internal/session"
)

// progress holds the positions up to which Positions has read each shard and each tenant. A settlement is the step that
// adds a session's contribution to the counters, or corrects it.
type progress struct {
	mu             sync.Mutex
	shardPositions []shardPosition            // nil means no Positions call has succeeded
	ownSettlements []map[int64]struct{}       // this Store's settlements after shardPositions, by shard
	tenants        map[string]*tenantProgress // tenants followed by the Positions caller
	changes        int64                      // counter changes so far, over all tenants
	pendingBytes   int                        // size of all pending deltas
	oldLayoutRead  bool                       // Positions has succeeded for a store in the old layout
}

type shardPosition struct{ lastSettlement, lastWrite int64 }

// tenantProgress is a tenant's position, and the deltas waiting for Changes.
type tenantProgress struct {
	countersPosition   int64         // progress.changes after this tenant's last counter change
	feedbackSequences  map[int]int64 // newest feedback on an open session, by shard; nil means not read
	feedbackText       string        // feedbackSequences as text, or ""
	countedSettlements []int64       // last settlement in the caller's counters, by shard; nil means unknown
	pending            []logEntry    // other replicas' settlements after countedSettlements
}

// tenantPosition returns a tenant's progress, and adds the tenant if it is missing. It returns nil until a Positions
// call has succeeded. The caller holds mu.
func (pr *progress) tenantPosition(name string) *tenantProgress {
	if pr.shardPositions == nil {
		return nil
	}
	if pr.tenants[name] == nil {
		pr.tenants[name] = &tenantProgress{}
		pr.countChange(pr.tenants[name])
	}
	return pr.tenants[name]
}

// countChange records that a tenant's counters have changed, and gives the tenant a new position (see Positions). The
// caller holds mu.
func (pr *progress) countChange(tp *tenantProgress) {
	pr.changes++
	tp.countersPosition = pr.changes
}

// The caller holds mu.
func (pr *progress) dropTenantsExcept(names []string) {
	remaining := make(map[string]*tenantProgress, len(names))
	for _, name := range names {
		if tp := pr.tenants[name]; tp != nil {
			remaining[name] = tp
			delete(pr.tenants, name)
		}
	}
	for _, tp := range pr.tenants {
		pr.invalidate(tp)
	}
	pr.tenants = remaining
}

// Positions returns two values for each followed tenant, one for the counters and one for the feedback on open
// sessions. The caller reads the data again only if the value has changed. The result also lists other changed tenants
// with a zero Position. The first call returns all tenants with both values.
func (s *Store) Positions(ctx context.Context, follow []string) (map[string]session.Position, error) {
	s.progress.mu.Lock()
	defer s.progress.mu.Unlock()
	out := map[string]session.Position{}
	if err := s.do(ctx, "moved", func(client) error { return nil }); err != nil { // do reads the shard count
		return nil, err
	}
	if s.shards.Load() == 1 {
		return out, s.readOldLayoutPositions(ctx, follow, out)
	}
	if s.progress.oldLayoutRead { // counting continues from 1<<40, so that no new position equals one from the old layout
		s.progress.oldLayoutRead, s.progress.changes = false, 1<<40
	}
	if s.progress.shardPositions != nil {
		s.progress.dropTenantsExcept(follow)
	}
	err := s.do(ctx, "moved", func(c client) error {
		all, err := s.shardKeyspaces(ctx, c)
		if err != nil {
			return err
		}
		if err := s.readProgress(ctx, c, all, out); err != nil {
			return err
		}
		return s.readFeedbackSequences(ctx, c, all, follow)
	})
	for name, tp := range s.progress.tenants {
		out[name] = session.Position{Counters: strconv.FormatInt(tp.countersPosition, 10), ProvisionalRewards: tp.feedbackText}
	}
	return out, err
}

// readOldLayoutPositions implements Positions for the old layout, with separate sequence numbers for each tenant. The
// caller holds s.progress.mu.
func (s *Store) readOldLayoutPositions(ctx context.Context, follow []string, out map[string]session.Position) error {
	followed := map[string]bool{}
	for _, name := range follow {
		followed[name] = true
	}
	followedOnly := func(ctx context.Context, c client) (keyspaces []keyspace, err error) {
		all, err := s.shardKeyspaces(ctx, c)
		for _, ks := range all {
			out[ks.tenant] = session.Position{}
			if !s.progress.oldLayoutRead || followed[ks.tenant] {
				keyspaces = append(keyspaces, ks)
			}
		}
		return keyspaces, err
	}
	readPositions := func(p goredis.Pipeliner, ks keyspace) *goredis.SliceCmd {
		return p.HMGet(ctx, ks.listPrefix+"t", "moved", "told")
	}
	err := doEachKeyspace(ctx, s, "moved", followedOnly, readPositions, func(ks keyspace, cmd *goredis.SliceCmd) error {
		position := session.Position{}
		position.Counters, _ = cmd.Val()[0].(string)
		if sequence := parseInt(cmd.Val()[1]); sequence > 0 {
			position.ProvisionalRewards = formatSequences(map[int]int64{0: sequence})
		}
		out[ks.tenant] = position
		return nil
	})
	s.progress.oldLayoutRead = s.progress.oldLayoutRead || err == nil
	return err
}

type shardChange struct {
	shard    int
	from, to shardPosition
}

// readProgress reads the changed shards, and adds the changed tenants to changed. The caller holds s.progress.mu.
func (s *Store) readProgress(ctx context.Context, c client, all []keyspace, changed map[string]session.Position) error {
	latest, err := runPipelined(ctx, c, all, func(p goredis.Pipeliner, ks keyspace) *goredis.SliceCmd {
		return p.HMGet(ctx, ks.listPrefix+"t", "moved", "q")
	})
	if err != nil {
		return err
	}
	pr := &s.progress
	read := pr.shardPositions
	if read == nil { // no earlier call has succeeded
		read, pr.ownSettlements, pr.tenants = make([]shardPosition, len(all)), make([]map[int64]struct{}, len(all)), map[string]*tenantProgress{}
	}
	var shardChanges []shardChange
	for i := range all {
		to, from := shardPosition{parseInt(latest[i].Val()[0]), parseInt(latest[i].Val()[1])}, read[i]
		// After Redis has lost data, everything is read again.
		if to.lastSettlement < from.lastSettlement || to.lastWrite < from.lastWrite {
			read[i], from = shardPosition{}, shardPosition{}
			pr.invalidateAll()
			for _, tp := range pr.tenants {
				tp.feedbackSequences = nil
			}
		}
		if to != from {
			shardChanges = append(shardChanges, shardChange{i, from, to})
		}
	}
	if err := s.readChanges(ctx, c, all, shardChanges, changed); err != nil {
		return err
	}
	for _, change := range shardChanges {
		pr.shardPositions[change.shard] = change.to
	}
	return nil
}

// The caller holds s.progress.mu.
func (s *Store) readChanges(ctx context.Context, c client, all []keyspace, shardChanges []shardChange, changed map[string]session.Position) error {
	after := func(n int64) *goredis.ZRangeBy {
		return &goredis.ZRangeBy{Min: "(" + strconv.FormatInt(n, 10), Max: "+inf"}
	}
	settled, err := runPipelined(ctx, c, shardChanges, func(p goredis.Pipeliner, change shardChange) *goredis.ZSliceCmd {
		return p.ZRangeByScoreWithScores(ctx, all[change.shard].listPrefix+"moved", after(change.from.lastSettlement))
	})
	if err != nil {
		return err
	}
	feedback, err := runPipelined(ctx, c, shardChanges, func(p goredis.Pipeliner, change shardChange) *goredis.ZSliceCmd {
		return p.ZRangeByScoreWithScores(ctx, all[change.shard].listPrefix+"told", after(change.from.lastWrite))
	})
	if err != nil {
		return err
	}
	gaps, err := s.readLogs(ctx, c, all, shardChanges)
	if err != nil {
		return err
	}
	pr := &s.progress
	first := pr.shardPositions == nil
	if first {
		pr.shardPositions = make([]shardPosition, len(all))
	}
	tenant := func(z goredis.Z) *tenantProgress {
		name, _ := z.Member.(string)
		changed[name] = session.Position{}
		if first {
			return pr.tenantPosition(name)
		}
		return pr.tenants[name]
	}
	for i, change := range shardChanges {
		for _, z := range settled[i].Val() {
			if tp := tenant(z); tp != nil {
				pr.countChange(tp)
				if gaps[i] {
					pr.invalidate(tp)
				}
			}
		}
		for _, z := range feedback[i].Val() {
			if tp := tenant(z); tp != nil && (first || tp.feedbackSequences != nil) {
				tp.recordFeedback(change.shard, int64(z.Score))
			}
		}
	}
	if first {
		for _, tp := range pr.tenants {
			if tp.feedbackSequences == nil { // no feedback in any shard
				tp.feedbackSequences = map[int]int64{}
			}
		}
	}
	return nil
}

func (tp *tenantProgress) recordFeedback(shard int, sequence int64) {
	if tp.feedbackSequences == nil {
		tp.feedbackSequences = map[int]int64{}
	}
	tp.feedbackSequences[shard], tp.feedbackText = sequence, ""
}

// readFeedbackSequences reads the newest feedback's sequence numbers for newly followed tenants, and formats changed
// numbers. The caller holds s.progress.mu.
func (s *Store) readFeedbackSequences(ctx context.Context, c client, all []keyspace, follow []string) error {
	type scoreRead struct {
		tp    *tenantProgress
		shard int
		name  string
	}
	var list []scoreRead
	for _, name := range follow {
		if tp := s.progress.tenantPosition(name); tp.feedbackSequences == nil {
			for i := range all {
				list = append(list, scoreRead{tp, i, name})
			}
		}
	}
	for chunk := range slices.Chunk(list, 4*len(all)) {
		scores, err := runPipelined(ctx, c, chunk, func(p goredis.Pipeliner, q scoreRead) *goredis.FloatCmd {
			return p.ZScore(ctx, all[q.shard].listPrefix+"told", q.name)
		})
		if err != nil {
			return err
		}
		for i, q := range chunk {
			if sequence := int64(scores[i].Val()); sequence > 0 {
				q.tp.recordFeedback(q.shard, sequence)
			}
		}
		for _, q := range chunk {
			if q.tp.feedbackSequences == nil {
				q.tp.feedbackSequences = map[int]int64{}
			}
		}
	}
	for _, tp := range s.progress.tenants {
		if tp.feedbackText == "" && len(tp.feedbackSequences) > 0 {
			tp.feedbackText = formatSequences(tp.feedbackSequences)
		}
	}
	return nil
}
