package backtest_test

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	"precept/inject/backtest"
	"precept/inject/lesson"
	"precept/internal/sample"
)

func lessonWithKeywords(slug string, words ...string) *lesson.Lesson {
	return &lesson.Lesson{Slug: slug, State: lesson.Quarantined, Trigger: lesson.Trigger{Keywords: words}}
}

func userExchange(dialect, words string) sample.Exchange {
	text, _ := json.Marshal(words)
	return sample.Exchange{Dialect: dialect, Agent: "coder", New: []json.RawMessage{json.RawMessage(`{"role":"user","content":` + string(text) + `}`)}}
}

func TestRunCountsMatchesAndRewards(t *testing.T) {
	l := lessonWithKeywords("a-b", "load more", "never")
	other := lessonWithKeywords("c-d", "load more")
	other.Scope = lesson.Scope{Tenant: "acme"}
	run := backtest.New([]*lesson.Lesson{l, other}, nil)
	for i := range 40 {
		text, reward := "something else", 0.5
		if i%4 == 0 {
			text, reward = "please load more, load more!", 1
		}
		run.Add(&backtest.Session{Tenant: []string{"default", "acme"}[i/20], Name: fmt.Sprint(i), Exchanges: []sample.Exchange{userExchange("chat", text)}, Rewarded: i%2 == 0, Reward: reward})
	}
	r := run.Result("a-b")
	if r.Matched != 10 || r.Sessions != 40 || len(r.Examples) != 10 || !slices.Equal(r.Words, []backtest.SessionCount{{Text: "load more", Sessions: 10}}) || !slices.Equal(r.SilentTriggers, []string{"never"}) {
		t.Errorf(`Result(a-b) = %+v, want 10 matches of "load more" in 40 sessions, 10 examples, and no match of "never"`, r)
	}
	if w := r.Rewards; *w.MeanMatched != 1 || w.RewardedMatched != 10 || *w.MeanUnmatched != 0.5 || w.RewardedUnmatched != 10 {
		t.Errorf("mean rewards = %+v, want 1 over 10 rewarded sessions with a match, and 0.5 over 10 without", w)
	}
	if r := run.Result("c-d"); r.Matched != 5 || r.Sessions != 20 { // only sessions of the lesson's tenant count
		t.Errorf("Result(c-d) = %+v, want matches in 5 of acme's 20 sessions", r)
	}
	if r := run.Result("nobody"); r.Matched != 0 || r.Rewards.MeanMatched != nil {
		t.Errorf("Result(unknown lesson) = %+v, want no match and no mean reward", r)
	}
}

// A near miss contains a phrase, or all words of a phrase, but does not match.
func TestNearMissNamesTheMissingCondition(t *testing.T) {
	l := lessonWithKeywords("a-b", "load more")
	l.Trigger.NotKeywords = []string{"dry run"}
	l.Trigger.ErrorPatterns = []string{"stale element"}
	run := backtest.New([]*lesson.Lesson{l}, nil)
	for i, words := range []string{
		"please load more", "please load the list once more", "load more, as a dry run", "it says stale element", "nothing of it", "More! Load!", "load more once, load more twice",
	} {
		run.Add(&backtest.Session{Tenant: "default", Name: fmt.Sprint(i), Exchanges: []sample.Exchange{userExchange("chat", words)}})
	}
	r := run.Result("a-b")
	if r.Matched != 2 || r.NearMisses.Sessions != 4 || !slices.Equal(r.NearMisses.Examples, []string{"1", "2", "3", "5"}) {
		t.Errorf("result = %+v, want two matches, and near misses in the sessions 1, 2, 3 and 5", r)
	}
	reasons := fmt.Sprintf("%v", r.NearMisses.MissingConditions)
	for _, want := range []string{`all words in`, `not_keyword`, `fire only on tool errors`} {
		if !strings.Contains(reasons, want) {
			t.Errorf("near-miss reasons = %s, want one with %q", reasons, want)
		}
	}
	for i := range 100 { // one reason for each phrase
		l.Trigger.Keywords = append(l.Trigger.Keywords, fmt.Sprintf("gap between %d", i))
	}
	run = backtest.New([]*lesson.Lesson{l}, nil)
	text := "between them is a gap:"
	for i := range 100 {
		text += fmt.Sprint(" ", i)
	}
	for range 2 {
		run.Add(&backtest.Session{Tenant: "default", Name: "x", Exchanges: []sample.Exchange{userExchange("chat", text)}})
	}
	r = run.Result("a-b")
	if r.NearMisses.Sessions != 2 || len(r.NearMisses.MissingConditions) != 20 {
		t.Errorf("text with words from 100 phrases: got %d reasons in %d near misses, want 20 reasons in 2 near misses", len(r.NearMisses.MissingConditions), r.NearMisses.Sessions)
	}
	for _, why := range r.NearMisses.MissingConditions {
		if why.Sessions != 2 {
			t.Errorf("reason = %+v, want it counted in both sessions", why)
		}
	}
}

