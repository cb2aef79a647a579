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

// maxLoops bounds how many loops of one session are remembered, and warned of.
const maxLoops = 32

// loops warns of calls that go round in circles, at the top of the newest result. The warning has a
// coin of its own, once a session: its benefit is unproven too. A loop that is not warned of is
// remembered as well, so that it counts once.
func (w *work) loops() {
	state := &w.rec.Lessons.Loops
	for _, l := range w.detected(state) {
		if len(state.Warned) >= maxLoops {
			return
		}
		at, warned, ok := w.resultOf(l)
		if !ok {
			continue
		}
		if state.Warned == nil {
			state.Warned = make(map[string]bool)
		}
		state.Warned[l.CallID] = true
		if warned { // by another precept, on the way here
			w.rec.State.Dirty = true
			continue
		}
		state.Count++
		w.rec.State.Dirty = true
		w.plan.Loops++
		text := Warning(l)
		if w.warns(tokens(len(text))) {
			w.put(at, session.Block{Text: text, Loop: true})
		}
	}
}

// detected are the loops in what is new. Where the provider keeps the history, the detector's own
// memory stands for it.
func (w *work) detected(state *session.LoopState) []detect.Loop {
	mem := func(id string) (wire.Call, bool) {
		c, ok := w.rec.Thread.Calls[id]
		return c, ok
	}
	if !w.Request.Delta {
		state.Delta = nil
		return w.Results.Loops(w.Request, state.Warned, mem)
	}
	loops, next := detect.LoopsSince(state.Delta, w.Request, state.Warned, mem)
	state.Delta, w.rec.State.Dirty = next, true
	return loops
}

// resultOf is the place of the loop's result, and whether a warning stands there already.
func (w *work) resultOf(l detect.Loop) (at spot, warned, ok bool) {
	if l.CallID == "" {
		return spot{}, false, false
	}
	for _, r := range w.Request.Item(l.Index).Results {
		if r.CallID == l.CallID {
			at, ok = w.result(l.Index, r.Block, r.CallID)
			return at, strings.Contains(r.Lead, "[LOOP DETECTED]"), ok
		}
	}
	return spot{}, false, false
}

// warns says how the session's coin fell, and flips it at the first loop.
func (w *work) warns(size int) bool {
	slug := trial.LoopArm.Slug()
	first := w.rec.Lessons.Loops.Count == 1
	var pick trial.Pick
	var ok bool
	w.drawn(func(u *session.Record) { pick, ok = u.Assignment.Pick(slug) })
	if ok && (!first || w.Unit == nil) {
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
