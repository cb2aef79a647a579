package store

import (
	"fmt"
	"strings"
	"testing"

	"precept/store/spool"
)

// flushed is what one flush has to put down: twenty turns of 2 KiB.
func flushed(n int) batch {
	var p batch
	for i := range 20 {
		x := exchange(us, fmt.Sprint("s", i), n, when)
		x.Reply.Text = strings.Repeat("The shed is painted. ", 100)
		p.exchanges = append(p.exchanges, *x)
	}
	return p
}

// What the spool adds to the CPU of a turn: its records are encoded once, for the store behind it,
// too.
func BenchmarkAppend(b *testing.B) {
	p := flushed(1)
	for i := range p.exchanges {
		p.exchanges[i].Seal()
	}
	var buf []byte
	b.ReportAllocs()
	for b.Loop() {
		buf = p.append(buf[:0])
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(20*b.N), "ns/turn")
}

// The same with the write, and the wait for the disk that nobody but the recorder waits for.
func BenchmarkPutDown(b *testing.B) {
	log := openLog(b)
	p := flushed(1)
	b.ReportAllocs()
	for b.Loop() {
		end, err := log.Append(20, p.append)
		if err != nil {
			b.Fatal(err)
		}
		if end.Offset > 32<<20 {
			b.StopTimer()
			at, err := log.Leave()
			if err == nil {
				err = log.Keep(spool.Checkpoint{Safe: spool.Ack{At: at}})
			}
			if err != nil {
				b.Fatal(err)
			}
			b.StartTimer()
		}
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(20*b.N), "ns/turn")
}

func openLog(b *testing.B) *spool.Log {
	b.Helper()
	log, _, err := spool.Open(b.TempDir(), spool.Options{Quota: 1 << 30, Now: when, Count: admittedBy})
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { _ = log.Close() })
	return log
}

// Reading a backlog back: the account alone, and for the store.
func BenchmarkReadBack(b *testing.B) {
	for _, account := range []bool{true, false} {
		b.Run(fmt.Sprint("account ", account), func(b *testing.B) {
			log := openLog(b)
			for range 200 {
				p := flushed(1)
				if _, err := log.Append(20, p.append); err != nil {
					b.Fatal(err)
				}
			}
			end, _ := log.End()
			b.ReportAllocs()
			b.SetBytes(end.Offset)
			for b.Loop() {
				r := reader{from: log.Reader(), account: account, most: replayBytes}
				var n int
				for at := (spool.Place{Segment: 1}); at.Before(end); {
					p, err := r.next(at, end)
					if err != nil {
						b.Fatal(err)
					}
					at, n = p.end, n+len(p.exchanges)+int(p.counted)
				}
				if n != 4000 {
					b.Fatal(n)
				}
			}
		})
	}
}
