package lesson

import (
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"
)

// script is a script that joins short words with the next or the previous word: Korean particles, Arabic and
// Hebrew articles. All other scripts are otherScript.
type script uint8

const (
	otherScript script = iota // also the script of digits, so that a Korean particle after a digit is separate: "v2를"
	hangul
	arabic
	hebrew
)

// scriptOf returns the script of a letter or digit.
func scriptOf(r rune) script {
	switch {
	case r < 0x0590:
		return otherScript
	case unicode.Is(unicode.Hangul, r):
		return hangul
	case unicode.Is(unicode.Arabic, r):
		return arabic
	case unicode.Is(unicode.Hebrew, r):
		return hebrew
	default:
		return otherScript
	}
}

// wordStarts reports whether a phrase may start at a position in a folded text: at a boundary, or
// after articles and prepositions that Arabic and Hebrew write together with the word. letters is
// the length of the first word of the phrase.
func wordStarts(text []byte, at, letters int) bool {
	if boundary(text, at) {
		return true
	}
	r, _ := utf8.DecodeRune(text[at:])
	s := scriptOf(r)
	if s != arabic && s != hebrew {
		return false
	}
	const maxLen = 4 // letters of a prefix
	start := at
	for n := 0; ; n++ {
		if n > 0 && boundary(text, start) {
			break
		}
		if n == maxLen {
			return false
		}
		_, size := utf8.DecodeLastRune(text[:start])
		start -= size
	}
	prefix := string(text[start:at])
	if s == hebrew {
		return letters >= 3 && strings.Trim(prefix, "משהוכלב") == ""
	}
	return letters >= 2 && slices.Contains(arabicArticles(), prefix) || letters >= 3 && slices.Contains(arabicPrefixes(), prefix)
}

// arabicArticles returns the article with the prepositions and conjunctions before it.
func arabicArticles() []string {
	return []string{"ال", "وال", "فال", "بال", "كال", "لل", "ولل", "فلل", "وبال", "فبال", "وكال"}
}

// arabicPrefixes returns the prepositions and conjunctions of one letter, and pairs of them.
func arabicPrefixes() []string {
	return []string{"و", "ف", "ب", "ل", "ك", "س", "وب", "ول", "وك", "وس", "فب", "فل", "فس"}
}

// withoutArticle returns a folded phrase without the article of its first word, so that the phrase
// also matches the word after a preposition and the bare word.
func withoutArticle(folded []byte) []byte {
	rest, ok := strings.CutPrefix(string(folded), arabicArticles()[0])
	if ok && firstLetters([]byte(rest)) >= 3 {
		return []byte(rest)
	}
	return folded
}

// firstLetters returns the number of letters of the first word of a folded text.
func firstLetters(text []byte) (n int) {
	for _, r := range string(text) {
		if kindOf(r) != wordKind {
			break
		}
		n++
	}
	return n
}

// wordEnds reports whether a phrase may end at a position in a folded text: at a boundary, or
// before Korean particles and endings.
func wordEnds(text []byte, at int) bool {
	if boundary(text, at) {
		return true
	}
	const maxLen = 8 // syllables of an ending
	end := at
	for n := 0; n == 0 || !boundary(text, end); n++ {
		r, size := utf8.DecodeRune(text[end:])
		if n == maxLen || scriptOf(r) != hangul {
			return false
		}
		end += size
	}
	return koreanEnding(string(text[at:end]), 3)
}

// koreanEnding reports whether a run of syllables follows a noun: at most the given number of
// particles and endings, the last of which may be a verb that makes a verb of the noun ("배포했어요").
func koreanEnding(s string, particles int) bool {
	if s == "" || slices.ContainsFunc(koreanVerbs(), func(v string) bool { return strings.HasPrefix(s, v) }) {
		return true
	}
	return particles > 0 && slices.ContainsFunc(koreanParticles(), func(p string) bool {
		rest, ok := strings.CutPrefix(s, p)
		return ok && koreanEnding(rest, particles-1)
	})
}

// koreanVerbs returns the first syllables of verbs that follow a noun directly: to do, to become, to
// cause, to suffer, to be there or not.
func koreanVerbs() []string {
	return []string{
		"하", "해", "했", "할", "한", "함", "합", "되", "돼", "됐", "될", "된", "됨", "됩", "시키", "시켜", "시킨", "시킬", "시켰",
		"당하", "당해", "당한", "당했", "없", "있", "같",
	}
}

// koreanParticles returns particles, forms of the copula, and nouns that follow a noun directly.
func koreanParticles() []string {
	return []string{
		"은", "는", "이", "가", "을", "를", "의", "에", "와", "과", "도", "만", "로", "랑", "나", "께", "야", "요", "들", "님", "고", "며", "면",
		"에서", "에게", "에게서", "한테", "께서", "으로", "서", "써", "부터", "까지", "마다", "처럼", "보다", "조차", "마저", "밖에", "대로", "만큼",
		"이나", "란", "라는", "라고", "라도", "라서", "라면", "든", "든지", "하고", "커녕", "지만", "죠", "지",
		"다", "입니다", "입니까", "에요", "예요", "었", "였", "인", "인데", "인지", "인가", "일", "임", "니", "어", "던", "네", "습니다",
		"중", "시", "후", "전", "내", "상", "별", "용", "쯤", "씩", "째", "측", "간",
	}
}
