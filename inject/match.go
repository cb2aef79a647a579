package inject

import (
	"bytes"
	"cmp"
	"slices"
	"strings"

	"precept/bandit"
	"precept/bandit/trial"
	"precept/detect"
	"precept/inject/lesson"
	"precept/internal/sample"
	"precept/internal/session"
	"precept/internal/wire"
)

const (
	maxMatched   = 128           // maximum number of lessons that can match in one session
	trialEpsilon = trial.Epsilon // probability of withholding in a trial whose plan sets none
)

// spot is a position in the request at which a block can be inserted, with the anchor for later turns.
type spot struct {
	item, block int
	anchor      wire.Anchor
}

// matchedLesson is a lesson that matched in this turn and may be chosen.
type matchedLesson struct {
	line   line
	action bandit.Action
	spot   spot
}

// insertLessons matches the lessons with the new content, picks some of the matches, and inserts the injected picks.
// New content at which no block can be inserted is not matched, so that its lessons can match in a later turn.
func (w *work) insertLessons() {
	if w.input.Book == nil || w.in.cfg.Bandit.K <= 0 || len(w.rec.Lessons.Matched) >= maxMatched {
		return
	}
	q, spots := w.buildQuery()
	if len(spots) == 0 && len(w.input.MeaningMatches) == 0 {
		return
	}
	var matches []matchedLesson
	var inserted map[string]bool
	hits := w.input.Book.Match(&q)
	w.plan.LimitExceeded = q.LimitExceeded
	hits = append(hits, w.matchByMeaning(&q, hits, spots)...)
	for i, h := range hits {
		if i == 0 {
			inserted = otherPreceptSlugs(w.input.Request)
		}
		injectable := h.Resemblance == nil || w.in.cfg.InjectByLikeness && h.Lesson.Trigger.ByLikeness // otherwise the lesson is only suggested
		if inserted[h.Lesson.Slug] || !injectable {
			continue
		}
		at, ok := spots[h.CallID]
		if !ok || w.wasMatched(&h) || len(w.rec.Lessons.Matched)+len(matches) >= maxMatched {
			continue
		}
		shown := w.present(h.Lesson)
		action := w.action(h.Lesson, shown.Arm)
		if h.Resemblance != nil {
			action.Slug, action.Arm, action.Trial, action.Parent = trial.LikenessSlug(action.Slug), action.Arm.LikenessArm(), "", ""
		}
		matches = append(matches, matchedLesson{line: line{w.input.Book.Text(h.Lesson), shown.Caution, shown.adviceLimit}, action: action, spot: at})
	}
	if len(matches) == 0 {
		return
	}
	actions := make([]bandit.Action, 0, len(matches))
	for i := range matches {
		m := &matches[i]
		w.rec.Lessons.Matched = append(w.rec.Lessons.Matched, m.action.Slug)
		w.plan.Matched = append(w.plan.Matched, m.action.Slug)
		m.action.Size = m.line.fullSize()
		m.action.Tokens = estimateTokens(m.action.Size)
		actions = append(actions, m.action)
	}
	picks := w.decide(actions, w.availableBytes(matches))
	w.insertPicks(matches, picks)
	w.recordMatches(matches, picks)
}

// meaningKey is the key of the spot for lessons that match by meaning, in the map of spots by call id. No call has
// this id.
const meaningKey = "\x00meaning"

// matchByMeaning returns hits for the lessons that match earlier words of the session by meaning, except the lessons in
// matched. It adds the spot of these hits to spots: before the user's words, or at the top of the first tool result.
func (w *work) matchByMeaning(q *lesson.Query, matched []lesson.Hit, spots map[string]spot) (hits []lesson.Hit) {
	if len(w.input.MeaningMatches) == 0 || q.LimitExceeded {
		return nil
	}
	at, ok := w.answerSpot()
	if !ok {
		return nil
	}
	for _, r := range w.input.MeaningMatches {
		isKnown := slices.ContainsFunc(matched, func(h lesson.Hit) bool { return h.Lesson.Slug == r.Lesson.Slug })
		if h, ok := w.input.Book.MatchByMeaning(q, r); ok && !isKnown {
			h.CallID = meaningKey
			hits, spots[meaningKey] = append(hits, h), at
		}
	}
	return hits
}

// wasMatched reports whether the lesson of a hit matched earlier in the session, exactly or by likeness. It also
// returns true if the unit of the session has picked the lesson by the other kind of match, because each kind has its
// own arm.
func (w *work) wasMatched(h *lesson.Hit) (matched bool) {
	slug, otherSlug := h.Lesson.Slug, trial.LikenessSlug(h.Lesson.Slug)
	if slices.Contains(w.rec.Lessons.Matched, slug) || slices.Contains(w.rec.Lessons.Matched, otherSlug) {
		return true
	}
	if h.Resemblance != nil {
		otherSlug = slug
	}
	w.withUnitRecord(func(u *session.Record) { _, matched = u.Assignment.Pick(otherSlug) })
	return matched
}

