package sqlite

import (
	"cmp"
	"context"
	"errors"
	"math"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"pgregory.net/rapid"

	"precept/bandit/trial"
	"precept/internal/sample"
	"precept/internal/session"
)

// A row of counters has one cell for each field whose sum is not zero. The cells are sorted by field.
func TestPackedCellsHoldSums(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		sum := map[string]int64{}
		var cells []cell
		for range rapid.IntRange(0, 30).Draw(t, "n") {
			c := cell{rapid.SampledFrom([]string{"", "n", "n1", "zz", "w+0.16", "é", "\x00"}).Draw(t, "field"), rapid.Int64().Draw(t, "value")}
			sum[c.field] += c.value // on overflow, the sum wraps around as in addCell
			cells = addCell(cells, c)
		}
		packed := packCells(cells)
		var last *string
		err := eachCell(packed, func(c cell) {
			if last != nil && cmp.Compare(*last, c.field) >= 0 {
				t.Fatalf("order of the fields: got %q after %q, want sorted fields", c.field, *last)
			}
			if sum[c.field] != c.value {
				t.Fatalf("field %q: sum = %d, want %d", c.field, sum[c.field], c.value)
			}
			if c.value == 0 {
				t.Fatalf("field %q: value = 0, want at least 1", c.field)
			}
			delete(sum, c.field)
			last = &c.field
		})
		if err != nil {
			t.Fatal(err)
		}
		for f, v := range sum {
			if v != 0 {
				t.Fatalf("the packed cells do not contain the field %q with the value %d, want a cell", f, v)
			}
		}
	})
}

func FuzzCells(f *testing.F) {
	f.Add(packCells([]cell{{"n1", 5}, {"zz", math.MinInt64}}))
	f.Add([]byte{0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x01})
	f.Fuzz(func(t *testing.T, b []byte) {
		size := 0
		err := eachCell(b, func(c cell) { size += len(c.field) })
		if err != nil && !errors.Is(err, ErrCorrupt) {
			t.Errorf("eachCell: got error %v, want none or ErrCorrupt", err)
		}
		if size > len(b) {
			t.Errorf("total length of the field names: got %d bytes, want at most the %d bytes of the packed cells", size, len(b))
		}
	})
}

func TestEchoKeysDifferByTenant(t *testing.T) {
	seen := map[int64]bool{}
	for tenant := range int64(50) {
		for k := range session.EchoKey(50) {
			n := echoKey(tenant, k)
			if seen[n] {
				t.Fatalf("echoKey(%d, %d) = %d, which is also the result for another tenant or key, want a unique result", tenant, k, n)
			}
			seen[n] = true
		}
	}
}

func TestTimesRoundTrip(t *testing.T) {
	for _, at := range []time.Time{{}, time.Unix(0, 0), time.Unix(0, -1000), time.Date(9999, 12, 31, 23, 59, 59, 999_999_000, time.UTC)} {
		if back := fromMicros(micros(at)); !back.Equal(at) {
			t.Errorf("fromMicros(micros(%v)): back = %v, want %v", at, back, at)
		} else if back.Location() != time.UTC {
			t.Errorf("fromMicros(micros(%v)): Location = %v, want %v", at, back.Location(), time.UTC)
		}
	}
}

