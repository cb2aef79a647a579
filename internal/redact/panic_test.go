package redact_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"precept/internal/redact"
)

// The value of a panic may be user data. PanicKind returns only the type of the value, and the text of a runtime error.
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
			t.Errorf("PanicKind of a panic with %v: got %q, want a text with %q and without \"words\"", c.value, got, c.want)
		}
	}
}
