package inject

import (
	"strings"

	"precept/bandit/trial"
	"precept/internal/session"
	"precept/internal/wire"
)

// sessionCategory returns "agent|model family|length class", the category for which a baseline reward is estimated. All
// three parts are known before the first random decision, so no lesson can affect them.
func sessionCategory(rec *session.Record, req *wire.Request) string {
	size := 0
	for _, w := range req.NewUserTexts() {
		size += len(w)
	}
	return trial.Category(shorten(rec.Identity.Agent), shorten(modelFamily(req.Model)), lengthClass(size))
}

// lengthClass returns a message's class by length. Typical messages are a question (s), a task (m), a specification (l)
// and a document (xl).
func lengthClass(size int) string {
	switch {
	case size < 100:
		return "s"
	case size < 500:
		return "m"
	case size < 4000:
		return "l"
	}
	return "xl"
}

// modelFamily returns a model's name without provider and version, such as "claude-opus" for "vendor/claude-opus-4-8".
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

// shorten limits the length of s. Clients choose s, and the result becomes part of a counter name.
func shorten(s string) string {
	const limit = 48
	return strings.ToValidUTF8(s[:min(len(s), limit)], "")
}
