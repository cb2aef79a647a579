package detect

import (
	"slices"
	"strings"
)

// sqlWords are the keywords that sqlNames removes.
const sqlWords = " select insert update delete with show describe explain create alter drop from where and or not null limit order group by " +
	"into values set join left right inner outer on as distinct count having union all asc desc like in is between "

// isSQL reports whether an argument is SQL, according to its name (key) and its first word.
func isSQL(key, text string) bool {
	if !slices.Contains([]string{"sql", "query", "statement", "q", "sql_query"}, strings.ToLower(key)) {
		return false
	}
	first, rest, _ := strings.Cut(strings.TrimSpace(text), " ")
	switch strings.ToLower(first) {
	case "select", "insert", "update", "delete", "with", "describe", "explain", "alter", "drop", "create":
		return strings.TrimSpace(rest) != ""
	}
	return false
}

// canonicalSQL returns an SQL statement with single spaces, without the final semicolon, and, outside quotes, in lower
// case.
func canonicalSQL(key, text string) (statement string, ok bool) {
	if !isSQL(key, text) {
		return "", false
	}
	var b strings.Builder
	quote := byte(0)
	for i := range len(text) {
		c := text[i]
		switch {
		case quote != 0:
			if c == quote {
				quote = 0
			}
		case c == '\'' || c == '"':
			quote = c
		case c >= 'A' && c <= 'Z':
			c |= 0x20
		}
		b.WriteByte(c)
	}
	return strings.TrimRight(collapseSpaces(b.String()), "; "), true
}

func withoutLimit(statement string) string {
	if i := strings.LastIndex(statement, " limit "); i >= 0 && isNumber(strings.TrimSpace(statement[i+len(" limit "):])) {
		return statement[:i]
	}
	return statement
}

// sqlNames returns the names without capital letters in a statement. They do not depend on spaces or on the case of
// keywords.
func sqlNames(statement string) string {
	words := strings.FieldsFunc(statement, func(r rune) bool {
		return r != '_' && (r < 'a' || r > 'z') && (r < 'A' || r > 'Z') && (r < '0' || r > '9')
	})
	words = slices.DeleteFunc(words, func(w string) bool {
		return w != strings.ToLower(w) || isNumber(w) || strings.Contains(sqlWords, " "+w+" ")
	})
	return strings.Join(words, " ")
}
