package backtest_test

import (
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"precept/inject/backtest"
	"precept/inject/lesson"
	"precept/internal/sample"
)

// runBacktest evaluates a lesson over sessions with one user message each.
func runBacktest(l *lesson.Lesson, tagger *lesson.Tagger, words ...string) backtest.Result {
	run := backtest.New([]*lesson.Lesson{l}, tagger)
	for i, w := range words {
		run.Add(&backtest.Session{Tenant: "default", Name: fmt.Sprint(i), Exchanges: []sample.Exchange{userExchange("chat", w)}})
	}
	return run.Result(l.Slug)
}

// A captured session names the agent, but not the role or the skill. A lesson with several targets matches a session if
// one of the targets does.
func TestUnknownRoleAndSkillCountAsMatch(t *testing.T) {
	for _, tc := range []struct {
		name    string
		targets []lesson.Target
		matches bool
	}{
		{"no target", nil, true},
		{"same agent", []lesson.Target{{Operator: "cod*"}}, true},
		{"another agent", []lesson.Target{{Operator: "writer"}}, false},
		{"role", []lesson.Target{{Role: "reviewer"}}, true},
		{"same agent in a role", []lesson.Target{{Operator: "coder", Role: "reviewer"}}, true},
		{"another agent in a role", []lesson.Target{{Operator: "writer", Role: "reviewer"}}, false},
		{"another agent or a skill", []lesson.Target{{Operator: "writer"}, {Skill: "pdf"}}, true},
		{"skill or another agent", []lesson.Target{{Skill: "pdf"}, {Operator: "writer"}}, true},
		{"another agent or the same agent", []lesson.Target{{Operator: "writer"}, {Operator: "coder"}}, true},
	} {
		l := lessonWithKeywords("a-b", "load more")
		l.Trigger.Targets = tc.targets
		if r := runBacktest(l, nil, "load more"); r.Matched == 1 != tc.matches {
			t.Errorf("%s: got matches in %d sessions, want a match: %t", tc.name, r.Matched, tc.matches)
		}
	}
}

func TestMessagesAreSearchedAtBothEnds(t *testing.T) {
	filler := strings.Repeat("some other words ", 64<<10/17)
	for _, tc := range []struct {
		name, words string
		matches     bool
	}{
		{"at the beginning", "load more " + filler + filler, true},
		{"at the end", filler + filler + " load more", true},
		{"in the middle", filler + " load more " + filler, false},
		{"in the middle of 64 KiB", filler[:32<<10-6] + " load more " + filler[:32<<10-5], true},
		{"in the middle of 64 KiB and 2 bytes", filler[:32<<10-6] + " load more " + filler[:32<<10-3], false},
	} {
		if r := runBacktest(lessonWithKeywords("a-b", "load more"), nil, tc.words); r.Matched == 1 != tc.matches {
			t.Errorf("%s: got matches in %d sessions, want a match: %t", tc.name, r.Matched, tc.matches)
		}
	}
	// Queries skips truncated items and exchanges in an unknown dialect.
	cut := userExchange("chat", "load more")
	cut.New = append([]json.RawMessage{json.RawMessage(`{"role":"user","content":"was c`)}, cut.New...)
	if qs := backtest.Queries([]sample.Exchange{cut}); len(qs) != 1 || !slices.Equal(qs[0].Words, []string{"load more"}) {
		t.Errorf("Queries(exchange with a truncated item) = %+v, want one with the words \"load more\"", qs)
	}
	unknown := userExchange("telnet", "load more")
	if qs := backtest.Queries([]sample.Exchange{unknown}); len(qs) != 0 {
		t.Errorf("Queries(unknown dialect) = %+v, want none", qs)
	}
}

// A request's tool definitions are not stored, so a session counts if it calls the tool, before or after the phrase.
func TestToolLessonMatchesOnlySessionsWithTool(t *testing.T) {
	l := lessonWithKeywords("a-b", "load more")
	l.Trigger.Tools = []string{"browser_*"}
	first, second := userExchange("chat", "load more"), userExchange("chat", "thanks")
	for tool, want := range map[string]int{"browser_click": 1, "shell": 0} {
		first.Reply.Calls = []sample.Call{{ID: "c1", Name: tool, Args: "{}"}}
		for _, xs := range [][]sample.Exchange{{first, second}, {second, first}} {
			run := backtest.New([]*lesson.Lesson{l}, nil)
			run.Add(&backtest.Session{Tenant: "default", Exchanges: xs})
			if r := run.Result("a-b"); r.Matched != want {
				t.Errorf("%s: got matches in %d sessions, want %d", tool, r.Matched, want)
			}
		}
	}
}

