package chaos

import (
	"os"
	"testing"

	"precept/test/harness"
)

// mostResident is how much memory a server under attack may have. The race detector takes several
// times what the program does.
var mostResident = map[bool]int64{false: 256 << 20, true: 1 << 30}[harness.Race] //nolint:gochecknoglobals // a constant by build

func TestMain(m *testing.M) { os.Exit(harness.Main(m)) }
