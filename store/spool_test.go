package store

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"precept/sample"
)

// writer is a spool in the hands of a test, with what was written to it and a cursor that never
// moves.
type writer struct {
	*spool
	t   testing.TB
	dir string
	ids []string
}

func openWriter(t testing.TB, dir string) *writer {
	t.Helper()
	s, _, err := openSpool(dir, 1<<30, when)
	if err != nil {
		t.Fatal(err)
	}
	w := &writer{spool: s, t: t, dir: dir}
	t.Cleanup(func() { _ = w.close() })
	return w
}

// put writes one exchange.
func (w *writer) put(name string) {
	w.t.Helper()
	x := exchange(us, name, 1, when)
	p := parcel{exchanges: []sample.Exchange{*x}, admitted: 1}
	if _, err := w.write(p.append(nil, w.admitted+1), 1); err != nil {
		w.t.Fatal(err)
	}
	w.ids = append(w.ids, name)
}

// segmentsOf are the paths of a spool's segments.
func segmentsOf(t testing.TB, dir string) (paths []string) {
	t.Helper()
	segs, err := segments(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range segs {
		paths = append(paths, s.path(dir))
	}
	return paths
}

// readAll reads a spool from its first segment on, and gives the sessions' names and the account.
func readAll(t testing.TB, s *spool, c cursorFile) (names []string, l ledger) {
	t.Helper()
	l = c.start()
	r := reader{dir: s.dir, spool: s.name, most: 200}
	for i := 0; l.At.before(s.end); i++ {
		p, err := r.next(l.At, s.end)
		if err != nil {
			t.Fatal(err)
		}
		if !l.At.before(p.end) || i > 10_000 {
			t.Fatalf("reading stands still at %v of %v", l.At, s.end)
		}
		for i := range p.exchanges {
			names = append(names, p.exchanges[i].SessionName)
		}
		l.advance(&p)
	}
	return names, l
}

// sum is what an account must come to.
func (l *ledger) sum() int64 {
	n := l.Stored + l.Incomplete + int64(len(l.Open))
	for _, d := range l.Dropped {
		n += d
	}
	return n
}

// Five segments, of which something happens to some. Whatever it is, the spool opens, takes more,
// gives back what is whole, and the account says how much is missing.
func TestWhatHappensToSegments(t *testing.T) {
	t.Parallel()
	edit := func(i int, change func(b []byte) []byte) func(t *testing.T, dir string) {
		return func(t *testing.T, dir string) {
			t.Helper()
			path := segmentsOf(t, dir)[i]
			b, err := os.ReadFile(path)
			if err == nil {
				err = os.WriteFile(path, change(b), 0o600)
			}
			if err != nil {
				t.Fatal(err)
			}
		}
	}
	remove := func(list ...int) func(t *testing.T, dir string) {
		return func(t *testing.T, dir string) {
			t.Helper()
			paths := segmentsOf(t, dir)
			for _, i := range list {
				if err := os.Remove(paths[i]); err != nil {
					t.Fatal(err)
				}
			}
		}
	}
	flip := func(what string, by int) func([]byte) []byte {
		return func(b []byte) []byte {
			b[bytes.Index(b, []byte(what))+by] ^= 0x10
			return b
		}
	}
	add := func(n uint64, content []byte) func(t *testing.T, dir string) {
		return func(t *testing.T, dir string) {
			t.Helper()
			if err := os.WriteFile(segment{n: n}.path(dir), content, 0o600); err != nil {
				t.Fatal(err)
			}
		}
	}
	foreign, _ := json.Marshal(segmentHead{Version: spoolVersion, Spool: "theirs", Admitted: 7000})
	theirs := closeFrame(append(openFrame(nil, frameSegment), foreign...), 0)
	stranger := exchange(us, "stranger", 1, when)
	theirs = (&parcel{exchanges: []sample.Exchange{*stranger}}).append(theirs, 7001)
	cases := map[string]struct {
		harm    func(t *testing.T, dir string)
		lost    string // names, "" none
		aside   bool   // something is in quarantine
		unknown int64  // of the lost, how many nobody can know of: the cursor was never written
	}{
		"nothing":                           {harm: func(*testing.T, string) {}},
		"a bit in an exchange":              {harm: edit(1, flip("b0-1", 2)), lost: "b1", aside: true},
		"a bit in the last exchange":        {harm: edit(4, flip("e0-2", 2)), lost: "e2", aside: true},
		"a bit in a head":                   {harm: edit(2, flip("admitted", 0)), aside: true},
		"a bit in the first head":           {harm: edit(0, flip("admitted", 0)), aside: true},
		"a bit in the last head":            {harm: edit(4, flip("admitted", 0)), aside: true},
		"a segment deleted":                 {harm: remove(2), lost: "c0 c1 c2"},
		"the first two deleted":             {harm: remove(0, 1), lost: "a0 a1 a2 b0 b1 b2", unknown: 6},
		"the last deleted":                  {harm: remove(4), lost: "e0 e1 e2", unknown: 3},
		"all deleted":                       {harm: remove(0, 1, 2, 3, 4), lost: "a0 a1 a2 b0 b1 b2 c0 c1 c2 d0 d1 d2 e0 e1 e2", unknown: 15},
		"one truncated":                     {harm: edit(1, func(b []byte) []byte { return b[:bytes.Index(b, []byte("b0-1"))] }), lost: "b1 b2", aside: true},
		"the last truncated":                {harm: edit(4, func(b []byte) []byte { return b[:bytes.Index(b, []byte("e0-2"))] }), lost: "e2", aside: true, unknown: 1},
		"one emptied":                       {harm: edit(3, func([]byte) []byte { return nil }), lost: "d0 d1 d2"},
		"the last emptied":                  {harm: edit(4, func([]byte) []byte { return nil }), lost: "e0 e1 e2", unknown: 3},
		"one overwritten with zeros":        {harm: edit(1, func(b []byte) []byte { clear(b); return b }), lost: "b0 b1 b2", aside: true},
		"the last overwritten with zeros":   {harm: edit(4, func(b []byte) []byte { clear(b); return b }), lost: "e0 e1 e2", aside: true, unknown: 3},
		"junk behind the last":              {harm: edit(4, func(b []byte) []byte { return append(b, "junk"...) }), aside: true},
		"junk behind another":               {harm: edit(0, func(b []byte) []byte { return append(b, "junk"...) }), aside: true},
		"a foreign segment in the middle":   {harm: func(t *testing.T, dir string) { t.Helper(); remove(2)(t, dir); add(3, theirs)(t, dir) }, lost: "c0 c1 c2", aside: true},
		"a foreign segment behind the last": {harm: add(6, theirs), aside: true},
		"a foreign segment far behind":      {harm: add(1e15, theirs), aside: false},
		"no segment behind the last":        {harm: add(6, []byte("this is a letter")), aside: true},
		"a file of another name": {harm: func(t *testing.T, dir string) {
			t.Helper()
			for _, name := range []string{"7.spool", "00000000000000007.spool", "0000000000000000.spool", "x.spool", "0000000000000007.spool.bak"} {
				if err := os.WriteFile(filepath.Join(dir, name), theirs, 0o600); err != nil {
					t.Fatal(err)
				}
			}
		}},
		"a directory in its place": {harm: func(t *testing.T, dir string) {
			t.Helper()
			if err := os.Mkdir(segment{n: 6}.path(dir), 0o700); err != nil {
				t.Fatal(err)
			}
		}},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			w := openWriter(t, dir)
			for _, seg := range "abcde" {
				w.fresh = true
				for i := range 3 {
					w.put(fmt.Sprintf("%c0-%d", seg, i))
				}
			}
			if err := w.close(); err != nil {
				t.Fatal(err)
			}
			tc.harm(t, dir)
			s, c, err := openSpool(dir, 1<<30, when)
			if err != nil {
				t.Fatal(err)
			}
			again := &writer{spool: s, t: t, dir: dir}
			again.put("after-0")
			again.fresh = true
			again.put("after-1")
			got, l := readAll(t, s, c)
			var want []string
			for _, id := range append(w.ids, again.ids...) {
				if !strings.Contains(" "+tc.lost+" ", " "+strings.Replace(id, "0-", "", 1)+" ") {
					want = append(want, id)
				}
			}
			sameList(t, "read back", got, want)
			lost := int64(len(strings.Fields(tc.lost)))
			if strings.HasPrefix(name, "the first two") { // what was before the first segment counts as stored
				same(t, "admitted", l.Admitted, int64(17))
			} else {
				same(t, "admitted", l.Admitted, 17-tc.unknown)
				same(t, "damaged", l.Dropped[droppedDamaged], lost-tc.unknown)
			}
			same(t, "sum", l.sum(), l.Admitted)
			aside, _ := os.ReadDir(filepath.Join(dir, quarantineDir))
			same(t, "something is set aside", len(aside) > 0, tc.aside)
			if err := s.close(); err != nil {
				t.Error(err)
			}
		})
	}
}

