package redact

import (
	"math/rand/v2"
	"strings"
	"testing"
)

func TestTruncatedTextRedactsCutValue(t *testing.T) {
	for _, tc := range []struct{ in, want string }{
		{"mail bob.smith@exam", "mail [REDACTED:cut:1]"},
		{"mail bob.smith@", "mail [REDACTED:cut:1]"},
		{"card 4111 1111 11", "card [REDACTED:cut:1]"},
		{"card 4111-1111-11", "card [REDACTED:cut:1]"},
		{"to DE89 3704 00", "to [REDACTED:cut:1]"},
		{`{"to":"jane@ex`, `{"to":"[REDACTED:cut:1]`},
		{"key " + vendorKey("sk-", "pro"), "key [REDACTED:cut:1]"},
		{"call +49 30", "call [REDACTED:cut:1]"},
		{"it is done now", "it is done now"},
		{"line 12", "line 12"},
		{"", ""},
		{"see a@b.io and go", "see [REDACTED:email:1] and go"},
		{"see a@b.io", "see [REDACTED:email:1]"},
	} {
		got := New(true).TruncatedText(tc.in)
		if got != tc.want {
			t.Errorf("TruncatedText(%q) = %q, want %q", tc.in, got, tc.want)
		}
		if twice := New(true).TruncatedText(got); twice != got {
			t.Errorf("second redaction: TruncatedText(%q) = %q, want it unchanged", got, twice)
		}
	}
}

func TestTruncatedTextRarelyKeepsHalfTheValue(t *testing.T) {
	r := rand.New(rand.NewPCG(5, 6))
	for _, m := range shapeGenerators() {
		shown, total := 0, 0
		for range 200 {
			v := m.draw(r)
			at := len(v)*6/10 + r.IntN(len(v)*4/10)
			for _, text := range []string{"Use " + v[:at], `{"to":"` + v[:at]} {
				total++
				if strings.Contains(New(true).TruncatedText(text), v[:len(v)/2]) {
					shown++
				}
			}
		}
		if shown*100 > total*3 {
			t.Errorf("%s: TruncatedText left at least half of the value in %d of %d truncated texts, want at most 3%%", m.kind, shown, total)
		}
	}
}
