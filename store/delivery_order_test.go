package store_test

import (
	"testing"
	"time"

	"precept/internal/session"
	"precept/store"
)

// During an outage, one tenant collects a large backlog before another tenant sends a single exchange.
func TestDeliverServesOtherTenantBeforeBacklog(t *testing.T) {
	t.Parallel()
	const turns, size = 600, 64 << 10
	f := newFixture(t, func(o *store.Options) { o.Queue.MaxBytes, o.Queue.MultiTenant = 1<<30, true })
	f.backend.failWrites()
	for i := range turns {
		x := newExchange(tenantA, "s", i+1, f.clock.now())
		x.Reply.Text = noise(i+1, size)
		if !f.store.Offer(store.Turn{Exchange: x, Size: size}) {
			t.Fatalf("Offer(turn %d) = false, want true", i+1)
		}
		if i%10 == 9 {
			f.deliverFor(time.Second)
		}
	}
	if !f.store.Offer(store.Turn{Exchange: newExchange("another", "other", 1, f.clock.now()), Size: 100}) {
		t.Fatal("Offer(other tenant's turn) = false, want true")
	}
	f.deliverFor(time.Second)
	count := func(tenant, name string) int {
		list, err := f.backend.backend.Exchanges(t.Context(), tenant, session.NamedID(tenant, session.NamespaceSession, name))
		if err != nil {
			t.Error(err)
		}
		return len(list)
	}
	delivered, deliveredBacklog := false, 0
	f.backend.onCall(func(op string) {
		if op == "write" && !delivered {
			delivered, deliveredBacklog = count("another", "other") == 1, count(tenantA, "s")
		}
	})
	f.backend.allowWrites()
	f.deliverFor(time.Minute)
	if !delivered {
		t.Error("the other tenant's exchange is not delivered")
	}
	if deliveredBacklog > turns/3 {
		t.Errorf("%d exchanges of the backlog came first, want at most %d", deliveredBacklog, turns/3)
	}
	checkEqual(t, "stored backlog exchanges", count(tenantA, "s"), turns)
	checkEqual(t, "other tenant's stored exchanges", count("another", "other"), 1)
	a := f.balancedAccount(true)
	checkEqual(t, "Account.Stored", a.Stored, int64(turns+1))
}
