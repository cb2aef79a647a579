package sqlite

import (
	"context"
	"errors"
	"fmt"
	"math"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"precept/internal/session"
)

func TestFirstErrorEndsTheTransaction(t *testing.T) {
	t.Parallel()
	s := openStore(t, filepath.Join(t.TempDir(), "precept.db"))
	const put = "INSERT INTO meta(key, value) VALUES(?, x'01')"
	rows := 0
	err := s.update(t.Context(), "test", func(x *tx) {
		if got := fmt.Sprint(x.db.exec(put, "a"), x.db.queryInt("SELECT count(*) FROM meta")); got != "1 1" {
			t.Errorf("results of exec and queryInt before the error: got %s, want 1 1", got)
		}
		x.db.exec("no sql")
		x.db.script("INSERT INTO meta(key, value) VALUES('b', x'01')")
		for range x.db.query("SELECT 1") {
			rows++
		}
		if got := fmt.Sprint(rows, x.db.exec(put, "c"), x.db.insert(put, "d"), x.db.queryInt("SELECT 1"), x.db.queryBlob("SELECT x'01'") == nil); got != "0 0 0 0 true" {
			t.Errorf("results of query (number of rows), exec, insert, queryInt and queryBlob (is nil) after the error: got %s, want 0 0 0 0 true", got)
		}
		x.db.fail(errors.New("a later error"))
	})
	if err == nil {
		t.Fatal("update error = nil, want an error")
	}
	if !strings.Contains(err.Error(), `"no"`) {
		t.Errorf(`update: error = %q, want substring "\"no\""`, err.Error())
	}
	err = s.update(t.Context(), "test", func(x *tx) {
		if n := x.db.queryInt("SELECT count(*) FROM meta"); n != 0 {
			t.Errorf("values stored by the failed transaction: got %d, want 0", n)
		}
		x.db.exec(put, "e")
	})
	if err != nil {
		t.Fatal(err)
	}
	if _, ok, err := s.Meta(t.Context(), "e"); err != nil {
		t.Error(err)
	} else if !ok {
		t.Error("value from the next transaction: ok = false, want true")
	}
}

func TestEndedContextRollsBackTheTransaction(t *testing.T) {
	t.Parallel()
	s := openStore(t, filepath.Join(t.TempDir(), "precept.db"))
	ctx, cancel := context.WithCancel(t.Context())
	err := s.update(ctx, "test", func(x *tx) {
		x.db.exec("INSERT INTO meta(key, value) VALUES('a', x'01')")
		cancel()
		if x.db.queryInt("SELECT 1") != 0 {
			t.Error("a query after the end of the context returned a row")
		}
	})
	if !errors.Is(err, context.Canceled) {
		t.Errorf("update with a canceled context: got error %v, want context.Canceled", err)
	}
	if _, ok, err := s.Meta(t.Context(), "a"); err != nil {
		t.Error(err)
	} else if ok {
		t.Error("value from the canceled transaction: ok = true, want false")
	}
}

// On a full disk, update makes a checkpoint and tries the transaction again.
func TestFullDiskIsRetriedAfterACheckpoint(t *testing.T) {
	t.Parallel()
	s := openStore(t, filepath.Join(t.TempDir(), "precept.db"))
	attempts := 0
	err := s.update(t.Context(), "test", func(x *tx) {
		x.totals[totalSamples]++
		if attempts++; attempts == 1 {
			x.db.fail(session.ErrDiskFull)
		}
	})
	if err != nil {
		t.Fatal(err)
	}
	if attempts != 2 {
		t.Errorf("attempts = %d, want 2", attempts)
	}
	st, err := s.Stats(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if st[totalSamples] != 1 {
		t.Errorf("total samples = %d, want 1", st[totalSamples])
	}
}

// Stored times must keep their microseconds, and stored floating-point numbers must keep every bit.
func TestValuesRoundTrip(t *testing.T) {
	t.Parallel()
	s := openStore(t, filepath.Join(t.TempDir(), "precept.db"))
	rapid.Check(t, func(rt *rapid.T) {
		type values struct {
			n    int64
			i    int
			day  int32
			yes  bool
			f    uint64 // the bits of a floating-point number, because NaN is not equal to NaN
			at   time.Time
			word string
			blob string
			id   session.ID
		}
		in := values{
			rapid.Int64().Draw(rt, "n"), rapid.Int().Draw(rt, "i"), rapid.Int32().Draw(rt, "day"), rapid.Bool().Draw(rt, "yes"),
			rapid.SampledFrom([]uint64{0, 1 << 63, math.Float64bits(math.NaN()), math.Float64bits(math.Inf(-1)), math.Float64bits(0.1)}).Draw(rt, "f"),
			time.UnixMicro(rapid.Int64Range(-1<<50, 1<<50).Draw(rt, "at")).UTC(),
			rapid.StringN(0, 9, -1).Draw(rt, "word"), string(rapid.SliceOfN(rapid.Byte(), 0, 9).Draw(rt, "blob")),
			session.ID{rapid.Byte().Draw(rt, "id")},
		}
		out, err := read(t.Context(), s, func(c *conn) (v values) {
			var f float64
			var blob []byte
			c.queryRow("SELECT ?, ?, ?, ?, ?, ?, ?, ?, ?", in.n, in.i, in.day, in.yes, math.Float64frombits(in.f), in.at, in.word, []byte(in.blob), in.id).
				scan(&v.n, &v.i, &v.day, &v.yes, &f, &v.at, &v.word, &blob, &v.id)
			v.f, v.blob = math.Float64bits(f), string(blob)
			return v
		})
		if err != nil {
			rt.Fatal(err)
		}
		if out != in {
			rt.Fatalf("values read = %+v, want %+v", out, in)
		}
	})
}

// For a missing row, queryBlob returns nil. For an empty blob, queryBlob returns an empty slice.
func TestMissingNullAndEmptyValuesDiffer(t *testing.T) {
	t.Parallel()
	s := openStore(t, filepath.Join(t.TempDir(), "precept.db"))
	_, err := read(t.Context(), s, func(c *conn) (none int) {
		n := int64(7)
		if c.queryRow("SELECT 1 WHERE false").scan(&n) {
			t.Error("variable after scanning a missing row: scan(&n) = true, want false")
		} else if n != 7 {
			t.Errorf("variable after scanning a missing row = %d, want 7", n)
		}
		if n := c.queryInt("SELECT NULL"); n != 0 {
			t.Errorf("queryInt(NULL): got %d, want 0", n)
		}
		if v := c.queryBlob("SELECT 1 WHERE false"); v != nil {
			t.Errorf("queryBlob(missing row): got %v, want nil", v)
		}
		if v := c.queryBlob("SELECT x''"); v == nil {
			t.Error("queryBlob(empty blob) = nil, want an empty blob")
		}
		return none
	})
	if err != nil {
		t.Error(err)
	}
}
