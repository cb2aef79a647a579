package sqlite_test

import (
	"bytes"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"precept/bandit/feedback"
	"precept/internal/sample"
	"precept/internal/session"
	"precept/store/sqlite"
)

func rowBatch(n int) session.Batch {
	return session.Batch{Rows: []session.Row{benchRow(n, n)}}
}

func mustWrite(t *testing.T, s *sqlite.Store, b session.Batch) {
	t.Helper()
	if err := s.Write(t.Context(), b); err != nil {
		t.Fatal(err)
	}
}

func hasSession(t *testing.T, s *sqlite.Store, n int) bool {
	t.Helper()
	_, ok, err := s.Session(t.Context(), "default", benchID(n))
	if err != nil {
		t.Fatal(err)
	}
	return ok
}

// openRaw opens a database file directly, without a Store.
func openRaw(t *testing.T, path string) *sql.DB {
	t.Helper()
	db, err := sql.Open("sqlite", path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = db.Close() })
	return db
}

func TestLockedDatabaseAllowsReadsAndRefusesWrites(t *testing.T) {
	path := dbPath(t)
	s := open(t, sqlite.Options{Path: path, BusyTimeout: 400 * time.Millisecond})
	mustWrite(t, s, rowBatch(1))
	holder := startConnectionHolder(t, path, "BEGIN EXCLUSIVE", "DELETE FROM sessions")

	if !hasSession(t, s, 1) {
		t.Error("session 1 was not found in the locked database")
	}
	if err := s.Write(t.Context(), rowBatch(2)); !errors.Is(err, sqlite.ErrBusy) {
		t.Errorf("Write(locked database, no deadline): got error %v, want sqlite.ErrBusy", err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	if err := s.Write(ctx, rowBatch(2)); !errors.Is(err, sqlite.ErrBusy) {
		t.Errorf("Write(locked database, deadline) error = %v, want sqlite.ErrBusy", err)
	} else if !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("Write(locked database, deadline) error = %v, want context.DeadlineExceeded", err)
	}
	holder.release(t) // this rolls back the transaction of the other process
	mustWrite(t, s, rowBatch(2))
	if !hasSession(t, s, 1) {
		t.Error("session 1 is missing after the lock is released")
	}
	if !hasSession(t, s, 2) {
		t.Error("session 2 is missing after the lock is released")
	}
}

func TestWriteWaitsForTheLock(t *testing.T) {
	path := dbPath(t)
	s := open(t, sqlite.Options{Path: path, BusyTimeout: 10 * time.Second})
	holder := startConnectionHolder(t, path, "BEGIN IMMEDIATE")
	done := make(chan error, 1)
	go func() { done <- s.Write(context.Background(), rowBatch(1)) }()
	select {
	case err := <-done:
		t.Errorf("Write returned while the database was locked (error: %v), want Write to wait", err)
	case <-time.After(20 * time.Millisecond):
	}
	holder.release(t)
	if err := <-done; err != nil {
		t.Error(err)
	}
}

func TestOpenReturnsErrBusyForExclusivelyLockedDatabase(t *testing.T) {
	path := dbPath(t)
	if err := open(t, sqlite.Options{Path: path}).Close(); err != nil {
		t.Fatal(err)
	}
	startConnectionHolder(t, path, "PRAGMA locking_mode=EXCLUSIVE", "BEGIN EXCLUSIVE")
	_, err := sqlite.Open(t.Context(), sqlite.Options{Path: path, BusyTimeout: 20 * time.Millisecond})
	if !errors.Is(err, sqlite.ErrBusy) {
		t.Errorf("Open(exclusively locked database): got error %v, want sqlite.ErrBusy", err)
	}
	checkErrorText(t, err, "close the program that has the file open")
}

func TestWaitingWriterReturnsWhenContextEnds(t *testing.T) {
	path := dbPath(t)
	s := open(t, sqlite.Options{Path: path, BusyTimeout: 10 * time.Second})
	holder := startConnectionHolder(t, path, "BEGIN IMMEDIATE")
	done := make(chan error, 1)
	go func() { done <- s.Write(context.Background(), rowBatch(1)) }()
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Millisecond)
	defer cancel()
	if err := s.Write(ctx, rowBatch(2)); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("second Write: got error %v, want %v", err, context.DeadlineExceeded)
	}
	holder.release(t)
	if err := <-done; err != nil {
		t.Error(err)
	}
}

