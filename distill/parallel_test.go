package distill_test

import (
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"

	"precept/distill"
)

// A judge reads several sessions in parallel, up to its limit, with the result of a sequential run:
// for any duration of an answer, the lesson of a later session never precedes the lesson of an
// earlier session.
func TestParallelReadingGivesTheSequentialResult(t *testing.T) {
	run := func(parallel int) (distill.Summary, []string, int) {
		b := newBench(t)
		for i := range 12 {
			b.session(fmt.Sprintf("s%02d", i), user(fmt.Sprint("Run the benchmark number ", i)), call("bash", `{"command":"make bench"}`, "ok"))
		}
		var mu sync.Mutex
		open, most := 0, 0
		all, second := make(chan struct{}), make(chan struct{})
		answered := sync.OnceFunc(func() { close(second) })
		answer := func(_ int, a judgeRequest) (int, map[string]string, string) {
			mu.Lock()
			open++
			if most = max(most, open); open == parallel && most == parallel {
				select {
				case <-all:
				default:
					close(all)
				}
			}
			mu.Unlock()
			<-all // no answer comes before the maximum number of questions is open
			number := a.User[strings.Index(a.User, "number ")+7:]
			switch {
			case strings.HasPrefix(number, "1\n"):
				defer answered()
			case strings.HasPrefix(number, "0\n") && parallel > 1: // the first is answered after the second
				<-second
			}
			mu.Lock()
			open--
			mu.Unlock()
			lesson := fmt.Sprintf(`{"lessons":[{"title":"Take care of thing %c.","applies_when":"It is run.","advice":["Do %c."],"error_patterns":[],"keywords":["thing %c of the bench"]}]}`, number[0], number[0], number[0])
			return 200, nil, routine("success", lesson)(a)
		}
		sum, _, err := judged(t, b, &scripted{answer: answer}, func(o *distill.Options) { o.Parallel = parallel })
		if err != nil {
			t.Fatal(err)
		}
		var slugs []string
		for _, l := range b.lessons() {
			slugs = append(slugs, fmt.Sprint(l.Slug, " ", len(l.Evidence)))
		}
		slices.Sort(slugs)
		return sum, slugs, most
	}
	one, wanted, _ := run(1)
	four, got, most := run(4)
	if most != 4 || one.Judged != 12 {
		t.Errorf("%d sessions were read at a time, want 4; the run does %+v, want 12 judged", most, one)
	}
	equal(t, "lessons", got, wanted)
	equal(t, "summary", four, one)
}

// Answers in flight at the end of the budget are counted and kept; a judge that ends the run leaves
// no open request.
func TestAnswersInFlightAreKeptAtTheBudget(t *testing.T) {
	b := newBench(t)
	for i := range 20 {
		b.session(fmt.Sprintf("s%02d", i), user(fmt.Sprint("Task ", i)), call("bash", `{"command":"make"}`, "ok"))
	}
	s := &scripted{answer: func(_ int, a judgeRequest) (int, map[string]string, string) {
		return 200, nil, routine("success", noLessons)(a)
	}}
	four := func(o *distill.Options) { o.Parallel, o.Budget = 4, distill.Budget{Tokens: 20_000} }
	sum, _, err := judged(t, b, s, four)
	if err != nil || sum.Stopped == "" || sum.Tokens > 20_000+4*2000 || int64(sum.Judged)*2000 != sum.Tokens || len(s.judgeRequest) != 2*sum.Judged {
		t.Errorf("got sum %+v, error %v, want no error, a non-empty sum.Stopped, sum.Tokens <= 20_000 + 4*2000, int64(sum.Judged) * 2000 = %d and %d entries in s.asked", sum, err, sum.Tokens, 2*sum.Judged)
	}
	before := sum.Judged
	if sum, _, err = judged(t, b, s, func(o *distill.Options) { o.Parallel = 4 }); err != nil || sum.Judged != 20-before || len(s.judgeRequest) != 40 {
		t.Errorf("got summary %+v, error %v, want %d judged sessions and 40 questions in total", sum, err, 20-before)
	}

	b = newBench(t)
	for i := range 20 {
		b.session(fmt.Sprintf("s%02d", i), user(fmt.Sprint("Task ", i)), call("bash", `{"command":"make"}`, "ok"))
	}
	s = &scripted{answer: func(n int, a judgeRequest) (int, map[string]string, string) {
		if n > 10 {
			return 401, nil, "no"
		}
		return 200, nil, routine("success", noLessons)(a)
	}}
	if sum, _, err = judged(t, b, s, func(o *distill.Options) { o.Parallel = 4 }); err == nil || !strings.Contains(err.Error(), "distill.api_key") || sum.Judged > 5 {
		t.Errorf(`got sum %+v, error %v, want an error with "distill.api_key" and Judged <= 5`, sum, err)
	}
}

// The caps hold for a judge that reports no token usage, or an impossible one.
func TestBudgetHoldsWithoutReportedUsage(t *testing.T) {
	answer := routine("success", noLessons)
	for name, usage := range map[string]string{
		"nothing":  `{}`,
		"too much": `{"prompt_tokens":9223372036854775807,"completion_tokens":9223372036854775807}`,
		"too few":  `{"prompt_tokens":-9223372036854775808,"completion_tokens":-1}`,
	} {
		b := newBench(t)
		for i := range 9 {
			b.session(fmt.Sprint("s", i), user(fmt.Sprint("Task ", i)), call("bash", `{"command":"make"}`, "ok"))
		}
		s := &scripted{answer: func(_ int, a judgeRequest) (int, map[string]string, string) {
			return 200, nil, strings.Replace(answer(a), `{"completion_tokens":100,"prompt_tokens":900}`, usage, 1)
		}}
		sum, _, err := judged(t, b, s, func(o *distill.Options) { o.Budget = distill.Budget{Tokens: 1000} })
		if err != nil || sum.Judged == 0 || sum.Judged > 4 || sum.Stopped == "" || sum.Tokens < 1000 {
			t.Errorf("%s: got sum %+v, error %v, want no error, Judged other than 0, Judged <= 4, non-empty Stopped and Tokens >= 1000", name, sum, err)
		}
	}
}