// A crash cuts the last segment anywhere: what was whole is there, and what comes then stands
// behind it.
func TestResumeAtEveryByte(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	w := openWriter(t, dir)
	w.put("one")
	w.put("two")
	if err := w.close(); err != nil {
		t.Fatal(err)
	}
	path := segmentsOf(t, dir)[0]
	whole, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	ends := []int{bytes.Index(whole, []byte("one")), bytes.Index(whole, []byte("two"))}
	for cut := 0; cut < len(whole); cut += 7 { // every byte is in TestTornAtEveryByte
		dir := t.TempDir()
		if err := os.WriteFile(segment{n: 1}.path(dir), whole[:cut], 0o600); err != nil {
			t.Fatal(err)
		}
		s, c, err := openSpool(dir, 1<<30, when)
		if err != nil {
			t.Fatalf("cut at %d: %v", cut, err)
		}
		again := &writer{spool: s, t: t, dir: dir}
		again.put("new")
		got, l := readAll(t, s, c)
		if err := s.close(); err != nil {
			t.Fatal(err)
		}
		if len(got) == 0 || got[len(got)-1] != "new" || cut < ends[0] && len(got) > 1 || cut > ends[1] && len(got) < 2 {
			t.Errorf("cut at %d: %q", cut, got)
		}
		same(t, fmt.Sprint("sum, cut at ", cut), l.sum(), l.Admitted)
		same(t, fmt.Sprint("admitted, cut at ", cut), l.Admitted, int64(len(got)))
	}
}

