package distill_test

import (
	"fmt"
	"testing"
	"time"

	"precept/distill"
	"precept/inject/bank"
)

// The bank accepts a limited number of proposals per hour. Drafts that the rules made are kept in notes until the bank
// accepts them. For drafts by a model, the model must judge the session again.
func TestProposalsAboveQuotaAreMadeLater(t *testing.T) {
	addSessions := func(f *fixture) {
		for i, form := range []string{"stars", "rooms", "floor", "beds"} {
			f.addSession(fmt.Sprint("s", i), user("Task "+form),
				call("find_"+form, `{"`+form+`":"four"}`, `{"error":"`+form+` must be an integer: four"}`),
				call("find_"+form, `{"`+form+`":"4"}`, `{"found":[]}`))
		}
	}
	f := newFixture(t, bank.Limits{TenantWritesPerHour: 3})
	addSessions(f)
	sum := f.runDistiller()
	checkEqual(t, "Proposed and refusal reasons", []int{sum.Proposed, len(sum.Refused)}, []int{3, 1})
	checkEqual(t, "Proposed by a second run within the hour", f.runDistiller().Proposed, 0)
	f.now = f.now.Add(2 * time.Hour)
	checkEqual(t, "Proposed two hours later", f.runDistiller().Proposed, 1)
	checkEqual(t, "lesson count", len(f.slugs()), 4)

	f = newFixture(t, bank.Limits{TenantWritesPerHour: 3})
	addSessions(f)
	n := 0
	s := &scriptedJudge{answer: func(_ int, a judgeRequest) (int, map[string]string, string) {
		n++
		title := []string{"Warm the cache", "Pin the page", "Close the dialog", "Name the region"}[n/2%4]
		return 200, nil, validJudge("success", fmt.Sprintf(`{"lessons":[{"title":%q,"applies_when":"a run begins","advice":["Do so."],"error_patterns":[],"keywords":["run %d of it"]}]}`, title, n))(a)
	}}
	sum, _, err := runJudge(t, f, s)
	if err != nil {
		t.Fatal(err)
	}
	if sum.Proposed != 3 {
		t.Fatalf("run that reaches the quota: Proposed = %d, want 3", sum.Proposed)
	}
	if sum.Stopped == "" {
		t.Fatal("run that reaches the quota: Stopped is empty")
	}
	f.now = f.now.Add(2 * time.Hour)
	sum, _, err = runJudge(t, f, s, func(o *distill.Options) { o.Parallel = 1 })
	if err != nil {
		t.Fatal(err)
	}
	if sum.Judged != 1 {
		t.Fatalf("run two hours later: Judged = %d, want 1", sum.Judged)
	}
	if sum.Proposed+sum.Merged != 1 {
		t.Fatalf("run two hours later: sum.Proposed+sum.Merged = %d, want 1", sum.Proposed+sum.Merged)
	}
	if sum.Stopped != "" {
		t.Fatalf(`run two hours later: Stopped = %q, want ""`, sum.Stopped)
	}
}
