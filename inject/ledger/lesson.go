package ledger

import (
	"cmp"
	"path"
	"regexp"
	"strings"
	"unicode"

	"precept/inject/lesson"
)

// Limits for a lesson. The first three are from the published schema, in characters.
const (
	maxTitle       = 200
	maxDescription = 1000
	maxNote        = 500
	maxPattern     = 100 // bytes
	slugWords      = 48  // bytes
	slugDigits     = 8   // from the signature
)

// Lessons returns a lesson for each entry, the newest first. A lesson is triggered by the entry's file path in the
// user's words, or by the stable part of the entry's error in a tool error. The lessons have no approval. Entries with
// the same failure and rule get the same slug in every version of the file.
func Lessons(text []byte) []*lesson.Lesson {
	entries := Entries(text)
	out := make([]*lesson.Lesson, 0, len(entries))
	seen := map[string]bool{}
	for i := len(entries) - 1; i >= 0; i-- {
		l := entries[i].Entry.lesson()
		if l.Trigger.Empty() || seen[l.Slug] { // useless without a trigger
			continue
		}
		seen[l.Slug] = true
		out = append(out, l)
	}
	return out
}

func (e *Entry) lesson() *lesson.Lesson {
	l := &lesson.Lesson{
		Slug: slug(e.Rule, e.signature()), Title: clip(e.Rule, maxTitle), Outcome: "mixed", Confidence: 0.5, Form: lesson.FormAIP11,
		Evidence: []lesson.Evidence{{Kind: "work-item", Ref: clip(cmp.Or(e.IntentID, FileName), 256), Note: clip(FileName+": "+e.File+": "+e.Error, maxNote)}},
	}
	l.Trigger.Description = clip(e.File+" failed with: "+e.Error, maxDescription)
	if p := pathPhrase(e.File); p != "" {
		l.Trigger.Keywords = []string{p}
	}
	if p := errorPhrase(e.Error); p != "" {
		l.Trigger.ErrorPatterns = []string{p}
	}
	advice := []string{e.Rule}
	if e.Cause != "" {
		advice = append(advice, "Why: "+e.Cause)
	}
	if e.Resolution != "" && e.Resolution != unresolved {
		advice = append(advice, "What mended it: "+e.Resolution)
	}
	l.Advice = strings.Join(advice, "\n")
	return l
}

// slug joins the first words of a rule and some digits of a failure's signature.
func slug(rule, signature string) string {
	return cmp.Or(lesson.Slugify(rule, slugWords), "ledger") + "-" + signature[:slugDigits]
}

func clip(s string, n int) string {
	if r := []rune(s); len(r) > n {
		return string(r[:n])
	}
	return s
}

// pathPhrase returns a path as a keyword. The result is "" for a long path, a path without an extension, and a name
// that every project has, such as main.go.
func pathPhrase(file string) string {
	base := path.Base(file)
	stem := strings.TrimSuffix(base, path.Ext(base))
	if len(file) > maxPattern || strings.ContainsAny(file, "*`") || path.Ext(base) == "" {
		return ""
	}
	switch strings.ToLower(stem) {
	case "", "index", "main", "mod", "lib", "__init__", "readme", "package", "setup", "utils", "app", "test":
		if !strings.Contains(file, "/") {
			return ""
		}
	}
	return file
}

// ruleCode matches codes such as TS2322 and F401. Other words with digits differ from error to error.
var ruleCode = regexp.MustCompile(`^[(\[]?[A-Z]{1,5}\d{2,5}[)\]]?:?$`) //nolint:gochecknoglobals // immutable

// errorPhrase returns the longest sequence of words that probably recur in the same error, or "" if the sequence is too
// short.
func errorPhrase(text string) string {
	var run []string
	best, quoted := "", false
	for word := range strings.FieldsSeq(strings.TrimSuffix(text, "...")) {
		if quoted || isVolatile(word) {
			quoted = isQuoteOpen(word, quoted)
			run = nil
			continue
		}
		run = append(run, word)
		if phrase := strings.Join(run, " "); len(phrase) <= maxPattern && len(phrase) > len(best) {
			best = phrase
		}
	}
	phrase := strings.Trim(best, " :;,.-()[]{}=")
	letters := 0
	for _, r := range phrase {
		if unicode.IsLetter(r) {
			letters++
		}
	}
	if letters < 10 {
		return ""
	}
	return phrase
}

// isVolatile reports whether a word is a number, a path or a quotation. Such words differ from error to error.
func isVolatile(word string) bool {
	return !ruleCode.MatchString(word) && strings.ContainsAny(word, "0123456789/\\`'\"*<>{}$=|")
}

// isQuoteOpen reports whether a quotation is open after the word. open is the state before the word.
func isQuoteOpen(word string, open bool) bool {
	for _, q := range "`\"" {
		if strings.Count(word, string(q))%2 == 1 {
			return !open
		}
	}
	return open
}
