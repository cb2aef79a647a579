package detect

import (
	"slices"
	"strings"
)

// Feeling is the user's opinion about the agent's previous answer.
type Feeling string

// Feelings. The feedback API uses the same names.
const (
	Approval   Feeling = "approval"
	Correction Feeling = "correction" // the user wants the work to be done in a different way
	Rejection  Feeling = "rejection"  // the user disapproves of the answer
	Thanks     Feeling = "thanks"
	Neutral    Feeling = "neutral"
)

// Opinion is a Feeling with the rule that found it.
type Opinion struct {
	Feeling   Feeling
	Rule      string
	Interrupt bool // the user interrupted the answer, so the words do not count
}

// ClassifyTurn returns the opinion in a user turn. text is the message as sent, words are the user's own words in the
// message, and previous is the agent's text before the turn. If previous is empty, the turn is a task and has no
// opinion.
func ClassifyTurn(text, words, previous string) Opinion {
	return compiledPhrases().classifyTurn(text, words, previous)
}

func (p *phrases) classifyTurn(text, words, previous string) Opinion {
	if rule, ok := interruptRule(text); ok {
		return Opinion{Feeling: Rejection, Rule: rule, Interrupt: true}
	}
	if words == "" {
		return Opinion{Feeling: Neutral, Rule: "no-words"}
	}
	if rule, ok := p.syntheticRule(words); ok {
		return Opinion{Feeling: Neutral, Rule: rule}
	}
	if previous == "" {
		return Opinion{Feeling: Neutral, Rule: "task"}
	}
	feeling, rule := p.sentiment(words, previous)
	if demandRules[rule] && p.answersQuestion(words, previous) {
		return Opinion{Feeling: Neutral, Rule: "choice"}
	}
	return Opinion{Feeling: feeling, Rule: rule}
}

func interruptRule(text string) (string, bool) {
	head := strings.TrimSpace(text)
	switch {
	case strings.HasPrefix(head, "<turn_aborted>"):
		return "codex-interrupt", true
	case strings.HasPrefix(head, "[Request interrupted by user"):
		return "claude-interrupt", true
	}
	return "", false
}

// SyntheticRule reports whether a harness wrote a user message, such as a reminder, a result, or an instruction to
// continue after a compaction.
func SyntheticRule(words string) (rule string, ok bool) {
	return compiledPhrases().syntheticRule(words)
}

func (p *phrases) syntheticRule(words string) (rule string, ok bool) {
	w := strings.TrimSpace(words)
	if p.isObservation(w) {
		return "observation", true
	}
	for i := range p.synthetic {
		s := &p.synthetic[i]
		if strings.HasPrefix(w, s.text) && (s.rule != "blank" || len(w) == len(s.text)) {
			return s.rule, true
		}
	}
	return "", false
}

// isObservation reports whether a user message is a harness's report about a result. Such a message is a text in tags
// ("<task_result>...</task_result>"), a name and a JSON value, a header in brackets, a validation error, or an exit
// code with output.
func (p *phrases) isObservation(words string) bool {
	first, rest, more := strings.Cut(words, "\n")
	if strings.HasPrefix(first, "<") {
		name, _, closed := strings.Cut(first[1:], ">")
		return closed && name != "" && !strings.ContainsAny(name, " /=") && strings.HasSuffix(words, "</"+name+">")
	}
	if isReturnedValue(words) || hasHarnessHeader(words) || strings.Contains(first, " validation error") {
		return true
	}
	r := shellResult{phrases: p}
	first = strings.TrimSpace(first)
	return more && rest != "" && (r.readCodeLine(first) || r.readCodeSentence(first))
}

// isReturnedValue matches "Tool get_weather returned: {...}".
func isReturnedValue(words string) bool {
	const maxName = 80
	name, value, ok := strings.Cut(words, ":")
	value = strings.TrimSpace(value)
	if !ok || len(name) > maxName || value == "" || value[0] != '{' && value[0] != '[' {
		return false
	}
	_, isJSON := parseLenient(value)
	return isJSON
}

