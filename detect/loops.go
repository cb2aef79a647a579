package detect

import (
	"slices"
	"strings"

	"precept/wire"
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

// step is one answered call, or a person's turn, judged as far as it was asked for.
type step struct {
	item   int
	batch  int // one for the calls of one answer: they were made without knowing each other's results
	callID string
	tool   string
	args   string
	text   string
	beside uint64 // a hash of what stands beside the text, in the result or behind it
	flag   int8
	person bool   // a person speaks
	words  string // the person's

	key, sum          uint64
	keyed, summed     bool
	judged, looked    bool
	judgement         Judgement
	about             *judged
	changing, repeats bool // set by look: may change the world; made to be repeated
	silent            bool // a shell's command that did not say whether it went well
	heard, reopens    bool // person: the words were read; they say that something is different now
	warned            bool
	written, own      bool // see wire.Result
	unasked           bool // the model did not ask for it: an agent ran a test of its own accord
}

func (s *step) look() *toolCall {
	if s.about == nil {
		s.about = (*Results)(nil).of(s.tool, s.args, s.text, s.flag)
	}
	call := s.about.look()
	if !s.looked {
		s.looked = true
		s.changing = call.mayChange()
		s.repeats = call.kind == kindPlan || call.kind == kindWait
	}
	return call
}

func (s *step) identity() uint64 {
	if !s.keyed {
		s.key, s.keyed = callKey(s.tool, s.args), true
	}
	return s.key
}

func (s *step) outcome() Judgement {
	if !s.judged {
		s.judged = true
		call := s.look()
		s.judgement = s.about.outcome()
		acts := len(call.shell.parts) > 0 && !call.shell.readOnly
		if s.judgement.Outcome == OK && !s.judgement.Sure && acts {
			// A test, lint or build that prints something says how it went, even where its exit
			// code is lost.
			s.silent = call.verifies() == "" || wording().unframe(s.text).empty
		}
		s.repeats = s.repeats || s.judgement.Outcome == OK && wording().goesOn(s.text)
	}
	return s.judgement
}

func (s *step) result() uint64 {
	if !s.summed {
		s.sum, s.summed = resultSum(s.text)^s.beside, true
	}
	return s.sum
}

// judge decides whether the newest step, steps(0), is a loop. steps(i) is the i-th step back, nil
// before the first.
func judge(steps func(int) *step) (Loop, bool) {
	now := steps(0)
	if now == nil {
		return Loop{}, false
	}
	now.look()
	v := now.outcome()
	if now.repeats || v.Outcome == Pending || v.Outcome == Refusal {
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
			s.look()
			if s.changing && s.outcome().Outcome == OK {
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
	return a.Outcome == Error && adjacent && a.Code != 0 && a.Code == b.Code &&
		(a.Rule == b.Rule || b.Rule == "")
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

// goesNowhere: the step is no part of a circle: it may have changed the world, or is made to be
// repeated, or was not carried out.
func (s *step) goesNowhere() bool {
	v := s.outcome()
	return s.repeats || s.changing || v.Outcome == Pending || v.Outcome == Refusal
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

// opens: the person says that something is different now.
func (s *step) opens() bool {
	if !s.heard {
		s.heard, s.reopens = true, wording().reopening(s.words)
	}
	return s.reopens
}

// passing: a failure that may pass by itself.
func (p *phrases) passing(v Judgement, text string) bool {
	if v.Code == 408 || v.Code == 425 || v.Code == 429 || v.Code >= 500 {
		return true
	}
	return hasWord(strings.ToLower(cutText(text, 400)), p.lists["passing"]...)
}

// goesOn: a short result tells of something that is not done yet, and is asked for again until it
// is.
func (p *phrases) goesOn(text string) bool {
	const short, lines = 200, 3
	text = strings.TrimSpace(text)
	return len(text) <= short && strings.Count(text, "\n") < lines &&
		phrase(strings.ToLower(text), p.lists["goes-on"]...)
}

// reopening: the person says that something has changed, or wants it tried again.
func (p *phrases) reopening(words string) bool {
	return phrase(fold(cutText(words, 1000)), p.lists["reopens"]...)
}

// mayChange: the call, if it went well, may have changed what other calls see.
func (c *toolCall) mayChange() bool {
	switch c.kind {
	case kindEdit:
		return true
	case kindExec:
		if c.shell.readOnly {
			return false
		}
		if k := c.verifies(); k == "test" || k == "lint" {
			return c.writesFixes()
		}
		return true
	case kindRead, kindSearch, kindPlan, kindWait:
		return false
	case kindWeb:
		return c.named("gesture")
	case kindOther:
		// What gets, lists or searches changes nothing, what updates, books or sends does. Of a
		// name that says neither it is assumed that nothing changed: a call that fails in the same
		// way again after it shows that nothing did.
		return len(c.words) > 0 && !c.known.is("verb looks", c.words[0]) &&
			slices.ContainsFunc(c.words, func(w string) bool { return c.known.is("verb changes", w) })
	}
	return false
}

// writesFixes: a test or lint command with something beside it that writes: "eslint --fix", "gofmt
// -w . && go test".
func (c *toolCall) writesFixes() bool {
	for _, part := range c.shell.parts {
		if hasPrefix(part.args, "--fix") || hasPrefix(part.args, "--write") ||
			hasAny(part.args, "-w", "-u", "--update", "--updateSnapshot") {
			return true
		}
		k := c.known.verifier(part.prog, part.args)
		if k == "" && !c.known.looksOnly(part.prog, part.args) || k == "build" {
			return true
		}
	}
	return false
}

// speaks says whether item i is a turn of a person: words of a user that no agent wrote.
func speaks(req *wire.Request, i int) (string, bool) {
	if req.Role(i) != wire.RoleUser {
		return "", false
	}
	it := req.Item(i)
	words := it.Words
	if words == "" || it.Alike() {
		return "", false
	}
	if _, synthetic := Synthetic(words); synthetic {
		return "", false
	}
	return words, true
}

// Bounds of what an agent puts before a result to say that it is one.
const (
	maxLabel      = 80
	maxLabelLines = 3
)

// unlabelled is the text of a result. One of an unknown form may begin with a label ("Command make
// returned:"), behind which a failure speaks.
func unlabelled(r wire.Result) string {
	if !r.Alike {
		return r.Text
	}
	rest := r.Text
	for range maxLabelLines {
		if Classify("", "", rest, 0).Outcome == Error {
			return rest
		}
		line, below, _ := strings.Cut(rest, "\n")
		if len(line) > maxLabel {
			break
		}
		if _, behind, ok := strings.Cut(line, ": "); ok && Classify("", "", behind, 0).Outcome == Error {
			return rest[len(line)-len(behind):]
		}
		rest = below
	}
	return r.Text
}
