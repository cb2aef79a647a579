package main

import (
	"context"
	"os"
	"strings"
)

// An invocation contains what a command otherwise takes from the process: the standard streams and the environment.
func Example() {
	w := &invocation{
		stdin:  strings.NewReader(`{"messages":[{"role":"user","content":"Run the tests."},{"role":"assistant","content":null,"tool_calls":[{"id":"c1","type":"function","function":{"name":"bash","arguments":"{\"command\":\"go test\"}"}}]},{"role":"tool","tool_call_id":"c1","content":"bash: go: command not found"}]}`),
		stdout: os.Stdout, stderr: os.Stdout,
		env: func(string) (string, bool) { return "", false },
	}
	w.execute(context.Background(), []string{"inspect", "-"})
	// Output:
	// [0] user neutral (task)
	//   [2] tool_result error bash (text:shell)
}
