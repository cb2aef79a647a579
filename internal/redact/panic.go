package redact

import (
	"errors"
	"fmt"
	"runtime"
)

// SafePanicText returns the text of a runtime error. For any other panic value, it returns only the type, because the
// value may contain request or session content that must not be logged.
func SafePanicText(v any) string {
	err, ok := v.(error)
	if !ok {
		return fmt.Sprintf("%T", v)
	}
	if fault, ok := errors.AsType[runtime.Error](err); ok {
		return fault.Error()
	}
	return fmt.Sprintf("%T", v)
}
