package redact

import (
	"errors"
	"fmt"
	"runtime"
)

// PanicKind is what may be told of a panic: what Go itself says of a fault in the program, and of
// everything else its type, since somebody may have put into it what a request or a session holds.
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
