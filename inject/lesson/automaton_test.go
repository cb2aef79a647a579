package lesson

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

type scanMatch struct {
	id  int32
	end int
}

func scanAll(m *automaton, text []byte) []scanMatch {
	var out []scanMatch
	m.scan(text, func(id int32, end int) bool { out = append(out, scanMatch{id, end}); return true })
	slices.SortFunc(out, func(x, y scanMatch) int { return cmp.Or(x.end-y.end, int(x.id-y.id)) })
	return out
}

func TestAutomatonFindsEveryOccurrence(t *testing.T) {
	gen := rapid.SliceOfN(rapid.ByteRange(1, 3), 1, 5)
	rapid.Check(t, func(rt *rapid.T) {
		var words []word
		for i, text := range rapid.SliceOfN(gen, 1, 15).Draw(rt, "words") {
			words = append(words, word{text: text, id: int32(i)})
		}
		text := rapid.SliceOfN(rapid.ByteRange(0, 3), 0, 60).Draw(rt, "text")
		var want []scanMatch
		for end := range len(text) + 1 {
			for _, w := range words {
				if end >= len(w.text) && slices.Equal(text[end-len(w.text):end], w.text) {
					want = append(want, scanMatch{w.id, end})
				}
			}
		}
		slices.SortFunc(want, func(x, y scanMatch) int { return cmp.Or(x.end-y.end, int(x.id-y.id)) })
		for _, rows := range []int{maxRows, 3, 0} { // the number of tables changes only the speed
			if got := scanAll(newAutomaton(slices.Clone(words), rows), text); !slices.Equal(got, want) {
				rt.Fatalf("%d tables, words %v, text %v:\ngot matches %v\nwant            %v", rows, words, text, got, want)
			}
		}
	})
}

func TestAutomatonMemoryIsBounded(t *testing.T) {
	var lessons []*Lesson
	for i := range 10_000 {
		lessons = append(lessons, lessonWithKeywords(fmt.Sprintf("l%05d", i), fmt.Sprintf("phrase %x of the %x kind", i*7919%10_007, i)))
	}
	b := NewBook(lessons)
	const stateBytes = 16
	if size := len(b.automaton().states)*stateBytes + 1024*len(b.automaton().rows); size > 8<<20 {
		t.Errorf("automaton has %d bytes for %d states, want at most %d bytes", size, len(b.automaton().states), 8<<20)
	}
	for _, i := range []int{0, 1, 4999, 9999} {
		text := fmt.Sprintf("a Phrase %x\nof the %x kind.", i*7919%10_007, i)
		if got := matchedSlugs(b, &Query{Words: []string{text}}); !slices.Equal(got, []string{fmt.Sprintf("l%05d@", i)}) {
			t.Errorf("%q matches %q, want only l%05d@", text, got, i)
		}
	}
}

func TestStarMatchesAtMostMaxRunCharacters(t *testing.T) {
	long := strings.Repeat("a_", 100_000) // because of the underscores, the text is not classified as encoded data
	b := NewBook([]*Lesson{lessonWithKeywords("stars", "a*a*a*a*z"), lessonWithKeywords("reach", "start*end")})
	if got := matchedSlugs(b, &Query{Words: []string{long}}); len(got) != 0 {
		t.Errorf("a word with %d characters and no z matches %q, want none", len(long), got)
	}
	for n, want := range map[int]int{maxRun / 2: 1, maxRun: 0} {
		text := "start" + strings.Repeat("_x", n) + "end"
		if got := matchedSlugs(b, &Query{Words: []string{text}}); len(got) != want {
			t.Errorf("a star that must span %d characters: got matches %q, want %d matches", 2*n, got, want)
		}
	}
}

func TestGlobMatchesStarsAndCharacters(t *testing.T) {
	for _, tc := range []struct {
		pattern, name string
		want          bool
	}{
		{"", "", true},
		{"", "a", false},
		{"*", "", true},
		{"*", "anything at all", true},
		{"coder*", "Coder-2", true},
		{"*-2", "coder-2", true},
		{"c?der", "coder", true},
		{"c?der", "cder", false},
		{"a*b*c", "aXbXbc", true},
		{"a*b*c", "aXbX", false},
		{"**a**", "bab", true},
		{"gpt-5.?", "gpt-5.1", true},
		{"gpt-5.?", "gpt-5x1", false},
		{"[ab]", "a", false},
		{"[ab]", "[AB]", true},
		{"Ü*", "über", true},
		{strings.Repeat("*a", 50), strings.Repeat("a", 5000) + "b", false},
	} {
		if got := matchesGlob(tc.pattern, tc.name); got != tc.want {
			t.Errorf("matchesGlob(%.20q, %.20q) = %v, want %v", tc.pattern, tc.name, got, tc.want)
		}
	}
}

func TestFoldMapsAllCasesToOneForm(t *testing.T) {
	for _, group := range []string{"kK\u212a", "sSſ", "ßẞ", "σςΣ", "åÅ\u212b", "iIİı", "µμΜ", "θϑΘϴ", "дД\u1c81", "ǆǅǄ", "𐐨𐐀"} {
		runes := []rune(group)
		for _, r := range runes {
			if fold(r) != fold(runes[0]) {
				t.Errorf("fold(%q) and fold(%q) = %q and %q, want equal", r, runes[0], fold(r), fold(runes[0]))
			}
		}
	}
	for r := range rune(0x3000) {
		if fold(fold(r)) != fold(r) {
			t.Fatalf("fold(%q) = %q, want it unchanged", fold(r), fold(fold(r)))
		}
	}
}

func TestIsBlobFindsEncodedData(t *testing.T) {
	for s, want := range map[string]bool{
		strings.Repeat("iVBORw0KGgo", 8):                                       true,
		strings.Repeat("deadbeef01", 30):                                       true,  // letters of only one case, but long enough
		strings.Repeat("deadbeef01", 10):                                       false, // a hash or an identifier
		strings.Repeat("/Users/Ann/Projects2", 6):                              false, // a path
		strings.Repeat("a-Long_Identifier2-", 5):                               false,
		"ThisIsAVeryLongCamelCaseIdentifierOfAJavaClassWith64CharactersOrMore": true, // known limitation: classified as encoded data
	} {
		if got := isBlob(s); got != want {
			t.Errorf("%d bytes: isBlob(%.40q) = %v, want %v", len(s), s, got, want)
		}
	}
}
