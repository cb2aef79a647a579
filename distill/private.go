package distill

import (
	"encoding/json"
	"net/netip"
	"slices"
	"strings"
	"unicode"

	"precept/inject/lesson"
	"precept/internal/sample"
)

// wordScope selects which words a lesson may contain besides public words.
type wordScope uint8

const (
	scopePublic wordScope = iota
	scopeTerms            // the organisation's terms
	scopeNames            // also names, which are capitalised words for products, customers and places
)

// isTerm matches terms such as "frozen", "SLA" and "ReleaseTrain". A word with only an initial capital, such as "Ada",
// may be a name.
func isTerm(word string) bool {
	const maxShortForm, minPartLen = 5, 3
	if strings.ToLower(word) == word || strings.ToUpper(word) == word && len(word) <= maxShortForm {
		return true
	}
	parts, length := 0, minPartLen
	for _, r := range word {
		switch {
		case !unicode.IsUpper(r):
			length++
		case length < minPartLen:
			return false
		default:
			parts, length = parts+1, 1
		}
	}
	return parts >= 2 && length >= minPartLen && !strings.ContainsAny(word, "-/_.")
}

// isShareableWord reports whether a lesson for the session's organisation may quote the word. A host, an absolute path,
// random text or an instruction to a model must not be quoted. Words with digits must not be quoted either, because ids
// and versions change from run to run.
func isShareableWord(word string) bool {
	low := strings.ToLower(word)
	switch {
	case len(word) < 2 || len(word) > 40 || word[0] == '/' || word[0] == '~':
		return false
	case strings.ContainsFunc(word, func(r rune) bool {
		return !unicode.IsLetter(r) && !unicode.IsMark(r) && !strings.ContainsRune("-_/.'’", r)
	}):
		return false
	case wordList("instructions")[low] || wordList("orders")[low]:
		return false
	}
	if file, extension, ok := strings.Cut(low, "."); ok && slices.Contains([]string{"sh", "py", "rs", "pl", "md", "so", "cc", "mk", "ps"}, extension) {
		low = file // these file extensions are also top-level domains
	}
	return !isHost(low, false) && !isRandom(word)
}

// isShareableName reports whether a lesson may name a program, package or script. Digits at the end are allowed, as in
// relctl2.
func isShareableName(name string) bool {
	base := strings.TrimPrefix(strings.TrimRight(name, digits), "./")
	return len(name)-len(base) <= 4 && isShareableWord(base) && !wordList("given names")[strings.ToLower(base)]
}

// isRandom reports whether a word looks like random text: it has seven consonants in a row, or changes too often from
// lower case to capitals.
func isRandom(word string) bool {
	const maxRun, minLettersPerChange = 6, 3
	consonants, caseChanges, letters := 0, 0, 0
	previous := ' '
	for _, r := range word {
		switch {
		case !unicode.IsLetter(r) || strings.ContainsRune("aeiouyAEIOUY", r) || r >= 0x80:
			consonants = 0
		default:
			consonants++
		}
		if consonants > maxRun && word != strings.ToUpper(word) {
			return true
		}
		if unicode.IsUpper(r) && unicode.IsLower(previous) {
			caseChanges++
		}
		if unicode.IsLetter(r) {
			letters++
		}
		previous = r
	}
	return caseChanges >= 3 && letters < minLettersPerChange*(caseChanges+1)
}

// isKnownWord reports whether a word is known from messages, commands or products. Such a word does not name a person.
func isKnownWord(low string) bool {
	for _, list := range []wordSet{wordList("vocabulary"), wordList("common"), wordList("programs"), wordList("products"), wordList("orders"), wordList("bland"), wordList("instructions"), wordList("before persons")} {
		if list[low] || list[strings.TrimSuffix(low, "s")] {
			return true
		}
	}
	return isErrorName(strings.ToUpper(low)) && len(low) < 4
}

// isNameShaped matches words such as "Ada", "O'Neill" and "Jean-Luc".
func isNameShaped(word string) bool {
	first, lower := true, 0
	for _, r := range word {
		switch {
		case first && !unicode.IsUpper(r):
			return false
		case unicode.IsLower(r):
			lower++
		case !unicode.IsUpper(r) && r != '-' && r != '\'' && r != '’':
			return false
		}
		first = false
	}
	return lower > 0
}

