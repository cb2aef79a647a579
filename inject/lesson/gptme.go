package lesson

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
	"unicode/utf8"
)

// isGptme reports whether the frontmatter has a "match" or "status" key, but no "schema" key.
func isGptme(n *node) bool {
	if _, ok := n.get("schema"); ok {
		return false
	}
	_, match := n.get("match")
	_, status := n.get("status")
	return match || status
}

// readGptme reads the gptme form: match.keywords, status, and fields in the markdown. Unknown keys are ignored, because
// gptme may add keys.
func (r *reader) readGptme(l *Lesson, n *node) {
	l.Form = FormGptme
	l.Slug = slugFromPath(l.Path)
	if !IsSlug(l.Slug) {
		r.addInvalid("", 0, "the file name %q cannot be used as a slug; name the file with %d to %d letters, digits and dashes, starting with a letter", l.Path, minSlug, maxSlug)
	}
	if m := r.mapping("", n, "match", false); m != nil {
		l.Trigger.Keywords = r.textList("match", m, "keywords", maxListEntries, maxPhraseChars, isNotBlank, "a phrase")
	}
	l.State = r.status(n)
	r.readMetadata(l, n)
	l.Title = firstTitle(l.Body)
	if l.Title == "" {
		l.Title = strings.ReplaceAll(l.Slug, "-", " ")
	}
	l.Title = clipRunes(l.Title, maxTitle)
	l.Trigger.Description = clipRunes(section(l.Body, isHeading("context")), maxDescription)
	l.Outcome = "mixed" // the form has no outcome
	l.Confidence = defaultConfidence
	l.Advice = strings.TrimSpace(section(l.Body, isHeading("rule")) + "\n" + section(l.Body, isHeading("pattern")))
	if l.Advice == "" {
		l.Advice = unsectionedText(l.Body)
	}
}

// gptmeFields returns pairs of field names: the name in the AIP-11 form, then the name in the gptme form.
func gptmeFields() []string {
	return []string{
		"trigger.metadata.precept.keywords", "match.keywords", "trigger.description", "# Context", "trigger", "match",
		"title", "# (title)", "slug", "(file name)",
	}
}

// fieldName returns the name of an AIP-11 field in form f.
func (f Form) fieldName(name string) string {
	if f != FormGptme {
		return name
	}
	names := gptmeFields()
	for i := 0; i < len(names); i += 2 {
		if rest, ok := strings.CutPrefix(name, names[i]); ok && (rest == "" || rest[0] == '[') {
			return names[i+1] + rest
		}
	}
	return name
}

func (f Form) adviceSection() string {
	if f == FormGptme {
		return "Rule"
	}
	return "What to do (or avoid)"
}

func (f Form) narrowingRemedy() string {
	if f == FormGptme {
		return "narrow the keywords"
	}
	return "narrow the keywords, or add not_keywords"
}

// unreadKeyFindings reports the keys under match that precept does not read. In gptme, these keys decide when a lesson
// is shown.
func unreadKeyFindings(l *Lesson) (out []Finding) {
	front, _, _ := splitFrontmatter(l.Raw)
	if l.Form != FormGptme || front == "" {
		return nil
	}
	root, _ := readYAML(strings.ReplaceAll(front, "\r\n", "\n"))
	match, _ := root.get("match")
	if match == nil {
		return nil
	}
	for i := range match.keys {
		switch key := match.keys[i].key; key {
		case "keywords":
		case "patterns":
			out = append(out, newFinding(l, Warning, codeUnread, "match.patterns",
				"precept does not read regular expressions; write the fixed words of each one into match.keywords, with * for any single word"))
		case "tools":
			out = append(out, newFinding(l, Warning, codeUnread, "match.tools",
				"precept does not read this key; write words from the tool's errors into match.keywords, or convert the lesson to %s, which has a key tools", schemaID))
		default:
			out = append(out, newFinding(l, Warning, codeUnread, "match."+key, "precept does not read this key, so the key does not restrict the lesson"))
		}
	}
	return out
}

// TranslateFindings turns findings about a lesson that was converted to the AIP-11 form into findings about the
// original file. It uses the field names of the original form, and adds findings for unread keys.
func TranslateFindings(original *Lesson, findings []Finding) []Finding {
	out := unreadKeyFindings(original)
	for _, f := range findings {
		f.Field = original.Form.fieldName(f.Field)
		out = append(out, f)
	}
	return out
}

// KeepsForm reports whether a lesson must stay in the gptme form, because a keyword such as "git * push" has a
// different meaning in the AIP-11 form.
func (l *Lesson) KeepsForm() bool {
	return l.Form == FormGptme && slices.ContainsFunc(l.Trigger.Keywords, holdsLiteralStar)
}

// GptmeText returns a lesson in the gptme form, without statistics, state and approval. A literal * is written as a
// regular expression, because a * in a gptme keyword is a wildcard.
func GptmeText(l *Lesson) ([]byte, error) {
	var keywords, patterns []string
	for _, phrase := range slices.Concat(l.Trigger.Keywords, l.Trigger.ErrorPatterns, l.Trigger.Tags) {
		if l.Form != FormGptme && holdsLiteralStar(phrase) {
			patterns = append(patterns, regexp.QuoteMeta(phrase))
			continue
		}
		keywords = append(keywords, phrase)
	}
	match := node{kind: kindMap}
	for key, list := range map[string]*node{"keywords": textListNode(keywords), "patterns": textListNode(patterns)} {
		if list != nil {
			match.keys = append(match.keys, pair{key: key, val: *list})
		}
	}
	slices.SortFunc(match.keys, func(a, b pair) int { return strings.Compare(a.key, b.key) })
	front := node{kind: kindMap, keys: []pair{{key: "status", val: *textNode(string(Active))}}}
	if len(match.keys) > 0 {
		front.keys = append([]pair{{key: "match", val: match}}, front.keys...)
	}
	body := l.Body
	if l.Form != FormGptme || body == "" {
		body = "\n# " + l.Title + "\n\n## Rule\n" + strings.TrimSpace(l.Advice) + "\n\n## Context\n" + l.Trigger.Description + "\n"
	}
	out := []byte("---\n" + strings.Join(renderMap(&front, 0), "\n") + "\n---\n" + body)
	if _, err := Parse(l.Slug+".md", out); err != nil {
		return nil, fmt.Errorf("%s cannot be written in the gptme form: %w", l.Slug, err)
	}
	return out, nil
}

// status returns the state that the status key sets, or Active.
func (r *reader) status(n *node) State {
	v, ok := n.get("status")
	if !ok {
		return Active
	}
	if v.kind == kindString {
		switch v.text {
		case "active":
			return Active
		case "automated", "deprecated", "archived": // automated: a tool enforces the lesson
			return Archived
		}
	}
	r.addInvalid("status", v.line, "is not a status; write active, automated, deprecated or archived")
	return Active
}

func clipRunes(s string, runes int) string {
	if utf8.RuneCountInString(s) <= runes {
		return s
	}
	return string([]rune(s)[:runes])
}
