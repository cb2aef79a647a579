package lesson

import "strings"

// section returns the text under the first heading that is wanted, up to the next heading of the
// same or a higher level. A heading inside a code fence is code.
func section(body string, wanted func(string) bool) string {
	var out []string
	level, fence := 0, ""
	for line := range strings.Lines(body) {
		line = strings.TrimRight(line, "\r\n")
		fence = nextFence(fence, line)
		if n, text := heading(line); n > 0 && fence == "" {
			if level > 0 && n <= level {
				break
			}
			if level == 0 && wanted(text) {
				level = n
				continue
			}
		}
		if level > 0 {
			out = append(out, line)
		}
	}
	return strings.Trim(strings.Join(out, "\n"), "\n")
}

// nextFence follows code fences: it returns the open fence's marker after this line, "" outside.
func nextFence(open, line string) string {
	t := strings.TrimLeft(line, " ")
	if len(line)-len(t) > 3 {
		return open
	}
	marker := ""
	if strings.HasPrefix(t, "```") || strings.HasPrefix(t, "~~~") {
		marker = t[:len(t)-len(strings.TrimLeft(t, t[:1]))]
	}
	switch {
	case open == "":
		return marker
	case marker != "" && marker[0] == open[0] && len(marker) >= len(open) && strings.TrimSpace(t[len(marker):]) == "":
		return ""
	default:
		return open
	}
}

// heading reads an ATX heading; level 0 when the line is none.
func heading(line string) (level int, text string) {
	t := strings.TrimLeft(line, " ")
	if len(line)-len(t) > 3 {
		return 0, ""
	}
	rest := strings.TrimLeft(t, "#")
	level = len(t) - len(rest)
	if level == 0 || level > 6 || rest != "" && rest[0] != ' ' && rest[0] != '\t' {
		return 0, ""
	}
	return level, strings.TrimSpace(strings.TrimRight(strings.TrimSpace(rest), "#"))
}

func isHeading(want string) func(string) bool {
	return func(s string) bool { return strings.EqualFold(strings.TrimRight(s, ":"), want) }
}

// isAdviceHeading accepts the section's name in the ways people write it.
func isAdviceHeading(s string) bool {
	s = strings.ToLower(strings.Join(strings.FieldsFunc(s, func(r rune) bool {
		return r == ' ' || r == '(' || r == ')' || r == '/' || r == ':' || r == '\t'
	}), " "))
	switch s {
	case "what to do or avoid", "what to do", "what to avoid", "what to do avoid", "what to do and avoid":
		return true
	default:
		return false
	}
}

// firstTitle is the text of the first heading of level one.
func firstTitle(body string) string {
	fence := ""
	for line := range strings.Lines(body) {
		line = strings.TrimRight(line, "\r\n")
		fence = nextFence(fence, line)
		if n, text := heading(line); n == 1 && fence == "" {
			return text
		}
	}
	return ""
}
