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

// resultOf returns the result of a backtest of one lesson over sessions, one for each text of a user.
func resultOf(l *lesson.Lesson, tagger *lesson.Tagger, words ...string) backtest.Result {
	run := backtest.New([]*lesson.Lesson{l}, tagger)
	for i, w := range words {
		run.Add(&backtest.Session{Tenant: "default", Name: fmt.Sprint(i), Exchanges: []sample.Exchange{userExchange("chat", w)}})
	}
	return run.ResultOf(l.Slug)
}

// A captured session names its agent, but no role and no skill. So a target by role or skill is assumed to match. One
// of several targets suffices.
func TestTargetsByRoleOrSkillAreAssumedToMatch(t *testing.T) {
	for _, c := range []struct {
		name    string
		targets []lesson.Target
		matches bool
	}{
		{"no target", nil, true},
		{"the agent", []lesson.Target{{Operator: "cod*"}}, true},
		{"another agent", []lesson.Target{{Operator: "writer"}}, false},
		{"a role", []lesson.Target{{Role: "reviewer"}}, true},
		{"the agent in a role", []lesson.Target{{Operator: "coder", Role: "reviewer"}}, true},
		{"another agent in a role", []lesson.Target{{Operator: "writer", Role: "reviewer"}}, false},
		{"another agent, or a skill", []lesson.Target{{Operator: "writer"}, {Skill: "pdf"}}, true},
		{"a skill, or another agent", []lesson.Target{{Skill: "pdf"}, {Operator: "writer"}}, true},
		{"another agent, or this one", []lesson.Target{{Operator: "writer"}, {Operator: "coder"}}, true},
	} {
		l := lessonWithKeywords("a-b", "load more")
		l.Trigger.Targets = c.targets
		if r := resultOf(l, nil, "load more"); r.Fired == 1 != c.matches {
			t.Errorf("%s: the lesson matched in %d sessions, want a match: %t", c.name, r.Fired, c.matches)
		}
	}
}

// The first and the last 32 KiB of a longer message are searched. Truncated items and exchanges of an unknown
// dialect are skipped.
func TestBeginningAndEndOfMessagesAreSearched(t *testing.T) {
	filler := strings.Repeat("some other words ", 64<<10/17)
	for _, c := range []struct {
		name, words string
		matches     bool
	}{
		{"the beginning", "load more " + filler + filler, true},
		{"the end", filler + filler + " load more", true},
		{"the middle", filler + " load more " + filler, false},
		{"the middle of a message of 64 KiB", filler[:32<<10-6] + " load more " + filler[:32<<10-5], true},
		{"the middle of a message of 64 KiB and 2 bytes", filler[:32<<10-6] + " load more " + filler[:32<<10-3], false},
	} {
		if r := resultOf(lessonWithKeywords("a-b", "load more"), nil, c.words); r.Fired == 1 != c.matches {
			t.Errorf("%s: the lesson matched in %d sessions, want a match: %t", c.name, r.Fired, c.matches)
		}
	}
	cut := userExchange("chat", "load more")
	cut.New = append([]json.RawMessage{json.RawMessage(`{"role":"user","content":"was c`)}, cut.New...)
	if qs := backtest.Queries([]sample.Exchange{cut}); len(qs) != 1 || !slices.Equal(qs[0].Words, []string{"load more"}) {
		t.Errorf("next to a truncated item the queries are %+v, want one with the words \"load more\"", qs)
	}
	unknown := userExchange("telnet", "load more")
	if qs := backtest.Queries([]sample.Exchange{unknown}); len(qs) != 0 {
		t.Errorf("an unknown dialect: got queries %+v, want none", qs)
	}
}

