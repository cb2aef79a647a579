package detect_test

import (
	"testing"

	"go.uber.org/goleak"
)

// TestMain fails if tests leave goroutines.
func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }
