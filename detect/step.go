package detect

import (
	"slices"
	"strings"

	"github.com/cespare/xxhash/v2"

	"precept/internal/wire"
)

// step is one call with its result, or one user turn.
type step struct {
	call *judgedCall

	item        int
	resultIndex int
	batch       int // see history; the calls in a batch were made before any of their results was known
	callID      string
	mediaHash   uint64 // hash of the media in the result or in the message after it
	hasWarning  bool
	inUserText  bool // see wire.Result.InUserText
	hasCall     bool // see wire.Result.WithCall
	isAutomatic bool // the harness ran a test without a model call

	isUser bool
	turn   userTurn
	memo   stepMemo
	source *wire.Request // after dropText, the request that holds the result's text; nil before
}

// dropText drops the texts of a judged step to save memory. Before that, it computes what later steps may read. Steps
// with equal judgements share one judgedCall in old.
func (s *step) dropText(req *wire.Request, old map[Judgement]*judgedCall) {
	s.source = req
	if s.isUser {
		s.turn.words = ""
		return
	}
	judgement := s.judgement()
	s.identity()
	if s.identityWithoutBudget(); s.memo.queryWords != 0 {
		s.resultHash() // computed now, because it needs the arguments
	}
	if s.toolHash(); judgement.Outcome == Error {
		s.failureFingerprint()
	}
	s.endsHash()
	shared := old[judgement]
	if shared == nil {
		shared = &judgedCall{analysis: droppedCall, hasJudgement: true, judgement: judgement}
		old[judgement] = shared
	}
	s.call, s.callID, s.memo.literals, s.memo.failureLines = shared, "", nil, nil
}

// droppedCall is every call's analysis after dropText.
//
//nolint:gochecknoglobals // immutable
var droppedCall = new(toolCall)

func (s *step) text() string {
	if s.source == nil {
		return s.call.result.text
	}
	return trimLabel(s.source.Item(s.item).Results[s.resultIndex])
}

type userTurn struct {
	words                 string
	parsed, reportsChange bool // valid if parsed is true
}

// stepMemo caches computed properties of a step.
type stepMemo struct {
	identity, resultHash                                 uint64
	endsHash                                             uint64
	locationHash                                         uint64 // hash of folder and variables, or of the edited file
	identityWithoutBudget                                uint32 // see attempts.go; 0 means no budget
	queryWords                                           uint64 // set together with identityWithoutBudget
	hasIdentity, hasResultHash, hasIdentityWithoutBudget bool
	hasEndsHash                                          bool
	traits                                               callTraits
	literals                                             []string
	hasLiterals                                          bool
	failureLines                                         []string
	hasJudgement                                         bool // the fields that step.judgement sets are valid
	isTransient, hasTransient                            bool // the failure may end by itself
	isSilent                                             bool // a command succeeded without a report
	fingerprint                                          *callFingerprint
	waited                                               bool // the call waited, so later results may differ
	isFinal                                              bool // the result says that a task has ended, so a wait changes nothing
	toolHash                                             uint32
	isShort                                              bool // the result is empty, or a line of a few words
	onlyConfirms                                         bool // the result is that of an edit, or is empty or short
	isQuietPoll, showsPrompt, endsPrompt                 bool // see toolCall.readPrompt
}

// callTraits are properties of a call. Only isGesture and isRepeatable also depend on the result.
type callTraits struct {
	computed       bool
	isEdit         bool
	isCommand      bool
	runsCommand    bool // isCommand, or a command that waits
	isCheck        bool // test, lint or build; or a command that is not read-only, as it may run tests
	mayChange      bool
	scrolls        bool
	isGesture      bool // the call clicks or types on a page, and the result shows the page
	mayChangePage  bool // the call clicks or types on a page
	isNote         bool // the call writes the agent's note or plan
	sendsPlainText bool // the call sends a command in plain language to another program, such as a game
	isRepeatable   bool // the call is meant to be repeated, such as a poll; step.judgement corrects the value
}

