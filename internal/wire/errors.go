package wire

import (
	"net/http"
	"strings"

	"github.com/tidwall/sjson"

	"precept/internal/label"
)

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
