package detect

import (
	"strconv"
	"strings"
)

// Codex gives newer models one tool that runs a program in JavaScript, from which they call the
// others: `const r = await tools.exec_command({cmd: "make"}); text(r);`. What the program hands to
// text comes back, a command's result as JSON with its exit code.

// scripted are the commands that such a program runs, a line each; "" where none is written out.
func scripted(program string) string {
	var commands []string
	for rest := program; ; {
		_, after, ok := strings.Cut(rest, "tools.exec_command(")
		if !ok {
			return strings.Join(commands, "\n")
		}
		rest = after
		args, _, _ := strings.Cut(rest, "tools.")
		for _, key := range []string{"cmd:", `"cmd":`, "'cmd':"} {
			if _, literal, ok := strings.Cut(args, key); ok {
				if command, ok := jsString(strings.TrimSpace(literal)); ok {
					commands = append(commands, command)
				}
				break
			}
		}
	}
}

// jsString reads the string literal at the start of a text. A template that puts something in is
// none.
func jsString(text string) (string, bool) {
	if text == "" || !strings.ContainsRune("\"'`", rune(text[0])) {
		return "", false
	}
	var b strings.Builder
	for rest := text[1:]; rest != ""; {
		switch {
		case rest[0] == text[0]:
			return b.String(), true
		case text[0] == '`' && strings.HasPrefix(rest, "${"):
			return "", false
		case rest[0] != '\\' || len(rest) == 1:
			b.WriteByte(rest[0])
			rest = rest[1:]
		case rest[1] == '\'' || rest[1] == '"' || rest[1] == '`':
			b.WriteByte(rest[1])
			rest = rest[2:]
		default:
			r, _, after, err := strconv.UnquoteChar(rest, 0)
			if err != nil {
				return "", false
			}
			b.WriteRune(r)
			rest = after
		}
	}
	return "", false
}
