package detect

import (
	"slices"
	"strings"

	"github.com/cespare/xxhash/v2"

	"precept/internal/wire"
)

// step is one answered call or the turn of a person.
type step struct {
	call *judgedCall // nil for the turn of a person

	item      int
	nth       int // index of the result in the item
	batch     int // number of the answer with the call: the calls of one answer were made before any of their results
	callID    string
	mediaHash uint64 // hash of the content that accompanies the text, in the result or after the result
	warned    bool
	inText    bool // the result is text of a user message (wire.Result.InUserText)
	withCall  bool // one item holds both the call and the result (wire.Result.WithCall)
	automatic bool // the agent ran a test without a call of the model

	person bool
	turn   personTurn
	memo   stepMemo
	from   *wire.Request // the request with the text of the step, after dropText
}

// dropText removes the texts of a step that was judged. A text that is needed later is read from the request
// again. Old steps keep the result of each judgement; old steps with equal judgements share the call in old.
func (s *step) dropText(req *wire.Request, old map[Judgement]*judgedCall) {
	s.from = req
	if s.person {
		s.turn.words = ""
		return
	}
	judgement := s.outcome()
	s.identity()
	if s.looseIdentity(); s.memo.query != 0 {
		s.resultHash() // needs the arguments
	}
	shared := old[judgement]
	if shared == nil {
		shared = &judgedCall{analysis: droppedCall, hasJudgement: true, judgement: judgement}
		old[judgement] = shared
	}
	s.call, s.callID, s.memo.literals = shared, "", nil
}

// droppedCall is the analysis of a call after dropText. The step holds the properties that are still needed.
//
//nolint:gochecknoglobals // immutable
var droppedCall = new(toolCall)

// text returns the text of the result.
func (s *step) text() string {
	if s.from == nil {
		return s.call.result.text
	}
	return trimLabel(s.from.Item(s.item).Results[s.nth])
}

// personTurn holds the words of a user's turn.
type personTurn struct {
	words                 string
	parsed, reportsChange bool // reportsChange is valid once parsed is true
}

// stepMemo holds the properties of a step that are computed once.
type stepMemo struct {
	identity, resultHash                         uint64
	where                                        uint64 // hash of the folder and the variables of a command, or of the file of an edit; 0: none
	looseIdentity                                uint32 // the identity without budgets, 0 for a call without a budget (attempts.go)
	query                                        uint64 // set of the words of a search, computed with looseIdentity
	hasIdentity, hasResultHash, hasLooseIdentity bool
	traits                                       callTraits
	literals                                     []string // literals of the arguments
	hasLiterals                                  bool     // words are known
	hasOutcome                                   bool     // the fields below are known
	transient, hasTransient                      bool     // the failure may end without a change
	silent                                       bool     // a shell command that did not report its success
	timePassed                                   bool     // time passed: a wait between commands or inside of a command
}

// callTraits are the properties of a call without its result.
type callTraits struct {
	computed  bool
	edit      bool // an editor changes a file, whose hash is stepMemo.where
	exec      bool // runs a command
	runs      bool // runs a test or a command that is not read-only
	mayChange bool // may have side effects
	scrolls   bool // scrolls a page
	plans     bool // a note or a plan of the agent
	works     bool // runs a command or an editor
	repeats   bool // is meant to be repeated; step.outcome may change the field by the result
}

// toolCall returns the analysed call, and computes the traits of the call at the first use.
func (s *step) toolCall() *toolCall {
	call := s.call.toolCall()
	if !s.memo.traits.computed {
		s.memo.traits.computed = true
		s.memo.traits.mayChange = call.mayChange()
		s.memo.traits.edit, s.memo.traits.exec = call.purpose == purposeEdit, call.purpose == purposeExec
		s.memo.traits.plans = call.purpose == purposePlan
		s.memo.traits.works = s.memo.traits.edit || s.memo.traits.exec
		s.memo.traits.scrolls = call.scrolls()
		s.memo.traits.runs = call.purpose == purposeExec && !call.shell.readOnly || call.verifies() != ""
		s.memo.traits.repeats = call.purpose == purposePlan || call.purpose == purposeWait || call.shell.waits || call.shell.polls ||
			call.pressesKey() && showsNoScreen(s.call.result.text)
	}
	return call
}

