package inject

import (
	"strings"

	"precept/internal/session"
	"precept/internal/wire"
)

// category returns facts that are known before the first coin of a session: agent, model family, length band of
// the first message. The baseline of a session's reward depends on the category, so the category must not depend
// on a lesson.
func category(rec *session.Record, req *wire.Request) string {
	n := 0
	for _, w := range req.NewWords() {
		n += len(w)
	}
	return short(rec.Identity.Agent) + "|" + short(family(req.Model)) + "|" + band(n)
}

// band returns the class of a length in bytes. Typical texts: a question (s), a task (m), a specification (l), a
// document (xl).
func band(n int) string {
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

// family returns a model's name without vendor, version and date: claude-opus for
// vendor/claude-opus-4-8.
func family(model string) string {
	model = strings.ToLower(model[strings.LastIndexByte(model, '/')+1:])
	model, _, _ = strings.Cut(model, ":")
	parts := strings.Split(model, "-")
	end := min(len(parts), 2)
	for end < len(parts) && parts[end] != "" && (parts[end][0] < '0' || parts[end][0] > '9') {
		end++
	}
	return strings.Join(parts[:end], "-")
}

// short cuts s to 48 bytes, because the result is part of a counter's name.
func short(s string) string {
	const limit = 48
	return strings.ToValidUTF8(s[:min(len(s), limit)], "")
}
