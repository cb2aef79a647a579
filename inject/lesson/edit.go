package lesson

import (
	"fmt"
	"slices"
	"strings"
)

// applyField sets one field in a file's head (the text up to the second ---), or removes it if f.val is nil. No other
// line changes. Each call parses the YAML again, because an earlier call can have moved lines.
func applyField(head string, f field) (string, error) {
	eol := "\n"
	if strings.Contains(head, "\r\n") {
		eol = "\r\n"
	}
	front, _, ok := splitFrontmatter(head)
	if !ok {
		return "", fmt.Errorf("edit %s: the file has no frontmatter", strings.Join(f.path, "."))
	}
	root, faults := readYAML(strings.ReplaceAll(front, "\r\n", "\n"))
	if len(faults) > 0 {
		return "", fmt.Errorf("edit %s: %w", strings.Join(f.path, "."), faults)
	}
	lines := strings.Split(strings.TrimSuffix(strings.ReplaceAll(front, "\r\n", "\n"), "\n"), "\n")
	ed := &editor{lines: lines}
	if !ed.isLineEditable(&root) {
		return "", fmt.Errorf("edit %s: the frontmatter cannot be edited line by line; write each key on a separate line", strings.Join(f.path, "."))
	}
	switch {
	case root.isFlow && f.val == nil:
		removePath(&root, f.path)
		ed.lines = renderMap(&root, 0)
	case root.isFlow:
		setPath(&root, f.path, *f.val)
		ed.lines = renderMap(&root, 0)
	case f.val == nil:
		ed.remove(&root, f.path, len(lines)+1)
	default:
		ed.set(&root, f.path, f.val, len(lines)+1)
	}
	frontStart := strings.Index(head, front)
	return head[:frontStart] + strings.Join(ed.lines, eol) + eol + head[frontStart+len(front):], nil
}

// editor edits the frontmatter of a file. Line numbers start at 1, as in node.line. In the methods, stop is the first
// line after the mapping m.
type editor struct{ lines []string }

// isLineEditable reports whether each key in a block mapping starts a separate line, so that editor can replace whole
// lines.
func (ed *editor) isLineEditable(m *node) bool {
	if m.kind != kindMap || m.isFlow {
		return true
	}
	last := 0
	for i := range m.keys {
		p := &m.keys[i]
		if p.line <= last || p.line > len(ed.lines) {
			return false
		}
		last = p.line
		text := strings.TrimLeft(ed.lines[p.line-1], " ")
		if !strings.HasPrefix(text, p.key) && !strings.HasPrefix(text, `"`) && !strings.HasPrefix(text, "'") {
			return false
		}
		if !ed.isLineEditable(&p.val) {
			return false
		}
	}
	return true
}

// pairEnd returns the line after the last line of pair i in m. Blank lines and comments before the next key do not
// belong to the pair.
func (ed *editor) pairEnd(m *node, i, stop int) int {
	if i+1 < len(m.keys) {
		stop = m.keys[i+1].line
	}
	indent := ed.indent(m.keys[i].line)
	for stop-1 > m.keys[i].line {
		line := ed.lines[stop-2]
		t := strings.TrimLeft(line, " ")
		if t != "" && (t[0] != '#' || len(line)-len(t) > indent) {
			break
		}
		stop--
	}
	return stop
}

func (ed *editor) indent(line int) int {
	s := ed.lines[line-1]
	return len(s) - len(strings.TrimLeft(s, " "))
}

// replace replaces the lines in [start, end).
func (ed *editor) replace(start, end int, lines []string) {
	ed.lines = slices.Replace(ed.lines, start-1, end-1, lines...)
}