// otherPreceptSlugs returns the slugs of the lessons that another precept, between the agent and this one, has inserted
// into the request.
func otherPreceptSlugs(req *wire.Request) map[string]bool {
	if !bytes.Contains(req.Body, []byte("(Advice from earlier runs")) && !bytes.Contains(req.Body, []byte("[KNOWN PITFALLS from earlier runs")) {
		return nil
	}
	slugs := map[string]bool{}
	addSlugs := func(lead string) {
		for line := range strings.Lines(lead) {
			if rest, ok := strings.CutPrefix(line, "- ["); ok {
				slug, _, _ := strings.Cut(rest, "]")
				slugs[slug] = true
			}
		}
	}
	for i := range req.Len() {
		if role := req.Role(i); role != wire.RoleUser && role != wire.RoleTool {
			continue
		}
		it := req.Item(i)
		addSlugs(it.LeadingBlocks)
		for _, res := range it.Results {
			addSlugs(res.LeadingBlocks)
		}
	}
	return slugs
}

// buildQuery returns the matcher's input for the turn, and the spots for blocks by the id of the tool call. The spot
// for matches in the user's words has the key "".
func (w *work) buildQuery() (lesson.Query, map[string]spot) {
	claim := &w.input.Claim
	q := lesson.Query{
		Tenant: w.rec.Identity.Tenant, Agent: claim.Agent, Role: claim.Role, Skill: claim.Skill, Model: w.input.Request.Model, Tools: w.input.Request.Tools, Now: w.input.Now,
	}
	spots := make(map[string]spot)
	if at, ok := w.wordsSpot(); ok {
		spots[""] = at
		for i := w.input.Request.FirstNew(); i < w.input.Request.Len(); i++ {
			if w.input.Request.Role(i) != wire.RoleUser || !w.rec.IsNewItem(w.input.Request, i) {
				continue
			}
			if words := w.input.Request.UserRequest(i); words != "" {
				q.Words = append(q.Words, words)
			}
		}
	}
	if w.rec.Thread.Turns == 1 {
		w.addTaskWords(&q, spots)
	}
	if _, ok := spots[""]; ok {
		q.Tags = claim.Tags
	}
	for _, found := range w.input.Request.NewResults() {
		r := found.Result
		if _, seen := spots[r.CallID]; seen || r.CallID == "" {
			continue
		}
		call := w.callByID(r.CallID)
		v := w.input.Results.Classify(call, r)
		if v.Outcome != detect.Error {
			continue
		}
		if at, ok := w.resultSpot(found.Item, r.Block, r.CallID); ok {
			spots[r.CallID] = at
			q.Errors = append(q.Errors, lesson.ErrorText{CallID: r.CallID, Tool: call.Name, Text: detect.Signature(r.Text), Kinds: w.input.Results.Kinds(call, r)})
		}
	}
	w.in.cfg.Tags.Tag(&q)
	return q, spots
}

// callByID returns the tool call with an id. A delta request contains only the results of calls, so the call then comes
// from an earlier reply.
func (w *work) callByID(id string) wire.Call {
	if c, ok := w.input.Request.CallOf(id); ok {
		return c
	}
	return w.rec.Thread.Calls[id]
}

// earlierCall returns the tool call of an earlier reply.
func (w *work) earlierCall(id string) (wire.Call, bool) {
	c, ok := w.rec.Thread.Calls[id]
	return c, ok
}

// action returns the lesson as an action of the bandit, with the lesson's planned trial. The action's parent is the arm
// of the first lesson in l.Supersedes that the book contains.
func (w *work) action(l *lesson.Lesson, arm trial.Arm) bandit.Action {
	a := bandit.Action{Slug: l.Slug, Arm: arm, Confidence: l.Confidence}
	if l.State == lesson.Trial {
		a.Epsilon, a.Until, a.Trial = cmp.Or(l.Plan.Epsilon, trialEpsilon), l.Plan.Until, l.PlannedTrialName()
	}
	for _, s := range l.Supersedes {
		if old, ok := w.input.Book.Get(s); ok {
			a.Parent = w.present(old).Arm
			break
		}
	}
	return a
}

// present returns the current presentation of the lesson; see Config.Present.
func (w *work) present(l *lesson.Lesson) Presentation {
	return w.in.cfg.Present(l, w.input.Book.Text(l), w.input.Beliefs)
}

// estimateTokens estimates the number of tokens of a text from its length in bytes.
func estimateTokens(bytes int) int { return (bytes + 3) / 4 }

