package detect

import (
	"slices"
	"strings"

	"github.com/cespare/xxhash/v2"
)

// An agent can be stuck although each call differs from the calls before: a tool fails with the same message whatever
// the arguments, actions leave a screen as it was, or each result was seen before.

// Number of results that make a loop although the calls differ, and number of steps that are searched.
const (
	minSameMessages = 5 // failures with the same message
	minSameScreens  = 6 // successes with the same result
	minKnownResults = 6 // results in a row that were seen before
	maxStuckSteps   = 40
)

// failsAlike reports whether the last minSameMessages results of a tool are failures with the same message, whatever
// the arguments. Calls of other tools may be between. The calls of one answer count once.
func failsAlike(steps func(int) *step) bool {
	newest := steps(0)
	if newest.outcome().Outcome != Error {
		return false
	}
	wanted := minSameMessages
	if newest.isTransient() {
		wanted++
	}
	return countAlike(steps, wanted, func(s *step) bool { return s.outcome().Outcome == Error && s.message() == newest.message() })
}

// answersAlike reports whether the last minSameScreens results of a tool are the same, although the arguments differ.
// A short result of several calls for different objects is no sign of a loop ("The seat is taken."), except for
// commands in words, as in a game ("The door is locked.").
func answersAlike(steps func(int) *step) bool {
	newest := steps(0)
	if newest.outcome().Outcome != OK || newest.onlyConfirms() || newest.memo.short && !newest.memo.traits.wordy {
		return false
	}
	return countAlike(steps, minSameScreens, func(s *step) bool {
		return s.outcome().Outcome == OK && sameResult(s, newest)
	})
}

// countAlike reports whether the newest step and the steps before of the same tool, at least wanted steps together, are
// alike. The search ends at a turn of a person, at a warning, at a wait, and at a step of the tool that is not alike.
// For successes, the search also ends at an edit, at a command with side effects, and at a call between that shows a
// change: two calls that are equal, with different results. A longer result of another tool counts if it is the same.
func countAlike(steps func(int) *step, wanted int, alike func(*step) bool) bool {
	newest := steps(0)
	succeeds := newest.outcome().Outcome == OK
	heals := succeeds || newest.isTransient()
	count, batch := 1, newest.batch
	var between *step
	for i := 1; i < maxStuckSteps; i++ {
		s := steps(i)
		if s == nil || s.person || s.warned || heals && s.timePassed() {
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

// showsChange reports whether two steps are one call with different results. a may be nil.
func showsChange(a, b *step) bool { return a != nil && sameCall(a, b) && !sameResult(a, b) }

// seesNothingNew reports whether the last minKnownResults answers had only results that were seen before, at least two
// of them different. An edit, a wait, a poll and a new action that is only confirmed are progress.
func seesNothingNew(steps func(int) *step) bool {
	var list []*step // the steps that were read
	back := func(i int) *step {
		for i >= len(list) {
			if len(list) == maxStuckSteps {
				return nil
			}
			s := steps(len(list))
			if s == nil || s.person || s.warned {
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

// wasSeen reports whether an earlier step had the result of s, and s itself is no progress.
func (s *step) wasSeen(earlier func(int) *step) bool {
	v := s.outcome().Outcome
	if v != OK && v != Error || s.memo.traits.repeats {
		return false
	}
	again := v == OK && s.onlyConfirms() // an action is progress, unless the same action was confirmed before
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

// sameTool reports whether two calls call one tool, and commands run one program.
func sameTool(a, b *step) bool { return a.tool() != 0 && a.tool() == b.tool() }

// tool returns a hash of the name of the tool and, for a command, of the program; 0 for an unknown tool.
func (s *step) tool() uint32 {
	if s.memo.tool == 0 && s.call.result.tool != "" {
		name := s.call.result.tool
		if call := s.toolCall(); call.purpose == purposeExec {
			name += " " + call.shell.last
		}
		s.memo.tool = halfIdentity(xxhash.Sum64String(name))
	}
	return s.memo.tool
}

// message returns a hash of the lines that describe a failure, without the words of the call. For a test, lint or
// build, the hash is the hash of the whole result.
func (s *step) message() uint32 {
	if w := s.failureFingerprint(); !w.whole {
		return w.message
	}
	return halfIdentity(s.resultHash())
}

// hashMessage returns a hash of lines without the words of the arguments.
func (p *phrases) hashMessage(lines []string, args string) uint32 {
	said := map[string]bool{}
	for word := range strings.FieldsFuncSeq(strings.ToLower(cutText(args, maxSaid)), isNoLetter) {
		said[word] = true
	}
	var d xxhash.Digest
	d.Reset()
	buf := make([]byte, 0, 256)
	for _, line := range lines {
		buf = p.appendStable(buf[:0], line)
		for word := range strings.FieldsFuncSeq(strings.ToLower(string(buf)), isNoLetter) {
			if !said[word] {
				_, _ = d.WriteString(word)
				_, _ = d.WriteString(" ")
			}
		}
	}
	return halfIdentity(d.Sum64())
}

// maxSaid is the number of bytes of the arguments whose words are removed from a message.
const maxSaid = 4 << 10

// hashPrefix returns a hash of the first bytes of a result. Equal results have equal hashes.
func (s *step) hashPrefix() uint64 { return xxhash.Sum64String(plainLead(s.call.result.text)) }