// set writes v as the field at path below m.
func (ed *editor) set(m *node, path []string, v *node, stop int) {
	i := indexKey(m, path[0])
	if i < 0 {
		last := len(m.keys) - 1
		at := ed.pairEnd(m, last, stop)
		added := node{kind: kindMap}
		setPath(&added, path, *v)
		ed.replace(at, at, renderMap(&added, ed.indent(m.keys[0].line)))
		return
	}
	p := &m.keys[i]
	end := ed.pairEnd(m, i, stop)
	indent := ed.indent(p.line)
	switch {
	case len(path) > 1 && isBlock(&p.val, p.line):
		ed.set(&p.val, path[1:], v, end)
	case len(path) > 1:
		child := p.val
		if child.kind != kindMap {
			child = node{kind: kindMap}
		}
		setPath(&child, path[1:], *v)
		ed.replace(p.line, end, renderPair(p.key, &child, indent))
	case ed.onlyAppends(&p.val, v, p.line):
		ed.replace(end, end, renderItems(v.list[len(p.val.list):], ed.indent(p.val.list[0].line)))
	default:
		lines := renderPair(p.key, v, indent)
		if end == p.line+1 {
			lines[len(lines)-1] += trailingComment(ed.lines[p.line-1])
		}
		ed.replace(p.line, end, lines)
	}
}

// onlyAppends reports whether v only adds items to old. old is a list in block style below the key on line keyLine.
func (ed *editor) onlyAppends(old, v *node, keyLine int) bool {
	if old.kind != kindList || v.kind != kindList || old.isFlow || len(old.list) == 0 || len(v.list) <= len(old.list) {
		return false
	}
	head := *v
	head.list = v.list[:len(old.list)]
	first := old.list[0].line
	return first > keyLine && strings.HasPrefix(strings.TrimLeft(ed.lines[first-1], " "), "- ") && equalNode(old, &head)
}

// remove deletes the lines with the field at path below m, and mappings that become empty.
func (ed *editor) remove(m *node, path []string, stop int) {
	i := indexKey(m, path[0])
	if i < 0 {
		return
	}
	p := &m.keys[i]
	end := ed.pairEnd(m, i, stop)
	switch {
	case len(path) == 1 || isOnlyPath(&p.val, path[1:]):
		ed.replace(p.line, end, nil)
	case isBlock(&p.val, p.line):
		ed.remove(&p.val, path[1:], end)
	default:
		child := p.val
		removePath(&child, path[1:])
		ed.replace(p.line, end, renderPair(p.key, &child, ed.indent(p.line)))
	}
}

func isOnlyPath(m *node, path []string) bool {
	if m.kind != kindMap || len(m.keys) != 1 || m.keys[0].key != path[0] {
		return false
	}
	return len(path) == 1 || isOnlyPath(&m.keys[0].val, path[1:])
}

// removePath deletes the field at path below m, and mappings that become empty.
func removePath(m *node, path []string) {
	i := indexKey(m, path[0])
	switch {
	case i < 0:
	case len(path) == 1 || isOnlyPath(&m.keys[i].val, path[1:]):
		m.keys = slices.Delete(slices.Clone(m.keys), i, i+1)
	default:
		removePath(&m.keys[i].val, path[1:])
	}
}

// setPath sets the field at path below m, and adds missing mappings.
func setPath(m *node, path []string, v node) {
	if m.kind != kindMap {
		*m = node{kind: kindMap}
	}
	i := indexKey(m, path[0])
	if i < 0 {
		i = len(m.keys)
		m.keys = append(m.keys[:i:i], pair{key: path[0]})
	}
	if len(path) == 1 {
		m.keys[i].val = v
		return
	}
	setPath(&m.keys[i].val, path[1:], v)
}

// isBlock reports whether v is a block mapping that begins below its key's line.
func isBlock(v *node, keyLine int) bool {
	return v.kind == kindMap && !v.isFlow && len(v.keys) > 0 && v.keys[0].line > keyLine
}

// trailingComment returns a line's comment with the spaces before it. It returns "" if the line has a quoted value or a
// block scalar, because these can contain a #.
func trailingComment(line string) string {
	if strings.ContainsAny(line, `"'|>`) {
		return ""
	}
	if value, _, ok := strings.Cut(line, " #"); ok {
		return line[len(strings.TrimRight(value, " ")):]
	}
	return ""
}
