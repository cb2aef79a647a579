package lesson

import (
	"slices"
	"testing"
)

// A request kind, such as a release, covers requests with different wordings.
func TestLessonMatchesSameKindRequests(t *testing.T) {
	newLesson := func(slug string, keywords ...string) *Lesson {
		return &Lesson{Slug: slug, Title: "Follow the checklist of " + slug + ".", State: Active, Trigger: Trigger{Keywords: keywords, ByLikeness: true}}
	}
	release := newLesson("release-checklist", "cut a release", "publish the new version")
	fonts := newLesson("pdf-fonts", "publish the new version", "embed the fonts", "generate a pdf", "export as pdf") // only one of four keywords has a request kind
	b := NewBook([]*Lesson{release, fonts}).WithLikeness(capturedTraffic(t, enoughSessions), matchRate)
	slugs := func(text string) (out []string) {
		for _, h := range b.Match(&Query{Words: []string{text}}) {
			out = append(out, h.Lesson.Slug)
		}
		return out
	}
	if got := slugs("3.1.0 should go out to everybody today"); !slices.Equal(got, []string{release.Slug}) {
		t.Errorf("release request matches %v, want %s", got, release.Slug)
	}
	if got := slugs("the colour of the invoices is odd"); len(got) > 0 {
		t.Errorf("unrelated request matches %v, want no lesson", got)
	}
	if got := phraseKinds(fonts); len(got) > 0 {
		t.Errorf("phraseKinds(fonts) = %v, want none", got)
	}
}
