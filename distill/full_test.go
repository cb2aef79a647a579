package distill_test

import (
	"fmt"
	"testing"
	"time"

	"precept/distill"
	"precept/inject/bank"
)

// Proposals beyond the quota of the bank are made later: by the rules from their notes, by a model
// in a second reading of the session. The judge gets no requests in the meantime.
func TestProposalsBeyondTheQuotaAreMadeLater(t *testing.T) {
	fill := func(b *bench) {
		for i, form := range []string{"stars", "rooms", "floor", "beds"} {
			b.session(fmt.Sprint("s", i), user("Task "+form),
				call("find_"+form, `{"`+form+`":"four"}`, `{"error":"`+form+` must be an integer: four"}`),
				call("find_"+form, `{"`+form+`":"4"}`, `{"found":[]}`))
		}
	}
	b := newBench(t, bank.Limits{TenantHour: 3})
	fill(b)
	sum := b.distil()
	equal(t, "proposed, refused", []int{sum.Proposed, len(sum.Refused)}, []int{3, 1})
	equal(t, "too early", b.distil().Proposed, 0)
	b.now = b.now.Add(2 * time.Hour)
	equal(t, "later", b.distil().Proposed, 1)
	equal(t, "lessons", len(b.slugs()), 4)

	b = newBench(t, bank.Limits{TenantHour: 3})
	fill(b)
	n := 0
	s := &scripted{answer: func(_ int, a judgeRequest) (int, map[string]string, string) {
		n++
		title := []string{"Warm the cache", "Pin the page", "Close the dialog", "Name the region"}[n/2%4]
		return 200, nil, routine("success", fmt.Sprintf(`{"lessons":[{"title":%q,"applies_when":"a run begins","advice":["Do so."],"error_patterns":[],"keywords":["run %d of it"]}]}`, title, n))(a)
	}}
	sum, _, err := judged(t, b, s)
	if err != nil || sum.Proposed != 3 || sum.Stopped == "" {
		t.Fatalf("got sum %+v, error %v, want no error, Proposed = 3 and non-empty Stopped", sum, err)
	}
	b.now = b.now.Add(2 * time.Hour)
	sum, _, err = judged(t, b, s, func(o *distill.Options) { o.Parallel = 1 })
	if err != nil || sum.Judged != 1 || sum.Proposed+sum.Merged != 1 || sum.Stopped != "" {
		t.Fatalf("got sum %+v, error %v, want no error, Judged = 1, Proposed + Merged = 1 and empty Stopped", sum, err)
	}
}
