package sqlite_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"precept/internal/session"
	"precept/store/sqlite"
)

func Example() {
	ctx := context.Background()
	dir, err := os.MkdirTemp("", "precept-example-*")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer os.RemoveAll(dir) //nolint:errcheck

	store, err := sqlite.Open(ctx, sqlite.Options{Path: filepath.Join(dir, "precept.db")})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer store.Close() //nolint:errcheck // every write has returned

	id := session.NamedID("acme", session.NamespaceSession, "ci-1")
	start := time.Date(2031, 1, 2, 3, 4, 5, 0, time.UTC)
	err = store.Write(ctx, session.Batch{
		Rows:   []session.Row{{Tenant: "acme", ID: id, Started: start, Seen: start, Data: []byte(`{"turns":1}`)}},
		Echoes: []session.Echo{{Tenant: "acme", Key: 7, ID: id, At: start}},
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	row, found, err := store.Session(ctx, "acme", id)
	fmt.Println(string(row.Data), row.Started, found, err)
	owners, err := store.FindEcho(ctx, "acme", []session.EchoKey{7, 8})
	fmt.Println(owners[7][0] == id, len(owners[8]), err)
	// Output:
	// {"turns":1} 2031-01-02 03:04:05 +0000 UTC true <nil>
	// true 0 <nil>
}
