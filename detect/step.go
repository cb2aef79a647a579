package detect

import (
	"slices"
	"strings"
)

// step is one answered call, or a person's turn. What is asked of it is worked out once.
type step struct {
	*judgedCall // nil of a person's turn

	item    int
	batch   int // one for the calls of one answer: they were made without knowing each other's results
	callID  string
	beside  uint64 // a hash of what stands beside the text, in the result or behind it
	warned  bool
	written bool // see wire.Result
	own     bool // see wire.Result
	unasked bool // the model did not ask for it: an agent ran a test of its own accord

	person         bool   // a person speaks
	words          string // the person's
	heard, reopens bool   // the words were read; they say that something is different now

	key, sum          uint64
	keyed, summed     bool
	placed, weighed   bool // what follows is known: of the call, of its outcome
	changing, repeats bool // may change the world; made to be repeated
	silent            bool // a shell's command that did not say whether it went well
}

func (s *step) look() *toolCall {
	call := s.judgedCall.look()
	if !s.placed {
		s.placed = true
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
	v := s.judgedCall.outcome()
	if s.weighed {
		return v
	}
	s.weighed = true
	call := s.look()
	acts := len(call.shell.parts) > 0 && !call.shell.readOnly
	if v.Outcome == OK && !v.Sure && acts {
		// A test, lint or build that prints something says how it went, even where its exit code
		// is lost.
		s.silent = call.verifies() == "" || wording().unframe(s.text).empty
	}
	s.repeats = s.repeats || v.Outcome == OK && wording().goesOn(s.text)
	return v
}

func (s *step) result() uint64 {
	if !s.summed {
		s.sum, s.summed = resultSum(s.text)^s.beside, true
	}
	return s.sum
}

// goesNowhere: the step is no part of a circle: it may have changed the world, or is made to be
// repeated, or was not carried out.
func (s *step) goesNowhere() bool {
	v := s.outcome()
	return s.repeats || s.changing || v.Outcome == Pending || v.Outcome == Refusal
}

// opens: the person says that something is different now.
func (s *step) opens() bool {
	if !s.heard {
		s.heard, s.reopens = true, wording().reopening(s.words)
	}
	return s.reopens
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
