package detect_test

import (
	"testing"

	"precept/detect"
)

func TestResultsAreClassifiedByFieldsOrMessage(t *testing.T) {
	checkResults(t, []resultCase{
		{
			"status and title", "track", `{}`,
			`{"type":"about:blank","title":"Bad Request","status":400}`, 0, detect.Error,
			"json:http",
		},
		{
			"status in a nested string", "news", `{}`,
			`{"error":"","response":"{\"status\":\"403\",\"msg\":\"Key required\"}"}`, 0,
			detect.Error, "json:http",
		},
		{
			"Python literal in a string", "track", `{}`,
			`{"error": "", "response": "{'success': False, 'message': 'nothing there'}"}`, 0,
			detect.Error, "json:success",
		},
		{
			"only a message", "movies", `{}`, `{'message': 'Not Found'}`, 0, detect.Error,
			"json:message",
		},
		{
			"only a nested message", "movies", `{}`,
			`{"error":"","response":"{'message': 'page must be a number: two'}"}`, 0, detect.Error,
			"json:message",
		},
		{"only a message about a success", "movies", `{}`, `{"message":"Order created"}`, 0, detect.OK, ""},
		{"success false", "pay", `{}`, `{"success":false}`, 0, detect.Error, "json:success"},
		{
			"error object", "pay", `{}`, `{"error":{"code":7,"message":"declined"}}`, 0,
			detect.Error, "json:error",
		},
		{
			"only data", "run", `{}`,
			`{"data":"building\nerror: no rule to make target demo\n\nExit code: 2"}`, 0,
			detect.Error, "exit-code",
		},
		{
			"output under an unknown key", "run", `{}`,
			`{"func":"building\nerror: no rule to make target demo\n\nExit code: 2"}`, 0,
			detect.Error, "exit-code",
		},
		{
			"data with a second field", "get_file", `{}`,
			`{"data":"error: none yet\n\nExit code: 2","path":"notes.md"}`, 0, detect.OK, "json",
		},
		{
			"MCP content parts", "mcp__x__y", `{}`,
			`{"content":[{"type":"text","text":"all good"}],"isError":true}`, 0, detect.Error,
			"json:is-error",
		},
		{
			"text parts", "mcp__x__y", `{}`, `[{"type":"text","text":"Error: no such user"}]`, 0,
			detect.Error, "text:",
		},
		{
			"truncated object", "movies", `{}`,
			`{"error": "", "response": "{'result': [{'title': 'A', 'plot': 'long ...`, 0, detect.OK,
			"",
		},
		{
			"running task", "start_task", `{}`, `{"task_id":"t1","status":"running"}`, 0,
			detect.Pending, "json:status",
		},
		{
			"error sentence", "book_room", `{}`, "Error: room 12 is taken", 0, detect.Error,
			"text:error-first",
		},
		{
			"error sentence in an assignment", "book_room", `{}`, `# r_1 = "Error: room 12 is taken"`, 0,
			detect.Error, "text:error-first",
		},
		{
			"sentence with could not", "Search", `{}`, "Could not find [Lamp]. Similar: ['Lamps', 'Light']", 0,
			detect.Error, "text:unable",
		},
		{"exception name", "run", `{}`, "KeyError: 'price'", 0, detect.Error, "text:"},
		{
			"page with the title Error 404", "FileReader", `{"request":"open it"}`,
			"Address: file:///srv/a.pdf\nTitle: Error 404\nViewport: 1\n## Error 404\n\nFile not found",
			0, detect.Error, "page:",
		},
		{
			"browser error page", "browser_click", `{}`,
			"I clicked 'x'.\n\nHere is a screenshot of [example.org](chrome-error://chromewebdata/).",
			0, detect.Error, "page:unreachable",
		},
		{
			"error on its own line", "FileSurfer", `{"request":"hear it"}`,
			"Address: file:///a.mp3\n### Transcript:\nError. Could not transcribe it.", 0,
			detect.Error, "page:",
		},
		{
			"HTTP status", "fetch_api", `{}`, "Request failed with status code 503", 0, detect.Error,
			"",
		},
		{
			"edit with text missing in the file", "Edit", `{"file_path":"/a","old_string":"x"}`,
			"String to replace not found in file.\nString: x", 0, detect.Error, "",
		},
		{
			"edit with ambiguous text", "edit", `{"path":"a","oldText":"x"}`,
			"Found 2 occurrences of the text in a. The text must be unique.", 0, detect.Error,
			"text:",
		},
		{
			"edit before reading the file", "Edit", `{"file_path":"/a"}`,
			"File has not been read yet. Read it first before writing to it.", 0, detect.Error, "",
		},
		{
			"relative path", "str_replace_editor", `{"command":"view","path":"a"}`,
			"The path a is not an absolute path, it should start with `/`.", 0, detect.Error, "",
		},
		{"missing file", "Read", `{"file_path":"/a"}`, "File does not exist.", 0, detect.Error, ""},
		{
			"ENOENT", "read", `{"path":"/a"}`, "ENOENT: no such file or directory, access '/a'", 0,
			detect.Error, "",
		},
	})
}

