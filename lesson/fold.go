package lesson

import (
	"sync"
	"unicode"
)

// A text is matched as a string of classes: every rune that stands in a phrase has a class of its
// own, shared by its case variants; all others fall into a few. A letter has two, one for the
// beginning of a word and one for the rest: so a phrase that must begin at a word boundary is not
// even started inside a word, which is where a scan spends most of its time.
type class = uint16

const (
	classBreak     class = iota // a skipped blob: nothing matches across it, and it bounds words
	classOther                  // neither letter nor digit
	classWord                   // letter, digit, mark or underscore, after another
	classWordStart              // the same at the beginning of a word; always the class behind that of the inside
	classIsolated               // a letter of a script that writes no spaces: a word by itself
	classSpace                  // any run of white space
	classDrop                   // invisible: does not stand in the folded text
	classFirst                  // the first of a phrase
)

// fold maps a rune to the representative of its simple case folding orbit (ß and ẞ, σ ς Σ, k and
// the Kelvin sign). The Turkish dotted and dotless i have no simple folding; they go to i, so that
// a word typed on a Turkish keyboard and its upper-casing by any program still meet.
func fold(r rune) rune {
	if r < unicode.MaxASCII {
		if r >= 'A' && r <= 'Z' {
			r += 'a' - 'A'
		}
		return r
	}
	if r == 'İ' || r == 'ı' {
		return 'i'
	}
	least := r
	for o := unicode.SimpleFold(r); o != r; o = unicode.SimpleFold(o) {
		least = min(least, o)
	}
	return unicode.ToLower(least)
}

// baseClass classifies a rune that stands in no phrase.
func baseClass(r rune) class {
	switch {
	case unicode.IsSpace(r):
		return classSpace
	case invisible(r):
		return classDrop
	case r == '_' || unicode.IsDigit(r):
		return classWord
	case unicode.In(r, unicode.Han, unicode.Hiragana, unicode.Katakana, unicode.Thai, unicode.Lao, unicode.Khmer, unicode.Myanmar):
		return classIsolated
	case unicode.IsLetter(r) || unicode.IsNumber(r) || unicode.IsMark(r):
		return classWord
	default:
		return classOther
	}
}

// invisible says whether a rune is drawn as nothing at all, so that a word with it looks like the
// word without it.
func invisible(r rune) bool {
	switch {
	case r == 0x00AD, r == 0x034F, r == 0x061C, r == 0x115F, r == 0x1160, r == 0x17B4, r == 0x17B5, r == 0x3164, r == 0xFEFF, r == 0xFFA0:
		return true
	case r >= 0x180B && r <= 0x180F, r >= 0x200B && r <= 0x200F, r >= 0x202A && r <= 0x202E, r >= 0x2060 && r <= 0x206F:
		return true
	case r >= 0xFE00 && r <= 0xFE0F, r >= 0xE0000 && r <= 0xE0FFF, r >= 0xFFF9 && r <= 0xFFFB, r >= 0x1D173 && r <= 0x1D17A:
		return true
	default:
		return false
	}
}

type page [256]class

// pages maps the runes of the basic plane to classes, 256 at a time.
type pages [256]*page

// basePages classifies every rune of the basic plane once; asking the Unicode tables for each rune
// of a text costs 50 ns.
//
//nolint:gochecknoglobals // an immutable table, made at first use
var basePages = sync.OnceValue(func() *pages {
	var ps pages
	for hi := range ps {
		ps[hi] = new(page)
		for lo := range ps[hi] {
			ps[hi][lo] = baseClass(rune(hi<<8 | lo)) //nolint:gosec // at most 0xFFFF
		}
	}
	return &ps
})

// alphabet gives the runes of a set of phrases their classes. It is immutable once sealed.
type alphabet struct {
	pages  pages
	astral map[rune]class // phrase runes beyond the basic plane
	kinds  []class        // by class: the class that it would have if it stood in no phrase
	base   []class        // by class: the same character inside a word
	ascii  [128]class     // for the fast path, with the bits below
}

// The bits beside a class in the fast table.
const (
	bitBlob    class = 1 << 15 // a base64 character
	shiftJoins       = 14      // the bit that says: makes one word with a letter behind it
	bitJoins   class = 1 << shiftJoins
	maxClass         = int(bitJoins) - 2
)

func newAlphabet() *alphabet {
	a := &alphabet{pages: *basePages(), astral: map[rune]class{}}
	for c := range classFirst {
		a.kinds, a.base = append(a.kinds, c), append(a.base, c)
	}
	a.kinds[classWordStart], a.base[classWordStart] = classWord, classWord
	return a
}

// add gives a rune of a phrase and its case variants their classes. Runes beyond the room for
// classes share those of the unknown ones, which no phrase can then tell apart: 16,000 different
// characters in one book are not a book of lessons.
func (a *alphabet) add(r rune) {
	kind := baseClass(r)
	if a.class(r) >= classFirst || kind == classSpace || kind == classDrop || len(a.kinds) >= maxClass {
		return
	}
	c := class(len(a.kinds)) //nolint:gosec // bounded above
	a.kinds, a.base = append(a.kinds, kind), append(a.base, c)
	if kind == classWord {
		a.kinds, a.base = append(a.kinds, kind), append(a.base, c)
	}
	a.set(r, c)
	for o := unicode.SimpleFold(r); o != r; o = unicode.SimpleFold(o) {
		a.set(o, c)
	}
	if r == 'i' {
		a.set('İ', c)
		a.set('ı', c)
	}
}

func (a *alphabet) set(r rune, c class) {
	if r > 0xFFFF {
		a.astral[r] = c
		return
	}
	hi, lo := r>>8, r&0xFF
	if a.pages[hi] == basePages()[hi] {
		own := *a.pages[hi]
		a.pages[hi] = &own
	}
	a.pages[hi][lo] = c
}

// class is that of a rune inside a word.
func (a *alphabet) class(r rune) class {
	if r <= 0xFFFF {
		return a.pages[r>>8][r&0xFF]
	}
	if c, ok := a.astral[r]; ok {
		return c
	}
	return baseClass(r)
}

// seal builds the fast tables once all runes are in.
func (a *alphabet) seal() {
	for i := range a.ascii {
		c := a.class(rune(i)) //nolint:gosec // an ASCII code
		if a.joins(c) {
			c |= bitJoins
		}
		if isBlobByte(byte(i)) {
			c |= bitBlob
		}
		a.ascii[i] = c
	}
}

// word says whether a * may stand for a character of class c.
func (a *alphabet) word(c class) bool {
	k := a.kinds[c]
	return k == classWord || k == classIsolated
}

// joins says whether a character of class c makes one word with a letter beside it.
func (a *alphabet) joins(c class) bool { return a.kinds[c] == classWord }

// start is the class of a character at the beginning of a word, of the one inside it.
func (a *alphabet) start(c class) class {
	if a.joins(c) {
		return a.base[c] + 1
	}
	return c
}

// boundary says whether a word may end or start at position i.
func (a *alphabet) boundary(text []class, i int) bool {
	return i <= 0 || i >= len(text) || !a.joins(text[i]) || text[i] != a.base[text[i]]
}

// prefix says whether the piece stands at the beginning of text, wherever words begin.
func (a *alphabet) prefix(text, piece []class) bool {
	if len(text) < len(piece) {
		return false
	}
	for i, c := range piece {
		if a.base[text[i]] != c {
			return false
		}
	}
	return true
}
