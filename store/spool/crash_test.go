package spool_test

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"precept/store/spool"
	"precept/store/storetest"
)

// harm is done to a log's directory.
type harm func(t *testing.T, dir string)

func edit(i int, change func(b []byte) []byte) harm {
	return func(t *testing.T, dir string) {
		t.Helper()
		path := segments(t, dir)[i]
		b, err := os.ReadFile(path)
		must(t, err, os.WriteFile(path, change(b), 0o600))
	}
}

func remove(list ...int) harm {
	return func(t *testing.T, dir string) {
		t.Helper()
		paths := segments(t, dir)
		for _, i := range list {
			must(t, os.Remove(paths[i]))
		}
	}
}

func add(name string, content []byte) harm {
	return func(t *testing.T, dir string) {
		t.Helper()
		must(t, os.WriteFile(filepath.Join(dir, name), content, 0o600))
	}
}

func flip(what string, by int) func([]byte) []byte {
	return func(b []byte) []byte {
		b[bytes.Index(b, []byte(what))+by] ^= 0x10
		return b
	}
}

func cutAt(what string) func([]byte) []byte {
	return func(b []byte) []byte { return b[:bytes.Index(b, []byte(what))] }
}

func empty([]byte) []byte { return nil }

func zeros(b []byte) []byte { clear(b); return b }

func junk(b []byte) []byte { return append(b, "junk"...) }

// Five segments, of which something happens to some. Whatever it is, the log opens, takes more,
// gives back what is whole, and the numbers say how much is missing.
func TestWhatHappensToSegments(t *testing.T) {
	t.Parallel()
	theirs := append(frame('H', `{"version":1,"spool":"theirs","admitted":7000}`), frame('E', "stranger")...)
	all := "a0 a1 a2 b0 b1 b2 c0 c1 c2 d0 d1 d2 e0 e1 e2"
	cases := map[string]struct {
		harm    harm
		lost    string // names, "" none
		aside   bool   // something is in quarantine
		unknown int64  // of the lost, how many nobody can know of: there is no checkpoint
	}{
		"nothing":                         {harm: func(*testing.T, string) {}},
		"a bit in a record":               {harm: edit(1, flip("b1 text", 3)), lost: "b1", aside: true},
		"a bit in the last record":        {harm: edit(4, flip("e2 text", 3)), lost: "e2", aside: true},
		"a bit in a head":                 {harm: edit(2, flip("admitted", 0)), aside: true},
		"a bit in the first head":         {harm: edit(0, flip("admitted", 0)), aside: true},
		"a bit in the last head":          {harm: edit(4, flip("admitted", 0)), aside: true},
		"a segment deleted":               {harm: remove(2), lost: "c0 c1 c2"},
		"the first two deleted":           {harm: remove(0, 1), lost: "a0 a1 a2 b0 b1 b2", unknown: 6},
		"the last deleted":                {harm: remove(4), lost: "e0 e1 e2", unknown: 3},
		"all deleted":                     {harm: remove(0, 1, 2, 3, 4), lost: all, unknown: 15},
		"one truncated":                   {harm: edit(1, cutAt("b1 text")), lost: "b1 b2", aside: true},
		"the last truncated":              {harm: edit(4, cutAt("e2 text")), lost: "e2", aside: true, unknown: 1},
		"one emptied":                     {harm: edit(3, empty), lost: "d0 d1 d2"},
		"the last emptied":                {harm: edit(4, empty), lost: "e0 e1 e2", unknown: 3},
		"one overwritten with zeros":      {harm: edit(1, zeros), lost: "b0 b1 b2", aside: true},
		"the last overwritten with zeros": {harm: edit(4, zeros), lost: "e0 e1 e2", aside: true, unknown: 3},
		"junk behind the last":            {harm: edit(4, junk), aside: true},
		"junk behind another":             {harm: edit(0, junk), aside: true},
		"a foreign segment in the middle": {harm: func(t *testing.T, dir string) {
			t.Helper()
			remove(2)(t, dir)
			add("0000000000000003.spool", theirs)(t, dir)
		}, lost: "c0 c1 c2", aside: true},
		"a foreign segment behind the last": {harm: add("0000000000000006.spool", theirs), aside: true},
		"a foreign segment far behind":      {harm: add("1000000000000000.spool", theirs)},
		"no segment behind the last":        {harm: add("0000000000000006.spool", []byte("this is a letter")), aside: true},
		"files of other names": {harm: func(t *testing.T, dir string) {
			t.Helper()
			for _, name := range []string{"7.spool", "00000000000000007.spool", "0000000000000000.spool", "x.spool", "0000000000000007.spool.bak"} {
				add(name, theirs)(t, dir)
			}
		}},
		"a directory in its place": {harm: func(t *testing.T, dir string) {
			t.Helper()
			must(t, os.Mkdir(filepath.Join(dir, "0000000000000006.spool"), 0o700))
		}},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			l := open(t, dir)
			for _, seg := range "abcde" {
				l.Rotate()
				for i := range 3 {
					l.write(fmt.Sprintf("%c%d text", seg, i))
				}
			}
			must(t, l.Close())
			tc.harm(t, dir)
			again := open(t, dir)
			again.write("f0 text")
			again.Rotate()
			again.write("f1 text")
			got := again.read()
			var want []string
			for _, text := range append(l.put, again.put...) {
				if !strings.Contains(" "+tc.lost+" ", " "+text[:2]+" ") {
					want = append(want, text)
				}
			}
			sameList(t, "read back", got.payloads, want)
			lost := int64(len(strings.Fields(tc.lost)))
			if strings.HasPrefix(name, "the first two") { // the first segment tells what was before it
				same(t, "sequence number", got.seq, 17)
			} else {
				same(t, "sequence number", got.seq, 17-tc.unknown)
				same(t, "lost", got.lost, lost-tc.unknown)
			}
			same(t, "something is set aside", aside(dir) > 0, tc.aside)
			must(t, again.EmptyQuarantine())
			same(t, "and taken away", aside(dir), 0)
		})
	}
}

