package detect

import (
	"precept/internal/wire"
)

// Loop is a call, or a group of calls, that the agent repeats with the same results.
type Loop struct {
	Index           int // item with the newest result, into which the warning is inserted
	CallID          string
	Tool            string
	Args            string
	Rule            string // rule that found the loop, such as "failed-again"; see explain.go
	IsSecondWarning bool   // the loop has already got one warning
}

// The minimum numbers of equal results that make a loop. If the failure is transient (it may end by itself), a loop
// needs one more result.
const (
	minFailed  = 2 // failures
	minSilent  = 2 // silent commands: success without a report
	minPrinted = 3 // silent commands with a longer output, because an agent may look at the output once more
	minSuccess = 5 // other successes, because an agent may read the same file several times
	minFinal   = 4 // results that say that a task has ended
	minGesture = 3 // clicks and typed inputs that leave the page unchanged

	minAfterWarning = 2 // equal results from the first to the second warning
)

const maxSteps = 64 // steps searched per loop; reading and judging a step is expensive

// detectLoop reports whether the newest step, steps(0), completes a loop. steps(i) is the i-th step before the newest,
// or nil if there is none.
func detectLoop(steps func(int) *step) (Loop, bool) {
	newest := steps(0)
	v := newest.judgement()
	sameNote, atPrompt := repeatsNote(steps), waitsAtPrompt(steps)
	if newest.memo.traits.isRepeatable && !sameNote && !atPrompt {
		return Loop{}, false
	}
	count, warnings, sinceWarning := countStreak(steps)
	loop := Loop{Index: newest.item, CallID: newest.callID, Tool: newest.call.result.tool, Args: newest.call.result.args}
	switch {
	case warnings > 1 || warnings == 1 && sinceWarning < minAfterWarning:
		return Loop{}, false
	case sameNote:
		loop.Rule = "same-again"
	case atPrompt:
		loop.Rule = "at-prompt"
	case repeatsFinalResult(steps), repeatsTask(steps):
		loop.Rule = "no-change"
	case newest.memo.isFinal && count < minFinal:
		return Loop{}, false
	case v.Outcome == Error && count >= minFailed && (count > minFailed || !newest.isTransient()):
		loop.Rule = "failed-again"
	case v.Outcome == OK && (newest.memo.isSilent && (count >= minPrinted || newest.memo.isShort && count >= minSilent) ||
		newest.memo.traits.isGesture && count >= minGesture || newest.memo.isFinal && count >= minFinal || count >= minSuccess):
		loop.Rule = "same-again"
	case v.Outcome == OK && count >= 2 && isCycle(steps):
		loop.Rule = "cycle"
	case isAttemptLoop(steps):
		loop.Rule = "same-answer"
	case failsInVariations(steps), hasSameFailures(steps):
		loop.Rule = "same-failure"
	case hasSameAnswers(steps):
		loop.Rule = "no-change"
	case hasOnlyKnownResults(steps):
		loop.Rule = "nothing-new"
	case isUndoLoop(steps):
		loop.Rule = "edit-undo"
	default:
		return Loop{}, false
	}
	loop.IsSecondWarning = warnings == 1
	return loop, true
}

// countStreak counts the newest call's successive equal results (the streak), the warnings about them, and the equal
// results since the newest warning. The streak ends at a different result, and at a step that may have changed the
// result: a side effect, a wait, or a user turn. A streak of successes also ends where another call returns two
// different results in a row, because these show that something has changed.
func countStreak(steps func(int) *step) (count, warnings, sinceWarning int) {
	newest, crossed := steps(0), false // true if a user turn is between s and the newest call
	count, sinceWarning = 1, 1
	var between []*step // other calls after the oldest equal call that was counted
	succeeds := newest.judgement().Outcome == OK
	for i := 1; ; i++ {
		s := steps(i)
		switch {
		case s == nil:
			return count, warnings, sinceWarning
		case s.isUser:
			if !keepsStreak(newest, s) {
				return count, warnings, sinceWarning
			}
			crossed = true
		case !sameCall(newest, s):
			between = append(between, s)
		case changesResults(between, succeeds, newest.memo.isFinal || newest.memo.traits.isGesture):
			return count, warnings, sinceWarning
		case s.batch == newest.batch || s.judgement().Outcome == Pending || s.judgement().Outcome == Refusal:
		case s.judgement().Outcome != newest.judgement().Outcome || !sameResult(s, newest),
			!sameCode(s.judgement().Code, newest.judgement().Code):
			return count, warnings, sinceWarning
		default:
			count++
			switch {
			case s.hasWarning && !crossed:
				warnings++
			case warnings == 0:
				sinceWarning++
			}
		}
	}
}