func TestRotation(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	w := openWriter(t, dir)
	w.put("a")
	w.end.Offset = segmentBytes - 10 // as if it had grown
	w.put("b")
	same(t, "segments", len(segmentsOf(t, dir)), 2)
	h, ok := readHead(segmentsOf(t, dir)[1])
	same(t, "head", fmt.Sprint(h, ok), fmt.Sprint(segmentHead{spoolVersion, w.name, 1}, true))
	before := w.end
	end, err := w.retire()
	same(t, "error", err, nil)
	same(t, "retired to", end, place{Segment: before.Segment + 1})
	again, err := w.retire()
	same(t, "a second time", fmt.Sprint(again, err), fmt.Sprint(end, nil))
	w.put("c")
	same(t, "segments then", len(segmentsOf(t, dir)), 3)
	freed, err := release(dir, place{Segment: before.Segment})
	if err != nil || freed == 0 {
		t.Errorf("freed %d, %v", freed, err)
	}
	same(t, "segments left", len(segmentsOf(t, dir)), 2)
}

func TestQuotaRefuses(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	w := openWriter(t, dir)
	w.put("a")
	w.quota = w.bytes
	before, size := w.end, w.bytes
	x := exchange(us, "b", 1, when)
	_, err := w.write((&parcel{exchanges: []sample.Exchange{*x}}).append(nil, 2), 1)
	same(t, "refused", errors.Is(err, errQuota), true)
	same(t, "end", w.end, before)
	same(t, "bytes", w.bytes, size)
	same(t, "admitted", w.admitted, int64(1))
	w.quota = 1 << 20
	w.put("c")
	got, _ := readAll(t, w.spool, atHead(dir, []segment{{n: 1}}))
	sameList(t, "read back", got, []string{"a", "c"})
}

func TestNewerSpoolIsRefused(t *testing.T) {
	t.Parallel()
	head, _ := json.Marshal(segmentHead{Version: spoolVersion + 1, Spool: "x"})
	for name, content := range map[string]string{
		segment{n: 4}.path(""): string(closeFrame(append(openFrame(nil, frameSegment), head...), 0)),
		cursorName:             `{"version":2,"spool":"x"}`,
	} {
		dir := t.TempDir()
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
		_, _, err := openSpool(dir, 1<<30, when)
		if !errors.Is(err, ErrSpoolNewer) || !strings.Contains(err.Error(), "upgrade precept") {
			t.Errorf("%s: %v", name, err)
		}
		if _, err := ReadBooks(dir, false); !errors.Is(err, ErrSpoolNewer) {
			t.Errorf("the books of %s: %v", name, err)
		}
		if b, err := os.ReadFile(path); err != nil || string(b) != content {
			t.Errorf("%s was touched: %q, %v", name, b, err)
		}
	}
}