func TestFullDiskRefusesTheWholeBatch(t *testing.T) {
	s := openStore(t, filepath.Join(t.TempDir(), "precept.db"))
	setMaxPages := func(pages string) {
		t.Helper()
		c := <-s.writeConn
		defer func() { s.writeConn <- c }()
		if err := c.do(t.Context(), func() { c.queryInt("PRAGMA max_page_count = " + pages) }); err != nil {
			t.Fatal(err)
		}
	}
	setMaxPages("60")
	largeBatch := func(n int) session.Batch {
		return session.Batch{
			Rows:   []session.Row{{Tenant: "t", ID: testID(n), Data: make([]byte, 20_000)}},
			Echoes: []session.Echo{{Tenant: "t", Key: session.EchoKey(n), ID: testID(n)}},
		}
	}
	n := 0
	var err error
	for ; err == nil && n < 100; n++ {
		err = s.Write(t.Context(), largeBatch(n))
	}
	if !errors.Is(err, session.ErrDiskFull) {
		t.Fatalf("Write(batch %d): got error %v, want session.ErrDiskFull", n, err)
	}
	n--
	if _, ok, err := s.Session(t.Context(), "t", testID(n)); err != nil {
		t.Error(err)
	} else if ok {
		t.Error("Session(refused batch): ok = true, want false")
	}
	if found, err := s.FindEcho(t.Context(), "t", []session.EchoKey{session.EchoKey(n), 0}); err != nil {
		t.Error(err)
	} else if len(found) != 1 {
		t.Errorf("FindEcho(key of the refused batch, stored key 0) = %+v, want 1 item", found)
	}
	if st, err := s.Stats(t.Context()); err != nil {
		t.Errorf("Stats[%q]: %v", totalSessions, err)
	} else if st[totalSessions] != int64(n) {
		t.Errorf("Stats[%q] = %d, want %d", totalSessions, st[totalSessions], int64(n))
	}
	setMaxPages("1000000")
	if err := s.Write(t.Context(), largeBatch(n)); err != nil {
		t.Error(err)
	}
}

// After a rollback, the next new tenant gets the number of the tenant that was rolled back. So the cache must not keep
// this number for the earlier tenant.
func TestRollbackRemovesNewTenantFromTheCache(t *testing.T) {
	s := openStore(t, filepath.Join(t.TempDir(), "precept.db"))
	stop := errors.New("stop")
	err := s.update(t.Context(), "test", func(x *tx) {
		x.findOrAddTenant("ghost")
		x.db.fail(stop)
	})
	if !errors.Is(err, stop) {
		t.Fatalf("update: got error %v, want %v", err, stop)
	}
	if _, ok := s.tenants.get("ghost"); ok {
		t.Error("the cache still has the number of the tenant that was rolled back")
	}
	if err := s.RaiseMaxima(t.Context(), "real", []trial.Delta{{Key: trial.Key{Field: "x"}, Value: 1}}); err != nil {
		t.Fatal(err)
	}
	if list, err := s.Maxima(t.Context(), "ghost"); err != nil {
		t.Error(err)
	} else if len(list) != 0 {
		t.Errorf("Maxima(rolled-back tenant) = %+v, want none", list)
	}
}

func TestPanicRollsBack(t *testing.T) {
	s := openStore(t, filepath.Join(t.TempDir(), "precept.db"))
	func() {
		defer func() {
			if recover() == nil {
				t.Error("update did not panic, want the function's panic")
			}
		}()
		_ = s.update(t.Context(), "test", func(x *tx) {
			x.db.exec("INSERT INTO meta(key, value) VALUES('k', x'00')")
			panic("bug")
		})
	}()
	if _, ok, err := s.Meta(t.Context(), "k"); err != nil {
		t.Error(err)
	} else if ok {
		t.Error("Meta(key written by a panicked transaction): ok = true, want false")
	}
	if _, err := s.InitMeta(t.Context(), "k", nil); err != nil {
		t.Error(err)
	}
}

func TestHangingReadReturnsWhenContextEnds(t *testing.T) {
	s := openStore(t, filepath.Join(t.TempDir(), "precept.db"))
	hang, ran := make(chan struct{}), make(chan struct{})
	ctx, cancel := context.WithCancel(t.Context())
	go func() {
		<-ran
		cancel()
	}()
	_, err := read(ctx, s, func(*conn) int {
		close(ran)
		<-hang
		return 1
	})
	if !errors.Is(err, context.Canceled) {
		t.Errorf("read(ended context): got error %v, want context.Canceled", err)
	}
	if _, err := s.Stats(t.Context()); err != nil {
		t.Errorf("Stats during the hanging read: got error %v, want none", err)
	}
	closed := make(chan error)
	go func() { closed <- s.Close() }()
	select {
	case err := <-closed:
		t.Errorf("Close returned while a read was in progress (error: %v), want Close to wait", err)
	case <-time.After(10 * time.Millisecond):
	}
	close(hang)
	if err := <-closed; err != nil {
		t.Error(err)
	}
}

