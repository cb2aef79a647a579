package detect

import (
	"precept/internal/wire"
)

// Loop is a call, or a group of calls, that the agent repeats with the same results.
type Loop struct {
	Index           int    // index of the item with the newest result, which gets the warning
	CallID          string // id of the newest call of the loop
	Tool            string
	Args            string // arguments of the newest call, as sent
	Rule            string // rule that found the loop, such as "failed-again"; meaningOf explains the rules
	IsSecondWarning bool   // the loop already has a warning, and gets the second and last one
}

// Numbers of equal results that make a loop. A transient failure needs one more.
const (
	minFailed  = 2 // failures
	minSilent  = 2 // successes of a command whose output does not report the success
	minSuccess = 5 // other successes, because an agent may read the same file several times
	minGesture = 3 // clicks and inputs that leave the page unchanged

	minAfterWarning = 2 // equal results since the first warning that cause the second warning
)

// maxSteps is the maximum number of earlier steps that are searched for a loop. The search reads and judges each of
// these steps, so the bound limits the cost of a turn.
const maxSteps = 64

// detectLoop decides whether the newest step, steps(0), completes a loop. steps(i) returns the i-th step before the
// newest step, or nil if there is no such step or no visits are left. steps(0) is never nil.
func detectLoop(steps func(int) *step) (Loop, bool) {
	newest := steps(0)
	v := newest.judgement()
	if newest.memo.traits.isRepeatable {
		return Loop{}, false
	}
	count, warnings, sinceWarning := countStreak(steps)
	loop := Loop{Index: newest.item, CallID: newest.callID, Tool: newest.call.result.tool, Args: newest.call.result.args}
	switch {
	case warnings > 1 || warnings == 1 && sinceWarning < minAfterWarning:
		return Loop{}, false
	case v.Outcome == Error && count >= minFailed && (count > minFailed || !newest.isTransient()):
		loop.Rule = "failed-again"
	case v.Outcome == OK && (newest.memo.isSilent && count >= minSilent || newest.memo.traits.isGesture && count >= minGesture || count >= minSuccess):
		loop.Rule = "same-again"
	case v.Outcome == OK && count >= 2 && isCycle(steps):
		loop.Rule = "cycle"
	case isAttemptLoop(steps):
		loop.Rule = "same-answer"
	case failsInVariations(steps), hasSameFailures(steps):
		loop.Rule = "same-failure"
	case hasSameAnswers(steps):
		loop.Rule = "no-change"
	case seesNothingNew(steps):
		loop.Rule = "nothing-new"
	case isUndoLoop(steps):
		loop.Rule = "edit-undo"
	default:
		return Loop{}, false
	}
	loop.IsSecondWarning = warnings == 1
	return loop, true
}

// countStreak returns the number of successive results of the newest call that equal its newest result (count), the
// number of warnings among these results, and the number of results since the newest warning. The streak ends at a step
// after which the result may differ, which is a call with side effects, a wait, a user turn, or a different result of
// the same call. A streak of successes also ends at two equal calls with different results. Results are equal if
// outcome, exit code (see sameCode) and text are equal.
func countStreak(steps func(int) *step) (count, warnings, sinceWarning int) {
	newest, crossed := steps(0), false // crossed is true if a user turn is between step s and the newest call
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
		case changesResults(between, succeeds):
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

// changesResults reports whether one of the steps may have changed the results of later calls. If compareRepeats is
// true, two successive steps that are the same call with different results also count as a change. changesResults
// judges the steps, which is expensive, so the callers first look for an equal call before the steps.
func changesResults(steps []*step, compareRepeats bool) bool {
	for i, s := range steps {
		if s.mayChangeResults() || compareRepeats && i > 0 && showsChange(steps[i-1], s) {
			return true
		}
	}
	return false
}

// isCycle reports whether the last two to four steps repeat the steps before them with equal results, such as A B A B
// or A B C A B C, and no step has side effects. A cycle of four calls needs three rounds, because an agent may read
// four files a second time. A cycle of two or three steps also needs three rounds if one step is a note of the agent.
func isCycle(steps func(int) *step) bool {
	return repeatsLast(steps, 2, 2, canLoop) || repeatsLast(steps, 3, 2, canLoop) || repeatsLast(steps, 4, 3, canLoop) ||
		repeatsLast(steps, 2, 3, canLoopOrPlans) || repeatsLast(steps, 3, 3, canLoopOrPlans)
}

func canLoop(s *step) bool { return !s.isExcludedFromLoops() }

func canLoopOrPlans(s *step) bool { return s.memo.traits.isNote || !s.isExcludedFromLoops() }

// repeatsLast reports whether the last rounds*n steps repeat the same n steps with equal results. accept must return
// true for each of these steps.
func repeatsLast(steps func(int) *step, n, rounds int, accept func(*step) bool) bool {
	lastSteps := make([]*step, rounds*n)
	for i := range lastSteps {
		s := steps(i)
		if s == nil || s.isUser || s.hasWarning || i > 0 && s.batch == lastSteps[i-1].batch {
			return false
		}
		s.judgement() // sets the traits that fits reads
		if !accept(s) {
			return false
		}
		lastSteps[i] = s
		if i >= n && (!sameCall(s, lastSteps[i-n]) || !sameResult(s, lastSteps[i-n])) {
			return false
		}
	}
	return !sameCall(lastSteps[0], lastSteps[1])
}

// keepsStreak reports whether a streak of failures continues across a user turn. The user may have repaired the
// machine, so a streak of a shell, a file tool or a browser ends. A streak of any other tool continues, unless the user
// reports a change or the failure is transient.
func keepsStreak(newest, userStep *step) bool {
	v := newest.judgement()
	return v.Outcome == Error && newest.toolCall().purpose == purposeOther && !userStep.reportsChange() && !newest.isTransient()
}

// findLoops judges the n newest steps, the oldest first, and returns at most maxLoops loops. mayLoop is a cheap test
// that returns false for a step that cannot complete a loop.
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

// loopFinder finds loops in steps that it gets in order, the oldest first. found holds the calls of the loops so far.
// Equal calls of one answer are a single loop.
type loopFinder struct{ found map[answeredCall]bool }

// answeredCall identifies equal calls of one answer.
type answeredCall struct {
	batch      int
	tool, args string
}

// find decides whether the step s completes a loop. steps(i) returns the i-th step before s. mayLoop is the test of
// findLoops.
func (f *loopFinder) find(s *step, mayLoop func(*step) bool, steps func(back int) *step) (Loop, bool) {
	if s.isUser || s.isAutomatic || s.call.result.tool == "" || !mayLoop(s) {
		return Loop{}, false
	}
	loop, ok := detectLoop(func(back int) *step {
		switch {
		case back == 0: // s itself is not counted as a visit
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

// Loops returns the loops that the new tool results of a request complete. The request must contain its whole history.
// warned holds the ids of the calls that got a warning in this session, including warnings that the holdout withheld.
// recall returns calls of earlier replies, for results whose call is not in the request.
//
// A turn without a repetition is cheap: Loops searches the raw bytes of the history for literals of the call, and
// decodes only the items that contain all of these literals.
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
