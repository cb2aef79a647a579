package browser

import (
	"os"
	"testing"

	"precept/test/harness"
)

func TestMain(m *testing.M) { os.Exit(harness.Main(m)) }