func TestReaderCountIsLimited(t *testing.T) {
	s := openStore(t, filepath.Join(t.TempDir(), "precept.db"))
	release, reading := make(chan struct{}), make(chan struct{})
	var readers sync.WaitGroup
	for range maxReaders {
		readers.Go(func() {
			_, _ = read(t.Context(), s, func(*conn) int {
				reading <- struct{}{}
				<-release
				return 0
			})
		})
		<-reading
	}
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Millisecond)
	defer cancel()
	if _, err := s.Stats(ctx); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("Stats while all readers are in use: got error %v, want context.DeadlineExceeded", err)
	}
	close(release)
	readers.Wait()
	if _, err := s.Stats(t.Context()); err != nil {
		t.Errorf("Stats after the readers have ended: got error %v, want none", err)
	}
}

func TestDamagedDocumentReturnsErrCorrupt(t *testing.T) {
	s := openStore(t, filepath.Join(t.TempDir(), "precept.db"))
	err := s.update(t.Context(), "test", func(x *tx) {
		x.putExchange(sample.Exchange{ID: "e", Tenant: "t", At: fromMicros(1)}, testID(1), []byte("{"), nil)
	})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := s.Exchanges(t.Context(), "t", testID(1)); !errors.Is(err, ErrCorrupt) {
		t.Errorf("Exchanges with a damaged document: got error %v, want ErrCorrupt", err)
	}
}

func TestErrorNamesTheOperation(t *testing.T) {
	if err := classifyError(errors.New("plain")); errors.Is(err, ErrBusy) {
		t.Errorf("classifyError(plain error): got %v, want an error that is not ErrBusy", err)
	}
	s := openStore(t, filepath.Join(t.TempDir(), "precept.db"))
	err := s.update(t.Context(), "test", func(x *tx) { x.db.exec("no sql") })
	if err == nil {
		t.Fatal("failed update: error = nil, want an error")
	}
	if !strings.Contains(err.Error(), "sqlite: test: ") {
		t.Errorf(`failed update: error = %q, want substring "sqlite: test: "`, err.Error())
	}
}

// When the context of a read ends, the store interrupts the read, and other reads can use the connection. A read that
// waits for the disk cannot be interrupted, and keeps its connection.
func TestInterruptedReadFreesConnection(t *testing.T) {
	const numbers = `WITH RECURSIVE c(n) AS (SELECT 1 UNION ALL SELECT n+1 FROM c WHERE n < 1000000000000)`
	started, hang := make(chan struct{}), make(chan struct{})
	rows := func(query string) func(*conn) int {
		return func(c *conn) (n int) {
			for range c.query(numbers + query) {
				n++
			}
			return n
		}
	}
	for name, fn := range map[string]func(*conn) int{
		"interrupted before the first row": rows(` SELECT max(n) FROM c`),
		"interrupted between rows":         rows(` SELECT n FROM c`),
		"interrupted before a later row":   rows(` SELECT n FROM c WHERE n = 1 OR n > 2000000000`),
		"blocked disk":                     func(*conn) int { close(started); <-hang; return 0 },
	} {
		t.Run(name, func(t *testing.T) {
			s := openStore(t, filepath.Join(t.TempDir(), "precept.db"))
			for range maxReaders + 1 {
				ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
				want := context.DeadlineExceeded
				if name == "blocked disk" { // the context must not end before the read has a connection
					cancel()
					ctx, cancel = context.WithCancel(t.Context())
					want = context.Canceled
					go func() { <-started; cancel() }()
				}
				if _, err := read(ctx, s, fn); !errors.Is(err, want) {
					t.Errorf("slow read: got error %v, want %v", err, want)
				}
				cancel()
				if name == "blocked disk" {
					break // the hanging read keeps the connection
				}
			}
			if _, err := s.Stats(t.Context()); err != nil {
				t.Errorf("read after the slow reads: got error %v, want none", err)
			}
			closed := make(chan error, 1)
			go func() { closed <- s.Close(); close(closed) }()
			if name == "blocked disk" {
				select {
				case err := <-closed:
					t.Errorf("Close returned while a read was in progress (error: %v), want Close to wait", err)
				case <-time.After(10 * time.Millisecond):
				}
				close(hang)
			}
			if err := <-closed; err != nil {
				t.Error(err)
			}
		})
	}
}
