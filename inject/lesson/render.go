package lesson

import (
	"strconv"
	"strings"
)

// renderPair returns a key and a value in YAML block style.
func renderPair(key string, v *node, indent int) []string {
	pad := strings.Repeat(" ", indent)
	head := pad + quoteYAML(key) + ":"
	switch {
	case len(v.keys) > 0:
		return append([]string{head}, renderMap(v, indent+2)...)
	case v.kind == kindList && isInline(v):
		return []string{head + " [" + strings.Join(scalars(v.list), ", ") + "]"}
	case len(v.list) > 0:
		return append([]string{head}, renderItems(v.list, indent+2)...)
	default:
		return []string{head + " " + scalar(v)}
	}
}

func renderMap(v *node, indent int) []string {
	var out []string
	for i := range v.keys {
		out = append(out, renderPair(v.keys[i].key, &v.keys[i].val, indent)...)
	}
	return out
}

func renderItems(items []node, indent int) []string {
	pad := strings.Repeat(" ", indent)
	var out []string
	for i := range items {
		item := &items[i]
		lines := append(renderMap(item, indent+2), renderItems(item.list, indent+2)...)
		if len(lines) == 0 {
			lines = []string{pad + "  " + scalar(item)}
		}
		lines[0] = pad + "- " + lines[0][indent+2:]
		out = append(out, lines...)
	}
	return out
}

// isInline reports whether a list is written on one line: it contains only scalars, of at most 80 bytes.
func isInline(v *node) bool {
	const room = 80
	n := 0
	for i := range v.list {
		if k := v.list[i].kind; k == kindMap || k == kindList {
			return false
		}
		n += len(scalar(&v.list[i])) + len(", ")
	}
	return n <= room
}

func scalars(items []node) []string {
	parts := make([]string, len(items))
	for i := range items {
		parts[i] = scalar(&items[i])
	}
	return parts
}

// scalar renders a scalar, or an empty list or mapping.
func scalar(v *node) string {
	switch v.kind {
	case kindMap:
		return "{}"
	case kindList:
		return "[]"
	case kindBool:
		return strconv.FormatBool(v.number != 0)
	case kindNumber:
		if v.text != "" {
			return v.text
		}
		return strconv.FormatFloat(v.number, 'f', -1, 64)
	case kindString:
		return quoteYAML(v.text)
	default:
		return "null"
	}
}

// quoteYAML returns a string in double quotes, unless every YAML parser reads the plain string as a string. Go's
// escapes are valid in YAML.
func quoteYAML(s string) string {
	if isPlain(s) {
		return s
	}
	return strconv.Quote(strings.ToValidUTF8(s, "\ufffd"))
}

// isPlain reports whether a string needs no quotes. The test is conservative: the string must start with a letter and
// then have only letters, digits, single spaces, and punctuation that has no meaning in YAML.
func isPlain(s string) bool {
	switch strings.ToLower(s) {
	case "", "true", "false", "null", "yes", "no", "on", "off", "y", "n", "inf", "nan":
		return false
	}
	for i := range len(s) {
		c := s[i]
		letter := c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z'
		inner := c >= '0' && c <= '9' || c == '-' || c == '_' || c == '.' || c == '/' || c == '(' || c == ')' || c == ' ' && i > 0 && s[i-1] != ' ' && i < len(s)-1
		if !letter && (i == 0 || !inner) {
			return false
		}
	}
	return true
}
