package detect

import (
	"slices"
	"strings"

	"precept/internal/wire"
)

// SideRequestKind returns the kind of housekeeping that a side request asks for, or "" if the request belongs to the
// conversation. Agents and chat front ends send side requests in addition to the conversation. The kinds are title,
// summary, memory, commit, tags, follow_up, query, completion, emoji and prompt.
func SideRequestKind(req *wire.Request) string {
	system, user, newest := "", "", -1
	first := min(req.Len(), 3)
	for i := range first {
		if req.Role(i) == wire.RoleSystem {
			system = req.Item(i).Text
			break
		}
	}
	for i := req.Len() - 1; i >= 0; i-- {
		if req.Role(i) == wire.RoleUser {
			user, newest = req.Item(i).Text, i
			break
		}
		if req.Role(i) == wire.RoleAssistant {
			break
		}
	}
	if last := req.Len() - 1; last > 0 && req.Role(last) == wire.RoleSystem { // NextChat asks for a summary at the end
		user = req.Item(last).Text + "\n" + user
	}
	if len(req.Tools) == 0 && user != "" {
		// The instruction to write a title may come before the conversation.
		for i := range first {
			if req.Role(i) == wire.RoleUser && i != newest {
				user = req.Item(i).Text + "\n" + user
			}
			if req.Role(i) == wire.RoleUser {
				break
			}
		}
	}
	return compiledPhrases().sideKind(user, system, len(req.Tools))
}

// maxSideText is the number of bytes at each end of a text that are searched for a side request.
const maxSideText = 4096

// sideKind recognises a side request by its wording. If the request has tools, only a literal sentence of a known agent
// counts. If it has no tools, paraphrases also count, because a request without tools is rarely the agent's main work.
func (p *phrases) sideKind(lastUserText, systemText string, tools int) string {
	user := cutToEnds(lastUserText)
	if kind, ok := p.knownSideKind(user, systemText); ok {
		return kind
	}
	if tools > 0 {
		return ""
	}
	user, system := strings.ToLower(user), strings.ToLower(cutText(systemText, maxSideText))
	head := strings.TrimSpace(system)
	switch {
	case p.asksForTitle(cutText(head, 400)), p.asksForTitle(cutText(strings.TrimSpace(user), 300)):
		return "title"
	case p.asksForSummary(cutText(head, 400)), p.asksForSummary(cutText(strings.TrimSpace(user), 300)):
		return "summary"
	case p.asksForCommit(cutText(head, 400)):
		return "commit"
	}
	return p.chatSideKind(user)
}

const maxPromptHead = 600 // bytes searched in a system prompt

// knownSideKind looks for a literal sentence of a known agent in either text, and for a known role at the start of the
// system prompt.
func (p *phrases) knownSideKind(user, system string) (string, bool) {
	head := strings.TrimSpace(cutText(system, maxPromptHead))
	first := slices.IndexFunc(p.sideSentences, func(m ruledPhrase) bool { return hasPrefixFold(head, m.text) })
	if first < 0 {
		first = len(p.sideSentences)
	}
	if first = firstMatchingPhrase(user, p.sideSentences[:first]); first < len(p.sideSentences) {
		return p.sideSentences[first].rule, true
	}
	for i := range p.sideRoles {
		if hasPrefixFold(head, p.sideRoles[i].text) {
			return p.sideRoles[i].rule, true
		}
	}
	return "", false
}

// asksForTitle reports whether the text asks for a conversation's title. Such a text has a phrase in the "side-title"
// list ("write a title") and one in the "side-title-of" list, which names what the title is for.
func (p *phrases) asksForTitle(low string) bool {
	return containsAny(low, "title") && containsAny(low, p.lists["side-title"]...) &&
		containsAny(low, p.lists["side-title-of"]...)
}

func (p *phrases) asksForSummary(low string) bool {
	return containsAny(low, p.lists["side-summary"]...)
}

// asksForCommit reports whether a system prompt asks for a commit message. In the user's text, the same words may be
// the user's own request.
func (p *phrases) asksForCommit(low string) bool {
	return containsAny(low, p.lists["side-commit"]...) && containsAny(low, p.lists["side-commit-of"]...)
}

// hasPrefixFold reports whether s begins with prefix, ignoring case. Most texts already differ in the first byte.
func hasPrefixFold(s, prefix string) bool {
	return len(s) >= len(prefix) && s[0]|0x20 == prefix[0]|0x20 && strings.EqualFold(s[:len(prefix)], prefix)
}

// firstMatchingPhrase returns the index of the first phrase in list with which a line in text begins, or len(list) if
// there is none. One pass over the lines is cheaper than one search per phrase.
func firstMatchingPhrase(text string, list []ruledPhrase) int {
	first := len(list)
	for line := range strings.SplitSeq(text, "\n") {
		for ; line != ""; line = line[1:] {
			for i := range list[:first] {
				if hasPrefixFold(line, list[i].text) {
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

func cutToEnds(text string) string {
	if len(text) <= 2*maxSideText {
		return text
	}
	return text[:maxSideText] + "\n" + text[len(text)-maxSideText:]
}

// AlwaysSendsTools reports whether agents with this User-Agent product always send tools. If they do, a request without
// tools is housekeeping. The result is false for an SDK (OpenAI, Anthropic, langchain), because the app that uses the
// SDK may be a plain chat.
func AlwaysSendsTools(product string) bool {
	return compiledPhrases().inList("agent", strings.ToLower(product))
}
