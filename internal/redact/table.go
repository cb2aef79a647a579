package redact

import "bytes"

// This file finds secrets in tables with a heading: CSV, Markdown, psql output, and SQL INSERT. If a column's heading
// names a kind of secret, the values in that column are secrets. A Kubernetes Secret manifest is read as a table
// without a heading.

type column struct {
	index int // number of fields before the column
	class keyClass
}

// openTable is the table that the scan is in. The scan examines the starts of rows only while a table is open.
type openTable struct {
	rowAnchor        uint64 // 0 means no open table
	isInsert         bool   // each row is in brackets instead of on its own line
	isManifest       bool   // rows are lines in a Kubernetes Secret
	inSecretData     bool
	separator        byte
	separatorsPerRow int
	rowEnd           int // where the last INSERT row ends; brackets before rowEnd are part of a value
	columns          [4]column
	columnCount      int
	hasPassword      bool // a row had a password
}

// maxRowBytes limits how many bytes of a heading, or of a line outside a table, are searched. Rows have no limit.
const maxRowBytes = 512

// markColumn adds a column to the open table if the name text[start:end] is a field in a heading.
func (m *matcher) markColumn(start, end int, class keyClass) {
	s := m.text
	table := &m.openTable
	if table.isManifest || !class.isSecret() || class == headerClass || class == bareKeyClass || table.columnCount == len(table.columns) {
		return
	}
	left := start
	for left > 0 && start-left < maxBlanks && (s[left-1] == ' ' || isQuote(s[left-1])) {
		left--
	}
	right := end
	for right < len(s) && right-end < maxBlanks && (s[right] == ' ' || isQuote(s[right])) {
		right++
	}
	before, after := byte('\n'), byteAt(s, right)
	if left > 0 {
		before = s[left-1]
	}
	if !isFieldEnd(before) || !isFieldEnd(after) || before == '(' && after == ')' {
		return
	}
	if table.rowAnchor == 0 {
		if open := m.insertListStart(start, end); open >= 0 {
			*table = openTable{rowAnchor: m.table.rows, isInsert: true, separator: ',', separatorsPerRow: bytes.Count(s[open:m.listEnd(end)], []byte(","))}
			table.addColumn(bytes.Count(s[open:start], []byte(",")), class)
			return
		}
	} else if table.isInsert {
		if open := m.insertListStart(start, end); open >= 0 {
			table.addColumn(bytes.Count(s[open:start], []byte(",")), class)
		}
		return
	}
	line := start - len(s[max(0, start-maxRowBytes):start]) + bytes.LastIndexByte(s[max(0, start-maxRowBytes):start], '\n') + 1
	stop := lineEnd(s, end)
	if stop == len(s) {
		return
	}
	separator := after
	if bytes.IndexByte([]byte("|,;\t"), separator) < 0 {
		separator = before
	}
	if start > end-1 || bytes.IndexByte([]byte("|,;\t"), separator) < 0 {
		return
	}
	if table.rowAnchor == 0 {
		if s[line] == '|' && line > m.lastEnd && m.followsRow(line) {
			return
		}
		*table = openTable{rowAnchor: m.table.rows, separator: separator, separatorsPerRow: bytes.Count(s[line:stop], []byte{separator})}
	}
	table.addColumn(bytes.Count(s[line:start], []byte{separator}), class)
}

// followsRow reports whether the line at i follows a row in a Markdown table, so that the line at i is not the heading.
func (m *matcher) followsRow(i int) bool {
	above := m.text[max(m.lastEnd, i-maxRowBytes) : i-1]
	above = bytes.TrimSpace(above[bytes.LastIndexByte(above, '\n')+1:])
	return len(above) > 0 && above[0] == '|' && len(bytes.Trim(above, "-+|:= ")) > 0
}

func (t *openTable) addColumn(index int, class keyClass) {
	t.columns[t.columnCount] = column{index, class}
	t.columnCount++
}

func isFieldEnd(c byte) bool {
	switch c {
	case '|', ',', ';', '\t', '\n', '\r', '(', ')', 0:
		return true
	}
	return false
}

// insertListStart returns the position of the bracket before the column list in an INSERT, or -1 if m.text[start:end]
// is not in this list.
func (m *matcher) insertListStart(start, end int) int {
	from := max(m.lastEnd, start-maxRowBytes/2)
	open := bytes.LastIndexByte(m.text[from:start], '(')
	if open < 0 || bytes.IndexByte(m.text[from+open:start], ')') >= 0 {
		return -1
	}
	stop := m.listEnd(end)
	if after := skipSpace(m.text, min(stop+1, len(m.text))); stop == end+maxRowBytes/2 || !startsFold(m.text, after, "values") {
		return -1
	}
	return from + open
}

func (m *matcher) listEnd(end int) int {
	stop := bytes.IndexByte(m.text[end:min(len(m.text), end+maxRowBytes/2)], ')')
	if stop < 0 {
		return min(len(m.text), end+maxRowBytes/2)
	}
	return end + stop
}

func lineEnd(s []byte, i int) int {
	area := s[i:min(len(s), i+maxRowBytes)]
	if n := bytes.IndexByte(area, '\n'); n >= 0 {
		return i + n
	}
	return i + len(area)
}