// hasHarnessHeader matches "[auto] Turn 3". A placeholder for an image, a file or pasted text also has brackets, but
// comes from the user.
func hasHarnessHeader(words string) bool {
	const maxHeader = 60
	header, _, ok := strings.Cut(cutText(words, maxHeader), "]")
	if strings.Trim(header, "[0123456789:") == "" { // a scheduler's time: "[02:10] check the queue"
		return false
	}
	return ok && strings.HasPrefix(header, "[") && len(header) > 2 && !containsAny(strings.ToLower(header), "tick", "heartbeat", "cron", "wake", "timer", "schedule") && !strings.ContainsAny(header, "#.\n\"{") &&
		!containsAny(strings.ToLower(header), "image", "pasted", "screenshot", "attach", "photo", "video", "audio")
}

// sentiment returns a turn's feeling. It tries the most certain rules first, such as a pasted failure or disapproval.
func (p *phrases) sentiment(words, previous string) (Feeling, string) {
	own, pasted := p.withoutPasted(words)
	low := withApostrophes(fold(own))
	if low == "" {
		if pasted {
			return Rejection, "pasted-failure"
		}
		return Neutral, ""
	}
	long := len(low) > longTurn
	if long {
		low = cutText(low, longTurnOpening)
	}
	if quoted := strings.Count(low, `"`); quoted > 0 && quoted%2 == 0 { // a quoted complaint is not the user's
		low = collapseSpaces(withoutQuotes(low))
	}
	opening, turn := p.withoutInterjections(low), newUserText(low)
	switch {
	case pasted && (!long || !containsAny(words, "```", "\n#", "**")) && !turn.containsAny("example", "add a test"):
		return Rejection, "pasted-failure"
	case turn.hasPhrase(p.lists["disapproval"]...), turn.containsAny(p.lists["disapproval-anywhere"]...), blames(turn),
		p.reportsFault(turn):
		return Rejection, "disapproval"
	case begins(opening, p.lists["still"], p.lists["no-still"]) && !strings.HasSuffix(low, "?") && !p.praises(turn):
		return Rejection, "still"
	case p.claimsDone(previous) && p.reportsNoChange(turn):
		return Rejection, "still"
	case asksToPause(opening, turn):
		return Neutral, "pause"
	case turn.hasPhrase(p.lists["new-goal"]...):
		return Neutral, "new-goal"
	case begins(opening, p.lists["no"], p.lists["not-a-no"]) && p.declinesOffer(opening, previous):
		if turn.hasPhrase(p.lists["thanks"]...) {
			return Thanks, "no-more"
		}
		return Neutral, "no-more"
	case begins(opening, p.lists["no"], p.lists["not-a-no"]):
		if p.asksForAnotherWay(turn) || turn.hasPhrase(p.lists["wish"]...) {
			return Correction, "no-but"
		}
		return Rejection, "no"
	case begins(opening, p.lists["order-not-to"], p.lists["no-order"]):
		return Correction, "dont"
	case p.claimsDone(previous) && (startsWithPhrase(opening, p.lists["convention"]...) || comparesAlternatives(turn)):
		return Correction, "another-way"
	case p.praises(turn) && turn.containsAny(", but ", ". but "):
		return Correction, "praise-but"
	case (p.praises(turn) || p.beginsWithPraise(opening) && !turn.hasPhrase(p.lists["contrast"]...)) && !p.asksForAnotherWay(turn):
		return Approval, "praise"
	case turn.hasPhrase(p.lists["thanks"]...), turn.containsAny(p.lists["thanks-anywhere"]...):
		if turn.hasPhrase(p.lists["contrast"]...) {
			return Correction, "thanks-but"
		}
		if p.agrees(opening) && p.asksPermission(previous) {
			return Approval, "yes"
		}
		return Thanks, "thanks"
	case p.agrees(opening):
		return p.judgeAgreement(opening, turn, previous)
	case startsWithPhrase(opening, p.lists["go-on"]...):
		return Approval, "go-on"
	case begins(opening, p.lists["new-work"], p.lists["no-new-work"]) && !blamesAgent(turn):
	case p.asksForAnotherWay(turn):
		return Correction, "another-way"
	case begins(opening, p.lists["doubt"], p.lists["no-doubt"]):
		return Correction, "doubt"
	}
	return Neutral, ""
}