// personsIn returns the words that name persons: given names, the words after given names, and unknown capitalised
// words after "ask" or "assigned to". If strict is true, it also returns login names, words after "by", "of" and
// "password", and pairs of unknown capitalised words. strict is for error messages, where it does no harm to omit a
// doubtful word.
func personsIn(text string, strict bool) map[string]bool {
	out := map[string]bool{}
	words := rawWords(strings.Fields(text))
	afterName := false
	for i := range words {
		word := words.plain(i)
		low := strings.ToLower(word)
		isPerson := wordList("given names")[low] && (strict || isNameShaped(word))
		if !isPerson && len(word) > 1 && !isKnownWord(low) && !strings.ContainsAny(word, "/=$%") {
			isPerson = afterName && isNameShaped(word) || words.followsPersonCue(i) || strict && words.mayBePerson(i)
		}
		if isPerson {
			out[low] = true
		}
		afterName = isPerson
	}
	return out
}

type rawWords []string

// plain returns word i without punctuation, or "" if i is out of range.
func (w rawWords) plain(i int) string {
	if i < 0 || i >= len(w) {
		return ""
	}
	word := strings.Trim(w[i], "`'\"“”‘’()[]{}<>,.;:!?*")
	return strings.TrimSuffix(strings.TrimSuffix(word, "'s"), "’s")
}

// endsWith reports whether word i ends with a rune from marks, or is out of range.
func (w rawWords) endsWith(i int, marks string) bool {
	return i < 0 || i >= len(w) || strings.ContainsAny(w[i][len(w[i])-1:], marks)
}

// precedingWords returns the two words before word i in the sentence, without "is" or "was".
func (w rawWords) precedingWords(i int) (last, earlier string) {
	if w.endsWith(i-1, ".!?") {
		return "", ""
	}
	last, earlier = strings.ToLower(w.plain(i-1)), strings.ToLower(w.plain(i-2))
	if last == "is" || last == "was" || last == "" || last == "=" {
		return earlier, ""
	}
	return last, earlier
}

// followsPersonCue reports whether a capitalised word follows "ask", "customer" or "assigned to".
func (w rawWords) followsPersonCue(i int) bool {
	last, earlier := w.precedingWords(i)
	next := w.plain(i + 1)
	if isNameShaped(next) && isKnownWord(strings.ToLower(next)) { // a title such as Ask Reviewers Before Merging
		return false
	}
	return isNameShaped(w.plain(i)) && (wordList("before persons")[last] || wordList("before by")[earlier] && (last == "by" || last == "to"))
}

// mayBePerson reports whether the unknown word i is a login name or a secret, belongs to a pair of capitalised words,
// or follows "by" or "of".
func (w rawWords) mayBePerson(i int) bool {
	last, _ := w.precedingWords(i)
	next := strings.ToLower(w.plain(i + 1))
	hasNameShape := isNameShaped(w.plain(i))
	isUnknownName := func(j int) bool { return isNameShaped(w.plain(j)) && !isKnownWord(strings.ToLower(w.plain(j))) }
	isPair := hasNameShape && (isUnknownName(i+1) && !w.endsWith(i, ".!?") || isUnknownName(i-1) && !w.endsWith(i-1, ".!?"))
	clauseEnds := w.endsWith(i, ".!?,;:") || next == "" || wordList("common")[next]
	isObject := clauseEnds && (last == "by" || hasNameShape && (last == "of" || last == "from"))
	return isPair || isObject || wordList("before logins")[last] || wordList("before secrets")[last]
}

// persons returns the persons named in fields of calls and results, and in commit headers.
func (s *Session) persons() map[string]bool {
	out := map[string]bool{}
	add := func(value string) {
		for w := range strings.FieldsSeq(value) {
			if w = strings.Trim(w, ",.;"); len(w) > 2 && len(value) < 60 && !strings.HasPrefix(w, "[") && !isKnownWord(strings.ToLower(w)) {
				out[strings.ToLower(w)] = true
			}
		}
	}
	for _, e := range s.Content.Events() {
		if e.Role != sample.EventCall {
			continue
		}
		for _, text := range []string{e.Call.Args, e.Text} {
			var value any
			if json.Unmarshal([]byte(text), &value) == nil {
				eachPersonField(value, 6, add)
			}
		}
		for line := range strings.Lines(e.Text) {
			if header, value, ok := strings.Cut(strings.TrimSpace(line), ": "); ok && slices.Contains([]string{"Author", "Committer", "Signed-off-by", "Reviewed-by", "Co-authored-by"}, header) {
				value, _, _ = strings.Cut(value, "<")
				add(strings.TrimSpace(value))
			}
		}
	}
	return out
}

func eachPersonField(v any, depth int, do func(value string)) {
	if depth == 0 {
		return
	}
	switch v := v.(type) {
	case map[string]any:
		for key, value := range v {
			name := strings.NewReplacer("_", "", "-", "", " ", "").Replace(strings.ToLower(key))
			if text, ok := value.(string); ok && wordList("person fields")[name] {
				do(text)
			}
			eachPersonField(value, depth-1, do)
		}
	case []any:
		for _, value := range v[:min(len(v), 50)] {
			eachPersonField(value, depth-1, do)
		}
	}
}

