// Package harness starts precept for the whole-system tests.
//
// Main builds precept once per test process, with the race detector if the tests use the race detector. It puts the
// directory of the binary first in PATH, where servers, commands and scripts find it.
//
// The package has a server in a separate process (Process), a scripted model for real agents (Model), simpler models
// (RepeatingServer, InstantModel, SlowModel), a load generator (Load), command runners (RunCommand, MustRun) and
// functions that read stored exchanges (ExchangesInFile, ExchangesInRedis).
package harness

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
)

// Main builds precept, runs a package's tests, and returns the exit code.
func Main(m *testing.M) int {
	dir, err := build()
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	env := map[string]string{"PATH": dir + string(os.PathListSeparator) + os.Getenv("PATH")}
	if os.Getenv("GORACE") == "" {
		env["GORACE"] = "atexit_sleep_ms=0" // without this setting, each program with the race detector sleeps before it exits
	}
	for name, value := range env {
		if err := os.Setenv(name, value); err != nil {
			fmt.Fprintln(os.Stderr, err)
			return 1
		}
	}
	return m.Run()
}

// build builds the binary if the source code has changed, and returns the directory of the binary. All test packages
// can share the directory, because go build replaces the file atomically. In a child process of a test, build only
// reads the directory from the environment.
func build() (dir string, err error) {
	const built = "PRECEPT_BUILT"
	if dir := os.Getenv(built); dir != "" {
		return dir, nil
	}
	root, err := filepath.Abs(Root)
	if err != nil {
		return "", err
	}
	dir = filepath.Join(root, ".cache", "test")
	args := []string{"build", "-buildvcs=false"}
	if Race {
		dir += "-race"
		args = append(args, "-race")
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return "", err
	}
	cmd := exec.Command("go", append(args, "-o", filepath.Join(dir, "precept"), "./cmd/precept")...)
	cmd.Dir = root
	if out, err := cmd.CombinedOutput(); err != nil {
		return "", fmt.Errorf("build precept: %w\n%s", err, out)
	}
	return dir, os.Setenv(built, dir)
}

// Root is the path of the project, relative to the directory of a test package.
const Root = "../.."
