package detect

import (
	"path"
	"slices"
	"strings"

	"github.com/cespare/xxhash/v2"
)

// An agent often repeats a failed call with a variation, such as a different option, a different spelling of a program,
// or an additional argument. If the failure stays the same, the cause is elsewhere.

const (
	minSameFailures   = 4  // number of variations of a call with the same failure that make a loop
	maxVariationSteps = 24 // number of steps that are searched
)

// failsInVariations reports whether the newest step and earlier steps are minSameFailures variations of a call that all
// failed in the same way. The search ends at a user turn, at a warning, at a variation with a different failure, and at
// a step that may have changed results. All calls of one answer count as one.
func failsInVariations(steps func(int) *step) bool {
	newest := steps(0)
	if newest.judgement().Outcome != Error || newest.isTransient() || !failsOften(steps) {
		return false
	}
	count, batch := 1, newest.batch
	for i := 1; i < maxVariationSteps; i++ {
		s := steps(i)
		switch {
		case s == nil || s.isUser || s.hasWarning || s.mayChangeResults():
			return false
		case s.judgement().Outcome != Error || !isVariation(newest, s):
		case !sameFailure(newest, s):
			return false
		case s.batch != batch:
			batch = s.batch
			if count++; count == minSameFailures {
				return true
			}
		}
	}
	return false
}

// failsOften reports whether at least minSameFailures calls of any tool failed since the last step that may have
// changed results. The test is cheap and rejects most steps.
func failsOften(steps func(int) *step) bool {
	count, batch := 1, steps(0).batch
	for i := 1; i < maxVariationSteps && count < minSameFailures; i++ {
		s := steps(i)
		if s == nil || s.isUser || s.hasWarning || s.mayChangeResults() {
			return false
		}
		if s.judgement().Outcome == Error && s.batch != batch {
			count, batch = count+1, s.batch
		}
	}
	return count == minSameFailures
}

// isVariation reports whether two calls of a tool are variations of each other. Two edits are variations if both change
// the same file. Two commands are variations if more than half of the words are common, or if one command has all words
// of the other. Two SQL statements are variations if both contain one name. Two other calls are variations if both have
// some of the same arguments, and these arguments have equal values.
func isVariation(a, b *step) bool {
	x, y := a.fingerprint(), b.fingerprint()
	common := countCommon(x.words, y.words)
	switch {
	case x.tool != y.tool:
		return false
	case x.isCommand:
		fewer := min(len(x.words), len(y.words))
		return 2*common > len(x.words)+len(y.words)-common || common == fewer && fewer > 1
	}
	return common > 0 && countCommon(x.names, y.names) == common
}

// sameFailure reports whether two variations of a call failed in the same way. The results of a test, lint or build
// must be equal, and the judgements of an edit must have the same rule. For any other call, at least half of the lines
// that describe the failure must be equal.
func sameFailure(a, b *step) bool {
	switch x := a.fingerprint(); {
	case x.compareResult:
		return sameResult(a, b)
	case x.isEdit:
		return a.judgement().Rule == b.judgement().Rule
	}
	x, y := a.failureFingerprint(), b.failureFingerprint()
	return 2*countCommon(x.failure, y.failure) >= max(1, min(len(x.failure), len(y.failure)))
}

// callFingerprint holds hashes of the words of a failed call and of the lines of its result.
type callFingerprint struct {
	tool          uint64   // hash of the tool name
	isCommand     bool     // words holds the words of a command line
	isEdit        bool     // the call edits a file
	compareResult bool     // the command is a test, lint or build, so the whole result is compared
	words         []uint32 // the edited file, the words of a command line, the names in SQL, or other arguments
	names         []uint32 // the edited file, the names in SQL, or the names of the arguments

	hasFailure bool
	failure    []uint32 // lines of the result that describe the failure; set by step.failureFingerprint
	message    uint32   // hash of the failure message; set by step.failureFingerprint
}

