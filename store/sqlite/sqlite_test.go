package sqlite_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"precept/internal/session"
	"precept/store/sqlite"
	"precept/store/storetest"
)

func open(t *testing.T, o sqlite.Options) *sqlite.Store {
	t.Helper()
	if o.Path == "" {
		o.Path = filepath.Join(t.TempDir(), "precept.db")
	}
	s, err := sqlite.Open(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return s
}

func TestStoreContract(t *testing.T) {
	storetest.Run(t, func(t *testing.T) storetest.Store {
		t.Helper()
		return open(t, sqlite.Options{})
	})
}

func TestForgottenSessionsLeaveNoRows(t *testing.T) {
	path := filepath.Join(t.TempDir(), "precept.db")
	s := open(t, sqlite.Options{Path: path})
	storetest.RunGrowth(t, s, func(session.ID, time.Time) {}, func() map[string]int64 {
		rows := countRows(t, path)
		rows["bytes"] = databaseSize(t, path)
		return rows
	})
}

// countRows returns the number of rows in each table.
func countRows(t *testing.T, path string) map[string]int64 {
	t.Helper()
	db, counts := openRaw(t, path), map[string]int64{}
	names := ""
	err := db.QueryRowContext(t.Context(), "SELECT group_concat(name) FROM sqlite_schema WHERE type = 'table'").Scan(&names)
	for name := range strings.SplitSeq(names, ",") {
		var n int64
		if err == nil {
			err = db.QueryRowContext(t.Context(), "SELECT count(*) FROM "+name).Scan(&n)
		}
		counts[name] = n
	}
	if err != nil {
		t.Fatal(err)
	}
	return counts
}

func databaseSize(t *testing.T, path string) (bytes int64) {
	t.Helper()
	for _, file := range []string{path, path + "-wal"} {
		info, err := os.Stat(file)
		if err != nil {
			t.Fatal(err)
		}
		bytes += info.Size()
	}
	return bytes
}
