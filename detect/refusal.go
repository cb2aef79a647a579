package detect

import (
	"strings"
)

// maxRefusalHead is the number of bytes at the start of a result that are searched for a refusal. A header can come
// before the refusal.
const maxRefusalHead = 400

func (p *phrases) readRefusal(text string) (refuser Refuser, rule string) {
	head := strings.ToLower(cutText(text, maxRefusalHead))
	n := 0
	for line := range strings.SplitSeq(head, "\n") {
		line = strings.TrimSpace(line)
		if line == "" {
			continue
		}
		if n++; n > 4 {
			break
		}
		if refuser, rule := p.refusalLine(line); refuser != NoRefuser {
			return refuser, rule
		}
	}
	return NoRefuser, ""
}

// readInterrupt reads the last line of a result, in which a harness reports that the user interrupted a command.
func (p *phrases) readInterrupt(text string) (refuser Refuser, rule string) {
	text = strings.TrimRight(text, " \t\r\n")
	last := strings.TrimSpace(text[strings.LastIndexByte(text, '\n')+1:])
	if len(last) > 120 {
		return NoRefuser, ""
	}
	refuser, rule = p.refusalLine(strings.ToLower(last))
	if !strings.HasSuffix(rule, "interrupt") {
		return NoRefuser, ""
	}
	return refuser, rule
}

// refusalLine returns the refusal that a lower-case line reports. The line may begin with a phrase in the
// "refusal-behind" list.
func (p *phrases) refusalLine(line string) (refuser Refuser, rule string) {
	for _, lead := range p.lists["refusal-behind"] {
		line = strings.TrimPrefix(line, lead)
	}
	switch {
	case strings.HasPrefix(line, `this "`) && strings.Contains(line, "was denied by permission rule"),
		strings.HasPrefix(line, `tool "`) && strings.Contains(line, "denied by permission rule"),
		strings.HasPrefix(line, "tool execution") && strings.Contains(line, "denied by policy"):
		return PolicyRefuser, "policy"
	case strings.HasPrefix(line, `tool "`) && strings.Contains(line, "requires approval in a tty"),
		strings.HasPrefix(line, `tool "`) && strings.Contains(line, "requires user approval"),
		strings.HasPrefix(line, "tool ") && strings.Contains(line, "non-interactive mode"):
		return HeadlessRefuser, "headless"
	}
	for i := range p.refusals {
		w := &p.refusals[i]
		if strings.HasPrefix(line, w.text) && (w.rule != "claude-policy" || strings.Contains(line, "denied")) {
			return w.refuser, w.rule
		}
	}
	return NoRefuser, ""
}

// readPending reports whether a result says that the call is still running, and returns the rule.
func (p *phrases) readPending(text string) (string, bool) {
	n := 0
	for line := range strings.SplitSeq(cutText(text, 600), "\n") {
		line = strings.ToLower(strings.TrimSpace(line))
		if line == "" {
			continue
		}
		if n++; n > 6 || strings.HasPrefix(line, "output:") {
			break
		}
		switch {
		case strings.HasPrefix(line, "process running with session id"), strings.HasPrefix(line, "script running with cell id"):
			return "codex-session", true
		case n <= 2 && hasAnyPrefix(line, p.lists["background"]):
			return "background", true
		case n <= 2 && strings.HasPrefix(line, "command") &&
			containsAny(line, "in the background", "in background") && !p.isTimeOutLine(line):
			return "background", true
		case line == "<status>running</status>": // Claude Code's BashOutput and TaskOutput
			return "still-running", true
		case strings.Contains(line, " is still running") && hasAnyPrefix(line, p.lists["still-running"]):
			return "still-running", true
		}
	}
	return "", false
}
