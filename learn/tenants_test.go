package learn_test

import (
	"fmt"
	"testing"

	"precept/learn"
)

// Twenty thousand tenants, one for each credential: memory holds the most recently used. An evicted
// tenant is read again with everything it learned.
func TestTenantsAreBoundedByNumber(t *testing.T) {
	t.Parallel()
	r := newRig(t, nil)
	id := r.played("s", picked(true))
	r.tell(us, id, score("f1", 1, 1))
	r.age()
	learned := func() string { n, _ := r.Beliefs(us).Baseline("coder"); return fmt.Sprint(n) }
	before := learned()
	for i := range 20_000 {
		r.Beliefs(fmt.Sprint("tenant", i))
		if i%1000 == 0 {
			r.Tidy(r.ctx())
		}
	}
	r.Tidy(r.ctx())
	if n := r.TenantsInMemory(); n > learn.TenantsMost {
		t.Errorf("%d tenants in memory", n)
	}
	if held, _ := r.Holds(us); held {
		t.Fatal("the first one is still there")
	}
	r.Beliefs(us)
	for held, read := r.Holds(us); held && !read; held, read = r.Holds(us) {
		r.Tidy(r.ctx())
	}
	same(t, "what was learned", learned(), before)
}