func TestCursors(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		change  func(b []byte) []byte
		damaged bool
	}{
		"as it was":         {change: func(b []byte) []byte { return b }},
		"gone":              {change: func([]byte) []byte { return nil }},
		"empty":             {change: func([]byte) []byte { return []byte{} }, damaged: true},
		"garbage":           {change: func([]byte) []byte { return []byte("\x00\x01") }, damaged: true},
		"cut":               {change: func(b []byte) []byte { return b[:40] }, damaged: true},
		"of an older time":  {change: func([]byte) []byte { return []byte(`{"version":0}`) }, damaged: true},
		"of another spool":  {change: func(b []byte) []byte { return bytes.Replace(b, []byte(`"spool":"`), []byte(`"spool":"not-`), 1) }, damaged: true},
		"after a power cut": {change: func(b []byte) []byte { return bytes.Replace(b, []byte(`"boot":"`), []byte(`"boot":"other`), 1) }},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			w := openWriter(t, dir)
			w.put("a")
			at := w.end
			w.put("b")
			l := ledger{At: at, Admitted: 1, Stored: 1}
			safe := ledger{At: place{Segment: 1}}
			if err := writeCursor(dir, &cursorFile{Version: spoolVersion, Spool: w.name, Boot: bootID(), Delivered: l, Safe: safe, End: w.end, Admitted: 2}); err != nil {
				t.Fatal(err)
			}
			if err := w.close(); err != nil {
				t.Fatal(err)
			}
			path := filepath.Join(dir, cursorName)
			b, err := os.ReadFile(path)
			if err != nil || len(b)%cursorBlock != 0 {
				t.Fatalf("%d bytes, %v", len(b), err)
			}
			if b = tc.change(b); b == nil {
				err = os.Remove(path)
			} else {
				err = os.WriteFile(path, b, 0o600)
			}
			if err != nil {
				t.Fatal(err)
			}
			books, err := ReadBooks(dir, false)
			if err != nil {
				t.Fatal(err)
			}
			if _, err := os.Stat(filepath.Join(dir, damagedCursor)); err == nil {
				t.Error("a look at the books changed something")
			}
			s, c, err := openSpool(dir, 1<<30, when)
			if err != nil {
				t.Fatal(err)
			}
			got, l := readAll(t, s, c)
			want := []string{"a", "b"}
			if name == "as it was" {
				want = want[1:]
			}
			sameList(t, "delivered", got, want)
			same(t, "admitted", l.Admitted, int64(2))
			same(t, "stored", l.Stored, int64(2))
			same(t, "in the books", fmt.Sprint(books.Admitted, books.Stored+books.Spooled), "2 2")
			_, err = os.Stat(filepath.Join(dir, damagedCursor))
			same(t, "set aside", err == nil, tc.damaged)
			if err := s.close(); err != nil {
				t.Error(err)
			}
		})
	}
}

// Where a new file finds no place, the cursor is written into the old one's.
func TestOverwrittenCursor(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), cursorName)
	old := bytes.Repeat([]byte{' '}, cursorBlock)
	if err := os.WriteFile(path, old, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := overwrite(path, []byte(`{"version":1}`)); err != nil {
		t.Fatal(err)
	}
	b, err := os.ReadFile(path)
	same(t, "text", string(bytes.TrimSpace(b)), `{"version":1}`)
	same(t, "size", fmt.Sprint(len(b), err), fmt.Sprint(cursorBlock, nil))
	same(t, "one that does not fit is full", full(overwrite(path, make([]byte, 2*cursorBlock))), true)
	again, _ := os.ReadFile(path)
	same(t, "and changes nothing", bytes.Equal(again, b), true)
}

func TestBallast(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	w := openWriter(t, dir)
	there := func() bool {
		info, err := os.Stat(filepath.Join(dir, ballastName))
		return err == nil && info.Size() == ballastBytes
	}
	same(t, "at the start", there(), true)
	w.dropBallast()
	same(t, "given up", there(), false)
	if _, err := w.write(closeFrame(openFrame(nil, frameRun), 0), 0); err != nil {
		t.Error(err)
	}
	same(t, "before the next write", there(), true)
	same(t, "one that was there", openWriter(t, dir).ballast, true)
}

// The account of a precept at work: what is drained and deleted while somebody reads is not lost.
func TestBooksBesideAWriter(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	w := openWriter(t, dir)
	var l ledger
	stop := make(chan struct{})
	var reading sync.WaitGroup
	reading.Go(func() {
		for last := int64(0); ; {
			books, err := ReadBooks(dir, true)
			if err != nil {
				t.Error(err)
				return
			}
			if books.Admitted < last || len(books.Dropped) > 0 || books.Admitted != books.Stored+books.Spooled {
				t.Errorf("after %d admitted: %+v", last, books)
				return
			}
			last = books.Admitted
			select {
			case <-stop:
				return
			default:
			}
		}
	})
	for range 60 {
		for range 3 {
			w.fresh = true
			w.put("a")
		}
		at, err := w.retire()
		if err != nil {
			t.Fatal(err)
		}
		l.At, l.Admitted, l.Stored = at, w.admitted, w.admitted
		c := cursorFile{Version: spoolVersion, Spool: w.name, Boot: w.boot, Delivered: l, Safe: l, End: at, Admitted: w.admitted}
		if err := writeCursor(dir, &c); err != nil {
			t.Fatal(err)
		}
		if _, err := release(dir, at); err != nil {
			t.Fatal(err)
		}
	}
	close(stop)
	reading.Wait()
}
