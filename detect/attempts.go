package detect

import (
	"encoding/json"
	"math/bits"
	"path"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/cespare/xxhash/v2"
)

// A budget is an argument that an agent changes to try the same call again: a time-out, a limit, a page, a command
// option or search words. Calls that differ only in budgets are attempts. If several attempts have the same result, the
// agent is in a loop, because another budget will not change the result.

const (
	minFailedAttempts  = 3 // number of attempts in a loop if all of them failed
	minSuccessAttempts = 3 // number of attempts in a loop if all of them succeeded
)

// countAttempts counts the newest call and the attempts before it. It stops at an attempt with a different result, and
// at another call that may have changed something. budgetsDiffer reports whether the attempts differ, and warned
// whether one of them already got a warning.
func countAttempts(steps func(int) *step) (count int, budgetsDiffer, warned bool) {
	newest := steps(0)
	if newest.identityWithoutBudget() == 0 {
		return 0, false, false
	}
	count = 1
	var between []*step // other calls after the oldest attempt that was counted
	for i := 1; ; i++ {
		s := steps(i)
		switch {
		case s == nil || s.isUser:
			return count, budgetsDiffer, warned
		case s.attemptHash() != newest.attemptHash(), !haveSimilarQueries(newest, s):
			between = append(between, s)
		case changesResults(between, false, newest.memo.isFinal):
			return count, budgetsDiffer, warned
		case s.batch == newest.batch:
		case s.judgement().Outcome != newest.judgement().Outcome || !sameResult(s, newest):
			return count, budgetsDiffer, warned
		default:
			count++
			budgetsDiffer = budgetsDiffer || s.identity() != newest.identity()
			warned = warned || s.hasWarning
		}
	}
}

func (s *step) attemptHash() uint32 {
	if hash := s.identityWithoutBudget(); hash != 0 {
		return hash
	}
	return shortHash(s.identity())
}

// shortHash returns the lower half of a hash. The last bit is always set, because 0 means that there is no hash.
func shortHash(key uint64) uint32 { return uint32(key) | 1 } //nolint:gosec // half of a hash is a hash

func isAttemptLoop(steps func(int) *step) bool {
	count, budgetsDiffer, warned := countAttempts(steps)
	newest := steps(0)
	switch {
	case !budgetsDiffer || warned:
		return false
	case newest.judgement().Outcome == Error:
		return count > minFailedAttempts || count == minFailedAttempts && !newest.isTransient()
	}
	return newest.judgement().Outcome == OK && (!newest.memo.traits.mayChange || newest.memo.traits.scrolls) && count >= minSuccessAttempts
}

// identityWithoutBudget returns a hash of a call without its budgets. The result is 0 if the call has no budget.
func identityWithoutBudget(tool, args string) uint32 {
	call := compiledPhrases().analyseCall(tool, args)
	return call.identityWithoutBudget(tool, args)
}

func (c *toolCall) identityWithoutBudget(tool, args string) uint32 {
	if !c.isComplete(args) {
		return 0
	}
	remaining, changed := c.args, false
	for i, k := range c.args.keys {
		v, budget := c.withoutBudget(k, c.args.vals[i])
		switch {
		case !budget:
			continue
		case !changed:
			remaining.keys, remaining.vals, changed = slices.Clone(remaining.keys), slices.Clone(remaining.vals), true
		}
		remaining.vals[i] = v
		if v.kind == noValue {
			remaining.keys[i] = ""
		}
	}
	if !changed {
		return 0
	}
	n := 0
	for i, k := range remaining.keys {
		if k != "" {
			remaining.keys[n], remaining.vals[n] = k, remaining.vals[i]
			n++
		}
	}
	remaining.keys, remaining.vals = remaining.keys[:n], remaining.vals[:n]
	return shortHash(combineHashes(xxhash.Sum64String(tool), c.hashArgs(remaining)))
}

