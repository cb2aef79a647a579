package store_test

import (
	"context"
	"fmt"
	"path/filepath"
	"runtime"
	"slices"
	"testing"
	"time"

	"precept/internal/session"
	"precept/store"
	"precept/store/redis"
	"precept/store/storetest"
)

// outboxOnDisk returns an option that moves the outbox to a small disk. The database stays on another disk.
func outboxOnDisk(disk *storetest.Disk) func(o *store.Options) {
	return func(o *store.Options) { o.Queue.Path = filepath.Join(disk.Dir, "outbox.db") }
}

// offerCounts counts the turns that a test offers in session "s", and how many of them the store refuses.
type offerCounts struct{ offered, refused int }

// offerTurns offers n turns, delivers them and advances the clock.
func (c *offerCounts) offerTurns(f *fixture, n int) {
	for range n {
		c.offered++
		if !f.offerLarge("s", c.offered, 4<<10) {
			c.refused++
		}
	}
	f.deliver()
	f.clock.add(2 * time.Second)
}

// account returns the expected account with all accepted turns stored.
func (c *offerCounts) account() string {
	text := fmt.Sprintf("%d = %d + 0 + 0", c.offered, c.offered-c.refused)
	if c.refused > 0 {
		text += fmt.Sprintf(" + %d full", c.refused)
	}
	return text
}

// The outbox and the database share the disk. The store drops turns only when its memory is full, too.
func TestTurnsAreDroppedWhenDiskAndMemoryAreFull(t *testing.T) {
	t.Parallel()
	disk := storetest.SmallDisk(t, 8<<20)
	f := openFixture(t, disk.Dir, &clock{manual: startTime}, func(o *store.Options) { o.Queue.MaxMemoryBytes, o.Queue.DeliverEvery = 200<<10, time.Second })
	var counts offerCounts
	counts.offerTurns(f, 5)
	disk.Fill(t, 16<<10)
	for range 40 {
		counts.offerTurns(f, 5)
		disk.Fill(t, 0) // as if another program used each byte that becomes free
	}
	if failures := f.takeFailures(); counts.refused == 0 {
		t.Fatal("no turn was refused on a full disk")
	} else if len(failures) == 0 {
		t.Fatal("no step failed on a full disk")
	}
	checkEqual(t, "Store.Healthy on a full disk", f.store.Healthy(), false)
	disk.RemoveFiller(t)
	stored := f.store.Metrics.Exchanges.Load()
	for i := 0; f.store.Metrics.Exchanges.Load() <= stored+5; i++ {
		if i == 10 {
			t.Fatalf("no exchange was stored in %d rounds, failed steps %v", i, f.takeFailures())
		}
		counts.offerTurns(f, 5)
	}
	f.deliverFor(durableAfter)
	checkEqual(t, "Store.Healthy after the disk has space", f.store.Healthy(), true)
	checkEqual(t, "Metrics.DroppedFull", f.store.Metrics.DroppedFull.Load(), int64(counts.refused))
	f.checkMemoryIsFree()
	f = f.restart(nil)
	f.deliver()
	checkAccount(t, "account after a crash", f.account(true), counts.account())
	checkEqual(t, "stored exchanges", f.exchangeCount(sessionID("s")), counts.offered-counts.refused)
}

func TestDeliveredBacklogFreesTheDisk(t *testing.T) {
	t.Parallel()
	disk := storetest.SmallDisk(t, 3<<20)
	f := newFixture(t, func(o *store.Options) { outboxOnDisk(disk)(o); o.Queue.MaxMemoryBytes = 100 << 10 })
	f.backend.failWrites()
	var counts offerCounts
	for counts.refused == 0 { // a turn is refused once both disk and memory are full
		if counts.offerTurns(f, 5); counts.offered > 5000 {
			t.Fatalf("the store accepted all %d turns, want a refused turn", counts.offered)
		}
	}
	f.backend.allowWrites()
	for range 10 {
		counts.offerTurns(f, 0)
	}
	f.deliverFor(durableAfter)
	checkEqual(t, "stored exchanges", f.exchangeCount(sessionID("s")), counts.offered-counts.refused)
	checkAtMost(t, "outbox bytes", f.store.OutboxBytes(), 1<<20)
	checkAccount(t, "account", f.account(true), counts.account())
	f.checkMemoryIsFree()
}

