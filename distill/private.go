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

// wordScope says which words a lesson may contain in addition to public words.
type wordScope uint8

const (
	publicWordsOnly wordScope = iota
	termsToo                  // the terms of the organisation
	namesToo                  // also words with a capital, which are names of products, customers and places
)

// isTerm reports whether a word is written like a term, and not like a name: frozen, SLA, ReleaseTrain.
func isTerm(word string) bool {
	const maxShortForm, minPart = 5, 3
	if strings.ToLower(word) == word || strings.ToUpper(word) == word && len(word) <= maxShortForm {
		return true
	}
	parts, length := 0, minPart
	for _, r := range word {
		switch {
		case !unicode.IsUpper(r):
			length++
		case length < minPart:
			return false
		default:
			parts, length = parts+1, 1
		}
	}
	return parts >= 2 && length >= minPart && !strings.ContainsAny(word, "-/_.")
}

// isOrganisationWord reports whether a word of an error may be quoted in a lesson for the organisation of
// the session: a word of letters that is no host, no path from a root, no random text and no order to a
// model. Words with digits are ids, versions and times, and change from run to run.
func isOrganisationWord(word string) bool {
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
		low = file // these extensions of files are also domains of countries
	}
	return !isHost(low, false) && !isRandom(word)
}

// isOrganisationName reports whether the name of a program, package or script may be named in a lesson for
// the organisation of the session. A name may end with digits: relctl2.
func isOrganisationName(name string) bool {
	base := strings.TrimPrefix(strings.TrimRight(name, digits), "./")
	return len(name)-len(base) <= 4 && isOrganisationWord(base) && !wordList("given names")[strings.ToLower(base)]
}

// isRandom reports whether a word of letters looks like a key: seven consonants in a row, or capitals
// scattered over the word.
func isRandom(word string) bool {
	const maxRun, minHump = 6, 3
	consonants, humps, letters := 0, 0, 0
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
			humps++
		}
		if unicode.IsLetter(r) {
			letters++
		}
		previous = r
	}
	return humps >= 3 && letters < minHump*(humps+1)
}

// isKnownWord reports whether a word in lower case is a word of messages, commands or products, and so is
// not the name of a person.
func isKnownWord(low string) bool {
	for _, list := range []words{wordList("vocabulary"), wordList("common"), wordList("programs"), wordList("products"), wordList("orders"), wordList("bland"), wordList("instructions"), wordList("before persons")} {
		if list[low] || list[strings.TrimSuffix(low, "s")] {
			return true
		}
	}
	return isErrorName(strings.ToUpper(low)) && len(low) < 4
}

// isNameShaped reports whether a word is written like the name of a person: Ada, O'Neill, Jean-Luc.
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

// personsIn returns the words of a text, in lower case, that name persons: given names, the words after
// them, and unknown words with a capital after words such as "ask" or "assigned to". With strict, personsIn
// also returns login names, the words after "by" and "of", two unknown words with capitals, and unknown words
// after "password". strict is for the error of a tool, which can lose a doubtful word at no cost.
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

// rawWords are the words of a text with their punctuation.
type rawWords []string

// plain returns a word without its punctuation, empty outside of the text.
func (w rawWords) plain(i int) string {
	if i < 0 || i >= len(w) {
		return ""
	}
	word := strings.Trim(w[i], "`'\"“”‘’()[]{}<>,.;:!?*")
	return strings.TrimSuffix(strings.TrimSuffix(word, "'s"), "’s")
}

// endsWith reports whether a word ends with one of the signs. The places before and after the text end with any
// sign.
func (w rawWords) endsWith(i int, signs string) bool {
	return i < 0 || i >= len(w) || strings.ContainsAny(w[i][len(w[i])-1:], signs)
}

// before returns the two words before a word in its sentence, in lower case and without "is" and "was".
func (w rawWords) before(i int) (last, earlier string) {
	if w.endsWith(i-1, ".!?") {
		return "", ""
	}
	last, earlier = strings.ToLower(w.plain(i-1)), strings.ToLower(w.plain(i-2))
	if last == "is" || last == "was" || last == "" || last == "=" {
		return earlier, ""
	}
	return last, earlier
}

// followsPersonCue reports whether a word with a capital follows "ask", "customer" or "assigned to".
func (w rawWords) followsPersonCue(i int) bool {
	last, earlier := w.before(i)
	next := w.plain(i + 1)
	if isNameShaped(next) && isKnownWord(strings.ToLower(next)) { // a title with capitals: Ask Reviewers Before Merging
		return false
	}
	return isNameShaped(w.plain(i)) && (wordList("before persons")[last] || wordList("before by")[earlier] && (last == "by" || last == "to"))
}

