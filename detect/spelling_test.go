package detect_test

import "testing"

// Loops takes two spellings of a command for the same call, but not commands with different arguments, folders or
// variables.
func TestRespelledCommandIsTheSameCall(t *testing.T) {
	failed := "make: *** [all] Error 2"
	for _, other := range []string{
		"make all 2>&1", "make all 2>&1 | tail -20", "make all | tail -n 5", "cd /repo && make all", "cd web; make all", "make all;",
		"CI=1 make all", "env CI=1 make all", `bash -lc "make all"`, "sh -c 'make all'", "sudo make all", "make 'all'", `make "all"`,
		"/usr/bin/make all", "make   all  # once more", "timeout 60 make all", "cd /repo && CI=1 make all 2>&1 | tail -20",
		"make all 2>&1 | head -50 | cat", "make all --silent", "make all --", "make all/", "set -e; make all", "stdbuf -oL make all",
		"make all || true", "make all | tee a.log",
	} {
		if got := countLoops(t, bash("make all", failed), bash(other, failed)); got != 1 {
			t.Errorf("%s after make all: got %d loops, want 1", other, got)
		}
		if got := countLoops(t, bash(other, failed), bash("make all", failed)); got != 1 {
			t.Errorf("make all after %s: got %d loops, want 1", other, got)
		}
	}
	missing := "ModuleNotFoundError: No module named 'yaml'"
	if got := countLoops(t, bash("python3 a.py", missing), bash("python a.py", missing)); got != 1 {
		t.Errorf("python a.py after python3 a.py: got %d loops, want 1", got)
	}
	for _, other := range []string{"pip3 install a9", "python3 -m pip install a9"} {
		if got := countLoops(t, bash("pip install a9", missing), bash(other, missing)); got != 1 {
			t.Errorf("%s after pip install a9: got %d loops, want 1", other, got)
		}
	}
	if got := countLoops(t, bash("npm run test", missing), bash("npm test", missing)); got != 1 {
		t.Errorf("npm test after npm run test: got %d loops, want 1", got)
	}
	list := call("shell", `{"command":["bash","-lc","make all"]}`, failed)
	if got := countLoops(t, list, call("shell", `{"command":"make all"}`, failed)); got != 1 {
		t.Errorf("make all as a string after make all as a list: got %d loops, want 1", got)
	}
	for _, pair := range [][2]string{
		{"make all", "make test"},
		{"python3 a.py", "python3 b.py"},
		{"curl https://x.test/a/", "curl https://x.test/a"},
		{"cd a && make all", "cd b && make all"},
		{"A=1 make all", "A=2 make all"},
		{"./a/run.sh", "./b/run.sh"},
		{"make all > a", "make all > b"},
		{"make all | grep x", "make all | grep y"},
		{"make all || true", "make all && true"},
		{"make all &", "make all"},
		{"python3 - <<'E'\nimport a\nE", "python3 - <<'E'\nimport b\nE"},
		{"for f in a b; do make $f; done", "for f in c d; do make $f; done"},
		{"make $(cat a)", "make $(cat b)"},
	} {
		if got := countLoops(t, bash(pair[0], failed), bash(pair[1], failed)); got != 0 {
			t.Errorf("%s, then %s: got %d loops, want none", pair[0], pair[1], got)
		}
	}
}

// In a pipe, the exit code is that of the last command. Loops does not compare it with the exit code of the command
// alone.
func TestPipeExitCodeIsNotCompared(t *testing.T) {
	plain := bash("make all", "make: *** [all] Error 2\n\nCommand exited with code 2")
	piped := bash("make all | tail -5", "make: *** [all] Error 2\n\nCommand exited with code 0")
	if got := countLoops(t, plain, piped); got != 1 {
		t.Errorf("make all with exit code 2, then make all | tail with exit code 0: got %d loops, want 1", got)
	}
	other := bash("make all", "make: *** [all] Error 2\n\nCommand exited with code 3")
	if got := countLoops(t, plain, other); got != 0 {
		t.Errorf("make all with exit code 2, then with exit code 3: got %d loops, want none", got)
	}
}

// After a command that consists only of cd or export, the same command can have a different result. A command that also
// reads, such as "cd web && ls", does not end the loop.
func TestChangedDirectoryOrVariableEndsALoop(t *testing.T) {
	for between, want := range map[string]int{
		"cd web": 0, "export CI=1": 0, "cd web && export CI=1": 0, "cd web && ls": 1, "ls": 1, "echo x": 1,
	} {
		if got := countLoops(t, failedBash("make all"), bash(between, "(no output)"), failedBash("make all")); got != want {
			t.Errorf("%s between two failures: got %d loops, want %d", between, got, want)
		}
	}
}
