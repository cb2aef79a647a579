package wire

import (
	"slices"
	"strings"
)

// What agents wrap into user messages, and what precept itself put there, is not what the user said. ownWords takes it
// out, so that matching, feedback and the content hash see the person's words alone.

const (
	blockOpen  = "Lessons from past experience:\n"
	blockClose = "End of lessons."

	// codex writes the project's instructions and the editor's state into user messages with these heads.
	agentsHead  = "# AGENTS.md instructions"
	agentsTail  = "</INSTRUCTIONS>"
	editorHead  = "# Context from my IDE setup:"
	editorWords = "## My request for Codex:\n"
)

// wrapperTag says whether <name>...</name> in a user message is made by an agent.
func wrapperTag(name string) bool {
	switch name {
	case "system-reminder", "environment_context", "skills_instructions", "user_instructions", "current_datetime",
		"SYSTEM_NOTICE", "environment_details", "permissions instructions", "apps_instructions", "plugins_instructions",
		"collaboration_mode", "model_switch", "turn_aborted", "subagent_notification", "task-notification",
		"local-command-caveat", "local-command-stdout", "local-command-stderr", "command-name", "command-message",
		"bash-input", "bash-stdout", "bash-stderr", "ide_opened_file", "ide_selection", "ide_diagnostics",
		"session-start-hook", "user-prompt-submit-hook", "new-diagnostics", "environment_info", "workspace_info",
		"editorContext", "reminderInstructions", "reminder", "project_context", "available_skills", "INSTRUCTIONS",
		"previous_response_suffix":
		return true
	}
	return false
}

// bracketTail is the end of a bracketed block that begins at s, "" when none does.
func bracketTail(s string) string {
	switch {
	case strings.HasPrefix(s, "[LOOP DETECTED]"):
		return "[END LOOP DETECTED]"
	case strings.HasPrefix(s, "[KNOWN PITFALLS"):
		return "[END KNOWN PITFALLS]"
	case strings.HasPrefix(s, "[/lesson "):
		return "[END LESSON]"
	case strings.HasPrefix(s, "[Request interrupted by user"):
		return "]"
	}
	return ""
}

// ownWords is text without wrappers and without precept's own blocks, trimmed.
func ownWords(text string) string {
	s := strings.TrimSpace(withoutWrappers(withoutBlocks(text)))
	switch {
	case strings.HasPrefix(s, agentsHead):
		// The tag is gone by now; what is left of the message is its one-line head.
		_, s, _ = strings.Cut(s, "\n")
		s = strings.TrimSpace(s)
	case strings.HasPrefix(s, editorHead):
		if _, words, ok := strings.Cut(s, editorWords); ok {
			s = strings.TrimSpace(words)
		}
	}
	return unquoted(s)
}

// withoutBlocks takes out what precept inserted.
func withoutBlocks(s string) string {
	s = withoutLessons(s)
	return cutAll(s, '[', bracketTail)
}

func withoutLessons(s string) string {
	for from := 0; ; {
		i := strings.Index(s[from:], blockOpen)
		if i < 0 {
			return s
		}
		if i += from; i > 0 && s[i-1] != '\n' {
			from = i + len(blockOpen)
			continue
		}
		n := strings.Index(s[i:], blockClose)
		if n < 0 {
			return s
		}
		s, from = s[:i]+strings.TrimLeft(s[i+n+len(blockClose):], "\n"), i
	}
}

// withoutWrappers takes out what agents wrap.
func withoutWrappers(s string) string {
	return cutAll(s, '<', func(s string) string {
		end := strings.IndexByte(s[:min(len(s), 40)], '>')
		if end < 0 || !wrapperTag(s[1:end]) {
			return ""
		}
		return "</" + s[1:end+1]
	})
}

// cutAll takes out everything from a mark to the tail that tailOf names for it. A tail that was once looked for in vain
// is not looked for again: a text full of openings must not cost the square of its length.
func cutAll(s string, mark byte, tailOf func(string) string) string {
	var out strings.Builder
	var missing []string
	kept, from := 0, 0
	for {
		i := strings.IndexByte(s[from:], mark)
		if i < 0 {
			break
		}
		i += from
		from = i + 1
		tail := tailOf(s[i:])
		if tail == "" || slices.Contains(missing, tail) {
			continue
		}
		n := strings.Index(s[i:], tail)
		if n < 0 {
			missing = append(missing, tail)
			continue
		}
		out.WriteString(s[kept:i])
		kept = i + n + len(tail)
		from = kept
	}
	if kept == 0 {
		return s
	}
	out.WriteString(s[kept:])
	return out.String()
}

// unquoted takes off the pair of quotes that opencode run puts around the prompt.
func unquoted(s string) string {
	if len(s) < 2 || s[0] != '"' || s[len(s)-1] != '"' || strings.Contains(strings.ReplaceAll(s[1:len(s)-1], `\"`, ""), `"`) {
		return s
	}
	return strings.TrimSpace(s[1 : len(s)-1])
}
