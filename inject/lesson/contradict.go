package lesson

import (
	"fmt"
	"maps"
	"slices"
	"strings"
)

// triggerIndex is an index of lessons by trigger (see triggerKeys). It serves to find lessons with common triggers.
type triggerIndex map[string][]*claim

// claim is a lesson with the action that its title recommends or forbids.
type claim struct {
	lesson  *Lesson
	words   []string // the action's stems
	forbids bool
}

func newClaim(l *Lesson) *claim {
	words, forbids := titleStance(l.Title)
	return &claim{l, words, forbids}
}

func newTriggerIndex(lessons []*Lesson) triggerIndex {
	o := triggerIndex{}
	for _, l := range lessons {
		c := newClaim(l)
		for _, key := range triggerKeys(l) {
			o[key] = append(o[key], c)
		}
	}
	return o
}

// with returns a copy of the index that also contains l.
func (o triggerIndex) with(l *Lesson) triggerIndex {
	next, c := maps.Clone(o), newClaim(l)
	for _, key := range triggerKeys(l) {
		next[key] = append(slices.Clip(next[key]), c)
	}
	return next
}

// triggerKeys returns the lesson's triggers in folded form (see appendFolded), sorted and unique.
func triggerKeys(l *Lesson) []string {
	var keys []string
	for _, tag := range l.Trigger.Tags {
		keys = append(keys, readPhrase(tag, l.Form).key)
	}
	for _, p := range triggerPhrases(&l.Trigger) {
		keys = append(keys, readPhrase(p.text, l.Form).key)
	}
	for _, kind := range l.Trigger.ErrorKinds {
		keys = append(keys, errorKey+kind)
	}
	for _, kind := range l.Trigger.RequestKinds {
		keys = append(keys, requestKey+kind)
	}
	slices.Sort(keys)
	return slices.Compact(keys)
}

// contradicting returns the lessons that share a trigger with l and contradict l, sorted by slug.
func (o triggerIndex) contradicting(l *Lesson) []*Lesson {
	var out []*Lesson
	ownClaim := newClaim(l)
	for _, key := range triggerKeys(l) {
		for _, other := range o[key] {
			if other.lesson.Slug != l.Slug && ownClaim.contradicts(other) && !slices.Contains(out, other.lesson) {
				out = append(out, other.lesson)
			}
		}
	}
	slices.SortFunc(out, func(x, y *Lesson) int { return strings.Compare(x.Slug, y.Slug) })
	return out
}

// contradicts reports whether two lessons claim opposite outcomes, or one recommends an action that the other forbids.
// Both must be active or waiting for an operator, and visible to the same agent. A lesson does not contradict a lesson
// that it supersedes.
func (c *claim) contradicts(other *claim) bool {
	a, b := c.lesson, other.lesson
	return (opposedOutcomes(a, b) || c.hasOppositeAdvice(other)) && a.State.isActiveOrWaiting() && b.State.isActiveOrWaiting() &&
		!slices.Contains(a.Supersedes, b.Slug) && !slices.Contains(b.Supersedes, a.Slug) && sameAudience(a, b)
}

func (s State) isActiveOrWaiting() bool {
	return s.IsActive() || s == Candidate || s == Quarantined || s == Paused || s == ""
}

func opposedOutcomes(a, b *Lesson) bool {
	return a.Outcome == "success" && b.Outcome == "failure" || a.Outcome == "failure" && b.Outcome == "success"
}

// hasOppositeAdvice reports whether one title forbids the action that the other recommends, as in "Always wait for the
// page" and "Never wait". The longer title must have three quarters of the shorter title's words.
func (c *claim) hasOppositeAdvice(other *claim) bool {
	if c.forbids == other.forbids {
		return false
	}
	shared := 0
	for _, w := range c.words {
		if slices.Contains(other.words, w) {
			shared++
		}
	}
	return shared > 0 && 4*shared >= 3*min(len(c.words), len(other.words))
}