// A crash cuts the last segment anywhere: what was whole is there, and what comes then stands
// behind it.
func TestResumeAtEveryByte(t *testing.T) {
	t.Parallel()
	first := t.TempDir()
	l := open(t, first)
	one := l.write("one", "more")
	two := l.write("two")
	must(t, l.Close())
	whole, err := os.ReadFile(segments(t, first)[0])
	must(t, err)
	for cut := range len(whole) {
		dir := t.TempDir()
		must(t, os.WriteFile(filepath.Join(dir, spool.Ballast), nil, 0o600), // not a megabyte for each
			os.WriteFile(filepath.Join(dir, firstSegment), whole[:cut], 0o600))
		again := open(t, dir)
		again.DropBallast()
		again.write("new")
		got := again.read()
		n := len(got.payloads)
		if n == 0 || got.payloads[n-1] != "new" || int64(cut) >= one.Offset && n < 3 || int64(cut) >= two.Offset && n < 4 {
			t.Errorf("cut at %d: %q", cut, got.payloads)
		}
		same(t, fmt.Sprint("sequence number, cut at ", cut), got.seq, int64(n))
		same(t, fmt.Sprint("lost, cut at ", cut), got.lost, 0)
		must(t, again.Close())
	}
}

func TestCheckpoints(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		change  func(b []byte) []byte // nil: the file goes
		damaged bool
		all     bool // everything is read again
	}{
		"as it was":         {change: func(b []byte) []byte { return b }},
		"gone":              {all: true},
		"empty":             {change: func([]byte) []byte { return []byte{} }, damaged: true, all: true},
		"garbage":           {change: func([]byte) []byte { return []byte("\x00\x01") }, damaged: true, all: true},
		"cut":               {change: func(b []byte) []byte { return b[:40] }, damaged: true, all: true},
		"of an older time":  {change: func([]byte) []byte { return []byte(`{"version":0}`) }, damaged: true, all: true},
		"of another log":    {change: func(b []byte) []byte { return bytes.Replace(b, []byte(`"spool":"`), []byte(`"spool":"not-`), 1) }, damaged: true, all: true},
		"after a power cut": {change: func(b []byte) []byte { return bytes.Replace(b, []byte(`"boot":"`), []byte(`"boot":"other`), 1) }, all: true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			l := open(t, dir)
			at := l.write("a")
			l.write("b")
			note := []byte(`{"mine":"yes"}`)
			must(t, l.Keep(spool.Checkpoint{
				Epoch: "e", Delivered: spool.Ack{At: at, Seq: 1, Note: note}, Safe: l.start.Safe,
			}), l.Close())
			path := filepath.Join(dir, "cursor.json")
			b, err := os.ReadFile(path)
			must(t, err)
			same(t, "its size fits into the same blocks", len(b)%4096, 0)
			if tc.change == nil {
				must(t, os.Remove(path))
			} else {
				must(t, os.WriteFile(path, tc.change(b), 0o600))
			}
			v, err := spool.Look(dir)
			must(t, err)
			damaged := path + ".damaged"
			if _, err := os.Stat(damaged); err == nil {
				t.Error("a look changed something")
			}
			again := open(t, dir)
			got := again.read()
			want := []string{"b"}
			if tc.all {
				want = []string{"a", "b"}
			}
			sameList(t, "read", got.payloads, want)
			same(t, "sequence number", got.seq, 2)
			same(t, "the same by a look", fmt.Sprint(readFrom(t, v.Reader, v.Delivered, v.End)), fmt.Sprint(got))
			if !tc.all {
				same(t, "epoch and note", again.start.Epoch+string(again.start.Delivered.Note), "e"+string(note))
			}
			_, err = os.Stat(damaged)
			same(t, "set aside", err == nil, tc.damaged)
			must(t, again.EmptyQuarantine())
			if _, err = os.Stat(damaged); err == nil {
				t.Error("what was set aside is still there")
			}
		})
	}
}