// The tools that a request offers are not stored. A lesson for some tools matches a session in which one of these tools
// was called, before or after the phrase.
func TestLessonForToolsMatchesCalledTools(t *testing.T) {
	l := lessonWithKeywords("a-b", "load more")
	l.Trigger.Tools = []string{"browser_*"}
	first, second := userExchange("chat", "load more"), userExchange("chat", "thanks")
	for tool, want := range map[string]int{"browser_click": 1, "shell": 0} {
		first.Reply.Calls = []sample.Call{{ID: "c1", Name: tool, Args: "{}"}}
		for _, xs := range [][]sample.Exchange{{first, second}, {second, first}} {
			run := backtest.New([]*lesson.Lesson{l}, nil)
			run.Add(&backtest.Session{Tenant: "default", Exchanges: xs})
			if r := run.ResultOf("a-b"); r.Fired != want {
				t.Errorf("%s: the lesson matched in %d sessions, want %d", tool, r.Fired, want)
			}
		}
	}
}

// A phrase counts once for a session, however many turns contain the phrase.
func TestWordsOfAllTurnsCountOnce(t *testing.T) {
	l := lessonWithKeywords("a-b", "load more", "page id", "never said")
	run := backtest.New([]*lesson.Lesson{l}, nil)
	if r := run.ResultOf("a-b"); r.Sessions != 0 || r.Fired != 0 || r.Rewards.Rest != nil || len(r.Silent) != 3 {
		t.Errorf("without a session the result is %+v, want zeros and three phrases without a match", r)
	}
	run.Add(&backtest.Session{Tenant: "default", Exchanges: []sample.Exchange{userExchange("chat", "load more"), userExchange("chat", "the page id"), userExchange("chat", "load more")}})
	r := run.ResultOf("a-b")
	if want := []backtest.Word{{Word: "load more", Sessions: 1}, {Word: "page id", Sessions: 1}}; r.Fired != 1 || !slices.Equal(r.Words, want) || !slices.Equal(r.Silent, []string{"never said"}) {
		t.Errorf(`the result is %+v, want one match, words %+v and the phrase "never said" without a match`, r, want)
	}
}

// A result is classified by its call, which may be in the same turn. A successful result is not an error.
func TestResultIsClassifiedByItsCall(t *testing.T) {
	turn := func(name, args, result string) sample.Exchange {
		call, _ := json.Marshal(map[string]any{"id": "c1", "type": "function", "function": map[string]any{"name": name, "arguments": args}})
		text, _ := json.Marshal(result)
		return sample.Exchange{Dialect: "chat", New: []json.RawMessage{
			json.RawMessage(`{"role":"assistant","content":null,"tool_calls":[` + string(call) + `]}`), json.RawMessage(`{"role":"tool","tool_call_id":"c1","content":` + string(text) + `}`),
		}}
	}
	qs := backtest.Queries([]sample.Exchange{turn("shell", `{"command":"make"}`, "make: *** no rule\nexit code: 2")})
	if len(qs) != 1 || len(qs[0].Errors) != 1 || qs[0].Errors[0].Tool != "shell" {
		t.Errorf("a call of the same turn gives queries %+v, want one error of the tool shell", qs)
	}
	if qs := backtest.Queries([]sample.Exchange{turn("shell", `{"command":"make"}`, "built\nexit code: 0")}); len(qs) != 0 {
		t.Errorf("a successful call gives queries %+v, want none", qs)
	}
}

// Tags of the configuration match, and count as words of the lesson.
func TestTagsOfTheConfigurationMatch(t *testing.T) {
	l := &lesson.Lesson{Slug: "a-b", Trigger: lesson.Trigger{Tags: []string{"deploy", "cloud"}}}
	tagger := lesson.NewTagger(map[string][]string{"deploy": {"helm upgrade", "kubectl apply"}})
	r := resultOf(l, tagger, "please helm upgrade it", "helm", "kubectl apply -f x; the cloud is grey")
	if want := []backtest.Word{{Word: "deploy", Sessions: 2}, {Word: "cloud", Sessions: 1}}; r.Fired != 2 || !slices.Equal(r.Words, want) || len(r.Silent) != 0 {
		t.Errorf("with a tagger the result is %+v, want 2 matches by %+v and no tag without a match", r, want)
	}
	if r := resultOf(l, nil, "helm upgrade"); r.Fired != 0 || !slices.Equal(r.Silent, []string{"deploy", "cloud"}) {
		t.Errorf("without a tagger the result is %+v, want no match and both tags without a match", r)
	}
}