// fingerprint returns the fingerprint of the step's call. The fields failure and message may be unset.
func (s *step) fingerprint() *callFingerprint {
	if s.memo.fingerprint != nil {
		return s.memo.fingerprint
	}
	f := &callFingerprint{tool: xxhash.Sum64String(s.call.result.tool)}
	s.memo.fingerprint = f
	call := s.toolCall()
	switch file := call.editedFile(s.call.result.args); {
	case file != "":
		f.isEdit, f.words = true, hashAll(file)
		f.names = f.words
	case call.purpose == purposeExec:
		f.isCommand, f.compareResult = true, call.verificationKind() != ""
		f.words = hashAll(call.commandWords()...)
	default:
		for i, key := range call.args.keys {
			if text := call.args.vals[i].text(); isSQL(key, text) {
				f.words = hashAll(strings.Fields(sqlNames(text))...)
				f.names = f.words
				break
			}
			if !call.phrases.isDescriptionKey(key) && !call.phrases.isKey("why", key) && !call.phrases.isKey("budget", key) {
				name := xxhash.Sum64String(key)
				f.words = appendHash(f.words, combineHashes(name, xxhash.Sum64String(call.args.vals[i].text())))
				f.names = appendHash(f.names, name)
			}
		}
	}
	return f
}

// failureFingerprint returns the fingerprint of the step's call, with failure and message set.
func (s *step) failureFingerprint() *callFingerprint {
	f := s.fingerprint()
	if f.hasFailure {
		return f
	}
	f.hasFailure = true
	call := s.toolCall()
	_, lines := call.phrases.headline(s.text())
	buf := make([]byte, 0, 256)
	for _, line := range lines {
		buf = call.phrases.appendStable(buf[:0], line)
		f.failure = appendHash(f.failure, xxhash.Sum64(buf))
	}
	f.message = call.phrases.hashMessage(lines, s.call.result.args)
	return f
}

// editedFile returns the file that an edit changes, or "" if the call is not an edit. A patch names the file in its
// text.
func (c *toolCall) editedFile(args string) string {
	if c.purpose != purposeEdit {
		return ""
	}
	file := c.path()
	if _, patch, ok := strings.Cut(args, "*** Update File: "); ok && file == "" {
		file, _, _ = strings.Cut(patch, `\n`)
	}
	if file == "" {
		return ""
	}
	return path.Clean(file)
}

// commandWords returns the words of a command line. It drops options that have no value, the directories of programs,
// and commands that prepare the shell.
func (c *toolCall) commandWords() []string {
	commandLine, _ := c.canonicalLine()
	var all []string
	for part := range strings.SplitSeq(commandLine, "\x1e") {
		words := strings.FieldsFunc(part, func(r rune) bool { return r == '\x1f' || r == ' ' })
		words = slices.DeleteFunc(words, func(w string) bool { return w == "&&" || w == "|" || w == "||" || w == ";" })
		if len(words) == 0 || slices.Contains([]string{".", "source", "export", "activate", "echo"}, words[0]) {
			continue
		}
		words[0] = path.Base(words[0])
		all = append(all, strings.Fields(withoutOptions(withoutRunner(words)))...)
	}
	return all
}

// hashAll returns the hashes of the first maxFingerprintHashes distinct words.
func hashAll(words ...string) []uint32 {
	hashes := make([]uint32, 0, min(len(words), maxFingerprintHashes))
	for _, w := range words {
		hashes = appendHash(hashes, xxhash.Sum64String(w))
	}
	return hashes
}

// maxFingerprintHashes is the maximum number of words, and the maximum number of lines, of a failed call that are
// compared.
const maxFingerprintHashes = 16

// appendHash appends the lower half of a hash, unless the list is full (maxFingerprintHashes) or already contains the
// value.
func appendHash(hashes []uint32, hash uint64) []uint32 {
	h := uint32(hash) //nolint:gosec // the lower half of a hash suffices
	if len(hashes) == maxFingerprintHashes || slices.Contains(hashes, h) {
		return hashes
	}
	return append(hashes, h)
}

// countCommon returns the number of elements that two lists share.
func countCommon(a, b []uint32) (n int) {
	for _, h := range a {
		if slices.Contains(b, h) {
			n++
		}
	}
	return n
}
