package redact_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"precept/internal/redact"
)

// The value of a panic may be user data; the text of a runtime error is reported.
func TestPanicKindQuotesRuntimeErrorsOnly(t *testing.T) {
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
			t.Errorf("a panic with %v is reported as %q, want %q", c.value, got, c.want)
		}
	}
}
