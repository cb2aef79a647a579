package lesson

import (
	"slices"
	"strings"
	"testing"
)

// The requests of related.tsv share few words with their lessons. Likeness finds most of them by related terms, such as
// "takes forever" for "slow".
func TestRelatedTermsFindParaphrasesWithoutCommonWords(t *testing.T) {
	const lessons = 40 // of one book
	all := paraphrasesOf(t, "related.tsv")
	found, others, fired := 0, 0, 0
	for part := range slices.Chunk(all, lessons) {
		var list []*Lesson
		for _, p := range part {
			list = append(list, p.lesson)
		}
		b := NewBook(list).WithLikeness(capturedTraffic(t, 210), 0.005)
		for _, p := range part {
			for _, h := range b.Match(&Query{Words: []string{p.words}}) {
				if h.Lesson == p.lesson {
					found++
				} else {
					others++
				}
			}
		}
		for _, r := range linesOf(t, "likeness_requests.txt") {
			for _, h := range b.Match(&Query{Words: []string{r}}) {
				if h.Like != nil && len(h.Like.Words) == 0 {
					fired++
				}
			}
		}
	}
	if 100*found < 45*len(all) || 100*others > 20*len(all) || fired > 4 {
		t.Errorf("got %d of %d requests that match their lesson, %d matches of other lessons, and %d matches of unrelated requests without a shared word; want at least 45%%, at most 20%%, and at most 4", found, len(all), others, fired)
	}
}

func TestRelatedTermCountsLessThanTheWordItself(t *testing.T) {
	l := &Lesson{Slug: "profile-first", Title: "Profile before a change.", State: Active, Trigger: Trigger{Keywords: []string{"slow import"}, Like: true}}
	x := NewBook([]*Lesson{l}).WithLikeness(capturedTraffic(t, 210), 0.005).like
	score := func(text string) float32 {
		s := x.newScratch()
		s.left = likeWork
		for w := range windowsOf(text) {
			for _, of := range x.score(s, w.stems, fromWords) {
				return of.score
			}
		}
		return 0
	}
	equal, related, other := score("the import is slow"), score("the import takes forever"), score("the import is green")
	if !(equal > related && related > other) {
		t.Errorf("got scores %.2f of the word, %.2f of a related phrase and %.2f of another word, want a descending order", equal, related, other)
	}
}

func TestShapesOfNumbersAndFiles(t *testing.T) {
	for field, want := range map[string]string{
		"2.4": "{version}", "v3": "{version}", "(1.2.13)": "{version}", "50ms": "{duration}", "30%": "{percent}", "3GB": "{size}", "3am": "{clock}", "14:30": "{clock}",
		"2026-01-31": "{date}", "$20": "{money}", "20€": "{money}", "503": "{status}", "src/main.py": ".py", "17": "", "word": "", "1000": "", "": "",
	} {
		if got := shapeOf(field); got != want {
			t.Errorf("%q has shape %q, want %q", field, got, want)
		}
	}
}

// Each group of related terms has at least two terms and none twice, and each term has a token that the stems of a text
// can have. Otherwise a term would never match.
func TestEachRelatedTermCanMatch(t *testing.T) {
	for line := range strings.Lines(relatedLines) {
		line = strings.TrimSpace(line)
		if line == "" || line[0] == '#' {
			continue
		}
		terms := strings.Split(line, ", ")
		if len(terms) < 2 {
			t.Errorf("group %q has one term, want at least 2", line)
		}
		for i, term := range terms {
			if slices.Contains(terms[:i], term) {
				t.Errorf("the group of %q repeats %q, want each term once", terms[0], term)
			}
			if stems := stemsOf(strings.Trim(term, "{}")); term[0] != '{' && term[0] != '.' && !slices.Contains(stems, related().token(term)) {
				t.Errorf("the group of %q: term %q has stems %q, want token %q among them", terms[0], term, stems, related().token(term))
			}
		}
	}
}
