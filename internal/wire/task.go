package wire

import (
	"slices"
	"strings"
)

// A harness may write the user's request into a template, or send messages before the request (preambles).
// Item.UserText includes the template, because the content hash covers the message. Request.UserRequest and
// Request.Task return the request without the template.

// taskTemplate is the text that a harness writes around the user's request.
type taskTemplate struct {
	harness     string
	head        string   // text with which the message begins; "" if it may begin with any text
	open        string   // line before the request; "" means the request follows the head
	lead        string   // any text between head and open must contain lead
	ends        []string // texts after the request; the first that occurs ends the request
	endOptional bool     // if none of ends occurs, the request is the rest of the message
	endOnly     bool     // one of ends must end the message, because the template has no other text
}

// taskTemplates lists the known templates. The first match is used.
//
//nolint:gochecknoglobals // immutable
var taskTemplates = []taskTemplate{
	{harness: "mini-SWE-agent", head: "Please solve this issue: ", ends: []string{
		"\n\nYou can execute bash commands and edit files to implement the necessary changes.",
	}},
	{harness: "mini-SWE-agent for benchmarks", head: "Consider the following PR description:\n", endOptional: true},
	{harness: "SWE-agent", head: "We're currently solving the following issue within our repository.", open: "ISSUE:\n", ends: []string{
		"\nINSTRUCTIONS:\n",
	}, endOptional: true},
	{harness: "Trae", head: "[Project root path]:", open: "[Problem statement]: We're currently solving the following issue within our repository." +
		" Here's the issue text:\n", endOptional: true},
	{harness: "OpenHands without tools", lead: "running example", open: "--------------------- NEW TASK DESCRIPTION ---------------------\n", ends: []string{
		"\n--------------------- END OF NEW TASK DESCRIPTION ---------------------",
	}, endOptional: true},
	{harness: "Kiro, Amazon Q", lead: "--- CONTEXT ENTRY BEGIN ---", open: "--- USER MESSAGE BEGIN ---\n", ends: []string{"--- USER MESSAGE END ---"}},
	{harness: "CrewAI", head: "Current Task: ", ends: []string{
		"\n\nThis is the expected criteria for your final answer:", "\n\nBegin! This is VERY important to you,", "\n\nProvide your complete response:",
	}, endOptional: true},
	{harness: "smolagents", head: "New task:\n", endOptional: true},
	{harness: "LangChain, ReAct", lead: "\nThought:", open: "Begin!\n\nQuestion: ", ends: []string{"\nThought:"}, endOptional: true},
	{harness: "LangChain, structured chat", endOnly: true, ends: []string{
		"\n (reminder to respond in a JSON blob no matter what)", "\n(reminder to respond in a JSON blob no matter what)",
	}},
	{harness: "LangChain, chat", head: "TOOLS\n------\n", open: "Here is the user's input (remember to respond with a markdown code snippet" +
		" of a json blob with a single action, and NOTHING else):\n\n", endOptional: true},
}

// taskTag is an element that a harness writes around the user's request. The element begins a line.
type taskTag struct {
	name     string
	harness  string
	prefixes []string // the element follows one of these texts; without prefixes, the element follows only other elements
}

const numTaskTags = 10

// taskTags lists the known tags. If a message has several of them, the first in this list is used.
//
//nolint:gochecknoglobals // immutable
var taskTags = [numTaskTags]taskTag{
	{name: "user_query", harness: "Cursor, Grok"},
	{name: "userRequest", harness: "Copilot Chat"},
	{name: "UserRequest", harness: "commands of OpenSpec", prefixes: []string{"The user "}},
	{name: "user_input", harness: "Cline"},
	{name: "user_command", harness: "Cline"},
	{name: "user_message", harness: "Roo"},
	{name: "task", harness: "older Cline and Roo"},
	{name: "command-args", harness: "commands of Claude Code"},
	{name: "pr_description", harness: "SWE-agent", prefixes: []string{"I've uploaded a", "I have access to a", "Consider the following"}},
	{name: "issue_description", harness: "OpenHands", prefixes: []string{"I've uploaded a", "I have access to a", "Consider the following"}},
}