// titleStance returns the stems (words without endings) that name the action in a title, and whether the title forbids
// it. Two negations cancel each other, as in "Never skip". Only negations among the first words of the action count.
func titleStance(title string) (words []string, forbids bool) {
	folded := string(appendText(nil, clipBytes(title, maxRaw)))
	for negation := range strings.FieldsSeq(unspacedNegations) {
		if rest := strings.ReplaceAll(folded, negation, " "); rest != folded {
			folded, forbids = rest, true
		}
	}
	conditionWords := 0 // condition words before the action
	if before, _, ok := strings.Cut(folded, ","); ok && slices.Contains(strings.Fields(conditions), firstWord(folded)) {
		conditionWords = len(strings.Fields(before))
	}
	for i, w := range strings.FieldsFunc(spaceCharacters(folded), func(r rune) bool { return r != '\'' && classifyRune(r) == punctuationKind }) {
		switch {
		case slices.Contains(strings.Fields(negations), w):
			if i < conditionWords+3 {
				forbids = !forbids
			}
		case !slices.Contains(strings.Fields(affirmations), w) && !isStopWord(w):
			words = append(words, titleStem(w))
		}
	}
	slices.Sort(words)
	return slices.Compact(words), forbids
}

// Words in titles, in folded form. A negation makes a title forbid an action. An affirmation changes nothing. A
// condition begins a clause before the action.
const (
	negations = "never not don't dont doesn't mustn't shouldn't cannot can't avoid stop skip refuse forbid forget " +
		"nie niemals nicht kein keine vermeide vermeiden jamais pas evite éviter évite nunca no evita evitar evite não mai non evitare " +
		"никогда не избегайте nooit niet vermijd aldrig inte undvik asla"
	unspacedNegations = "不要 切勿 避免 绝不 禁止 不得 しない ないで"
	affirmations      = "always ever immer stets toujours siempre sempre ne всегда altijd alltid must 总是 务必"
	conditions        = "when if before after while once in on with for wenn bei quand si cuando"
)

func firstWord(s string) string {
	first, _, _ := strings.Cut(s, " ")
	return first
}

// spaceCharacters makes each character a word in scripts without spaces.
func spaceCharacters(s string) string {
	var b strings.Builder
	for _, r := range s {
		if classifyRune(r) == loneKind {
			b.WriteByte(' ')
			b.WriteRune(r)
			b.WriteByte(' ')
			continue
		}
		b.WriteRune(r)
	}
	return b.String()
}

// titleStem removes common English verb and plural endings.
func titleStem(w string) string {
	if rest, ok := strings.CutSuffix(w, "ies"); ok && len(w) > 4 {
		return rest + "y"
	}
	for _, ending := range []string{"ing", "ed", "es", "s", "e"} {
		if rest, ok := strings.CutSuffix(w, ending); ok && len(rest) > 2 {
			return rest
		}
	}
	return w
}

// sameAudience reports whether the same agent might get both lessons. Different globs can match the same name, so the
// result is false only if the lessons are certain to exclude each other.
func sameAudience(a, b *Lesson) bool {
	differ := func(x, y string) bool { return x != "" && y != "" && x != y }
	if differ(a.Scope.Tenant, b.Scope.Tenant) || differ(a.Scope.Agent, b.Scope.Agent) {
		return false
	}
	if len(a.Trigger.Targets) == 0 || len(b.Trigger.Targets) == 0 {
		return true
	}
	overlap := func(x, y string) bool { return x == "" || y == "" || matchesGlob(x, y) || matchesGlob(y, x) }
	for _, x := range a.Trigger.Targets {
		for _, y := range b.Trigger.Targets {
			if overlap(x.Operator, y.Operator) && overlap(x.Role, y.Role) && overlap(x.Skill, y.Skill) {
				return true
			}
		}
	}
	return false
}

func contradiction(a, b *Lesson) Finding {
	relation := fmt.Sprintf("claims the opposite outcome (%s against %s)", a.Outcome, b.Outcome)
	if !opposedOutcomes(a, b) {
		relation = fmt.Sprintf("recommends the opposite (%q)", clipRunes(b.Headline(), 80))
	}
	return newFinding(a, Warning, codeContradiction, "trigger",
		"fires on the same words or errors as %s, which %s; read both, and supersede the one that is wrong", b.Slug, relation)
}

// Contradicting returns the lessons that share a trigger with l and contradict l.
func (b *Book) Contradicting(l *Lesson) []*Lesson { return b.triggerIndex().contradicting(l) }
