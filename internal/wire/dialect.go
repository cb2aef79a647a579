package wire

import (
	"net/http"
	"strings"

	"github.com/tidwall/sjson"

	"precept/internal/label"
)

// Dialect is one of the three API shapes that precept rewrites.
type Dialect uint8

// Dialects.
const (
	NoDialect Dialect = iota // any other API; bodies pass unchanged
	Chat
	Responses
	Messages
)

// DialectForPath returns the dialect for a POST to a path that ends in /chat/completions, /responses or /messages.
func DialectForPath(path string) Dialect {
	switch {
	case strings.HasSuffix(path, "/chat/completions"):
		return Chat
	case strings.HasSuffix(path, "/responses"):
		return Responses
	case strings.HasSuffix(path, "/messages"):
		return Messages
	}
	return NoDialect
}

// String returns the name used in metrics and reports: chat, responses, messages, none.
func (d Dialect) String() string { return [...]string{"none", "chat", "responses", "messages"}[d] }

// DialectNamed returns the dialect with the name, or NoDialect for an unknown name.
func DialectNamed(name string) Dialect {
	for _, d := range [...]Dialect{Chat, Responses, Messages} {
		if d.String() == name {
			return d
		}
	}
	return NoDialect
}

func (d Dialect) listKey() string { return [...]string{"", "messages", "input", "messages"}[d] }

func (d Dialect) partType() string {
	if d == Responses {
		return "input_text"
	}
	return "text"
}

// Role is a list item's speaker.
type Role uint8

// Roles in all dialects. "developer" is RoleSystem. Model output, such as reasoning, calls and item references, is
// RoleAssistant. In the Messages API, a user message with only tool results is RoleTool, and a user message with
// results and text is RoleUser.
const (
	RoleOther Role = iota
	RoleSystem
	RoleUser
	RoleAssistant
	RoleTool
)

func parseRole(name string) Role {
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

// Uninspected is Parse's error for a body that precept does not understand. The body is forwarded unchanged and counted
// in precept_uninspected_total{reason}.
type Uninspected struct{ Reason label.Reason }

func (u *Uninspected) Error() string { return "uninspected: " + string(u.Reason) }

// ErrorBody returns a precept error in the dialect's shape, with type precept_error. In OpenAI's shape, the code is the
// status name (service_unavailable).
func ErrorBody(d Dialect, status int, message string) []byte {
	message = strings.ToValidUTF8(message, "\uFFFD")
	if d == Messages {
		return setJSONString(`{"type":"error","error":{"type":"precept_error"}}`, "error.message", message)
	}
	code := strings.NewReplacer(" ", "_", "-", "_", "'", "").Replace(strings.ToLower(http.StatusText(status)))
	body := `{"error":{"message":"","type":"precept_error","param":null,"code":""}}`
	return setJSONString(string(setJSONString(body, "error.message", message)), "error.code", code)
}

func setJSONString(text, path, value string) []byte {
	out, err := sjson.Set(text, path, value)
	if err != nil {
		return []byte(text)
	}
	return []byte(out)
}
