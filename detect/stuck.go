package detect

import (
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/cespare/xxhash/v2"
)

// An agent can be stuck even if its calls differ. For example, a tool fails with the same message each time, actions
// leave a screen unchanged, or every result is one that the agent already had.

// The numbers of results that make a loop even if the calls differ.
const (
	minSameMessages = 5  // failures with the same message
	minSameScreens  = 6  // successes with the same result
	minSameTasks    = 3  // equal tasks for a sub-agent, whatever the answers are
	minTask         = 40 // bytes
	minSameNotes    = 5  // equal notes or plans with nothing in between
	minSameFinal    = 5  // equal results that say that a task has ended
	minKnownResults = 6  // consecutive answers that bring only known results
	maxStuckSteps   = 40 // steps searched
)

// hasSameFailures reports whether the newest call's tool failed minSameMessages times with the same message, whatever
// the arguments were. A transient failure needs one more result. All calls in one answer count as one.
func hasSameFailures(steps func(int) *step) bool {
	newest := steps(0)
	if newest.judgement().Outcome != Error {
		return false
	}
	minCount := minSameMessages
	if newest.isTransient() {
		minCount++
	}
	kind := newest.toolCall().verificationKind()
	afterEdit := kind != "" && hasRecentEdit(steps)
	if kind == "test" && afterEdit {
		return false
	}
	return hasMatchingResults(steps, minCount, func(s *step) bool {
		return s.judgement().Outcome == Error && sameMessage(s, newest) && (!afterEdit || sameResult(s, newest))
	})
}

// hasRecentEdit reports whether one of the last minSameMessages steps was an edit. A test can fail in the same way
// after the first of several necessary edits. A build must print the same.
func hasRecentEdit(steps func(int) *step) bool {
	for i := range minSameMessages {
		if s := steps(i); s != nil && !s.isUser && s.isEdit() {
			return true
		}
	}
	return false
}

// repeatsTask reports whether the newest call gives a sub-agent the same task for the third time. The answers may
// differ, because a model words each answer differently.
func repeatsTask(steps func(int) *step) bool {
	newest := steps(0)
	call := newest.toolCall()
	task, _ := call.args.get("prompt", "instructions", "task", "question")
	if !call.nameHas("delegate", "task", "agent", "subagent", "coworker") || len(task.raw) < minTask {
		return false
	}
	count, batch := 1, newest.batch
	for i := 1; i < maxStuckSteps; i++ {
		s := steps(i)
		switch {
		case s == nil || s.isUser || s.hasWarning || !sameTool(newest, s) && s.mayChangeResults():
			return false
		case s.batch != batch && sameCall(newest, s):
			batch = s.batch
			if count++; count == minSameTasks {
				return true
			}
		}
	}
	return false
}

// hasSameAnswers reports whether the last minSameScreens results of the newest call's tool are the same, even if the
// arguments differ. A short result counts only in a game ("The door is locked."), in which the call sends a command in
// plain language. Elsewhere, a short result ("The seat is taken.") can be about another object each time.
func hasSameAnswers(steps func(int) *step) bool {
	newest := steps(0)
	if newest.judgement().Outcome != OK || newest.onlyConfirms() || newest.memo.isShort && !newest.memo.traits.sendsPlainText {
		return false
	}
	repeated := !newest.memo.traits.isCommand || !newest.memo.traits.mayChange // psql -f 1.sql, psql -f 2.sql
	return hasMatchingResults(steps, minSameScreens, func(s *step) bool {
		repeated = repeated || sameCall(s, newest)
		return s.judgement().Outcome == OK && sameResult(s, newest)
	}) && repeated
}

// repeatsFinalResult reports whether the newest result is the end of a task, and minSameFinal answers brought an equal
// result, whatever the calls were. A wait changes nothing, because the task has ended.
func repeatsFinalResult(steps func(int) *step) bool {
	newest := steps(0)
	if !newest.memo.isFinal || newest.judgement().Outcome != OK {
		return false
	}
	count, batch := 1, newest.batch
	for i := 1; i < maxStuckSteps; i++ {
		s := steps(i)
		switch {
		case s == nil || s.isUser || s.hasWarning || s.mayChangeResults() && !s.memo.waited:
			return false
		case s.batch != batch && sameResult(newest, s):
			batch = s.batch
			if count++; count == minSameFinal {
				return true
			}
		}
	}
	return false
}

