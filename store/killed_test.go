package store

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"precept/internal/session"
)

// copied is a copy of a directory as a crash at this moment would leave it.
func copied(t *testing.T, dir string) string {
	t.Helper()
	to := t.TempDir()
	err := filepath.WalkDir(dir, func(path string, d os.DirEntry, err error) error {
		name, _ := filepath.Rel(dir, path)
		switch {
		case err != nil:
			return err
		case d.IsDir():
			return os.MkdirAll(filepath.Join(to, name), 0o700)
		case strings.HasSuffix(name, "-shm") || strings.HasPrefix(filepath.Base(name), "."):
			return nil // of the processes that have it open
		}
		b, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		return os.WriteFile(filepath.Join(to, name), b, 0o600)
	})
	if err != nil {
		t.Fatal(err)
	}
	return to
}

// Whenever the program is killed, between any two steps of the recorder, of the delivery and of the
// backend: what is in the account then is in the store once after the next start, and the books
// balance before and after.
func TestKilledAtEachStep(t *testing.T) {
	t.Parallel()
	r := newRig(t, nil)
	var left []string
	crash := func() { left = append(left, copied(t, r.dir)) }
	r.be.hook = func(string) { crash() }
	step := func(do func()) {
		do()
		crash()
	}
	open := exchange(us, "open", 1, r.clk.now())
	r.Begin(open)
	for round := 1; round <= 5; round++ {
		r.begin(us, "s", picked(true))
		x := exchange(us, "s", 2*round, r.clk.now())
		begun := r.Begin(x)
		gone := r.Begin(exchange(us, "gone", round, r.clk.now()))
		r.offer("s", 2*round+1)
		step(func() { r.recorder.record(r.clk.now(), false) })
		r.Offer(Turn{Exchange: x, Begun: begun, Size: 10})
		r.Abandon(gone)
		r.note(session.EchoKey(round), sessionOf("s"))
		if round == 3 {
			r.be.failNext("write", 2, errDown)
		}
		step(func() { r.handDown(r.ctx()) })
		step(r.record)
		r.clk.add(syncEvery)
		step(r.record)
	}
	r.be.hook = nil
	t.Logf("%d crashes", len(left))
	last := int64(0)
	for i, dir := range left {
		was, err := ReadAccount(filepath.Join(dir, "spool"), false)
		if err != nil {
			t.Fatal(err)
		}
		if was.Admitted < last || was.Admitted != was.Stored+was.Spooled+was.Incomplete+was.Dropped[droppedBad] {
			t.Errorf("crash %d: %+v, %d before", i, was, last)
		}
		last = was.Admitted
		next := openRig(t, dir, r.clk, nil)
		next.record()
		have, err := ReadAccount(filepath.Join(dir, "spool"), true)
		if err != nil {
			t.Fatal(err)
		}
		if have.Admitted != was.Admitted || have.Stored != was.Stored+was.Spooled || have.Incomplete != was.Incomplete || have.Spooled != 0 {
			t.Errorf("crash %d: %+v became %+v", i, was, have)
		}
		stats, err := next.be.backend.(interface {
			Stats(ctx context.Context) (map[string]int64, error)
		}).Stats(t.Context())
		if err != nil || stats["exchanges"] != have.Stored+have.Incomplete || stats["exchanges_ever"] != stats["exchanges"] {
			t.Errorf("crash %d: %v are stored, %v, of %+v", i, stats, err, have)
		}
		next.stop()
	}
}
