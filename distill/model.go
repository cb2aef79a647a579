package distill

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"time"

	"precept/inject/lesson"
)

type model struct {
	client  *client
	prompts Prompts
}

// NewModel returns a judge that asks a model.
func NewModel(o ClientOptions, p Prompts) Judge { return newModel(o, p) }

func newModel(o ClientOptions, p Prompts) *model {
	httpClient := *o.HTTP // sessions go only to the configured URL, never to a redirect
	httpClient.Timeout = cmp.Or(httpClient.Timeout, 2*time.Minute)
	httpClient.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	o.HTTP = &httpClient
	return &model{client: &client{o: o}, prompts: p}
}

// Name implements Judge.
func (m *model) Name() string { return "model:" + m.client.o.Model }

const (
	maxQuestionBytes = 24 << 10 // session bytes per question
	maxPartBytes     = 1500     // bytes per message, call or result
	maxLessons       = 3        // lessons per answer
)

type jsonObject = map[string]any

func textListSchema(limit int) jsonObject {
	return jsonObject{"type": "array", "maxItems": limit, "items": jsonObject{"type": "string"}}
}

// strict returns the schema for an object with exactly these properties.
func strict(properties jsonObject) jsonObject {
	return jsonObject{"type": "object", "additionalProperties": false, "required": slices.Sorted(maps.Keys(properties)), "properties": properties}
}

func opinionWords() []string { return []string{"followed", "ignored", "irrelevant", "contradicted"} }

func opinionSchema() jsonObject {
	return strict(jsonObject{"lessons": jsonObject{"type": "array", "items": strict(jsonObject{
		"slug": jsonObject{"type": "string"}, "opinion": jsonObject{"type": "string", "enum": opinionWords()},
	})}})
}

func outcomeSchema() jsonObject {
	return strict(jsonObject{"outcome": jsonObject{"type": "string", "enum": []string{"success", "failure", "unresolved", "impossible", "skip"}}, "reason": jsonObject{"type": "string"}})
}

func lessonSchema() jsonObject {
	return strict(jsonObject{"lessons": jsonObject{"type": "array", "maxItems": maxLessons, "items": strict(jsonObject{
		"title": jsonObject{"type": "string"}, "applies_when": jsonObject{"type": "string"}, "advice": textListSchema(3),
		"error_patterns": textListSchema(4), "keywords": textListSchema(6), "counter_example": jsonObject{"type": "string"}, "same_as": jsonObject{"type": "string"},
	})}})
}

// Judge asks up to three questions: about the injected lessons, about the session's outcome, and about candidates for
// new lessons. AIP-11, the specification for lesson files, prescribes the order of the questions.
func (m *model) Judge(ctx context.Context, s *Session, injected []*lesson.Lesson) (Judgement, error) {
	var j Judgement
	run := "<run>\n" + formatSession(s) + "\n</run>"
	ask := func(prompt, user, name string, schema, out any) error {
		u, err := m.client.call(ctx, prompt, user, name, schema, out)
		j.Usage.add(u)
		return err
	}
	if len(injected) > 0 {
		var got struct {
			Lessons []struct{ Slug, Opinion string } `json:"lessons"`
		}
		if err := ask(m.prompts.Evaluate, headlines("The lessons:", injected)+run, "opinions", opinionSchema(), &got); err != nil {
			return j, err
		}
		j.Opinions = Opinions{}
		for _, o := range got.Lessons {
			known := slices.ContainsFunc(injected, func(l *lesson.Lesson) bool { return l.Slug == o.Slug })
			if known && slices.Contains(opinionWords(), o.Opinion) {
				j.Opinions[o.Slug] = o.Opinion
			}
		}
	}
	var answer struct{ Outcome string }
	if err := ask(m.prompts.Outcome, run, "outcome", outcomeSchema(), &answer); err != nil {
		return j, err
	}
	prompt := m.prompts.Failure
	switch answer.Outcome {
	case "success":
		prompt = m.prompts.Success
	case "failure", "unresolved":
	case "impossible", "skip":
		return j, nil
	default:
		return j, fmt.Errorf("%w: the outcome must be success, failure, unresolved, impossible or skip", ErrUnusable)
	}
	var got struct {
		Lessons []candidate `json:"lessons"`
	}
	if err := ask(prompt, headlines("Existing lessons:", s.Near)+run, "lessons", lessonSchema(), &got); err != nil {
		return j, err
	}
	j.Drafts = candidateDrafts(got.Lessons, answer.Outcome, s.Near)
	return j, nil
}