// repeatsNote reports whether the last minSameNotes answers only wrote the same note or plan again.
func repeatsNote(steps func(int) *step) bool {
	const minPlan = 80 // bytes; a shorter note is a thought
	if len(steps(0).call.result.args) < minPlan {
		return false
	}
	for i := range minSameNotes {
		s := steps(i)
		if s == nil || s.isUser || s.hasWarning || !s.isNote() || i > 0 && (s.batch == steps(i-1).batch || !sameCall(steps(0), s)) {
			return false
		}
	}
	return true
}

// hasMatchingResults reports whether matches returns true for the results in the newest minCount answers that call the
// newest step's tool. The search ends at a user turn, a warning, or a result that does not match. If time can change
// the result, the search also ends at a wait. If the results are successes, it also ends at a side effect of another
// tool, and where two equal calls of another tool have different results.
func hasMatchingResults(steps func(int) *step, minCount int, matches func(*step) bool) bool {
	newest := steps(0)
	succeeds := newest.judgement().Outcome == OK
	timeMatters := succeeds || newest.isTransient() && !newest.memo.traits.mayChangePage
	count, batch := 1, newest.batch
	var between *step // last call to a different tool
	for i := 1; i < maxStuckSteps; i++ {
		s := steps(i)
		if s == nil || s.isUser || s.hasWarning || timeMatters && s.hasWaited() {
			return false
		}
		switch same := sameTool(newest, s); {
		case !same && succeeds && s.mayChangeResults():
			return false
		case !same && (!succeeds || newest.memo.isShort || !matches(s)):
			if succeeds && showsChange(between, s) {
				return false
			}
			between = s
		case s.judgement().Outcome == Pending || s.judgement().Outcome == Refusal:
		case !matches(s):
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

// showsChange reports whether two steps are the same call with different results. The step a may be nil.
func showsChange(a, b *step) bool { return a != nil && sameCall(a, b) && !sameResult(a, b) }

// hasOnlyKnownResults reports whether the last minKnownResults answers brought only results that the same tool had
// returned before, at least two of them different.
func hasOnlyKnownResults(steps func(int) *step) bool {
	var list []*step // newest first
	back := func(i int) *step {
		for i >= len(list) {
			if len(list) == maxStuckSteps {
				return nil
			}
			s := steps(len(list))
			if s == nil || s.isUser || s.hasWarning {
				return nil
			}
			list = append(list, s)
		}
		return list[i]
	}
	answers, batch := 0, -1
	for i := 0; ; i++ {
		s := back(i)
		if s == nil || !s.wasSeen(func(n int) *step { return back(i + 1 + n) }) {
			return false
		}
		if s.batch != batch {
			batch = s.batch
			answers++
		}
		if answers == minKnownResults {
			return slices.ContainsFunc(list[:i], func(later *step) bool { return !sameResult(later, s) }) &&
				slices.ContainsFunc(list[:i], func(later *step) bool { return !sameCall(later, s) }) // else a check for chance
		}
	}
}

// wasSeen reports whether the tool returned the same result in an earlier answer. The result is false for a poll or a
// wait, because there the agent expects to see the same result.
func (s *step) wasSeen(earlier func(int) *step) bool {
	v := s.judgement().Outcome
	if v != OK && v != Error || s.memo.traits.isRepeatable {
		return false
	}
	needsSameCall := v == OK && s.onlyConfirms() // a new confirmed action, such as an edit, is progress
	for i := 0; ; i++ {
		e := earlier(i)
		if e == nil {
			return false
		}
		if e.batch != s.batch && sameTool(s, e) && sameEnds(s, e) && sameResult(s, e) && e.judgement().Outcome == v && (!needsSameCall || sameCall(s, e)) {
			return true
		}
	}
}

func (s *step) onlyConfirms() bool {
	s.judgement()
	return s.memo.onlyConfirms
}

func (s *step) hasWaited() bool {
	s.judgement()
	return s.memo.waited
}

// sameTool reports whether two calls have the same tool. Two commands must also run the same program.
func sameTool(a, b *step) bool { return a.toolHash() != 0 && a.toolHash() == b.toolHash() }

// toolHash returns a hash of the tool and, for a command, the program. An unknown tool has hash 0.
func (s *step) toolHash() uint32 {
	if s.memo.toolHash == 0 && s.call.result.tool != "" {
		name := s.call.result.tool
		if call := s.toolCall(); call.purpose == purposeExec {
			name += " " + call.shell.mainProgram
		}
		s.memo.toolHash = shortHash(xxhash.Sum64String(name))
	}
	return s.memo.toolHash
}

// messageHash returns a hash of the failure's message, or of the whole result of a test.
func (s *step) messageHash() uint32 {
	if f := s.failureFingerprint(); !f.compareResult {
		return f.message
	}
	return shortHash(s.resultHash())
}

// sameMessage reports whether two failures have the same message. The words of a call can be part of the message by
// chance, so one of two ways to leave them out suffices.
func sameMessage(a, b *step) bool {
	if a.messageHash() == b.messageHash() {
		return true
	}
	x, y := a.failureFingerprint(), b.failureFingerprint()
	return !x.compareResult && !y.compareResult && x.messageWithShortWords != 0 && x.messageWithShortWords == y.messageWithShortWords
}

// hashMessage returns a hash of the different words in the lines, without the words in args, function words, ids and
// positions. isSeparator separates the words. Words in args below minArgWord bytes stay if they have no digit.
func (p *phrases) hashMessage(lines []string, args string, isSeparator func(rune) bool, minArgWord int) uint32 {
	argWords := map[string]bool{}
	for word := range strings.FieldsFuncSeq(strings.ToLower(strings.ReplaceAll(cutText(args, maxMessageArgs), `\n`, " ")), isSeparator) {
		if len(word) >= minArgWord || strings.ContainsAny(word, "0123456789") {
			argWords[word] = true
		}
	}
	seen := map[string]bool{}
	sum := uint64(0)
	buf := make([]byte, 0, 256)
	for _, line := range lines {
		buf = p.appendStable(buf[:0], line)
		for word := range strings.FieldsFuncSeq(strings.ToLower(string(buf)), isSeparator) {
			word = strings.Trim(word, ".:")
			if !seen[word] && !argWords[word] && !slices.Contains(functionWords, word) && !isID(word) {
				sum += xxhash.Sum64String(word)
			}
			seen[word] = true
		}
	}
	return shortHash(sum)
}

func isMessageSeparator(r rune) bool {
	return r < utf8.RuneSelf && strings.IndexByte(" \t\n\"'`\\{}[]()<>,;=|", byte(r)) >= 0
}

// functionWords are words that a message and the arguments share by chance.
//
//nolint:gochecknoglobals // immutable
var functionWords = strings.Fields("a an and are as at be by for from in is it not of on or the this to was with")

// isID matches an id such as 6514201555, kv863692 or job_rmu7iigqtj53uhbb, and a position such as 1:21.
func isID(word string) bool {
	const minDigits, minRandom = 6, 16
	digits, letters := 0, 0
	for i := range len(word) {
		switch {
		case isDigit(word[i]):
			digits++
		case word[i] != ':':
			letters++
		}
	}
	last := word[strings.LastIndexAny(word, "_-:")+1:] // of job_rmu7iigqtj53uhbb
	return digits >= minDigits || letters == 0 && digits < len(word) ||
		digits > 1 && len(word) >= minRandom && !strings.ContainsAny(word, "./") && isRandom(last)
}

const maxMessageArgs = 4 << 10 // bytes of args that hashMessage reads

// hashPrefix returns a hash of a part near the result's start. Results with different hashes are different.
func (s *step) hashPrefix() uint64 { return xxhash.Sum64String(unescapedLead(s.call.result.text)) }
