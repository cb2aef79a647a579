package inject

import (
	"strings"

	"precept/internal/session"
	"precept/internal/wire"
)

// sessionCategory returns the class of a session for which a baseline reward is estimated: "agent|model family|length
// class of the first message". These facts are known before the first coin, so that no lesson can affect the category.
func sessionCategory(rec *session.Record, req *wire.Request) string {
	n := 0
	for _, w := range req.NewUserTexts() {
		n += len(w)
	}
	return shorten(rec.Identity.Agent) + "|" + shorten(modelFamily(req.Model)) + "|" + lengthClass(n)
}

// lengthClass returns the class of a message's length in bytes. Typical messages of the classes are a question (s), a
// task (m), a specification (l) and a document (xl).
func lengthClass(n int) string {
	switch {
	case n < 100:
		return "s"
	case n < 500:
		return "m"
	case n < 4000:
		return "l"
	}
	return "xl"
}

// modelFamily returns a model's name without vendor, version and date. For "vendor/claude-opus-4-8" it returns
// "claude-opus".
func modelFamily(model string) string {
	model = strings.ToLower(model[strings.LastIndexByte(model, '/')+1:])
	model, _, _ = strings.Cut(model, ":")
	parts := strings.Split(model, "-")
	end := min(len(parts), 2)
	for end < len(parts) && parts[end] != "" && (parts[end][0] < '0' || parts[end][0] > '9') {
		end++
	}
	return strings.Join(parts[:end], "-")
}

// shorten returns at most 48 bytes of s, because the result becomes part of a counter's name.
func shorten(s string) string {
	const limit = 48
	return strings.ToValidUTF8(s[:min(len(s), limit)], "")
}