func headlines(heading string, list []*lesson.Lesson) string {
	if len(list) == 0 {
		return ""
	}
	var out strings.Builder
	out.WriteString(heading + "\n")
	for _, l := range list {
		fmt.Fprintf(&out, "- [%s] %s\n", l.Slug, l.Headline())
	}
	return out.String() + "\n"
}

// candidate is a lesson in a model's answer.
type candidate struct {
	Title          string   `json:"title"`
	Applies        string   `json:"applies_when"`
	Advice         []string `json:"advice"`
	Errors         []string `json:"error_patterns"`
	Keywords       []string `json:"keywords"`
	CounterExample string   `json:"counter_example"`
	SameAs         string   `json:"same_as"`
}

// candidateDrafts returns at most maxLessons drafts, or at most one if the session is unresolved. The slug is made from
// the title, because a slug from the model could belong to a different lesson.
func candidateDrafts(list []candidate, outcome string, near []*lesson.Lesson) []Draft {
	limit := maxLessons
	if outcome == "unresolved" {
		limit = 1
	}
	lessonOutcome := "success"
	if outcome != "success" {
		lessonOutcome = "failure"
	}
	var out []Draft
	for _, c := range list {
		d := Draft{
			Title: oneLine(c.Title, 200), Applies: oneLine(c.Applies, 600), Outcome: lessonOutcome,
			Errors: usefulTriggers(distinctPhrases(c.Errors, 4)), Keywords: usefulTriggers(distinctPhrases(c.Keywords, 6)), CounterExample: oneLine(c.CounterExample, 400),
		}
		for _, a := range c.Advice[:min(len(c.Advice), 3)] {
			if a = oneLine(a, 400); a != "" {
				d.Advice = append(d.Advice, a)
			}
		}
		if slices.ContainsFunc(near, func(l *lesson.Lesson) bool { return l.Slug == c.SameAs }) && len(out) < limit {
			d.SameAs, d.Slug = c.SameAs, c.SameAs
			out = append(out, d)
			continue
		}
		shown, _ := d.redactedCopy()
		d.Slug = makeSlug(shown.Title)
		if d.Slug == "" || d.Title == "" || d.Applies == "" || len(c.Errors)+len(c.Keywords) == 0 || len(out) >= limit {
			continue
		}
		out = append(out, d)
	}
	return out
}

func oneLine(s string, n int) string {
	s = strings.Join(strings.Fields(s), " ")
	if len(s) > n {
		s = shorten(s, n-4)
	}
	return strings.ToValidUTF8(s, "")
}

// distinctPhrases returns at most n different phrases of at least three bytes, each cut to 120 bytes.
func distinctPhrases(list []string, n int) []string {
	var out []string
	for _, p := range list {
		if p = oneLine(p, 120); len(p) > 2 && !slices.Contains(out, p) && len(out) < n {
			out = append(out, p)
		}
	}
	return out
}

// usefulTriggers drops phrases that consist of common words, because they would match everywhere, and phrases with data
// from one session.
func usefulTriggers(list []string) (out []string) {
	for _, p := range list {
		isCommon := wordList("vague").containsAllWords(p) || wordList("bland").containsAllWords(p)
		isForeign := strings.ContainsFunc(p, func(r rune) bool { return r >= 0x80 }) // the lists are English
		if isCommon && !isForeign && strings.ContainsAny(p, letters) || isSessionSpecific(p) {
			continue
		}
		out = append(out, p)
	}
	return out
}

// isSessionSpecific reports whether a phrase has a person's name, a host, an absolute path or an id.
func isSessionSpecific(phrase string) bool {
	plain := lesson.NormalizeLookalikes(phrase)
	return len(personsIn(phrase, false)) > 0 || addressReason(plain) != "" || slices.ContainsFunc(strings.Fields(plain), func(w string) bool {
		w = strings.Trim(w, "`'\"()[]{}<>,;:")
		return isID(w) || isPrivateHost(w) || len(w) > 2 && (w[0] == '/' || strings.HasPrefix(w, "~/") || w[1] == ':' && w[2] == '\\')
	})
}

func cutMiddle(s string, n int) string {
	if len(s) <= n {
		return s
	}
	return strings.ToValidUTF8(s[:2*n/3], "") + "\n[...]\n" + strings.ToValidUTF8(s[len(s)-n/3:], "")
}
