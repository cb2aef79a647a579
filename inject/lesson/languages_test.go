package lesson_test

import (
	"slices"
	"strings"
	"testing"

	"golang.org/x/text/unicode/norm"
	"pgregory.net/rapid"

	"precept/inject/lesson"
)

type language struct {
	name  string
	words []string
	gaps  []string // between two words
}

func languages() []language {
	blanks := []string{" ", "  ", "\n", "\t", "\u00a0", "\u3000", " \u200b", "\r\n"}
	return []language{
		{"English", []string{"load", "more", "pages", "loads", "download"}, blanks},
		{"German", []string{"prüfe", "die", "Straße", "prüfen", "größer"}, blanks},
		{"French", []string{"éviter", "à", "naïf", "évite", "cœur"}, blanks},
		{"Turkish", []string{"ısıt", "İzin", "ilk", "ışık", "izinli"}, blanks},
		{"Vietnamese", []string{"kiểm", "tra", "trang", "kiểmtra", "đường"}, blanks},
		{"Russian", []string{"прочти", "ещё", "страницу", "страница", "йод"}, blanks},
		{"Greek", []string{"διάβασε", "σελίδα", "όλους", "ὅλος", "λόγος"}, blanks},
		{"Hebrew", []string{"טען", "עוד", "דפים", "דפדפן", "שָׁלוֹם"}, blanks},
		{"Arabic", []string{"حمّل", "مزيدا", "صفحة", "صفحات", "مَرَّة"}, blanks},
		{"Hindi", []string{"और", "पेज", "लोड", "करें", "पेजों"}, blanks},
		{"Tamil", []string{"மேலும்", "பக்கம்", "பக்கங்கள்", "ஏற்று"}, blanks},
		{"Korean", []string{"더", "불러오기", "페이지", "데이터베이스", "다시"}, blanks},
		{"Amharic", []string{"ተጨማሪ", "ገጽ", "ገጾች", "ጫን"}, blanks},
	}
}

// respell draws an equivalent spelling of word.
func respell(rt *rapid.T, word string) string {
	switch rapid.IntRange(0, 4).Draw(rt, "spelling") {
	case 0:
		return strings.ToUpper(strings.ReplaceAll(word, "ß", "ẞ"))
	case 1:
		return norm.NFD.String(word)
	case 2:
		return norm.NFC.String(word)
	case 3:
		runes := []rune(word)
		return string(runes[:len(runes)-1]) + "\u00ad" + string(runes[len(runes)-1:])
	default:
		return word
	}
}

// A phrase also matches in another letter case, in another Unicode normal form, and with other white space.
func TestPhraseMatchesEquivalentSpellings(t *testing.T) {
	for _, lang := range languages() {
		t.Run(lang.name, func(t *testing.T) {
			rapid.Check(t, func(rt *rapid.T) {
				draw := func(label string, minWords, maxWords int) []string {
					return rapid.SliceOfN(rapid.SampledFrom(lang.words), minWords, maxWords).Draw(rt, label)
				}
				phrase, text := draw("phrase", 2, 3), draw("text", 0, 12)
				matches := false
				for i := range text {
					matches = matches || i+len(phrase) <= len(text) && slices.Equal(text[i:i+len(phrase)], phrase)
				}
				spell := func(words []string) string {
					var b strings.Builder
					for i, w := range words {
						if i > 0 {
							b.WriteString(rapid.SampledFrom(lang.gaps).Draw(rt, "gap"))
						}
						b.WriteString(respell(rt, w))
					}
					return b.String()
				}
				l := &lesson.Lesson{Slug: "the-one", State: lesson.Active, Trigger: lesson.Trigger{Keywords: []string{spell(phrase)}}}
				q := &lesson.Query{Words: []string{spell(text)}}
				if got := len(lesson.NewBook([]*lesson.Lesson{l}).Match(q)) == 1; got != matches {
					rt.Fatalf("%q in %q: match = %v, want %v", l.Trigger.Keywords, q.Words, got, matches)
				}
			})
		})
	}
}
