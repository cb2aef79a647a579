package distill

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"slices"
	"strings"

	"precept/inject/lesson"
)

// source is the value of Source in lessons of the distiller.
const source = "distill"

// lesson returns a draft as a lesson. The text does not depend on the number of sightings, so that an
// approval stays valid while the evidence grows.
func (d *Draft) lesson(tenant string) *lesson.Lesson {
	slug := d.Slug
	if tenant != "default" && tenant != "" { // a slug that is already taken would reveal that another tenant has the lesson
		sum := sha256.Sum256([]byte(tenant + "\x00" + slug))
		slug = strings.TrimRight(slug[:min(len(slug), 70)], "-") + "-" + hex.EncodeToString(sum[:3])
	}
	applies := shorten(d.Applies, 900)
	return &lesson.Lesson{
		Slug: slug, Title: d.Title, Outcome: d.Outcome, Confidence: 0.5, Body: lesson.Sections(d.Title, applies, d.items(), d.CounterExample),
		Evidence: evidence(d.Refs), EvidenceCount: countAbove(d.Sightings, len(d.Refs)),
		Trigger: lesson.Trigger{
			Description: applies, Keywords: d.Keywords, ErrorPatterns: d.Errors, ErrorKinds: d.Kinds, Tools: d.Tools,
		},
	}
}

// items returns the advice as a list.
func (d *Draft) items() string {
	out := make([]string, 0, len(d.Advice))
	for _, a := range d.Advice {
		out = append(out, "- "+strings.TrimSpace(a))
	}
	return strings.Join(out, "\n")
}

// evidence returns the sessions as evidence of a lesson.
func evidence(refs []Ref) []lesson.Evidence {
	out := make([]lesson.Evidence, 0, len(refs))
	for _, r := range refs {
		out = append(out, lesson.Evidence{Kind: "conversation", Ref: r.Session})
	}
	return out
}

// countAbove returns sessions if some of the sessions have no reference, otherwise 0.
func countAbove(sessions, refs int) int {
	if sessions > refs {
		return sessions
	}
	return 0
}

// support holds numbers of sessions that support a lesson. The key is the slug of a draft of the rules, or the name
// of a judge.
type support map[string]int

// supportKey is the prefix of the notes with the support of lessons.
const supportKey = "support|"

const byModel = "model:" // prefix of the name of a judge that is a model

// total returns the larger of the numbers by the rules and by a model, which read the same sessions.
func (s support) total() int {
	rules, judged := 0, 0
	for by, n := range s {
		if strings.HasPrefix(by, byModel) {
			judged = max(judged, n)
		} else {
			rules += n
		}
	}
	return max(rules, judged)
}

// countSupport counts the sessions of a draft for a lesson, each session once. It returns the number of all sessions
// that support the lesson. flush writes the number together with the marks, so that no session counts twice after
// an interrupted run.
func (w *work) countSupport(ctx context.Context, slug string, d *Draft) (int, error) {
	s, changed := w.support[slug]
	if !changed {
		data, err := w.Distiller.o.Notes.TenantNote(ctx, w.tenant, supportKey+slug)
		if err != nil {
			return 0, err
		}
		if s = (support{}); data != nil && json.Unmarshal(data, &s) != nil {
			s = support{} // an unreadable note is replaced
		}
	}
	switch {
	case d.mark == nil:
		s[d.Slug] = d.Sightings
	case d.mark.addOnce("support|" + slug):
		s[w.judgeName()]++
	}
	w.support[slug] = s
	return s.total(), nil
}

// tokens returns the meaningful words of a slug.
func tokens(slug string) []string {
	var out []string
	for w := range strings.SplitSeq(slug, "-") {
		if len(w) > 2 && !slices.Contains([]string{"the", "and", "for", "with", "when", "before", "after", "from", "use", "that"}, w) {
			out = append(out, w)
		}
	}
	return out
}

// similarity returns the share of common words of two slugs (Jaccard).
func similarity(a, b string) float64 {
	x, y := tokens(a), tokens(b)
	both := countCommon(x, y)
	if both == 0 {
		return 0
	}
	return float64(both) / float64(len(x)+len(y)-both)
}

// overlap returns the number of common trigger phrases, as a share of the smaller set.
func overlap(a, b *lesson.Trigger) float64 {
	x, y := phrasesOf(a), phrasesOf(b)
	if len(x) == 0 || len(y) == 0 {
		return 0
	}
	return float64(countCommon(x, y)) / float64(min(len(x), len(y)))
}

func phrasesOf(t *lesson.Trigger) []string {
	out := slices.Concat(t.Keywords, t.ErrorPatterns, t.ErrorKinds, t.RequestKinds)
	for i, p := range out {
		out[i] = strings.Join(strings.Fields(strings.ToLower(p)), " ")
	}
	return out
}

// Thresholds from which two lessons are considered equal.
const (
	sameSlug     = 0.6
	sameTriggers = 0.5
)

// match is the relation of a new lesson to an existing lesson.
type match uint8

const (
	unrelated match = iota
	separate        // similar slugs, different triggers: both are kept, and a note records the decision
	duplicate
)

// compareLessons returns the relation of two lessons, by their slugs, outcomes, triggers and tools.
func compareLessons(a, b *lesson.Lesson) match {
	if a.Slug == b.Slug {
		return duplicate
	}
	if a.Outcome != b.Outcome && (a.Outcome == "success" || b.Outcome == "success") {
		return unrelated // the check for contradictions decides
	}
	s, o := similarity(a.Slug, b.Slug), overlap(&a.Trigger, &b.Trigger)
	switch {
	case o >= sameTriggers && (s >= 0.3 || sameTools(a, b) && s > 0):
		return duplicate
	case s >= sameSlug && o > 0:
		return duplicate
	case s >= sameSlug:
		return separate
	}
	return unrelated
}

func sameTools(a, b *lesson.Lesson) bool {
	return countCommon(a.Trigger.Tools, b.Trigger.Tools) > 0
}