// identity returns the key of the call, which equal calls share. The key is computed at the first use.
func (s *step) identity() uint64 {
	if !s.memo.hasIdentity {
		call := s.toolCall()
		s.memo.identity, s.memo.hasIdentity = call.identity(s.call.result.tool, s.call.result.args), true
		if len(call.shell.parts) > 0 {
			if _, where := call.spelling(); where != "" {
				s.memo.where = xxhash.Sum64String(where) & 0xFFFF
			}
		} else if call.purpose == purposeEdit {
			s.memo.where = xxhash.Sum64String(call.path()) & 0xFFFF
		}
	}
	return s.memo.identity
}

// edits reports whether the call changes files with an editor.
func (s *step) edits() bool {
	s.toolCall()
	return s.memo.traits.edit
}

// checks reports whether the call ran a test or a command.
func (s *step) checks() bool {
	v := s.outcome().Outcome
	return s.memo.traits.runs && (v == OK || v == Error)
}

// looseIdentity returns the identity of the call without its budgets, 0 for a call without a budget.
func (s *step) looseIdentity() uint32 {
	if !s.memo.hasLooseIdentity {
		s.memo.looseIdentity, s.memo.hasLooseIdentity = s.toolCall().looseIdentity(s.call.result.tool, s.call.result.args), true
		s.memo.query = s.toolCall().queryWords()
	}
	return s.memo.looseIdentity
}

// literals returns literals of the arguments: see toolCall.literals.
func (s *step) literals() []string {
	if !s.memo.hasLiterals {
		s.memo.literals, s.memo.hasLiterals = s.toolCall().literals(s.call.result.args), true
	}
	return s.memo.literals
}

// outcome returns the judgement of the result. The first call also records in memo whether the result
// shows that time has passed or that a repetition is expected.
func (s *step) outcome() Judgement {
	v := s.call.outcome()
	if s.memo.hasOutcome {
		return v
	}
	s.memo.hasOutcome = true
	call := s.toolCall()
	acts := len(call.shell.parts) > 0 && !call.shell.readOnly
	if v.Outcome == OK && !v.Sure && acts {
		// A test, lint or build with an output reports its outcome, even without an exit code.
		s.memo.silent = call.verifies() == "" || wording().unframe(s.call.result.text).empty
	}
	switch {
	case v.Code == 126 || v.Code == 127 || v.Rule == "text:shell": // the program is missing
		s.memo.traits.repeats = false
	case call.purpose == purposeWait && v.Outcome == Error: // the wait failed, or timed out
		s.memo.timePassed = wording().isTransient(v, s.call.result.text)
	case v.Outcome != Refusal:
		s.memo.timePassed = call.purpose == purposeWait || call.shell.waits
	}
	s.memo.traits.repeats = s.memo.traits.repeats || v.Outcome == OK && wording().isUnfinished(s.call.result.text)
	return v
}

// mayChangeResults reports whether other calls may give other results after the step: the step had or
// started a side effect, or time passed.
func (s *step) mayChangeResults() bool {
	v := s.outcome()
	return s.memo.timePassed || s.memo.traits.mayChange && (v.Outcome == OK || v.Outcome == Pending)
}

// isTransient reports whether the failure of a step may end without a change.
func (s *step) isTransient() bool {
	if !s.memo.hasTransient {
		s.memo.transient, s.memo.hasTransient = wording().isTransient(s.outcome(), s.text()), true
	}
	return s.memo.transient
}

// resultHash returns a hash of the result, without parts that differ between equal results.
func (s *step) resultHash() uint64 {
	if !s.memo.hasResultHash {
		s.toolCall()
		text := s.text()
		if s.memo.traits.exec {
			text = wording().unframe(text).body
		}
		text = s.call.toolCall().withoutQuery(text)
		s.memo.resultHash, s.memo.hasResultHash = hashResult(text)^s.mediaHash, true
	}
	return s.memo.resultHash
}

