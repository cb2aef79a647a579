package redis

import (
	"context"
	"encoding/binary"
	"slices"
	"strconv"
	"strings"

	goredis "github.com/redis/go-redis/v9"

	"precept/bandit/trial"
)

// A settlement adds a session's contribution to the counters. A replica does not read all counters again, but adds
// other replicas' settlements to its counters in memory. Each shard has a log of the latest settlements, which
// settle.lua writes. Positions reads new log entries, and Changes returns the deltas (counter changes).

// maxPendingBytes limits the deltas that wait for Changes. If a tenant exceeds the limit, all the tenant's counters
// must be read.
const maxPendingBytes = 32 << 20

// logEntry is an entry in a shard's log, for one successful settle.lua call.
type logEntry struct {
	shard  int
	number int64  // settlement's number in the shard
	deltas string // deltas of the applied steps, encoded by packDeltas
}

// Changes returns the deltas in a tenant's settlements that Positions has read since the last Counters or Changes call.
// It leaves out settlements that this Store's Settle has reported as applied.
//
// ok is false if deltas are missing; then call Counters instead. Changes must not run during a Settle.
func (s *Store) Changes(tenant string) (deltas []trial.Delta, ok bool) {
	s.progress.mu.Lock()
	defer s.progress.mu.Unlock()
	tp := s.progress.tenants[tenant]
	if tp == nil || tp.countedSettlements == nil {
		return nil, false
	}
	for _, e := range tp.pending {
		list, err := unpackDeltas(e.deltas)
		if err != nil {
			s.progress.invalidate(tp)
			return nil, false
		}
		deltas = append(deltas, list...)
	}
	s.progress.deletePending(tp, func(logEntry) bool { return true })
	return deltas, true
}

// The caller holds mu.
func (pr *progress) deletePending(tp *tenantProgress, match func(e logEntry) bool) {
	tp.pending = slices.DeleteFunc(tp.pending, func(e logEntry) bool {
		matches := match(e)
		if matches {
			pr.pendingBytes -= len(e.deltas)
		}
		return matches
	})
	if len(tp.pending) == 0 {
		tp.pending = nil
	}
}

// invalidate deletes a tenant's pending deltas when some are missing. The caller holds mu.
func (pr *progress) invalidate(tp *tenantProgress) {
	tp.countedSettlements = nil
	pr.deletePending(tp, func(logEntry) bool { return true })
}

// invalidateAll records that Redis might have lost settlements, so that all counters are read again. The caller holds
// mu.
func (pr *progress) invalidateAll() {
	for i := range pr.ownSettlements {
		pr.ownSettlements[i] = nil
	}
	for _, tp := range pr.tenants {
		pr.invalidate(tp)
		pr.countChange(tp)
	}
}

func (s *Store) invalidateProgress() {
	s.progress.mu.Lock()
	defer s.progress.mu.Unlock()
	s.progress.invalidateAll()
}

// recordCounters records that a tenant's counters were read. upTo has the last settlement that the counters include,
// for each shard; nil means unknown.
func (s *Store) recordCounters(tenant string, upTo []int64) {
	s.progress.mu.Lock()
	defer s.progress.mu.Unlock()
	tp := s.progress.tenantPosition(tenant)
	if tp == nil {
		return
	}
	for shard, n := range upTo {
		if s.progress.shardPositions[shard].lastSettlement > n && tp.countedSettlements == nil { // Positions has read entries after n, and has discarded them
			upTo = nil
			break
		}
	}
	if upTo == nil {
		s.progress.invalidate(tp)
		return
	}
	tp.countedSettlements = upTo
	s.progress.deletePending(tp, func(e logEntry) bool { return e.number <= upTo[e.shard] })
}

// lastRead returns the last settlement read by Positions in each shard.
func (pr *progress) lastRead(shards int) []int64 {
	pr.mu.Lock()
	defer pr.mu.Unlock()
	out := make([]int64, shards)
	for i := range pr.shardPositions {
		out[i] = pr.shardPositions[i].lastSettlement
	}
	return out
}

