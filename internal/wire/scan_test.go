package wire

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/tidwall/gjson"
)

func TestValidMatchesEncodingJSON(t *testing.T) {
	for _, text := range []string{
		`{}`, `[]`, `""`, ` {"a" : [1 , 2 ] } `, `0`, `-0`, `1`, `-1.5e+10`, `1E400`, `123456789012345678901234567890`, `1.0`,
		`true`, `false`, `null`, `"\u0000\ud800\"\\\/\b\f\n\r\t"`, "\"\xff\xfe\"", `{"a":1,"a":2}`, "\t\r\n {}", `"0123456789abcdef0123456789"`,
		``, ` `, `{`, `}`, `[1,]`, `{"a":1,}`, `{,}`, `[,]`, `{"a"}`, `{"a":}`, `{a:1}`, `{"a" 1}`, `[1 2]`, `01`, `-`, `1.`, `.1`, `1e`, `1e+`, `+1`,
		`tru`, `truex`, `nul`, `"`, `"\`, `"\u12"`, `"\u12g4"`, `"\x"`, "\"\n\"", "\"\x1f\"", "\"0123456789abcde\x01\"", "\ufeff{}", `{} x`, `{}{}`, `'a'`, "\f{}",
		"\"" + strings.Repeat("a", 40) + "\x7f\"", "\"0123456\\u00e90123456789\\n\"", `NaN`, `[[[[]]]]`, `{"a":{"b":[{}]}}`, "\v1", `"\u"`, `1ee1`, `--1`, `"a"b`,
	} {
		if got, want := valid([]byte(text)), json.Valid([]byte(text)); got != want {
			t.Errorf("valid(%q) = %v, want %v (the result of encoding/json)", text, got, want)
		}
	}
}

func TestValidFindsSpecialBytesAtEveryOffset(t *testing.T) {
	for _, end := range []string{`"`, `\n"`, "\x01\"", "\x80\"", "\xff\"", "\x1f\"", "!\"", "]\"", "#\""} {
		for n := range 40 {
			text := `"` + strings.Repeat("\u00e9", n/2) + strings.Repeat("a", n%2) + end
			if got, want := valid([]byte(text)), json.Valid([]byte(text)); got != want {
				t.Errorf("valid(%q) = %v, want %v (the result of encoding/json)", text, got, want)
			}
		}
	}
}

func TestNestingDepthIsLimited(t *testing.T) {
	nest := func(n int) []byte { return []byte(strings.Repeat("[", n) + strings.Repeat("]", n)) }
	if !valid(nest(maxDepth)) {
		t.Errorf("valid = false at depth %d, want true", maxDepth)
	}
	if valid(nest(maxDepth + 1)) {
		t.Errorf("valid = true at depth %d, want false", maxDepth+1)
	}
	for _, open := range []string{"[", `{"a":`, `[{"messages":`} {
		s := scanner{b: []byte(strings.Repeat(open, 1<<20))}
		if s.skipValue(0, 0) >= 0 || !s.deep {
			t.Errorf("%d times %s: got deep = %v, want an error and deep = true", 1<<20, open, s.deep)
		}
	}
}

func FuzzValid(f *testing.F) {
	for _, s := range []string{`{"a":[1,-2.5e3,"x\u00e9",true,null]}`, "\"\x80\"", `[[]]`, `{"":""}`, `1E400`} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		s := scanner{b: b}
		end := s.skipValue(s.skipSpace(0), 0)
		got := end >= 0 && s.skipSpace(end) == len(b)
		if s.deep {
			return
		}
		if want := json.Valid(b); got != want {
			t.Fatalf("scanner accepts %q = %v, want %v (the result of encoding/json)", b, got, want)
		}
		if got && !gjson.ValidBytes(b) {
			t.Fatalf("scanner accepts %q, but gjson rejects it", b)
		}
	})
}