// demandRules are the rules for a "no" or a demand for different work. If the agent asked a question before, such a
// turn may only answer the question, without an opinion on the agent's work.
//
//nolint:gochecknoglobals // immutable
var demandRules = map[string]bool{"no": true, "no-but": true, "dont": true, "another-way": true, "doubt": true, "thanks-but": true}

// answersQuestion reports whether a turn only answers a question, and says nothing about the agent or the work.
func (p *phrases) answersQuestion(words, previous string) bool {
	ownWords, _ := p.withoutPasted(words)
	low := strings.NewReplacer("can you ", "", "could you ", "").Replace(fold(ownWords))
	return (endsInQuestion(previous) || p.endsInOffer(previous)) && !hasPhrase(low, p.lists["about-answer"]...)
}

func endsInQuestion(previous string) bool {
	end := strings.TrimRight(textTail(previous), " \n*_\"'")
	return strings.HasSuffix(end, "?") || strings.Contains(end, "? ") || strings.Contains(end, "?\n")
}

func (p *phrases) endsInOffer(previous string) bool {
	sentence := strings.ToLower(strings.TrimRight(textTail(previous), " \n.!"))
	if i := strings.LastIndexAny(sentence, ".!\n"); i >= 0 {
		sentence = strings.TrimLeft(sentence[i+1:], " \n")
	}
	return hasPhrase(sentence, p.lists["offer"]...)
}

// claimsDone reports whether the agent's text begins with a claim that the work is done.
func (p *phrases) claimsDone(previous string) bool {
	return startsWithPhrase(strings.ToLower(cutText(strings.TrimLeft(previous, " *#\n"), 40)), p.lists["claim"]...)
}

func (p *phrases) reportsNoChange(turn *userText) bool {
	return !strings.HasSuffix(turn.text, "?") && !p.praises(turn) && turn.hasPhrase("is still", "are still", "still at", "still in")
}

// reportsFault matches a statement that something does not do its work, such as "the list does not show". A condition,
// a purpose, a relative clause or an order says nothing about the answer.
func (p *phrases) reportsFault(turn *userText) bool {
	if !turn.containsAny("not", "n't") {
		return false
	}
	words := strings.Fields(turn.text)
	plain := func(i int) string { return strings.Trim(words[i], `.,;:!?()"*`) }
	start, conditional := true, false
	for i := range words {
		w := plain(i)
		negated := !start && !p.inList("relative", plain(i-1)) &&
			(w == "not" || w == "cannot" || strings.HasSuffix(w, "n't") && (w != "don't" || p.inList("many", plain(i-1)) || strings.HasSuffix(plain(i-1), "s")))
		if negated && !conditional {
			next := i + 1
			for next < len(words) && p.inList("adverb", plain(next)) {
				next++
			}
			if next < len(words) && p.inList("working", plain(next)) {
				return true
			}
		}
		conditional = conditional || p.inList("condition", w)
		if start = strings.ContainsAny(words[i][len(words[i])-1:], ".,;:!?"); start {
			conditional = false
		}
	}
	return false
}

// blamesAgent reports whether the user says what the agent did or was told.
func blamesAgent(turn *userText) bool {
	return turn.hasPhrase("you forgot", "you missed", "you didn't", "you did not", "i meant", "i told you", "i asked", "i said")
}

func blames(turn *userText) bool {
	if !turn.hasPhrase("wrong", "incorrect", "incorrectly") {
		return false
	}
	return turn.hasPhrase("you got", "you have got", "you've got", "you used", "you put", "you picked", "you chose", "you took", "you wrote", "you booked", "you sent")
}