// recordOwnSettlements records the settlements in a plan's answered script calls. Changes leaves these out, because
// Settle's caller has the deltas. A call without an answer might have been executed, so Changes returns that call's
// deltas from the log.
func (pr *progress) recordOwnSettlements(p *plan, shards int) {
	pr.mu.Lock()
	defer pr.mu.Unlock()
	if pr.shardPositions == nil {
		return
	}
	for _, k := range p.calls {
		list, _ := k.reply.Int64Slice()
		number := slices.Max(append(list, 0))
		loc := p.items[k.itemIndexes[0]].location
		shard := int(loc.hash) % shards
		if number == 0 {
			continue
		}
		if number > pr.shardPositions[shard].lastSettlement {
			if pr.ownSettlements[shard] == nil {
				pr.ownSettlements[shard] = map[int64]struct{}{}
			}
			pr.ownSettlements[shard][number] = struct{}{}
		} else if tp := pr.tenants[loc.tenant]; tp != nil { // Positions has read the entry before the answer arrived
			pr.deletePending(tp, func(e logEntry) bool { return e.shard == shard && e.number == number })
		}
	}
}

// readLogs reads the changed shards' new log entries. Other replicas' entries become pending deltas for the tenants
// whose counters are known. gaps has the indexes in shardChanges of the shards whose log is incomplete. The caller must
// hold s.progress.mu.
func (s *Store) readLogs(ctx context.Context, c client, all []keyspace, shardChanges []shardChange) (gaps map[int]bool, err error) {
	logs, err := runPipelined(ctx, c, shardChanges, func(p goredis.Pipeliner, change shardChange) *goredis.XMessageSliceCmd {
		return p.XRange(ctx, all[change.shard].listPrefix+"log", strconv.FormatInt(change.from.lastSettlement+1, 10), strconv.FormatInt(change.to.lastSettlement, 10))
	})
	if err != nil {
		return nil, err
	}
	gaps = map[int]bool{}
	pr := &s.progress
	for i, change := range shardChanges {
		next, ownNumbers := change.from.lastSettlement+1, pr.ownSettlements[change.shard]
		for _, m := range logs[i].Val() {
			number, _, _ := strings.Cut(m.ID, "-")
			n, _ := strconv.ParseInt(number, 10, 64)
			if n > next { // older entries have left the log
				break
			}
			next = n + 1
			name, _ := m.Values["t"].(string)
			deltas, hasDeltas := m.Values["d"].(string)
			_, isOwn := ownNumbers[n]
			tp := pr.tenants[name]
			if tp == nil || tp.countedSettlements == nil || isOwn || n <= tp.countedSettlements[change.shard] {
				continue
			}
			if pr.pendingBytes += len(deltas); !hasDeltas || pr.pendingBytes > maxPendingBytes {
				pr.pendingBytes -= len(deltas)
				pr.invalidate(tp)
				continue
			}
			tp.pending = append(tp.pending, logEntry{change.shard, n, deltas})
		}
		for n := range ownNumbers {
			if n <= change.to.lastSettlement {
				delete(ownNumbers, n)
			}
		}
		gaps[i] = next <= change.to.lastSettlement
	}
	return gaps, nil
}

// packDeltas encodes each delta's scope, field, day and value. A repeated scope is one zero byte.
func packDeltas(deltas []trial.Delta) string {
	var b []byte
	scope := ""
	for i := range deltas {
		d := &deltas[i]
		if d.Key.Scope == scope {
			b = append(b, 0)
		} else {
			scope = d.Key.Scope
			b = append(binary.AppendUvarint(b, uint64(len(scope))+1), scope...)
		}
		b = append(binary.AppendUvarint(b, uint64(len(d.Key.Field))), d.Key.Field...)
		b = binary.AppendVarint(binary.AppendVarint(b, int64(d.Key.Day)), d.Value)
	}
	return string(b)
}

func unpackDeltas(text string) (deltas []trial.Delta, err error) {
	b, scope := []byte(text), ""
	readSize := func() uint64 {
		n, length := binary.Uvarint(b)
		if length <= 0 {
			err = ErrCorrupt
			return 0
		}
		b = b[length:]
		return n
	}
	readText := func(n uint64) (out string) {
		if n > uint64(len(b)) {
			err = ErrCorrupt
			return ""
		}
		out, b = string(b[:n]), b[n:]
		return out
	}
	readNumber := func() int64 {
		n, length := binary.Varint(b)
		if length <= 0 {
			err = ErrCorrupt
			return 0
		}
		b = b[length:]
		return n
	}
	for len(b) > 0 && err == nil {
		if n := readSize(); n > 0 {
			scope = readText(n - 1)
		}
		d := trial.Delta{Key: trial.Key{Scope: scope, Field: readText(readSize())}}
		d.Key.Day, d.Value = int32(readNumber()), readNumber() //nolint:gosec // packDeltas has written a day number, which fits in an int32
		deltas = append(deltas, d)
	}
	if err != nil {
		return nil, err
	}
	return deltas, nil
}
