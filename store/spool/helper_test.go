package spool_test

import (
	"bytes"
	"encoding/binary"
	"errors"
	"hash/crc32"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"precept/store/spool"
)

// The format on the disk, which later releases must read: a mark, the length of the payload and a
// CRC32C over length, kind and payload, the kind, the payload.
const (
	mark     = "\xf5pr\n"
	headSize = 13
)

var when = time.Date(2032, 4, 5, 6, 7, 8, 0, time.UTC) //nolint:gochecknoglobals // a constant but for its type

// frame is a record as the format has it, whatever the package makes of it.
func frame(kind byte, payload string) []byte {
	b := binary.LittleEndian.AppendUint32(nil, uint32(len(payload)))
	table := crc32.MakeTable(crc32.Castagnoli)
	sum := crc32.Update(crc32.Checksum(b, table), table, append([]byte{kind}, payload...))
	b = append([]byte(mark), b...)
	b = binary.LittleEndian.AppendUint32(b, sum)
	return append(append(b, kind), payload...)
}

// frames are records of several kinds, and where each ends.
func frames(payloads ...string) (b []byte, ends []int) {
	for i, p := range payloads {
		b = append(b, frame("BEVD"[i%4], p)...)
		ends = append(ends, len(b))
	}
	return b, ends
}

// isFrame says whether a whole record stands at the beginning of b, and its size.
func isFrame(b []byte) (size int, ok bool) {
	if len(b) < headSize {
		return 0, false
	}
	n := int(binary.LittleEndian.Uint32(b[len(mark):]))
	if n > len(b)-headSize {
		return 0, false
	}
	return headSize + n, bytes.HasPrefix(b, frame(b[headSize-1], string(b[headSize:headSize+n])))
}

// log is a spool.Log in the hands of a test, with what was written to it.
type log struct {
	*spool.Log
	t     testing.TB
	dir   string
	start spool.Checkpoint
	put   []string
}

func open(t testing.TB, dir string, change ...func(*spool.Options)) *log {
	t.Helper()
	o := spool.Options{Quota: 1 << 30, Now: when}
	for _, c := range change {
		c(&o)
	}
	l, c, err := spool.Open(dir, o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	return &log{Log: l, t: t, dir: dir, start: c}
}

func fill(kind byte, payloads ...string) func(b []byte) []byte {
	return func(b []byte) []byte {
		for _, p := range payloads {
			b = spool.AppendRecord(b, kind, func(b []byte) []byte { return append(b, p...) })
		}
		return b
	}
}

// write appends records, each of which takes a sequence number, and returns the place behind them.
func (l *log) write(payloads ...string) (end spool.Place) {
	l.t.Helper()
	end, err := l.Append(int64(len(payloads)), fill('E', payloads...))
	if err != nil {
		l.t.Fatal(err)
	}
	l.put = append(l.put, payloads...)
	return end
}

// read is what a reader finds between a checkpoint and the end.
type read struct {
	payloads []string
	seq      int64 // that it comes to
	lost     int64 // of the sequence numbers, those without a record
}

func (l *log) read() read {
	l.t.Helper()
	end, _ := l.End()
	return readFrom(l.t, l.Reader(), l.start.Delivered, end)
}

func readFrom(t testing.TB, r spool.Reader, from spool.Ack, end spool.Place) (out read) {
	t.Helper()
	out.seq = from.Seq
	for at, rounds := from.At, 0; at.Before(end); rounds++ {
		next, err := r.Next(at, end, func(rec spool.Record) (spool.Step, error) {
			switch rec.Kind {
			case spool.KindHead, spool.KindEnd:
				if n := rec.Seq - out.seq; n > 0 {
					out.lost += n
					out.seq = rec.Seq
				}
			default:
				out.payloads = append(out.payloads, string(rec.Payload))
				out.seq++
			}
			return spool.More, nil
		})
		if err != nil {
			t.Fatal(err)
		}
		if !at.Before(next) || rounds > 10_000 {
			t.Fatalf("reading stands still at %v of %v", at, end)
		}
		at = next
	}
	return out
}

// segments are the paths of a log's segments.
func segments(t testing.TB, dir string) []string {
	t.Helper()
	paths, err := filepath.Glob(filepath.Join(dir, "*.spool"))
	if err != nil {
		t.Fatal(err)
	}
	return paths
}

// aside counts what was set aside.
func aside(dir string) int {
	entries, _ := os.ReadDir(filepath.Join(dir, "quarantine"))
	return len(entries)
}

func same[T comparable](t testing.TB, what string, have, want T) {
	t.Helper()
	if have != want {
		t.Errorf("%s: have %v, want %v", what, have, want)
	}
}

func sameList(t testing.TB, what string, have, want []string) {
	t.Helper()
	if !slices.Equal(have, want) {
		t.Errorf("%s: have %q, want %q", what, have, want)
	}
}

func must(t testing.TB, errs ...error) {
	t.Helper()
	if err := errors.Join(errs...); err != nil {
		t.Fatal(err)
	}
}
