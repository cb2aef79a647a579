package distill_test

import (
	"fmt"
	"strings"
	"testing"

	"precept/distill"
)

// newNonsenseJudge returns a judge that gives unusable answers about sessions with the word nonsense. The counters
// unusable and usable count its requests.
func newNonsenseJudge() (s *scriptedJudge, unusable, usable *int) {
	unusable, usable = new(int), new(int)
	valid := validJudge("success", goodLesson)
	return &scriptedJudge{answer: func(_ int, a judgeRequest) (int, map[string]string, string) {
		if strings.Contains(a.User, "nonsense") {
			*unusable++
			return 200, nil, chatCompletion("hello")
		}
		*usable++
		return 200, nil, valid(a)
	}}, unusable, usable
}

// In the first run, twelve unusable answers use up the budget. The second run therefore first asks about the five
// sessions that the first run did not reach. After three unusable answers, a session is set aside: the judge is not
// asked about it until the session continues.
func TestSessionsWithoutUsableAnswerAreJudgedLast(t *testing.T) {
	f := newFixture(t)
	for i := range 12 {
		f.addSession(fmt.Sprint("a", i), user("Say nonsense."), call("bash", `{"command":"x"}`, "ok"))
	}
	for i := range 5 {
		f.addSession(fmt.Sprint("z", i), user("Run the benchmark."), call("bash", `{"command":"make bench"}`, "ok 12ms"))
	}
	s, unusable, usable := newNonsenseJudge()
	run := func() distill.Summary {
		t.Helper()
		sum, _, err := runJudge(t, f, s, func(o *distill.Options) { o.Budget.Tokens = 20_000 })
		if err != nil {
			t.Fatal(err)
		}
		return sum
	}
	checkEqual(t, "sessions judged by the first run", run().Judged, 0)
	checkEqual(t, "sessions judged by the second run", run().Judged, 5)
	checkEqual(t, "requests about the sessions with a usable answer", *usable, 10)
	checkEqual(t, "lessons", f.slugs(), []string{"warm-the-cache-before-you-measure"})

	for range 3 {
		run()
	}
	sum := run()
	checkEqual(t, "Failed, Unchanged, SetAside and Stopped in a run after three answers", []any{sum.Failed, sum.Unchanged, sum.SetAside, sum.Stopped}, []any{0, 17, 12, ""})
	checkEqual(t, "requests without a usable answer: two for each of three questions about twelve sessions", *unusable, 2*3*12)

	f.addSession("a0", user("Say nonsense."), call("bash", `{"command":"x"}`, "ok"), user("More nonsense."))
	sum = run()
	checkEqual(t, "Failed and SetAside after a new turn in one session", []int{sum.Failed, sum.SetAside}, []int{1, 11})
}

// The sessions of the first tenant alone would use up the budget. The run must still ask about the sessions of the
// other two tenants, and spend only the rest on the first tenant.
func TestTenantsShareTheRunBudget(t *testing.T) {
	f := newFixture(t)
	for i := range 30 {
		f.addTenantSession("blue", fmt.Sprint("b", i), nil, user(fmt.Sprint("Say nonsense ", i)))
	}
	for _, tenant := range []string{"green", "red"} {
		f.addTenantSession(tenant, tenant, nil, user("Run the benchmark of "+tenant))
	}
	s, aboutBlue, aboutOthers := newNonsenseJudge() // only blue sessions say "nonsense"
	sum, _, err := runJudge(t, f, s, func(o *distill.Options) { o.Budget.Tokens = 30_000 })
	if err != nil {
		t.Fatal(err)
	}
	checkEqual(t, "judged sessions for the tenants green and red", sum.Judged, 2)
	checkEqual(t, "requests about green and red", *aboutOthers, 4)
	checkEqual(t, "requests about blue, which spend the remaining tokens", *aboutBlue, 26)
	checkEqual(t, "Failed, Read and tokens", []any{sum.Failed, sum.Read, sum.Tokens}, []any{13, 16, int64(30_000)})
	if !strings.HasPrefix(sum.Stopped, "distill.max_tokens") {
		t.Errorf("Stopped = %q, want distill.max_tokens as the reason", sum.Stopped)
	}
	sum, _, err = runJudge(t, f, s)
	if err != nil {
		t.Fatal(err)
	}
	checkEqual(t, "Read, Unchanged, Failed and Stopped in a run without a limit", []any{sum.Read, sum.Unchanged, sum.Failed, sum.Stopped}, []any{32, 2, 30, ""})
}
