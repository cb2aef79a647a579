package storetest_test

import (
	"context"
	"fmt"
	"time"

	"precept/internal/sample"
	"precept/internal/session"
	"precept/store/storetest"
)

type oneSessionStore struct{ storetest.Samples }

func (oneSessionStore) EachSession(_ context.Context, _ string, _, _ time.Time, fn func(session.Row, session.SettledState) error) error {
	return fn(session.Row{Tenant: "default"}, session.SettledState{})
}

func (oneSessionStore) Exchanges(context.Context, string, session.ID) ([]sample.Exchange, error) {
	return []sample.Exchange{{ID: "x1"}, {ID: "x2"}}, nil
}

// EachExchange walks over the exchanges in all sessions.
func ExampleEachExchange() {
	err := storetest.EachExchange(context.Background(), oneSessionStore{}, func(x sample.Exchange) error {
		fmt.Println(x.ID)
		return nil
	})
	fmt.Println(err)
	// Output:
	// x1
	// x2
	// <nil>
}
