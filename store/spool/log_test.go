package spool_test

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
	"time"

	"go.uber.org/goleak"

	"precept/store/spool"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestAppend(t *testing.T) {
	t.Parallel()
	l := open(t, t.TempDir())
	end := l.write("one", "two")
	same(t, "behind where it began", l.start.Delivered.At.Before(end), true)
	last := l.write("three")
	same(t, "behind the one before", end.Before(last), true)
	at, seq := l.End()
	same(t, "the end", fmt.Sprint(at, seq), fmt.Sprint(last, 3))
	got := l.read()
	sameList(t, "read back", got.payloads, []string{"one", "two", "three"})
	same(t, "sequence number, lost", fmt.Sprint(got.seq, got.lost), "3 0")
	l.Skip(4)
	l.write("four")
	same(t, "skipped", l.read().seq, 8)
}

// A writer that panics writes nothing, and stands in nobody's way.
func TestAWriterThatPanics(t *testing.T) {
	t.Parallel()
	l := open(t, t.TempDir())
	l.write("one")
	func() {
		defer func() { _ = recover() }()
		_, _ = l.Append(1, func([]byte) []byte { panic("bug") })
	}()
	l.write("two")
	sameList(t, "read back", l.read().payloads, []string{"one", "two"})
}

// Many write while one reads and keeps; each record comes once, and the numbers are without a gap.
func TestWritersBesideAReader(t *testing.T) {
	t.Parallel()
	l := open(t, t.TempDir(), func(o *spool.Options) { o.Segment = 2000 })
	const writers, each = 8, 25
	var writing sync.WaitGroup
	for range writers {
		writing.Go(func() {
			for i := range each {
				if _, err := l.Append(2, fill('E', "a", fmt.Sprint("b", i))); err != nil {
					t.Error(err)
				}
			}
		})
	}
	done := make(chan struct{})
	go func() { defer close(done); writing.Wait() }()
	ack, total := l.start.Delivered, 0
	for last := false; !last; {
		select {
		case <-done:
			last = true
		default:
		}
		end, _ := l.End()
		got := readFrom(t, l.Reader(), ack, end)
		total += len(got.payloads)
		same(t, "lost", got.lost, 0)
		ack = spool.Ack{At: end, Seq: got.seq}
		must(t, l.Keep(spool.Checkpoint{Delivered: ack, Safe: ack}))
	}
	same(t, "records", total, 2*writers*each)
	same(t, "sequence number", ack.Seq, 2*writers*each)
	same(t, "segments left", len(segments(t, l.dir)), 1)
}

func TestSegments(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	l := open(t, dir, func(o *spool.Options) { o.Segment = 150 })
	first := l.write("a")
	same(t, "grown", l.Grown(), false)
	l.write(strings.Repeat("b", 100))
	same(t, "segments", len(segments(t, dir)), 2)
	head, err := os.ReadFile(segments(t, dir)[1])
	must(t, err)
	same(t, "it tells what came before", bytes.Contains(head, []byte(`"admitted":1}`)), true)
	before, _ := l.End()
	end, err := l.Leave()
	same(t, "left for", fmt.Sprint(end, err), fmt.Sprint(spool.Place{Segment: before.Segment + 1}, nil))
	again, err := l.Leave()
	same(t, "a second time", fmt.Sprint(again, err), fmt.Sprint(end, nil))
	l.write("c")
	l.Rotate()
	l.write("d")
	same(t, "segments then", len(segments(t, dir)), 4)
	bytesBefore := l.Bytes()
	must(t, l.Keep(spool.Checkpoint{Delivered: spool.Ack{At: end, Seq: 2}, Safe: spool.Ack{At: first, Seq: 1}}))
	same(t, "the first is not safe yet", len(segments(t, dir)), 4)
	must(t, l.Keep(spool.Checkpoint{Delivered: spool.Ack{At: end, Seq: 2}, Safe: spool.Ack{At: end, Seq: 2}}))
	same(t, "segments left", len(segments(t, dir)), 2)
	same(t, "bytes are given back", l.Bytes() < bytesBefore, true)
	sum := int64(0)
	for _, path := range segments(t, dir) {
		info, err := os.Stat(path)
		must(t, err)
		sum += info.Size()
	}
	same(t, "bytes", l.Bytes(), sum)
}

