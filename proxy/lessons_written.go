package proxy

import (
	"encoding/json"
	"errors"
	"maps"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/labstack/echo/v4"

	"precept/inject/lesson"
	"precept/inject/writ"
	"precept/internal/spell"
	"precept/internal/wire"
)

// lessonBody is the body of a request that writes a lesson. Misspelt keys are refused, but other unknown keys, such as
// counts and states, are ignored.
type lessonBody struct {
	Signature  *string      `json:"signature"`
	LessonText *string      `json:"lesson_text"`
	Keywords   *[]string    `json:"keywords"`
	Targets    *[]apiTarget `json:"targets"`
}

func readLessonBody(c echo.Context) (lessonBody, error) {
	var posted lessonBody
	body, err := readBody(c, maxLessonBytes, "the body exceeds 256 KiB; shorten the lesson")
	if err != nil {
		return posted, err
	}
	var fields map[string]json.RawMessage
	if !utf8.Valid(body) || json.Unmarshal(body, &posted) != nil || json.Unmarshal(body, &fields) != nil {
		return posted, newAPIError(wire.NoDialect, http.StatusBadRequest, `the body is not a lesson; send {"signature": "...", "lesson_text": "..."} (keywords and targets are optional lists)`)
	}
	return posted, refuseMisspeltKeys(fields)
}

// refuseMisspeltKeys returns an error for a key that resembles a lessonBody field name.
func refuseMisspeltKeys(fields map[string]json.RawMessage) error {
	names := []string{"signature", "lesson_text", "keywords", "targets"}
	for _, key := range slices.Sorted(maps.Keys(fields)) {
		lower := strings.ToLower(key) // encoding/json ignores key case
		if near := spell.Suggest(lower, names); near != "" && near != lower {
			return newAPIError(wire.NoDialect, http.StatusBadRequest, strconv.QuoteToASCII(key)+" is not a lesson key; did you mean "+near+"?")
		}
	}
	return nil
}

// lessonText returns lesson_text as the client sent it.
func lessonText(l *lesson.Lesson) string {
	if _, text, ok := strings.Cut(l.Body, lesson.AdviceHead); ok {
		return strings.TrimSuffix(text, "\n")
	}
	return l.Advice
}

// applyTo writes the body's fields into l. LessonText must not be nil. applyTo also clears the lesson file's text, so
// that the bank formats the file again.
func (b *lessonBody) applyTo(l *lesson.Lesson) (*lesson.Lesson, error) {
	checkLength := func(field string, text *string, limit int) error {
		if text == nil {
			return nil
		}
		switch n := utf8.RuneCountInString(*text); {
		case strings.TrimSpace(*text) == "":
			return newAPIError(wire.NoDialect, http.StatusUnprocessableEntity, field+" is empty; write 1 to "+strconv.Itoa(limit)+" characters")
		case n > limit:
			return newAPIError(wire.NoDialect, http.StatusUnprocessableEntity, field+" has "+strconv.Itoa(n)+" characters; write 1 to "+strconv.Itoa(limit))
		}
		return nil
	}
	if err := errors.Join(checkLength("signature", b.Signature, writ.MaxSignature), checkLength("lesson_text", b.LessonText, writ.MaxText)); err != nil {
		return nil, err
	}
	if b.Signature != nil {
		l.Title = *b.Signature
	}
	if b.Keywords != nil {
		l.Trigger.Keywords = *b.Keywords
	}
	if len(l.Trigger.Keywords) == 0 {
		l.Trigger.Keywords = []string{l.Title}
	}
	if b.Targets != nil {
		l.Trigger.Targets = nil
		for _, t := range *b.Targets {
			l.Trigger.Targets = append(l.Trigger.Targets, lesson.Target(t))
		}
	}
	l.Raw, l.Trigger.Description = "", "An agent's own lesson: "+l.Title
	l.Advice, l.Body = strings.TrimSpace(*b.LessonText), lesson.FormatBody(l.Title, l.Trigger.Description, *b.LessonText, "")
	return l, nil
}
