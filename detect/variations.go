package detect

import (
	"path"
	"slices"
	"strings"

	"github.com/cespare/xxhash/v2"
)

// An agent often repeats a failed call with a different option or spelling. If the failure stays the same, the cause is
// elsewhere.

const (
	minSameFailures   = 4  // number of failed variations in a loop
	maxVariationSteps = 24 // steps searched
)

// failsInVariations reports whether minSameFailures variations of the newest call failed in the same way. The search
// ends at a user turn, a warning, a variation with a different failure, the same call with success, or a step that may
// have changed results. All calls in one answer count as one.
func failsInVariations(steps func(int) *step) bool {
	newest := steps(0)
	if newest.judgement().Outcome != Error || !failsOften(steps) {
		return false
	}
	count, batch, minCount := 1, newest.batch, minSameFailures
	if newest.isTransient() {
		minCount++
	}
	for i := 1; i < maxVariationSteps; i++ {
		s := steps(i)
		switch {
		case s == nil || s.isUser || s.hasWarning || s.mayChangeResults():
			return false
		case s.judgement().Outcome == OK && sameCall(newest, s): // fails by chance
			return false
		case s.judgement().Outcome != Error || !isVariation(newest, s):
		case !sameFailure(newest, s):
			return false
		case s.batch != batch:
			batch = s.batch
			if count++; count == minCount {
				return true
			}
		}
	}
	return false
}

// failsOften is a cheap test that excludes most steps. It reports whether there are enough failures, regardless of the
// call.
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

// isVariation reports whether two calls are variations of each other. They must call the same tool. Two edits must
// change the same file, and two SQL statements must share a name. Two commands must share more than half of their
// combined words, or one command must contain all words of the other. Any other two calls must have equal values for
// all arguments that both of them have.
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

// sameFailure reports whether two variations failed in the same way. Two test runs must have equal results, and two
// edits must have been judged by the same rule. In other calls, half of the lines that describe the failure must be
// equal.
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

// callFingerprint is the part of a failed call that isVariation and sameFailure compare. Words, names and lines are
// stored as hashes.
type callFingerprint struct {
	tool          uint64
	isCommand     bool // the call is a command, and words are the words of its command line
	isEdit        bool
	compareResult bool     // the call is a test, so sameFailure compares whole results
	words         []uint32 // the edited file, command words, SQL names, or other arguments
	names         []uint32 // the edited file, SQL names, or argument names

	failureComputed bool     // the failure and message fields are set
	failure         []uint32 // lines about the failure; set by step.failureFingerprint
	message         uint32   // hash of the message without the words of the call; set by step.failureFingerprint
	// messageWithShortWords is the same without the call's long words and whole paths.
	messageWithShortWords uint32
}

// fingerprint returns the call's fingerprint. The fields failure and message may be unset.
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
		f.isCommand, f.compareResult = true, call.verificationKind() == "test"
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

func (s *step) failureFingerprint() *callFingerprint {
	f := s.fingerprint()
	if f.failureComputed {
		return f
	}
	f.failureComputed = true
	call := s.toolCall()
	lines := s.failureLines()
	buf := make([]byte, 0, 256)
	for _, line := range lines {
		buf = call.phrases.appendStable(buf[:0], line)
		f.failure = appendHash(f.failure, xxhash.Sum64(buf))
	}
	f.message = call.phrases.hashMessage(lines, s.call.result.args, isWordSeparator, 0)
	f.messageWithShortWords = call.phrases.hashMessage(lines, s.call.result.args, isMessageSeparator, 3)
	return f
}

// editedFile returns the file that an edit changes. It also finds the file name in a patch.
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

// commandWords returns a command line's words. It leaves out options that have no value (-v), the directory in a
// program's path, and commands that prepare the shell.
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

func hashAll(words ...string) []uint32 {
	hashes := make([]uint32, 0, min(len(words), maxFingerprintHashes))
	for _, w := range words {
		hashes = appendHash(hashes, xxhash.Sum64String(w))
	}
	return hashes
}

const maxFingerprintHashes = 16 // words or lines compared per failed call

func appendHash(hashes []uint32, hash uint64) []uint32 {
	h := uint32(hash) //nolint:gosec // the lower half of a hash suffices
	if len(hashes) == maxFingerprintHashes || slices.Contains(hashes, h) {
		return hashes
	}
	return append(hashes, h)
}

func countCommon(a, b []uint32) (n int) {
	for _, h := range a {
		if slices.Contains(b, h) {
			n++
		}
	}
	return n
}