// A text with all words of a keyword is a near miss, in any case, order and distance. Numbers are words. A text
// with some of the words, or with a match, is not a near miss.
func TestScatteredWordsAreANearMiss(t *testing.T) {
	for _, c := range []struct {
		keyword, words string
		near           bool
	}{
		{"error 404", "a 404, which is an ERROR", true},
		{"error 404", "an error", false},
		{"error 404", "error 4040", false},
		{"error 404", "error 404, and 404 is the error", false},
		{"naïve café", "the café is naïve", true},
		{"the", "the one", false}, // a stop word, which is not searched
	} {
		if r := resultOf(lessonWithKeywords("a-b", c.keyword), nil, c.words); r.Near.Sessions == 1 != c.near {
			t.Errorf("%q in %q: the near misses are %+v, want one: %t", c.keyword, c.words, r.Near, c.near)
		}
	}
	near := make([]string, 14)
	for i := range near {
		near[i] = "more of the load"
	}
	r := resultOf(lessonWithKeywords("a-b", "load more"), nil, near...)
	if r.Near.Sessions != 14 || len(r.Near.Examples) != 10 || r.Near.Why[0].Sessions != 14 {
		t.Errorf("the near misses are %+v, want 14 with one reason and 10 examples", r.Near)
	}
}

// Results lists the lessons by slug, with the number of sessions of the lesson's tenant and the mean rewards. A mean is
// null without a rewarded session. Matches returns the same counts.
func TestResultsListLessonsWithMeanRewards(t *testing.T) {
	all, own := lessonWithKeywords("b-all", "load more"), lessonWithKeywords("a-own", "load more")
	own.Scope.Tenant = "red"
	run := backtest.New([]*lesson.Lesson{all, own}, nil)
	for i, tenant := range []string{"red", "blue", "red"} {
		run.Add(&backtest.Session{Tenant: tenant, Name: fmt.Sprint(i), Exchanges: []sample.Exchange{userExchange("chat", "load more")}, Rewarded: tenant == "red", Reward: float64(i) / 2})
	}
	list := run.Results()
	if len(list) != 2 || list[0].Slug != "a-own" || list[1].Slug != "b-all" || run.Sessions() != 3 {
		t.Fatalf("the results are %+v of %d sessions, want a-own and b-all of 3", list, run.Sessions())
	}
	for i, want := range []int{2, 3} {
		if fired, sessions := run.Matches([]*lesson.Lesson{own, all}[i]); fired != want || sessions != want {
			t.Errorf("%s matched in %d of %d sessions, want %d of %[4]d", list[i].Slug, fired, sessions, want)
		}
		if w := list[i].Rewards; *w.Fired != 0.5 || w.RewardedFired != 2 || w.Rest != nil || w.RewardedRest != 0 {
			t.Errorf("%s: the mean rewards are %+v, want 0.5 of 2 matches and none of the rest", list[i].Slug, w)
		}
	}
}

// The result depends on the lessons and the sessions alone: any order gives the same counts, and
// other lessons do not change the matches of a lesson.
func TestBacktestIgnoresTheOrderOfSessions(t *testing.T) {
	phrases := []string{"load more", "more to load", "load more, as a dry run", "nothing of it", "list the rows"}
	rapid.Check(t, func(t *rapid.T) {
		words := rapid.SliceOfN(rapid.SampledFrom(phrases), 0, 9).Draw(t, "words") // at most nine sessions, so that each session is an example
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
				slices.Sort(out[i].Near.Examples)
			}
			return out
		}
		want := results(sessions, paged, listed)
		if got := results(rapid.Permutation(sessions).Draw(t, "order"), listed, paged); !reflect.DeepEqual(got, want) {
			t.Fatalf("in another order the results are %+v, want %+v", got, want)
		}
		if alone := results(sessions, listed); !reflect.DeepEqual(alone, want[1:]) {
			t.Fatalf("without the other lesson the results are %+v, want %+v", alone, want[1:])
		}
	})
}
