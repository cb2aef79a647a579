package learn_test

import (
	"fmt"
	"testing"
	"time"

	"precept/learn"
)

func TestTenantsInMemoryAreBounded(t *testing.T) {
	t.Parallel()
	f := newFixture(t, nil)
	id := f.addSession("s", newAssignment(injected))
	f.postFeedback(tenantA, id, userScore("f1", 1, 1))
	f.advancePastClose()
	baseline := func() string { n, _ := f.Beliefs(tenantA).Baseline("coder"); return fmt.Sprint(n) }
	before := baseline()
	for i := range 20_000 {
		f.Beliefs(fmt.Sprint("tenant", i))
		if i%1000 == 0 {
			f.LoadAndEvict(f.ctx())
		}
	}
	f.LoadAndEvict(f.ctx())
	if n := f.TenantsInMemory(); n > learn.MaxTenants {
		t.Errorf("tenants in memory: got %d, want at most %d", n, learn.MaxTenants)
	}
	if held, _ := f.TenantState(tenantA); held {
		t.Fatal("the first tenant is still in memory after 20,000 other tenants, want it evicted")
	}
	f.Beliefs(tenantA)
	for held, read := f.TenantState(tenantA); held && !read; held, read = f.TenantState(tenantA) {
		f.LoadAndEvict(f.ctx())
	}
	assertEqual(t, "baseline after the eviction", baseline(), before)
}

func TestIdleTenantIsEvicted(t *testing.T) {
	t.Parallel()
	f := newFixture(t, nil)
	closed := f.addSession("closed", newAssignment(injected))
	f.postFeedback(tenantA, closed, userScore("f1", 1, 1))
	f.advancePastClose()
	open := f.addSession("open", newAssignment(injected))
	f.postFeedback(tenantA, open, userScore("f2", 1, 1))
	f.recomputeRewards(f.ctx())
	before := f.Beliefs(tenantA).Posterior(lookTwice)
	f.clock.add(learn.TenantIdle / 2)
	f.LoadAndEvict(f.ctx())
	if held, _ := f.TenantState(tenantA); !held {
		t.Fatal("the tenant was evicted after half the idle time, want it in memory")
	}
	passIdleTime := func() {
		for range 2 {
			f.clock.add(learn.TenantIdle)
			f.LoadAndEvict(f.ctx())
		}
	}
	passIdleTime()
	if held, read := f.TenantState(tenantA); !held {
		t.Fatal("the only tenant after the idle time: held = false, want true")
	} else if !read {
		t.Fatal("the only tenant after the idle time: read = false, want true")
	}
	for i := range learn.MinTenants {
		f.Beliefs(fmt.Sprint("tenant", i))
	}
	passIdleTime()
	if held, _ := f.TenantState(tenantA); held {
		t.Fatal("the idle tenant is still in memory, want it evicted, because more than MinTenants tenants are in memory")
	}
	assertEqual(t, "the open session's reward refers to the evicted beliefs", f.HasReferences(tenantA), false)
	f.Beliefs(tenantA)
	f.LoadAndEvict(f.ctx())
	assertEqual(t, "belief after the eviction", f.Beliefs(tenantA).Posterior(lookTwice), before)
	f.clock.add(closeAge)
	f.closeDue(f.ctx())
	assertEqual(t, "open sessions with a reward", f.CountProvisional(), 0)
}

// The learner calls LoadAndEvict 20 times a second, so a single call must not check all tenants.
func TestTenantIsCheckedOncePerIdleTime(t *testing.T) {
	t.Parallel()
	f := newFixture(t, nil)
	const tenants = learn.MaxTenants
	for i := range tenants {
		f.Beliefs(fmt.Sprint("tenant", i))
	}
	for range tenants/learn.TenantLoadBatch + 1 {
		f.LoadAndEvict(f.ctx())
	}
	f.backend.takeCalls()
	f.clock.add(time.Second)
	begin := f.clock.now()
	for range 100 {
		f.clock.add(learn.CorrectInterval)
		f.LoadAndEvict(f.ctx())
		f.recomputeRewards(f.ctx())
	}
	assertEqual(t, "tenants checked by 100 calls of LoadAndEvict", f.CheckedSince(begin), 0)
	assertEqualList(t, "backend calls", f.backend.takeCalls(), nil)
	f.Beliefs("tenant0")
	f.clock.add(learn.TenantIdle - 3*time.Second)
	f.LoadAndEvict(f.ctx())
	assertEqual(t, "checked tenants after the idle time", f.CheckedSince(begin), 1)
	assertEqual(t, "tenants in memory", f.TenantsInMemory(), learn.MinTenants)
}
