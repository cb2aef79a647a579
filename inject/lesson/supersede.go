package lesson

import (
	"fmt"
	"slices"
)

// supersedersBySlug returns, for each slug, the lessons that supersede it, directly or through other lessons. These
// other lessons may be inactive. Lessons in a circle do not supersede each other.
func supersedersBySlug(lessons []*Lesson, bySlug map[string]*Lesson) map[string][]*Lesson {
	direct := map[string][]string{}
	for _, l := range lessons {
		for _, old := range l.Supersedes {
			if _, ok := bySlug[old]; ok {
				direct[old] = append(direct[old], l.Slug)
			}
		}
	}
	reach := make(map[string][]string, len(direct))
	for slug := range direct {
		reach[slug] = reachable(slug, direct)
	}
	superseding := make(map[string][]*Lesson, len(direct))
	for slug, newer := range reach {
		for _, n := range newer {
			if !slices.Contains(reach[n], slug) {
				superseding[slug] = append(superseding[slug], bySlug[n])
			}
		}
	}
	return superseding
}

// reachable returns the sorted nodes that start leads to. start itself is included only if it is part of a circle.
func reachable(start string, edges map[string][]string) []string {
	seen := map[string]bool{}
	stack := slices.Clone(edges[start])
	var out []string
	for len(stack) > 0 {
		s := stack[len(stack)-1]
		stack = stack[:len(stack)-1]
		if seen[s] {
			continue
		}
		seen[s] = true
		out = append(out, s)
		stack = append(stack, edges[s]...)
	}
	slices.Sort(out)
	return out
}

// circularSlugs returns the slugs of the lessons that supersede themselves, directly or through others.
func circularSlugs(lessons []*Lesson) []string {
	edges := map[string][]string{}
	for _, l := range lessons {
		edges[l.Slug] = l.Supersedes
	}
	var out []string
	for _, l := range lessons {
		if len(l.Supersedes) > 0 && slices.Contains(reachable(l.Slug, edges), l.Slug) {
			out = append(out, l.Slug)
		}
	}
	slices.Sort(out)
	return out
}

// linkErrors returns a fault for each unknown slug that l supersedes, and a fault if l is part of a circle. circular
// comes from circularSlugs.
func (b *Book) linkErrors(l *Lesson, circular []string) []ValidationError {
	var out []ValidationError
	for i, old := range l.Supersedes {
		if b.bySlug[old] == nil && !b.Archived(old) && old != l.Slug {
			out = append(out, ValidationError{
				Code: CodeSupersedes, Field: fmt.Sprintf("supersedes[%d]", i),
				Message: fmt.Sprintf("there is no lesson %q; correct the slug or remove it", old),
			})
		}
	}
	if slices.Contains(circular, l.Slug) {
		out = append(out, ValidationError{
			Code: CodeInvalid, Field: "supersedes",
			Message: "the lesson supersedes itself, directly or through other lessons; remove one of these links",
		})
	}
	return out
}
