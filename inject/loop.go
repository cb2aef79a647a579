package inject

import (
	"strings"

	"precept/bandit"
	"precept/bandit/trial"
	"precept/detect"
	"precept/internal/sample"
	"precept/internal/session"
	"precept/internal/wire"
)

// maxLoops limits the loops of one session that are remembered and warned of.
const maxLoops = 32

// loop is a loop in the new content, with the place of the warning.
type loop struct {
	detect.Loop

	at    spot
	first bool // first loop of the session
}

// findLoops finds and remembers the repeated calls in the new content, and returns the number of new
// loops. A loop whose warning is withheld is also remembered, so that the loop counts once.
func (w *work) findLoops() (fresh int64) {
	state := &w.rec.Lessons.Loops
	for _, l := range w.detected(state) {
		if len(state.WarnedCalls) >= maxLoops {
			return fresh
		}
		at, warned, ok := w.resultOf(l)
		if !ok {
			continue
		}
		if state.WarnedCalls == nil {
			state.WarnedCalls = make(map[string]bool)
		}
		state.WarnedCalls[l.CallID], w.rec.State.Dirty = true, true
		if warned { // another precept between the agent and this one has inserted the warning
			continue
		}
		if !l.Again {
			state.Count++
			w.plan.Loops++
			fresh++
		}
		w.loops = append(w.loops, loop{l, at, state.Count == 1 && !l.Again})
	}
	return fresh
}

// warn inserts warnings of the found loops at the top of their newest results. The warning has its
// own coin, once per session, because the benefit of the warning is unproven, too. A loop that
// continues after its warning gets one more warning, with another text.
func (w *work) warn() {
	for _, l := range w.loops {
		text := Warning(l.Loop)
		if w.flipsWarning(tokens(len(text)), l.first) {
			w.addBlock(l.at, session.Block{Text: text, Loop: true})
		}
	}
}

// detected returns the loops in the new content. If the provider keeps the history, the detector's
// state replaces the history.
func (w *work) detected(state *session.LoopState) []detect.Loop {
	recall := func(id string) (wire.Call, bool) {
		c, ok := w.rec.Thread.Calls[id]
		return c, ok
	}
	if !w.input.Request.Delta {
		state.DeltaState = nil
		return w.input.Results.Loops(w.input.Request, state.WarnedCalls, recall)
	}
	loops, next := detect.LoopsSince(state.DeltaState, w.input.Request, state.WarnedCalls, recall)
	state.DeltaState, w.rec.State.Dirty = next, true
	return loops
}

// resultOf returns the position of the loop's result, and reports whether the result has a warning
// already.
func (w *work) resultOf(l detect.Loop) (at spot, warned, ok bool) {
	if l.CallID == "" {
		return spot{}, false, false
	}
	for _, r := range w.input.Request.Item(l.Index).Results {
		if r.CallID == l.CallID {
			at, ok = w.resultSpot(l.Index, r.Block, r.CallID)
			return at, strings.Contains(r.Lead, "[LOOP DETECTED]"), ok
		}
	}
	return spot{}, false, false
}

// flipsWarning reports whether the coin of the session, a random decision, lets the session get warnings. The coin is
// flipped at the first loop and decides for all warnings of the session.
func (w *work) flipsWarning(size int, first bool) bool {
	slug := trial.LoopArm.Slug()
	var pick trial.Pick
	var ok bool
	w.withCoins(func(u *session.Record) { pick, ok = u.Assignment.Pick(slug) })
	if ok && (!first || w.input.Unit == nil) {
		return pick.Injected
	}
	picks := w.decide([]bandit.Action{{Slug: slug, Arm: trial.LoopArm, Confidence: 0.5, Tokens: size, Forced: true}}, 0)
	pick, ok = pickOf(picks, slug)
	seen := sample.Lesson{Slug: slug, Arm: string(trial.LoopArm), State: "withheld", Propensity: pick.Propensity}
	switch {
	case !ok:
		seen.State = "control"
	case pick.Injected:
		seen.State = "injected"
	}
	if ok || first {
		w.plan.Lessons = append(w.plan.Lessons, seen)
	}
	return ok && pick.Injected
}