// toolCall returns the analysed call, and sets memo.traits at the first use.
func (s *step) toolCall() *toolCall {
	call := s.call.toolCall()
	if !s.memo.traits.computed {
		s.memo.traits.computed = true
		s.memo.traits.mayChange = call.mayChange()
		s.memo.traits.isEdit, s.memo.traits.isCommand = call.purpose == purposeEdit, call.purpose == purposeExec
		s.memo.traits.isGesture = (call.purpose == purposeWeb && call.mayChange() || call.nameHas("click")) && !call.scrolls() && !call.pressesKey() && !omitsPage(s.call.result.text)
		s.memo.traits.mayChangePage = call.nameMatches("gesture")
		s.memo.traits.runsCommand = call.purpose == purposeExec || len(call.shell.parts) > 0
		s.memo.traits.isNote = call.purpose == purposePlan
		s.memo.traits.scrolls = call.scrolls()
		s.memo.traits.sendsPlainText = call.purpose == purposeOther && call.sendsPlainText()
		s.memo.traits.isCheck = call.purpose == purposeExec && !call.shell.readOnly || call.verificationKind() != ""
		s.memo.traits.isRepeatable = call.purpose == purposePlan || call.purpose == purposeWait || call.shell.waits || call.shell.polls ||
			call.pressesKey() && omitsPage(s.call.result.text)
	}
	return call
}

func (s *step) identity() uint64 {
	if !s.memo.hasIdentity {
		call := s.toolCall()
		s.memo.identity, s.memo.hasIdentity = call.identity(s.call.result.tool, s.call.result.args), true
		if len(call.shell.parts) > 0 {
			if _, settings := call.canonicalLine(); settings != "" {
				s.memo.locationHash = xxhash.Sum64String(settings) & 0xFFFF
			}
		} else if call.purpose == purposeEdit {
			s.memo.locationHash = xxhash.Sum64String(call.path()) & 0xFFFF
		}
	}
	return s.memo.identity
}

func (s *step) isNote() bool {
	s.toolCall() // sets memo.traits
	return s.memo.traits.isNote
}

func (s *step) isEdit() bool {
	s.toolCall() // sets memo.traits
	return s.memo.traits.isEdit
}

// isFinishedCheck reports whether the call is a check (see callTraits) that ran to the end.
func (s *step) isFinishedCheck() bool {
	v := s.judgement().Outcome
	return s.memo.traits.isCheck && (v == OK || v == Error)
}

// identityWithoutBudget returns a hash of the call without budgets, such as time-outs (attempts.go). The result is 0 if
// the call has no budget.
func (s *step) identityWithoutBudget() uint32 {
	if !s.memo.hasIdentityWithoutBudget {
		s.memo.identityWithoutBudget, s.memo.hasIdentityWithoutBudget = s.toolCall().identityWithoutBudget(s.call.result.tool, s.call.result.args), true
		s.memo.queryWords = s.toolCall().queryWords()
	}
	return s.memo.identityWithoutBudget
}

func (s *step) literals() []string {
	if !s.memo.hasLiterals {
		s.memo.literals, s.memo.hasLiterals = s.toolCall().literals(s.call.result.args), true
	}
	return s.memo.literals
}

// judgement returns the result's judgement. At the first use, it sets the memo fields that depend on the result.
func (s *step) judgement() Judgement {
	v := s.call.classify()
	if s.memo.hasJudgement {
		return v
	}
	s.memo.hasJudgement = true
	const short, maxFrame = 80, 400
	call := s.toolCall()
	text := strings.TrimSpace(s.call.result.text)
	s.memo.isQuietPoll, s.memo.showsPrompt, s.memo.endsPrompt = call.readPrompt(text)
	s.memo.isShort = len(text) < short && !strings.Contains(text, "\n") ||
		call.purpose == purposeExec && len(text) < maxFrame && compiledPhrases().unframe(text).isEmpty // the result is only a frame
	t := &s.memo.traits
	s.memo.onlyConfirms = text == "" || t.isEdit || t.mayChange && !t.isCommand && s.memo.isShort
	mayWrite := len(call.shell.parts) > 0 && !call.shell.readOnly
	if v.Outcome == OK && !v.ReportsSuccess && mayWrite {
		// A check's output reports the outcome, so the command is not silent.
		s.memo.isSilent = call.verificationKind() == "" || compiledPhrases().unframe(s.call.result.text).isEmpty
	}
	switch {
	case v.Code == 126 || v.Code == 127 || v.Rule == "text:shell": // the program did not run
		s.memo.traits.isRepeatable = false
	case call.purpose == purposeWait && v.Outcome == Error: // the wait failed, or timed out
		s.memo.waited = compiledPhrases().isTransient(v, s.failureLines())
	case v.Outcome != Refusal:
		s.memo.waited = call.purpose == purposeWait || call.shell.waits
	}
	s.memo.isFinal = (v.Outcome == OK || s.memo.traits.isRepeatable && v.Outcome == Error) && call.reportsEnd(text) ||
		v.Outcome == OK && call.showsFailedLog(text)
	s.memo.traits.isRepeatable = s.memo.traits.isRepeatable && !s.memo.isFinal || v.Outcome == OK && (call.isBenchmark() || compiledPhrases().isUnfinished(s.call.result.text))
	return v
}

