package spool_test

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"pgregory.net/rapid"

	"precept/store/spool"
)

const firstSegment = "0000000000000001.spool"

// scanned reads a segment's bytes. setAside says whether some of them were damaged.
func scanned(t testing.TB, dir string, b []byte) (payloads []string, setAside bool) {
	t.Helper()
	must(t, os.RemoveAll(filepath.Join(dir, "quarantine")), os.WriteFile(filepath.Join(dir, firstSegment), b, 0o600))
	end := spool.Place{Segment: 1, Offset: int64(len(b))}
	at, err := spool.Reader{Dir: dir}.Next(spool.Place{Segment: 1}, end, func(rec spool.Record) (spool.Step, error) {
		payloads = append(payloads, string(rec.Payload))
		return spool.More, nil
	})
	must(t, err)
	same(t, "read to", at, end)
	return payloads, aside(dir) > 0
}

// What a mark and a length look like in the middle of a payload must not lead a reader astray.
func hostilePayloads() []string {
	inner, _ := frames("inner")
	return []string{"", "a", string(inner), mark, mark + mark, "\xf5p", string(bytes.Repeat([]byte{0xf5}, 40)), "the end"}
}

func TestRecordsComeBack(t *testing.T) {
	t.Parallel()
	want := hostilePayloads()
	b, _ := frames(want...)
	got, damaged := scanned(t, t.TempDir(), b)
	sameList(t, "payloads", got, want)
	same(t, "damaged", damaged, false)
	same(t, "as the format has it", string(fill('E', want...)(nil)), func() string {
		var b []byte
		for _, p := range want {
			b = append(b, frame('E', p)...)
		}
		return string(b)
	}())
}

// A write that was cut short anywhere costs what was cut, and nothing before it.
func TestTornAtEveryByte(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	want := hostilePayloads()
	b, ends := frames(want...)
	inner, _ := frames("inner")
	for cut := range len(b) {
		whole, last := 0, 0
		for _, end := range ends {
			if end <= cut {
				whole, last = whole+1, end
			}
		}
		got, damaged := scanned(t, dir, b[:cut])
		if whole < len(want) && want[whole] == string(inner) && len(got) > whole {
			continue // a cut record that held a whole one: it comes up, and is none of ours
		}
		sameList(t, fmt.Sprint("payloads before ", cut), got, want[:whole])
		same(t, fmt.Sprint("torn at ", cut), damaged, cut > last)
	}
}

// One flipped bit costs the record that it is in.
func TestAFlippedBitCostsOneRecord(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	want := []string{"first", "", "third " + mark, "\xf5p\xf5", "fifth", "last"}
	b, ends := frames(want...)
	for i := range b {
		hit := 0
		for ends[hit] <= i {
			hit++
		}
		for bit := range 8 {
			b[i] ^= 1 << bit
			got, damaged := scanned(t, dir, b)
			b[i] ^= 1 << bit
			rest := append(append([]string(nil), want[:hit]...), want[hit+1:]...)
			sameList(t, fmt.Sprintf("payloads with bit %d of byte %d flipped", bit, i), got, rest)
			same(t, fmt.Sprintf("told of byte %d", i), damaged, true)
		}
	}
}

// A mark that lies across the edge of what is read at a time is found.
func TestMarksAcrossTheEdge(t *testing.T) {
	t.Parallel()
	const chunk = 1 << 20
	dir := t.TempDir()
	whole, _ := frames("behind the edge", "and more")
	for shift := range 2 * headSize {
		got, damaged := scanned(t, dir, append(bytes.Repeat([]byte{'x'}, chunk-shift), whole...))
		sameList(t, fmt.Sprint("payloads at ", shift), got, []string{"behind the edge", "and more"})
		same(t, "damaged", damaged, true)
	}
}

func TestLongRecords(t *testing.T) {
	t.Parallel()
	long := string(bytes.Repeat([]byte("0123456789"), 3<<20/10))
	b, _ := frames("a", long, "b")
	got, damaged := scanned(t, t.TempDir(), b)
	sameList(t, "payloads", got, []string{"a", long, "b"})
	same(t, "damaged", damaged, false)
	// A length that points far behind the end swallows nothing.
	b[len(mark)+2] = 0xff
	got, _ = scanned(t, t.TempDir(), b)
	sameList(t, "payloads behind a bad length", got, []string{long, "b"})
}