func TestReadOnlyStoreReadsDuringWrites(t *testing.T) {
	path := dbPath(t)
	if _, err := sqlite.Open(t.Context(), sqlite.Options{Path: path, ReadOnly: true}); !errors.Is(err, sqlite.ErrMissing) {
		t.Errorf("read-only Open(missing file) error = %v, want sqlite.ErrMissing", err)
	} else if strings.Count(err.Error(), path) != 1 {
		t.Errorf("read-only Open(missing file): count of path = %d, want 1", strings.Count(err.Error(), path))
	}
	if _, err := os.Stat(path); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("Stat after read-only Open(missing file): got error %v, want fs.ErrNotExist", err)
	}
	w := open(t, sqlite.Options{Path: path})
	mustWrite(t, w, session.Batch{Rows: rowBatch(1).Rows, Echoes: []session.Echo{{Tenant: "default", Key: 7, ID: benchID(1), At: benchStart()}}})
	r := open(t, sqlite.Options{Path: path, ReadOnly: true})
	mustWrite(t, w, rowBatch(2))
	mustWrite(t, w, session.Batch{Echoes: []session.Echo{{Tenant: "default", Key: 8, ID: benchID(1), At: benchStart()}}})
	if !hasSession(t, r, 1) {
		t.Error("session 1 is missing in the read-only store")
	}
	if !hasSession(t, r, 2) {
		t.Error("session 2 is missing in the read-only store")
	}
	if found, err := r.FindEcho(t.Context(), "default", []session.EchoKey{7, 8}); err != nil {
		t.Error(err)
	} else if len(found[7]) != 1 {
		t.Errorf("FindEcho in a read-only store: found[7] = %+v, want 1 item", found[7])
	} else if len(found[8]) != 1 {
		t.Errorf("FindEcho in a read-only store: found[8] = %+v, want 1 item", found[8])
	}
	for name, err := range map[string]error{
		"Write": r.Write(t.Context(), rowBatch(3)), "Sync": r.Sync(t.Context()),
	} {
		if !errors.Is(err, sqlite.ErrReadOnly) {
			t.Errorf("%s in a read-only store: got error %v, want sqlite.ErrReadOnly", name, err)
		}
	}
}

// The clock of the owner "first" is a day ahead. The lease must not block other owners for a day.
func TestLeaseFromTheFutureIsIgnored(t *testing.T) {
	s, now := open(t, sqlite.Options{}), benchStart()
	for _, tc := range []struct {
		owner string
		at    time.Time
		want  bool
	}{{"first", now.Add(24 * time.Hour), true}, {"second", now, true}, {"third", now.Add(time.Second), false}, {"third", now.Add(time.Minute), true}} {
		if ok, err := s.AcquireLease(t.Context(), "work", tc.owner, tc.at, time.Minute); err != nil {
			t.Errorf("AcquireLease by %s at %v: %v", tc.owner, tc.at, err)
		} else if ok != tc.want {
			t.Errorf("AcquireLease by %s at %v: ok = %v, want %v", tc.owner, tc.at, ok, tc.want)
		}
	}
}

func TestReadOnlyOpenRefusesOlderStore(t *testing.T) {
	path := dbPath(t)
	s := open(t, sqlite.Options{Path: path})
	mustWrite(t, s, rowBatch(1))
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	db := openRaw(t, path)
	if _, err := db.ExecContext(t.Context(), "PRAGMA user_version = 1"); err != nil {
		t.Fatal(err)
	}
	_, err := sqlite.Open(t.Context(), sqlite.Options{Path: path, ReadOnly: true})
	if err == nil {
		t.Fatal("read-only Open(older file) error = nil, want an error")
	}
	if !strings.Contains(err.Error(), "start `precept serve` once") {
		t.Errorf("read-only Open(older file): error = %q, want substring \"start `precept serve` once\"", err.Error())
	}
}

func TestDirectoryLockIsReleasedWhenProcessEnds(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "data")
	p := startProcess(t, "lock", dir)
	if line := p.readLine(t); line != "held" {
		t.Fatalf(`first line of the helper process: got %q, want "held"`, line)
	}
	_, err := sqlite.Lock(dir)
	if !errors.Is(err, sqlite.ErrLocked) {
		t.Fatalf("Lock(locked by another process): got error %v, want sqlite.ErrLocked", err)
	}
	checkErrorText(t, err, dir, "process ", "--data-dir")
	if err := p.cmd.Process.Kill(); err != nil { // the lock must end with the process
		t.Fatal(err)
	}
	_ = p.cmd.Wait()
	l, err := sqlite.Lock(dir)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := sqlite.Lock(dir); !errors.Is(err, sqlite.ErrLocked) {
		t.Errorf("second Lock in the same process: got error %v, want sqlite.ErrLocked", err)
	}
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	if l, err = sqlite.Lock(dir); err != nil {
		t.Fatal(err)
	}
	_ = l.Close()
}

func TestForgetErasesBytesFromFiles(t *testing.T) {
	path := dbPath(t)
	s := open(t, sqlite.Options{Path: path})
	canary := "canary-of-the-forgotten-session"
	for n := range 40 {
		b := rowBatch(n)
		e := benchExchange(n, n)
		if n == 17 {
			b.Rows[0].Data = []byte(canary)
			e.Reply.Text = strings.Repeat(canary, 2000) // over several pages
		}
		b.Exchanges = []sample.Exchange{e}
		mustWrite(t, s, b)
	}
	if _, err := s.AddFeedback(t.Context(), "default", map[session.ID][]feedback.Entry{benchID(17): {{ID: "a", At: benchStart(), Comment: canary}}}); err != nil {
		t.Fatal(err)
	}
	if n := countOccurrences(t, path, canary); n == 0 {
		t.Fatal("no file contains the text before Forget, want at least one")
	}
	if ok, err := s.Forget(t.Context(), "default", benchID(17)); err != nil {
		t.Fatal(err)
	} else if !ok {
		t.Fatal("Forget: ok = false, want true")
	}
	if n := countOccurrences(t, path, canary); n != 0 {
		t.Errorf("deleted text: %d occurrences in the files, want 0", n)
	}
}

