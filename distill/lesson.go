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

const lessonSource = "distill"

// toLesson returns a draft's lesson. The text omits the number of supporting sessions, because an approval is valid
// only for an unchanged text.
func (d *Draft) toLesson(tenant string) *lesson.Lesson {
	slug := d.Slug
	if tenant != "default" && tenant != "" { // a message that a slug is taken would reveal another tenant's lesson
		sum := sha256.Sum256([]byte(tenant + "\x00" + slug))
		slug = strings.TrimRight(slug[:min(len(slug), 70)], "-") + "-" + hex.EncodeToString(sum[:3])
	}
	applies := shorten(d.Applies, 900)
	return &lesson.Lesson{
		Slug: slug, Title: d.Title, Outcome: d.Outcome, Confidence: 0.5, Body: lesson.FormatBody(d.Title, applies, d.adviceList(), d.CounterExample),
		Evidence: evidence(d.Refs), EvidenceCount: unreferencedCount(d.Sightings, len(d.Refs)),
		Trigger: lesson.Trigger{
			Description: applies, Keywords: d.Keywords, ErrorPatterns: d.Errors, ErrorKinds: d.Kinds, Tools: d.Tools,
		},
	}
}

func (d *Draft) adviceList() string {
	out := make([]string, 0, len(d.Advice))
	for _, a := range d.Advice {
		out = append(out, "- "+strings.TrimSpace(a))
	}
	return strings.Join(out, "\n")
}

func evidence(refs []Ref) []lesson.Evidence {
	out := make([]lesson.Evidence, 0, len(refs))
	for _, r := range refs {
		out = append(out, lesson.Evidence{Kind: "conversation", Ref: r.Session})
	}
	return out
}

// unreferencedCount returns the number of sessions if there are fewer references than sessions, and otherwise 0.
func unreferencedCount(sessions, refs int) int {
	if sessions > refs {
		return sessions
	}
	return 0
}

// support counts the sessions that support a lesson. A key is a judge's name or, for a draft made without a judge, the
// draft's slug.
type support map[string]int

// supportKeyPrefix is the prefix of the keys for notes on how many sessions support a lesson.
const supportKeyPrefix = "support|"

const modelJudgePrefix = "model:" // prefix of a model's Judge.Name

// total returns the number of sessions that support a lesson: the larger of the rules' sum and the largest number from
// a model. Models and rules read the same sessions, so the numbers are not added.
func (s support) total() int {
	rules, judged := 0, 0
	for key, n := range s {
		if strings.HasPrefix(key, modelJudgePrefix) {
			judged = max(judged, n)
		} else {
			rules += n
		}
	}
	return max(rules, judged)
}

// countSupport adds each session in a draft once, and returns the total number. flush writes the support together with
// the marks (what was read and counted for each session), so that no session counts twice after an interrupted run.
func (w *tenantDistiller) countSupport(ctx context.Context, slug string, d *Draft) (int, error) {
	s, changed := w.support[slug]
	if !changed {
		data, err := w.Distiller.o.Notes.TenantNote(ctx, w.tenant, supportKeyPrefix+slug)
		if err != nil {
			return 0, err
		}
		if s = (support{}); data != nil && json.Unmarshal(data, &s) != nil {
			s = support{}
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

func slugWords(slug string) []string {
	var out []string
	for w := range strings.SplitSeq(slug, "-") {
		if len(w) > 2 && !slices.Contains([]string{"the", "and", "for", "with", "when", "before", "after", "from", "use", "that"}, w) {
			out = append(out, w)
		}
	}
	return out
}

// slugSimilarity returns the Jaccard index of the words in two slugs: the number of common words divided by the number
// of all words.
func slugSimilarity(a, b string) float64 {
	x, y := slugWords(a), slugWords(b)
	both := countCommon(x, y)
	if both == 0 {
		return 0
	}
	return float64(both) / float64(len(x)+len(y)-both)
}

// triggerOverlap returns the number of common phrases divided by the number of phrases in the smaller set.
func triggerOverlap(a, b *lesson.Trigger) float64 {
	x, y := triggerPhrases(a), triggerPhrases(b)
	if len(x) == 0 || len(y) == 0 {
		return 0
	}
	return float64(countCommon(x, y)) / float64(min(len(x), len(y)))
}

func triggerPhrases(t *lesson.Trigger) []string {
	out := slices.Concat(t.Keywords, t.ErrorPatterns, t.ErrorKinds, t.RequestKinds)
	for i, p := range out {
		out[i] = strings.Join(strings.Fields(strings.ToLower(p)), " ")
	}
	return out
}

// Thresholds for compareLessons.
const (
	minSlugSimilarity = 0.6
	minTriggerOverlap = 0.5
)

type relation uint8

const (
	unrelated relation = iota
	separate           // similar slugs but different triggers; both lessons are kept, with a note
	duplicate          // the sessions become evidence for the existing lesson
)

func compareLessons(a, b *lesson.Lesson) relation {
	if a.Slug == b.Slug {
		return duplicate
	}
	if a.Outcome != b.Outcome && (a.Outcome == "success" || b.Outcome == "success") {
		return unrelated // lesson.Book.Contradicting finds such pairs
	}
	s, o := slugSimilarity(a.Slug, b.Slug), triggerOverlap(&a.Trigger, &b.Trigger)
	switch {
	case o >= minTriggerOverlap && (s >= 0.3 || sameTools(a, b) && s > 0):
		return duplicate
	case s >= minSlugSimilarity && o > 0:
		return duplicate
	case s >= minSlugSimilarity:
		return separate
	}
	return unrelated
}

func sameTools(a, b *lesson.Lesson) bool {
	return countCommon(a.Trigger.Tools, b.Trigger.Tools) > 0
}
