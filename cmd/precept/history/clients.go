package history

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
)

func claudePatterns(e Env) []string {
	dir := e.Var("CLAUDE_CONFIG_DIR")
	if dir == "" {
		dir = filepath.Join(e.Home, ".claude")
	}
	return []string{filepath.Join(dir, "projects", "**", "*.jsonl")}
}

// readClaude reads a Claude Code session, with messages in the Messages API format. A side chain is a sub-agent's
// conversation. It is skipped, unless the file has nothing else.
func readClaude(path string) (conversations []Conversation, skippedErr, err error) {
	type entry struct {
		Type        string          `json:"type"`
		IsSidechain bool            `json:"isSidechain"`
		IsMeta      bool            `json:"isMeta"`
		SessionID   string          `json:"sessionId"`
		Message     json.RawMessage `json:"message"`
	}
	var main, side []json.RawMessage
	id := ""
	skippedErr, err = eachLine(path, func(e entry) {
		if e.Type != "user" && e.Type != "assistant" || e.IsMeta || len(e.Message) == 0 {
			return
		}
		var m struct {
			Role    string          `json:"role"`
			Content json.RawMessage `json:"content"`
		}
		if json.Unmarshal(e.Message, &m) != nil || m.Role == "" || len(m.Content) == 0 {
			return
		}
		short := message(m.Role, map[string]any{"content": m.Content})
		if e.IsSidechain {
			side = append(side, short)
			return
		}
		main, id = append(main, short), e.SessionID
	})
	if len(main) == 0 {
		main, id = side, baseName(path)
	}
	return listIfNonEmpty(Conversation{ID: id, Messages: main}), skippedErr, err
}

func codexPatterns(e Env) []string {
	dir := e.Var("CODEX_HOME")
	if dir == "" {
		dir = filepath.Join(e.Home, ".codex")
	}
	return []string{filepath.Join(dir, "sessions", "**", "*.jsonl"), filepath.Join(dir, "archived_sessions", "*.jsonl")}
}

// readCodex reads a Codex session, with items in the Responses API format. Old releases wrote each item directly as a
// line.
func readCodex(path string) (conversations []Conversation, skippedErr, err error) {
	type entry struct {
		Type    string          `json:"type"`
		Payload json.RawMessage `json:"payload"`
	}
	var items []json.RawMessage
	id := baseName(path)
	skippedErr, err = eachLine(path, func(line json.RawMessage) {
		var e entry
		if json.Unmarshal(line, &e) != nil {
			return
		}
		item := e.Payload
		if len(item) == 0 {
			item = line
		} else if e.Type != "response_item" {
			return
		}
		var kind struct {
			Type string `json:"type"`
			Role string `json:"role"`
		}
		if json.Unmarshal(item, &kind) != nil || kind.Role == "developer" || kind.Role == "system" {
			return
		}
		switch kind.Type {
		case "message", "function_call", "function_call_output", "custom_tool_call", "custom_tool_call_output", "local_shell_call", "local_shell_call_output":
			items = append(items, item)
		}
	})
	return listIfNonEmpty(Conversation{ID: id, Input: items}), skippedErr, err
}

func qwenPatterns(e Env) []string {
	return []string{
		filepath.Join(e.Home, ".qwen", "projects", "*", "chats", "*.jsonl"),
		filepath.Join(e.Home, ".qwen", "tmp", "*", "chats", "*.jsonl"),
	}
}

// readQwen reads a Qwen Code session, with messages in the Gemini API format.
func readQwen(path string) (conversations []Conversation, skippedErr, err error) {
	type part struct {
		Text    string `json:"text"`
		Thought bool   `json:"thought"`
		Call    *struct {
			ID   string          `json:"id"`
			Name string          `json:"name"`
			Args json.RawMessage `json:"args"`
		} `json:"functionCall"`
		Response *struct {
			ID       string `json:"id"`
			Response struct {
				Output json.RawMessage `json:"output"`
				Error  json.RawMessage `json:"error"`
			} `json:"response"`
		} `json:"functionResponse"`
	}
	type entry struct {
		Type    string `json:"type"`
		Message struct {
			Parts []part `json:"parts"`
		} `json:"message"`
	}
	var list []json.RawMessage
	skippedErr, err = eachLine(path, func(e entry) {
		if e.Type != "user" && e.Type != "assistant" && e.Type != "tool_result" {
			return
		}
		var text []string
		var calls []any
		for _, p := range e.Message.Parts {
			switch {
			case p.Call != nil:
				calls = append(calls, call(p.Call.ID, p.Call.Name, p.Call.Args))
			case p.Response != nil:
				r := p.Response.Response
				if len(r.Error) > 0 {
					r.Output = r.Error
				}
				list = append(list, message("tool", map[string]any{"tool_call_id": p.Response.ID, "content": plainText(r.Output)}))
			case p.Text != "" && !p.Thought:
				text = append(text, p.Text)
			}
		}
		switch {
		case e.Type == "assistant":
			list = append(list, assistantMessage(strings.Join(text, "\n"), calls))
		case len(text) > 0:
			list = append(list, message("user", map[string]any{"content": strings.Join(text, "\n")}))
		}
	})
	return listIfNonEmpty(Conversation{ID: baseName(path), Messages: list}), skippedErr, err
}