// A file that has become shorter than it was a moment ago ends there.
func TestAShrunkenFile(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	b, _ := frames("a", "b", "c")
	must(t, os.WriteFile(filepath.Join(dir, firstSegment), b[:len(b)-1], 0o600))
	n := 0
	end := spool.Place{Segment: 1, Offset: 1 << 30}
	at, err := spool.Reader{Dir: dir}.Next(spool.Place{Segment: 1}, end, func(spool.Record) (spool.Step, error) { n++; return spool.More, nil })
	same(t, "read to", fmt.Sprint(at, err), fmt.Sprint(end, nil))
	same(t, "records", n, 2)
}

// A reader stops where it is told to, and a record that it cannot use is damaged.
func TestSteps(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	b, ends := frames("a", "b", "c", "d")
	must(t, os.WriteFile(filepath.Join(dir, firstSegment), b, 0o600))
	r, end := spool.Reader{Dir: dir}, spool.Place{Segment: 1, Offset: int64(len(b))}
	upTo := func(from int, stop string, step spool.Step) (got []string, at int) {
		p, err := r.Next(spool.Place{Segment: 1, Offset: int64(from)}, end, func(rec spool.Record) (spool.Step, error) {
			if got = append(got, string(rec.Payload)); string(rec.Payload) == stop {
				return step, nil
			}
			return spool.More, nil
		})
		must(t, err)
		return got, int(p.Offset)
	}
	got, at := upTo(0, "b", spool.Last)
	same(t, "up to b", fmt.Sprint(got, at), fmt.Sprint([]string{"a", "b"}, ends[1]))
	got, at = upTo(at, "d", spool.Later)
	same(t, "before d", fmt.Sprint(got, at), fmt.Sprint([]string{"c", "d"}, ends[2]))
	got, at = upTo(at, "", spool.More)
	same(t, "the rest", fmt.Sprint(got, at), fmt.Sprint([]string{"d"}, ends[3]))
	same(t, "nothing is damaged", aside(dir), 0)
	bad := errors.New("not mine")
	_, err := r.Next(spool.Place{Segment: 1}, end, func(rec spool.Record) (spool.Step, error) {
		if string(rec.Payload) == "b" {
			return spool.More, bad
		}
		return spool.More, nil
	})
	must(t, err)
	same(t, "set aside", aside(dir), 1)
}

// Whatever is done to a segment, every record that was not touched is read.
func TestReadersFindWhatIsWhole(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	rapid.Check(t, func(rt *rapid.T) {
		payloads := rapid.SliceOfN(rapid.StringOfN(rapid.RuneFrom([]rune("ab\n")), 0, 30, -1), 1, 12).Draw(rt, "payloads")
		b, ends := frames(payloads...)
		from := rapid.IntRange(0, len(b)).Draw(rt, "from")
		to := rapid.IntRange(from, len(b)).Draw(rt, "to")
		junk := rapid.SliceOfN(rapid.Byte(), 0, 40).Draw(rt, "junk")
		if bytes.Contains(junk, []byte(mark)) {
			rt.Skip("a mark by chance")
		}
		var want []string
		start := 0
		for i, end := range ends {
			if end <= from || start >= to && (start > from || len(junk) == 0 || from == to) {
				want = append(want, payloads[i])
			}
			start = end
		}
		got, _ := scanned(t, dir, append(append(append([]byte(nil), b[:from]...), junk...), b[to:]...))
		if !containsAll(got, want) {
			rt.Fatalf("of %q, with %d-%d replaced by %q, came %q; want %q", payloads, from, to, junk, got, want)
		}
	})
}

// containsAll says that want is a subsequence of got.
func containsAll(got, want []string) bool {
	for _, g := range got {
		if len(want) > 0 && g == want[0] {
			want = want[1:]
		}
	}
	return len(want) == 0
}

func FuzzReader(f *testing.F) {
	two, _ := frames("a", "b")
	hostile, _ := frames(hostilePayloads()...)
	f.Add(two, 3)
	f.Add(hostile, 0)
	f.Add([]byte(mark+"\xff\xff\xff\xff"), 8)
	f.Fuzz(func(t *testing.T, b []byte, at int) {
		good := frame('E', "whole")
		at = max(0, min(at, len(b)))
		all := append(append(append([]byte(nil), b[:at]...), good...), b[at:]...)
		got, _ := scanned(t, t.TempDir(), all)
		// Only a record that reaches into it, by its own checksum, may hide it.
		if !containsAll(got, []string{"whole"}) && !reachesInto(all, at) {
			t.Fatalf("a whole record was not found in %q: %q", all, got)
		}
	})
}

// reachesInto says whether a record that begins before an offset ends behind it.
func reachesInto(b []byte, at int) bool {
	for o := range at {
		if size, ok := isFrame(b[o:]); ok && o+size > at {
			return true
		}
	}
	return false
}
