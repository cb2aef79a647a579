package learn

import (
	"fmt"
	"testing"
)

// A tenant for each credential, and twenty thousand of them: memory holds the latest used. One that
// was let go is read again, with all that was learned.
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
			r.beliefs.tidy(r.ctx())
		}
	}
	r.beliefs.tidy(r.ctx())
	if n := len(r.beliefs.tenants); n > tenantsMost {
		t.Errorf("%d tenants in memory", n)
	}
	if r.beliefs.tenant(us) != nil {
		t.Fatal("the first one is still there")
	}
	r.Beliefs(us)
	for r.beliefs.tenant(us) != nil && !r.beliefs.tenant(us).read {
		r.beliefs.tidy(r.ctx())
	}
	same(t, "what was learned", learned(), before)
}