// clinePatterns includes Roo Code and Kilo Code, which use Cline's format.
func clinePatterns(e Env) (patterns []string) {
	const file = "api_conversation_history.json"
	for _, editor := range []string{"Code", "Code - Insiders", "VSCodium", "Cursor", "Windsurf"} {
		for _, extension := range []string{"saoudrizwan.claude-dev", "rooveterinaryinc.roo-cline", "kilocode.kilo-code"} {
			patterns = append(patterns, filepath.Join(e.configHome(), editor, "User", "globalStorage", extension, "tasks", "*", file))
		}
	}
	return append(patterns,
		filepath.Join(e.Home, ".vscode-server", "data", "User", "globalStorage", "*", "tasks", "*", file),
		filepath.Join(e.Home, ".cline", "data", "tasks", "*", file))
}

// readCline reads a Cline task, a list of messages in the Messages API format.
func readCline(path string) (conversations []Conversation, skippedErr, err error) {
	data, err := os.ReadFile(path) //nolint:gosec // the user chose the file or its client
	if err != nil {
		return nil, nil, err
	}
	var list []struct {
		Role    string          `json:"role"`
		Content json.RawMessage `json:"content"`
	}
	if err := json.Unmarshal(data, &list); err != nil {
		return nil, err, nil
	}
	var out []json.RawMessage
	for _, m := range list {
		if m.Role != "" && len(m.Content) > 0 {
			out = append(out, message(m.Role, map[string]any{"content": m.Content}))
		}
	}
	return listIfNonEmpty(Conversation{ID: filepath.Base(filepath.Dir(path)), Messages: out}), nil, nil
}

const aiderFile = ".aider.chat.history.md"

func aiderPatterns(e Env) (patterns []string) {
	for dir := e.WorkDir; ; dir = filepath.Dir(dir) { // aider uses the repository's root directory
		patterns = append(patterns, filepath.Join(dir, aiderFile))
		_, err := os.Stat(filepath.Join(dir, ".git"))
		if err == nil || dir == filepath.Dir(dir) {
			break
		}
	}
	return append(patterns, filepath.Join(e.Home, aiderFile))
}

// readAider reads aider's Markdown file. Each chat begins with a heading. "#### " begins a line of the user's request,
// and "> " a line of aider's own output. All other lines are the model's reply.
func readAider(path string) (conversations []Conversation, skippedErr, err error) {
	data, err := os.ReadFile(path) //nolint:gosec // the user chose the file or its client
	if err != nil {
		return nil, nil, err
	}
	var all []Conversation
	var chat Conversation
	role, text := "", []string{}
	flush := func() {
		if words := strings.TrimSpace(strings.Join(text, "\n")); words != "" && role != "" {
			chat.Messages = append(chat.Messages, message(role, map[string]any{"content": words}))
		}
		text = nil
	}
	startRole := func(next string) {
		if role != next {
			flush()
			role = next
		}
	}
	for line := range strings.Lines(string(data)) {
		line = strings.TrimRight(line, "\r\n")
		if at, ok := strings.CutPrefix(line, "# aider chat started at "); ok {
			flush()
			all = append(all, listIfNonEmpty(chat)...)
			chat, role = Conversation{ID: at}, ""
			continue
		}
		if words, ok := strings.CutPrefix(line, "#### "); ok {
			startRole("user")
			text = append(text, words)
			continue
		}
		if strings.HasPrefix(line, "> ") || line == ">" {
			continue // token counts, commits, questions from aider
		}
		if role == "user" && strings.TrimSpace(line) == "" {
			continue
		}
		if role != "" {
			startRole("assistant")
			text = append(text, line)
		}
	}
	flush()
	return append(all, listIfNonEmpty(chat)...), nil, nil
}

func listIfNonEmpty(c Conversation) []Conversation {
	if len(c.Messages)+len(c.Input) == 0 {
		return nil
	}
	return []Conversation{c}
}

func assistantMessage(text string, calls []any) json.RawMessage {
	fields := map[string]any{"content": text}
	if len(calls) > 0 {
		fields["tool_calls"] = calls
	}
	return message("assistant", fields)
}

// plainText returns a JSON string's content, and other JSON values as JSON.
func plainText(raw json.RawMessage) string {
	var s string
	if json.Unmarshal(raw, &s) == nil {
		return s
	}
	return string(raw)
}
