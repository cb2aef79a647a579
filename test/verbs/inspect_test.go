package verbs

import (
	"bufio"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// A long transcript needs its own bytes and little more: the memory above that of an idle command stays below twice
// the size of the file.
func TestInspectMemoryIsBelowTwiceTheTranscript(t *testing.T) {
	if testing.Short() {
		t.Skip("the transcript has 40 MB")
	}
	path := filepath.Join(t.TempDir(), "long.json")
	file, err := os.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	out := bufio.NewWriter(file)
	fmt.Fprint(out, `{"id":"long","messages":[{"role":"user","content":"Build it."}`)
	for n := range 20_000 {
		fmt.Fprintf(out, `,{"role":"assistant","content":"","tool_calls":[{"id":"c%d","type":"function","function":{"name":"bash","arguments":"{\"command\":\"make step-%d\"}"}}]}`, n, n)
		fmt.Fprintf(out, `,{"role":"tool","tool_call_id":"c%d","content":"%s\nstep %d done"}`, n, strings.Repeat("compiling one more file of many\\n", 55), n)
	}
	fmt.Fprint(out, "]}\n")
	if err := out.Flush(); err != nil {
		t.Fatal(err)
	}
	info, err := file.Stat()
	if err != nil {
		t.Fatal(err)
	}
	if err := file.Close(); err != nil {
		t.Fatal(err)
	}
	idle, size := peakMemory(t, "version"), info.Size()
	got := peakMemory(t, "inspect", "--json", path) - idle
	t.Logf("%d MB of transcript: %d MB above the %d MB of an idle verb", size>>20, got>>20, idle>>20)
	if got > 2*size {
		t.Errorf("got %d MB above an idle verb, want at most twice the %d MB of the transcript", got>>20, size>>20)
	}
}

// peakMemory returns the largest resident size of a command, in bytes.
func peakMemory(t *testing.T, args ...string) int64 {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "precept", args...)
	if text, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("got %v from %q, want no error: %s", err, args, text)
	}
	usage, ok := cmd.ProcessState.SysUsage().(*syscall.Rusage)
	if !ok {
		t.Fatal("the system reports no memory of processes")
	}
	return usage.Maxrss << 10
}
