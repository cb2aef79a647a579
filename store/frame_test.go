package store

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"pgregory.net/rapid"
)

// frames are records of which the payloads are given, one kind after the other.
func frames(payloads ...string) (b []byte, ends []int) {
	for i, p := range payloads {
		at := len(b)
		b = closeFrame(append(openFrame(b, "BEVD"[i%4]), p...), at)
		ends = append(ends, len(b))
	}
	return b, ends
}

// scanned reads a segment's bytes the way every reader does.
func scanned(t testing.TB, path string, b []byte) (payloads []string, damaged [][2]int64, at int64, torn bool) {
	t.Helper()
	if err := os.WriteFile(path, b, 0o600); err != nil {
		t.Fatal(err)
	}
	f, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = f.Close() }()
	at, torn, err = scan(f, 0, int64(len(b)), func(_ byte, p []byte, _ int64) (bool, error) {
		payloads = append(payloads, string(p))
		return true, nil
	}, func(a, b int64) { damaged = append(damaged, [2]int64{a, b}) })
	if err != nil {
		t.Fatal(err)
	}
	return payloads, damaged, at, torn
}

// What a mark and a length look like in the middle of a payload must not lead a reader astray.
func hostilePayloads() []string {
	inner, _ := frames("inner")
	return []string{"", "a", string(inner), frameMark, frameMark + frameMark, "\xf5p", string(bytes.Repeat([]byte{0xf5}, 40)), "the end"}
}

func TestFramesComeBack(t *testing.T) {
	t.Parallel()
	want := hostilePayloads()
	b, _ := frames(want...)
	got, damaged, at, torn := scanned(t, filepath.Join(t.TempDir(), "s"), b)
	sameList(t, "payloads", got, want)
	same(t, "damaged", len(damaged), 0)
	same(t, "read to", at, int64(len(b)))
	same(t, "torn", torn, false)
}

// A write that was cut short anywhere costs what was cut, and nothing before it.
func TestTornAtEveryByte(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "s")
	want := hostilePayloads()
	b, ends := frames(want...)
	for cut := range len(b) {
		whole, last := 0, 0
		for _, end := range ends {
			if end <= cut {
				whole, last = whole+1, end
			}
		}
		got, _, at, torn := scanned(t, path, b[:cut])
		if whole < len(want) && want[whole] == string(mustFrames("inner")) && len(got) > whole {
			continue // a cut record that held a whole one: it comes up, and is none of ours (see the flips)
		}
		sameList(t, fmt.Sprint("payloads before ", cut), got, want[:whole])
		same(t, fmt.Sprint("read to, before ", cut), at, int64(last))
		same(t, fmt.Sprint("torn at ", cut), torn, cut > last)
	}
}

func mustFrames(payloads ...string) []byte {
	b, _ := frames(payloads...)
	return b
}

// One flipped bit costs the record that it is in.
func TestAFlippedBitCostsOneRecord(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "s")
	want := []string{"first", "", "third " + frameMark, "\xf5p\xf5", "fifth", "last"}
	b, ends := frames(want...)
	for i := range b {
		hit := 0
		for ends[hit] <= i {
			hit++
		}
		for bit := range 8 {
			b[i] ^= 1 << bit
			got, damaged, _, torn := scanned(t, path, b)
			b[i] ^= 1 << bit
			rest := append(append([]string(nil), want[:hit]...), want[hit+1:]...)
			sameList(t, fmt.Sprintf("payloads with bit %d of byte %d flipped", bit, i), got, rest)
			same(t, fmt.Sprintf("told of byte %d", i), len(damaged) == 1 || torn, true)
		}
	}
}

// A mark that lies across the edge of what is read at a time is found.
func TestMarksAcrossTheEdge(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "s")
	for shift := range 2 * frameHead {
		junk := bytes.Repeat([]byte{'x'}, scanChunk-frameHead-shift+frameHead)
		b := append(junk, mustFrames("behind the edge", "and more")...)
		got, damaged, _, torn := scanned(t, path, b)
		sameList(t, fmt.Sprint("payloads at ", shift), got, []string{"behind the edge", "and more"})
		same(t, "damaged stretches", len(damaged), 1)
		same(t, "torn", torn, false)
	}
}

