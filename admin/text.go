package admin

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"unicode"

	"github.com/labstack/echo/v4"

	"precept/bandit/feedback"
	"precept/bandit/report"
)

// ifElse returns then or otherwise; both are evaluated.
func ifElse[T any](condition bool, then, otherwise T) T {
	if condition {
		return then
	}
	return otherwise
}

const noValue = "–"

func countText[N int | int64](n N) string { return report.Grouped(int64(n)) }

func sum[N int | int64](counts map[string]N) (n N) {
	for _, x := range counts {
		n += x
	}
	return n
}

func plural[N int | int64](n N, one, several string) string { return ifElse(n == 1, one, several) }

// countNoun formats a count and a noun, such as "1 lesson" or "2 lessons".
func countNoun[N int | int64](n N, name string) string {
	return countText(n) + " " + plural(n, name, name+"s")
}

// chanceText formats a probability as a percentage, at the ends as "< 1%" or "> 99%".
func chanceText(p float64) string {
	switch {
	case p < 0.005:
		return "< 1%"
	case p > 0.995:
		return "> 99%"
	}
	return percent(p)
}

func percent(x float64) string { return strconv.FormatFloat(x*100, 'f', 0, 64) + "%" }

func bytesText(n int64) string {
	units := []string{"B", "KiB", "MiB", "GiB", "TiB"}
	x, i := float64(n), 0
	for x >= 1024 && i < len(units)-1 {
		x, i = x/1024, i+1
	}
	if i == 0 {
		return fmt.Sprintf("%d B", n)
	}
	return fmt.Sprintf("%.1f %s", x, units[i])
}

func decimalText(x *float64, digits int) string {
	if x == nil {
		return noValue
	}
	return report.GroupedAmount(*x, digits)
}

// points formats reward in points: 0.05 is +5.0, -0.0004 is −0.04.
func points(x *float64) string {
	if x == nil {
		return noValue
	}
	return strings.Replace(report.SignedPoints(*x), "-", "−", 1)
}

// signedText formats a rounded number with a sign; 0 has none.
func signedText(x float64) string {
	if text := withSign(x, 0); text != "+0" {
		return text
	}
	return "0"
}

func withSign(x float64, digits int) string {
	text := report.GroupedAmount(x, digits)
	if x >= 0 && !strings.HasPrefix(text, "-") {
		text = "+" + text
	}
	if strings.Trim(text, "-0.") == "" {
		text = "+" + text[1:]
	}
	return strings.Replace(text, "-", "−", 1)
}

// escapeHidden replaces characters that hide or reorder text, or control a terminal, with names in ‹›.
func escapeHidden(text string) string {
	if strings.IndexFunc(text, isHidden) < 0 {
		return text
	}
	var b strings.Builder
	for _, r := range text {
		switch {
		case r == '\x1b':
			b.WriteString("‹ESC›")
		case isHidden(r):
			fmt.Fprintf(&b, "‹U+%04X›", r)
		default:
			b.WriteRune(r)
		}
	}
	return b.String()
}

// hiddenNames matches the names that escapeHidden writes.
var hiddenNames = regexp.MustCompile(`‹(?:ESC|U\+[0-9A-F]{4,6})›`)

func unescapeHidden(shown string) string {
	return hiddenNames.ReplaceAllStringFunc(shown, func(name string) string {
		if name == "‹ESC›" {
			return "\x1b"
		}
		n, err := strconv.ParseUint(strings.Trim(name, "‹U+›"), 16, 32)
		if r := rune(n); err == nil && isHidden(r) && escapeHidden(string(r)) == name {
			return string(r)
		}
		return name
	})
}

// restoreHidden restores hidden characters in the query. Pages show names instead, so forms send them and readers copy
// them.
func restoreHidden(next echo.HandlerFunc) echo.HandlerFunc {
	return func(c echo.Context) error {
		for _, values := range c.QueryParams() { // echo returns the same map for the whole request
			for i, value := range values {
				values[i] = unescapeHidden(value)
			}
		}
		return next(c)
	}
}

// maxShownText is the longest text shown, in bytes.
const maxShownText = 64 << 10

// truncateBytes cuts a text, and adds a line with the number of omitted bytes.
func truncateBytes(text string, limit int) string {
	rest := len(text) - limit
	if rest <= 0 {
		return text
	}
	return strings.ToValidUTF8(text[:limit], "") + fmt.Sprintf("\n… %d further bytes", rest)
}

// shortenName cuts agent and model names, which can be very long.
func shortenName(text string) string { return truncateChars(text, 48) }

func truncateChars(text string, limit int) string {
	if r := []rune(text); len(r) > limit {
		return string(r[:limit]) + "…"
	}
	return text
}

// TerminalText returns text that is safe on a terminal. Invisible characters become names in ‹›, and invalid UTF-8
// becomes U+FFFD.
func TerminalText(text string) string { return escapeHidden(strings.ToValidUTF8(text, "\uFFFD")) }

// isHidden reports whether a character is invisible or changes how other characters look. The joiners U+200C and
// U+200D do not count, because emoji and Indic scripts need them.
func isHidden(r rune) bool {
	switch r {
	case '\n', '\t', '\u200d', '\u200c':
		return false
	case '\u2028', '\u2029', '\ufeff', '\u00ad', '\u034f', '\u115f', '\u1160', '\u3164', '\uffa0':
		return true
	}
	return unicode.IsControl(r) || unicode.Is(unicode.Cf, r) || r >= 0xE0000 && r <= 0xE0FFF
}

func tierText(tier int) string {
	switch tier {
	case feedback.TierUser:
		return "user feedback"
	case feedback.TierVerifier:
		return "verifier results"
	}
	return "traffic signals"
}

// definitionText describes a reward definition, such as "user>verifier@24h0m0s", without a full stop. definitionText
// returns an invalid definition unchanged.
func definitionText(definition string) string {
	d, err := feedback.ParseDefinition(definition)
	if err != nil {
		return definition
	}
	tiers := make([]string, len(d.Tiers))
	for i, tier := range d.Tiers {
		tiers[i] = tierText(tier)
		if tier == feedback.TierImplicit && d.Sentiment {
			tiers[i] += " with message sentiment"
		}
	}
	return strings.Join(tiers, ", else ") + "; a session closes " + report.ShortDuration(d.CloseAfter.String()) + " after the first request"
}
