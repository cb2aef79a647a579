package detect_test

import (
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"

	"precept/detect"
)

// Exit code 1 is a failure of make, but not of grep. Classify cannot read a command that the script builds at run time.
func TestClassifyReadsCommandsInScripts(t *testing.T) {
	for program, want := range map[string]detect.Outcome{
		`tools.exec_command({cmd: "grep -n \"x\" a.go"})`:                        detect.OK,
		`tools.exec_command({'cmd': 'grep -n x a.go'})`:                          detect.OK,
		"tools.exec_command({cmd: `grep -n x a.go`})":                            detect.OK,
		`tools.exec_command({cmd: "gr\x65p -n \'x\' \u0061.go\n"})`:              detect.OK,
		`tools.exec_command({cmd: "grep \q a.go"})`:                              detect.Error,
		`tools.exec_command({cmd: "grep x`:                                       detect.Error,
		`tools.exec_command({cmd: command})`:                                     detect.Error,
		`tools.exec_command({dir: "x"}); tools.read({cmd: "grep"})`:              detect.Error,
		"tools.exec_command({cmd: `grep ${x} a.go`})":                            detect.Error,
		`tools.exec_command({cmd: "make"})`:                                      detect.Error,
		`tools.exec_command({cmd: "grep x"}); tools.exec_command({cmd: "make"})`: detect.Error,
	} {
		if got := detect.Classify("exec", program, scriptResult(commandResult(1, "")), 0); got.Outcome != want {
			t.Errorf("script %s with exit code 1: got outcome %s (rule %q), want %s", program, got.Outcome, got.Rule, want)
		}
	}
	const deployScript = `tools.exec_command({cmd: "./deploy"})`
	for text, want := range map[string]detect.Outcome{
		scriptResult(commandResult(0, "fine"), "", commandResult(0, "fine")):               detect.OK,
		scriptResult(commandResult(0, "fine"), "and some words"):                           detect.OK,
		scriptResult(`{"exit_code":"3","output":"x"}`):                                     detect.OK,
		scriptResult(`{"exit_code":3,"output":["x"]}`):                                     detect.OK,
		scriptResult(commandResult(0, "fine"), commandResult(4, ""), commandResult(0, "")): detect.Error,
	} {
		if got := detect.Classify("exec", deployScript, text, 0); got.Outcome != want {
			t.Errorf("result %q: got outcome %s (rule %q), want %s", text, got.Outcome, got.Rule, want)
		}
	}
}

// Exit code 1 is a failure of make, but not of grep, diff and test.
func TestClassifyReadsCommandArguments(t *testing.T) {
	for args, want := range map[string]detect.Outcome{
		`{"command":"grep -n x a.go"}`:                              detect.OK,
		`{"cmd":["grep","-n","x","a.go"]}`:                          detect.OK,
		`{"command":["bash","-lc","grep -n x a.go"]}`:               detect.OK,
		`{"command":["/bin/zsh","-c","grep -n x"]}`:                 detect.OK,
		`{"commands":[{"command":"grep -n x a.go"}]}`:               detect.OK,
		`{"commands":[{"cmd":"grep -n x a.go"}]}`:                   detect.OK,
		`{"commands":["cd web","grep -n x a.go"]}`:                  detect.OK,
		`{"command":["make","grep"]}`:                               detect.Error,
		`{"commands":["grep -n x a.go","make"]}`:                    detect.Error,
		`{"command":["bash","-lc","make"]}`:                         detect.Error,
		`{"command":"find . -name a.go && make"}`:                   detect.Error,
		`{"command":"diff a b"}`:                                    detect.OK,
		`{"command":"make"}`:                                        detect.Error,
		`{"command":"test -f a.go"}`:                                detect.OK,
		`{}`:                                                        detect.Error,
		`{"command":""}`:                                            detect.Error,
		`{"command":"grep -n ` + strings.Repeat("x", 20_000) + `"}`: detect.OK,
	} {
		if got := detect.Classify("bash", args, "(no output)\n\nCommand exited with code 1", 0); got.Outcome != want {
			t.Errorf("%.60s with exit code 1: got outcome %s (rule %q), want %s", args, got.Outcome, got.Rule, want)
		}
	}
}

