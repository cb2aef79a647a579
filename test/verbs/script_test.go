package verbs

import (
	"errors"
	"os/exec"
	"path/filepath"
	"strconv"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"
)

// TestScripts runs the scripts in testdata/script, which call precept commands.
func TestScripts(t *testing.T) {
	testscript.Run(t, testscript.Params{
		Dir:                 "testdata/script",
		RequireExplicitExec: true,
		RequireUniqueNames:  true,
		Cmds:                map[string]func(*testscript.TestScript, bool, []string){"exits": exits},
		Setup: func(e *testscript.Env) error {
			// The scripts must not use an upstream from the environment of the test.
			e.Setenv("OPENAI_BASE_URL", "")
			e.Setenv("NO_COLOR", "1")
			e.Setenv("XDG_RUNTIME_DIR", filepath.Join(e.WorkDir, ".run"))
			e.Setenv("XDG_STATE_HOME", filepath.Join(e.WorkDir, ".state"))
			e.Setenv("XDG_DATA_HOME", filepath.Join(e.WorkDir, ".share"))
			return nil
		},
	})
}

// exits implements a script command that checks an exit code, as in "exits 2 precept serve --no-such-flag".
func exits(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 2 {
		ts.Fatalf("usage: exits STATUS COMMAND...")
	}
	err, status := ts.Exec(args[1], args[2:]...), 0
	if ended, ok := errors.AsType[*exec.ExitError](err); ok {
		status = ended.ExitCode()
	} else {
		ts.Check(err)
	}
	if strconv.Itoa(status) != args[0] {
		ts.Fatalf("%v: got exit code %d, want %s", args[1:], status, args[0])
	}
}