func TestHarnessRefusalsNameTheRefuser(t *testing.T) {
	for _, tc := range []struct {
		text string
		flag int8
		want detect.Refuser
	}{
		{
			"The user doesn't want to proceed with this tool use. The tool use was rejected (eg. if it was a file edit, the new_string was NOT written to the file). To tell you how to proceed, the user said:\nuse tabs",
			1, detect.UserRefuser,
		},
		{
			"The user doesn't want to take this action right now. STOP what you are doing and wait for the user to tell you how to proceed.",
			1, detect.UserRefuser,
		},
		{"[Request interrupted by user for tool use]", 1, detect.UserRefuser},
		{"[Request interrupted by user]", 0, detect.UserRefuser},
		{
			"Claude requested permissions to write to /a, but you haven't granted it yet.", 1,
			detect.HeadlessRefuser,
		},
		{"This command requires approval", 1, detect.HeadlessRefuser},
		{"The user rejected permission to use this specific tool call.", 0, detect.UserRefuser},
		{
			"The user rejected permission to use this specific tool call with the following feedback: smaller steps",
			0, detect.UserRefuser,
		},
		{"Error: The user rejected permission to use this specific tool call.", 0, detect.UserRefuser},
		{"The user dismissed this question", 0, detect.UserRefuser},
		{"User aborted the command", 0, detect.UserRefuser},
		{"Tool execution aborted", 0, detect.UserRefuser},
		{
			"The user has specified a rule which prevents you from using this specific tool call.",
			0, detect.PolicyRefuser,
		},
		{"exec command rejected by user", 0, detect.UserRefuser},
		{"aborted by user after 4.2s", 0, detect.UserRefuser},
		{"Chunk ID: a1\nWall time: 4.2 seconds\naborted by user after 4.2s", 0, detect.UserRefuser},
		{
			`This "run_shell_command" invocation was denied by permission rules for this workspace.`,
			0, detect.PolicyRefuser,
		},
		{"[Operation Cancelled] Reason: User pressed escape", 0, detect.UserRefuser},
		{"User did not allow tool call", 0, detect.UserRefuser},
		{"Command was cancelled by user before it could complete.", 0, detect.UserRefuser},
		{
			`{"error":"Tool \"run_commands\" requires approval in a TTY session -- NOT a tool or system failure."}`,
			0, detect.HeadlessRefuser,
		},
		{"Tool execution denied by user.", 0, detect.UserRefuser},
		{"User rejected the tool call", 0, detect.UserRefuser},
		{"Command aborted", 0, detect.UserRefuser},
		{"building\nlinking\n\nCommand aborted", 0, detect.UserRefuser},
		{"Operation aborted", 0, detect.UserRefuser},
		{"Permission denied by user", 0, detect.UserRefuser},
		{"Tool execution was not approved.", 0, detect.UserRefuser},
		{
			"The user has declined to run this tool. DO NOT attempt to call this tool again.", 1,
			detect.UserRefuser,
		},
		{"Permission denied and could not request permission from user", 0, detect.HeadlessRefuser},
		{"Permission to use Bash with command rm has been denied.", 1, detect.PolicyRefuser},
	} {
		got := detect.Classify("bash", deployArgs, tc.text, tc.flag)
		if got.Outcome != detect.Refusal || got.Refuser != tc.want {
			t.Errorf("%q: got outcome %s, refuser %q (rule %q), want a refusal by %q", tc.text, got.Outcome, got.Refuser, got.Rule, tc.want)
		}
	}
	if got := detect.Classify("read", `{"path":"notes.md"}`, "Command aborted", 0); got.Outcome == detect.Refusal {
		t.Errorf("file with a refusal message: got judgement %+v, want no refusal", got)
	}
	if got := detect.Classify("bash", deployArgs, "bash: /srv/x: Permission denied", 0); got.Outcome != detect.Error {
		t.Errorf("Permission denied by the file system: got judgement %+v, want an error", got)
	}
}
