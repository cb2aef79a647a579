package lesson

import (
	"cmp"
	"strings"
	"sync"
	"unicode"
	"unicode/utf8"

	"golang.org/x/text/unicode/norm"
)

// hasDelimiter says whether a text holds one of the delimiters of inserted blocks, in whatever
// disguise.
func hasDelimiter(s string) bool {
	k := skeleton(s)
	for _, d := range delimiters() {
		if strings.Contains(k, d) {
			return true
		}
	}
	return false
}

// delimiters are the skeletons of the lines that open and close blocks. Those in brackets keep the
// bracket, for without it they are words that anyone may write.
//
//nolint:gochecknoglobals // immutable, made at first use
var delimiters = sync.OnceValue(func() []string {
	plain := []string{
		"End of lessons", "Lessons from past experience", "Advice from earlier runs", "Cautions (these approaches",
		"[KNOWN PITFALLS", "[END KNOWN PITFALLS", "[LOOP DETECTED", "[END LOOP DETECTED", "[END LESSON", "[/lesson",
	}
	for i, p := range plain {
		plain[i] = skeleton(p)
	}
	return plain
})

// skeleton reduces a text to the letters that it looks like: compatibility forms, accents, case,
// look-alikes of other scripts and digits in place of letters are folded; everything that is no
// letter goes, except an opening bracket and the slash behind it. It is for comparing with other
// skeletons only.
func skeleton(s string) string {
	b := make([]byte, 0, len(s))
	for _, r := range norm.NFKD.String(s) {
		switch r = lookalike(fold(r)); {
		case r == '[', r == '/' && len(b) > 0 && b[len(b)-1] == '[', unicode.IsLetter(r):
			b = utf8.AppendRune(b, r)
		}
	}
	return string(b)
}

// lookalikes are the letters of our delimiters, each followed by the folded runes that are drawn
// like it; i and l, which no font keeps apart for certain, are one.
//
//nolint:gochecknoglobals // immutable, made at first use
var lookalikes = sync.OnceValue(func() map[rune]rune {
	return drawnLike(
		"aаɑα∂@4ᴀꭺ", "cсϲᴄ¢ƈꮯ", "dԁɗɖᴅđժꭰ", "eеεєҽɛ℮3ᴇəē€ꭼ", "fƒϝғꜰքẝ", "gɢցɡ", "hнһʜհɦ",
		"liӏіιɩ|!1ɪⅼʟłǀ∣ꮮ", "kкκᴋĸ", "mмᴍʍ", "nпոɴռηɳñṉи", "oоοօ0ᴏøσہ○◯", "pрρᴘƥ", "rгʀяɾɼᴦꭱ",
		"sѕꜱʂ5$§ƽꮪ", "tтτᴛ7+†ꭲ", "uυսᴜ", "vѵνᴠ", "xхχ×", "yуүγʏ", "[【〔⟦〚❲⁅",
	)
})

// drawnLike maps the runes of each row to the first one.
func drawnLike(rows ...string) map[rune]rune {
	all := map[rune]rune{}
	for _, row := range rows {
		runes := []rune(row)
		for _, r := range runes[1:] {
			all[r] = runes[0]
		}
	}
	return all
}

// lookalike maps a folded rune to the Latin letter that it is drawn like.
func lookalike(r rune) rune { return cmp.Or(lookalikes()[r], r) }
