package spool_test

import (
	"fmt"
	"os"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"precept/store/spool"
)

// written is what a log should hold: its records, and where each write ended.
type written struct {
	t       *testing.T
	l       *log
	records []string
	seq     int64         // of the last record, with what was skipped
	ends    []spool.Ack   // behind each write that is not acknowledged
	after   map[int64]int // records by then, of each of ends
	acked   spool.Ack
	from    int // records before acked
}

// reopen closes the log as a crash would, with what a torn write left behind, and opens it again.
func (w *written) reopen(torn []byte) {
	must(w.t, w.l.Close())
	if paths := segments(w.t, w.l.dir); len(torn) > 0 && len(paths) > 0 {
		f, err := os.OpenFile(paths[len(paths)-1], os.O_WRONLY|os.O_APPEND, 0)
		must(w.t, err)
		_, err = f.Write(torn)
		must(w.t, err, f.Close())
	}
	w.l = openSmall(w.t, w.l.dir)
	same(w.t, "where it goes on", w.l.start.Delivered.At, w.acked.At)
	same(w.t, "the sequence number there", w.l.start.Delivered.Seq, w.acked.Seq)
}

func openSmall(t *testing.T, dir string) *log {
	t.Helper()
	return open(t, dir, func(o *spool.Options) { o.Segment = 400 })
}

// keep acknowledges what stands before a place.
func (w *written) keep(at spool.Ack, from int) {
	w.acked, w.from = at, from
	must(w.t, w.l.Keep(spool.Checkpoint{Delivered: at, Safe: at}))
}

// Whatever is written, left, acknowledged, torn by a crash and opened again, in any order: the
// records that were not acknowledged come back, once and in order, each write whole, and the log
// knows how many there were and what they take.
func TestALogIsItsRecords(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(rt *rapid.T) {
		dir, err := os.MkdirTemp(t.TempDir(), "log")
		must(t, err)
		w := &written{t: t, l: openSmall(t, dir), after: map[int64]int{}}
		w.acked = w.l.start.Delivered
		defer func() { must(t, w.l.Close(), os.RemoveAll(dir)) }()
		rt.Repeat(map[string]func(*rapid.T){
			"write": func(rt *rapid.T) {
				var texts []string
				for range rapid.IntRange(1, 4).Draw(rt, "records") {
					texts = append(texts, strings.Repeat(fmt.Sprint(len(w.records), " "), rapid.IntRange(0, 60).Draw(rt, "size")))
				}
				end := w.l.write(texts...)
				w.records, w.seq = append(w.records, texts...), w.seq+int64(len(texts))
				w.ends, w.after[w.seq] = append(w.ends, spool.Ack{At: end, Seq: w.seq}), len(w.records)
			},
			"rotate": func(*rapid.T) { w.l.Rotate() },
			"leave": func(*rapid.T) {
				_, err := w.l.Leave()
				must(t, err)
			},
			"acknowledge": func(rt *rapid.T) {
				if len(w.ends) == 0 {
					return
				}
				n := rapid.IntRange(0, len(w.ends)-1).Draw(rt, "write")
				at := w.ends[n]
				w.ends = w.ends[n+1:]
				w.keep(at, w.after[at.Seq])
			},
			"skip": func(*rapid.T) {
				if len(w.ends) > 0 {
					return // what is passed by must not overtake what stands there
				}
				w.l.Skip(2)
				w.seq += 2
				w.keep(spool.Ack{At: w.acked.At, Seq: w.seq}, w.from)
			},
			"crash": func(rt *rapid.T) {
				whole := frame('E', strings.Repeat("never acknowledged ", 4))
				w.reopen(whole[:rapid.IntRange(0, len(whole)-1).Draw(rt, "torn")])
			},
			"": func(rt *rapid.T) {
				end, seq := w.l.End()
				same(t, "sequence number", seq, w.seq)
				got := readFrom(t, w.l.Reader(), w.acked, end)
				sameList(t, "records", got.payloads, w.records[w.from:])
				same(t, "lost", got.lost, 0)
				size := int64(0)
				for _, path := range segments(t, w.l.dir) {
					info, err := os.Stat(path)
					must(t, err)
					size += info.Size()
				}
				same(t, "bytes", w.l.Bytes(), size)
				if t.Failed() {
					rt.FailNow()
				}
			},
		})
	})
}

// The quota is what the log may grow to; what must be kept goes one segment beyond it, no further.
func TestTheQuotaIsExact(t *testing.T) {
	t.Parallel()
	const segment = 1000
	open := func(quota int64) *log {
		return open(t, t.TempDir(), func(o *spool.Options) { o.Quota, o.Segment = quota, segment })
	}
	free := open(1 << 20)
	free.write("a")
	first := free.Bytes()
	free.write("b")
	both := free.Bytes()
	for over, want := range map[int64]error{0: nil, 1: spool.ErrQuota} {
		l := open(both - over)
		l.write("a")
		_, err := l.Append(1, fill('E', "b"))
		same(t, "up to the quota", err, want)
		l = open(both - segment - over)
		_, err = l.AppendOver(1, fill('E', "a"))
		must(t, err)
		same(t, "bytes", l.Bytes(), first)
		_, err = l.AppendOver(1, fill('E', "b"))
		same(t, "up to a segment beyond it", err, want)
	}
}