// What a crash left of a checkpoint that was being written goes at the next start.
func TestHalfACheckpoint(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	for _, name := range []string{".cursor.json.1234", "cursor.json.new"} {
		must(t, os.WriteFile(filepath.Join(dir, name), []byte("half"), 0o600))
	}
	open(t, dir)
	for _, name := range []string{".cursor.json.1234", "cursor.json.new"} {
		if _, err := os.Stat(filepath.Join(dir, name)); err == nil {
			t.Errorf("%s is still there", name)
		}
	}
}

// A full disk refuses records whole, and lets the checkpoint be kept all the same; with room again
// the log goes on.
func TestAFullDisk(t *testing.T) {
	t.Parallel()
	disk := storetest.SmallDisk(t, 4<<20)
	dir := filepath.Join(disk.Dir, "spool")
	l := open(t, dir)
	at := l.write("a")
	must(t, l.Keep(spool.Checkpoint{Delivered: spool.Ack{At: at, Seq: 1}, Safe: l.start.Safe}))
	disk.Fill(t, 0)
	long := strings.Repeat("b", 64<<10)
	_, err := l.Append(1, fill('E', long))
	same(t, "full", spool.Full(err), true)
	end, seq := l.End()
	same(t, "the end", fmt.Sprint(end, seq), fmt.Sprint(at, 1))
	must(t, l.Keep(spool.Checkpoint{Epoch: "kept", Delivered: spool.Ack{At: at, Seq: 1, Note: []byte(`{"x":1}`)}, Safe: spool.Ack{At: at, Seq: 1}}))
	v, err := spool.Look(dir)
	must(t, err)
	same(t, "kept in its own blocks", v.Epoch, "kept")
	l.PunchHole(at)
	disk.Free(t)
	l.write("c")
	sameList(t, "read back", l.read().payloads, []string{"a", "c"})
	same(t, "nothing is damaged", aside(dir), 0)
}
