package redact_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"precept/internal/redact"
)

// A panic value that is not a runtime error may be user data.
func TestSafePanicTextOmitsUserText(t *testing.T) {
	fault := func() (v any) {
		defer func() { v = recover() }()
		var none []int
		return none[len(t.Name())]
	}()
	for _, tc := range []struct {
		value any
		want  string
	}{
		{"the user's words", "string"},
		{errors.New("the user's words"), "*errors.errorString"},
		{fault, "index out of range"},
		{fmt.Errorf("the user's words: %w", fault.(error)), "index out of range"},
	} {
		got := redact.SafePanicText(tc.value)
		if !strings.Contains(got, tc.want) || strings.Contains(got, "words") {
			t.Errorf("SafePanicText(%v) = %q, want it to contain %q but not \"words\"", tc.value, got, tc.want)
		}
	}
}