// comparesAlternatives matches "tabs, not spaces".
func comparesAlternatives(turn *userText) bool {
	const maxWords = 10
	_, rest, ok := strings.Cut(turn.text, ", not ")
	return ok && len(strings.Fields(turn.text)) <= maxWords && !startsWithPhrase(rest, "sure", "yet", "now", "a problem", "bad") && !strings.HasSuffix(turn.text, "?")
}

func asksToPause(opening string, turn *userText) bool {
	return startsWithPhrase(opening, "hold on", "wait", "don't", "do not") && turn.hasPhrase("yet", "let me", "i want to", "i need to", "before i") &&
		!turn.hasPhrase("wrong", "you", "instead")
}

// declinesOffer reports whether a turn that begins with "no" only means that the user needs nothing else, or does not
// know the answer.
func (p *phrases) declinesOffer(opening, previous string) bool {
	_, rest, _ := strings.Cut(opening, " ")
	rest = strings.Trim(rest, " .,!-")
	switch {
	case rest == "":
		return hasPhrase(strings.ToLower(textTail(previous)), "anything else", "something else", "any other", "else")
	case startsWithPhrase(rest, p.lists["no-more"]...):
		return len(strings.Fields(rest)) < 16
	}
	return hasQuestionMark(previous) && startsWithPhrase(rest, p.lists["unknown-answer"]...)
}

func hasQuestionMark(previous string) bool { return strings.Contains(textTail(previous), "?") }

func textTail(text string) string { return text[max(0, len(text)-200):] }

func begins(opening string, phrases, exceptions []string) bool {
	return startsWithPhrase(opening, phrases...) && !startsWithPhrase(opening, exceptions...)
}

// asksForAnotherWay reports whether the user wants a different result. The phrases in the "another-way-anywhere" list
// also match inside words, because they are in languages without spaces between words, such as Chinese.
func (p *phrases) asksForAnotherWay(turn *userText) bool {
	const maxDemand = 120 // a longer text with such a phrase usually describes new work
	return turn.hasPhrase(p.lists["another-way"]...) || p.asksForTweak(turn) ||
		len(turn.text) <= maxDemand && (turn.hasPhrase(p.lists["demand"]...) || turn.containsAny(p.lists["another-way-anywhere"]...))
}

// asksForTweak reports whether the user asks for a small change, such as a little more or less.
func (p *phrases) asksForTweak(turn *userText) bool {
	return turn.hasPhrase(p.lists["tweak"]...) && !strings.HasSuffix(turn.text, "thanks")
}

func (p *phrases) praises(turn *userText) bool {
	if turn.hasPhrase(p.lists["praise"]...) {
		return !turn.containsAny(p.lists["no-praise"]...)
	}
	return turn.containsAny(p.lists["praise-anywhere"]...)
}

// beginsWithPraise reports whether a turn begins with a word of praise that stands alone: "great! now add a test", but
// not "great idea".
func (p *phrases) beginsWithPraise(opening string) bool {
	for {
		word, rest, _ := strings.Cut(opening, " ")
		bare := strings.TrimRight(word, ".,!")
		switch {
		case p.inList("praise-alone", bare):
			return bare != word || rest == ""
		case !p.inList("filler", bare):
			return false
		}
		opening = rest
	}
}

func (p *phrases) agrees(opening string) bool {
	return begins(opening, p.lists["agreement"], p.lists["no-agreement"]) ||
		hasAnyPrefix(opening, p.lists["agreement-begun"])
}

