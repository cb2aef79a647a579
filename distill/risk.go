package distill

import (
	"net/netip"
	"regexp"
	"slices"
	"strings"
	"sync"
	"unicode"

	"golang.org/x/net/publicsuffix"

	"precept/inject/lesson"
)

// riskReason returns why an operator must read the advice first, or "" if there is no reason. A reason is a URL, a
// host, encoded text, or a verb for fetching, installing, deleting, publishing, changing permissions or turning off a
// check. A negated verb is a reason as well, because a word list does not recognise the negation.
func riskReason(advice string) string {
	text := lesson.NormalizeLookalikes(advice)
	if what := addressReason(text); what != "" {
		return what
	}
	if isEncoded(text) {
		return "the advice contains encoded text"
	}
	for sentence := range strings.FieldsFuncSeq(text, func(r rune) bool { return strings.ContainsRune(";!?\n", r) }) {
		tokens := commandWords(sentence)
		for _, kind := range [...]struct {
			words  wordSet
			reason string
		}{
			{wordList("fetches"), "the advice tells the agent to download something or to run a downloaded program"},
			{wordList("installs"), "the advice installs something"},
			{wordList("deletes"), "the advice deletes something"},
			{wordList("publishes"), "the advice publishes or sends something"},
			{wordList("permissions"), "the advice changes permissions"},
			{wordList("unchecked"), "the advice turns off a check"},
		} {
			if kind.words.occursIn(tokens) {
				return kind.reason
			}
		}
		if wordList("adds").occursIn(tokens) && wordList("kinds of packages").occursIn(tokens) {
			return "the advice installs something"
		}
	}
	return ""
}

func commandWords(sentence string) (out []string) {
	for w := range strings.FieldsFuncSeq(sentence, func(r rune) bool {
		return unicode.IsSpace(r) || strings.ContainsRune("`'\"“”‘’()[]{}<>,:|&=*#", r)
	}) {
		out = append(out, strings.TrimRight(w, "."))
	}
	return out
}

// occursIn reports whether an entry from the list occurs in tokens. An entry is a word, a phrase, or, with a star at
// the end, the start of a word. Letters that look alike are equal.
func (w wordSet) occursIn(tokens []string) bool {
	var letters []string
	for _, t := range tokens {
		letters = append(letters, lesson.Skeleton(t))
	}
	line := " " + strings.Join(tokens, " ") + " "
	for entry := range w {
		stem, prefix := strings.CutSuffix(entry, "*")
		key := lesson.Skeleton(stem)
		switch {
		case prefix && slices.ContainsFunc(letters, func(t string) bool { return strings.HasPrefix(t, key) }):
			return true
		case prefix:
		case strings.Contains(line, " "+entry+" "), !strings.Contains(entry, " ") && key != "" && slices.Contains(letters, key):
			return true
		}
	}
	return false
}

func addressReason(text string) string {
	text = bracketedDot().ReplaceAllString(text, ".")
	text = spacedDot().ReplaceAllString(text, ".$1")
	if strings.Contains(text, "://") || schemes().MatchString(text) || slashes().MatchString(text) {
		return "the advice contains a URL"
	}
	tokens := strings.FieldsFunc(text, func(r rune) bool {
		return unicode.IsSpace(r) || strings.ContainsRune("`'\"“”‘’[]{}<>,;!?|=*", r)
	})
	for i, t := range tokens {
		if i+2 < len(tokens) && slices.Contains([]string{"dot", "punkt", "punto", "point", "點", "点"}, tokens[i+1]) && isHost(t+"."+tokens[i+2], true) {
			return "the advice names a host"
		}
		if isHost(t, false) {
			return "the advice names a host"
		}
	}
	return ""
}

// isHost reports whether a word is a domain with a known or reserved top-level domain, an IP address, a name with a
// port, or a name after an @. A known file name, or a call with parentheses, is not a host. dotAsWord means that the
// text writes dots as the word "dot".
func isHost(word string, dotAsWord bool) bool {
	word = strings.TrimRight(strings.TrimLeft(word, "("), ".:)")
	if strings.HasPrefix(word, "www.") || strings.Contains(word, "xn--") || strings.Contains(word, "localhost") {
		return true
	}
	if _, err := netip.ParseAddr(strings.Trim(word, "()")); err == nil && strings.ContainsAny(word, ".:") && len(word) > 3 {
		return true
	}
	if pos := strings.LastIndexByte(word, '@'); pos > 0 && pos < len(word)-1 && !strings.ContainsAny(word[pos+1:pos+2], "0123456789v^~") {
		return true
	}
	if strings.Contains(word, "(") {
		return false
	}
	host, _, path := strings.Cut(word, "/")
	name, port, hasPort := strings.Cut(host, ":")
	if hasPort && len(port) >= 2 && len(port) <= 5 && containsOnly(port, digits) && containsOnly(name, lower+digits+"-.") && strings.Trim(name, digits) != "" && !isFile(name) {
		return true
	}
	labels := strings.Split(name, ".")
	if len(labels) < 2 || slices.Contains(labels, "") || isFile(word) && !dotAsWord && !path {
		return false
	}
	if _, err := netip.ParseAddr(name); err == nil {
		return true
	}
	if strings.ContainsFunc(name, func(r rune) bool { return r != '.' && r != '-' && !unicode.IsLetter(r) && !unicode.IsDigit(r) }) {
		return false
	}
	suffix, isListed := publicsuffix.PublicSuffix(name)
	return isListed || strings.Contains(suffix, ".") || wordList("top levels")[labels[len(labels)-1]]
}

func isFile(word string) bool { return wordList("known files")[word] }

// isEncoded reports whether a text has escapes, spaced letters, or runs of base64 or hexadecimal characters. The search
// for verbs cannot read such text.
func isEncoded(text string) bool {
	return spacedLetters().MatchString(text) || escapes().MatchString(text) || slices.ContainsFunc(encodedRuns().FindAllString(text, -1), func(run string) bool {
		return strings.ContainsAny(run, digits) && !strings.ContainsAny(run, "_-") || len(run) >= 40
	})
}

func lazyRegexp(pattern string) func() *regexp.Regexp {
	return sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(pattern) })
}

//nolint:gochecknoglobals // immutable, compiled at first use
var (
	bracketedDot  = lazyRegexp(`\s*[\[({<]\s*(?:\.|dot|punkt|punto|point)\s*[\])}>]\s*`)
	spacedLetters = lazyRegexp(`(?:^|\s)(?:\pL\s+){3,}\pL(?:\s|$)`)
	quotations    = lazyRegexp(`“[^”]*”(?:(?:, | or )“[^”]*”)*`)
	spacedDot     = lazyRegexp(`\s+\.\s*([\pL\d])`)
	schemes       = lazyRegexp(`\b(?:h\s*t\s*t\s*p\s*s?|hxxps?|ftps?|sftp|ssh|wss?|git|file|data|javascript|tcp|udp|ldaps?|s3|gs|mailto)\s*:\s*(?:/|\\|\S+@|[a-z]+/[a-z])`)
	slashes       = lazyRegexp(`(?:^|[\s"'(])(?://|\\\\)[\pL\d]`)
	escapes       = lazyRegexp(`(?:\\x[0-9a-f]{2}|%[0-9a-f]{2}|\\u[0-9a-f]{4}|&#x?[0-9a-f]+;|\\[0-7]{3}){2}`)
	encodedRuns   = lazyRegexp(`[a-z0-9+/_-]{24,}={0,2}`)
)
