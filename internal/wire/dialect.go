package wire

import (
	"net/http"
	"strings"

	"github.com/tidwall/sjson"

	"precept/internal/label"
)

// Dialect is one of the three API shapes that precept rewrites.
type Dialect uint8

// The dialects.
const (
	None      Dialect = iota // anything else: passed through untouched
	Chat                     // .../chat/completions
	Responses                // .../responses
	Messages                 // .../messages
)

// DialectOf is the API that a POST to the path speaks. The path ends in /chat/completions,
// /responses or /messages.
func DialectOf(path string) Dialect {
	switch {
	case strings.HasSuffix(path, "/chat/completions"):
		return Chat
	case strings.HasSuffix(path, "/responses"):
		return Responses
	case strings.HasSuffix(path, "/messages"):
		return Messages
	}
	return None
}

// String is the dialect's name in metrics and reports: chat, responses, messages, none.
func (d Dialect) String() string { return [...]string{"none", "chat", "responses", "messages"}[d] }

// DialectNamed is the dialect of that name, None where there is none.
func DialectNamed(name string) Dialect {
	for _, d := range [...]Dialect{Chat, Responses, Messages} {
		if d.String() == name {
			return d
		}
	}
	return None
}

// listKey is the name of the top-level member that holds the conversation.
func (d Dialect) listKey() string { return [...]string{"", "messages", "input", "messages"}[d] }

// partType is the type of a text part that a client sends.
func (d Dialect) partType() string {
	if d == Responses {
		return "input_text"
	}
	return "text"
}

// Role says who an item of the list speaks for.
type Role uint8

// The roles, the same for all dialects. "developer" is RoleSystem. What the model made (reasoning,
// calls, references to its items) is RoleAssistant. A user's message of the Messages API is
// RoleTool when it holds nothing but tool results, and RoleUser with Results when it holds more.
const (
	RoleOther Role = iota
	RoleSystem
	RoleUser
	RoleAssistant
	RoleTool
)

// roleOf is the role that a name stands for, in whichever dialect.
func roleOf(name string) Role {
	switch name {
	case "system", "developer":
		return RoleSystem
	case "user":
		return RoleUser
	case "assistant":
		return RoleAssistant
	case "tool", "function":
		return RoleTool
	}
	return RoleOther
}

// Uninspected is the error of Parse and Decode: the body is forwarded unchanged, and
// precept_uninspected_total{reason} counts the request.
type Uninspected struct{ Reason label.Reason }

func (u *Uninspected) Error() string { return "uninspected: " + string(u.Reason) }

// ErrorBody is precept's own error in the dialect's shape, type precept_error. The code of the
// OpenAI shape is the status' name in snake case (service_unavailable).
func ErrorBody(d Dialect, status int, message string) []byte {
	message = strings.ToValidUTF8(message, "\uFFFD")
	if d == Messages {
		return filled(`{"type":"error","error":{"type":"precept_error"}}`, "error.message", message)
	}
	code := strings.NewReplacer(" ", "_", "-", "_", "'", "").Replace(strings.ToLower(http.StatusText(status)))
	body := `{"error":{"message":"","type":"precept_error","param":null,"code":""}}`
	return filled(string(filled(body, "error.message", message)), "error.code", code)
}

// filled is a JSON text with a string at a path. The text and the path are ours: they fit.
func filled(text, path, value string) []byte {
	out, err := sjson.Set(text, path, value)
	if err != nil {
		return []byte(text)
	}
	return []byte(out)
}
