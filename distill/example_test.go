package distill_test

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"time"

	"precept/distill"
	"precept/inject/bank"
	"precept/internal/sample"
	"precept/internal/session"
)

// A call fails, and then succeeds with a parameter in a different form. The proposed lesson is quarantined until it is
// approved.
func ExampleDistiller_RunOnce() {
	now := func() time.Time { return time.Date(2031, 5, 6, 7, 8, 9, 0, time.UTC) }
	dir, err := os.MkdirTemp("", "lessons")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer func() { _ = os.RemoveAll(dir) }()
	store, ctx := newMemoryStore(), context.Background()
	id := session.ID{1}
	err = store.Write(ctx, session.Batch{
		Rows: []session.Row{{Tenant: "default", ID: id, Started: now(), Seen: now(), Closed: true, Data: []byte("{}")}},
		Exchanges: []sample.Exchange{{ID: "1", Tenant: "default", Session: id.String(), Turn: 1, At: now(), Dialect: "chat", Status: 200, Outcome: sample.Complete, New: []json.RawMessage{
			[]byte(`{"role":"user","content":"Find a hotel."}`),
			[]byte(`{"role":"assistant","tool_calls":[{"id":"c1","function":{"name":"find_hotels","arguments":"{\"stars\":\"four\"}"}}]}`),
			[]byte(`{"role":"tool","tool_call_id":"c1","content":"{\"error\":\"stars must be an integer: four\"}"}`),
			[]byte(`{"role":"assistant","tool_calls":[{"id":"c2","function":{"name":"find_hotels","arguments":"{\"stars\":\"4\"}"}}]}`),
			[]byte(`{"role":"tool","tool_call_id":"c2","content":"{\"hotels\":[]}"}`),
		}}},
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	sum, err := distill.New(distill.Options{
		Source: store, Notes: store, Bank: bank.New(bank.Options{Storage: bank.Directory(dir), Now: now}), Now: now, Owner: "example",
	}).RunOnce(ctx)
	for _, d := range sum.Drafts {
		fmt.Println(d.State, d.Title)
	}
	fmt.Println(err)
	// Output:
	// quarantined Pass `stars` to `find_hotels` as a whole number.
	// <nil>
}