func TestQuota(t *testing.T) {
	t.Parallel()
	l := open(t, t.TempDir(), func(o *spool.Options) { o.Quota, o.Segment = 200, 500 })
	l.write("a")
	before, seq := l.End()
	size := l.Bytes()
	long := strings.Repeat("b", 200)
	_, err := l.Append(1, fill('E', long))
	same(t, "refused", errors.Is(err, spool.ErrQuota), true)
	end, after := l.End()
	same(t, "and nothing has changed", fmt.Sprint(end, after, l.Bytes()), fmt.Sprint(before, seq, size))
	_, err = l.AppendOver(1, fill('E', long))
	same(t, "a segment beyond it", err, nil)
	sameList(t, "read back", l.read().payloads, []string{"a", long})
	same(t, "grown", l.Grown(), true)
}

func TestBallast(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	l := open(t, dir)
	there := func() bool {
		info, err := os.Stat(filepath.Join(dir, spool.Ballast))
		return err == nil && info.Size() == 1<<20
	}
	same(t, "at the start", there(), true)
	l.DropBallast()
	same(t, "given up", there(), false)
	l.write("a")
	same(t, "with the next write", there(), true)
}

// A place where no files can be made is told at the start.
func TestNoPlace(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "file")
	must(t, os.WriteFile(dir, nil, 0o600))
	_, _, err := spool.Open(filepath.Join(dir, "below"), spool.Options{Now: when})
	same(t, "told", err != nil && strings.Contains(err.Error(), "make the spool"), true)
}

func TestANewerLogIsRefused(t *testing.T) {
	t.Parallel()
	for name, content := range map[string]string{
		"0000000000000004.spool": string(frame('H', `{"version":2,"spool":"x","admitted":0}`)),
		"cursor.json":            `{"version":2,"spool":"x"}`,
	} {
		dir := t.TempDir()
		path := filepath.Join(dir, name)
		must(t, os.WriteFile(path, []byte(content), 0o600))
		_, _, err := spool.Open(dir, spool.Options{Quota: 1 << 30, Now: when})
		if !errors.Is(err, spool.ErrNewer) || !strings.Contains(err.Error(), "upgrade precept") {
			t.Errorf("%s: %v", name, err)
		}
		if _, err := spool.Look(dir); !errors.Is(err, spool.ErrNewer) {
			t.Errorf("a look at %s: %v", name, err)
		}
		if b, err := os.ReadFile(path); err != nil || string(b) != content {
			t.Errorf("%s was touched: %q, %v", name, b, err)
		}
	}
}

// A look changes nothing, and tells when a segment that it counts on was deleted.
func TestLook(t *testing.T) {
	t.Parallel()
	if _, err := spool.Look(filepath.Join(t.TempDir(), "none")); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("without a log: %v", err)
	}
	dir := t.TempDir()
	l := open(t, dir)
	l.write("a", "b")
	b, err := os.ReadFile(segments(t, dir)[0])
	must(t, err, os.WriteFile(segments(t, dir)[0], append(b, "junk"...), 0o600))
	v, err := spool.Look(dir)
	must(t, err)
	got := readFrom(t, v.Reader, v.Delivered, v.End)
	sameList(t, "read", got.payloads, []string{"a", "b"})
	same(t, "set aside", aside(dir), 0)
	same(t, "outdated", v.Outdated(), false)
	end, err := l.Leave()
	must(t, err, l.Keep(spool.Checkpoint{Epoch: "e", Delivered: spool.Ack{At: end, Seq: 2}, Safe: spool.Ack{At: end, Seq: 2}}))
	same(t, "outdated then", v.Outdated(), true)
	v, err = spool.Look(dir)
	must(t, err)
	same(t, "epoch, number", fmt.Sprint(v.Epoch, " ", v.Seq, v.Delivered.Seq), "e 2 2")
}

