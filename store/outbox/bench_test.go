package outbox_test

import (
	"fmt"
	"math"
	"math/rand/v2"
	"syscall"
	"testing"
	"time"

	"precept/store/outbox"
)

// cpuTime returns the CPU time of this process.
func cpuTime() time.Duration {
	var r syscall.Rusage
	_ = syscall.Getrusage(syscall.RUSAGE_SELF, &r)
	return time.Duration(r.Utime.Nano() + r.Stime.Nano())
}

func randomText(n int) []byte {
	words := []string{"the ", "shed ", "is ", "painted ", `{"role":"user"} `, "error ", "func ", "return "}
	rnd := rand.New(rand.NewPCG(1, 1))
	var b []byte
	for len(b) < n {
		b = append(b, words[rnd.IntN(len(words))]...)
	}
	return b[:n]
}

// BenchmarkExchange measures the cost of an exchange at 300 and at 6,000 exchanges per second. Each flush contains the
// exchanges of 50 ms. The size of an exchange includes 740 bytes for the record of the session.
func BenchmarkExchange(b *testing.B) {
	for _, size := range []int{1 << 10, 6 << 10, 32 << 10} {
		for _, rate := range []int{300, 6000} {
			b.Run(fmt.Sprintf("%dKiB/%d", size>>10, rate), func(b *testing.B) {
				q := open(b, b.TempDir())
				n := rate / 20
				var f outbox.Flush
				for i := range n {
					f.Rows = append(f.Rows, newRow("default", byte(i), string(randomText(size+740))))
				}
				b.ReportAllocs()
				flushes, before := 0, cpuTime()
				for b.Loop() {
					last := q.append(f)
					if flushes++; flushes%20 == 0 {
						q.MarkDelivered(last, 20*int64(n), nil)
						must(b, q.Release(last))
					}
				}
				used := float64((cpuTime() - before).Nanoseconds()) / 1000
				b.ReportMetric(used/float64(flushes*n), "cpu-us/exchange")
				b.ReportMetric(float64(b.Elapsed().Microseconds())/1000/float64(flushes), "ms/flush")
			})
		}
	}
}

// BenchmarkRecovery measures opening an outbox with 256 MiB of rows, and reading these rows.
func BenchmarkRecovery(b *testing.B) {
	q := open(b, b.TempDir())
	f := outbox.Flush{}
	for range 128 {
		f.Rows = append(f.Rows, newRow("default", 1, string(randomText(8<<10))))
	}
	for range 256 {
		q.append(f)
	}
	b.Run("open", func(b *testing.B) {
		for b.Loop() {
			b.StopTimer()
			must(b, q.Close())
			b.StartTimer()
			q = open(b, q.dir)
		}
	})
	b.Run("read", func(b *testing.B) {
		q := open(b, q.dir)
		b.SetBytes(256 << 20)
		for b.Loop() {
			for at := int64(0); ; {
				rows, err := q.Read(at, math.MaxInt64, 4<<20)
				must(b, err)
				if len(rows) == 0 {
					break
				}
				at = rows[len(rows)-1].Sequence
			}
		}
	})
}