// changesResults reports whether one of the steps may have changed later results. If compareRepeats is true, two
// successive equal calls with different results also count as a change. If ignoreWaits is true, a wait changes nothing.
// It is expensive to judge steps, so callers call changesResults only after they have found an equal call.
func changesResults(steps []*step, compareRepeats, ignoreWaits bool) bool {
	for i, s := range steps {
		if s.mayChangeResults() && !(ignoreWaits && s.memo.waited) || compareRepeats && i > 0 && showsChange(steps[i-1], s) {
			return true
		}
	}
	return false
}

// isCycle reports whether the last steps are a cycle of two to four calls without side effects, such as A B A B or A B
// C A B C. A cycle of four calls needs three rounds, because an agent may read four files twice. So does a cycle that
// contains an agent's note.
func isCycle(steps func(int) *step) bool {
	return repeatsLast(steps, 2, 2, canLoop) || repeatsLast(steps, 3, 2, canLoop) || repeatsLast(steps, 4, 3, canLoop) ||
		repeatsLast(steps, 2, 3, canLoopOrPlans) || repeatsLast(steps, 3, 3, canLoopOrPlans)
}

func canLoop(s *step) bool { return !s.isExcludedFromLoops() }

func canLoopOrPlans(s *step) bool { return s.memo.traits.isNote || !s.isExcludedFromLoops() }

// repeatsLast reports whether the last rounds*n steps repeat the same n calls with equal results, and accept returns
// true for each step.
func repeatsLast(steps func(int) *step, n, rounds int, accept func(*step) bool) bool {
	lastSteps := make([]*step, rounds*n)
	for i := range lastSteps {
		s := steps(i)
		if s == nil || s.isUser || s.hasWarning || i > 0 && s.batch == lastSteps[i-1].batch {
			return false
		}
		s.judgement() // judgement sets the traits that accept reads
		if !accept(s) {
			return false
		}
		lastSteps[i] = s
		if i >= n && (!sameCall(s, lastSteps[i-n]) || !sameResult(s, lastSteps[i-n])) {
			return false
		}
	}
	return !sameCall(lastSteps[0], lastSteps[1]) // one repeated call is a streak, not a cycle
}

// keepsStreak reports whether a streak of equal results continues across a user turn. Only a streak of failures of a
// domain tool (domain.go) continues, and only if the failures are not transient and the user does not report a change.
// With other tools, the user may have repaired the machine.
func keepsStreak(newest, userStep *step) bool {
	v := newest.judgement()
	return v.Outcome == Error && newest.toolCall().purpose == purposeOther && !userStep.reportsChange() && !newest.isTransient()
}

// findLoops returns the loops that the n newest steps complete, at most maxLoops, in the order of the steps. mayLoop is
// a cheap test: if it returns false, the step cannot complete a loop.
func (h *history) findLoops(n int, mayLoop func(*step) bool) []Loop {
	var loops []Loop
	var finder loopFinder
	for i := n - 1; i >= 0 && len(loops) < maxLoops; i-- {
		loop, ok := finder.find(h.steps[i], mayLoop, func(back int) *step { return h.stepBack(i + back) })
		if ok {
			loops = append(loops, loop)
		}
	}
	return loops
}

// loopFinder reports for each step whether it completes a loop. The caller passes the steps in conversation order.
// Equal calls in one answer give only one loop.
type loopFinder struct{ found map[answeredCall]bool }

type answeredCall struct {
	batch      int
	tool, args string
}

// find returns the loop that the step s completes, if any. steps(i) returns the i-th step before s.
func (f *loopFinder) find(s *step, mayLoop func(*step) bool, steps func(back int) *step) (Loop, bool) {
	if s.isUser || s.isAutomatic || s.call.result.tool == "" || !mayLoop(s) {
		return Loop{}, false
	}
	loop, ok := detectLoop(func(back int) *step {
		switch {
		case back == 0:
			return s
		case back > maxSteps:
			return nil
		}
		return steps(back)
	})
	call := answeredCall{s.batch, s.call.result.tool, s.call.result.args}
	if !ok || f.found[call] {
		return Loop{}, false
	}
	if f.found == nil {
		f.found = map[answeredCall]bool{}
	}
	f.found[call], s.hasWarning = true, true
	return loop, true
}

// Loops returns the loops that the new tool results complete. The request must contain the whole history. warned holds
// the ids of calls that got a warning in this session, including warnings that the experiment withheld. recall returns
// calls in earlier replies.
func (r *Results) Loops(
	req *wire.Request, warned map[string]bool, recall func(callID string) (wire.Call, bool),
) []Loop {
	from := req.FirstNew()
	h := &history{req: req, results: r, firstNew: from, unreadEnd: req.End(), visitsLeft: maxVisits, warnedCalls: warned, recall: recall}
	h.readBatch()
	h.answerStart = h.unreadEnd
	return h.findLoops(len(h.steps), func(s *step) bool {
		return s.item >= from && !warned[s.callID] && (s.judgement().Outcome == Error || h.hasEarlierResult(s) || h.hasEarlierCall(s))
	})
}