func TestAcks(t *testing.T) {
	t.Parallel()
	for note, want := range map[string]string{
		``:                   `{"at":{"segment":3,"offset":4},"admitted":5}`,
		`{}`:                 `{"at":{"segment":3,"offset":4},"admitted":5}`,
		`{"b":1,"a":[true]}`: `{"at":{"segment":3,"offset":4},"admitted":5,"b":1,"a":[true]}`,
	} {
		a := spool.Ack{At: spool.Place{Segment: 3, Offset: 4}, Seq: 5, Note: json.RawMessage(note)}
		b, err := json.Marshal(a)
		same(t, "written", fmt.Sprint(string(b), err), fmt.Sprint(want, nil))
		var back spool.Ack
		must(t, json.Unmarshal(b, &back))
		same(t, "place and number", fmt.Sprint(back.At, back.Seq, back.Guessed), fmt.Sprint(a.At, a.Seq, false))
		again, err := json.Marshal(back)
		var x, y map[string]any
		must(t, err, json.Unmarshal(again, &x), json.Unmarshal(b, &y))
		same(t, "the note", fmt.Sprint(x), fmt.Sprint(y))
	}
}

// What is written after Rotate stands in a segment of its own: the one before can go by itself.
func TestRotate(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	l := open(t, dir)
	first := l.write("a")
	l.Rotate()
	same(t, "nothing is begun before it is needed", len(segments(t, dir)), 1)
	second := l.write("b")
	same(t, "segments", len(segments(t, dir)), 2)
	same(t, "the next one", second.Segment, first.Segment+1)
	third := l.write("c")
	same(t, "and it is gone on with", third.Segment, second.Segment)
	sameList(t, "read back", l.read().payloads, []string{"a", "b", "c"})
	at := spool.Ack{At: spool.Place{Segment: second.Segment}, Seq: 1}
	size := l.Bytes()
	must(t, l.Keep(spool.Checkpoint{Delivered: at, Safe: at}))
	same(t, "the first is gone", len(segments(t, dir)), 1)
	same(t, "bytes", l.Bytes() < size && l.Bytes() > 0, true)
	l.start.Delivered = at
	sameList(t, "read back then", l.read().payloads, []string{"b", "c"})
}

// A segment stays while a crash could make it needed, however far the log was read.
func TestWhatIsNotSafeStays(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	l := open(t, dir)
	var places []spool.Place
	for _, text := range []string{"a", "b", "c"} {
		places = append(places, l.write(text))
		l.Rotate()
	}
	ack := func(n int64) spool.Ack { return spool.Ack{At: places[n-1], Seq: n} }
	must(t, l.Keep(spool.Checkpoint{Epoch: "e", Delivered: ack(3), Safe: ack(1)}))
	same(t, "segments", len(segments(t, dir)), 3)
	must(t, l.Close())
	l = open(t, dir)
	same(t, "it goes on where it was read to", l.start.Delivered.At, places[2])
	same(t, "or where it was safe", l.start.Safe.At, places[0])
	same(t, "epoch", l.start.Epoch, "e")
	_, seq := l.End()
	same(t, "sequence number", seq, 3)
	l.start.Delivered = l.start.Safe
	sameList(t, "read again", l.read().payloads, []string{"b", "c"})
}

// What was set aside for a person is kept for a time.
func TestTidyQuarantine(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	l := open(t, dir)
	l.TidyQuarantine(when) // nothing was set aside yet
	quarantine := filepath.Join(dir, "quarantine")
	must(t, os.Mkdir(quarantine, 0o700))
	for name, at := range map[string]time.Time{"old.bin": when.Add(-time.Hour), "new.bin": when.Add(time.Hour)} {
		path := filepath.Join(quarantine, name)
		must(t, os.WriteFile(path, []byte("x"), 0o600), os.Chtimes(path, at, at))
	}
	l.TidyQuarantine(when)
	left, err := os.ReadDir(quarantine)
	must(t, err)
	if len(left) != 1 || left[0].Name() != "new.bin" {
		t.Errorf("%v", left)
	}
	must(t, l.EmptyQuarantine())
	_, err = os.Stat(quarantine)
	same(t, "all of it", errors.Is(err, os.ErrNotExist), true)
}