func TestPhraseCountsOncePerSession(t *testing.T) {
	l := lessonWithKeywords("a-b", "load more", "page id", "never said")
	run := backtest.New([]*lesson.Lesson{l}, nil)
	if r := run.Result("a-b"); r.Sessions != 0 || r.Matched != 0 || r.Rewards.MeanUnmatched != nil || len(r.SilentTriggers) != 3 {
		t.Errorf("result without a session = %+v, want zeros and three phrases in SilentTriggers", r)
	}
	run.Add(&backtest.Session{Tenant: "default", Exchanges: []sample.Exchange{userExchange("chat", "load more"), userExchange("chat", "the page id"), userExchange("chat", "load more")}})
	r := run.Result("a-b")
	if want := []backtest.SessionCount{{Text: "load more", Sessions: 1}, {Text: "page id", Sessions: 1}}; r.Matched != 1 || !slices.Equal(r.Words, want) || !slices.Equal(r.SilentTriggers, []string{"never said"}) {
		t.Errorf(`result = %+v, want one match, words %+v, and "never said" in SilentTriggers`, r, want)
	}
}

func TestQueriesClassifyResultsByCall(t *testing.T) {
	turn := func(name, args, result string) sample.Exchange {
		call, _ := json.Marshal(map[string]any{"id": "c1", "type": "function", "function": map[string]any{"name": name, "arguments": args}})
		text, _ := json.Marshal(result)
		return sample.Exchange{Dialect: "chat", New: []json.RawMessage{
			json.RawMessage(`{"role":"assistant","content":null,"tool_calls":[` + string(call) + `]}`), json.RawMessage(`{"role":"tool","tool_call_id":"c1","content":` + string(text) + `}`),
		}}
	}
	qs := backtest.Queries([]sample.Exchange{turn("shell", `{"command":"make"}`, "make: *** no rule\nexit code: 2")})
	if len(qs) != 1 || len(qs[0].Errors) != 1 || qs[0].Errors[0].Tool != "shell" {
		t.Errorf("Queries(failed call) = %+v, want one error from the tool shell", qs)
	}
	if qs := backtest.Queries([]sample.Exchange{turn("shell", `{"command":"make"}`, "built\nexit code: 0")}); len(qs) != 0 {
		t.Errorf("Queries(successful call) = %+v, want none", qs)
	}
}

func TestTagsMatchByConfiguredPhrases(t *testing.T) {
	l := &lesson.Lesson{Slug: "a-b", Trigger: lesson.Trigger{Tags: []string{"deploy", "cloud"}}}
	tagger := lesson.NewTagger(map[string][]string{"deploy": {"helm upgrade", "kubectl apply"}})
	r := runBacktest(l, tagger, "please helm upgrade it", "helm", "kubectl apply -f x; the cloud is grey")
	if want := []backtest.SessionCount{{Text: "deploy", Sessions: 2}, {Text: "cloud", Sessions: 1}}; r.Matched != 2 || !slices.Equal(r.Words, want) || len(r.SilentTriggers) != 0 {
		t.Errorf("result with a tagger = %+v, want 2 matches by %+v, and an empty SilentTriggers", r, want)
	}
	if r := runBacktest(l, nil, "helm upgrade"); r.Matched != 0 || !slices.Equal(r.SilentTriggers, []string{"deploy", "cloud"}) {
		t.Errorf("result without a tagger = %+v, want no match, and both tags in SilentTriggers", r)
	}
}

