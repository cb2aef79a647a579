package redact

import (
	"errors"
	"fmt"
	"runtime"
)

// SafePanicText returns the part of a panic value that may be logged: the text of a runtime error, but only the type of
// any other value, because such a value may contain content of a request or a session.
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