// noteTags lists elements that a harness writes before or after the user's request.
//
//nolint:gochecknoglobals // immutable
var noteTags = [...]string{
	"session_context", // Gemini CLI and its forks
	"uploaded_files",  // SWE-agent, OpenHands
	"attachments",     // Copilot Chat
	"context",         // Copilot Chat, Zed
	"user_info",       // Cursor, Grok
	"timestamp",       // Cursor
	"mode_notice",     // Cline
	"file_content",    // Cline
	"info-msg",        // goose
}

// preamblePrefixes returns the texts with which preambles begin.
func preamblePrefixes() [7]string {
	return [...]string{
		// aider
		"Here are summaries of some files present in my git repository.\n",
		"I am working with you on code in a git repository.\nHere are summaries of some files present in my git repo.\n",
		"Here are some READ ONLY files, provided for your reference.\n",
		"Don't try and edit any existing code without asking me to add the files to the chat!\n",
		"I am not sharing any files that you can edit yet.",
		// SWE-agent
		"Here is a demonstration of how to correctly accomplish this task.\n",
		"Here is a demonstration of how to correctly accomplish another task.\n",
	}
}

// examplesEnd is the text that aider writes after its examples, which look like a conversation.
const examplesEnd = "I switched to a new code base. Please don't consider the above files or try to edit them any longer."

const (
	maxTemplates      = 4 // nested templates; a benchmark harness may wrap an agent's template
	maxNotes          = 32
	maxTemplatedBytes = 1 << 20 // a longer message is returned unchanged
)

// UserRequest returns the user's request in item i, without templates and preambles from known harnesses. Without a
// template, the result is Item.UserText.
func (r *Request) UserRequest(i int) string {
	if r.Role(i) != RoleUser || strings.HasPrefix(r.Item(i).UserText, examplesEnd) {
		return ""
	}
	return r.taskIn(i)
}

// UserRequest is like Request.UserRequest, for a message with a single text part.
func UserRequest(words string) string {
	if len(words) > maxTemplatedBytes {
		return words
	}
	if strings.HasPrefix(words, examplesEnd) {
		return ""
	}
	return withoutTemplates(words)
}

// ElideRequest returns words with an ellipsis instead of request, the result of UserRequest.
func ElideRequest(words, request string) string {
	if request == "" {
		return words
	}
	before, after, found := strings.Cut(words, request)
	if !found {
		return words
	}
	return before + "…" + after
}

// Task returns the user's first request in the first n items, without templates and preambles, or "" if there is none.
func (r *Request) Task(n int) (task string) {
	for i := range min(n, r.Len()) {
		if r.Role(i) != RoleUser || r.Item(i).UserText == "" {
			continue
		}
		switch {
		case strings.HasPrefix(r.Item(i).UserText, examplesEnd):
			task = ""
		case task == "":
			task = r.taskIn(i)
		}
	}
	return task
}

// taskIn returns the user's own text in item i, without each part's template.
func (r *Request) taskIn(i int) string {
	words, parts := r.Item(i).UserText, r.parts(i)
	switch {
	case len(words) > maxTemplatedBytes:
		return words
	case len(parts) == 1: // the usual case
		return withoutTemplates(words)
	}
	var tasks []string
	for _, p := range parts {
		if p.kind != textPart {
			continue
		}
		if task := withoutTemplates(userWords(text(r.Body, p.text), nil)); task != "" {
			tasks = append(tasks, task)
		}
	}
	return strings.Join(tasks, "\n")
}

func withoutTemplates(words string) string {
	for range maxTemplates {
		words = withoutNotes(words)
		if isPreamble(words) {
			return ""
		}
		inner, ok := templateContent(words)
		if !ok {
			inner, ok = taskTagContent(words)
		}
		if !ok {
			break
		}
		words = strings.TrimSpace(inner)
	}
	return words
}

func isPreamble(words string) bool {
	// Gemini CLI and its forks, such as Qwen Code, differ only in the program's name.
	line, _, _ := strings.Cut(words, "\n")
	if strings.HasPrefix(line, "This is the ") && strings.HasSuffix(line, ". We are setting up the context for our chat.") {
		return true
	}
	for _, head := range preamblePrefixes() {
		if strings.HasPrefix(words, head) {
			return true
		}
	}
	return false
}

func templateContent(words string) (inner string, ok bool) {
	for i := range taskTemplates {
		if inner, ok = taskTemplates[i].inner(words); ok {
			return inner, true
		}
	}
	return "", false
}