// The backend reports a full disk twice. Before the third write, the outbox must free at least 64 KiB.
func TestOutboxFreesSpaceForBackendOnFullDisk(t *testing.T) {
	t.Parallel()
	disk := storetest.SmallDisk(t, 8<<20)
	f := newFixture(t, outboxOnDisk(disk))
	var counts offerCounts
	for range 10 {
		counts.offerTurns(f, 5)
	}
	var freeBytes []int64 // free bytes at each backend write
	f.backend.onCall(func(op string) {
		if op == "write" {
			freeBytes = append(freeBytes, disk.FreeBytes(t))
		}
	})
	f.backend.failNext("write", 2, session.ErrDiskFull)
	for range 4 {
		counts.offerTurns(f, 1)
	}
	f.backend.onCall(nil)
	if len(freeBytes) < 3 {
		t.Fatalf("%d writes, want at least 3", len(freeBytes))
	}
	if runtime.GOOS == "linux" && freeBytes[2] < freeBytes[0]+64<<10 {
		t.Errorf("free bytes at the third write = %d, want at least %d", freeBytes[2], freeBytes[0]+64<<10)
	}
	checkEqual(t, "stored exchanges", f.exchangeCount(sessionID("s")), counts.offered)
	checkAccount(t, "account", f.account(true), counts.account())
	f.checkMemoryIsFree()
}

// remoteBackend is a faultyBackend that uses Redis, with the additional Redis operations of a store.Fleet.
type remoteBackend struct {
	*faultyBackend
	redis *redis.Store
}

func (b remoteBackend) Epoch(ctx context.Context) (string, error) { return b.redis.Epoch(ctx) }

func (b remoteBackend) AwaitReplicas(ctx context.Context) error { return b.redis.AwaitReplicas(ctx) }

func (b remoteBackend) Announce(ctx context.Context, x session.Erasure) (string, error) {
	return b.redis.Announce(ctx, x)
}

func (b remoteBackend) Erasures(ctx context.Context, after string) ([]session.Erasure, error) {
	return b.redis.Erasures(ctx, after)
}

func (b remoteBackend) PutOptOutMarks(ctx context.Context, marks map[session.ID]session.OptOutMark) error {
	return b.redis.PutOptOutMarks(ctx, marks)
}

func (b remoteBackend) OptOutMark(ctx context.Context, id session.ID) (session.OptOutMark, bool, error) {
	return b.redis.OptOutMark(ctx, id)
}

// withRedis returns an option that replaces the SQLite database with Redis.
func withRedis(t *testing.T, server *storetest.Redis) func(o *store.Options) {
	t.Helper()
	return func(o *store.Options) {
		db, err := redis.Open(redis.Options{URL: server.URL(), Now: time.Now})
		if err != nil {
			t.Fatal(err)
		}
		inner := o.Backend.(*faultyBackend) //nolint:forcetypeassert // openFixture sets a *faultyBackend
		if err := inner.backend.Close(); err != nil {
			t.Fatal(err)
		}
		inner.backend = db
		o.Backend, o.Fleet = remoteBackend{inner, db}, remoteBackend{inner, db}
	}
}

// While the disk is full, exchanges go to the backend without the outbox, or wait in memory.
func TestRemoteBackendWorksOnAFullDisk(t *testing.T) {
	t.Parallel()
	disk := storetest.SmallDisk(t, 6<<20)
	server := storetest.StartRedis(t)
	open := func(o *store.Options) {
		withRedis(t, server)(o)
		outboxOnDisk(disk)(o)
		o.Queue.MaxMemoryBytes = 200 << 10
	}
	f := newFixture(t, open)
	var counts offerCounts
	counts.offerTurns(f, 5)
	x, begun := f.startTurn("s", 9000)
	f.deliver()
	disk.Fill(t, 0)
	for range 10 {
		counts.offerTurns(f, 5)
		disk.Fill(t, 0) // as if another program used each byte that becomes free
	}
	f.endTurn(x, begun)
	counts.offered++
	counts.offerTurns(f, 5)
	checkEqual(t, "stored exchanges on a full disk", f.exchangeCount(sessionID("s")), counts.offered)
	checkEqual(t, "refused turns", counts.refused, 0)
	checkAccount(t, "account on a full disk", f.account(true), counts.account())

	f.backend.failWrites()
	for range 30 {
		counts.offerTurns(f, 5)
		disk.Fill(t, 0)
	}
	checkAtLeast(t, "refused turns during an outage on a full disk", counts.refused, 51)
	f.backend.allowWrites()
	for range 3 {
		counts.offerTurns(f, 0)
	}
	checkEqual(t, "stored exchanges after the outage", f.exchangeCount(sessionID("s")), counts.offered-counts.refused)
	checkAccount(t, "account after the outage", f.account(true), counts.account())

	f = f.restart(open)
	f.deliver()
	counts.offerTurns(f, 5)
	counts.offerTurns(f, 0)
	checkAccount(t, "account after a crash", f.account(true), counts.account())
	disk.RemoveFiller(t)
	for range 4 {
		counts.offerTurns(f, 5)
	}
	checkEqual(t, "Store.Healthy after the disk has space", f.store.Healthy(), true)
	checkEqual(t, "stored exchanges after the disk has space", f.exchangeCount(sessionID("s")), counts.offered-counts.refused)
	checkAccount(t, "account after the disk has space", f.account(false), counts.account())
	f = f.restart(open)
	f.deliver()
	checkAccount(t, "account after a second crash", f.account(false), counts.account())
	f.checkMemoryIsFree()
}

