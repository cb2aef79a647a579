package admin

import (
	"strconv"
	"strings"
	"testing"
	"unicode/utf8"

	"pgregory.net/rapid"
)

func TestFormattersForPages(t *testing.T) {
	for function, cases := range map[string][][2]string{ // pairs of a result and the expected text
		"points": {
			{points(nil), noValue},
			{points(new(0.05)), "+5.0"},
			{points(new(-0.05)), "−5.0"},
			{points(new(0.0)), "+0.0"},
			{points(new(-0.0004)), "−0.04"},
			{points(new(-0.00001)), "+0.0"},
			{points(new(1.0)), "+100.0"},
		},
		"signedText": {{signedText(0), "0"}, {signedText(0.4), "0"}, {signedText(-0.4), "0"}, {signedText(12.6), "+13"}, {signedText(-12.6), "−13"}},
		"countText": {
			{countText(999), "999"},
			{countText(1000), "1,000"},
			{countText(-12345), "-12,345"},
			{countText(1234567), "1,234,567"},
			{countText(-123), "-123"},
			{countText(-1234), "-1,234"},
		},
		"countNoun":   {{countNoun(1, "lesson"), "1 lesson"}, {countNoun(0, "lesson"), "0 lessons"}, {countNoun(20000, "cell"), "20,000 cells"}},
		"decimalText": {{decimalText(nil, 2), noValue}, {decimalText(new(0.125), 3), "0.125"}, {decimalText(new(1.0), 2), "1.00"}, {decimalText(new(1200.4), 0), "1,200"}},
		"withSign":    {{withSign(-1234.5, 2), "−1,234.50"}, {withSign(1234567, 0), "+1,234,567"}, {withSign(0, 1), "+0.0"}},
		"percent":     {{percent(0.255), "26%"}, {percent(0), "0%"}},
		"bytesText": {
			{bytesText(0), "0 B"},
			{bytesText(1023), "1023 B"},
			{bytesText(1024), "1.0 KiB"},
			{bytesText(1 << 20), "1.0 MiB"},
			{bytesText(3 << 29), "1.5 GiB"},
			{bytesText(1 << 50), "1024.0 TiB"},
		},
		"truncateChars": {{truncateChars("abc", 3), "abc"}, {truncateChars("abcd", 3), "abc…"}, {truncateChars("äöüß", 3), "äöü…"}, {truncateChars("", 3), ""}},
		"truncateBytes": {{truncateBytes("abc", 3), "abc"}, {truncateBytes("abcd", 3), "abc\n… 1 further bytes"}, {truncateBytes("aé", 2), "a\n… 1 further bytes"}},
		"alternatives":  {{alternatives([]string{"a", "b"}), "a or b"}, {alternatives([]string{"a", "b", "c"}), "a, b or c"}},
		"sum":           {{strconv.FormatInt(sum(map[string]int64{"a": 2, "b": 3}), 10), "5"}, {strconv.Itoa(sum[int](nil)), "0"}},
	} {
		for i, c := range cases {
			if c[0] != c[1] {
				t.Errorf("%s, case %d: got %q, want %q", function, i, c[0], c[1])
			}
		}
	}
}

func TestCountTextGroupsDigits(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.Int64().Draw(t, "n")
		text := countText(n)
		if strings.ReplaceAll(text, ",", "") != strconv.FormatInt(n, 10) {
			t.Fatalf("countText(%d) = %q, want the digits of the number", n, text)
		}
		for i, group := range strings.Split(strings.TrimPrefix(text, "-"), ",") {
			if i > 0 && len(group) != 3 || group == "" {
				t.Fatalf("countText(%d) = %q, want groups of three digits", n, text)
			}
		}
	})
}

// truncateBytes cuts a text after the last whole character within the limit, and adds a note on how many bytes it
// omits.
func TestTruncateBytesKeepsWholeCharacters(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		text, limit := rapid.String().Draw(t, "text"), rapid.IntRange(0, 40).Draw(t, "limit")
		got, rest, left := strings.Cut(truncateBytes(text, limit), "\n… ")
		if len(text) <= limit {
			if truncateBytes(text, limit) != text {
				t.Fatalf("truncateBytes(%q, %d) = %q, want the text unchanged", text, limit, truncateBytes(text, limit))
			}
			return
		}
		if !strings.HasSuffix(truncateBytes(text, limit), " further bytes") || !utf8.ValidString(truncateBytes(text, limit)) {
			t.Fatalf("truncateBytes(%q, %d) = %q, want valid UTF-8 that ends with the number of omitted bytes", text, limit, truncateBytes(text, limit))
		}
		if left && !strings.Contains(text, "\n… ") && (len(got) > limit || !strings.HasPrefix(text, got) || rest != strconv.Itoa(len(text)-limit)+" further bytes") {
			t.Fatalf("truncateBytes(%q, %d): got prefix %q and note %q; want a prefix within the limit, and a note with the number of omitted bytes", text, limit, got, rest)
		}
	})
}

func TestEscapeHiddenShowsHiddenCharacters(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		text := rapid.String().Draw(t, "text")
		shown := escapeHidden(text)
		if strings.IndexFunc(shown, isHidden) >= 0 {
			t.Fatalf("escapeHidden(%q) = %q, want no hidden character", text, shown)
		}
		if strings.IndexFunc(text, isHidden) < 0 && shown != text {
			t.Fatalf("escapeHidden(%q) = %q, want the text unchanged", text, shown)
		}
		if escapeHidden(shown) != shown {
			t.Fatalf("escapeHidden(%q) = %q, want the text unchanged, because its hidden characters are already escaped", shown, escapeHidden(shown))
		}
	})
}

// unescapeHidden undoes what escapeHidden does. It leaves text in the brackets ‹› unchanged if escapeHidden never
// writes such text.
func TestUnescapeHiddenReversesEscapeHidden(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		text := strings.ReplaceAll(rapid.String().Draw(t, "text"), "‹", "")
		if got := unescapeHidden(escapeHidden(text)); strings.ToValidUTF8(text, "\uFFFD") == text && got != text {
			t.Fatalf("unescapeHidden(escapeHidden(%q)) = %q, want the original text", text, got)
		}
	})
	for _, text := range []string{"‹U+0041›", "‹U+200b›", "‹U+00200B›", "‹U+FFFFFF›", "‹U+›", "‹esc›"} {
		if got := unescapeHidden(text); got != text {
			t.Errorf("unescapeHidden(%q) = %q, want the text unchanged", text, got)
		}
	}
}

func TestDefinitionTextDescribesTheReward(t *testing.T) {
	for definition, want := range map[string]string{
		"user>verifier>implicit@24h0m0s": "user feedback, else verifier results, else traffic signals; a session closes 24h after the first request",
		"user@1h30m0s":                   "user feedback; a session closes 1h30m after the first request",
		"implicit+sentiment@10m0s":       "traffic signals with message sentiment; a session closes 10m after the first request",
		"user@1.5s":                      "user feedback; a session closes 1.5s after the first request",
		"unknown@1s":                     "unknown@1s",
	} {
		if got := definitionText(definition); got != want {
			t.Errorf("definitionText(%q) = %q, want %q", definition, got, want)
		}
	}
}