// reportsEnd reports whether a result says that the polled task has ended: a status such as "cancelled", or a log whose
// last line is an exception.
func (c *toolCall) reportsEnd(text string) bool {
	const maxStatus = 8 << 10 // bytes
	if c.purpose == purposeOther && len(text) <= maxStatus {
		if v, ok := parseLenient(text); ok {
			status, _ := v.get("status", "state")
			return status.kind == stringValue && c.phrases.inList("ended", strings.ToLower(status.raw))
		}
	}
	return (c.shell.waits || c.shell.polls) && (isExceptionLine(text[strings.LastIndexByte(text, '\n')+1:]) || containsAny(text, c.phrases.lists["ended-anywhere"]...))
}

// showsFailedLog reports whether a successful wait or poll printed a failure.
func (c *toolCall) showsFailedLog(text string) bool {
	if !c.shell.waits && !c.shell.polls {
		return false
	}
	body := c.phrases.unframe(text).body
	if _, failed := c.phrases.outputFailureRule(body); failed {
		return true
	}
	lines := strings.Split(strings.TrimSpace(body), "\n")
	return slices.ContainsFunc(lines[max(len(lines)-lastLines, 0):], func(line string) bool { return containsAny(line, " FATAL ", " CRITICAL ", "[FATAL]") })
}

// mayChangeResults reports whether later results may differ because of this step. That is possible if the step had a
// side effect, started one, or waited.
func (s *step) mayChangeResults() bool {
	v := s.judgement()
	return s.memo.waited || s.memo.traits.mayChange && (v.Outcome == OK || v.Outcome == Pending)
}

// isTransient reports whether the failure may end by itself.
func (s *step) isTransient() bool {
	if !s.memo.hasTransient {
		s.memo.isTransient, s.memo.hasTransient = compiledPhrases().isTransient(s.judgement(), s.failureLines()), true
	}
	return s.memo.isTransient
}

// failureLines returns the lines that describe the failure.
func (s *step) failureLines() []string {
	if s.memo.failureLines == nil {
		_, s.memo.failureLines = compiledPhrases().headline(s.text())
	}
	return s.memo.failureLines
}

// resultHash returns hashResult's value for the result, combined with the media.
func (s *step) resultHash() uint64 {
	if !s.memo.hasResultHash {
		s.memo.resultHash, s.memo.hasResultHash = hashResult(s.hashedText(), s.judgement().Outcome == Error)^s.mediaHash, true
	}
	return s.memo.resultHash
}

func (s *step) hashedText() string {
	call := s.toolCall() // also sets memo.traits
	text := s.text()
	if s.memo.traits.runsCommand {
		text = compiledPhrases().unframe(text).body
	}
	return call.withoutQuery(text)
}

// sameResult reports whether two results are equal. It compares the ends first, and reads the whole texts only if the
// ends are equal. Failures are always read as a whole, because equal failures can have their lines in a different
// order.
func sameResult(a, b *step) bool {
	if (!a.memo.hasResultHash || !b.memo.hasResultHash) && a.judgement().Outcome != Error && !sameEnds(a, b) {
		return false
	}
	return a.resultHash() == b.resultHash()
}

func sameEnds(a, b *step) bool {
	x, y := a.endsHash(), b.endsHash()
	return x == y || x == 0 || y == 0
}

func (s *step) endsHash() uint64 {
	if !s.memo.hasEndsHash {
		s.memo.endsHash, s.memo.hasEndsHash = compiledPhrases().endsHash(s.hashedText()), true
	}
	return s.memo.endsHash
}

// isExcludedFromLoops reports whether a step cannot belong to a cycle, because it may have side effects, is meant to be
// repeated, is still running, or was refused.
func (s *step) isExcludedFromLoops() bool {
	v := s.judgement()
	return s.memo.traits.isRepeatable || s.memo.traits.mayChange || v.Outcome == Pending || v.Outcome == Refusal
}

func (s *step) reportsChange() bool {
	if !s.turn.parsed {
		words := s.turn.words
		if s.source != nil {
			words, _ = userWords(s.source, s.item)
		}
		s.turn.parsed, s.turn.reportsChange = true, compiledPhrases().mentionsChange(words)
	}
	return s.turn.reportsChange
}

