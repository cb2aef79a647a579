package sqlite_test

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"precept/internal/session"
	"precept/store/sqlite"
)

// BenchmarkEchoes measures what 200,000 echoes cost: to write them in batches of a quiet and of a
// busy second, their bytes in the file, and to look up twenty keys of which one is known
// (docs/decisions/0032-echoes.md).
func BenchmarkEchoes(b *testing.B) {
	const all = 198_000 // a multiple of both
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
				for n := 0; n < all; n += size {
					batch := echoBatch(n, size)
					m.run(size, func() error { return s.Write(b.Context(), batch) })
				}
				lookups += lookUp(b, s, all)
				if err := s.Close(); err != nil {
					b.Fatal(err)
				}
				info, err := os.Stat(path)
				if err != nil {
					b.Fatal(err)
				}
				b.ReportMetric(float64(info.Size())/all, "B/echo")
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

func benchKey(n int) session.EchoKey { return session.EchoKey(n) * 0x9e3779b97f4a7c15 }

// lookUp is the mean time of a look-up.
func lookUp(b *testing.B, s *sqlite.Store, all int) time.Duration {
	b.Helper()
	const rounds = 2000
	keys := make([]session.EchoKey, 20)
	begun := time.Now()
	for n := range rounds {
		for i := range keys {
			keys[i] = benchKey(n+i)*3 + 1
		}
		keys[19] = benchKey(n * 7919 % all)
		if found, err := s.FindEcho(b.Context(), "default", keys); err != nil || len(found) != 1 {
			b.Fatal(found, err)
		}
	}
	return time.Since(begun) / rounds
}
