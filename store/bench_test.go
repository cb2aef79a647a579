package store_test

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"precept/bandit/trial"
	"precept/internal/session"
	"precept/store"
)

// batchTurns is the number of turns per delivery.
const batchTurns = 500

// offerBatch offers batchTurns turns of about size bytes in 50 sessions.
func (f *fixture) offerBatch(n, size int) {
	f.t.Helper()
	text := strings.Repeat("The shed is painted. ", size/20)
	for i := range batchTurns {
		name := fmt.Sprint("s", i%50)
		if n == 0 && i < 50 {
			f.beginSession(tenantA, name, newAssignment(true))
		}
		f.addKey(session.EchoKey(n*batchTurns+i), sessionID(name))
		x := newExchange(tenantA, name, n*batchTurns+i, f.clock.now())
		x.Reply.Text = text
		if !f.store.Offer(store.Turn{Exchange: x, Size: int64(size)}) {
			f.t.Fatalf("Offer(turn %d in session %s) = false, want true", x.Turn, name)
		}
	}
}

// BenchmarkDeliver measures redaction, encoding, and the writes to the outbox and the database.
func BenchmarkDeliver(b *testing.B) {
	for _, size := range []int{1 << 10, 6 << 10, 32 << 10} {
		b.Run(fmt.Sprint(size>>10, "KiB"), func(b *testing.B) {
			f := newFixture(b, func(o *store.Options) { o.Queue.MaxMemoryBytes = 1 << 30 })
			b.ReportAllocs()
			for n := 0; b.Loop(); n++ {
				f.offerBatch(n, size)
				f.deliver()
			}
			checkList(b, "failed steps", f.takeFailures(), nil)
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(f.store.Metrics.Exchanges.Load()), "ns/turn")
		})
	}
}

// BenchmarkRecord measures writing a batch to the outbox while the backend is down.
func BenchmarkRecord(b *testing.B) {
	for _, size := range []int{1 << 10, 6 << 10, 32 << 10} {
		b.Run(fmt.Sprint(size>>10, "KiB"), func(b *testing.B) {
			f := newFixture(b, func(o *store.Options) { o.Queue.MaxMemoryBytes, o.Queue.MaxBytes = 1<<30, 1<<40 })
			f.backend.failWrites()
			b.ReportAllocs()
			n := 0
			for ; b.Loop(); n++ {
				f.offerBatch(n, size)
				f.deliver()
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(n*batchTurns), "ns/turn")
		})
	}
}

// BenchmarkRecover opens a store and delivers a backlog of 10,000 turns of 6 KiB.
func BenchmarkRecover(b *testing.B) {
	f := newFixture(b, func(o *store.Options) { o.Queue.MaxMemoryBytes = 1 << 30 })
	f.backend.failWrites()
	for n := range 20 {
		f.offerBatch(n, 6<<10)
		f.deliver()
	}
	for b.Loop() {
		b.StopTimer()
		dir := copyDir(b, f.dir)
		b.StartTimer()
		next := openFixture(b, dir, f.clock, nil)
		for next.balancedAccount(true).Spooled > 0 {
			next.deliverFor(time.Second)
		}
		b.StopTimer()
		next.kill()
		b.StartTimer()
	}
}

func BenchmarkAcquireAndRelease(b *testing.B) {
	f := newFixture(b, nil)
	id := f.beginSession(tenantA, "s", newAssignment(true))
	b.ReportAllocs()
	for b.Loop() {
		ses, _ := f.store.Acquire(b.Context(), tenantA, id)
		f.store.Release(ses, store.DecisionsChanged)
	}
}

// BenchmarkNewText measures a turn with half a megabyte of new source code.
func BenchmarkNewText(b *testing.B) {
	items, size := readSources(b, 537<<10)
	f := newFixture(b, func(o *store.Options) { o.Queue.MaxMemoryBytes = 1 << 30 })
	for n := 0; b.Loop(); n++ {
		x := newExchange(tenantA, fmt.Sprint("s", n), 1, startTime)
		x.New = append([]json.RawMessage(nil), items...)
		f.store.Offer(store.Turn{Exchange: x, Size: int64(size)})
		f.deliver()
	}
	b.ReportMetric(float64(b.Elapsed().Microseconds())/float64(b.N)/(float64(size)/1024), "us/KB")
	checkEqual(b, "Metrics.Exchanges", f.store.Metrics.Exchanges.Load(), int64(b.N))
}

// readSources returns source files as tool results, at least size bytes in total.
func readSources(tb testing.TB, size int) (items []json.RawMessage, bytes int) {
	tb.Helper()
	names, err := filepath.Glob("../*/*.go")
	if err != nil {
		tb.Fatal(err)
	}
	if len(names) == 0 {
		tb.Fatal("source files found by Glob: got none")
	}
	for i := 0; bytes < size; i++ {
		text, err := os.ReadFile(names[i%len(names)])
		if err != nil {
			tb.Fatal(err)
		}
		raw, err := json.Marshal(map[string]string{"role": "tool", "tool_call_id": fmt.Sprint("call_", i), "content": string(text)})
		if err != nil {
			tb.Fatal(err)
		}
		items = append(items, raw)
		bytes += len(raw)
	}
	return items, bytes
}

// BenchmarkReadSession measures reading a session's 20 exchanges from the database and from the exchange cache.
func BenchmarkReadSession(b *testing.B) {
	for name, size := range map[string]int64{"database": 0, "cache": 1 << 22} {
		b.Run(name, func(b *testing.B) {
			f := newFixture(b, nil)
			if size > 0 {
				f, _ = cachedFixture(b, size)
			}
			id := f.beginSession(tenantA, "s", trial.Assignment{})
			for turn := range 20 {
				f.offerLarge("s", turn+1, 2<<10)
			}
			f.deliver()
			for b.Loop() {
				if n := f.readExchanges(id); n != 20 {
					b.Fatalf("exchanges in the session: got %d, want 20", n)
				}
			}
		})
	}
}
