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

// A replica adds the settlements of other replicas to its own counters instead of reading all counters
// again. Each shard keeps a log of its last settlements (settle.lua). Moved reads the new entries of the
// logs, and Changes returns the entries.

// maxPendingBytes bounds the bytes of the deltas that wait for Changes. Beyond the bound, all counters are
// read completely.
const maxPendingBytes = 32 << 20

// logEntry is an entry of the log of a shard.
type logEntry struct {
	shard  int
	number int64 // number of the call that settled, in the shard
	deltas string
}

// Changes returns the deltas of the settlements that Moved has read since the last Counters or Changes for
// the tenant. The deltas omit the steps that Settle of this Store has reported as applied, and include a
// step whose answer was lost. ok is false if the deltas are incomplete: call Counters instead. Changes must
// not run during a Settle of the same Store.
func (s *Store) Changes(tenant string) (deltas []trial.Delta, ok bool) {
	s.progress.mu.Lock()
	defer s.progress.mu.Unlock()
	tp := s.progress.tenants[tenant]
	if tp == nil || tp.counted == nil {
		return nil, false
	}
	for _, e := range tp.pending {
		list, err := unpackDeltas(e.deltas)
		if err != nil {
			s.progress.drop(tp)
			return nil, false
		}
		deltas = append(deltas, list...)
	}
	s.progress.omit(tp, func(logEntry) bool { return true })
	return deltas, true
}

// omit deletes pending deltas. The caller holds mu.
func (pr *progress) omit(tp *tenantProgress, isOmitted func(e logEntry) bool) {
	tp.pending = slices.DeleteFunc(tp.pending, func(e logEntry) bool {
		omitted := isOmitted(e)
		if omitted {
			pr.bytes -= len(e.deltas)
		}
		return omitted
	})
	if len(tp.pending) == 0 {
		tp.pending = nil
	}
}

// drop notes that the deltas of a tenant are incomplete. The caller holds mu.
func (pr *progress) drop(tp *tenantProgress) {
	tp.counted = nil
	pr.omit(tp, func(logEntry) bool { return true })
}

// forget notes that Redis may have lost settlements. The caller holds mu.
func (pr *progress) forget() {
	for i := range pr.own {
		pr.own[i] = nil
	}
	for _, tp := range pr.tenants {
		pr.drop(tp)
		pr.change(tp)
	}
}

// forgetCounted calls progress.forget.
func (s *Store) forgetCounted() {
	s.progress.mu.Lock()
	defer s.progress.mu.Unlock()
	s.progress.forget()
}

// noteCounters notes that the counters of a tenant were read. upTo holds the number of the last settlement
// in the counters of each shard; nil means the numbers are unknown.
func (s *Store) noteCounters(tenant string, upTo []int64) {
	s.progress.mu.Lock()
	defer s.progress.mu.Unlock()
	tp := s.progress.tenant(tenant)
	if tp == nil {
		return
	}
	for shard, n := range upTo {
		if s.progress.read[shard].settled > n && tp.counted == nil { // entries after n were read and not kept
			upTo = nil
			break
		}
	}
	if upTo == nil {
		s.progress.drop(tp)
		return
	}
	tp.counted = upTo
	s.progress.omit(tp, func(e logEntry) bool { return e.number <= upTo[e.shard] })
}

// settled returns, for each shard, the number of the last settlement that Moved has read.
func (pr *progress) settled(shards int) []int64 {
	pr.mu.Lock()
	defer pr.mu.Unlock()
	out := make([]int64, shards)
	for i := range pr.read {
		out[i] = pr.read[i].settled
	}
	return out
}

// noteAnswers stores the numbers of the answered settlements of a plan, because the caller has the deltas
// of these settlements. A call without an answer may run later, and its deltas are read from the log.
func (pr *progress) noteAnswers(p *plan, shards int) {
	pr.mu.Lock()
	defer pr.mu.Unlock()
	if pr.read == nil {
		return
	}
	for _, k := range p.calls {
		list, _ := k.reply.Int64Slice()
		number := slices.Max(append(list, 0))
		loc := p.items[k.items[0]].location
		shard := int(loc.hash) % shards
		if number == 0 {
			continue
		}
		if number > pr.read[shard].settled {
			if pr.own[shard] == nil {
				pr.own[shard] = map[int64]struct{}{}
			}
			pr.own[shard][number] = struct{}{}
		} else if tp := pr.tenants[loc.tenant]; tp != nil { // Moved has read the entry before the answer came
			pr.omit(tp, func(e logEntry) bool { return e.shard == shard && e.number == number })
		}
	}
}

// readLogs reads the settlements of the changed shards, and keeps those of other replicas for tenants with
// known counters. gaps has the indices of the changes whose log has lost entries. The caller holds
// s.progress.mu.
func (s *Store) readLogs(ctx context.Context, c client, all []keyspace, shardChanges []shardChange) (gaps map[int]bool, err error) {
	logs, err := piped(ctx, c, shardChanges, func(p goredis.Pipeliner, l shardChange) *goredis.XMessageSliceCmd {
		return p.XRange(ctx, all[l.shard].lists+"log", strconv.FormatInt(l.from.settled+1, 10), strconv.FormatInt(l.to.settled, 10))
	})
	if err != nil {
		return nil, err
	}
	gaps = map[int]bool{}
	pr := &s.progress
	for i, l := range shardChanges {
		next, own := l.from.settled+1, pr.own[l.shard]
		for _, m := range logs[i].Val() {
			number, _, _ := strings.Cut(m.ID, "-")
			n, _ := strconv.ParseInt(number, 10, 64)
			if n > next { // the log has lost entries
				break
			}
			next = n + 1
			name, _ := m.Values["t"].(string)
			deltas, hasDeltas := m.Values["d"].(string)
			_, isOwn := own[n]
			tp := pr.tenants[name]
			if tp == nil || tp.counted == nil || isOwn || n <= tp.counted[l.shard] {
				continue
			}
			if pr.bytes += len(deltas); !hasDeltas || pr.bytes > maxPendingBytes {
				pr.bytes -= len(deltas)
				pr.drop(tp)
				continue
			}
			tp.pending = append(tp.pending, logEntry{l.shard, n, deltas})
		}
		for n := range own {
			if n <= l.to.settled {
				delete(own, n)
			}
		}
		gaps[i] = next <= l.to.settled
	}
	return gaps, nil
}

// packDeltas encodes deltas: scope, field, day and value of each. A scope that repeats is one byte.
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
	size := func() uint64 {
		n, length := binary.Uvarint(b)
		if length <= 0 {
			err = ErrCorrupt
			return 0
		}
		b = b[length:]
		return n
	}
	cut := func(n uint64) (out string) {
		if n > uint64(len(b)) {
			err = ErrCorrupt
			return ""
		}
		out, b = string(b[:n]), b[n:]
		return out
	}
	number := func() int64 {
		n, length := binary.Varint(b)
		if length <= 0 {
			err = ErrCorrupt
			return 0
		}
		b = b[length:]
		return n
	}
	for len(b) > 0 && err == nil {
		if n := size(); n > 0 {
			scope = cut(n - 1)
		}
		d := trial.Delta{Key: trial.Key{Scope: scope, Field: cut(size())}}
		d.Key.Day, d.Value = int32(number()), number() //nolint:gosec // as packed
		deltas = append(deltas, d)
	}
	if err != nil {
		return nil, err
	}
	return deltas, nil
}