// withoutBudget removes the budgets from the value v of argument k, and returns noValue if the whole value is a budget.
func (c *toolCall) withoutBudget(k string, v lenientValue) (remaining lenientValue, hasBudget bool) {
	switch v.kind {
	case stringValue:
		text := v.text()
		if isShellKey(k) && c.purpose == purposeExec {
			if cmd, changed := c.withoutBudgets(text); changed {
				return lenientValue{kind: stringValue, raw: cmd}, true
			}
		}
		if sql, ok := canonicalSQL(k, text); ok {
			return lenientValue{kind: stringValue, raw: withoutLimit(sql)}, true
		}
		if c.searches() && isQueryKey(k) {
			return lenientValue{kind: stringValue}, true // haveSimilarQueries compares the words
		}
		return lenientValue{}, c.phrases.isKey("cursor", k) || c.phrases.isKey("budget", k) && isBudget(text) && !c.phrases.isKey("position", k)
	case numberValue:
		return lenientValue{}, c.phrases.isKey("budget", k) || strings.HasPrefix(strings.ToLower(k), "max") || c.scrolls()
	case arrayValue: // view_range
		isNoNumber := func(e lenientValue) bool { return e.kind != numberValue }
		return lenientValue{}, c.phrases.isKey("budget", k) && !slices.ContainsFunc(v.vals, isNoNumber)
	case boolValue: // an option such as force, verbose or ignore_case
		return lenientValue{}, true
	case noValue, objectValue:
	}
	return v, false
}

func (c *toolCall) searches() bool {
	return c.purpose == purposeSearch || c.purpose == purposeWeb || c.purpose == purposeOther && !c.mayChange()
}

func isQueryKey(key string) bool {
	return slices.Contains([]string{"query", "q", "pattern", "regex", "search", "search_term", "search_query", "keywords", "keyword", "terms"}, strings.ToLower(key))
}

// haveSimilarQueries reports whether two searches share more than half of their words, or one search has all words of
// the other.
func haveSimilarQueries(a, b *step) bool {
	x, y := a.memo.queryWords, b.memo.queryWords
	common := x & y
	return common == x || common == y || 2*bits.OnesCount64(common) > bits.OnesCount64(x|y)
}

func (c *toolCall) queryWords() (set uint64) {
	if _, names := c.splitSearchCommand(); names != "" {
		return wordSet(names)
	}
	if !c.searches() {
		return 0
	}
	for i, k := range c.args.keys {
		if isQueryKey(k) {
			set |= wordSet(c.args.vals[i].text())
		}
	}
	return set
}

// wordSet returns a set of the query's words as bits. The hash of a word's first five bytes selects the word's bit.
// Names in code are split, so maxRetries and max_retries give the same set.
func wordSet(query string) (set uint64) {
	const minWord, stem = 2, 5
	add := func(w string) { set |= 1 << (xxhash.Sum64String(w) & 63) }
	for _, w := range nameWords(query) {
		if len(w) >= minWord && !slices.Contains([]string{"the", "and", "for", "how", "with", "not", "from", "of", "to", "in", "on", "or"}, w) {
			add(cutText(w, stem))
		}
	}
	if set == 0 { // the query has only short words
		add(strings.ToLower(query))
	}
	return set
}

// withoutQuery removes the search words from a short result that quotes them, such as "No page for 'x'".
func (c *toolCall) withoutQuery(text string) string {
	const maxQuoting, minQuery = 500, 3
	if !c.searches() {
		return text
	}
	hasQuery := false
	for i, k := range c.args.keys {
		if !isQueryKey(k) {
			continue
		}
		hasQuery = true
		if start := cutText(text, maxQuoting); len(c.args.vals[i].raw) >= minQuery {
			text = strings.ReplaceAll(start, c.args.vals[i].text(), "") + text[len(start):]
		}
	}
	if hasQuery && strings.Contains(text, "score") {
		return withoutScores(text)
	}
	return text
}

// withoutScores removes the decimal fractions after "score", as in "score=0.83", because each query gets other scores.
func withoutScores(text string) string {
	const label = "score"
	var b strings.Builder
	for {
		i := strings.Index(text, label)
		if i < 0 {
			break
		}
		i += len(label)
		b.WriteString(text[:i])
		text = text[i:]
		rest := strings.TrimLeft(text, "\": =-")
		after := strings.TrimLeft(rest, "0123456789.")
		if number := rest[:len(rest)-len(after)]; len(rest) < len(text) && strings.Contains(strings.TrimRight(number, "."), ".") {
			text = after
		}
	}
	b.WriteString(text)
	return b.String()
}

func isWordSeparator(r rune) bool { return r < utf8.RuneSelf && !isWordByte(byte(r)) && r != '_' }

