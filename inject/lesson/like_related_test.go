package lesson

import (
	"slices"
	"strings"
	"testing"
)

// The requests in the test data share few words with the lessons, but use related terms, such as "takes forever" for
// "slow".
func TestRelatedTermsMatchParaphrasesWithoutCommonWords(t *testing.T) {
	const lessons = 40
	all := readParaphrases(t, "related.tsv")
	found, others, fired := 0, 0, 0
	for part := range slices.Chunk(all, lessons) {
		var list []*Lesson
		for _, p := range part {
			list = append(list, p.lesson)
		}
		b := NewBook(list).WithLikeness(capturedTraffic(t, enoughSessions), matchRate)
		for _, p := range part {
			for _, h := range b.Match(&Query{Words: []string{p.text}}) {
				if h.Lesson == p.lesson {
					found++
				} else {
					others++
				}
			}
		}
		for _, r := range readLines(t, "likeness_requests.txt") {
			for _, h := range b.Match(&Query{Words: []string{r}}) {
				if h.Resemblance != nil && len(h.Resemblance.Words) == 0 {
					fired++
				}
			}
		}
	}
	if 100*found < 45*len(all) || 100*others > 20*len(all) || fired > 4 {
		t.Errorf("%d of %d requests match the right lesson, want at least 45%%; %d match other lessons, want at most 20%%; %d unrelated requests match without a shared word, want at most 4", found, len(all), others, fired)
	}
}

func TestRelatedTermScoresLessThanSameWord(t *testing.T) {
	l := &Lesson{Slug: "profile-first", Title: "Profile before a change.", State: Active, Trigger: Trigger{Keywords: []string{"slow import"}, ByLikeness: true}}
	x := NewBook([]*Lesson{l}).WithLikeness(capturedTraffic(t, enoughSessions), matchRate).like
	score := func(text string) float32 {
		s := x.newScratch()
		s.budget = maxLikeWork
		for w := range splitWindows(text) {
			for _, match := range x.score(s, w.stems, fromWords) {
				return match.score
			}
		}
		return 0
	}
	equal, related, other := score("the import is slow"), score("the import takes forever"), score("the import is green")
	if !(equal > related && related > other) {
		t.Errorf("scores: word %.2f, related phrase %.2f, another word %.2f, want descending scores", equal, related, other)
	}
}

func TestWordShapeReturnsPlaceholderOrExtension(t *testing.T) {
	for field, want := range map[string]string{
		"2.4": "{version}", "v3": "{version}", "(1.2.13)": "{version}", "50ms": "{duration}", "30%": "{percent}", "3GB": "{size}", "3am": "{clock}", "14:30": "{clock}",
		"2026-01-31": "{date}", "$20": "{money}", "20€": "{money}", "503": "{status}", "src/main.py": ".py", "17": "", "word": "", "1000": "", "": "",
	} {
		if got := wordShape(field); got != want {
			t.Errorf("wordShape(%q) = %q, want %q", field, got, want)
		}
	}
}

// A term in related.txt matches only texts with the term's token among the stems.
func TestEachRelatedTermCanMatch(t *testing.T) {
	for line := range strings.Lines(relatedLines) {
		line = strings.TrimSpace(line)
		if line == "" || line[0] == '#' {
			continue
		}
		terms := strings.Split(line, ", ")
		if len(terms) < 2 {
			t.Errorf("group %q has only one term", line)
		}
		for i, term := range terms {
			if slices.Contains(terms[:i], term) {
				t.Errorf("group with %q repeats %q", terms[0], term)
			}
			if stems := textStems(strings.Trim(term, "{}")); term[0] != '{' && term[0] != '.' && !slices.Contains(stems, related().addTerm(term)) {
				t.Errorf("group with %q: term %q: stems = %q, want token %q among them", terms[0], term, stems, related().addTerm(term))
			}
		}
	}
}
