package detect

import (
	"cmp"
	"strings"
)

// Chat front ends ask for tags, follow-up questions or a title in a single message, which has an instruction and the
// quoted conversation. Each program words the instruction differently.

// chatSideKind returns the kind of housekeeping that a message asks for, or "". low is the message in lower case. The
// kind is that of the first instruction before the quoted conversation. If there is none, it is that of the first
// instruction in the last paragraph after the conversation. An agent's message with the whole history also quotes a
// conversation, but begins with other instructions.
func (p *phrases) chatSideKind(low string) string {
	before, after, ok := p.splitChat(low)
	if !ok {
		return ""
	}
	return cmp.Or(p.firstInstructionKind(before), p.firstInstructionKind(after))
}

// splitChat returns the text before a quoted conversation and the last paragraph after the conversation. The
// conversation is quoted between tags, or as lines that name the user and the model as speakers.
func (p *phrases) splitChat(low string) (before, after string, ok bool) {
	first, end, offset := -1, 0, 0
	hasTag, hasUser, hasModel := false, false, false
	for line := range strings.Lines(low) {
		isTag, isUser, isModel := p.classifyQuoteLine(line)
		if isTag || isUser || isModel {
			if first < 0 {
				first = offset
			}
			end = offset + len(line)
		}
		hasTag, hasUser, hasModel = hasTag || isTag, hasUser || isUser, hasModel || isModel
		offset += len(line)
	}
	if !hasTag && !(hasUser && hasModel) {
		return "", "", false
	}
	after = strings.TrimSpace(low[end:])
	if i := strings.LastIndex(after, "\n\n"); i >= 0 {
		after = after[i:]
	}
	return low[:first], after, true
}

// classifyQuoteLine reports whether a line is a tag around a quoted conversation, or names the user or the model as the
// speaker.
func (p *phrases) classifyQuoteLine(line string) (isTag, isUser, isModel bool) {
	line = strings.TrimLeft(line, " \t-*>#|\"'[({`")
	if rest, ok := strings.CutPrefix(line, "<"); ok {
		name, _, closed := strings.Cut(strings.TrimPrefix(rest, "/"), ">")
		return closed && p.inList("side-tag", name), false, false
	}
	if strings.HasPrefix(line, "role\"") { // messages as JSON
		return false, strings.Contains(line, `"user"`), strings.Contains(line, `"assistant"`)
	}
	speaker, _, ok := strings.Cut(cutText(line, 32), ":")
	speaker = strings.TrimRight(speaker, " *_\"")
	return false, ok && p.inList("side-asks", speaker), ok && p.inList("side-answers", speaker)
}

// firstInstructionKind returns the kind of housekeeping that a text's first instruction asks for, or "".
func (p *phrases) firstInstructionKind(text string) string {
	for line := range strings.Lines(cutText(text, maxSideText)) {
		line = strings.TrimSpace(line)
		if line == "" || line[0] == '#' {
			continue
		}
		for sentence := range strings.SplitSeq(line, ". ") {
			sentence = strings.TrimLeft(sentence, " *_-0123456789.)")
			if sentence == "" || startsWithPhrase(sentence, p.lists["side-no-order"]...) {
				continue
			}
			for _, polite := range p.lists["side-polite"] {
				sentence = strings.TrimPrefix(sentence, polite)
			}
			if !startsWithPhrase(sentence, p.lists["side-verb"]...) {
				if strings.HasSuffix(sentence, ":") { // a heading
					continue
				}
				return ""
			}
			for _, o := range p.chatInstructions {
				if strings.Contains(sentence, o.text) {
					return o.rule
				}
			}
			return ""
		}
	}
	return ""
}
