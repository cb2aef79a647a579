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

func TestInspectMemoryIsAtMostTwiceTheTranscript(t *testing.T) {
	if testing.Short() {
		t.Skip("writes a 40 MB transcript")
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
	base, size := peakMemory(t, "version"), info.Size() // base is the memory for a command without work
	got := peakMemory(t, "inspect", "--json", path) - base
	t.Logf("%d MB transcript: precept inspect uses %d MB more than precept version, which uses %d MB", size>>20, got>>20, base>>20)
	if got > 2*size {
		t.Errorf("memory of precept inspect above precept version: got %d MB, want at most twice the %d MB transcript", got>>20, size>>20)
	}
}

// peakMemory runs a precept command and returns its largest resident size in bytes.
func peakMemory(t *testing.T, args ...string) int64 {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "precept", args...)
	if text, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("precept %q: %v\n%s", args, err, text)
	}
	usage, ok := cmd.ProcessState.SysUsage().(*syscall.Rusage)
	if !ok {
		t.Fatal("the operating system does not report a process's memory")
	}
	return usage.Maxrss << 10
}
