package redact_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"precept/internal/redact"
)

// What a panic holds may be what somebody said; what Go says of a fault in the program is told.
func TestPanicKind(t *testing.T) {
	fault := func() (v any) {
		defer func() { v = recover() }()
		var none []int
		return none[len(t.Name())]
	}()
	for _, c := range []struct {
		value any
		want  string
	}{
		{"the user's words", "string"},
		{errors.New("the user's words"), "*errors.errorString"},
		{fault, "index out of range"},
		{fmt.Errorf("the user's words: %w", fault.(error)), "index out of range"},
	} {
		got := redact.PanicKind(c.value)
		if !strings.Contains(got, c.want) || strings.Contains(got, "words") {
			t.Errorf("a panic with %v is told as %q, want %q", c.value, got, c.want)
		}
	}
}
