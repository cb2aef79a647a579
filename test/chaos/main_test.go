package chaos

import (
	"os"
	"testing"

	"precept/test/harness"
)

// maxResident is a server's maximum resident memory under load, in bytes. The race detector needs several times as
// much.
var maxResident = map[bool]int64{false: 256 << 20, true: 1 << 30}[harness.Race] //nolint:gochecknoglobals // a constant by build

func TestMain(m *testing.M) { os.Exit(harness.Main(m)) }