// sessionSpecificReason returns why to refuse a draft with persons, ids, commits, paths on one machine or private
// hosts. For other hosts and URLs, riskReason leaves the decision to an operator.
func (d *Draft) sessionSpecificReason(s *Session) string {
	list := slices.Concat([]string{d.Title, d.Applies, d.CounterExample}, d.Advice, d.Keywords, d.Errors)
	persons := s.persons()
	for _, text := range list {
		if len(personsIn(text, false)) > 0 {
			return "the draft names a person"
		}
		for w := range strings.FieldsFuncSeq(text, func(r rune) bool {
			return !unicode.IsLetter(r) && !unicode.IsDigit(r) && r != '-' && r != '_' && r != '.'
		}) {
			if persons[strings.ToLower(strings.Trim(w, ".-"))] {
				return "the draft names a person in the session"
			}
		}
	}
	text := lesson.NormalizeLookalikes(strings.Join(list, "\n"))
	for _, w := range strings.FieldsFunc(text, func(r rune) bool { return unicode.IsSpace(r) || strings.ContainsRune("`'\"“”()[]{}<>,;=", r) }) {
		w = strings.TrimPrefix(strings.Trim(w, ".:!?"), "#")
		switch {
		case isID(w):
			return "the draft contains an id or a commit from one run"
		case isMachinePath(w):
			return "the draft contains a path from one run"
		case isPrivateHost(w):
			return "the draft names a host in a private network"
		}
	}
	return ""
}

// isID matches a commit, a number with at least six digits, or a mix such as inc0012345 or cus_nf8k2lmq.
func isID(w string) bool {
	letters, numbers, changes, run, longest := 0, 0, 0, 0, 0
	wasDigit := false
	for i, r := range w {
		isDigit := r >= '0' && r <= '9'
		switch {
		case isDigit:
			numbers++
			run++
			longest = max(longest, run)
		case r >= 'a' && r <= 'z':
			letters++
			run = 0
		case r == '-' || r == '_':
			run = 0
			continue
		default:
			return false
		}
		if i > 0 && isDigit != wasDigit {
			changes++
		}
		wasDigit = isDigit
	}
	head := strings.TrimRight(w, digits+"-_")
	switch {
	case letters == 0:
		return numbers >= 6 && containsOnly(w, digits)
	case containsOnly(w, "abcdef"+digits+"-") && len(w) >= 7 && numbers > 0:
		return true
	case slices.Contains([]string{"iso", "rfc", "utf", "cve", "cwe", "ora", "pep", "ansi", "ieee", "ts", "sha", "sqlstate", "err", "e", "sc", "kb", "cp", "windows", "port", "http", "hresult", "mcp"}, head) || strings.HasPrefix(w, "cve-"):
		return false
	case strings.Trim(w[len(head):], "-_"+digits) == "" && longest >= 4:
		return true
	}
	return len(w) >= 10 && changes >= 4
}

// isMachinePath matches paths in a home directory, on a drive, or in a working directory.
func isMachinePath(w string) bool {
	if strings.HasPrefix(w, "~/") && len(w) > 2 || len(w) > 2 && w[1] == ':' && w[2] == '\\' {
		return true
	}
	for _, root := range []string{"/home/", "/users/", "/root/", "/workspace/", "/workspaces/", "/mnt/", "/srv/", "/volumes/", "/private/", "/var/folders/", "/builds/", "/tmp/"} {
		if strings.HasPrefix(w, root) && len(w) > len(root) {
			return true
		}
	}
	return false
}

// isPrivateHost matches an IP address other than loopback, a name in a private network, or a numbered machine
// (prod-db-01).
func isPrivateHost(w string) bool {
	host, _, _ := strings.Cut(w, "/")
	if name, port, ok := strings.Cut(host, ":"); ok && containsOnly(port, digits) {
		host = name
	}
	if ip, err := netip.ParseAddr(host); err == nil && strings.ContainsAny(host, ".:") {
		return !ip.IsLoopback() && !ip.IsUnspecified() && len(host) > 3
	}
	for _, end := range []string{".internal", ".local", ".corp", ".lan", ".intranet", ".svc"} {
		if name, ok := strings.CutSuffix(host, end); ok && name != "" && containsOnly(name, lower+digits+"-.") {
			return true
		}
	}
	parts := strings.Split(host, "-")
	last := parts[len(parts)-1]
	isMachineName := len(parts) >= 3 && len(last) == 2 && last[0] == '0' && containsOnly(last, digits)
	label, rest, hasDot := strings.Cut(host, ".")
	return isMachineName && containsOnly(host, lower+digits+"-") || hasDot && strings.Count(rest, ".") >= 1 && len(label) > 2 && containsOnly(label[len(label)-2:], digits) && isHost(host, false)
}