// rowValue matches the first secret in a row of the open table. The line feed or bracket before the row is at i.
func (m *matcher) rowValue(i int) hit {
	if (m.text[i] == '(') != m.openTable.isInsert {
		return hit{}
	}
	if m.openTable.isInsert {
		return m.insertRow(i)
	}
	start := i + 1
	stop := len(m.text)
	if n := bytes.IndexByte(m.text[start:], '\n'); n >= 0 {
		stop = start + n
	}
	if m.openTable.isManifest {
		return m.manifestRow(start, stop)
	}
	if start >= stop {
		m.openTable = openTable{}
		return hit{}
	}
	line := m.text[start:stop]
	if len(bytes.Trim(line, "-+|:= \t\r")) == 0 { // the line below the heading
		return hit{}
	}
	return m.secretInRow(start, stop)
}

func (m *matcher) openManifest(start, end int) {
	if m.openTable.rowAnchor == 0 && string(m.text[start:end]) == "Secret" && startsWith(m.text, start-len("kind: "), "kind: ") {
		m.openTable = openTable{rowAnchor: m.table.rows, isManifest: true}
	}
}

func (m *matcher) manifestRow(start, stop int) hit {
	const minLen, block = 8, 4
	line := bytes.TrimRight(m.text[start:stop], " \t\r\"'")
	if bytes.HasPrefix(line, []byte("---")) {
		m.openTable = openTable{}
		return hit{}
	}
	if len(line) > 0 && line[0] != ' ' {
		m.openTable.inSecretData = string(line) == "data:"
		return hit{}
	}
	name, value, found := bytes.Cut(line, []byte(": "))
	value = bytes.TrimLeft(value, quotesAndBlanks)
	if !m.openTable.inSecretData || !found || len(value) < minLen || len(value)%block != 0 || classRunEnd(value, 0, base64Byte) < len(value) || len(bytes.TrimLeft(name, " ")) == 0 || startsWith(value, 0, wrappedHeader) {
		return hit{}
	}
	end := start + len(line)
	return hit{end - len(value), end, m.vendorKind(end-len(value), end, secret)}
}

func (m *matcher) insertRow(i int) hit {
	start := i + 1
	if i < m.openTable.rowEnd || m.insertListStart(start, start) >= 0 { // a bracket in a value, or the column list
		return hit{}
	}
	quote, stop := false, start
	for ; stop < len(m.text); stop++ {
		if c := m.text[stop]; c == '\'' && !m.isEscapedQuote(stop) {
			quote = !quote
		} else if c == ')' && !quote {
			break
		}
	}
	m.openTable.rowEnd = stop
	return m.secretInRow(start, stop)
}

// isEscapedQuote reports whether a backslash escapes the quote at i, as in 'it\'s'. In standard SQL, a value can also
// end with a backslash, as in 'C:\', so isEscapedQuote also checks the next character.
func (m *matcher) isEscapedQuote(i int) bool {
	next := skipSpace(m.text[:min(len(m.text), i+1+maxBlanks)], i+1)
	return m.text[i-1] == '\\' && next < len(m.text) && m.text[next] != ',' && m.text[next] != ')'
}

// secretInRow returns the first secret in the secret columns of the row m.text[start:stop]. If the number of fields
// differs from the heading's, the table has ended, unless the text ends inside an INSERT row.
func (m *matcher) secretInRow(start, stop int) hit {
	table := m.openTable
	var found hit
	field, from, quote := 0, start, byte(0)
	for p := start; p <= stop; p++ {
		c := byteAt(m.text, p)
		switch {
		case p == stop || c == table.separator && quote == 0:
			for _, column := range table.columns[:table.columnCount] {
				if column.index == field && found.kind == noKind {
					found = m.fieldValue(from, p, column.class)
				}
			}
			field++
			from = p + 1
		case quote != 0 && c == quote && !(table.isInsert && m.isEscapedQuote(p)):
			quote = 0
		case quote == 0 && isQuote(c) && (p == from || m.text[p-1] == ' '):
			quote = c
		}
	}
	if field-1 != table.separatorsPerRow && !(table.isInsert && stop == len(m.text) && field-1 < table.separatorsPerRow) {
		m.openTable = openTable{}
		return hit{}
	}
	return found
}

func (m *matcher) fieldValue(from, to int, class keyClass) hit {
	for from < to && (m.text[from] <= ' ' || isQuote(m.text[from])) {
		from++
	}
	for to > from && (m.text[to-1] <= ' ' || isQuote(m.text[to-1])) {
		to--
	}
	v := m.text[from:to]
	if class == passwordClass && (bytes.IndexByte(v, ' ') >= 0 && !isPassphrase(v, false) || !isSetting(v, true, true) || isConstant(v)) && !(m.openTable.hasPassword && m.openTable.separator == '|' && isCapitalsPassword(v)) {
		return hit{}
	}
	h := m.checkValue(from, to, class, valueContext{quoted: true, hasQuotedName: true})
	m.openTable.hasPassword = m.openTable.hasPassword || class == passwordClass && h.kind != noKind
	return h
}

// isCapitalsPassword reports whether v, below a password in a table, is a password in capitals and not a remark.
func isCapitalsPassword(v []byte) bool {
	const minLen = 6
	if len(v) < minLen || bytes.ContainsFunc(v, func(r rune) bool { return r < 'A' || r > 'Z' }) {
		return false
	}
	return !isDummy(v) && !isAnyOf(v, "unknown", "disabled", "enabled", "expired", "rotated", "changed", "unchanged", "missing", "pending", "default", "removed", "deleted", "locked", "revoked", "blocked", "inherited", "external", "prompt", "random", "generated", "rotate", "change", "expires")
}

// isConstant reports whether v is a constant's name, such as API_KEY_TTL.
func isConstant(v []byte) bool {
	return bytes.IndexByte(v, '_') > 0 && !bytes.ContainsFunc(v, func(r rune) bool { return r != '_' && (r < 'A' || r > 'Z') })
}
