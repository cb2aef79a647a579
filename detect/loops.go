package detect

import (
	"strings"

	"precept/internal/wire"
)

// Loop is a call that keeps coming back with the same result.
type Loop struct {
	Index  int    // of the item that holds the result: where the warning belongs
	CallID string // of the call whose result is to be warned of
	Tool   string
	Args   string // as sent
	Rule   string // "failed-again", "same-again", "cycle"
}

// How often a result must come back alike. A failure, and a command that never says how it ended,
// is a loop the second time; a success that is read again is harmless for a while.
const (
	againFailed  = 2
	againSilent  = 2
	againSuccess = 5
)

// judge decides whether the newest step, steps(0), is a loop. steps(i) is the i-th step back, nil
// before the first.
func judge(steps func(int) *step) (Loop, bool) {
	now := steps(0)
	if now == nil {
		return Loop{}, false
	}
	v := now.outcome()
	if now.repeats {
		return Loop{}, false
	}
	count, warned := streak(steps)
	loop := Loop{Index: now.item, CallID: now.callID, Tool: now.tool, Args: now.args}
	switch {
	case warned:
		return Loop{}, false
	case v.Outcome == Error && count >= againFailed:
		loop.Rule = "failed-again"
	case v.Outcome == OK && (now.silent && count >= againSilent || count >= againSuccess):
		loop.Rule = "same-again"
	case v.Outcome == OK && count >= 2 && cycle(steps):
		loop.Rule = "cycle"
	default:
		return Loop{}, false
	}
	return loop, true
}

// streak counts how often the newest call came back alike, and says whether that was warned of. The
// walk back ends where the world may have become another one: at a successful call that changes it,
// a person's turn, another result of the same call.
func streak(steps func(int) *step) (count int, warned bool) {
	now, adjacent, crossed := steps(0), true, false
	count = 1
	for i := 1; ; i++ {
		s := steps(i)
		switch {
		case s == nil:
			return count, warned
		case s.person:
			if !staysClosed(now, s) {
				return count, warned
			}
			crossed = true
		case s.identity() != now.identity():
			if s.look(); s.changing && s.outcome().Outcome == OK {
				return count, warned
			}
			adjacent = adjacent && s.repeats
		case s.batch == now.batch || s.outcome().Outcome == Pending || s.outcome().Outcome == Refusal:
		case !alike(now, s, adjacent):
			return count, warned
		default:
			count++
			warned = warned || s.warned && !crossed
		}
	}
}

// alike: the same end. Failures right after one another are alike too when the same exit code or
// status ends them: what they print varies. With other calls between, only the same result is.
func alike(now, s *step, adjacent bool) bool {
	a, b := now.outcome(), s.outcome()
	if a.Outcome != b.Outcome {
		return false
	}
	if now.result() == s.result() {
		return true
	}
	return a.Outcome == Error && adjacent && a.Code != 0 && a.Code == b.Code
}

// cycle: the last steps are a few and the same again, A B A B or A B C A B C, each with the result
// that it had before, and none changes the world.
func cycle(steps func(int) *step) bool { return goesRound(steps, 2) || goesRound(steps, 3) }

// goesRound: the last n steps are the n steps before them, again.
func goesRound(steps func(int) *step, n int) bool {
	last := make([]*step, 2*n)
	for i := range last {
		s := steps(i)
		if s == nil || s.person || s.warned || s.goesNowhere() || i > 0 && s.batch == last[i-1].batch {
			return false
		}
		last[i] = s
		if i >= n && (s.identity() != last[i-n].identity() || s.result() != last[i-n].result()) {
			return false
		}
	}
	return last[0].identity() != last[1].identity()
}

// staysClosed: a person's turn between two failures does not reopen the case. It does for
// everything that works on the person's own machine, where the person may have repaired it, and
// whenever the words say so. But an API that refused a call by its rules refuses the same call
// again, whatever was said in between.
func staysClosed(now, person *step) bool {
	v := now.outcome()
	return v.Outcome == Error && now.look().kind == kindOther && !person.opens() &&
		!wording().passing(v, now.text)
}

// passing: a failure that may pass by itself.
func (p *phrases) passing(v Judgement, text string) bool {
	if v.Code == 408 || v.Code == 425 || v.Code == 429 || v.Code >= 500 {
		return true
	}
	return hasWord(strings.ToLower(cutText(text, 400)), p.lists["passing"]...)
}

// judgeNew judges the first n of the steps, the oldest of them first, and says which of them are
// loops, at most so many. Only a call that may have been made before is held against all others.
func (h *history) judgeNew(n, most int, madeBefore func(*step) bool) []Loop {
	type answered struct {
		batch      int
		tool, args string
	}
	var loops []Loop
	var found map[answered]bool // the same call twice in one answer is one loop
	for i := n - 1; i >= 0 && len(loops) < most; i-- {
		s := h.steps[i]
		if s.person || s.unasked || s.tool == "" || !madeBefore(s) {
			continue
		}
		loop, ok := judge(func(back int) *step { return h.at(i + back) })
		call := answered{s.batch, s.tool, s.args}
		if !ok || found[call] {
			continue
		}
		if found == nil {
			found = map[answered]bool{}
		}
		found[call], s.warned = true, true
		loops = append(loops, loop)
	}
	return loops
}

// Loops finds the loops among the tool results that are new in the request, for requests that hold
// their whole history. warned names the call ids that were warned of in this session (or would have
// been, had the coin not withheld it); mem knows the calls of replies that went by, for results
// whose call is not in the list.
//
// It is cheap for the many turns that repeat nothing: the history is searched for the call's own
// words in the raw bytes, and only what holds them is decoded.
func (r *Results) Loops(
	req *wire.Request, warned map[string]bool, mem func(callID string) (wire.Call, bool),
) []Loop {
	from := req.New()
	h := &history{req: req, res: r, fresh: from, next: req.End(), visits: maxVisits, warned: warned, mem: mem}
	h.fill()
	h.first = h.next
	return h.judgeNew(len(h.steps), maxLoops, func(s *step) bool {
		return s.item >= from && !warned[s.callID] && h.seenBefore(s)
	})
}
