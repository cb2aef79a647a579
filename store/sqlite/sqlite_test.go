package sqlite_test

import (
	"path/filepath"
	"testing"

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

func TestStore(t *testing.T) {
	storetest.Run(t, func(t *testing.T) storetest.Store {
		t.Helper()
		return open(t, sqlite.Options{})
	})
}
