package redis_test

import (
	"context"
	"fmt"
	"time"

	"precept/internal/session"
	"precept/store/redis"
)

// The example has no output and is not run, because it needs a Redis server at the URL.
func Example() {
	ctx := context.Background()
	store, err := redis.Open(redis.Options{URL: "redis://localhost:6379/0"})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer store.Close() //nolint:errcheck // every write has returned

	id := session.NamedID("acme", session.NamespaceSession, "ci-1")
	now := time.Now()
	err = store.Write(ctx, session.Batch{
		Rows: []session.Row{{Tenant: "acme", ID: id, Started: now, Seen: now, Data: []byte(`{"turns":1}`)}},
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	row, found, err := store.Session(ctx, "acme", id)
	fmt.Println(string(row.Data), found, err)
}

func ExampleCheckURL() {
	fmt.Println(redis.CheckURL("redis://:secret@localhost:6379/0"))
	fmt.Println(redis.CheckURL("redis://:secret@localhost:6379/0?unknown=1") != nil)
	// Output:
	// <nil>
	// true
}
