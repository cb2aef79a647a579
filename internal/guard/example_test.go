package guard_test

import (
	"context"
	"fmt"
	"time"

	"precept/internal/guard"
	"precept/internal/label"
	"precept/internal/session"
)

type printingStore struct{}

func (printingStore) SetAside(_ context.Context, marks []session.DeadLetter) error {
	for _, m := range marks {
		fmt.Println("set aside in step", m.Step, "because:", m.Why)
	}
	return nil
}

func (printingStore) Readmit(context.Context, int) (int, error) { return 0, nil }

func Example() {
	g := guard.New(guard.Options{
		Now:       func() time.Time { return time.Date(2026, 11, 26, 9, 0, 0, 0, time.UTC) },
		OnFailure: func(step label.Step, err error) { fmt.Println(step, "failed:", err) },
		OnPanic:   func(step label.Step, _ any) { fmt.Println(step, "panicked") },
		Clean:     func(text string) string { return text },
	})
	bad, good := session.Ref{Tenant: "default", ID: session.ID{1}}, session.Ref{Tenant: "default", ID: session.ID{2}}
	for _, ref := range []session.Ref{bad, good} {
		done := g.RunOn(label.StepSettle, ref, "", func() {
			if ref == bad {
				panic("no counters")
			}
		})
		fmt.Println("done:", done, "set aside:", g.IsSkipped(ref))
	}
	g.StorePending(context.Background(), printingStore{})
	// Output:
	// settle panicked
	// done: false set aside: true
	// done: true set aside: false
	// set aside in step settle because: no counters
}
