package distill_test

import (
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"

	"precept/distill"
)

// The parallel run has up to four open requests, and receives the answers in a different order.
func TestParallelRunEqualsSequentialRun(t *testing.T) {
	run := func(parallel int) (distill.Summary, []string, int) {
		f := newFixture(t)
		for i := range 12 {
			f.addSession(fmt.Sprintf("s%02d", i), user(fmt.Sprint("Run the benchmark number ", i)), call("bash", `{"command":"make bench"}`, "ok"))
		}
		var mu sync.Mutex
		open, maxOpen := 0, 0 // current and largest number of requests without an answer
		all, second := make(chan struct{}), make(chan struct{})
		answered := sync.OnceFunc(func() { close(second) })
		answer := func(_ int, a judgeRequest) (int, map[string]string, string) {
			mu.Lock()
			open++
			if maxOpen = max(maxOpen, open); open == parallel && maxOpen == parallel {
				select {
				case <-all:
				default:
					close(all)
				}
			}
			mu.Unlock()
			<-all // wait until as many requests are open as allowed
			number := a.User[strings.Index(a.User, "number ")+7:]
			switch {
			case strings.HasPrefix(number, "1\n"):
				defer answered()
			case strings.HasPrefix(number, "0\n") && parallel > 1:
				<-second
			}
			mu.Lock()
			open--
			mu.Unlock()
			lesson := fmt.Sprintf(`{"lessons":[{"title":"Take care of thing %c.","applies_when":"It is run.","advice":["Do %c."],"error_patterns":[],"keywords":["thing %c of the bench"]}]}`, number[0], number[0], number[0])
			return 200, nil, validJudge("success", lesson)(a)
		}
		sum, _, err := runJudge(t, f, &scriptedJudge{answer: answer}, func(o *distill.Options) { o.Parallel = parallel })
		if err != nil {
			t.Fatal(err)
		}
		var slugs []string
		for _, l := range f.lessons() {
			slugs = append(slugs, fmt.Sprint(l.Slug, " ", len(l.Evidence)))
		}
		slices.Sort(slugs)
		return sum, slugs, maxOpen
	}
	one, want, _ := run(1)
	four, got, maxOpen := run(4)
	if maxOpen != 4 {
		t.Errorf("largest number of open requests = %d, want 4", maxOpen)
	}
	if one.Judged != 12 {
		t.Errorf("Judged = %d, want 12", one.Judged)
	}
	checkEqual(t, "lessons from the parallel run", got, want)
	checkEqual(t, "the parallel run's summary", four, one)
}

// When the budget is spent, the run still uses the answers to open requests.
func TestParallelRunStopsAtBudgetOr401(t *testing.T) {
	f := newFixture(t)
	for i := range 20 {
		f.addSession(fmt.Sprintf("s%02d", i), user(fmt.Sprint("Task ", i)), call("bash", `{"command":"make"}`, "ok"))
	}
	s := &scriptedJudge{answer: func(_ int, a judgeRequest) (int, map[string]string, string) {
		return 200, nil, validJudge("success", noLessons)(a)
	}}
	capped := func(o *distill.Options) { o.Parallel, o.Budget = 4, distill.Budget{Tokens: 20_000} }
	sum, _, err := runJudge(t, f, s, capped)
	if err != nil {
		t.Fatal(err)
	}
	if sum.Stopped == "" {
		t.Error("Stopped is empty")
	}
	if sum.Tokens > 20_000+4*2000 {
		t.Errorf("Tokens = %d, want at most %d", sum.Tokens, 20_000+4*2000)
	}
	if int64(sum.Judged)*2000 != sum.Tokens {
		t.Errorf("tokens of judged sessions = %d, want %d", int64(sum.Judged)*2000, sum.Tokens)
	}
	if len(s.requests) != 2*sum.Judged {
		t.Errorf("requests = %+v, want %d items", s.requests, 2*sum.Judged)
	}
	before := sum.Judged
	if sum, _, err = runJudge(t, f, s, func(o *distill.Options) { o.Parallel = 4 }); err != nil {
		t.Error(err)
	} else if sum.Judged != 20-before {
		t.Errorf("second run: Judged = %d, want %d", sum.Judged, 20-before)
	} else if len(s.requests) != 40 {
		t.Errorf("second run: requests = %+v, want 40 items", s.requests)
	}

	f = newFixture(t)
	for i := range 20 {
		f.addSession(fmt.Sprintf("s%02d", i), user(fmt.Sprint("Task ", i)), call("bash", `{"command":"make"}`, "ok"))
	}
	s = &scriptedJudge{answer: func(n int, a judgeRequest) (int, map[string]string, string) {
		if n > 10 {
			return 401, nil, "no"
		}
		return 200, nil, validJudge("success", noLessons)(a)
	}}
	if sum, _, err = runJudge(t, f, s, func(o *distill.Options) { o.Parallel = 4 }); err == nil {
		t.Error("run in which the judge answers 401: error = nil, want an error")
	} else if !strings.Contains(err.Error(), "distill.api_key") {
		t.Errorf(`run in which the judge answers 401: error = %q, want substring "distill.api_key"`, err.Error())
	} else if sum.Judged > 5 {
		t.Errorf("run in which the judge answers 401: Judged = %d, want at most 5", sum.Judged)
	}
}

// The budget ends the run even if the server reports no numbers of tokens or impossible numbers.
func TestBudgetLimitsRunWithoutPlausibleUsage(t *testing.T) {
	answer := validJudge("success", noLessons)
	for name, usage := range map[string]string{
		"none":     `{}`,
		"too much": `{"prompt_tokens":9223372036854775807,"completion_tokens":9223372036854775807}`,
		"negative": `{"prompt_tokens":-9223372036854775808,"completion_tokens":-1}`,
	} {
		f := newFixture(t)
		for i := range 9 {
			f.addSession(fmt.Sprint("s", i), user(fmt.Sprint("Task ", i)), call("bash", `{"command":"make"}`, "ok"))
		}
		s := &scriptedJudge{answer: func(_ int, a judgeRequest) (int, map[string]string, string) {
			return 200, nil, strings.Replace(answer(a), `{"completion_tokens":100,"prompt_tokens":900}`, usage, 1)
		}}
		sum, _, err := runJudge(t, f, s, func(o *distill.Options) { o.Budget = distill.Budget{Tokens: 1000} })
		if err != nil {
			t.Fatalf("usage %s: %v", name, err)
		}
		if sum.Judged == 0 {
			t.Errorf("usage %s: Judged = 0, want at least 1", name)
		}
		if sum.Judged > 4 {
			t.Errorf("usage %s: Judged = %d, want at most 4", name, sum.Judged)
		}
		if sum.Stopped == "" {
			t.Errorf("usage %s: Stopped is empty", name)
		}
		if sum.Tokens < 1000 {
			t.Errorf("usage %s: Tokens = %d, want at least 1000", name, sum.Tokens)
		}
	}
}