func TestLongFrames(t *testing.T) {
	t.Parallel()
	long := string(bytes.Repeat([]byte("0123456789"), 3*scanChunk/10))
	b := mustFrames("a", long, "b")
	got, _, _, torn := scanned(t, filepath.Join(t.TempDir(), "s"), b)
	sameList(t, "payloads", got, []string{"a", long, "b"})
	same(t, "torn", torn, false)
	// A length that points far behind the end swallows nothing.
	b[len(frameMark)+2] = 0xff
	got, _, _, _ = scanned(t, filepath.Join(t.TempDir(), "s"), b)
	sameList(t, "payloads behind a bad length", got, []string{long, "b"})
}

// A file that has become shorter than it was a moment ago ends there.
func TestScanOfAShrunkenFile(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "s")
	b := mustFrames("a", "b", "c")
	if err := os.WriteFile(path, b[:len(b)-1], 0o600); err != nil {
		t.Fatal(err)
	}
	f, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = f.Close() }()
	n := 0
	_, torn, err := scan(f, 0, 1<<30, func(byte, []byte, int64) (bool, error) { n++; return true, nil }, func(int64, int64) {})
	same(t, "error", err, nil)
	same(t, "records", n, 2)
	same(t, "torn", torn, true)
}

// Whatever is done to a segment, every record that was not touched is read.
func TestScanFindsWhatIsWhole(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "s")
	rapid.Check(t, func(rt *rapid.T) {
		payloads := rapid.SliceOfN(rapid.StringOfN(rapid.RuneFrom([]rune("ab\n")), 0, 30, -1), 1, 12).Draw(rt, "payloads")
		b, ends := frames(payloads...)
		from := rapid.IntRange(0, len(b)).Draw(rt, "from")
		to := rapid.IntRange(from, len(b)).Draw(rt, "to")
		junk := rapid.SliceOfN(rapid.Byte(), 0, 40).Draw(rt, "junk")
		if bytes.Contains(junk, []byte(frameMark)) {
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
		got, _, _, _ := scanned(t, path, append(append(append([]byte(nil), b[:from]...), junk...), b[to:]...))
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

func FuzzReadFrame(f *testing.F) {
	f.Add(mustFrames("payload"))
	f.Add(mustFrames(""))
	f.Add([]byte(frameMark + "\xff\xff\xff\xff"))
	f.Add([]byte{})
	f.Fuzz(func(t *testing.T, b []byte) {
		kind, payload, size, err := readFrame(b)
		switch {
		case err == nil:
			if size > len(b) || len(payload) != size-frameHead {
				t.Fatalf("size %d of %d, payload %d", size, len(b), len(payload))
			}
			if again := closeFrame(append(openFrame(nil, kind), payload...), 0); !bytes.Equal(again, b[:size]) {
				t.Fatalf("%q was read as a record, and is written as %q", b[:size], again)
			}
		case errors.Is(err, errShort):
			if size > 0 && size <= len(b) {
				t.Fatalf("wants %d bytes and has %d", size, len(b))
			}
		case !errors.Is(err, errFrame):
			t.Fatal(err)
		}
	})
}

func FuzzScan(f *testing.F) {
	f.Add(mustFrames("a", "b"), 3, 40)
	f.Add(mustFrames(hostilePayloads()...), 0, 0)
	f.Fuzz(func(t *testing.T, b []byte, at, n int) {
		good := mustFrames("whole")
		at = max(0, min(at, len(b)))
		file := append(append(append([]byte(nil), b[:at]...), good...), b[at:]...)
		got, _, end, _ := scanned(t, filepath.Join(t.TempDir(), "s"), file)
		if end > int64(len(file)) {
			t.Fatalf("read to %d of %d", end, len(file))
		}
		// Only a record that reaches into it, by its own checksum, may hide it.
		if !containsAll(got, []string{"whole"}) && !reachesInto(file, at) {
			t.Fatalf("a whole record was not found in %q: %q", file, got)
		}
	})
}

// reachesInto says whether a record that begins before an offset ends behind it.
func reachesInto(file []byte, at int) bool {
	for o := range at {
		if _, _, size, err := readFrame(file[o:]); err == nil && o+size > at {
			return true
		}
	}
	return false
}