// Case, order and distance between the words do not matter.
func TestScatteredPhraseWordsAreANearMiss(t *testing.T) {
	for _, tc := range []struct {
		keyword, words string
		near           bool
	}{
		{"error 404", "a 404, which is an ERROR", true},
		{"error 404", "an error", false},
		{"error 404", "error 4040", false},
		{"error 404", "error 404, and 404 is the error", false},
		{"naïve café", "the café is naïve", true},
		{"the", "the one", false}, // stop words are not searched
	} {
		if r := runBacktest(lessonWithKeywords("a-b", tc.keyword), nil, tc.words); r.NearMisses.Sessions == 1 != tc.near {
			t.Errorf("%q in %q: near misses = %+v, want one: %t", tc.keyword, tc.words, r.NearMisses, tc.near)
		}
	}
	near := make([]string, 14)
	for i := range near {
		near[i] = "more of the load"
	}
	r := runBacktest(lessonWithKeywords("a-b", "load more"), nil, near...)
	if r.NearMisses.Sessions != 14 || len(r.NearMisses.Examples) != 10 || r.NearMisses.MissingConditions[0].Sessions != 14 {
		t.Errorf("near misses = %+v, want 14 with one reason and 10 examples", r.NearMisses)
	}
}

// The mean reward is nil if none of the sessions has a reward.
func TestResultsListLessonsWithMeanRewards(t *testing.T) {
	all, own := lessonWithKeywords("b-all", "load more"), lessonWithKeywords("a-own", "load more")
	own.Scope.Tenant = "red"
	run := backtest.New([]*lesson.Lesson{all, own}, nil)
	for i, tenant := range []string{"red", "blue", "red"} {
		run.Add(&backtest.Session{Tenant: tenant, Name: fmt.Sprint(i), Exchanges: []sample.Exchange{userExchange("chat", "load more")}, Rewarded: tenant == "red", Reward: float64(i) / 2})
	}
	list := run.Results()
	if len(list) != 2 || list[0].Slug != "a-own" || list[1].Slug != "b-all" || run.Sessions() != 3 {
		t.Fatalf("results = %+v over %d sessions, want a-own and b-all over 3", list, run.Sessions())
	}
	for i, want := range []int{2, 3} {
		if fired, sessions := run.Matches([]*lesson.Lesson{own, all}[i]); fired != want || sessions != want {
			t.Errorf("Matches(%s) = %d of %d sessions, want %d of %[4]d", list[i].Slug, fired, sessions, want)
		}
		if w := list[i].Rewards; *w.MeanMatched != 0.5 || w.RewardedMatched != 2 || w.MeanUnmatched != nil || w.RewardedUnmatched != 0 {
			t.Errorf("%s: mean rewards = %+v, want 0.5 over 2 matches, and no mean over unmatched sessions", list[i].Slug, w)
		}
	}
}

func TestResultsIgnoreOrderAndOtherLessons(t *testing.T) {
	phrases := []string{"load more", "more to load", "load more, as a dry run", "nothing of it", "list the rows"}
	rapid.Check(t, func(t *rapid.T) {
		words := rapid.SliceOfN(rapid.SampledFrom(phrases), 0, 9).Draw(t, "words") // a result lists at most ten sessions
		var sessions []*backtest.Session
		for i, w := range words {
			sessions = append(sessions, &backtest.Session{
				Tenant: rapid.SampledFrom([]string{"default", "acme"}).Draw(t, "tenant"), Name: fmt.Sprint(i),
				Exchanges: []sample.Exchange{userExchange("chat", w)},
				Rewarded:  rapid.Bool().Draw(t, "rewarded"), Reward: float64(rapid.IntRange(0, 4).Draw(t, "reward")) / 4,
			})
		}
		paged, listed := lessonWithKeywords("a-b", "load more"), lessonWithKeywords("c-d", "rows", "list")
		paged.Trigger.NotKeywords = []string{"dry run"}
		listed.Scope = lesson.Scope{Tenant: "acme"}
		results := func(order []*backtest.Session, lessons ...*lesson.Lesson) []backtest.Result {
			run := backtest.New(lessons, nil)
			for _, s := range order {
				run.Add(s)
			}
			out := run.Results()
			for i := range out {
				slices.Sort(out[i].Examples)
				slices.Sort(out[i].NearMisses.Examples)
			}
			return out
		}
		want := results(sessions, paged, listed)
		if got := results(rapid.Permutation(sessions).Draw(t, "order"), listed, paged); !reflect.DeepEqual(got, want) {
			t.Fatalf("results in a different order = %+v, want %+v", got, want)
		}
		if alone := results(sessions, listed); !reflect.DeepEqual(alone, want[1:]) {
			t.Fatalf("results without the other lesson = %+v, want %+v", alone, want[1:])
		}
	})
}