// withoutBudgets removes budgets, and options that have no value (-v), from a command line.
func (c *toolCall) withoutBudgets(text string) (remaining string, changed bool) {
	if text == c.command {
		if found, names := c.splitSearchCommand(); names != "" {
			return found, true
		}
	}
	cmd, changed := c.phrases.commandWithoutBudgets(text)
	if c.purpose != purposeExec {
		return cmd, changed
	}
	var words []string
	if strings.ContainsAny(cmd, "'\"") {
		line, _ := c.phrases.canonicalLine(cmd)
		if line == cmd {
			return cmd, changed
		}
		words = strings.FieldsFunc(line, func(r rune) bool { return r == '\x1f' || r == '\x1e' })
	} else if !isPlainLine(cmd) || strings.ContainsAny(cmd, "\\\n") {
		return cmd, changed
	} else {
		words = strings.Fields(cmd)
	}
	return withoutOptions(words), true
}

// splitSearchCommand splits a find or grep command into two parts. command has the program and the searched folders,
// and names has the patterns searched for. Both are empty for any other command, and for a command line that does more
// than search.
func (c *toolCall) splitSearchCommand() (command, names string) {
	isFilter := func(part shellPart) bool {
		return slices.Contains([]string{"head", "tail", "sort", "wc", "cat"}, part.prog)
	}
	parts := c.shell.parts
	if len(parts) == 0 || !c.shell.readOnly || slices.ContainsFunc(parts[1:], func(part shellPart) bool { return !isFilter(part) }) {
		return "", ""
	}
	switch parts[0].prog {
	case "find":
	case "grep", "egrep", "fgrep", "rg", "ag", "ack":
		return readGrep(parts[0].args)
	default:
		return "", ""
	}
	command = "find"
	isFolder := true // the folders come before the tests, such as -name
	for i, arg := range parts[0].args {
		isFolder = isFolder && !strings.HasPrefix(arg, "-")
		switch {
		case isFolder:
			command += " " + arg
		case i > 1 && (parts[0].args[i-2] == "-not" || parts[0].args[i-2] == "!"):
		case i > 0 && slices.Contains([]string{"-name", "-iname", "-path", "-ipath", "-wholename"}, parts[0].args[i-1]):
			names += " " + arg
		}
	}
	return command, names
}

// readGrep returns "grep" with the searched folders (command), and the pattern. If args has no folder, the folder is
// ".", as for grep -r. "rg --files" has no pattern: it lists the files with a name in the options -g.
func readGrep(args []string) (command, pattern string) {
	options, rest := readOptions(args, optionSyntax{shortWithValue: "efmABCgtTM", longWithValue: "--regexp --glob --iglob --type --max-count"}, false)
	names, listsFiles := "", false
	for _, o := range options {
		switch o.name {
		case "-e", "--regexp":
			pattern += " " + o.value
		case "-g", "--glob", "--iglob":
			names += " " + o.value
		case "--files":
			listsFiles = true
		}
	}
	if listsFiles {
		if pattern = names; names == "" {
			return "", ""
		}
	} else if pattern == "" && len(rest) > 0 {
		pattern, rest = rest[0], rest[1:]
	}
	command = "grep"
	for _, folder := range rest {
		command += " " + path.Clean(folder)
	}
	if len(rest) == 0 {
		command += " ."
	}
	return command, pattern
}

// withoutOptions joins a command's words. It drops settings such as -c NAME=VALUE, and options without a value.
func withoutOptions(words []string) string {
	for i := range len(words) - 1 { // ssh -o BatchMode=yes, git -c core.pager=cat
		if (words[i] == "-o" || words[i] == "-c") && strings.Contains(words[i+1], "=") {
			words[i+1] = "-"
		}
	}
	words = slices.DeleteFunc(words, func(w string) bool {
		return w[0] == '-' && !strings.ContainsAny(w, "=0123456789")
	})
	return strings.Join(words, " ")
}

// commandWithoutBudgets returns a command line without the values of budgets, such as the 3 in "curl --retry 3 x".
func (p *phrases) commandWithoutBudgets(cmd string) (remaining string, changed bool) {
	if len(cmd) > maxCommand || !strings.ContainsAny(cmd, "0123456789") {
		return cmd, false
	}
	words := strings.Fields(cmd)
	for i, w := range words {
		flag, value, ok := strings.Cut(w, "=")
		switch {
		case ok && isBudget(value) && p.inList("budget-option", flag):
			words[i] = ""
		case i > 0 && isBudget(w) && p.inList("budget-option", words[i-1]),
			strings.HasPrefix(w, "-") && isNumber(w[1:]):
			words[i] = "-"
		case isLineRange(strings.Trim(w, `'"`)):
			words[i] = "0p"
		default:
			continue
		}
		changed = true
	}
	if !changed {
		return cmd, false
	}
	return collapseSpaces(strings.Join(words, " ")), true
}

