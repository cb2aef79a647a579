package lesson

import (
	"maps"
	"slices"
)

// Tagger adds a tag to a query if one of the tag's phrases matches like a keyword. The tags key in the configuration
// sets the tags and their phrases.
type Tagger struct{ book *Book }

// NewTagger returns a Tagger. rules holds phrases by tag.
func NewTagger(rules map[string][]string) *Tagger {
	lessons := make([]*Lesson, 0, len(rules))
	for _, tag := range slices.Sorted(maps.Keys(rules)) {
		lessons = append(lessons, &Lesson{Slug: tag, State: Active, Trigger: Trigger{Keywords: rules[tag]}})
	}
	return &Tagger{NewBook(lessons)}
}

// Tag adds tags to the query and to each error text. A nil Tagger adds none.
func (t *Tagger) Tag(q *Query) {
	if t == nil || t.book.Len() == 0 {
		return
	}
	q.Tags = t.tags(q.Tags, &Query{Words: q.Words})
	for i := range q.Errors {
		e := &q.Errors[i]
		e.Tags = t.tags(e.Tags, &Query{Words: []string{e.Text}})
	}
}

func (t *Tagger) tags(have []string, q *Query) []string {
	out := slices.Clip(have) // so that the caller's list does not change
	for _, h := range t.book.Match(q) {
		if !slices.Contains(out, h.Lesson.Slug) {
			out = append(out, h.Lesson.Slug)
		}
	}
	return out
}
