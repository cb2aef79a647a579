package lesson

import (
	"bytes"
	"maps"
	"slices"
	"strings"
	"unicode/utf8"
)

// dead finds phrases that can never match.
func dead(l *Lesson) []Finding {
	var out []Finding
	for _, p := range phrases(&l.Trigger) {
		read := readPhrase(p.text, l.Form)
		why := ""
		switch {
		case !strings.ContainsFunc(read.key, func(r rune) bool { return kindOf(r) != signKind }):
			why = "holds no letter or digit"
		case !read.fires() && !isStopWord(read.key):
			why = "is a single letter"
		case hasBlob(p.text):
			why = "looks like encoded data, which is not searched"
		case !strings.Contains(p.text, "*") && slices.ContainsFunc(l.Trigger.NotKeywords, func(veto string) bool { return standsIn(veto, p.text, l.Form) }):
			why = "is vetoed by a not_keyword of the lesson"
		default:
			continue
		}
		out = append(out, finding(l, Warning, codeDead, p.field, "%q %s, so it never fires; rewrite or remove it", p.text, why))
	}
	return out
}

func hasBlob(s string) bool {
	runs := strings.FieldsFunc(s, func(r rune) bool { return r >= utf8.RuneSelf || !isBlobByte(byte(r)) })
	return slices.ContainsFunc(runs, isBlob)
}

// selfMatch finds keywords in the lesson's own text: an agent that quotes its context would trigger
// the lesson that it was given, and the lesson would seem necessary.
func selfMatch(l *Lesson) []Finding {
	shown := l.Text()
	own := shown.Title + "\n" + strings.Join(shown.Lines(MaxAdvice), "\n")
	var out []Finding
	for _, p := range phrases(&l.Trigger) {
		if strings.Contains(p.field, ".keywords[") && standsIn(p.text, own, l.Form) {
			out = append(out, finding(l, Warning, codeSelfMatch, p.field,
				"the lesson's own text contains %q, so quoting the lesson fires it; take the user's words for keywords", p.text))
		}
	}
	return out
}

// standsIn reports whether a phrase matches a text, as in a book with this phrase alone.
func standsIn(phrase, text string, form Form) bool {
	return standsInAny(phrase, form, [][]byte{appendText(nil, text)})
}

// in reports whether a folded text contains the phrase.
func (p *phrase) in(text []byte) bool {
	longest, tries := p.pieces[p.longest], 0
	for from := 0; ; from++ {
		at := bytes.Index(text[from:], longest)
		if at < 0 {
			return false
		}
		if from += at; p.at(text, from+len(longest), &tries) {
			return true
		}
	}
}

// overlaps maps triggers to lessons.
type overlaps map[string][]*Lesson

func newOverlaps(lessons []*Lesson) overlaps {
	o := overlaps{}
	for _, l := range lessons {
		for _, key := range triggerKeys(l) {
			o[key] = append(o[key], l)
		}
	}
	return o
}

// and returns the overlaps with one more lesson.
func (o overlaps) and(l *Lesson) overlaps {
	next := maps.Clone(o)
	for _, key := range triggerKeys(l) {
		next[key] = append(slices.Clip(next[key]), l)
	}
	return next
}

// triggerKeys lists the triggers of a lesson in comparable form, without duplicates.
func triggerKeys(l *Lesson) []string {
	var keys []string
	for _, tag := range l.Trigger.Tags {
		keys = append(keys, readPhrase(tag, l.Form).key)
	}
	for _, p := range phrases(&l.Trigger) {
		keys = append(keys, readPhrase(p.text, l.Form).key)
	}
	slices.Sort(keys)
	return slices.Compact(keys)
}

// opposed returns the active lessons that share a trigger with l and claim the opposite outcome, by
// slug. A lesson and its successor do not contradict each other.
func (o overlaps) opposed(l *Lesson) []*Lesson {
	var out []*Lesson
	for _, key := range triggerKeys(l) {
		for _, other := range o[key] {
			if other.Slug != l.Slug && opposite(l, other) && !slices.Contains(out, other) {
				out = append(out, other)
			}
		}
	}
	slices.SortFunc(out, func(x, y *Lesson) int { return strings.Compare(x.Slug, y.Slug) })
	return out
}

func opposite(a, b *Lesson) bool {
	return a.State.Fires() && b.State.Fires() &&
		(a.Outcome == "success" && b.Outcome == "failure" || a.Outcome == "failure" && b.Outcome == "success") &&
		!slices.Contains(a.Supersedes, b.Slug) && !slices.Contains(b.Supersedes, a.Slug) && sameAudience(a, b)
}

// sameAudience reports whether the targets of two lessons may match one agent. In doubt the result
// is true, because different globs may overlap.
func sameAudience(a, b *Lesson) bool {
	apart := func(x, y string) bool { return x != "" && y != "" && x != y }
	if apart(a.Scope.Tenant, b.Scope.Tenant) || apart(a.Scope.Agent, b.Scope.Agent) {
		return false
	}
	if len(a.Trigger.Targets) == 0 || len(b.Trigger.Targets) == 0 {
		return true
	}
	meet := func(x, y string) bool { return x == "" || y == "" || glob(x, y) || glob(y, x) }
	for _, x := range a.Trigger.Targets {
		for _, y := range b.Trigger.Targets {
			if meet(x.Operator, y.Operator) && meet(x.Role, y.Role) && meet(x.Skill, y.Skill) {
				return true
			}
		}
	}
	return false
}

func contradiction(a, b *Lesson) Finding {
	return finding(a, Warning, codeContradiction, "trigger",
		"fires on the same words as %s, which claims the opposite outcome (%s against %s); read both, and supersede one if it is wrong",
		b.Slug, a.Outcome, b.Outcome)
}

// Contradicts returns the lessons of the book that share a trigger with l and claim the opposite
// outcome: both are kept, and shown together.
func (b *Book) Contradicts(l *Lesson) []*Lesson { return b.overlaps().opposed(l) }
