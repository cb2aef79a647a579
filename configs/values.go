package configs

import (
	"encoding/hex"
	"errors"
	"fmt"
	"math"
	"regexp"
	"strconv"
	"strings"
	"time"
	"unicode"
)

// Size is a byte count; precept.yaml accepts forms such as 8MiB.
type Size int64

const hiddenText = "(hidden)"

// Secret is a text that is never shown in logs, faults or marshalled output.
type Secret string

// Reveal returns the secret's text.
func (s Secret) Reveal() string { return string(s) }

// String hides the text, except that an empty secret stays empty.
func (s Secret) String() string {
	if s == "" {
		return ""
	}
	return hiddenText
}

// GoString hides the text from %#v.
func (s Secret) GoString() string { return strconv.Quote(s.String()) }

// MarshalText hides the text in JSON and in slog.
func (s Secret) MarshalText() ([]byte, error) { return []byte(s.String()), nil }

// String formats a size in the largest unit that divides it, such as 8MiB.
func (s Size) String() string {
	n, units := int64(s), []string{"", "KiB", "MiB", "GiB", "TiB"}
	for ; len(units) > 1 && n != 0 && n%1024 == 0; units = units[1:] {
		n /= 1024
	}
	return strconv.FormatInt(n, 10) + units[0]
}

// MarshalText formats a size as String does.
func (s Size) MarshalText() ([]byte, error) { return []byte(s.String()), nil }

func sizeUnits() map[string]int64 {
	return map[string]int64{
		"": 1, "B": 1, "kB": 1e3, "KB": 1e3, "MB": 1e6, "GB": 1e9, "TB": 1e12,
		"KiB": 1 << 10, "MiB": 1 << 20, "GiB": 1 << 30, "TiB": 1 << 40,
	}
}

var errSize = errors.New("is not a size; write a number of bytes, or 64KiB, 8MiB, 1GiB")

// ParseSize parses a size such as 8MiB, 8 MiB, 8MB or 8388608.
func ParseSize(text string) (Size, error) {
	number := strings.TrimRight(strings.TrimSpace(text), "kKMGTiB")
	factor, ok := sizeUnits()[strings.TrimSpace(text)[len(number):]]
	n, err := strconv.ParseInt(strings.TrimSpace(number), 10, 64)
	if !ok || err != nil || n < 0 {
		return 0, errSize
	}
	if n > math.MaxInt64/factor {
		return 0, errors.New("is too large; write less than 8 EiB")
	}
	return Size(n * factor), nil
}

var errDuration = errors.New(
	"is not a duration; write a number with a unit, such as 300ms, 10s, 24h or 30d",
)

// parseDuration also accepts days such as 30d.
func parseDuration(text string) (time.Duration, error) {
	text = strings.TrimSpace(text)
	if days, ok := strings.CutSuffix(text, "d"); ok {
		n, err := strconv.ParseInt(days, 10, 32)
		if err != nil || n < 0 || n > 36500 {
			return 0, errDuration
		}
		return time.Duration(n) * 24 * time.Hour, nil
	}
	d, err := time.ParseDuration(text)
	if err != nil {
		return 0, errDuration
	}
	return d, nil
}

// checkPrintable returns an error for a control or invisible character, which would otherwise cause an error elsewhere.
func checkPrintable(text string) error {
	for _, r := range text {
		switch {
		case r == '\n' || r == '\r':
			return fmt.Errorf("contains a line break (U+%04X); write one line", r)
		case unicode.IsControl(r):
			return fmt.Errorf("contains the control character U+%04X; remove it", r)
		case unicode.Is(unicode.Cf, r):
			return fmt.Errorf("contains the invisible character U+%04X; remove it", r)
		}
	}
	return nil
}

// envReference matches ${NAME} and ${NAME:-text}. A reference contains no quotes and backslashes, because these belong
// to the YAML around the reference.
var envReference = regexp.MustCompile( //nolint:gochecknoglobals // immutable
	`\$\{[A-Za-z_][A-Za-z0-9_]*(?::-[^}"'\\\r\n]*)?\}`,
)

var maskedReference = regexp.MustCompile("\uE000([0-9a-f]+)\uE001") //nolint:gochecknoglobals // immutable

// maskReferences replaces variable references with letters and digits between two private-use characters, because YAML
// would read a brace inside {...} or [...] as structure. The number of lines does not change.
func maskReferences(text string) string {
	return envReference.ReplaceAllStringFunc(text, func(ref string) string { return "\uE000" + hex.EncodeToString([]byte(ref)) + "\uE001" })
}

func unmaskReferences(text string) string {
	return maskedReference.ReplaceAllStringFunc(text, func(masked string) string {
		ref, err := hex.DecodeString(strings.Trim(masked, "\uE000\uE001"))
		if err != nil {
			return masked
		}
		return string(ref)
	})
}

var errEnvSyntax = errors.New("has a ${ without a }; write $${ for a literal ${")

// expandVariables replaces ${NAME} and ${NAME:-text} in one value. expandVariables runs after the YAML is parsed, so a
// variable's text never becomes structure. As in a shell, ${NAME:-text} also replaces an empty variable.
func expandVariables(text string, env func(string) (string, bool)) (string, error) {
	var out strings.Builder
	for {
		i := strings.Index(text, "${")
		if i < 0 {
			out.WriteString(text)
			return out.String(), nil
		}
		if i > 0 && text[i-1] == '$' {
			out.WriteString(text[:i-1] + "${")
			text = text[i+2:]
			continue
		}
		out.WriteString(text[:i])
		end := strings.IndexByte(text[i:], '}')
		if end < 0 {
			return "", errEnvSyntax
		}
		name, fallback, hasFallback := strings.Cut(text[i+2:i+end], ":-")
		value, ok := env(name)
		switch {
		case hasFallback && value == "":
			value = fallback
		case !ok && !hasFallback:
			return "", fmt.Errorf(
				"names the environment variable %s, which is not set; set the variable, or write ${%s:-text} with a default text",
				name, name,
			)
		}
		out.WriteString(value)
		text = text[i+end+1:]
	}
}
