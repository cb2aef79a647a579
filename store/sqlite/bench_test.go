package sqlite_test

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"precept/bandit/trial"
	"precept/internal/sample"
	"precept/internal/session"
	"precept/store/sqlite"
)

func benchStart() time.Time { return time.Date(2031, 1, 2, 3, 4, 5, 0, time.UTC) }

// cpuTime returns the CPU time of this process.
func cpuTime() time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		panic(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

func openBench(b *testing.B) *sqlite.Store {
	b.Helper()
	s, err := sqlite.Open(b.Context(), sqlite.Options{Path: filepath.Join(b.TempDir(), "precept.db")})
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { _ = s.Close() })
	return s
}

func benchID(n int) (id session.ID) {
	sum := sha256.Sum256(fmt.Append(nil, n))
	copy(id[:], sum[:])
	return id
}

// meter measures the time and the CPU time of calls, but not of creating the data for them. The CPU time includes
// checkpoints and garbage collection.
type meter struct {
	b     *testing.B
	cpu   time.Duration
	items int
}

// run measures a call of fn, which processes the given number of items.
func (m *meter) run(items int, fn func() error) {
	m.b.Helper()
	before := cpuTime()
	m.b.StartTimer()
	err := fn()
	m.b.StopTimer()
	m.cpu += cpuTime() - before
	m.items += items
	if err != nil {
		m.b.Fatal(err)
	}
}

func (m *meter) report(unit string) {
	m.b.ReportMetric(float64(m.b.Elapsed().Nanoseconds())/float64(m.items), "ns/"+unit)
	m.b.ReportMetric(float64(m.cpu.Nanoseconds())/float64(m.items), "cpu-ns/"+unit)
}

// benchRow returns a session row of 4 KiB, which is about the size of a row with a few blocks (inserted texts).
func benchRow(n, seen int) session.Row {
	return session.Row{Tenant: "default", ID: benchID(n), Started: benchStart(), Seen: benchStart().Add(time.Duration(seen)), Data: bytes.Repeat([]byte("0123456789abcdef"), 256)}
}

// benchExchange returns the exchange of a turn, of about 1.3 KB.
func benchExchange(n, turn int) sample.Exchange {
	id := benchID(n)
	return sample.Exchange{
		ID: fmt.Sprintf("%08x-0000-4000-8000-%012x", n, turn), Tenant: "default", Agent: "coder", Session: hex.EncodeToString(id[:]), SessionName: "ci",
		RequestID: fmt.Sprint(turn), Turn: turn, At: benchStart(), Dialect: "chat", Model: "m", Status: 200, Outcome: "complete",
		New:   []json.RawMessage{json.RawMessage(`{"role":"tool","tool_call_id":"call_1","content":"` + string(bytes.Repeat([]byte("ok line\\n"), 70)) + `"}`)},
		Reply: sample.Reply{Text: "Now the tests.", Calls: []sample.Call{{ID: "call_2", Name: "bash", Args: `{"cmd":"go test ./..."}`}}},
	}
}

func BenchmarkWrite(b *testing.B) {
	for part, tc := range map[string]struct {
		items int
		unit  string
	}{"rows": {500, "row"}, "echoes": {1500, "echo"}, "exchanges": {500, "exchange"}, "turns": {500, "turn"}} {
		b.Run(part, func(b *testing.B) {
			s := openBench(b)
			m := meter{b: b}
			b.StopTimer()
			for turn := 0; m.items < tc.items*b.N; turn += 500 {
				batch := benchBatch(part, turn)
				m.run(tc.items, func() error { return s.Write(b.Context(), batch) })
			}
			m.report(tc.unit)
		})
	}
}

// benchBatch returns a batch with data for 500 turns. The argument part says which data: "rows", "echoes" (three for
// each turn), "exchanges", or "turns" for all three.
func benchBatch(part string, turn int) (batch session.Batch) {
	for i := range 500 {
		turn++
		n := i%50 + turn/50_000*50 // each session has a thousand turns
		if part == "rows" || part == "turns" && i < 50 {
			batch.Rows = append(batch.Rows, benchRow(n, turn))
		}
		if part == "echoes" || part == "turns" {
			for k := range 3 {
				batch.Echoes = append(batch.Echoes, session.Echo{Tenant: "default", Key: benchKey(turn*3 + k), ID: benchID(n), At: benchStart()})
			}
		}
		if part == "exchanges" || part == "turns" {
			batch.Exchanges = append(batch.Exchanges, benchExchange(n, turn))
		}
	}
	return batch
}

