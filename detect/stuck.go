package detect

import (
	"slices"
	"strings"

	"github.com/cespare/xxhash/v2"
)

// An agent can be stuck although each call differs from the earlier calls. In such a loop, a tool fails with the same
// message whatever the arguments, actions leave a screen unchanged, or each result was seen before.

// Numbers of results that make a loop although the calls differ, and the number of steps that are searched.
const (
	minSameMessages = 5  // failures with the same message
	minSameScreens  = 6  // successes with the same result
	minKnownResults = 6  // consecutive answers with only results that were seen before
	maxStuckSteps   = 40 // number of steps that are searched
)

// failsAlike reports whether the last minSameMessages results of a tool are failures with the same message, whatever
// the arguments. A transient failure needs one more. Calls of other tools may be in between. All calls of one answer
// count as one.
func failsAlike(steps func(int) *step) bool {
	newest := steps(0)
	if newest.outcome().Outcome != Error {
		return false
	}
	wanted := minSameMessages
	if newest.isTransient() {
		wanted++
	}
	return reachesAlike(steps, wanted, func(s *step) bool { return s.outcome().Outcome == Error && s.messageHash() == newest.messageHash() })
}

// answersAlike reports whether the last minSameScreens results of a tool are the same, although the arguments differ. A
// short result ("The seat is taken.") does not count, because it may hold for different objects. It does count for
// commands in plain language, as in a game ("The door is locked.").
func answersAlike(steps func(int) *step) bool {
	newest := steps(0)
	if newest.outcome().Outcome != OK || newest.onlyConfirms() || newest.memo.short && !newest.memo.traits.wordy {
		return false
	}
	return reachesAlike(steps, minSameScreens, func(s *step) bool {
		return s.outcome().Outcome == OK && sameResult(s, newest)
	})
}

// reachesAlike reports whether the newest step and the steps before of the same tool, at least wanted steps together,
// are alike. The search ends at a user turn, at a warning, at a wait, and at a step of the tool that is not
// alike. For successes, the search also ends at an edit, at a command with side effects, and at a call between that
// shows a change: two calls that are equal, with different results. A longer result of another tool counts if it is the
// same.
func reachesAlike(steps func(int) *step, wanted int, alike func(*step) bool) bool {
	newest := steps(0)
	succeeds := newest.outcome().Outcome == OK
	heals := succeeds || newest.isTransient()
	count, batch := 1, newest.batch
	var between *step
	for i := 1; i < maxStuckSteps; i++ {
		s := steps(i)
		if s == nil || s.isUser || s.warned || heals && s.timePassed() {
			return false
		}
		switch same := sameTool(newest, s); {
		case !same && succeeds && s.mayChangeResults():
			return false
		case !same && (!succeeds || newest.memo.short || !alike(s)):
			if succeeds && showsChange(between, s) {
				return false
			}
			between = s
		case s.outcome().Outcome == Pending || s.outcome().Outcome == Refusal:
		case !alike(s):
			return false
		case s.batch != batch:
			batch = s.batch
			if count++; count == wanted {
				return true
			}
		}
	}
	return false
}

// showsChange reports whether two steps are the same call with different results. a may be nil.
func showsChange(a, b *step) bool { return a != nil && sameCall(a, b) && !sameResult(a, b) }

// seesNothingNew reports whether the last minKnownResults answers had only results that were seen before, of which at
// least two differ. An edit, a wait, a poll, and a new action that is only confirmed count as progress.
func seesNothingNew(steps func(int) *step) bool {
	var list []*step // the steps that were read, the newest first
	back := func(i int) *step {
		for i >= len(list) {
			if len(list) == maxStuckSteps {
				return nil
			}
			s := steps(len(list))
			if s == nil || s.isUser || s.warned {
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
			return slices.ContainsFunc(list[:i], func(o *step) bool { return !sameResult(o, s) })
		}
	}
}

// wasSeen reports whether an earlier step of the same tool had the result of s, and s itself is no progress.
func (s *step) wasSeen(earlier func(int) *step) bool {
	v := s.outcome().Outcome
	if v != OK && v != Error || s.memo.traits.repeats {
		return false
	}
	again := v == OK && s.onlyConfirms() // a confirmed action is progress, unless the same action was confirmed before
	for i := 0; ; i++ {
		o := earlier(i)
		if o == nil {
			return false
		}
		if o.batch != s.batch && sameTool(s, o) && sameResult(s, o) && o.outcome().Outcome == v && (!again || sameCall(s, o)) {
			return true
		}
	}
}

// onlyConfirms reports whether the result of an action is a short text, such as "Sent.", or the result of an edit.
func (s *step) onlyConfirms() bool {
	s.outcome()
	return s.memo.confirms
}

// timePassed reports whether the call waited, so that later results may differ.
func (s *step) timePassed() bool {
	s.outcome()
	return s.memo.timePassed
}

// sameTool reports whether two steps call the same tool. Two commands must also run the same program.
func sameTool(a, b *step) bool { return a.toolHash() != 0 && a.toolHash() == b.toolHash() }

// toolHash returns a hash of the name of the tool and, for a command, of the program; 0 for an unknown tool.
func (s *step) toolHash() uint32 {
	if s.memo.toolHash == 0 && s.call.result.tool != "" {
		name := s.call.result.tool
		if call := s.toolCall(); call.purpose == purposeExec {
			name += " " + call.shell.lastProgram
		}
		s.memo.toolHash = shortHash(xxhash.Sum64String(name))
	}
	return s.memo.toolHash
}

// messageHash returns a hash of the lines that describe a failure, without the words of the call. For a test, lint or
// build, the hash is the hash of the whole result.
func (s *step) messageHash() uint32 {
	if w := s.failureFingerprint(); !w.compareResult {
		return w.message
	}
	return shortHash(s.resultHash())
}

// hashMessage returns a hash of lines without the words of the arguments.
func (p *phrases) hashMessage(lines []string, args string) uint32 {
	argWords := map[string]bool{}
	for word := range strings.FieldsFuncSeq(strings.ToLower(cutText(args, maxMessageArgs)), isWordSeparator) {
		argWords[word] = true
	}
	var d xxhash.Digest
	d.Reset()
	buf := make([]byte, 0, 256)
	for _, line := range lines {
		buf = p.appendStable(buf[:0], line)
		for word := range strings.FieldsFuncSeq(strings.ToLower(string(buf)), isWordSeparator) {
			if !argWords[word] {
				_, _ = d.WriteString(word)
				_, _ = d.WriteString(" ")
			}
		}
	}
	return shortHash(d.Sum64())
}

// maxMessageArgs is the number of bytes of the arguments whose words hashMessage leaves out.
const maxMessageArgs = 4 << 10

// hashPrefix returns a hash of the first bytes of a result. Equal results have equal hashes.
func (s *step) hashPrefix() uint64 { return xxhash.Sum64String(unescapedLead(s.call.result.text)) }
