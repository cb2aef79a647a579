package wire

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

// The strings have escapes across 8-byte boundaries.
func TestLongStringsMatchEncodingJSON(t *testing.T) {
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
			t.Fatalf("valid(%q) = %v, want %v (the result of encoding/json)", text, got, want)
		}
		body := []byte(`[` + string(bytes.TrimSpace(text)) + `,"` + strings.Repeat("z", 80) + `",1]`)
		if json.Valid(body) {
			first := span{}
			for v := range elements(body, span{0, len(body)}) {
				first = v
				break
			}
			if end := stringEnd(body, 2); end != first.end {
				t.Fatalf("stringEnd(%q, 2) = %d, want %d, as from elements", body, end, first.end)
			}
		}
	})
}

func TestValidMatchesEncodingJSONAtEveryOffset(t *testing.T) {
	for _, before := range []string{"", `\`, `\\`, `\\\`, `\u00`} {
		for offset := range 70 {
			for c := range 256 {
				if offset%8 != 0 && !strings.ContainsRune("\x00\x1f !\"#[\\]nuxz\x7f", rune(c)) {
					continue
				}
				text := []byte(`"` + strings.Repeat("p", 30) + strings.Repeat("o", offset) + before + string([]byte{byte(c)}) + strings.Repeat("q", 100) + `"`)
				if got, want := valid(text), json.Valid(text); got != want {
					t.Fatalf("valid = %v with %q and byte %#x at offset %d, want %v (the result of encoding/json)", got, before, c, offset, want)
				}
			}
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
				t.Fatalf("valid(%q) = %v, want %v (the result of encoding/json)", text, got, want)
			}
		}
	})
}
