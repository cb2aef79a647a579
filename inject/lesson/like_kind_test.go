package lesson

import (
	"slices"
	"testing"
)

// A lesson whose keywords have a kind of request resembles requests of this kind in other words.
func TestLessonsResembleRequestsOfTheirKind(t *testing.T) {
	lesson := func(slug string, keywords ...string) *Lesson {
		return &Lesson{Slug: slug, Title: "Follow the checklist of " + slug + ".", State: Active, Trigger: Trigger{Keywords: keywords, Like: true}}
	}
	release := lesson("release-checklist", "cut a release", "publish the new version")
	fonts := lesson("pdf-fonts", "publish the new version", "embed the fonts", "generate a pdf", "export as pdf") // one of four keywords has a kind
	b := NewBook([]*Lesson{release, fonts}).WithLikeness(captured(t, 210), 0.005)
	slugs := func(words string) (out []string) {
		for _, h := range b.Match(&Query{Words: []string{words}}) {
			out = append(out, h.Lesson.Slug)
		}
		return out
	}
	if got := slugs("3.1.0 should go out to everybody today"); !slices.Equal(got, []string{release.Slug}) {
		t.Errorf("a request for a release fires %v, want %s", got, release.Slug)
	}
	if got := slugs("the colour of the invoices is odd"); len(got) > 0 {
		t.Errorf("a request of another kind fires %v, want no lesson", got)
	}
	if got := phraseKinds(fonts); len(got) > 0 {
		t.Errorf("the lesson about fonts has the kinds %v, want none", got)
	}
}
