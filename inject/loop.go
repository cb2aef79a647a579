package inject

import (
	"strings"

	"precept/bandit"
	"precept/bandit/trial"
	"precept/detect"
	"precept/internal/sample"
	"precept/internal/session"
)

const maxLoops = 32 // loops recorded per session

// loop is a repetition in the new content: the agent repeats a call and gets the same result.
type loop struct {
	detect.Loop

	spot    spot
	isFirst bool // the session's first loop
}

// findLoops records the new loops in w.loops, and returns how many of them to count as outcomes. It records a loop even
// if no warning will be inserted, so that the loop does not count twice.
func (w *work) findLoops() (newLoops int64) {
	state := &w.rec.Lessons.Loops
	for _, l := range w.detectLoops(state) {
		if len(state.WarnedCalls) >= maxLoops {
			return newLoops
		}
		at, hasWarning, ok := w.loopSpot(l)
		if !ok {
			continue
		}
		if state.WarnedCalls == nil {
			state.WarnedCalls = make(map[string]bool)
		}
		state.WarnedCalls[l.CallID], w.rec.State.Dirty = true, true
		if hasWarning { // another precept between the agent and this one has inserted the warning
			continue
		}
		if !l.IsSecondWarning {
			state.Count++
			w.plan.Loops++
			newLoops++
		}
		w.loops = append(w.loops, loop{l, at, state.Count == 1 && !l.IsSecondWarning})
	}
	return newLoops
}

// insertWarnings inserts a warning at the top of each loop's newest result. A loop that continues gets a second,
// different warning.
func (w *work) insertWarnings() {
	for _, l := range w.loops {
		text := loopWarning(l.Loop)
		if w.decideWarning(estimateTokens(len(text)), l.isFirst) {
			w.addBlock(l.spot, session.Block{Text: text, Loop: true})
		}
	}
}

// detectLoops returns the loops in the new content. A delta request contains only new items, so the detector continues
// where the previous turn ended.
func (w *work) detectLoops(state *session.LoopState) []detect.Loop {
	if !w.input.Request.Delta {
		state.DeltaState = nil
		return w.input.Results.Loops(w.input.Request, state.WarnedCalls, w.earlierCall)
	}
	loops, next := detect.LoopsSince(state.DeltaState, w.input.Request, state.WarnedCalls, w.earlierCall)
	state.DeltaState, w.rec.State.Dirty = next, true
	return loops
}

// loopSpot returns the top of the loop's newest result. hasWarning reports whether the result already contains a
// warning.
func (w *work) loopSpot(l detect.Loop) (at spot, hasWarning, ok bool) {
	if l.CallID == "" {
		return spot{}, false, false
	}
	for _, r := range w.input.Request.Item(l.Index).Results {
		if r.CallID == l.CallID {
			at, ok = w.resultSpot(l.Index, r.Block, r.CallID)
			return at, strings.Contains(r.LeadingBlocks, "[LOOP DETECTED]"), ok
		}
	}
	return spot{}, false, false
}

// decideWarning decides at random whether the session gets warnings, to measure their benefit. It decides once per
// session, at the first loop.
func (w *work) decideWarning(tokens int, isFirst bool) bool {
	slug := trial.LoopArm.Slug()
	var pick trial.Pick
	var ok bool
	w.withUnitRecord(func(u *session.Record) { pick, ok = u.Assignment.Pick(slug) })
	if ok && (!isFirst || w.input.Unit == nil) {
		return pick.Injected
	}
	picks := w.decide([]bandit.Action{{Slug: slug, Arm: trial.LoopArm, Confidence: 0.5, Tokens: tokens, Forced: true}}, 0)
	pick, ok = findPick(picks, slug)
	entry := sample.Lesson{Slug: slug, Arm: string(trial.LoopArm), State: "withheld", Propensity: pick.Propensity}
	switch {
	case !ok:
		entry.State = "control"
	case pick.Injected:
		entry.State = "injected"
	}
	if ok || isFirst {
		w.plan.Lessons = append(w.plan.Lessons, entry)
	}
	return ok && pick.Injected
}
