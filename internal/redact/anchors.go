package redact

import "slices"

// anchor is a byte that each value of a kind contains or follows, such as the @ in an address. check runs only if prev
// and next accept the bytes before and after the anchor (0 at either end of the text). This test costs three look-ups
// per byte, without a branch, and excludes most dashes, digits and colons in ordinary text.
type anchor struct {
	name           string // kinds share an anchor if both rows give the same name
	bytes          string
	prev, next     func(b byte) bool
	check          func(m *matcher, i int) hit
	findsVendorKey bool // check finds a vendor's key, with no name before it
}

// prefix describes a vendor's keys, which all begin with the same text. The scan's anchor is the last two bytes of this
// text. These two bytes should therefore be rare in other text.
type prefix struct {
	text       string
	bodyStart  string // must follow text; counts towards minBytes
	class      uint16 // byteClass of the bytes after text
	minBytes   int
	needsDigit bool
	isUUID     bool
	kind       kind // set by compile
}

// anchorTable holds all anchors. Each anchor is one bit in three tables (atAnchor, prev, next), which are indexed by
// the byte at the anchor, the byte before and the byte after.
type anchorTable struct {
	atAnchor, prev, next [256]uint64
	checks               [64]func(m *matcher, i int) hit
	prefixes             [][]prefix  // prefixes grouped by tail, the longest first
	tails                [4096]uint8 // index in prefixes by hashTail, 0 if none
	personalAnchors      uint64
	vendorAnchors        uint64
	prefixAnchors        uint64
	rows                 uint64 // anchor for table rows, used only while a table is open (openTable.rowAnchor)
}

//nolint:gochecknoglobals // written once here, read only
var standardTable = compile(kindTable())

// compile returns the table for the kinds. If two anchors match at one byte, the earlier kind's anchor is checked
// first.
func compile(kinds [kindCount]kindRow) *anchorTable {
	t := &anchorTable{prefixes: make([][]prefix, 1)}
	bit := map[string]uint64{}
	add := func(a anchor, personal bool) {
		b, known := bit[a.name]
		if !known {
			t.checks[len(bit)] = a.check
			b = 1 << len(bit)
			bit[a.name] = b
		}
		if personal {
			t.personalAnchors |= b
		}
		if a.findsVendorKey {
			t.vendorAnchors |= b
		}
		for i := range len(a.bytes) {
			t.atAnchor[a.bytes[i]] |= b
		}
		for i := range 256 {
			if a.prev(byte(i)) {
				t.prev[i] |= b
			}
			if a.next(byte(i)) {
				t.next[i] |= b
			}
		}
	}
	add(anchor{name: "a placeholder", bytes: Placeholder[:1], prev: anyByte, next: anyOf(Placeholder[1:2]), check: (*matcher).skipPlaceholder}, false)
	add(anchor{name: "row", bytes: "\n(", prev: anyByte, next: anyByte, check: (*matcher).rowValue}, false)
	t.rows = bit["row"]
	add(anchor{name: "foldable character", bytes: "%&\xc2\xe2\xe3\xef", prev: anyByte, next: anyOf("234567\x80\xa0\xbc\xbdqalg#"), check: (*matcher).noteFoldable}, false)
	for k, row := range kinds {
		for _, a := range row.anchors {
			add(a, row.personal)
		}
		for _, p := range row.prefixes {
			before, last := p.text[len(p.text)-2], p.text[len(p.text)-1]
			next := isKeyByte
			if last == '_' {
				next = isAlnum
			}
			name := "a prefix up to " + lastByteName(last)
			add(anchor{name: name, bytes: string(last), prev: anyOf(string(before)), next: next, check: (*matcher).prefixedKey, findsVendorKey: true}, false)
			t.prefixAnchors |= bit[name]
			p.kind = kind(k)
			hash := hashTail([]byte(p.text), len(p.text)-1)
			if t.tails[hash] == 0 {
				t.tails[hash] = uint8(len(t.prefixes)) //nolint:gosec // about 150 prefixes
				t.prefixes = append(t.prefixes, nil)
			}
			list := append(t.prefixes[t.tails[hash]], p)
			slices.SortStableFunc(list, func(a, b prefix) int { return len(b.text) - len(a.text) })
			t.prefixes[t.tails[hash]] = list
		}
	}
	return t
}

// lastByteName returns the anchor name for a prefix's last byte. Rare bytes share an anchor, because the tables have
// only 64 bits.
func lastByteName(last byte) string {
	switch {
	case isUpper(last) || isDigit(last):
		return "a capital or digit"
	case last == '$' || last == ':' || last == '~':
		return "a symbol"
	}
	return string(last)
}

func hashTail(s []byte, i int) uint32 {
	const mix = 2654435761 // Knuth's multiplicative hash
	return (uint32(s[i]) | uint32(s[i-1])<<8 | uint32(s[i-2])<<16) * mix >> 20
}

func anyByte(byte) bool { return true }

func isWordBoundary(b byte) bool { return !isAlnum(b) }

func isKeyByte(b byte) bool { return byteClass[b]&(tokenByte|base64Byte) != 0 }

func anyOf(list string) func(byte) bool {
	var set [256]bool
	for i := range len(list) {
		set[list[i]] = true
	}
	return func(b byte) bool { return set[b] }
}
