package distill

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"precept/inject/lesson"
)

const (
	maxPhrases       = 10 // phrases in the answer
	maxSentences     = 40 // sentences, and phrases per kind, in the question
	maxSentenceBytes = 300
)

// AskPhrases asks a model for more phrases that should trigger a lesson. sentences are near misses, that is, sentences
// in captured sessions that almost triggered the lesson. AskPhrases drops phrases that the lesson already has, common
// words, ids, paths and hosts. The caller tests the phrases, and an operator accepts them.
func AskPhrases(ctx context.Context, o ClientOptions, p Prompts, l *lesson.Lesson, sentences []string) ([]string, Usage, error) {
	var got struct {
		Phrases []string `json:"phrases"`
	}
	m := newModel(o, p)
	used, err := m.client.call(ctx, p.Phrases, phraseQuestion(l, sentences), "phrases", strict(jsonObject{"phrases": textListSchema(maxPhrases)}), &got)
	switch {
	case errors.Is(err, errSetAside):
		cause := err
		if status, ok := errors.AsType[*statusError](err); ok {
			cause = status // without errSetAside's text, because no session is skipped here
		}
		return nil, used, fmt.Errorf("the judge refuses the sentences from the near misses (too long, or filtered content): %w", cause)
	case err != nil:
		return nil, used, err
	}
	triggers := map[string]bool{}
	for _, phrase := range slices.Concat(l.Trigger.Keywords, l.Trigger.ErrorPatterns) {
		triggers[lesson.NormalizeLookalikes(phrase)] = true
	}
	var out []string
	for _, phrase := range usefulTriggers(distinctPhrases(got.Phrases, maxPhrases)) {
		phrase = strings.ToLower(redactText(phrase))
		if n := len(strings.Fields(phrase)); n < 2 || n > 6 || triggers[lesson.NormalizeLookalikes(phrase)] || strings.Contains(phrase, "[redacted:") {
			continue
		}
		out = append(out, phrase)
	}
	return slices.Compact(out), used, nil
}

// phraseQuestion returns the question for more phrases. It redacts the question, because older releases redacted less
// in the lessons and sentences that they stored.
func phraseQuestion(l *lesson.Lesson, sentences []string) string {
	var out strings.Builder
	fmt.Fprintf(&out, "<lesson>\n%s\n%s\n", l.Headline(), oneLine(l.Trigger.Description, 600))
	for _, list := range []struct {
		name    string
		phrases []string
	}{
		{"Phrases of users", l.Trigger.Keywords},
		{"Phrases of errors", l.Trigger.ErrorPatterns},
		{"Kinds of errors", l.Trigger.ErrorKinds},
		{"Kinds of requests", l.Trigger.RequestKinds},
		{"The lesson does not fire with", l.Trigger.NotKeywords},
	} {
		if len(list.phrases) > 0 {
			fmt.Fprintf(&out, "%s: %q\n", list.name, list.phrases[:min(len(list.phrases), maxSentences)])
		}
	}
	out.WriteString("</lesson>\n\n<sentences>\n")
	for _, s := range sentences[:min(len(sentences), maxSentences)] {
		out.WriteString("- " + oneLine(strings.ReplaceAll(s, "<", "‹"), maxSentenceBytes) + "\n")
	}
	out.WriteString("</sentences>")
	return redactText(out.String())
}
