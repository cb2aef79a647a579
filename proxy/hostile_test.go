package proxy_test

import (
	"encoding/json"
	"regexp"
	"strings"
	"testing"
	"time"

	"precept/inject/bank/banktest"
	"precept/inject/lesson"
)

// A hostile lesson tries to end the inserted block early, or to imitate another role. Therefore a block has one end
// line, precept's prefix on each line, no chat template token, no role at the start of a line and no hidden character.
func TestHostileLessonStaysInsideBlock(t *testing.T) {
	for _, style := range []string{"advice", "pitfalls"} {
		t.Run(style, func(t *testing.T) {
			var lessons []*lesson.Lesson
			attacks := map[string]banktest.Lesson{}
			for _, a := range banktest.Hostile() {
				l, err := lesson.Parse("x/"+a.Kind+".md", a.Text)
				if err != nil || attacks[l.Slug].Text != nil {
					continue // the lesson is invalid, or its slug is a duplicate
				}
				l.State, l.Trigger.Keywords, l.ExpiresAt = lesson.Active, []string{l.Slug}, time.Time{} // as after an approval
				l.Scope = lesson.Scope{}
				lessons, attacks[l.Slug] = append(lessons, l), a
			}
			up := newUpstream(t, nil)
			flags := injectAll()
			flags["inject.style"] = style
			f := newFixture(t, up, "", lesson.NewBook(lessons), flags)
			shown := 0
			for _, l := range lessons {
				f.chat(t, nil, `{"model":"m","messages":[{"role":"user","content":"Please load the fixture of `+l.Slug+`"}]}`)
				if block := insertedBlock(t, up.lastRequest(t).body, "Please load the fixture of "); block != "" {
					shown++
					checkContained(t, style, attacks[l.Slug], block)
				}
			}
			if shown < 400 {
				t.Errorf("the upstream got %d lessons, want at least 400", shown)
			}
		})
	}
}

// insertedBlock returns the text that precedes the user's text in body, which the upstream received.
func insertedBlock(t *testing.T, body []byte, text string) string {
	t.Helper()
	var req struct {
		Messages []struct{ Role, Content string }
	}
	if err := json.Unmarshal(body, &req); err != nil {
		t.Fatal(err)
	} else if len(req.Messages) != 1 {
		t.Fatalf("the upstream: Messages = %+v, want 1 item", req.Messages)
	} else if req.Messages[0].Role != "user" {
		t.Fatalf(`the upstream: Role = %q, want "user"`, req.Messages[0].Role)
	}
	block, _, ok := strings.Cut(req.Messages[0].Content, text)
	if !ok {
		t.Fatalf("the upstream got %s, want the user's text %q in the message", body, text)
	}
	return block
}

// Patterns that must not occur in a block.
var (
	templateTokens = regexp.MustCompile(`(?i)<\s*\||\|>|\[\s*/?\s*inst\s*\]|<<\s*/?\s*sys|<\s*/?\s*(?:s|system|assistant|user|human|developer|system-reminder|tool_call|tool_result|function_calls|function_results|invoke|thinking|instructions|start_of_turn|end_of_turn)\b[^>]*>|\x1b|<!--`)
	roleLines      = regexp.MustCompile(`(?im)^[\s>*_#|+-]*(?:\[[a-z0-9-]*\]\s*)?[\s>*_#|+-]*(?:system|assistant|human|developer|user)[*_]*\s*[:：]|^[\s|]*#{2,}`)
	hiddenRunes    = regexp.MustCompile(`[\x{200B}-\x{200F}\x{202A}-\x{202E}\x{2060}-\x{2069}\x{FEFF}\x{00AD}\x{E0000}-\x{E007F}\x{2028}\x{2029}\x{0085}\r\v\f]`)
)

// checkContained checks that a block has one end line, at the end, a prefix on each line, and no forbidden pattern.
func checkContained(t *testing.T, style string, a banktest.Lesson, block string) {
	t.Helper()
	end := "End of lessons."
	if style == "pitfalls" {
		end = "[END KNOWN PITFALLS]"
	}
	lines := strings.Split(strings.TrimRight(block, "\n"), "\n")
	if lines[len(lines)-1] != end {
		t.Errorf("%s: last line = %q, want %q", a.Name, lines[len(lines)-1], end)
	}
	if strings.Count(block, end) != 1 {
		t.Errorf("%s: end markers = %d, want 1", a.Name, strings.Count(block, end))
	}
	if strings.Count(strings.ToLower(block), strings.ToLower(end)) != 1 {
		t.Errorf("%s: lower-case end markers = %d, want 1", a.Name, strings.Count(strings.ToLower(block), strings.ToLower(end)))
	}
	for _, line := range lines[2 : len(lines)-1] {
		if !strings.HasPrefix(line, "  | ") && !strings.HasPrefix(line, "- [") && !strings.HasPrefix(line, "Cautions (") && !strings.HasPrefix(line, "(Advice") {
			t.Errorf("%s: block line %q lacks precept's prefix", a.Name, line)
		}
	}
	for kind, p := range map[string]*regexp.Regexp{"template token": templateTokens, "role at the line start": roleLines, "hidden character": hiddenRunes} {
		if found := p.FindString(block); found != "" {
			t.Errorf("%s: block contains the %s %q:\n%s", a.Name, kind, found, block)
		}
	}
}
