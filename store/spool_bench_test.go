package store

import (
	"bytes"
	"fmt"
	"strings"
	"testing"
)

// flushed is what one flush has to put down: twenty turns of 2 KiB.
func flushed(n int) parcel {
	var p parcel
	for i := range 20 {
		x := exchange(us, fmt.Sprint("s", i), n, when)
		x.Reply.Text = strings.Repeat("The shed is painted. ", 100)
		p.exchanges = append(p.exchanges, *x)
		p.admitted++
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
		buf = p.append(buf[:0], 1)
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(20*b.N), "ns/turn")
}

// The same with the write, and the wait for the disk that nobody but the recorder waits for.
func BenchmarkPutDown(b *testing.B) {
	w := openWriter(b, b.TempDir())
	p := flushed(1)
	b.ReportAllocs()
	for b.Loop() {
		if _, err := w.write(p.append(w.buf[:0], w.admitted+20), 20); err != nil {
			b.Fatal(err)
		}
		if w.end.Offset > segmentBytes/2 {
			b.StopTimer()
			if _, err := w.retire(); err != nil {
				b.Fatal(err)
			}
			if _, err := release(w.dir, w.end); err != nil {
				b.Fatal(err)
			}
			w.bytes = 0
			b.StartTimer()
		}
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(20*b.N), "ns/turn")
}

// Reading a backlog back: the account alone, and for the store.
func BenchmarkReadBack(b *testing.B) {
	for _, account := range []bool{true, false} {
		b.Run(fmt.Sprint("account ", account), func(b *testing.B) {
			w := openWriter(b, b.TempDir())
			for range 200 {
				p := flushed(1)
				if _, err := w.write(p.append(w.buf[:0], w.admitted+20), 20); err != nil {
					b.Fatal(err)
				}
			}
			b.ReportAllocs()
			b.SetBytes(w.end.Offset)
			for b.Loop() {
				r := reader{dir: w.dir, spool: w.name, account: account, most: replayBytes}
				var n int
				for at := (place{Segment: 1}); at.before(w.end); {
					p, err := r.next(at, w.end)
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

// A start beside a backlog of two segments: only the end is looked at, the last one whole where no
// cursor tells of it.
func BenchmarkOpenSpool(b *testing.B) {
	dir := b.TempDir()
	w := openWriter(b, dir)
	p := flushed(1)
	chunk := p.append(nil, 20)
	chunk = bytes.Repeat(chunk, 500)
	for w.bytes < 3*segmentBytes/2 {
		if _, err := w.write(chunk, 20*500); err != nil {
			b.Fatal(err)
		}
	}
	_ = w.close()
	for _, cursor := range []bool{false, true} {
		b.Run(fmt.Sprint("cursor ", cursor), func(b *testing.B) {
			if cursor {
				c := cursorFile{Version: spoolVersion, Spool: w.name, Boot: bootID(), End: w.end, Admitted: w.admitted}
				c.Delivered.At.Segment, c.Safe.At.Segment = 1, 1
				if err := writeCursor(dir, &c); err != nil {
					b.Fatal(err)
				}
			}
			for b.Loop() {
				s, _, err := openSpool(dir, 4<<30, when)
				if err != nil {
					b.Fatal(err)
				}
				_ = s.close()
			}
		})
	}
}