func (t *taskTemplate) inner(words string) (inner string, ok bool) {
	rest, ok := strings.CutPrefix(words, t.head)
	if !ok {
		return "", false
	}
	if t.open != "" {
		at := lineStart(rest, t.open)
		if at < 0 {
			return "", false
		}
		if before := rest[:at]; strings.TrimSpace(before) != "" && !strings.Contains(before, t.lead) {
			return "", false
		}
		rest = rest[at+len(t.open):]
	}
	for _, end := range t.ends {
		if t.endOnly {
			if inner, found := strings.CutSuffix(rest, end); found {
				return inner, true
			}
			continue
		}
		if inner, _, found := strings.Cut(rest, end); found {
			return inner, true
		}
	}
	return rest, t.endOptional
}

func lineStart(s, text string) int {
	for from := 0; ; {
		i := strings.Index(s[from:], text)
		if i < 0 {
			return -1
		}
		if i += from; i == 0 || s[i-1] == '\n' {
			return i
		}
		from = i + len(text)
	}
}

// taskElements returns, in one pass, each tag's first index at the beginning of a line, or -1 if there is none.
func taskElements(words string) (found [numTaskTags]int) {
	for i := range found {
		found[i] = -1
	}
	for from := 0; ; {
		at := strings.IndexByte(words[from:], '<')
		if at < 0 {
			return found
		}
		at += from
		from = at + 1
		if at > 0 && words[at-1] != '\n' {
			continue
		}
		for i := range taskTags {
			if found[i] < 0 && strings.HasPrefix(words[from:], taskTags[i].name) {
				found[i] = at
			}
		}
	}
}

func taskTagContent(words string) (inner string, ok bool) {
	found := taskElements(words)
	for i := range taskTags {
		tag, at := &taskTags[i], found[i]
		if at < 0 {
			continue
		}
		hasPrefix := slices.ContainsFunc(tag.prefixes, func(lead string) bool { return strings.Contains(words[:at], lead) })
		if !hasPrefix && at > 0 && !isMarkup(words[:at]) {
			continue
		}
		if inner, after, whole := cutElement(words[at:], tag.name); whole && (hasPrefix || isHarnessText(tag.name, after)) {
			return inner, true
		}
	}
	return "", false
}

// isHarnessText reports whether a harness wrote the text after the <name> element: elements or headings, not sentences.
// A person may also write a prompt in elements, often with <task> first, so elements after <task> prove nothing.
func isHarnessText(name, after string) bool {
	after = strings.TrimSpace(after)
	return after == "" || strings.HasPrefix(after, "# ") || name != "task" && isMarkup(after)
}

func isMarkup(s string) bool {
	return strings.HasPrefix(s, "<") && strings.HasSuffix(strings.TrimSpace(s), ">")
}

// cutElement splits s, which begins with <name ...>, into the element's content and the rest.
func cutElement(s, name string) (inner, after string, ok bool) {
	s, ok = strings.CutPrefix(s, "<"+name)
	if !ok || s == "" || s[0] != '>' && s[0] != ' ' {
		return "", "", false
	}
	_, s, ok = strings.Cut(s, ">")
	if !ok {
		return "", "", false
	}
	return strings.Cut(s, "</"+name+">")
}

func withoutNotes(s string) string {
	for range maxNotes {
		rest := withoutNote(s)
		if len(rest) == len(s) {
			break
		}
		s = rest
	}
	return s
}

func withoutNote(s string) string {
	s = strings.TrimSpace(s)
	for _, name := range noteTags {
		if note, after, ok := cutElement(s, name); ok && isNote(name, note, after) {
			return strings.TrimSpace(after)
		}
		if !strings.HasSuffix(s, "</"+name+">") {
			continue
		}
		at := strings.LastIndex(s, "<"+name)
		if note, after, ok := cutElement(s[max(at, 0):], name); ok && after == "" && isNote(name, note, "") {
			return strings.TrimSpace(s[:at])
		}
	}
	return s
}

// isNote reports whether a harness wrote the <name> element. A person may also write <context>. Only two kinds of
// <context> are notes: Copilot Chat's, which precedes another element, and Zed's, which begins with a known sentence.
func isNote(name, note, after string) bool {
	return name != "context" || strings.HasPrefix(strings.TrimSpace(note), "The following items were attached") ||
		strings.HasPrefix(strings.TrimSpace(after), "<")
}