func countOccurrences(t *testing.T, path, text string) (n int) {
	t.Helper()
	files, err := filepath.Glob(path + "*")
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range files {
		b, err := os.ReadFile(f)
		if err != nil {
			t.Fatal(err)
		}
		n += bytes.Count(b, []byte(text))
	}
	return n
}

// There are 2 * MaxParked = 6 places for parked entries (feedback that waits for a session). A tenant may not use more
// places than are still free, so that some places stay free for other tenants.
func TestParkingLeavesPlacesForOtherTenants(t *testing.T) {
	t.Parallel()
	path := dbPath(t)
	s := open(t, sqlite.Options{Path: path, MaxParked: 3})
	n := 0
	parkUntilFull := func(tenant string, want int) {
		t.Helper()
		for parked := 0; ; parked++ {
			n++
			err := s.Park(t.Context(), tenant, 1, feedback.Entry{ID: fmt.Sprint(tenant, n), At: benchStart().Add(time.Duration(n) * time.Second)})
			if err == nil {
				continue
			}
			if !errors.Is(err, session.ErrParkingFull) {
				t.Errorf("tenant %s: error = %v, want session.ErrParkingFull", tenant, err)
			} else if parked != want {
				t.Errorf("tenant %s: parked = %d, want %d", tenant, parked, want)
			}
			return
		}
	}
	parkUntilFull("greedy", 3)
	parkUntilFull("other", 2)
	parkUntilFull("late", 1)
	parkUntilFull("too late", 0)
	if err := s.Park(t.Context(), "greedy", 1, feedback.Entry{ID: "greedy1", At: benchStart()}); err != nil {
		t.Errorf("Park(entry that is already parked): got error %v, want none", err)
	}
	if out, err := s.Unpark(t.Context(), "other", map[session.EchoKey]session.ID{1: benchID(1)}); err != nil {
		t.Error(err)
	} else if out[benchID(1)] != 2 {
		t.Errorf("Unpark(another tenant)[benchID(1)] = %d, want 2", out[benchID(1)])
	}
	parkUntilFull("greedy", 0)
	parkUntilFull("too late", 1)
	if purged, err := s.PurgeParked(t.Context(), benchStart().Add(2500*time.Millisecond)); err != nil {
		t.Error(err)
	} else if purged != 2 {
		t.Errorf("entries deleted by PurgeParked: purged = %d, want 2", purged)
	}
	if _, err := s.ForgetTenant(t.Context(), "late"); err != nil {
		t.Fatal(err)
	}
	if err := s.Close(); err != nil { // the next start must read the numbers of parked entries from the file
		t.Fatal(err)
	}
	s = open(t, sqlite.Options{Path: path, MaxParked: 3})
	parkUntilFull("greedy", 2)
	parkUntilFull("too late", 1)
}

func TestReopenedStoreKeepsData(t *testing.T) {
	path := dbPath(t)
	s := open(t, sqlite.Options{Path: path})
	mustWrite(t, s, session.Batch{
		Rows: rowBatch(1).Rows, Exchanges: []sample.Exchange{benchExchange(1, 1)},
		Echoes: []session.Echo{{Tenant: "default", Key: 7, ID: benchID(1), At: benchStart()}},
	})
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	if info, err := os.Stat(path); err != nil {
		t.Error(err)
	} else if info.Mode().Perm() != 0o600 {
		t.Errorf("file mode: Perm = %v, want 0o600", info.Mode().Perm())
	}
	if _, err := os.Stat(path + "-wal"); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("Stat(write-ahead log) after Close: got error %v, want fs.ErrNotExist", err)
	}
	s = open(t, sqlite.Options{Path: path})
	if !hasSession(t, s, 1) {
		t.Error("the reopened store has no row of session 1")
	}
	if n := s.Notice(); n != "" {
		t.Errorf("Notice of the reopened store: got %q, want none", n)
	}
	if found, err := s.FindEcho(t.Context(), "default", []session.EchoKey{7}); err != nil {
		t.Error(err)
	} else if len(found[7]) != 1 {
		t.Errorf("FindEcho after the reopen: found[7] = %+v, want 1 item", found[7])
	}
	if list, err := s.Exchanges(t.Context(), "default", benchID(1)); err != nil {
		t.Error(err)
	} else if len(list) != 1 {
		t.Errorf("Exchanges after the reopen = %+v, want 1 exchange", list)
	}
}