// Queries takes the tool of an error from the call in an earlier reply, and leaves out the assistant's text.
func TestQueriesCoverDialectsAndEarlierCalls(t *testing.T) {
	raw := func(items ...string) (out []json.RawMessage) {
		for _, i := range items {
			out = append(out, json.RawMessage(i))
		}
		return out
	}
	call := sample.Reply{Text: "assistant words", Calls: []sample.Call{{ID: "c1", Name: "shell", Args: `{"command":"make"}`}}}
	for _, tc := range []struct {
		dialect string
		second  []json.RawMessage
	}{
		{"chat", raw(`{"role":"assistant","content":"echo words"}`, `{"role":"tool","tool_call_id":"c1","content":"make: *** no rule\nexit code: 2"}`)},
		{"messages", raw(`{"role":"user","content":[{"type":"tool_result","tool_use_id":"c1","is_error":true,"content":"make: *** no rule"}]}`)},
		{"responses", raw(`{"type":"function_call_output","call_id":"c1","output":"make: *** no rule\nexit code: 2"}`)},
	} {
		xs := []sample.Exchange{userExchange(tc.dialect, "user words"), {Dialect: tc.dialect, New: tc.second}, {Dialect: tc.dialect, New: raw(`{"role":`)}}
		xs[0].Reply = call
		qs := backtest.Queries(xs)
		if len(qs) != 2 || !slices.Equal(qs[0].Words, []string{"user words"}) || qs[0].Agent != "coder" || !slices.Equal(qs[0].Tools, []string{"shell"}) {
			t.Fatalf(`%s: queries = %+v, want two, the first with the words "user words", the agent coder and the tool shell`, tc.dialect, qs)
		}
		if len(qs[1].Words) > 0 || len(qs[1].Errors) != 1 || qs[1].Errors[0].Tool != "shell" || !strings.Contains(qs[1].Errors[0].Text, "no rule") {
			t.Errorf(`%s: second query = %+v, want no words, and one error of the tool shell with "no rule"`, tc.dialect, qs[1])
		}
	}
}

func TestQueriesLeaveOutTemplates(t *testing.T) {
	const preamble = "This is the Qwen Code. We are setting up the context for our chat.\nToday is a Friday."
	xs := []sample.Exchange{userExchange("chat", preamble), userExchange("chat", "<task>\nuser words\n</task>\n\n# Keep a list")}
	if qs := backtest.Queries(xs); len(qs) != 1 || !slices.Equal(qs[0].Words, []string{"user words"}) {
		t.Errorf(`queries = %+v, want one with the words "user words"`, qs)
	}
}

func TestRunKeepsTenExamples(t *testing.T) {
	run := backtest.New([]*lesson.Lesson{lessonWithKeywords("a-b", "load more")}, nil)
	s := backtest.Session{Tenant: "default", Name: "x", Exchanges: []sample.Exchange{userExchange("chat", "load more")}}
	run.Add(&s)
	for range 2000 {
		run.Add(&s)
	}
	if r := run.Result("a-b"); r.Matched != 2001 || len(r.Examples) != 10 {
		t.Errorf("result = %+v, want 2001 matches and 10 examples", r)
	}
}

func TestUnreadableSessionPartsAreSkipped(t *testing.T) {
	cut := userExchange("chat", "load more")
	cut.New = append([]json.RawMessage{json.RawMessage(`{"role":"user","content":"it was cut he`)}, cut.New...)
	for name, tc := range map[string]struct {
		exchange sample.Exchange
		want     int
	}{
		"unknown dialect":         {userExchange("telegraph", "load more"), 0},
		"no messages":             {sample.Exchange{Dialect: "chat", Agent: "coder"}, 0},
		"truncated item":          {cut, 1},
		"item in another dialect": {userExchange("responses", "load more"), 1},
	} {
		l := lessonWithKeywords("a-b", "load more")
		run := backtest.New([]*lesson.Lesson{l}, nil)
		run.Add(&backtest.Session{Name: "s", Exchanges: []sample.Exchange{tc.exchange}})
		if got := run.Result("a-b"); got.Matched != tc.want || got.Sessions != 1 {
			t.Errorf("%s: got matches in %d of %d sessions, want %d of 1", name, got.Matched, got.Sessions, tc.want)
		}
	}
}

// In a lesson file in the gptme form, a * between spaces matches any word. In the AIP-11 form, it is an ordinary
// character.
func TestPhrasesAreReadInLessonFileForm(t *testing.T) {
	for form, want := range map[lesson.Form]int{lesson.FormGptme: 1, lesson.FormAIP11: 0} {
		l := lessonWithKeywords("a-b", "killed at * seconds")
		l.Form = form
		run := backtest.New([]*lesson.Lesson{l}, nil)
		run.Add(&backtest.Session{Name: "one", Exchanges: []sample.Exchange{userExchange("chat", "It was killed at 120 seconds.")}})
		if got := run.Result("a-b").Matched; got != want {
			t.Errorf("form %s: got matches in %d sessions, want %d", form, got, want)
		}
	}
}
