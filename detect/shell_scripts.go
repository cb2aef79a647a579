package detect

import (
	"strings"
	"unicode/utf8"
)

func isStandardStream(file string) bool {
	return file == "/dev/stdout" || file == "/dev/stderr" || file == "-"
}

// sedWrites reports whether a sed script writes a file or runs a command: w FILE, s/a/b/w FILE, e or s/a/b/e.
func sedWrites(script string) bool {
	for script != "" {
		switch c := script[0]; c {
		case '/': // an address
			_, script = cutDelimited(script[1:], '/')
		case '\\': // an address with a different delimiter
			if len(script) < 2 {
				return false
			}
			_, script = cutDelimited(script[2:], script[1])
		case 's', 'y':
			if len(script) < 2 {
				return false
			}
			delimiter := script[1]
			_, script = cutDelimited(script[2:], delimiter)
			_, script = cutDelimited(script, delimiter)
			flags := strings.TrimLeft(script, "0123456789gpiIMm")
			if c == 's' && flags != "" && (flags[0] == 'e' || flags[0] == 'w' && writesTo(flags[1:])) {
				return true
			}
			script = flags
		case 'e':
			return true
		case 'w', 'W':
			if writesTo(script[1:]) {
				return true
			}
			_, script, _ = strings.Cut(script, "\n")
		case 'a', 'i', 'c', 'r', 'R', '#': // text, a file name or a comment extends to the line's end
			line, rest, _ := strings.Cut(script, "\n")
			for strings.HasSuffix(line, "\\") && rest != "" {
				line, rest, _ = strings.Cut(rest, "\n")
			}
			script = rest
		case 'b', 't', 'T', ':': // a label
			script = script[min(len(script), strings.IndexAny(script+";", ";\n}")):]
		default:
			script = script[1:]
		}
	}
	return false
}

func writesTo(text string) bool {
	file, _, _ := strings.Cut(text, "\n")
	return !isStandardStream(strings.TrimSpace(file))
}

// cutDelimited cuts a text at the first delimiter without a backslash before it.
func cutDelimited(text string, delimiter byte) (before, after string) {
	for i := 0; i < len(text); i++ {
		switch text[i] {
		case '\\':
			i++
		case delimiter:
			return text[:i], text[i+1:]
		}
	}
	return text, ""
}

// awkWrites reports whether an awk program writes a file or runs a command: print > "FILE", print | "sh" or system("rm
// a").
func (p *phrases) awkWrites(program string) bool {
	prints, depth := false, 0 // inside a print statement; number of open parentheses
	before := byte(0)
	word := ""
	for program != "" {
		c := program[0]
		program = program[1:]
		switch {
		case c == ' ' || c == '\t':
			continue
		case c == '"':
			_, program = cutDelimited(program, '"')
		case c == '/' && !isWordByte(before) && strings.IndexByte(")]$_", before) < 0:
			_, program = cutDelimited(program, '/')
		case c == '#':
			_, program, _ = strings.Cut(program, "\n")
			prints = false
		case isLetter(c) || c == '_':
			rest := strings.TrimLeftFunc(program, func(r rune) bool { return r == '_' || r < utf8.RuneSelf && isWordByte(byte(r)) })
			word = string(c) + program[:len(program)-len(rest)]
			program = rest
			if word == "print" || word == "printf" {
				prints, depth = true, 0
			}
		case c == '(':
			if depth++; word == "system" && !p.startsReader(program) {
				return true
			}
		case c == ')':
			depth--
		case c == ';' || c == '\n' || c == '{' || c == '}':
			prints = false
		case c == '>' && prints && depth == 0:
			target := strings.TrimLeft(program, "> \t")
			if file, _ := cutDelimited(strings.TrimPrefix(target, `"`), '"'); !isStandardStream(file) {
				return true
			}
		case c == '|' && strings.HasPrefix(program, "|"):
			program = program[1:]
		case c == '|' && prints && depth == 0:
			if !p.startsReader(strings.TrimPrefix(program, "&")) {
				return true
			}
		}
		if before = c; !isLetter(c) {
			word = ""
		}
	}
	return false
}

// startsReader reports whether the awk string literal at the start of text is a read-only command.
func (p *phrases) startsReader(text string) bool {
	text = strings.TrimLeft(text, " \t")
	command, after := cutDelimited(strings.TrimPrefix(text, `"`), '"')
	return strings.HasPrefix(text, `"`) && !strings.HasPrefix(strings.TrimLeft(after, " \t"), `"`) && p.analyse(command, 0).readOnly
}
