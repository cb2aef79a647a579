package lesson

import (
	"strings"
	"unicode/utf8"
)

// isGptme recognises the gptme form: no schema, but a match or a status.
func isGptme(n *node) bool {
	if _, ok := n.get("schema"); ok {
		return false
	}
	_, match := n.get("match")
	_, status := n.get("status")
	return match || status
}

// gptme reads the gptme form: match.keywords and status in the frontmatter, all other fields in the
// markdown. Unknown keys are ignored, because the foreign format evolves; known keys are checked.
func (r *reader) gptme(l *Lesson, n *node) {
	l.Form = FormGptme
	l.Slug = slugFromPath(l.Path)
	if !IsSlug(l.Slug) {
		r.invalid("", 0, "the file name %q gives no slug; name the file in letters, digits and dashes", l.Path)
	}
	if m := r.mapping("", n, "match", false); m != nil {
		l.Trigger.Keywords = r.texts("match", m, "keywords", maxPhrases, maxPhrase, notBlank, "a phrase")
	}
	l.State = r.status(n)
	r.metadata(l, n)
	l.Title = firstTitle(l.Body)
	if l.Title == "" {
		l.Title = strings.ReplaceAll(l.Slug, "-", " ")
	}
	l.Title = clip(l.Title, maxTitle)
	l.Trigger.Description = clip(section(l.Body, isHeading("context")), maxDescription)
	l.Outcome = "mixed" // the form does not say
	l.Confidence = defaultConfidence
	l.Advice = strings.TrimSpace(section(l.Body, isHeading("rule")) + "\n" + section(l.Body, isHeading("pattern")))
}

func (r *reader) status(n *node) State {
	v, ok := n.get("status")
	if !ok {
		return Active
	}
	if v.kind == kindString {
		switch v.text {
		case "active":
			return Active
		case "automated", "deprecated", "archived": // automated: a tool enforces the lesson, so agents need no advice
			return Archived
		}
	}
	r.invalid("status", v.line, "is not a status; write active, automated, deprecated or archived")
	return Active
}

func clip(s string, runes int) string {
	if utf8.RuneCountInString(s) <= runes {
		return s
	}
	return string([]rune(s)[:runes])
}
