package lesson

import (
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"
)

// script is a writing system. Korean, Arabic and Hebrew have separate values, because they attach short words such as
// particles and articles to the next or previous word.
type script uint8

const (
	otherScript script = iota // includes digits, so that a word ends before a Korean particle, as in "v2를"
	hangul
	arabic
	hebrew
)

func runeScript(r rune) script {
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

// canStartPhrase reports whether a phrase can start at an offset in text. It can start at a word boundary, and after an
// attached Arabic or Hebrew article or preposition. letters is the length of the phrase's first word.
func canStartPhrase(text []byte, at, letters int) bool {
	if isWordBoundary(text, at) {
		return true
	}
	r, _ := utf8.DecodeRune(text[at:])
	s := runeScript(r)
	if s != arabic && s != hebrew {
		return false
	}
	const maxLen = 4 // letters before the phrase's first word
	start := at
	for n := 0; ; n++ {
		if n > 0 && isWordBoundary(text, start) {
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

// arabicArticles returns the article, alone and after prepositions and conjunctions.
func arabicArticles() []string {
	return []string{"ال", "وال", "فال", "بال", "كال", "لل", "ولل", "فلل", "وبال", "فبال", "وكال"}
}

// arabicPrefixes returns one-letter prepositions and conjunctions, and pairs of them.
func arabicPrefixes() []string {
	return []string{"و", "ف", "ب", "ل", "ك", "س", "وب", "ول", "وك", "وس", "فب", "فل", "فس"}
}

// withoutArticle removes an Arabic article at the start of a phrase. The phrase then matches the word with and without
// the article.
func withoutArticle(folded []byte) []byte {
	rest, ok := strings.CutPrefix(string(folded), arabicArticles()[0])
	if ok && firstLetters([]byte(rest)) >= 3 {
		return []byte(rest)
	}
	return folded
}

// firstLetters returns the number of letters in a text's first word.
func firstLetters(text []byte) (n int) {
	for _, r := range string(text) {
		if classifyRune(r) != wordKind {
			break
		}
		n++
	}
	return n
}

// canEndPhrase reports whether a phrase can end at an offset in text. It can end at a word boundary, and before Korean
// particles and endings.
func canEndPhrase(text []byte, at int) bool {
	if isWordBoundary(text, at) {
		return true
	}
	const maxLen = 8 // syllables after the phrase's last word
	end := at
	for n := 0; n == 0 || !isWordBoundary(text, end); n++ {
		r, size := utf8.DecodeRune(text[end:])
		if n == maxLen || runeScript(r) != hangul {
			return false
		}
		end += size
	}
	return isKoreanEnding(string(text[at:end]), 3)
}

// isKoreanEnding reports whether s can follow a noun: at most maxParticles particles and endings, then a verb or
// nothing ("배포했어요").
func isKoreanEnding(s string, maxParticles int) bool {
	if s == "" || slices.ContainsFunc(koreanVerbs(), func(v string) bool { return strings.HasPrefix(s, v) }) {
		return true
	}
	return maxParticles > 0 && slices.ContainsFunc(koreanParticles(), func(p string) bool {
		rest, ok := strings.CutPrefix(s, p)
		return ok && isKoreanEnding(rest, maxParticles-1)
	})
}

// koreanVerbs returns the first syllables of verbs that directly follow a noun, such as the verbs for "do" and
// "become".
func koreanVerbs() []string {
	return []string{
		"하", "해", "했", "할", "한", "함", "합", "되", "돼", "됐", "될", "된", "됨", "됩", "시키", "시켜", "시킨", "시킬", "시켰",
		"당하", "당해", "당한", "당했", "없", "있", "같",
	}
}

// koreanParticles returns particles, copula forms and nouns that directly follow a noun.
func koreanParticles() []string {
	return []string{
		"은", "는", "이", "가", "을", "를", "의", "에", "와", "과", "도", "만", "로", "랑", "나", "께", "야", "요", "들", "님", "고", "며", "면",
		"에서", "에게", "에게서", "한테", "께서", "으로", "서", "써", "부터", "까지", "마다", "처럼", "보다", "조차", "마저", "밖에", "대로", "만큼",
		"이나", "란", "라는", "라고", "라도", "라서", "라면", "든", "든지", "하고", "커녕", "지만", "죠", "지",
		"다", "입니다", "입니까", "에요", "예요", "었", "였", "인", "인데", "인지", "인가", "일", "임", "니", "어", "던", "네", "습니다",
		"중", "시", "후", "전", "내", "상", "별", "용", "쯤", "씩", "째", "측", "간",
	}
}
