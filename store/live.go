package store

import (
	"sync"
	"sync/atomic"
	"time"

	"github.com/dgraph-io/ristretto/v2"

	"precept/session"
)

const (
	liveShards   = 64
	idleAfter    = 10 * time.Minute
	restingBytes = 16 << 20 // what idle sessions may take before the backend has to be asked again
)

// live holds the sessions in use. A session leaves it only when it is idle, unpinned and written down; it then rests in a
// bounded cache, from where it is fetched without asking the backend.
type live struct {
	shards  [liveShards]liveShard
	resting *ristretto.Cache[string, *session.Record]
}

type liveShard struct {
	mu sync.Mutex
	m  map[session.ID]*Session
}

// Session is a pinned record: while it is held, it stays in memory and is the only copy of its session.
type Session struct {
	*session.Record
	pins  atomic.Int32
	used  atomic.Int64 // unix seconds
	dirty atomic.Bool  // in the recorder's list
	later atomic.Bool  // in the list that can wait a second
	put   atomic.Int64 // the flush that last put its row down; 0: none
	known atomic.Bool  // it came from the backend
	gone  atomic.Bool  // it was forgotten: nothing of it may be written any more
	// it is a stand-in, and the backend has not said yet whether it has the session
	unsure atomic.Bool
	// a row of it was made, or left out, while it was not known whether its newest turn may be kept
	veiled atomic.Bool
}

func newLive() (*live, error) {
	c, err := ristretto.NewCache(&ristretto.Config[string, *session.Record]{
		NumCounters: 40_000, MaxCost: restingBytes, BufferItems: 64,
	})
	if err != nil {
		return nil, err
	}
	l := &live{resting: c}
	for i := range l.shards {
		l.shards[i].m = map[session.ID]*Session{}
	}
	return l, nil
}

func (l *live) shard(id session.ID) *liveShard { return &l.shards[id[0]%liveShards] }

// get pins a session that is in memory.
func (l *live) get(id session.ID, now time.Time) *Session {
	sh := l.shard(id)
	sh.mu.Lock()
	defer sh.mu.Unlock()
	s := sh.m[id]
	if s == nil {
		rec, ok := l.resting.Get(string(id[:]))
		if !ok {
			return nil
		}
		s = &Session{Record: rec}
		s.known.Store(true)
		sh.m[id] = s
	}
	s.pins.Add(1)
	s.used.Store(now.Unix())
	return s
}

// has says whether a session is in memory.
func (l *live) has(id session.ID) bool {
	sh := l.shard(id)
	sh.mu.Lock()
	defer sh.mu.Unlock()
	return sh.m[id] != nil
}

// put adds a record, unless another request was first: then that one's record is returned.
func (l *live) put(rec *session.Record, known bool, now time.Time) *Session {
	sh := l.shard(rec.ID)
	sh.mu.Lock()
	defer sh.mu.Unlock()
	s := sh.m[rec.ID]
	if s == nil {
		s = &Session{Record: rec}
		s.known.Store(known)
		sh.m[rec.ID] = s
	}
	s.pins.Add(1)
	s.used.Store(now.Unix())
	return s
}

// sweep lets idle sessions rest. Its cost is spread: one shard a call.
//
// delivered is the flush up to which the backend has everything.
func (l *live) sweep(shard int, now time.Time, delivered int64) {
	sh := &l.shards[shard%liveShards]
	old := now.Add(-idleAfter).Unix()
	sh.mu.Lock()
	defer sh.mu.Unlock()
	for id, s := range sh.m {
		if s.pins.Load() > 0 || s.dirty.Load() || s.later.Load() || s.put.Load() > delivered || s.used.Load() > old {
			continue
		}
		delete(sh.m, id)
		if s.known.Load() || s.put.Load() > 0 || len(s.OptedOut) > 0 { // of what opted out no row is written, and it must be known
			l.resting.Set(string(id[:]), s.Record, restingCost(s.Record))
		}
	}
}

// restingCost estimates what a resting record takes, in bytes.
func restingCost(r *session.Record) int64 {
	n := int64(1 << 10)
	for i := range r.Blocks {
		n += int64(len(r.Blocks[i].Text)) + 128
	}
	return n + int64(len(r.Calls))*256 + int64(len(r.Assignment.Matched)+len(r.Assignment.Picks))*128
}

// forget takes a session out of memory, and says whether it was there. A request that holds it goes on with what it has.
func (l *live) forget(tenant string, id session.ID) bool {
	sh := l.shard(id)
	sh.mu.Lock()
	defer sh.mu.Unlock()
	found := false
	if s := sh.m[id]; s != nil && s.Tenant == tenant {
		s.gone.Store(true)
		delete(sh.m, id)
		found = true
	}
	l.resting.Del(string(id[:]))
	l.resting.Wait()
	return found
}

// forgetTenant takes a tenant's sessions out of memory, and says how many were in use.
func (l *live) forgetTenant(tenant string) (n int) {
	for i := range l.shards {
		sh := &l.shards[i]
		sh.mu.Lock()
		for id, s := range sh.m {
			if s.Tenant == tenant {
				s.gone.Store(true)
				delete(sh.m, id)
				n++
			}
		}
		sh.mu.Unlock()
	}
	l.resting.Clear() // it cannot be walked; the others' sessions are read from the backend again
	return n
}

// count is the number of sessions in memory.
func (l *live) count() int {
	n := 0
	for i := range l.shards {
		l.shards[i].mu.Lock()
		n += len(l.shards[i].m)
		l.shards[i].mu.Unlock()
	}
	return n
}

func (l *live) close() { l.resting.Close() }