// A shell's message that a command is still running means that the outcome is pending. The same text in a file is
// content.
func TestRunningCommandIsPending(t *testing.T) {
	for text, want := range map[string]detect.Outcome{
		"Process running with session ID 7":                               detect.Pending,
		"Chunk ID: 1\nWall time: 1 s\nProcess running with session ID 7":  detect.Pending,
		"Script running with cell ID 3\nWall time 0.2 seconds\nOutput:\n": detect.Pending,
		"Command running in background with ID: b7":                       detect.Pending,
		"Running in background":                                           detect.Pending,
		"Command was moved to the background":                             detect.Pending,
		"Command started in background with pid 3":                        detect.Pending,
		"Background command started (7)":                                  detect.Pending,
		"Command 'make' continues in the background":                      detect.Pending,
		"Command make goes on in background":                              detect.Pending,
		"<shell 4 is still running>":                                      detect.Pending,
		"The command is still running after 30 s":                         detect.Pending,
		"Process 7 is still running":                                      detect.Pending,
		"<task_id>b7</task_id>\n<status>running</status>\n<time>9</time>": detect.Pending,
		"[1] make is still running":                                       detect.Pending,
		"my server is still running":                                      detect.OK,
		"a\nb\nCommand running in background with ID: b7":                 detect.OK,
		"Output:\nProcess running with session ID 7":                      detect.OK,
		"1\n2\n3\n4\n5\n6\nProcess running with session ID 7":             detect.OK,
	} {
		if got := detect.Classify("bash", `{"command":"./serve"}`, text, 0); got.Outcome != want {
			t.Errorf("result %q: got outcome %s (rule %q), want %s", text, got.Outcome, got.Rule, want)
		}
		if got := detect.Classify("Read", `{"file_path":"notes.md"}`, text, 0); got.Outcome != detect.OK {
			t.Errorf("file with text %q: got outcome %s (rule %q), want ok", text, got.Outcome, got.Rule)
		}
	}
}

// The refuser is a policy, a harness without a user (headless), or a user.
func TestRefusalNamesRefuser(t *testing.T) {
	for text, want := range map[string]detect.Refuser{
		`This "rm x" was denied by permission rule 3`:                            detect.PolicyRefuser,
		`Tool "Bash" denied by permission rule`:                                  detect.PolicyRefuser,
		`Tool execution was denied by policy`:                                    detect.PolicyRefuser,
		`Error: Tool "Bash" denied by permission rule`:                           detect.PolicyRefuser,
		`<tool_use_error>Tool "Bash" denied by permission rule</tool_use_error>`: detect.PolicyRefuser,
		`Error executing tool: Tool execution denied by policy`:                  detect.PolicyRefuser,
		`Tool "Bash" requires approval in a TTY`:                                 detect.HeadlessRefuser,
		`Tool "Bash" requires user approval`:                                     detect.HeadlessRefuser,
		`Tool run_shell needs approval, and this is non-interactive mode`:        detect.HeadlessRefuser,
		`The user doesn't want to proceed with this tool use.`:                   detect.UserRefuser,
		`The tool "Bash" is fine`:                                                detect.NoRefuser,
		`Tool "Bash" is fine`:                                                    detect.NoRefuser,
	} {
		got := detect.Classify("bash", `{"command":"rm x"}`, text, 1)
		if got.Refuser != want || (got.Outcome == detect.Refusal) != (want != detect.NoRefuser) {
			t.Errorf("%q: got outcome %s, refuser %q (rule %q), want refuser %q", text, got.Outcome, got.Refuser, got.Rule, want)
		}
		if wrapped := detect.Classify("bash", `{"command":"rm x"}`, mustJSON(t, obj{"output": text}), 0); want == detect.UserRefuser && wrapped.Refuser != want {
			t.Errorf("%q in a JSON object: got outcome %s, refuser %q, want refuser %q", text, wrapped.Outcome, wrapped.Refuser, want)
		}
	}
}

