package redact

import (
	"errors"
	"fmt"
	"runtime"
)

// PanicKind returns the loggable part of a panic: the text of a runtime error, and the type of any
// other value, which may contain content of a request or a session.
func PanicKind(v any) string {
	err, ok := v.(error)
	if !ok {
		return fmt.Sprintf("%T", v)
	}
	if fault, ok := errors.AsType[runtime.Error](err); ok {
		return fault.Error()
	}
	return fmt.Sprintf("%T", v)
}
