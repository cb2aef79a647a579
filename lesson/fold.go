package lesson

import (
	"sync"
	"unicode"
)

// A text is matched as a string of classes: every rune that stands in a phrase has a class of its own, shared by its case
// variants; all others fall into a few.
type class = uint16

const (
	classBreak    class = iota // a skipped blob: nothing matches across it, and it bounds words
	classOther                 // neither letter nor digit
	classWord                  // letter, digit, mark or underscore
	classIsolated              // a letter of a script that writes no spaces: a word by itself
	classSpace                 // any run of white space
	classDrop                  // invisible: does not stand in the folded text
	classFirst                 // the first of a phrase
)

// fold maps a rune to the representative of its simple case folding orbit (ß and ẞ, σ ς Σ, k and the Kelvin sign). The
// Turkish dotted and dotless i have no simple folding; they go to i, so that a word typed on a Turkish keyboard and its
// upper-casing by any program still meet.
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

// invisible says whether a rune is drawn as nothing at all, so that a word with it looks like the word without it.
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

// basePages classifies every rune of the basic plane once; asking the Unicode tables for each rune of a text costs 50 ns.
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

// alphabet gives the runes of a set of phrases their classes. It is immutable once built.
type alphabet struct {
	pages  pages
	astral map[rune]class // phrase runes beyond the basic plane
	kinds  []class        // by class: classWord, classIsolated, classOther, classSpace or classBreak
	ascii  [128]class     // pages[0], for the fast path; bit asciiBlob marks the base64 characters
}

const asciiBlob class = 1 << 15

func newAlphabet() *alphabet {
	a := &alphabet{pages: *basePages(), astral: map[rune]class{}}
	for c := range classFirst {
		a.kinds = append(a.kinds, c)
	}
	return a
}

// add gives a rune of a phrase and its case variants a class. Runes beyond the room for classes share those of the
// unknown ones, which no phrase can then tell apart: 30,000 different characters in one book are not a book of lessons.
func (a *alphabet) add(r rune) {
	base := baseClass(r)
	if a.class(r) >= classFirst || base == classSpace || base == classDrop || len(a.kinds) >= int(asciiBlob) {
		return
	}
	c := class(len(a.kinds)) //nolint:gosec // bounded above
	a.kinds = append(a.kinds, base)
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

func (a *alphabet) class(r rune) class {
	if r <= 0xFFFF {
		return a.pages[r>>8][r&0xFF]
	}
	if c, ok := a.astral[r]; ok {
		return c
	}
	return baseClass(r)
}

// seal builds the fast table once all runes are in.
func (a *alphabet) seal() {
	for i := range a.ascii {
		c := a.class(rune(i)) //nolint:gosec // an ASCII code
		if isBlobByte(byte(i)) {
			c |= asciiBlob
		}
		a.ascii[i] = c
	}
}

func (a *alphabet) word(c class) bool {
	k := a.kinds[c]
	return k == classWord || k == classIsolated
}

// joins says whether a character of class c makes one word with a letter beside it.
func (a *alphabet) joins(c class) bool { return a.kinds[c] == classWord }