// The result of a successful edit can show the changed text, which can contain error messages, below the first line.
func TestEditFailureIsReadFromTheFirstLine(t *testing.T) {
	for text, want := range map[string]detect.Outcome{
		"String to replace was not found in the file":      detect.Error,
		"No match for old_string":                          detect.Error,
		"old_string does not match":                        detect.Error,
		"Found multiple occurrences of old_string":         detect.Error,
		"old_string is not unique":                         detect.Error,
		"The string must be unique":                        detect.Error,
		"a.go is not an absolute path":                     detect.Error,
		"The file does not exist":                          detect.Error,
		"The file must be read before it is written":       detect.Error,
		"old_string and new_string are exactly the same":   detect.Error,
		"old_string and new_string are identical":          detect.Error,
		"apply_patch verification failed":                  detect.Error,
		"new_string is required":                           detect.Error,
		"a.go already exists":                              detect.Error,
		"Found 3 matches of the string":                    detect.Error,
		"Line 900 is out of range":                         detect.Error,
		"The file a.go has been updated":                   detect.OK,
		"diff --git a/a.go b/a.go\n-not found":             detect.OK,
		"--- a/a.go\n+++ b/a.go\n-error: not found":        detect.OK,
		"@@ -1 +1 @@\n-cannot\n+can":                       detect.OK,
		"Here's the result of the edit:\n 1 errors.New(x)": detect.OK,
	} {
		if got := detect.Classify("Edit", `{"file_path":"a.go","old_string":"a","new_string":"b"}`, text, 0); got.Outcome != want {
			t.Errorf("result %q: got outcome %s (rule %q), want %s", text, got.Outcome, got.Rule, want)
		}
	}
}

func TestSignatureContainsTheFailureMessage(t *testing.T) {
	for text, want := range map[string]string{
		`{"error":"no such stage"}`:                                       "no such stage",
		`{"errors":[{"message":"no such stage"},{"message":"nor that"}]}`: "no such stage\nnor that",
		`[{"error":"no such stage"}]`:                                     "no such stage",
		`{"data":null,"detail":"no such stage"}`:                          "no such stage",
		`{"error":{"message":"no such stage","code":7}}`:                  "no such stage",
		"Exit code 2\nno such stage":                                      "no such stage",
		"<returncode>2</returncode>\n<output>\nno such stage\n</output>":  "no such stage",
		"Process exited with code 2\nOutput:\nno such stage\n":            "no such stage",
		"╔════╗\n║ no such stage ║\n╚════╝":                               "no such stage",
		"│ Error: no such stage":                                          "Error: no such stage",
		"\x1b[31merror\x1b[0m: no such stage":                             "error: no such stage",
	} {
		if got := detect.Signature(text); !strings.Contains(got, want) || strings.ContainsAny(got, "\x1b╔") {
			t.Errorf("Signature(%q) = %q, want it to contain %q, but no box characters or colours", text, got, want)
		}
	}
}

// The error of Inspect describes the first ten faults. For the other faults, the error lists only the line numbers.
func TestInspectDescribesTenFaultsAndContinues(t *testing.T) {
	good := mustJSON(t, obj{"id": "good", "messages": chat(sampleSession)})
	var file strings.Builder
	for i := range 13 {
		fmt.Fprintf(&file, `{"id":"bad-%d","messages":"none"}`+"\n", i)
	}
	file.WriteString(good + "\n")
	found, err := inspect(t, file.String())
	if len(found) == 0 || err == nil {
		t.Fatalf("Inspect: %d findings, err = %v, want at least one finding and an error", len(found), err)
	}
	for _, part := range []string{"line 1 (bad-0)", "line 10 (bad-9)", "these lines cannot be read either: 11, 12, 13"} {
		if !strings.Contains(err.Error(), part) {
			t.Errorf("Inspect: err = %v, want it to contain %q", err, part)
		}
	}
	if strings.Contains(err.Error(), "bad-10") {
		t.Errorf("Inspect: err = %v, want no description for the eleventh fault, bad-10", err)
	}
}

func TestInspectReturnsReaderError(t *testing.T) {
	err := detect.Inspect(io.MultiReader(strings.NewReader(" "), brokenPipe{}), func(detect.Finding) error { return nil })
	if !errors.Is(err, errPipe) {
		t.Errorf("Inspect: err = %v, want %v", err, errPipe)
	}
}

var errPipe = errors.New("the pipe is broken")

type brokenPipe struct{}

func (brokenPipe) Read([]byte) (int, error) { return 0, errPipe }
