package distill_test

import (
	"fmt"
	"testing"
	"time"

	"precept/distill"
	"precept/inject/bank"
)

// The bank accepts a limited number of proposals per hour. A later run makes the remaining proposals. With the rules,
// it reads the proposals from notes. With a model, it judges the session again.
func TestProposalsAboveQuotaAreMadeLater(t *testing.T) {
	addSessions := func(b *bench) {
		for i, form := range []string{"stars", "rooms", "floor", "beds"} {
			b.session(fmt.Sprint("s", i), user("Task "+form),
				call("find_"+form, `{"`+form+`":"four"}`, `{"error":"`+form+` must be an integer: four"}`),
				call("find_"+form, `{"`+form+`":"4"}`, `{"found":[]}`))
		}
	}
	b := newBench(t, bank.Limits{TenantHour: 3})
	addSessions(b)
	sum := b.distil()
	equal(t, "Proposed and number of refusal reasons", []int{sum.Proposed, len(sum.Refused)}, []int{3, 1})
	equal(t, "Proposed by a second run within the hour", b.distil().Proposed, 0)
	b.now = b.now.Add(2 * time.Hour)
	equal(t, "Proposed two hours later", b.distil().Proposed, 1)
	equal(t, "number of lessons", len(b.slugs()), 4)

	b = newBench(t, bank.Limits{TenantHour: 3})
	addSessions(b)
	n := 0
	s := &scripted{answer: func(_ int, a judgeRequest) (int, map[string]string, string) {
		n++
		title := []string{"Warm the cache", "Pin the page", "Close the dialog", "Name the region"}[n/2%4]
		return 200, nil, validJudge("success", fmt.Sprintf(`{"lessons":[{"title":%q,"applies_when":"a run begins","advice":["Do so."],"error_patterns":[],"keywords":["run %d of it"]}]}`, title, n))(a)
	}}
	sum, _, err := runJudge(t, b, s)
	if err != nil || sum.Proposed != 3 || sum.Stopped == "" {
		t.Fatalf("run that reaches the quota: summary = %+v, err = %v, want Proposed = 3, a reason in Stopped and no error", sum, err)
	}
	b.now = b.now.Add(2 * time.Hour)
	sum, _, err = runJudge(t, b, s, func(o *distill.Options) { o.Parallel = 1 })
	if err != nil || sum.Judged != 1 || sum.Proposed+sum.Merged != 1 || sum.Stopped != "" {
		t.Fatalf("run two hours later: summary = %+v, err = %v, want Judged = 1, Proposed+Merged = 1, empty Stopped and no error", sum, err)
	}
}