// isBudget reports whether a word is a number, with or without a unit (30, 30s, 2.5).
func isBudget(w string) bool {
	if w == "" || !isDigit(w[0]) { // ParseFloat's error would allocate a copy of the word
		return false
	}
	_, err := strconv.ParseFloat(strings.TrimRight(w, "smhkMG"), 64)
	return err == nil
}

// isLineRange reports whether a word is a sed line range, such as 100,200p.
func isLineRange(w string) bool {
	from, to, ok := strings.Cut(strings.TrimSuffix(w, "p"), ",")
	return ok && strings.HasSuffix(w, "p") && isNumber(from) && isNumber(to)
}

const maxUndo = 32 // steps that isUndoLoop searches

// isUndoLoop reports whether the newest edit repeats an edit that was undone: A to B, B to A, A to B. If the commands
// between the edits differ, a loop needs one more edit, because an agent may undo a repair in order to see a test fail.
func isUndoLoop(steps func(int) *step) bool {
	newest := steps(0)
	call := newest.toolCall()
	if call.purpose != purposeEdit || newest.judgement().Outcome != OK {
		return false
	}
	reversal := undoIdentity(newest.call.result.tool, newest.call.result.args)
	if reversal == newest.identity() || call.path() == "" {
		return false
	}
	minEdits := 4 // if a call writes the whole file, the replaced text is unknown
	if reversal != 0 {
		minEdits = 3
	}
	versions := []uint64{newest.identity()}
	var checks checksBetweenEdits
	for i := 1; i < maxUndo; i++ {
		s := steps(i)
		switch {
		case s == nil || s.isUser || s.hasWarning:
			return false
		case s.isFinishedCheck():
			checks.add(s, len(versions))
			continue
		case !s.mayChangeResults() || !s.isEdit():
			continue
		}
		version := s.identity()
		if s.memo.locationHash != newest.memo.locationHash {
			continue
		}
		versions = append(versions, version)
		n := len(versions)
		switch {
		case reversal != 0 && n == 2 && version != reversal, n > 2 && version != versions[n-3], versions[0] == versions[1]:
			return false
		case n == minEdits && checks.allEqual(n-1), n == minEdits+1:
			return true
		}
	}
	return false
}

// checksBetweenEdits compares the commands that an agent ran between edits, such as tests.
type checksBetweenEdits struct {
	newest           *step // newest command
	editsSinceOldest int   // number of edits after the oldest command
	differ           bool  // commands or their results differ
}

// add records a command and the number of edits after it. Callers add the newest command first.
func (c *checksBetweenEdits) add(s *step, newerEdits int) {
	switch {
	case c.newest == nil:
		c.newest = s
		c.differ = newerEdits > 1
	case !sameCall(s, c.newest) || s.judgement().Outcome != c.newest.judgement().Outcome || !sameResult(s, c.newest), newerEdits > c.editsSinceOldest+1:
		c.differ = true
	}
	c.editsSinceOldest = newerEdits
}

// allEqual reports whether no command ran, or whether the same command ran in each gap between two edits and had the
// same result.
func (c *checksBetweenEdits) allEqual(gaps int) bool {
	return c.newest == nil || !c.differ && c.editsSinceOldest == gaps
}

func (c *toolCall) path() string {
	for i, k := range c.args.keys {
		if c.phrases.isKey("file", k) && c.args.vals[i].kind == stringValue {
			return c.args.vals[i].raw
		}
	}
	return ""
}

// undoIdentity returns the callIdentity of the edit that reverses the given edit, or 0 if unknown.
func undoIdentity(tool, args string) uint64 {
	var top map[string]json.RawMessage
	if len(args) > maxDecodedArgs || json.Unmarshal([]byte(args), &top) != nil {
		return 0
	}
	for _, names := range [][2]string{
		{"old_string", "new_string"},
		{"old_str", "new_str"},
		{"oldText", "newText"},
		{"old_text", "new_text"},
		{"oldString", "newString"},
		{"search", "replace"},
		{"old", "new"},
		{"find", "replace"},
	} {
		before, ok := top[names[0]]
		after, both := top[names[1]]
		if !ok || !both {
			continue
		}
		top[names[0]], top[names[1]] = after, before
		inverted, err := json.Marshal(top)
		if err != nil {
			return 0
		}
		return callIdentity(tool, string(inverted))
	}
	return 0
}