// fillStore stores the given number of sessions, each with one echo.
func fillStore(b *testing.B, s *sqlite.Store, sessions int) {
	b.Helper()
	for n := 0; n < sessions; n += 500 {
		var batch session.Batch
		for i := range 500 {
			batch.Rows = append(batch.Rows, benchRow(n+i, 0))
			batch.Echoes = append(batch.Echoes, session.Echo{Tenant: "default", Key: benchKey(n + i), ID: benchID(n + i), At: benchStart()})
		}
		if err := s.Write(b.Context(), batch); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkSession measures look-ups of stored sessions. With each look-up, the session number n grows by the prime
// 7919, so that consecutive look-ups read rows that are far apart. The number of look-ups is thus n/7919.
func BenchmarkSession(b *testing.B) {
	s := openBench(b)
	fillStore(b, s, 5000)
	n, before := 0, cpuTime()
	defer func() { b.ReportMetric(float64((cpuTime()-before).Nanoseconds())/float64(n/7919), "cpu-ns/op") }()
	for b.Loop() {
		n += 7919
		if _, ok, err := s.Session(b.Context(), "default", benchID(n%5000)); err != nil {
			b.Fatal(err)
		} else if !ok {
			b.Fatal("Session(stored session): ok = false, want true")
		}
	}
}

// BenchmarkUnknownSession measures look-ups of sessions that are not stored. The first request of each session causes
// such a look-up.
func BenchmarkUnknownSession(b *testing.B) {
	s := openBench(b)
	fillStore(b, s, 5000)
	n, before := 5000, cpuTime()
	for b.Loop() {
		n++
		if _, ok, err := s.Session(b.Context(), "default", benchID(n)); err != nil {
			b.Fatal(err)
		} else if ok {
			b.Fatal("Session(unknown session): ok = true, want false")
		}
	}
	b.ReportMetric(float64((cpuTime()-before).Nanoseconds())/float64(n-5000), "cpu-ns/op")
}

// BenchmarkFindByEcho measures look-ups of twenty keys, of which only the last is stored. As in BenchmarkSession, n
// grows by 7919 with each look-up.
func BenchmarkFindByEcho(b *testing.B) {
	s := openBench(b)
	fillStore(b, s, 5000)
	n := 0
	keys := make([]session.EchoKey, 20)
	before := cpuTime()
	defer func() { b.ReportMetric(float64((cpuTime()-before).Nanoseconds())/float64(n/7919), "cpu-ns/op") }()
	for b.Loop() {
		n += 7919
		for i := range keys {
			keys[i] = benchKey(n+i) + 1 // not stored
		}
		keys[19] = benchKey(n % 5000)
		if found, err := s.FindEcho(b.Context(), "default", keys); err != nil {
			b.Fatal(err)
		} else if len(found) != 1 {
			b.Fatalf("FindEcho = %+v, want 1 item", found)
		}
	}
}

// BenchmarkSettle measures settling 200 sessions. Each session changes 90 counters: 14 fields for each of six lessons,
// and six fields that belong to no lesson.
func BenchmarkSettle(b *testing.B) {
	for _, lessons := range []int{20, 1000} {
		b.Run(fmt.Sprintf("lessons=%d", lessons), func(b *testing.B) {
			s := openBench(b)
			m := meter{b: b}
			b.StopTimer()
			for n := 0; m.items < 200*b.N; n += 200 {
				steps := benchSettlements(n, lessons)
				m.run(200, func() error { _, err := s.Settle(b.Context(), steps); return err })
			}
			m.report("session")
		})
	}
}

// benchSettlements returns settlements of the 200 sessions with the numbers after n. Each session picks six of the
// given number of lessons.
func benchSettlements(n, lessons int) []session.Settlement {
	steps := make([]session.Settlement, 200)
	for i := range steps {
		n++
		steps[i] = session.Settlement{Tenant: "default", ID: benchID(n), To: session.SettledState{Rewarded: true, Reward: 1, AssignmentAtClose: make([]byte, 1500)}}
		for l := range 6 {
			arm := fmt.Sprintf("a-lesson-of-some-name-%d@0123456789ab", (n*7+l*131)%lessons)
			for f := range 14 {
				day := int32(0)
				if f < 4 {
					day = 20_000
				}
				steps[i].Deltas = append(steps[i].Deltas, trial.Delta{Key: trial.Key{Scope: arm, Field: fmt.Sprint("w", f), Day: day}, Value: int64(n * 1000)})
			}
		}
		for f := range 6 {
			steps[i].Deltas = append(steps[i].Deltas, trial.Delta{Key: trial.Key{Field: fmt.Sprint("n", f)}, Value: 1})
		}
	}
	return steps
}

func BenchmarkCounters(b *testing.B) {
	s := openBench(b)
	for l := range 1000 {
		st := session.Settlement{Tenant: "default", ID: benchID(l)}
		for f := range 30 {
			st.Deltas = append(st.Deltas, trial.Delta{Key: trial.Key{Scope: fmt.Sprintf("lesson-%d@0123456789ab", l), Field: fmt.Sprint("f", f)}, Value: int64(f * 12345)})
		}
		for d := range 30 {
			for _, f := range []string{"n1", "s1", "n0", "s0", "nu", "su"} {
				st.Deltas = append(st.Deltas, trial.Delta{Key: trial.Key{Scope: fmt.Sprintf("lesson-%d@0123456789ab", l), Field: f, Day: int32(20_000 + d)}, Value: 123456})
			}
		}
		if _, err := s.Settle(b.Context(), []session.Settlement{st}); err != nil {
			b.Fatal(err)
		}
	}
	for b.Loop() {
		list, err := s.Counters(b.Context(), "default")
		if err != nil || len(list) != 1000*(29+180) { // Counters does not list the field f0, which is zero
			b.Fatalf("Counters: got %d counters, error %v, want %d", len(list), err, 1000*(29+180))
		}
	}
}

// BenchmarkEchoes writes 198,000 echoes in batches of 30 (a quiet second) or 1,500 (a busy second). It measures the
// time to write the echoes, their size in the file, and the time to look them up (see docs/decisions/0032-echoes.md).
func BenchmarkEchoes(b *testing.B) {
	const echoes = 198_000
	for _, size := range []int{30, 1500} {
		b.Run(fmt.Sprintf("batch=%d", size), func(b *testing.B) {
			b.StopTimer()
			m, lookups := meter{b: b}, time.Duration(0)
			for range b.N {
				path := filepath.Join(b.TempDir(), "precept.db")
				s, err := sqlite.Open(b.Context(), sqlite.Options{Path: path})
				if err != nil {
					b.Fatal(err)
				}
				for n := 0; n < echoes; n += size {
					batch := echoBatch(n, size)
					m.run(size, func() error { return s.Write(b.Context(), batch) })
				}
				lookups += measureLookup(b, s, echoes)
				if err := s.Close(); err != nil {
					b.Fatal(err)
				}
				info, err := os.Stat(path)
				if err != nil {
					b.Fatal(err)
				}
				b.ReportMetric(float64(info.Size())/echoes, "B/echo")
			}
			m.report("echo")
			b.ReportMetric(float64(lookups.Microseconds())/float64(b.N), "us/lookup")
		})
	}
}

func echoBatch(from, size int) (batch session.Batch) {
	at := benchStart().Add(time.Duration(from) * time.Millisecond)
	for n := from; n < from+size; n++ {
		batch.Echoes = append(batch.Echoes, session.Echo{Tenant: "default", Key: benchKey(n), ID: benchID(n / 3000), At: at})
	}
	return batch
}

// benchKey returns the n-th echo key. The factor spreads the keys over the whole range of 64-bit numbers.
func benchKey(n int) session.EchoKey { return session.EchoKey(n) * 0x9e3779b97f4a7c15 }

// measureLookup returns the mean time of a look-up of twenty keys, of which only the last is stored.
func measureLookup(b *testing.B, s *sqlite.Store, echoes int) time.Duration {
	b.Helper()
	const rounds = 2000
	keys := make([]session.EchoKey, 20)
	start := time.Now()
	for n := range rounds {
		for i := range keys {
			keys[i] = benchKey(n+i)*3 + 1 // not stored
		}
		keys[19] = benchKey(n * 7919 % echoes)
		if found, err := s.FindEcho(b.Context(), "default", keys); err != nil {
			b.Fatal(err)
		} else if len(found) != 1 {
			b.Fatalf("FindEcho = %+v, want 1 item", found)
		}
	}
	return time.Since(start) / rounds
}
