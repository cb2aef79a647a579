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
	maxMatched   = 128           // matching lessons per session
	trialEpsilon = trial.Epsilon // withholding probability of a trial that sets none
)

// spot is a position for a block, with the anchor by which later turns find that position.
type spot struct {
	item, block int
	anchor      wire.Anchor
}

type matchedLesson struct {
	entry  lessonEntry
	action bandit.Action
	spot   spot
}

// insertLessons matches the new content, picks lessons, and inserts the picks that are not withheld. It does not match
// content that has no spot for a block: a lesson that would match there is then not recorded as matched, and can match
// in a later turn.
func (w *work) insertLessons() {
	if w.input.Book == nil || w.injector.cfg.Bandit.K <= 0 || len(w.rec.Lessons.Matched) >= maxMatched {
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
		injectable := h.Resemblance == nil || w.injector.cfg.InjectByLikeness && h.Lesson.Trigger.ByLikeness // if false, the lesson is only suggested
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
		matches = append(matches, matchedLesson{entry: lessonEntry{w.input.Book.Text(h.Lesson), shown.Caution, shown.adviceLimit}, action: action, spot: at})
	}
	if len(matches) == 0 {
		return
	}
	actions := make([]bandit.Action, 0, len(matches))
	for i := range matches {
		m := &matches[i]
		w.rec.Lessons.Matched = append(w.rec.Lessons.Matched, m.action.Slug)
		w.plan.Matched = append(w.plan.Matched, m.action.Slug)
		m.action.Size = m.entry.fullSize()
		m.action.Tokens = estimateTokens(m.action.Size)
		actions = append(actions, m.action)
	}
	picks := w.decide(actions, w.availableBytes(matches))
	w.insertPicks(matches, picks)
	w.recordMatches(matches, picks)
}

// meaningKey is the key for lessons that match by meaning, in place of a call id.
const meaningKey = "\x00meaning"

// matchByMeaning returns the lessons that match the session's earlier words by meaning. It adds one spot for all of
// them to spots. The spot is before the user's words, or at the top of the first tool result.
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

// wasMatched reports whether the lesson matched earlier in the session, or was picked by the unit (the session or run)
// for the other kind of match. Exact matches and matches by likeness (similar words) are measured separately, so a unit
// picks a lesson for only one kind of match.
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

// otherPreceptSlugs returns the lessons that another precept between the agent and this one has inserted.
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

// buildQuery returns the query for the new content, and the spots for blocks by tool call id. The spot for matches in
// the user's words has the key "".
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
	w.injector.cfg.Tags.Tag(&q)
	return q, spots
}

// callByID returns the call with an id. A delta request contains only new items, so the call can be in an earlier
// reply.
func (w *work) callByID(id string) wire.Call {
	if c, ok := w.input.Request.FindCall(id); ok {
		return c
	}
	return w.rec.Thread.Calls[id]
}

func (w *work) earlierCall(id string) (wire.Call, bool) {
	c, ok := w.rec.Thread.Calls[id]
	return c, ok
}

// action returns the lesson as a bandit action. The parent is the first lesson in l.Supersedes that is in the book.
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

func (w *work) present(l *lesson.Lesson) Presentation {
	return w.injector.cfg.Present(l, w.input.Book.Text(l), w.input.Beliefs)
}

// estimateTokens returns the number of tokens in a text of this length, at four bytes per token.
func estimateTokens(bytes int) int { return (bytes + 3) / 4 }

// availableBytes returns how many bytes the block and the session have left for new picks. Withheld picks count like
// injected picks, so that the result does not depend on a random decision.
func (w *work) availableBytes(matches []matchedLesson) int {
	remaining := min(w.injector.cfg.BudgetBytes, 2*w.injector.cfg.BudgetBytes-w.rec.Lessons.BlockBytes) - w.totalFrameBytes(matches)
	if remaining <= 0 {
		return bandit.NoRoom
	}
	return remaining
}

// totalFrameBytes returns the maximum total size of the first and last lines of the new blocks. Each spot has at most
// one block, and each block has at least one pick.
func (w *work) totalFrameBytes(matches []matchedLesson) int {
	spots := make(map[spot]bool, 1)
	for i := range matches {
		spots[matches[i].spot] = true
	}
	return min(len(spots), w.injector.cfg.Bandit.K) * w.injector.cfg.Style.frameBytes()
}

// decide chooses lessons (the picks), and decides at random which picks are withheld. It stores the picks in the
// session's unit. The result also contains picks that other sessions in the unit made, if their lessons match here.
func (w *work) decide(actions []bandit.Action, room int) []trial.Pick {
	w.rec.State.Dirty = true
	cfg := w.injector.cfg.Bandit
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

// insertPicks inserts one block at each spot.
func (w *work) insertPicks(matches []matchedLesson, picks []trial.Pick) {
	var spotOrder []spot
	lines := make(map[spot][]lessonEntry)
	slugs := make(map[spot][]string)
	charged := make(map[spot]bool)
	for i := range matches {
		m := &matches[i]
		pick, ok := findPick(picks, m.action.Slug)
		if !ok {
			continue
		}
		w.rec.Lessons.BlockBytes += m.entry.fullSize()
		if !charged[m.spot] {
			charged[m.spot] = true
			w.rec.Lessons.BlockBytes += w.injector.cfg.Style.frameBytes()
		}
		if !pick.Injected {
			w.plan.Withheld = append(w.plan.Withheld, m.action.Slug)
			continue
		}
		w.plan.Injected = append(w.plan.Injected, m.action.Slug)
		if lines[m.spot] == nil {
			spotOrder = append(spotOrder, m.spot)
		}
		lines[m.spot] = append(lines[m.spot], m.entry)
		slugs[m.spot] = append(slugs[m.spot], m.action.Slug)
	}
	for _, at := range spotOrder {
		text := w.injector.cfg.Style.block(lines[at])
		if at.item == wire.System { // the block comes after the prompt
			text = "\n\n" + strings.TrimRight(text, "\n")
		}
		w.addBlock(at, session.Block{Slugs: slugs[at], Text: text})
	}
}

func findPick(picks []trial.Pick, slug string) (pick trial.Pick, ok bool) {
	i := slices.IndexFunc(picks, func(p trial.Pick) bool { return p.Slug == slug })
	if i < 0 {
		return trial.Pick{}, false
	}
	return picks[i], true
}

// recordMatches adds each matching lesson to the plan with a state: injected, withheld, control, or matched (not
// picked).
func (w *work) recordMatches(matches []matchedLesson, picks []trial.Pick) {
	control := false
	w.withUnitRecord(func(u *session.Record) { control = u.Assignment.Control })
	for i := range matches {
		a := &matches[i].action
		l := sample.Lesson{Slug: a.Slug, Arm: string(a.Arm), State: "matched"}
		if pick, ok := findPick(picks, a.Slug); ok {
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