// judgeAgreement returns the feeling in a turn that begins with an agreement. The word "ok" is an approval only in a
// very short turn, or in a short answer to a question.
func (p *phrases) judgeAgreement(opening string, turn *userText, previous string) (Feeling, string) {
	yes := startsWithPhrase(opening, p.lists["yes"]...)
	count := max(len(strings.Fields(turn.text)), len(turn.text)/10) // some scripts have no spaces
	switch {
	case turn.hasPhrase(p.lists["contrast"]...) && p.asksForAnotherWay(turn), p.asksForTweak(turn),
		objects(opening) && !p.asksPermission(previous):
		return Correction, "yes-but"
	case yes && (p.asksPermission(previous) || count <= 8):
		return Approval, "yes"
	case yes && count <= 40 && !strings.HasSuffix(turn.text, "?"):
		return Approval, "yes"
	case asks(turn):
	case startsWithPhrase(turn.text, "ok i'll", "ok, i'll", "okay i'll", "okay, i'll", "ok i will", "alright i'll", "alright, i'll"): // the user will act
	case count <= 3, p.asksPermission(previous) && count <= 12 && !turn.containsAny(p.lists["fact"]...):
		return Approval, "ok"
	}
	if p.asksForAnotherWay(turn) {
		return Correction, "another-way"
	}
	return Neutral, ""
}

// objects matches "yes, but".
func objects(opening string) bool {
	_, rest, _ := strings.Cut(opening, " ")
	return strings.HasPrefix(rest, "but ")
}

// asks reports whether a turn ends with a question mark, or with a particle that asks in Chinese.
func asks(turn *userText) bool {
	return slices.ContainsFunc([]string{"?", "？", "吗", "吧", "呢"}, func(end string) bool { return strings.HasSuffix(turn.text, end) })
}

const (
	maxTurnText = 4000 // bytes of a turn that are read

	// A turn with more than longTurn bytes is a task, a document or output. An opinion on the answer can only be in the
	// first longTurnOpening bytes.
	longTurn, longTurnOpening = 400, 240
)

// withoutPasted returns the user's own words without pasted output, code and paths of screenshots. pasted is true if a
// removed line shows a failure.
func (p *phrases) withoutPasted(words string) (ownWords string, pasted bool) {
	var b strings.Builder
	inFence := false
	for line := range strings.SplitSeq(cutText(words, maxTurnText), "\n") {
		t := withoutLogPrefix(plainLine(line))
		if strings.HasPrefix(t, "```") {
			inFence = !inFence
			continue
		}
		rule, w := p.gradeLine(t)
		if w != noEvidence && rule != "shell" || hasAnyPrefix(t, p.lists["pasted"]) {
			pasted = true
			continue
		}
		if inFence || strings.HasPrefix(line, "    ") && len(words) > 400 ||
			hasAnyPrefix(t, []string{"> ", "'/"}) || strings.HasPrefix(t, "at ") && strings.Contains(t, "(") {
			continue
		}
		b.WriteString(t)
		b.WriteByte('\n')
	}
	return strings.TrimSpace(strings.ReplaceAll(b.String(), "###STOP###", "")), pasted
}

// withoutLogPrefix removes the time and the container's name at the start of a log line: "[13:04:55.120] Error: x",
// "web-1 | Error: x".
func withoutLogPrefix(line string) string {
	if name, rest, ok := strings.Cut(line, " | "); ok && !strings.Contains(strings.TrimSpace(name), " ") {
		line = strings.TrimSpace(rest)
	}
	for range 2 { // the date and the time
		word, rest, ok := strings.Cut(line, " ")
		if !ok || !isDigit(firstByte(strings.TrimLeft(word, "["))) || strings.Trim(word, "[]0123456789:.,-+TZ") != "" || !strings.ContainsAny(word, ":-") {
			break
		}
		line = rest
	}
	return line
}

func (p *phrases) withoutInterjections(low string) string {
	for {
		trimmed := strings.TrimLeft(low, " .,!-–—…'\"")
		for _, f := range p.lists["sound"] {
			if rest, ok := strings.CutPrefix(trimmed, f); ok {
				trimmed = strings.TrimLeft(rest, " .,!")
			}
		}
		if trimmed == low {
			return low
		}
		low = trimmed
	}
}

// asksPermission reports whether the agent asks the user to confirm the next step.
func (p *phrases) asksPermission(previous string) bool {
	const end = 600 // bytes searched for a question
	return hasPhrase(strings.ToLower(previous[max(0, len(previous)-end):]), p.lists["question"]...)
}
