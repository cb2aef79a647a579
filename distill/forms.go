package distill

import (
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode"
)

// leadingSign is the start of the description of a value that must begin with a symbol such as "#".
const leadingSign = "a value with its leading "

func isQuantity(v any) bool {
	switch v := v.(type) {
	case float64:
		return true
	case string:
		_, err := strconv.ParseFloat(v, 64)
		return err == nil
	}
	return false
}

// valueForm describes the form of the accepted value, such as "a list". The result is "" if the failed value has the
// same form.
func valueForm(failed, accepted any) string {
	a, isText := failed.(string)
	b, isTextNow := accepted.(string)
	switch v := accepted.(type) {
	case float64:
		if n, err := strconv.ParseFloat(a, 64); isText && (err != nil || n == v) {
			return "a number"
		}
	case []any:
		if isText {
			return "a list"
		}
		if old, wasList := failed.([]any); wasList && len(v) == 1 && jsonText(v[0]) == jsonText(old) {
			return "a list of lists"
		}
	case map[string]any:
		if isText {
			return "an object"
		}
	case bool:
		if isText {
			return "true or false"
		}
	case string:
		if _, wasList := failed.([]any); wasList {
			return "a text"
		}
	}
	if !isText || !isTextNow {
		return ""
	}
	return textForm(a, b)
}

// textForm describes the form that the accepted text has and the failed text lacks.
func textForm(failed, accepted string) string {
	switch {
	case strings.HasPrefix(accepted, "/") && !strings.HasPrefix(failed, "/") && strings.HasSuffix(accepted, strings.TrimLeft(failed, "./")) && len(failed) > 2:
		return "an absolute path"
	case strings.Contains(accepted, "://") && !strings.Contains(failed, "://") && len(failed) > 3 && strings.HasSuffix(accepted, failed):
		return "a URL with its scheme"
	case isNumber(accepted) && !isNumber(failed):
		return "a whole number"
	case isDate(accepted) && !isDate(failed) && len(failed) > 2:
		return "a date in the form YYYY-MM-DD"
	case len(failed) > 3 && accepted == strings.Trim(failed, `"'`):
		return "a value without quotes"
	case len(failed) > 3 && accepted == strings.ReplaceAll(failed, " ", ""):
		return "a value without spaces"
	case len(accepted) > 2 && (accepted[0] == '#' || accepted[0] == '@' || accepted[0] == '$') && accepted[1:] == failed:
		return leadingSign + accepted[:1]
	case len(failed) > 3 && accepted == strings.ToLower(failed):
		return "lower case"
	case len(failed) > 1 && len(failed) < 8 && accepted == strings.ToUpper(failed):
		return "upper case"
	}
	return ""
}

func isNumber(s string) bool {
	return s != "" && len(s) < 12 && !strings.ContainsFunc(s, func(r rune) bool { return !unicode.IsDigit(r) })
}

func isDate(s string) bool {
	_, err := time.Parse(time.DateOnly, s)
	return err == nil
}

// isSubset reports whether b has all words of a and at least one more.
func isSubset(a, b string) bool {
	have := strings.Fields(strings.ToLower(b))
	words := strings.Fields(strings.ToLower(a))
	return len(words) > 0 && len(words) < len(have) && len(have) <= 20 && countCommon(words, have) == len(words)
}

// isShorterList reports whether the accepted list has fewer values than the failed list. A text with commas is also a
// list.
func isShorterList(failed, accepted any) bool {
	a, wasList := failed.([]any)
	b, isList := accepted.([]any)
	if wasList && isList {
		return len(b) < len(a) && len(b) > 0 && !slices.ContainsFunc(b, func(v any) bool {
			return !slices.ContainsFunc(a, func(old any) bool { return jsonText(v) == jsonText(old) })
		})
	}
	x, _ := failed.(string)
	y, _ := accepted.(string)
	if strings.Count(x, ",") <= strings.Count(y, ",") || y == "" || len(x) > 300 {
		return false
	}
	for p := range strings.SplitSeq(y, ",") {
		if !strings.Contains(x, strings.TrimSpace(p)) {
			return false
		}
	}
	return true
}

// nameTokens returns the words in a tool's name, in lower case: "get" and "order" for get_order, getOrder and GetOrder.
func nameTokens(tool string) []string {
	var out []string
	start := 0
	flush := func(to int) {
		if w := strings.ToLower(strings.Trim(tool[start:to], "_-.: ")); w != "" {
			out = append(out, w)
		}
		start = to
	}
	for i := 1; i < len(tool); i++ {
		c, p := tool[i], tool[i-1]
		if c == '_' || c == '-' || c == '.' || c >= 'A' && c <= 'Z' && (p < 'A' || p > 'Z') {
			flush(i)
		}
	}
	flush(len(tool))
	return out
}

// toolDoes reports whether a tool's name has a word from a list in lists.txt. The list's name, such as "looks" or
// "destroys", says what the tools with these words do.
func toolDoes(tool, list string) bool {
	return slices.ContainsFunc(nameTokens(tool), func(t string) bool { return wordList(list)[t] })
}

// mayBePrivateName reports whether a parameter's name may contain private data, because it is longer than 40 bytes or
// has characters that names in programs do not have.
func mayBePrivateName(k string) bool {
	return len(k) > 40 || !containsOnly(k, letters+digits+"_-")
}

func countCommonLeadingWords(a, b string) int {
	x, y := nameTokens(a), nameTokens(b)
	n := 0
	for n < len(x) && n < len(y) && x[n] == y[n] {
		n++
	}
	return n
}