// availableBytes returns the number of bytes that the new picks may take within the budgets of a block and of the
// session. The number decides whether a lesson is inserted, but never shortens its text. Withheld picks count like
// injected picks, so that the number does not depend on a coin.
func (w *work) availableBytes(matches []matchedLesson) int {
	remaining := min(w.in.cfg.BudgetBytes, 2*w.in.cfg.BudgetBytes-w.rec.Lessons.BlockBytes) - w.totalFrameBytes(matches)
	if remaining <= 0 {
		return bandit.NoRoom
	}
	return remaining
}

// totalFrameBytes returns the number of bytes of the fixed lines of the blocks. There is one block for each spot, and
// at most one block for each pick.
func (w *work) totalFrameBytes(matches []matchedLesson) int {
	spots := make(map[spot]bool, 1)
	for i := range matches {
		spots[matches[i].spot] = true
	}
	return min(len(spots), w.in.cfg.Bandit.K) * w.in.cfg.Style.frameBytes()
}

// decide picks among the actions, flips the coins of the new picks, stores the picks in the session's unit, and returns
// the picks of the turn. A session of a unit also gets the matching picks of the unit's other sessions.
func (w *work) decide(actions []bandit.Action, room int) []trial.Pick {
	w.rec.State.Dirty = true
	cfg := w.in.cfg.Bandit
	cfg.Room = room
	var picks []trial.Pick
	w.withUnitRecord(func(u *session.Record) {
		if u == w.rec && !u.IsShared() {
			picks = bandit.Decide(cfg, w.input.Beliefs, &u.Assignment, u.Identity.ID.String(), actions, u.Thread.Turns)
			w.startMeasuring(u, picks)
			return
		}
		given, added := bandit.DecideShared(cfg, w.input.Beliefs, &u.Assignment, u.Identity.ID.String(), actions, w.rec.Lessons.Picks)
		w.startMeasuring(u, added)
		picks, u.State.Dirty = append(given, added...), true
	})
	for i := range picks {
		if picks[i].Slug != trial.LoopArm.Slug() {
			w.rec.Lessons.Picks++
		}
	}
	w.plan.Picks = append(w.plan.Picks, picks...)
	return picks
}

// insertPicks inserts one block at each spot, with the injected picks of the spot. Injected and withheld picks count
// against the byte budget of the session.
func (w *work) insertPicks(matches []matchedLesson, picks []trial.Pick) {
	var spotOrder []spot
	lines := make(map[spot][]line)
	slugs := make(map[spot][]string)
	charged := make(map[spot]bool)
	for i := range matches {
		m := &matches[i]
		pick, ok := pickOf(picks, m.action.Slug)
		if !ok {
			continue
		}
		w.rec.Lessons.BlockBytes += m.line.fullSize()
		if !charged[m.spot] {
			charged[m.spot] = true
			w.rec.Lessons.BlockBytes += w.in.cfg.Style.frameBytes()
		}
		if !pick.Injected {
			w.plan.Withheld = append(w.plan.Withheld, m.action.Slug)
			continue
		}
		w.plan.Injected = append(w.plan.Injected, m.action.Slug)
		if lines[m.spot] == nil {
			spotOrder = append(spotOrder, m.spot)
		}
		lines[m.spot] = append(lines[m.spot], m.line)
		slugs[m.spot] = append(slugs[m.spot], m.action.Slug)
	}
	for _, at := range spotOrder {
		text := w.in.cfg.Style.block(lines[at])
		if at.item == wire.System { // the block follows the prompt
			text = "\n\n" + strings.TrimRight(text, "\n")
		}
		w.addBlock(at, session.Block{Slugs: slugs[at], Text: text})
	}
}

// pickOf returns the pick of a lesson. ok is false for a lesson without a pick.
func pickOf(picks []trial.Pick, slug string) (pick trial.Pick, ok bool) {
	i := slices.IndexFunc(picks, func(p trial.Pick) bool { return p.Slug == slug })
	if i < 0 {
		return trial.Pick{}, false
	}
	return picks[i], true
}

// recordMatches adds each lesson that matched in this turn to the plan, with its state: injected, withheld, control
// (the session is a control session) or matched (not picked).
func (w *work) recordMatches(matches []matchedLesson, picks []trial.Pick) {
	control := false
	w.withUnitRecord(func(u *session.Record) { control = u.Assignment.Control })
	for i := range matches {
		a := &matches[i].action
		l := sample.Lesson{Slug: a.Slug, Arm: string(a.Arm), State: "matched"}
		if pick, ok := pickOf(picks, a.Slug); ok {
			l.Propensity, l.State = pick.Propensity, "withheld"
			if pick.Injected {
				l.State = "injected"
			}
		} else if control {
			l.State = "control"
		}
		w.plan.Lessons = append(w.plan.Lessons, l)
	}
}
