package detect

import (
	"slices"
	"strings"

	"precept/wire"
)

// Refuser says who refused a call.
type Refuser string

// The refusers. Only a person's refusal is feedback.
const (
	NoRefuser Refuser = ""
	Person    Refuser = "person"   // somebody at the keyboard said no, or interrupted
	Policy    Refuser = "policy"   // a rule that was set before
	Headless  Refuser = "headless" // nobody there to ask
)

// refusalWording is one harness's sentence. It must stand at the start of the result, or of one of
// its first lines.
type refusalWording struct {
	text string // lower case
	by   Refuser
	rule string
}

// refusalLead is how far into a result its wording may begin: behind a wrapper or the header of a
// shell's result.
const refusalLead = 400

// readRefusal recognises the known wordings in the first lines of a result.
func (p *phrases) readRefusal(text string) (Refuser, string, bool) {
	head := strings.ToLower(cutText(text, refusalLead))
	n := 0
	for line := range strings.SplitSeq(head, "\n") {
		line = strings.TrimSpace(line)
		if line == "" {
			continue
		}
		if n++; n > 4 {
			break
		}
		if by, rule, ok := p.refusalLine(line); ok {
			return by, rule, true
		}
	}
	return NoRefuser, "", false
}

// automatic says whether a refusal in a person's words was given by a harness with nobody there.
// opencode's run refuses whatever it would have to ask for, in the words of a person who does; it
// gives itself away by what it does not offer (the tool that puts questions to a person) and by the
// quotes that it puts around its prompt. Words of a person's own are a person's.
func (r *Results) automatic(req *wire.Request, item int, rule, text string) bool {
	low := strings.ToLower(cutText(text, refusalLead))
	if rule != "refusal:opencode" || strings.Contains(low, "with the following feedback") {
		return false
	}
	if slices.Contains(req.Tools, "todowrite") && !slices.Contains(req.Tools, "question") {
		return true
	}
	return r.asker.quoted(req, item)
}

// person remembers who spoke last before an item; items are asked for in their order.
type person struct {
	to     int // items before it were looked at
	quotes bool
}

// quoted says whether the newest words of a user before the item stand in quotes.
func (p *person) quoted(req *wire.Request, item int) bool {
	for i := item - 1; i >= p.to; i-- {
		if req.Role(i) != wire.RoleUser {
			continue
		}
		if it := req.Item(i); it.Words != "" {
			p.quotes = strings.Contains(it.Text, `"`+it.Words+`"`)
			break
		}
	}
	p.to = max(p.to, item)
	return p.quotes
}

// brokenOff recognises the marks that harnesses put behind the output of a command that a person
// broke off.
func (p *phrases) brokenOff(text string) (Refuser, string, bool) {
	text = strings.TrimRight(text, " \t\r\n")
	last := strings.TrimSpace(text[strings.LastIndexByte(text, '\n')+1:])
	if len(last) > 120 {
		return NoRefuser, "", false
	}
	by, rule, ok := p.refusalLine(strings.ToLower(last))
	return by, rule, ok && strings.HasSuffix(rule, "interrupt")
}

func (p *phrases) refusalLine(line string) (Refuser, string, bool) {
	for _, lead := range p.lists["refusal-behind"] {
		line = strings.TrimPrefix(line, lead)
	}
	switch {
	case strings.HasPrefix(line, `this "`) && strings.Contains(line, "was denied by permission rule"),
		strings.HasPrefix(line, `tool "`) && strings.Contains(line, "denied by permission rule"),
		strings.HasPrefix(line, "tool execution") && strings.Contains(line, "denied by policy"):
		return Policy, "policy", true
	case strings.HasPrefix(line, `tool "`) && strings.Contains(line, "requires approval in a tty"),
		strings.HasPrefix(line, `tool "`) && strings.Contains(line, "requires user approval"),
		strings.HasPrefix(line, "tool ") && hasWord(line, "approval") &&
			hasWord(line, "non-interactive mode"):
		return Headless, "headless", true
	}
	for i := range p.refusals {
		w := &p.refusals[i]
		if strings.HasPrefix(line, w.text) && (w.rule != "claude-policy" || strings.Contains(line, "denied")) {
			return w.by, w.rule, true
		}
	}
	return NoRefuser, "", false
}

// readPending recognises results that say "not finished yet": a command that was moved to the
// background, a session that is still running.
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
		case strings.HasPrefix(line, "process running with session id"):
			return "codex-session", true
		case n <= 2 && hasPrefixOf(line, p.lists["background"]):
			return "background", true
		case n <= 2 && strings.HasPrefix(line, "command") &&
			hasWord(line, "in the background", "in background"):
			return "background", true
		case strings.Contains(line, " is still running") && hasPrefixOf(line, p.lists["still-running"]):
			return "still-running", true
		}
	}
	return "", false
}

// cutText is the first n bytes.
func cutText(s string, n int) string {
	if len(s) > n {
		return s[:n]
	}
	return s
}
