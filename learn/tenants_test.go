package learn_test

import (
	"fmt"
	"testing"
	"time"

	"precept/learn"
)

// Twenty thousand tenants, one for each credential: memory holds the most recently used. An evicted
// tenant is read again with everything it learned.
func TestTenantsAreBoundedByNumber(t *testing.T) {
	t.Parallel()
	r := newRig(t, nil)
	id := r.played("s", picked(true))
	r.postFeedback(tenantA, id, score("f1", 1, 1))
	r.age()
	learned := func() string { n, _ := r.Beliefs(tenantA).Baseline("coder"); return fmt.Sprint(n) }
	before := learned()
	for i := range 20_000 {
		r.Beliefs(fmt.Sprint("tenant", i))
		if i%1000 == 0 {
			r.Tidy(r.ctx())
		}
	}
	r.Tidy(r.ctx())
	if n := r.TenantsInMemory(); n > learn.MaxTenants {
		t.Errorf("got %d tenants in memory, want at most %d", n, learn.MaxTenants)
	}
	if held, _ := r.Holds(tenantA); held {
		t.Fatal("the first tenant is in memory, want it removed")
	}
	r.Beliefs(tenantA)
	for held, read := r.Holds(tenantA); held && !read; held, read = r.Holds(tenantA) {
		r.Tidy(r.ctx())
	}
	same(t, "the learned counters", learned(), before)
}

// A tenant without a recent use leaves memory, with the provisional rewards of its open sessions, and
// is the same when a request uses the tenant again.
func TestIdleTenantLeavesMemory(t *testing.T) {
	t.Parallel()
	r := newRig(t, nil)
	closed := r.played("closed", picked(true))
	r.postFeedback(tenantA, closed, score("f1", 1, 1))
	r.age()
	open := r.played("open", picked(true))
	r.postFeedback(tenantA, open, score("f2", 1, 1))
	r.resettle(r.ctx())
	before := r.Beliefs(tenantA).Posterior(looked)
	r.clk.add(learn.TenantIdle / 2)
	r.Tidy(r.ctx())
	if held, _ := r.Holds(tenantA); !held {
		t.Fatal("after half of the idle time the tenant has left memory, want it in memory")
	}
	idle := func() {
		for range 2 {
			r.clk.add(learn.TenantIdle)
			r.Tidy(r.ctx())
		}
	}
	idle()
	if held, read := r.Holds(tenantA); !held || !read {
		t.Fatal("the only tenant left memory: its next request would start from the priors")
	}
	for i := range learn.MinTenants {
		r.Beliefs(fmt.Sprint("tenant", i))
	}
	idle()
	if held, _ := r.Holds(tenantA); held {
		t.Fatal("the idle tenant is in memory beside other tenants, want it removed")
	}
	same(t, "references of open rewards to the evicted beliefs", r.Referenced(tenantA), false)
	r.Beliefs(tenantA)
	r.Tidy(r.ctx())
	same(t, "belief", r.Beliefs(tenantA).Posterior(looked), before)
	r.clk.add(closeAge)
	r.closeDue(r.ctx())
	same(t, "open sessions with a reward", r.OpenRewards(), 0)
}

// The search for idle tenants, which runs 20 times a second, looks at a tenant once in the time after
// which a tenant counts as idle: no tick walks over all tenants.
func TestTicksDoNotVisitIdleTenants(t *testing.T) {
	t.Parallel()
	r := newRig(t, nil)
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
		r.resettle(r.ctx())
	}
	same(t, "checked tenants", r.CheckedSince(begin), 0)
	sameList(t, "calls of the backend", r.be.takeCalls(), nil)
	r.Beliefs("tenant0")
	r.clk.add(learn.TenantIdle - 3*time.Second)
	r.Tidy(r.ctx())
	same(t, "checked tenants after the idle time", r.CheckedSince(begin), 1)
	same(t, "tenants in memory", r.TenantsInMemory(), learn.MinTenants)
}
