package banktest

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"precept/inject/bank"
	"precept/inject/lesson"
)

func testTenantLimit(t *testing.T, f *fixture) {
	t.Helper()
	f.Bank = f.open(bank.Limits{TenantLessons: 2})
	propose := func(tenant string, n int) error {
		l := draft("x")
		l.Slug, l.Title = "", fmt.Sprint("Do ", n, " for ", tenant)
		rs, err := f.Bank.ProposeAll(t.Context(), []bank.Proposal{{Lesson: l, Source: "api", Scope: lesson.Scope{Tenant: tenant, Agent: "a"}}})
		if err != nil {
			t.Fatal(err)
		}
		return rs[0].Err
	}
	for i, want := range []error{nil, nil, bank.ErrTenantLessons} {
		if err := propose("acme", i); !errors.Is(err, want) {
			t.Errorf("lesson %[2]d: err = %[1]v, want %[3]v", err, i+1, want)
		}
	}
	if err := propose("other", 0); err != nil {
		t.Errorf("other tenant's lesson: %v", err)
	}
}

func testWriteLimits(t *testing.T, f *fixture) {
	t.Helper()
	f.Bank = f.open(bank.Limits{AgentWritesPerHour: 5, TenantWritesPerHour: 8, TenantWaiting: 10})
	propose := func(tenant, agent string, n int) (accepted int) {
		var all []bank.Proposal
		for i := range n {
			l := draft("x")
			l.Slug, l.Title = "", fmt.Sprint("Do ", i, " at ", f.now)
			all = append(all, bank.Proposal{Lesson: l, Source: "api", Scope: lesson.Scope{Tenant: tenant, Agent: agent}})
		}
		rs, err := f.Bank.ProposeAll(t.Context(), all)
		if err != nil {
			t.Fatal(err)
		}
		for _, r := range rs {
			switch {
			case r.Err == nil:
				accepted++
			case !errors.Is(r.Err, bank.ErrTooMany):
				t.Errorf("refused proposal: err = %v, want %v", r.Err, bank.ErrTooMany)
			}
		}
		return accepted
	}
	for _, c := range []struct {
		tenant, agent string
		want          int
	}{{"acme", "a", 5}, {"acme", "a", 0}, {"acme", "b", 3}, {"acme", "c", 0}, {"other", "a", 5}} {
		if got := propose(c.tenant, c.agent, 9); got != c.want {
			t.Errorf("tenant %s, agent %s: accepted %d of 9 proposals, want %d", c.tenant, c.agent, got, c.want)
		}
	}
	f.now = f.now.Add(time.Hour)
	if got := propose("acme", "d", 9); got != 2 { // ten lessons are already waiting
		t.Errorf("an hour later: accepted %d of 9 proposals, want 2", got)
	}
}

// testLimitsInLongLog tests that a proposal counts for an hour, even after thousands of other events. The event of a
// hand edit has the file's modification time, here a year ago.
func testLimitsInLongLog(t *testing.T, f *fixture) {
	t.Helper()
	f.Bank = f.open(bank.Limits{AgentWritesPerHour: 2})
	propose := func(n int) error {
		l := draft("x")
		l.Slug, l.Title = "", fmt.Sprint("Do ", n)
		_, err := f.Bank.Propose(t.Context(), bank.Proposal{Lesson: l, Source: "api", Scope: lesson.Scope{Tenant: "acme", Agent: "a"}})
		return err
	}
	if err := errors.Join(propose(1), propose(2)); err != nil {
		t.Fatal(err)
	}
	const events, batch = 12_000, 1000
	for range events / batch {
		current, err := f.storage.Read(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		c := bank.Change{Version: current.Version}
		for i := range batch {
			e := lesson.Event{Time: f.now, Action: "propose", Slug: fmt.Sprint("of-another-tenant-", i), Source: "api", Tenant: "other", Agent: "a"}
			if i%2 == 0 {
				e = lesson.Event{Time: f.now.AddDate(-1, 0, 0), Action: "edit", Slug: "by-hand", Detail: map[string]any{lesson.DetailHandEdit: "file"}}
			}
			c.Log = append(c.Log, e)
		}
		if err := f.storage.Commit(t.Context(), c); err != nil {
			t.Fatal(err)
		}
	}
	if err := propose(3); !errors.Is(err, bank.ErrTooMany) {
		t.Errorf("third proposal within the hour: err = %v, want %v", err, bank.ErrTooMany)
	}
	f.now = f.now.Add(time.Hour)
	if err := propose(4); err != nil {
		t.Errorf("proposal after the hour: %v", err)
	}
	if err := propose(5); err != nil {
		t.Errorf("second proposal after the hour: %v", err)
	}
	f.now = f.now.AddDate(0, -1, 0)
	if err := propose(6); err != nil {
		t.Errorf("proposal after the clock was set back by a month: %v", err)
	}
}
