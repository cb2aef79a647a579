package detect

import (
	"slices"
	"strings"

	"precept/internal/wire"
)

// Side says whether a request's words are those of an agent's own housekeeping: "title", "summary",
// "memory", "commit", or "" when they are not.
func Side(req *wire.Request) string {
	system, user := "", ""
	first := min(req.Len(), 3)
	for i := range first {
		if req.Role(i) == wire.RoleSystem {
			system = req.Item(i).Text
			break
		}
	}
	for i := req.Len() - 1; i >= 0; i-- {
		if req.Role(i) == wire.RoleUser {
			user = req.Item(i).Text
			break
		}
		if req.Role(i) == wire.RoleAssistant {
			break
		}
	}
	if len(req.Tools) == 0 && user != "" {
		// A title's instruction may stand in a user message of its own, before the words that are
		// to be named.
		for i := range first {
			if req.Role(i) == wire.RoleUser {
				user = req.Item(i).Text + "\n" + user
				break
			}
		}
	}
	return wording().sideWording(user, system, len(req.Tools))
}

// sideHead is how much of a text is read for the wordings, in bytes.
const sideHead = 4096

// sideWording recognises the wordings of titles, summaries, compaction and memory keeping. With
// tools on offer only the sentences that agents use word for word count, and only where they begin
// a paragraph; without tools the same ideas in other words do too: such a request does no work.
func (p *phrases) sideWording(lastUserText, systemText string, tools int) string {
	user := ends(lastUserText)
	if kind, ok := p.known(user, systemText); ok {
		return kind
	}
	if tools > 0 {
		return ""
	}
	user, system := strings.ToLower(user), strings.ToLower(cutText(systemText, sideHead))
	head := strings.TrimSpace(system)
	switch {
	case p.titleWords(cutText(head, 400)), p.titleWords(cutText(strings.TrimSpace(user), 300)):
		return "title"
	case p.summaryWords(cutText(head, 400)), p.summaryWords(cutText(strings.TrimSpace(user), 300)):
		return "summary"
	case p.commitWords(cutText(head, 400)):
		return "commit"
	}
	return ""
}

// knownHead is how much of a system prompt is read for the known sentences, in bytes.
const knownHead = 600

// known looks for what known agents use word for word: their sentences, and what their
// housekeepers are asked to be.
func (p *phrases) known(user, system string) (string, bool) {
	head := strings.TrimSpace(cutText(system, knownHead))
	first := slices.IndexFunc(p.says, func(m meaning) bool { return foldedPrefix(head, m.text) })
	if first < 0 {
		first = len(p.says)
	}
	if first = firstBegun(user, p.says[:first]); first < len(p.says) {
		return p.says[first].rule, true
	}
	for i := range p.roles {
		if foldedPrefix(head, p.roles[i].text) {
			return p.roles[i].rule, true
		}
	}
	return "", false
}

// titleWords: the text asks for a title, in whatever words.
func (p *phrases) titleWords(low string) bool {
	return hasWord(low, "title") && hasWord(low, p.lists["side-title"]...) &&
		hasWord(low, p.lists["side-title-of"]...)
}

// summaryWords: the text asks for a summary of the conversation, in whatever words.
func (p *phrases) summaryWords(low string) bool {
	return hasWord(low, p.lists["side-summary"]...)
}

// commitWords: the whole task is the message of a commit. A person who asks for one speaks in the
// user's place.
func (p *phrases) commitWords(low string) bool {
	return hasWord(low, p.lists["side-commit"]...) && hasWord(low, p.lists["side-commit-of"]...)
}

// foldedPrefix says whether s begins with the ASCII text low, in whatever case. The first byte
// tells most of them apart.
func foldedPrefix(s, low string) bool {
	return len(s) >= len(low) && s[0]|0x20 == low[0]|0x20 && strings.EqualFold(s[:len(low)], low)
}

// firstBegun is the first of the list that stands at the start of a line of text, len(list) when
// none does. One walk over the lines is cheaper than a search for each wording.
func firstBegun(text string, list []meaning) int {
	first := len(list)
	for line := range strings.SplitSeq(text, "\n") {
		for ; line != ""; line = line[1:] {
			for i := range list[:first] {
				if foldedPrefix(line, list[i].text) {
					first = i
					break
				}
			}
			if strings.IndexByte(" \t#*>\"", line[0]) < 0 {
				break
			}
		}
	}
	return first
}

// ends keeps the first and the last part of a long text: instructions stand at either.
func ends(text string) string {
	if len(text) <= 2*sideHead {
		return text
	}
	return text[:sideHead] + "\n" + text[len(text)-sideHead:]
}

// WorksWithTools says whether agents of that User-Agent product always work with tools, so that a
// request of theirs without any is housekeeping. Products of SDKs (OpenAI, Anthropic, langchain)
// say nothing: what an app builds on them may be a plain chat.
func WorksWithTools(product string) bool {
	return wording().is("agent", strings.ToLower(product))
}