func TestStopDeliversOnAFullDisk(t *testing.T) {
	t.Parallel()
	disk := storetest.SmallDisk(t, 6<<20)
	f := newFixture(t, outboxOnDisk(disk))
	var counts offerCounts
	counts.offerTurns(f, 5)
	disk.Fill(t, 0)
	for range 4 {
		counts.offerTurns(f, 12)
		disk.Fill(t, 0)
	}
	checkEqual(t, "Store.Healthy on a full disk", f.store.Healthy(), false)
	checkAtMost(t, "stored exchanges before shutdown", f.exchangeCount(sessionID("s")), counts.offered-1)
	_ = f.drain() // returns an error, because the disk is full
	checkEqual(t, "stored exchanges after shutdown", f.exchangeCount(sessionID("s")), counts.offered)
	checkAccount(t, "account", accountText(f.balancedAccount(false)), counts.account())
}

func TestWaitingTurnsAreStoredWhenDiskHasSpace(t *testing.T) {
	t.Parallel()
	disk := storetest.SmallDisk(t, 6<<20)
	f := newFixture(t, outboxOnDisk(disk))
	var counts offerCounts
	counts.offerTurns(f, 1)
	disk.Fill(t, 0)
	for range 4 {
		counts.offerTurns(f, 5)
		disk.Fill(t, 0)
	}
	checkEqual(t, "the failed steps contain spool", slices.Contains(f.takeFailures(), "spool"), true)
	disk.RemoveFiller(t)
	for range 3 {
		counts.offerTurns(f, 1)
	}
	checkEqual(t, "stored exchanges", f.exchangeCount(sessionID("s")), counts.offered)
	checkEqual(t, "Store.Healthy after the disk has space", f.store.Healthy(), true)
	checkAccount(t, "account", f.account(true), counts.account())
	f.checkMemoryIsFree()
}

// The test measures the heap, so it is not parallel.
func TestFullDiskDoesNotGrowMemory(t *testing.T) {
	disk := storetest.SmallDisk(t, 6<<20)
	f := newFixture(t, func(o *store.Options) { outboxOnDisk(disk)(o); o.Queue.MaxMemoryBytes = 1000 })
	f.offer("s", 1)
	f.deliver()
	disk.Fill(t, 0)
	heap := func() int64 {
		runtime.GC()
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return int64(m.HeapAlloc) //nolint:gosec // far below the maximum of an int64
	}
	refused, turns := 0, 0
	playTurns := func(n int) {
		for range n {
			turns++
			x, start := f.startTurn("s", turns+1)
			f.beginSession(tenantA, "s", newAssignment(true))
			x.Reply.Text = noise(turns, 1<<10)
			if turns%10 == 0 {
				f.clock.add(2 * time.Second)
				f.deliver()
				disk.Fill(t, 0)
			}
			if !f.store.Offer(store.Turn{Exchange: x, Start: start, Size: 100}) {
				refused++
			}
		}
	}
	playTurns(2000)
	before := heap()
	playTurns(8000)
	if grown := heap() - before; grown > 4<<20 {
		t.Errorf("heap growth after 8,000 1 KiB turns: got %d KiB, want at most 4096 KiB", grown>>10)
	}
	disk.RemoveFiller(t)
	f.deliverFor(10 * time.Second)
	checkAccount(t, "account", f.account(true), fmt.Sprintf("%d = %d + 0 + 0 + %d full", turns+1, turns+1-refused, refused))
	f.checkMemoryIsFree()
}