// cannotLoop reports whether a step is no part of a loop: the step may have had side effects, is meant to
// be repeated, or was not carried out.
func (s *step) cannotLoop() bool {
	v := s.outcome()
	return s.memo.traits.repeats || s.memo.traits.mayChange || v.Outcome == Pending || v.Outcome == Refusal
}

// reportsChange reports whether the person says that something changed.
func (s *step) reportsChange() bool {
	if !s.turn.parsed {
		words := s.turn.words
		if s.from != nil {
			words, _ = personWords(s.from, s.item)
		}
		s.turn.parsed, s.turn.reportsChange = true, wording().mentionsChange(words)
	}
	return s.turn.reportsChange
}

// isUnfinished reports whether a short result describes an unfinished task, so that the agent asks again
// until the task is finished.
func (p *phrases) isUnfinished(text string) bool {
	const short, lines = 200, 3
	text = strings.TrimSpace(text)
	return len(text) <= short && strings.Count(text, "\n") < lines &&
		hasPhrase(strings.ToLower(text), p.lists["unfinished"]...)
}

// mentionsChange reports whether the person says that something changed, or asks for a second attempt.
func (p *phrases) mentionsChange(words string) bool {
	return hasPhrase(fold(cutText(words, 1000)), p.lists["reopens"]...)
}

// pressesKey reports whether a call presses a key or scrolls. A second equal call has a further effect.
func (c *toolCall) pressesKey() bool {
	action, _ := c.args.get("action", "type")
	return c.nameMatches("key") || action.kind == stringValue && c.phrases.inList("tool key", strings.ToLower(action.raw))
}

// scrolls reports whether a call scrolls a page.
func (c *toolCall) scrolls() bool { return c.purpose == purposeWeb && c.has("scroll") }

// showsNoScreen reports whether a result only confirms a key press. A screen would show whether the key had
// an effect.
func showsNoScreen(text string) bool {
	const short = 60
	text = strings.ToLower(strings.TrimSpace(text))
	return text == "" || len(text) <= short && !strings.Contains(text, "\n") &&
		startsWord(text, "ok", "done", "pressed", "scrolled", "typed", "sent", "success", "key", "executed", "true")
}

// mayChange reports whether a successful call may have changed the results of other calls.
func (c *toolCall) mayChange() bool {
	switch c.purpose {
	case purposeEdit:
		return true
	case purposeExec:
		if c.shell.readOnly { // a command that only sets the directory or variables of a persistent shell
			return !slices.ContainsFunc(c.shell.parts, func(part shellPart) bool { return !c.phrases.inList("program sets", part.prog) })
		}
		if k := c.verifies(); k == "test" || k == "lint" {
			return c.writesFixes()
		}
		return true
	case purposeRead, purposeSearch, purposePlan, purposeWait:
		return false
	case purposeWeb:
		return c.nameMatches("gesture")
	case purposeOther:
		// Tools that get, list or search change nothing; tools that update, book or send change state. A
		// tool whose name has no such verb counts as read-only: if the call fails again in the same way,
		// nothing has changed.
		return len(c.nameWords) > 0 && !c.phrases.inList("verb looks", c.nameWords[0]) &&
			slices.ContainsFunc(c.nameWords, func(w string) bool { return c.phrases.inList("verb changes", w) })
	}
	return false
}

// writesFixes reports whether a test or lint command also writes files: "eslint --fix", "gofmt -w .
// && go test".
func (c *toolCall) writesFixes() bool {
	for _, part := range c.shell.parts {
		if hasPrefix(part.args, "--fix") || hasPrefix(part.args, "--write") ||
			hasAny(part.args, "-w", "-u", "--update", "--updateSnapshot") {
			return true
		}
		k := c.phrases.verifier(part.prog, part.args)
		if k == "" && !c.phrases.isReadOnly(part.prog, part.args) || k == "build" {
			return true
		}
	}
	return false
}