// mayBePerson reports whether an unknown word is one of two words with capitals, the object of "by" or "of", a
// login name, or a secret.
func (w rawWords) mayBePerson(i int) bool {
	last, _ := w.before(i)
	next := strings.ToLower(w.plain(i + 1))
	shaped := isNameShaped(w.plain(i))
	unknown := func(j int) bool { return isNameShaped(w.plain(j)) && !isKnownWord(strings.ToLower(w.plain(j))) }
	pair := shaped && (unknown(i+1) && !w.endsWith(i, ".!?") || unknown(i-1) && !w.endsWith(i-1, ".!?"))
	clauseEnds := w.endsWith(i, ".!?,;:") || next == "" || wordList("common")[next]
	object := clauseEnds && (last == "by" || shaped && (last == "of" || last == "from"))
	return pair || object || wordList("before logins")[last] || wordList("before secrets")[last]
}

// persons returns the names of persons, as words in lower case, in fields of the calls and results of a session
// and in the headers of commits.
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

// eachPersonField calls do with the values of fields that name persons, down to a depth.
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

// ofOneSession returns the reason why the words of a model's draft belong to one session: the name of a
// person, an id, a commit, a path of one machine, or a host of a private network. The reason is empty if the
// draft has no such word. The gate leaves other hosts and URLs to a person.
func (d *Draft) ofOneSession(s *Session) string {
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
				return "the draft names a person of the session"
			}
		}
	}
	text := lesson.Plain(strings.Join(list, "\n"))
	for _, w := range strings.FieldsFunc(text, func(r rune) bool { return unicode.IsSpace(r) || strings.ContainsRune("`'\"“”()[]{}<>,;=", r) }) {
		w = strings.TrimPrefix(strings.Trim(w, ".:!?"), "#")
		switch {
		case isID(w):
			return "the draft holds an id or a commit of one run"
		case isPathOfMachine(w):
			return "the draft holds a path of one run"
		case isPrivateHost(w):
			return "the draft names a host of a private network"
		}
	}
	return ""
}

// isID reports whether a word in lower case is an id: a commit, a number of six digits, or letters and
// digits as in inc0012345 and cus_nf8k2lmq.
func isID(w string) bool {
	letters, numbers, changes, run, longest := 0, 0, 0, 0, 0
	wasDigit := false
	for i, r := range w {
		digit := r >= '0' && r <= '9'
		switch {
		case digit:
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
		if i > 0 && digit != wasDigit {
			changes++
		}
		wasDigit = digit
	}
	head := strings.TrimRight(w, digits+"-_")
	switch {
	case letters == 0:
		return numbers >= 6 && consistsOf(w, digits)
	case consistsOf(w, "abcdef"+digits+"-") && len(w) >= 7 && numbers > 0:
		return true
	case slices.Contains([]string{"iso", "rfc", "utf", "cve", "cwe", "ora", "pep", "ansi", "ieee", "ts", "sha", "sqlstate", "err", "e", "sc", "kb", "cp", "windows", "port", "http", "hresult", "mcp"}, head) || strings.HasPrefix(w, "cve-"):
		return false
	case strings.Trim(w[len(head):], "-_"+digits) == "" && longest >= 4:
		return true
	}
	return len(w) >= 10 && changes >= 4
}

// isPathOfMachine reports whether a word in lower case is a path in a home directory, on a drive, or in a
// working directory.
func isPathOfMachine(w string) bool {
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

// isPrivateHost reports whether a word in lower case is an address other than one of the machine itself, a
// name of a private network, or a numbered machine: prod-db-01.
func isPrivateHost(w string) bool {
	host, _, _ := strings.Cut(w, "/")
	if name, port, ok := strings.Cut(host, ":"); ok && consistsOf(port, digits) {
		host = name
	}
	if ip, err := netip.ParseAddr(host); err == nil && strings.ContainsAny(host, ".:") {
		return !ip.IsLoopback() && !ip.IsUnspecified() && len(host) > 3
	}
	for _, end := range []string{".internal", ".local", ".corp", ".lan", ".intranet", ".svc"} {
		if name, ok := strings.CutSuffix(host, end); ok && name != "" && consistsOf(name, lower+digits+"-.") {
			return true
		}
	}
	parts := strings.Split(host, "-")
	last := parts[len(parts)-1]
	machine := len(parts) >= 3 && len(last) == 2 && last[0] == '0' && consistsOf(last, digits)
	label, rest, dotted := strings.Cut(host, ".")
	return machine && consistsOf(host, lower+digits+"-") || dotted && strings.Count(rest, ".") >= 1 && len(label) > 2 && consistsOf(label[len(label)-2:], digits) && isHost(host, false)
}
