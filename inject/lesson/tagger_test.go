package lesson_test

import (
	"slices"
	"testing"
	"time"

	"precept/inject/lesson"
)

func TestTaggerAddsTagsThatLessonsMatch(t *testing.T) {
	tagger := lesson.NewTagger(map[string][]string{"deploy": {"kubectl", "helm upgrade"}, "disk": {"no space left"}})
	newLesson := func(tag string) *lesson.Lesson {
		return &lesson.Lesson{Slug: "on-" + tag, State: lesson.Active, Trigger: lesson.Trigger{Tags: []string{tag}}}
	}
	book := lesson.NewBook([]*lesson.Lesson{newLesson("deploy"), newLesson("disk")})
	for _, tc := range []struct {
		what  string
		query lesson.Query
		hits  []string
	}{
		{"no tag", lesson.Query{Words: []string{"hello"}}, nil},
		{"word in user text", lesson.Query{Words: []string{"Please KUBECTL apply it"}}, []string{"on-deploy "}},
		{"phrase", lesson.Query{Words: []string{"run helm   upgrade"}}, []string{"on-deploy "}},
		{"partial phrase", lesson.Query{Words: []string{"an upgrade"}}, nil},
		{"error", lesson.Query{Errors: []lesson.ErrorText{{CallID: "c1", Text: "write: no space left on device"}}}, []string{"on-disk c1"}},
		{"two errors", lesson.Query{Errors: []lesson.ErrorText{{CallID: "c1", Text: "no space left"}, {CallID: "c2", Text: "no space left"}}}, []string{"on-disk c2"}},
		{"client tag and user text tag", lesson.Query{Tags: []string{"disk"}, Words: []string{"kubectl"}}, []string{"on-deploy ", "on-disk "}},
	} {
		q := tc.query
		tagger.Tag(&q)
		var hits []string
		for _, h := range book.Match(&q) {
			hits = append(hits, h.Lesson.Slug+" "+h.CallID)
		}
		if !slices.Equal(hits, tc.hits) {
			t.Errorf("%s: matches = %q, want %q", tc.what, hits, tc.hits)
		}
	}
	var none *lesson.Tagger
	none.Tag(&lesson.Query{Words: []string{"kubectl"}}) // must not panic
}

func TestLessonMatchesOnlyWithinItsScope(t *testing.T) {
	now := time.Date(2031, 1, 1, 0, 0, 0, 0, time.UTC)
	scopedLesson := func(slug string, s lesson.Scope, supersedes ...string) *lesson.Lesson {
		return &lesson.Lesson{Slug: slug, State: lesson.Active, Scope: s, Supersedes: supersedes, Trigger: lesson.Trigger{Keywords: []string{"load more"}}}
	}
	book := lesson.NewBook([]*lesson.Lesson{
		scopedLesson("all", lesson.Scope{}), scopedLesson("acme", lesson.Scope{Tenant: "acme"}), scopedLesson("coder", lesson.Scope{Tenant: "acme", Agent: "coder"}, "all"),
	})
	for _, tc := range []struct {
		tenant, agent string
		want          []string
	}{
		{"", "", []string{"all"}},
		{"other", "coder", []string{"all"}},
		{"acme", "x", []string{"acme", "all"}},
		{"acme", "coder", []string{"acme", "coder"}}, // for this agent, "coder" supersedes "all"
	} {
		var got []string
		for _, h := range book.Match(&lesson.Query{Words: []string{"load more"}, Tenant: tc.tenant, Agent: tc.agent, Now: now}) {
			got = append(got, h.Lesson.Slug)
		}
		if !slices.Equal(got, tc.want) {
			t.Errorf("tenant %q, agent %q: matches = %q, want %q", tc.tenant, tc.agent, got, tc.want)
		}
	}
	a, b := scopedLesson("one", lesson.Scope{}), scopedLesson("one", lesson.Scope{Tenant: "acme"})
	if a.Hash() == b.Hash() {
		t.Error("two scopes: got equal hashes, want different hashes")
	}
}

func TestFiredTriggersListsMatchedTriggers(t *testing.T) {
	l := &lesson.Lesson{Trigger: lesson.Trigger{Keywords: []string{"load more", "never"}, ErrorPatterns: []string{"E42"}, Tags: []string{"web"}}}
	q := lesson.Query{Words: []string{"LOAD  MORE of it, E42"}, Tags: []string{"web"}, Errors: []lesson.ErrorText{{Text: "fails with e42"}}}
	if got := l.FiredTriggers(&q); !slices.Equal(got, []string{"load more", "web", "E42"}) {
		t.Errorf(`FiredTriggers = %q, want ["load more", "web", "E42"]`, got)
	}
	q.Errors = nil // an error pattern does not match the user text
	if got := l.FiredTriggers(&q); !slices.Equal(got, []string{"load more", "web"}) {
		t.Errorf(`FiredTriggers without the error = %q, want ["load more", "web"]`, got)
	}
}