// isBenchmark reports whether the call runs a benchmark, which an agent repeats to compare times.
func (c *toolCall) isBenchmark() bool {
	return slices.ContainsFunc(c.shell.parts, func(part shellPart) bool {
		return hasAny([]string{"hyperfine", "wrk", "ab", "hey", "oha", "k6", "vegeta", "pgbench", "sysbench", "iperf3", "perf"}, part.prog) ||
			slices.ContainsFunc(part.args, func(a string) bool { return strings.HasPrefix(strings.TrimLeft(a, "-"), "bench") })
	})
}

// isUnfinished reports whether a text describes a running task. An agent polls a running task until the end.
func (p *phrases) isUnfinished(text string) bool {
	const short, lines = 200, 3
	text = strings.TrimSpace(text)
	if len(text) > short || strings.Count(text, "\n") >= lines {
		return false
	}
	text = strings.ToLower(text)
	return hasPhrase(text, p.lists["unfinished"]...) || p.namesActivity(text)
}

// namesActivity matches "building", {"state":"building"}, "is building" and "building...", but not "missing".
func (p *phrases) namesActivity(text string) bool {
	for at := 0; ; {
		i := strings.Index(text[at:], "ing")
		if i < 0 {
			return false
		}
		end := at + i + len("ing")
		start := end
		for start > at && isLetter(text[start-1]) {
			start--
		}
		at = end
		before, after := strings.TrimRight(text[:start], " \"'"), strings.TrimLeft(text[end:], "\"'")
		isValue := before == "" || before[len(before)-1] == ':' || before[len(before)-1] == '='
		endsValue := after == "" || strings.IndexByte(",.}\n", after[0]) >= 0 || strings.HasPrefix(after, "…")
		if !p.inList("no-activity", text[start:end]) && (isValue && endsValue ||
			!isLetterAt(text, end) && (strings.HasSuffix(before, " is") || strings.HasSuffix(before, "still"))) {
			return true
		}
	}
}

func (p *phrases) mentionsChange(words string) bool {
	return hasPhrase(fold(cutText(words, 1000)), p.lists["reopens"]...)
}

// pressesKey reports whether the call presses a key or scrolls, so that each repetition has a further effect.
func (c *toolCall) pressesKey() bool {
	action, _ := c.args.get("action", "type")
	return c.nameMatches("key") || action.kind == stringValue && c.phrases.inList("tool key", strings.ToLower(action.raw))
}

// sendsPlainText reports whether the only argument can be a command in plain language.
func (c *toolCall) sendsPlainText() bool {
	return len(c.args.keys) == 1 && slices.Contains([]string{"action", "command", "input", "move", "text"}, strings.ToLower(c.args.keys[0]))
}

func (c *toolCall) scrolls() bool { return c.purpose == purposeWeb && c.nameHas("scroll") }

// omitsPage reports whether a result confirms an action on a page without showing the page.
func omitsPage(text string) bool {
	const short = 60
	text = strings.ToLower(strings.TrimSpace(text))
	if code, ok := strings.CutPrefix(text, "### ran playwright code"); ok { // without a page snapshot
		return !strings.Contains(code, "###")
	}
	return text == "" || len(text) <= short && !strings.Contains(text, "\n") &&
		startsWithPhrase(text, "ok", "done", "pressed", "scrolled", "typed", "sent", "success", "key", "executed", "true")
}

// mayChange reports whether the call may change something, so that a later result may differ.
func (c *toolCall) mayChange() bool {
	switch c.purpose {
	case purposeEdit:
		return true
	case purposeExec:
		if c.shell.readOnly { // such a command can only change the directory or the variables of a persistent shell
			return !slices.ContainsFunc(c.shell.parts, func(part shellPart) bool { return !c.phrases.inList("program sets", part.prog) })
		}
		if k := c.verificationKind(); k == "test" || k == "lint" {
			return c.writesFixes()
		}
		return true
	case purposeRead, purposeSearch, purposePlan, purposeWait:
		return false
	case purposeWeb:
		return c.nameMatches("gesture")
	case purposeOther:
		return c.changesState()
	}
	return false
}

// writesFixes matches "eslint --fix" and "gofmt -w . && go test".
func (c *toolCall) writesFixes() bool {
	for _, part := range c.shell.parts {
		if anyHasPrefix(part.args, "--fix") || anyHasPrefix(part.args, "--write") ||
			hasAny(part.args, "-w", "-u", "--update", "--updateSnapshot") {
			return true
		}
		k := c.phrases.commandKind(part.prog, part.args)
		if k == "" && !c.phrases.isReadOnly(part.prog, part.args) || k == "build" {
			return true
		}
	}
	return false
}
