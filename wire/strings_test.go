package wire

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

// Strings long enough for the blocks, made of what makes blocks difficult: runs of backslashes over
// their borders, escapes that end in the next one, quotes and controls before and behind the end.
func TestLongStringsAgreeWithEncodingJSON(t *testing.T) {
	piece := rapid.SampledFrom([]string{
		"a", "bcdefgh", strings.Repeat("x", 61), strings.Repeat("y", 64), "\u00e9", "\U0001F600", "\x7f", "\xff", "!", "#", "[", "]",
		`\n`, `\"`, `\\`, `\/`, `\u0041`, `\ud83d`, `\\\\\\\\`, `\t\t\t`,
	})
	wrong := rapid.SampledFrom([]string{`\`, `"`, `\x`, `\u12g4`, `\u12`, "\x00", "\x1f", "\n", `\`, `\N`, `\'`})
	rapid.Check(t, func(t *rapid.T) {
		parts := rapid.SliceOfN(piece, 0, 60).Draw(t, "parts")
		if rapid.Bool().Draw(t, "broken") {
			at := rapid.IntRange(0, len(parts)).Draw(t, "at")
			parts = append(parts[:at:at], append([]string{wrong.Draw(t, "wrong")}, parts[at:]...)...)
		}
		text := []byte(`"` + strings.Join(parts, "") + `"` + strings.Repeat(" ", rapid.IntRange(0, 70).Draw(t, "behind")))
		if got, want := valid(text), json.Valid(text); got != want {
			t.Fatalf("valid(%q) = %v, encoding/json says %v", text, got, want)
		}
		body := []byte(`[` + string(bytes.TrimSpace(text)) + `,"` + strings.Repeat("z", 80) + `",1]`)
		if json.Valid(body) {
			first := span{}
			for v := range elements(body, span{0, len(body)}) {
				first = v
				break
			}
			if end := stringEnd(body, 2); end != first.end {
				t.Fatalf("stringEnd says %d, the cursor %d: %q", end, first.end, body)
			}
		}
	})
}

// Every byte at the borders of words and blocks, the telling ones at every offset, alone and
// escaped.
func TestEveryByteAtEveryOffset(t *testing.T) {
	for _, before := range []string{"", `\`, `\\`, `\\\`, `\u00`} {
		for offset := range 70 {
			for c := range 256 {
				if offset%8 != 0 && !strings.ContainsRune("\x00\x1f !\"#[\\]nuxz\x7f", rune(c)) {
					continue
				}
				text := []byte(`"` + strings.Repeat("p", 30) + strings.Repeat("o", offset) + before + string([]byte{byte(c)}) + strings.Repeat("q", 100) + `"`)
				if got, want := valid(text), json.Valid(text); got != want {
					t.Fatalf("%q and %#x at %d: valid says %v, encoding/json %v", before, c, offset, got, want)
				}
			}
		}
	}
}

func TestEscapedBits(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		slant := rapid.Uint64().Draw(t, "slant")&rapid.Uint64().Draw(t, "thin") | rapid.SampledFrom([]uint64{0, 1, 3, 1 << 63, 3 << 62, 0xff, ^uint64(0)}).Draw(t, "run")
		carry := rapid.Uint64Range(0, 1).Draw(t, "carry")
		var want uint64
		next := carry == 1
		for i := range 64 {
			if next {
				want |= 1 << i
				next = false
			} else {
				next = slant>>i&1 == 1
			}
		}
		wantNext := uint64(0)
		if next {
			wantNext = 1
		}
		if escaped, out := escapedBits(slant, carry); escaped != want || out != wantNext {
			t.Fatalf("escapedBits(%#x, %d) = %#x, %d; want %#x, %d", slant, carry, escaped, out, want, wantNext)
		}
	})
}

func TestZeros(t *testing.T) {
	for mask := range 256 {
		var w uint64
		for i := range 8 {
			if mask>>i&1 == 0 {
				w |= 0x80 >> (i % 8) << (8 * i) // some bit or other
			}
		}
		if got := zeros(w); got != uint64(mask) {
			t.Fatalf("zeros(%#x) = %#b, want %#b", w, got, mask)
		}
	}
}

func FuzzLongString(f *testing.F) {
	f.Add(strings.Repeat(`ab\\\"c`, 30))
	f.Add(strings.Repeat("x", 63) + `\` + `n` + strings.Repeat("y", 100))
	f.Add(strings.Repeat(`\u00e9`, 20) + strings.Repeat(`\`, 129))
	f.Fuzz(func(t *testing.T, s string) {
		for _, text := range []string{`"` + s + `"`, `"` + strings.Repeat("p", 64) + s + strings.Repeat(" ", 64) + `"`} {
			if got, want := valid([]byte(text)), json.Valid([]byte(text)); got != want {
				t.Fatalf("valid(%q) = %v, encoding/json says %v", text, got, want)
			}
		}
	})
}
