package detect

import (
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"precept/wire"
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
	kind, _ := SideWording(user, system, len(req.Tools))
	return kind
}

// sideHead is how much of a text is read for the wordings, in bytes.
const sideHead = 4096

// SideWording recognises the wordings of titles, summaries, compaction and memory keeping. With
// tools on offer only the sentences that agents use word for word count, and only where they begin
// a paragraph; without tools the same ideas in other words do too: such a request does no work.
func SideWording(lastUserText, systemText string, tools int) (string, bool) {
	user := ends(lastUserText)
	if kind, ok := knownSide(user, systemText); ok {
		return kind, true
	}
	if tools > 0 {
		return "", false
	}
	user, system := strings.ToLower(user), strings.ToLower(cutText(systemText, sideHead))
	head := strings.TrimSpace(system)
	switch {
	case titleWords(cutText(head, 400)), titleWords(cutText(strings.TrimSpace(user), 300)):
		return "title", true
	case summaryWords(cutText(head, 400)), summaryWords(cutText(strings.TrimSpace(user), 300)):
		return "summary", true
	case commitWords(cutText(head, 400)):
		return "commit", true
	}
	return "", false
}

// sideText is a wording, and what kind of request has it.
type sideText struct{ kind, text string }

// knownHead is how much of a system prompt is read for the known sentences, in bytes.
const knownHead = 600

// knownSide looks for what known agents use word for word: their sentences, and what their
// housekeepers are told to be.
func knownSide(user, system string) (string, bool) {
	head := strings.TrimSpace(cutText(system, knownHead))
	sentences := [...]sideText{
		{"summary", "you are performing a context checkpoint compaction"},
		{"summary", "critical: respond with text only"},
		{"summary", "your task is to create a detailed summary of the conversation so far"},
		{"summary", "please create a detailed summary of the conversation so far. the history is being compacted"},
		{"summary", "your task is to create a detailed summary of the recent portion of the conversation"},
		{"summary", "your task is to create a comprehensive, detailed summary of the entire conversation"},
		{"summary", "you are the component that summarizes internal chat history"},
		{"summary", "first, reason in your scratchpad. then, generate the <state_snapshot>"},
		{"summary", "provide a detailed prompt for continuing our conversation above"},
		{"summary", "provide a detailed but concise summary of our conversation above"},
		{"summary", "the messages above are a conversation to summarize"},
		{"summary", "the conversation history before this point was compacted"},
		{"summary", "the current conversation is rapidly running out of context"},
		{"summary", "*briefly* summarize this partial conversation"},
		{"summary", "you are maintaining a context-aware state summary"},
		{"summary", "critical: this summarization request is a system operation"},
		{"title", "based on the conversation so far, provide a concise description of this session"},
		{"title", "generate a title for this conversation"},
		{"title", "please write a 5-10 word title for the following conversation"},
		{"title", "analyze if this message indicates a new conversation topic"},
		{"title", "summarize this coding conversation in under 50 characters"},
		{"title", "generate a concise, sentence-case title"},
		{"memory", "you are now acting as the managed memory"},
		{"memory", "extract durable memories from the conversation"},
		{"memory", "analyze *only* the content and structure of your immediately preceding response"},
	}
	first := slices.IndexFunc(sentences[:], func(w sideText) bool { return foldedPrefix(head, w.text) })
	if first < 0 {
		first = len(sentences)
	}
	if first = firstBegun(user, sentences[:first]); first < len(sentences) {
		return sentences[first].kind, true
	}
	for _, w := range [...]sideText{
		{"title", "you are a title generator"},
		{"summary", "you are a context summarization"},
		{"summary", "you are an anchored context summarization"},
		{"summary", "you are the component that summarizes"},
		{"summary", "you are a helpful ai assistant tasked with summarizing conversations"},
		{"summary", "you are a conversation summar"},
		{"summary", "you are summarizing a conversation"},
		{"title", "you are an expert in crafting"}, // titles, branch names
		{"commit", "you are an expert software engineer that generates concise, one-line git commit messages"},
		{"memory", "you are the managed memory"},
		{"memory", "you are a memory extraction"},
	} {
		if foldedPrefix(head, w.text) {
			return w.kind, true
		}
	}
	return "", false
}

// titleWords: the text asks for a title, in whatever words.
func titleWords(low string) bool {
	if !hasWord(low, "title") {
		return false
	}
	return hasWord(low, "generate a title", "generate a short title", "generate a concise", "generate a brief title", "write a title", "write a short title", "create a title", "create a short title", "title generator",
		"concise title", "short title", "brief title", "conversation title", "title for the conversation", "title for this conversation", "title for the following", "title for this chat", "title for the chat", "thread title", "session title") &&
		hasWord(low, "conversation", "chat", "thread", "session", "message", "title generator")
}

// summaryWords: the text asks for a summary of the conversation, in whatever words.
func summaryWords(low string) bool {
	if !hasWord(low, "summar", "compact", "condens", "context extraction") {
		return false
	}
	return hasWord(low, "summarize the conversation", "summarize this conversation", "summarize our conversation", "summarise the conversation", "summarize the following conversation", "summary of the conversation",
		"summary of this conversation", "summary of our conversation", "conversation summar", "summarize the chat", "summarize the above conversation", "summarizing conversations", "conversation compactor",
		"context summar", "context extraction assistant", "summary about the contents of this conversation", "progressively summarize the lines of conversation", "condense the conversation", "compact the conversation")
}

// commitWords: the whole task is the message of a commit. A person who asks for one speaks in the
// user's place.
func commitWords(low string) bool {
	return hasWord(low, "commit message", "git commits") && hasWord(low, "generate", "generates", "expert at writing", "write a ", "writes ")
}

// foldedPrefix says whether s in lower case begins with the ASCII text low.
func foldedPrefix(s, low string) bool {
	for i := range len(low) {
		switch {
		case s == "":
			return false
		case s[0] == low[i], s[0] >= 'A' && s[0] <= 'Z' && s[0]|0x20 == low[i]:
			s = s[1:]
		case s[0] < utf8.RuneSelf:
			return false
		default: // the Kelvin sign is a k
			r, size := utf8.DecodeRuneInString(s)
			if unicode.ToLower(r) != rune(low[i]) {
				return false
			}
			s = s[size:]
		}
	}
	return true
}

// firstBegun is the first of the list that stands at the start of a line of text, len(list) when
// none does. One walk over the lines is cheaper than a search for each wording.
func firstBegun(text string, list []sideText) int {
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
	switch strings.ToLower(product) {
	case "codex", "codex_exec", "codex_cli_rs", "codex_cli", "codex-tui", "codex_vscode", "codex_mcp_server", "codex_sdk_ts",
		"claude-cli", "claude-code", "opencode", "qwencode", "geminicli", "gemini-cli", "cline", "roocode", "roo-code", "kilocode", "kilo-code",
		"githubcopilotchat", "copilot", "copilot-cli", "pi", "pi-coding-agent", "goose", "crush", "openhands", "amp", "droid", "factory-cli", "kimicli", "iflow-cli":
		return true
	}
	return false
}
