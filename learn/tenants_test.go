package learn_test

import (
	"fmt"
	"testing"
	"time"

	"precept/learn"
)

// Of 20,000 tenants, only the most recently used ones stay in memory. The counters of an evicted tenant are read again
// from the backend.
func TestNumberOfTenantsInMemoryIsBounded(t *testing.T) {
	t.Parallel()
	r := newFixture(t, nil)
	id := r.addSession("s", picked(true))
	r.postFeedback(tenantA, id, score("f1", 1, 1))
	r.advancePastClose()
	baseline := func() string { n, _ := r.Beliefs(tenantA).Baseline("coder"); return fmt.Sprint(n) }
	before := baseline()
	for i := range 20_000 {
		r.Beliefs(fmt.Sprint("tenant", i))
		if i%1000 == 0 {
			r.Tidy(r.ctx())
		}
	}
	r.Tidy(r.ctx())
	if n := r.TenantsInMemory(); n > learn.MaxTenants {
		t.Errorf("tenants in memory: got %d, want at most %d", n, learn.MaxTenants)
	}
	if held, _ := r.Holds(tenantA); held {
		t.Fatal("the first tenant was not evicted")
	}
	r.Beliefs(tenantA)
	for held, read := r.Holds(tenantA); held && !read; held, read = r.Holds(tenantA) {
		r.Tidy(r.ctx())
	}
	same(t, "baseline after the eviction", baseline(), before)
}

// An idle tenant is evicted from memory, together with the provisional rewards of its open sessions. The next request
// restores the same beliefs from the backend.
func TestIdleTenantIsEvicted(t *testing.T) {
	t.Parallel()
	r := newFixture(t, nil)
	closed := r.addSession("closed", picked(true))
	r.postFeedback(tenantA, closed, score("f1", 1, 1))
	r.advancePastClose()
	open := r.addSession("open", picked(true))
	r.postFeedback(tenantA, open, score("f2", 1, 1))
	r.recomputeRewards(r.ctx())
	before := r.Beliefs(tenantA).Posterior(looked)
	r.clk.add(learn.TenantIdle / 2)
	r.Tidy(r.ctx())
	if held, _ := r.Holds(tenantA); !held {
		t.Fatal("the tenant was evicted after half of the idle time")
	}
	passIdleTime := func() {
		for range 2 {
			r.clk.add(learn.TenantIdle)
			r.Tidy(r.ctx())
		}
	}
	passIdleTime()
	if held, read := r.Holds(tenantA); !held || !read {
		t.Fatalf("only tenant after the idle time: in memory = %v, read from the backend = %v, want true and true", held, read)
	}
	for i := range learn.MinTenants {
		r.Beliefs(fmt.Sprint("tenant", i))
	}
	passIdleTime()
	if held, _ := r.Holds(tenantA); held {
		t.Fatal("the idle tenant was not evicted, although memory holds more than MinTenants")
	}
	same(t, "open reward refers to the evicted beliefs", r.Referenced(tenantA), false)
	r.Beliefs(tenantA)
	r.Tidy(r.ctx())
	same(t, "belief after the eviction", r.Beliefs(tenantA).Posterior(looked), before)
	r.clk.add(closeAge)
	r.closeDue(r.ctx())
	same(t, "open sessions with a reward", r.OpenRewards(), 0)
}

// Tidy runs 20 times a second. It checks each tenant only once per TenantIdle, so that no call visits all tenants.
func TestTenantIsCheckedOncePerIdleTime(t *testing.T) {
	t.Parallel()
	r := newFixture(t, nil)
	const tenants = learn.MaxTenants
	for i := range tenants {
		r.Beliefs(fmt.Sprint("tenant", i))
	}
	for range tenants/learn.TenantStep + 1 {
		r.Tidy(r.ctx())
	}
	r.be.takeCalls()
	r.clk.add(time.Second)
	begin := r.clk.now()
	for range 100 {
		r.clk.add(learn.CorrectEvery)
		r.Tidy(r.ctx())
		r.recomputeRewards(r.ctx())
	}
	same(t, "tenants checked by 100 calls of Tidy", r.CheckedSince(begin), 0)
	sameList(t, "backend calls", r.be.takeCalls(), nil)
	r.Beliefs("tenant0")
	r.clk.add(learn.TenantIdle - 3*time.Second)
	r.Tidy(r.ctx())
	same(t, "checked tenants after the idle time", r.CheckedSince(begin), 1)
	same(t, "tenants in memory", r.TenantsInMemory(), learn.MinTenants)
}
