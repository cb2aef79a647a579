package sample

// Anchors, one bit each. An anchor byte is worth a look only between the right neighbours: most dashes, digits and
// colons of ordinary text fall at this test, which costs three look-ups and no branch for each.
const (
	anchorVendorDash uint32 = 1 << iota
	anchorDashes
	anchorUnderscore
	anchorA
	anchorS
	anchorJWT
	anchorScheme
	anchorURL
	anchorColon
	anchorEqual
	anchorPlaceholder
	anchorTilde
	anchorAt
	anchorPercent
	anchorIPv6
	anchorPlus
	anchorParen
	anchorNumber
	anchorIBAN

	personalAnchors = anchorAt | anchorPercent | anchorIPv6 | anchorPlus | anchorParen | anchorNumber | anchorIBAN
)

// anchorTable says for each byte which anchors it is, and next to which it may stand. The byte 0 stands for the text's ends.
type anchorTable struct{ self, prev, next [256]uint32 }

//nolint:gochecknoglobals // written once here, read only
var anchors = func() (t anchorTable) {
	rule := func(bit uint32, self string, prev, next func(b byte) bool) {
		for i := range len(self) {
			t.self[self[i]] |= bit
		}
		for i := range 256 {
			if prev(byte(i)) {
				t.prev[i] |= bit
			}
			if next(byte(i)) {
				t.next[i] |= bit
			}
		}
	}
	in := func(list string) func(byte) bool {
		var set [256]bool
		for i := range len(list) {
			set[list[i]] = true
		}
		return func(b byte) bool { return set[b] }
	}
	anything := func(byte) bool { return true }
	edge := func(b byte) bool { return !isAlnum(b) }
	local := func(b byte) bool { return classOf[b]&localByte != 0 }
	token := func(b byte) bool { return classOf[b]&(tokenByte|base64Byte) != 0 }
	named := func(b byte) bool {
		return telling(b) || isQuote(b) || b == ' ' || b == ':' || b == '=' || b == '!' || b == ']'
	}

	rule(anchorVendorDash, "-", in("ktiXpabeorsx"), token)
	rule(anchorDashes, "-", func(b byte) bool { return edge(b) && b != '-' }, in("-"))
	rule(anchorUnderscore, "_", in("pousrtecmfk"), isAlnum)
	rule(anchorA, "A", edge, in("KSIC"))
	rule(anchorS, "S", edge, in("GK"))
	rule(anchorJWT, "J", in("y"), token)
	rule(anchorScheme, "Bb", edge, in("eEaA"))
	rule(anchorURL, ":", isAlnum, in("/"))
	rule(anchorColon, ":", named, func(b byte) bool { return b != ':' && b != '=' && b != '/' })
	rule(anchorEqual, "=", named, func(b byte) bool { return b != '=' })
	rule(anchorPlaceholder, "[", anything, in(placeholderStart[1:2]))
	rule(anchorTilde, "~", in("Q"), token)
	rule(anchorAt, "@", local, func(b byte) bool { return isAlnum(b) || b >= 0x80 })
	rule(anchorPercent, "%", local, in("4"))
	rule(anchorIPv6, ":", func(b byte) bool { return edge(b) || classOf[b]&hexByte != 0 }, func(b byte) bool { return b == ':' || classOf[b]&hexByte != 0 })
	rule(anchorPlus, "+", edge, in("123456789"))
	rule(anchorParen, "(", edge, isDigit)
	rule(anchorNumber, digitBytes, edge, in(digitBytes+".- "))
	rule(anchorIBAN, digitBytes, isUpper, isDigit)
	return t
}()

const digitBytes = "0123456789"
