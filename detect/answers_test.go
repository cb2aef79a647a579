package detect_test

import (
	"testing"

	"precept/detect"
	"precept/internal/wire"
)

type outcomeRule struct {
	outcome detect.Outcome
	rule    string
}

func errorRule(rule string) outcomeRule { return outcomeRule{detect.Error, rule} }

// okRule expects a success. An empty rule means that no rule decided the outcome.
func okRule(rule string) outcomeRule { return outcomeRule{detect.OK, rule} }

func checkOutcomes(t *testing.T, tool, args string, results map[string]outcomeRule) {
	t.Helper()
	for text, want := range results {
		got := detect.Classify(tool, args, text, 0)
		if got.Outcome != want.outcome || got.Rule != want.rule {
			t.Errorf("%s: result %q: got outcome %s (rule %q), want %s (rule %q)", tool, text, got.Outcome, got.Rule, want.outcome, want.rule)
		}
	}
}

// A change with a failed status is a failure, unless the result is a new object. A search with an empty list is a
// success, whatever the query says.
func TestClassifyReadsStatusAndEmptyLists(t *testing.T) {
	checkOutcomes(t, "send_mail", `{"to":"ann@example.org"}`, map[string]outcomeRule{
		`{"status":"failed","smtp":"550 5.1.1 User unknown","transaction":"tx-6514201555"}`: errorRule("json:status"),
		`{"status":"failed","smtp":"550 5.1.1 User unknown","id":"m7"}`:                     okRule("json"),
	})
	checkOutcomes(t, "get_mail", `{"id":"m7"}`, map[string]outcomeRule{
		`{"status":"failed","smtp":"550 5.1.1 User unknown","transaction":"tx-6514201555"}`: okRule("json"),
	})
	checkOutcomes(t, "web_search", `{"query":"lighthouse keeper storm"}`, map[string]outcomeRule{
		`{"query":"lighthouse keeper interview not found","results":[],"answer":null}`: okRule("json"),
	})
}

// A data record, such as a failed payment, can have the same fields as an error, but is not a failure.
func TestClassifyReadsJSONFields(t *testing.T) {
	checkOutcomes(t, "place_order", `{"id":7}`, map[string]outcomeRule{
		`{"success":false}`:                                 errorRule("json:success"),
		`{"passed":3,"failed":2}`:                           okRule("json"),
		`{"ok":false,"n":1}`:                                errorRule("json:success"),
		`{"succeeded":"False"}`:                             errorRule("json:success"),
		`{"success":0}`:                                     errorRule("json:success"),
		`{"success":0,"a":1,"b":2,"c":3,"d":4}`:             okRule("json"),
		`{"success":1}`:                                     okRule("json"),
		`{"success":true}`:                                  okRule("json:success"),
		`{"ok":true,"message":"not found"}`:                 okRule("json:success"),
		`{"Success":false}`:                                 errorRule("json:success"),
		`{"isError":true,"content":[]}`:                     errorRule("json:is-error"),
		`{"is_error":false,"content":[]}`:                   okRule("json"),
		`{"isError":"true"}`:                                okRule("json"),
		`{"error":"declined"}`:                              errorRule("json:error"),
		`{"err":"declined"}`:                                errorRule("json:error"),
		`{"error_message":"declined"}`:                      errorRule("json:error"),
		`{"Error Message":"declined"}`:                      errorRule("json:error"),
		`{"exception":{"a":1}}`:                             errorRule("json:error"),
		`{"error":""}`:                                      okRule("json"),
		`{"error":" "}`:                                     okRule("json"),
		`{"error":null}`:                                    okRule("json"),
		`{"error":{}}`:                                      okRule("json"),
		`{"error":[]}`:                                      okRule("json"),
		`{"error":false}`:                                   okRule("json"),
		`{"error":0}`:                                       okRule("json"),
		`{"error":"None"}`:                                  okRule("json"),
		`{"error":"no error"}`:                              okRule("json"),
		`{"error":"0"}`:                                     okRule("json"),
		`{"error":"OK"}`:                                    okRule("json"),
		`{"error":1}`:                                       errorRule("json:error"),
		`{"errors":[{"message":"x"}]}`:                      errorRule("json:errors"),
		`{"errors":{"name":"missing"}}`:                     errorRule("json:errors"),
		`{"errors":[]}`:                                     okRule("json"),
		`{"errors":3}`:                                      okRule("json"),
		`{"errors":[{"message":"x"}],"data":{"a":1}}`:       okRule("json"),
		`{"errors":[{"message":"x"}],"data":null}`:          errorRule("json:errors"),
		`{"status":"error"}`:                                errorRule("json:status"),
		`{"result":"Error","a":1,"b":2,"c":3,"d":4,"e":5}`:  errorRule("json:status"),
		`{"status":"failed"}`:                               errorRule("json:status"),
		`{"status":"failed","id":7}`:                        errorRule("json:status"),
		`{"status":"failed","id":7,"at":1}`:                 okRule("json"),
		`{"status":"failed","id":7,"at":1,"reason":"card"}`: errorRule("json:status"),
		`{"status":"failed","reason":"x","a":1,"b":2,"c":3,"d":4,"e":5}`: okRule("json"),
		`{"status":"fail","msg":"x"}`:                                    errorRule("json:status"),
		`{"status":"shipped","reason":"x"}`:                              okRule("json"),
		`{"status":404,"title":"x"}`:                                     errorRule("json:http"),
		`{"statusCode":"500","message":"x"}`:                             errorRule("json:http"),
		`{"cod":"401","message":"x"}`:                                    errorRule("json:http"),
		`{"status":404}`:                                                 okRule("json"),
		`{"status":200,"title":"x"}`:                                     okRule("json"),
		`{"status":399,"title":"x"}`:                                     okRule("json"),
		`{"status":600,"title":"x"}`:                                     okRule("json"),
		`{"status":4040,"title":"x"}`:                                    okRule("json"),
		`{"code":"40a","message":"x"}`:                                   okRule("json"),
		`{"message":"Not Found"}`:                                        errorRule("json:message"),
		`{"detail":"Order not found"}`:                                   errorRule("json:message"),
		`{"message":"Not Found","documentation_url":"x"}`:                errorRule("json:message"),
		`{"message":"Not Found","order":7}`:                              okRule("json"),
		`{"message":"Order placed"}`:                                     okRule("json"),
		`{"message":7}`:                                                  okRule("json"),
		`{"code":7}`:                                                     okRule("json"),
		`{"task_id":"1","status":"running"}`:                             {detect.Pending, "json:status"},
		`{"pid":1,"state":"Queued"}`:                                     {detect.Pending, "json:status"},
		`{"status":"running"}`:                                           okRule("json"),
		`{"order":7,"status":"pending"}`:                                 okRule("json"),
		`{"pid":1,"status":"done"}`:                                      okRule("json"),
		`{"pid":1,"status":"running","a":1,"b":1,"c":1,"d":1,"e":1,"f":1,"g":1}`:   okRule("json"),
		`{"exit_code":3,"stdout":"x"}`:                                             errorRule("exit-code"),
		`{"returncode":"3"}`:                                                       errorRule("exit-code"),
		`{"exit_code":0,"stdout":"x"}`:                                             okRule("exit-code"),
		`{"exit_code":0,"stdout":"x","error":"y"}`:                                 okRule("exit-code"),
		`{"exit_code":"three"}`:                                                    okRule("json"),
		`{"exit_code":null,"error":"y"}`:                                           errorRule("json:error"),
		`{"output":"x","metadata":{"exit_code":1}}`:                                errorRule("exit-code"),
		`{"output":"x","meta":{"exitCode":0}}`:                                     okRule("exit-code"),
		`{"output":"Error: x"}`:                                                    errorRule("text:error-first"),
		`{"output":"all well"}`:                                                    okRule("json"),
		`{"output":"Error: x","a":1,"b":1,"c":1,"d":1}`:                            okRule("json"),
		`{"response":{"error":"x"}}`:                                               errorRule("json:error"),
		`{"response":{"result":{"output":{"error":"x"}}}}`:                         errorRule("json:error"),
		`{"response":{"result":{"output":{"body":{"error":"x"}}}}}`:                okRule("json"),
		`{"data":{"error":"x"}}`:                                                   okRule("json"),
		`{"response":"{\"success\": false}"}`:                                      errorRule("json:success"),
		`{'response': "{'success': False}"}`:                                       errorRule("json:success"),
		`{"error":"The user rejected permission to use this specific tool call."}`: {detect.Refusal, "refusal:opencode"},
		`[{"type":"text","text":"Error: x"}]`:                                      errorRule("text:error-first"),
		`[{"type":"text","text":"fine"},{"type":"text","text":"Error: x"}]`:        okRule(""),
		`[{"type":"text","text":"Error: x"},{"type":"image"}]`:                     okRule("json"),
		`[{"query":"a","success":true},{"query":"b","success":true}]`:              okRule("json:success"),
		`[{"query":"a","success":true},{"query":"b","success":false}]`:             errorRule("json:success"),
		`[{"query":"a","success":true},{"query":"b"}]`:                             okRule("json"),
		`[{"success":false}]`:                                                      okRule("json"),
		`[]`:                                                                       okRule("json"),
		`{"error":"declined"} and more`:                                            okRule(""),
	})
}

// A file can contain an error field. Only an object that has no data fields is a tool's own error.
func TestClassifyReadsJSONFromFiles(t *testing.T) {
	checkOutcomes(t, "read", `{"path":"a.json"}`, map[string]outcomeRule{
		`{"error":"x"}`:                       errorRule("json:error"),
		`{"error":"x","price":3}`:             okRule(""),
		`{}`:                                  okRule(""),
		`[]`:                                  okRule(""),
		`[{"error":"x"}]`:                     okRule(""),
		`[{"type":"text","text":"Error: x"}]`: errorRule("text:error-first"),
	})
	checkOutcomes(t, "bash", shellArgs("cat a.json"), map[string]outcomeRule{
		`{"error":"x"}`:                   errorRule("json:error"),
		`{"error":"x","price":3}`:         okRule(""),
		`[{"query":"x","success":false}]`: errorRule("json:success"),
	})
	checkOutcomes(t, "bash", shellArgs("./query.sh"), map[string]outcomeRule{
		`{"error":"x","price":3}`: errorRule("json:error"),
		`[{"error":"x"}]`:         okRule(""),
	})
}

func TestClassifyReadsEditMessages(t *testing.T) {
	checkOutcomes(t, "Edit", `{"file_path":"/a","old_string":"x"}`, map[string]outcomeRule{
		"The file /a has been updated.":             okRule("edited"),
		"The file /a has been edited successfully.": okRule("edited"),
		"File created successfully at: /a":          okRule("edited"),
		"Wrote 3 lines":                             okRule("edited"),
		"Edit applied":                              okRule("edited"),
		"diff --git a/a b/a":                        okRule("edited"),
		"--- a\n+++ b":                              okRule("edited"),
		"@@ -1 +1 @@":                               okRule("edited"),
		"Here's the result of the change":           okRule("edited"),
		"The edit was not successful":               okRule(""),
		"The file has been updated, but what failed is listed below": okRule(""),
		"No match for the old string":                                errorRule("text:invalid"),
		"The old text did not match":                                 errorRule("text:edit"),
		"Found multiple matches for it":                              errorRule("text:edit"),
		"old_string and new_string are exactly the same":             errorRule("text:edit"),
		"The line 90 is out of range":                                errorRule("text:no-such"),
		"A file of that name already exists":                         errorRule("text:no-such"),
		"Error: it is a folder":                                      errorRule("text:error-first"),
		"Some words that report no outcome":                          okRule(""),
	})
}

func TestErrorMessageInsteadOfContentIsAFailure(t *testing.T) {
	checkOutcomes(t, "read", `{"path":"a"}`, map[string]outcomeRule{
		"Error: a is a folder":                                    errorRule("text:error-first"),
		"Error: one\n2\n3\n4\n5\n6":                               errorRule("text:error-first"),
		"Error: one\n2\n3\n4\n5\n6\n7":                            okRule(""),
		"cat: a: No such file or directory":                       errorRule("text:no-such"),
		"ls: a: Permission denied\nls: b: Permission denied":      errorRule("text:shell"),
		"ls: a: Permission denied\na file":                        okRule(""),
		"plain words":                                             okRule(""),
		"<tool_use_error>a\n2\n3\n4\n5\n6\n7\n8</tool_use_error>": errorRule("text:error-first"),
	})
	checkOutcomes(t, "Grep", `{"pattern":"undefined total"}`, map[string]outcomeRule{
		"Error: undefined: total":            okRule("matches"),
		"ERROR: UNDEFINED TOTAL":             okRule("matches"),
		"Error: bad pattern":                 errorRule("text:error-first"),
		"a.go:3: undefined: total\nError: x": okRule("matches"),
	})
}

// A page that only mentions an error is not a failure.
func TestBrowserErrorPagesAreFailures(t *testing.T) {
	checkOutcomes(t, "WebFetch", `{"url":"http://a"}`, map[string]outcomeRule{
		"<html>\n<title>404 Not Found</title></html>":                                                 errorRule("page:http"),
		"<html>\n<title>Page not found - A</title></html>":                                            errorRule("page:http"),
		"<html><title>Error 503</title></html>":                                                       errorRule("page:http"),
		"<html><title>4040 recipes</title></html>":                                                    okRule(""),
		"<html><title>500 ways to cook an egg, and some of them are in this long book</title></html>": okRule(""),
		"<html>\n<title>A shop</title>404 Not Found</html>":                                           okRule(""),
		"screenshot of [403 Forbidden](http://a)":                                                     errorRule("page:http"),
		"Title: Error 404\nwords":                                                                     errorRule("page:http"),
		"words\n# Error 404":                                                                          errorRule("page:http"),
		"1\n2\n3\n4\n5\n6\n7\n8\n9\n10\n11\n12\n# Error 404":                                          okRule(""),
		"a picture of [a](chrome-error://chromewebdata/)":                                             errorRule("page:unreachable"),
		"this site\nERR_CONNECTION_REFUSED":                                                           errorRule("page:unreachable"),
		"this site\nDNS_PROBE_FINISHED_NXDOMAIN":                                                      errorRule("page:unreachable"),
		"words\nError. Could not transcribe it.":                                                      errorRule("page:unable"),
		"words\nError: the details are unimportant":                                                   okRule(""),
	})
	checkOutcomes(t, "summarise", `{}`, map[string]outcomeRule{
		"words\nError. Could not transcribe it.":             okRule(""),
		"Address: a\nwords\nError. Could not transcribe it.": errorRule("page:unable"),
	})
}

// The error flag (1) does not override a refusal or a search without a match. The success flag (-1) counts only for
// tools that read or edit a file.
func TestErrorAndSuccessFlagsDecideTheOutcome(t *testing.T) {
	for _, tc := range []struct {
		tool, args, text string
		flag             int8
		want             outcomeRule
	}{
		{"lookup", `{}`, "whatever", 1, errorRule("flag")},
		{"lookup", `{}`, `{"error":"x"}`, 1, errorRule("json:error")},
		{"lookup", `{}`, `{"success":true}`, 1, errorRule("flag")},
		{
			"lookup", `{}`, "User rejected the tool call", 1,
			outcomeRule{detect.Refusal, "refusal:cline"},
		},
		{
			"bash", shellArgs("grep x a"), "(no output)\nCommand exited with code 1", 1,
			okRule("nothing-found"),
		},
		{"bash", shellArgs("make"), "x\nCommand exited with code 2", 1, errorRule("exit-code")},
		{"bash", shellArgs("make"), "x\nCommand exited with code 0", 1, errorRule("flag")},
		{"read", `{"path":"a"}`, "Error: x", -1, okRule("flag")},
		{"Edit", `{"path":"a"}`, "Error: x", -1, okRule("flag")},
		{"lookup", `{}`, "Error: x", -1, errorRule("text:error-first")},
		{"bash", shellArgs("make"), "Error: x", -1, errorRule("text:error-first")},
		{"WebFetch", `{}`, "Error: x", -1, errorRule("text:error-first")},
		{"Bash", shellArgs("npm test | tail -3"), "npm error code 1", -1, errorRule("text:npm")},
	} {
		got := detect.Classify(tc.tool, tc.args, tc.text, tc.flag)
		if got.Outcome != tc.want.outcome || got.Rule != tc.want.rule {
			t.Errorf("%s: result %q with flag %d: got outcome %s (rule %q), want %s (rule %q)", tc.tool, tc.text, tc.flag, got.Outcome, got.Rule, tc.want.outcome, tc.want.rule)
		}
	}
}

// Without a terminal (opencode run), opencode itself refuses calls, in the same words as when a user refuses a call.
// Such a session offers the "todowrite" tool without the "question" tool, or has the task in quotes.
func TestSignalsIgnoreHeadlessRefusals(t *testing.T) {
	const (
		rejected   = "The user rejected permission to use this specific tool call."
		withReason = "The user rejected permission to use this specific tool call with the following feedback: smaller steps"
		dismissed  = "The user dismissed this question"
	)
	toolsNamed := func(names ...string) (tools []any) {
		for _, n := range names {
			tools = append(tools, obj{"type": "function", "function": obj{"name": n}})
		}
		return tools
	}
	headlessTools, terminalTools, bashOnly := toolsNamed("bash", "edit", "todowrite"), toolsNamed("bash", "edit", "question", "todowrite"), toolsNamed("bash")
	for _, tc := range []struct {
		name   string
		tools  []any
		task   string
		result string
		want   int
	}{
		{"todowrite without the question tool", headlessTools, "tidy", rejected, 0},
		{"a task in quotes", bashOnly, `"tidy the build"`, rejected, 0},
		{"todowrite with the question tool", terminalTools, "tidy the build", rejected, 1},
		{"neither todowrite nor a task in quotes", bashOnly, "tidy the build", rejected, 1},
		{"quotes inside a task", bashOnly, `"tidy" and "build"`, rejected, 1},
		{"a refusal with the user's reason", headlessTools, `"tidy the build"`, withReason, 1},
		{"a dismissed question", terminalTools, "tidy the build", dismissed, 1},
		{
			"another agent's refusal message", headlessTools, "tidy the build",
			"The user doesn't want to proceed with this tool use.", 1,
		},
	} {
		msgs := chat([]testStep{bash("rm -r build", tc.result)})
		msgs[0] = obj{"role": "user", "content": tc.task}
		msgs = append(msgs, obj{"role": "user", "content": "and now the tests"})
		got := new(detect.Results).Signals(parse(t, wire.Chat, obj{"tools": tc.tools, "messages": msgs}), nil)
		if len(got) != tc.want {
			t.Errorf("%s: got signals %+v, want %d signals", tc.name, got, tc.want)
		}
	}
}

func TestClassifyReadsErrorListsAndTestCounts(t *testing.T) {
	checkOutcomes(t, "list_errors", `{"service":"web"}`, map[string]outcomeRule{
		`{"errors":[{"id":1,"message":"boom"}],"total":1}`: okRule("json"),
		`{"errors":[{"message":"boom"}]}`:                  errorRule("json:errors"),
		`{"error":"no such service"}`:                      errorRule("json:error"),
	})
	checkOutcomes(t, "run_tests", `{"suite":"unit"}`, map[string]outcomeRule{
		`{"passed":12,"failed":2,"errors":0}`: errorRule("json:tests"),
		`{"passed":12,"failed":0,"errors":0}`: okRule("json"),
		`{"failed":2}`:                        okRule("json"),
	})
}

func TestClassifyReadsBoxedAndQuotedErrors(t *testing.T) {
	checkOutcomes(t, "apply_infra", "{}", map[string]outcomeRule{
		"╷\n│ Error: Invalid provider\n│ \n│   on main.tf line 3:\n╵": errorRule("text:error-first"),
	})
	checkOutcomes(t, "web_fetch", `{"url":"https://x.y/z","prompt":"summarize"}`, map[string]outcomeRule{
		"The page explains how a handler returns `Error: not found` and logs the failure.": okRule(""),
		"The page `x` was not found.": errorRule("text:no-such"),
	})
}

// Loops searches a result for words that end in "-ing", such as "running". The search must not read beyond the end of
// the result.
func TestResultCanEndWithActivityWord(t *testing.T) {
	for _, result := range []string{"Enable cookies to continue shopping", "server running", "still compiling", "it is building"} {
		if got := countLoops(t, call("get_page", `{"id":7}`, result)); got != 0 {
			t.Errorf("result %q: got %d loops, want 0", result, got)
		}
	}
}

// The result of a key press contains only Playwright code, so it does not show whether the page changed.
func TestKeyPressWithoutPageIsNotALoop(t *testing.T) {
	press := call("browser_press_key", `{"key":"Tab"}`, "### Ran Playwright code\n```js\nawait page.keyboard.press('Tab');\n```")
	if got := countLoops(t, press, press, press, press, press, press, press); got != 0 {
		t.Errorf("seven key presses: got %d loops, want 0", got)
	}
}

// An agent repeats a benchmark to measure more times, but Loops ignores times when it compares results. Therefore Loops
// must not count benchmarks.
func TestRepeatedBenchmarkIsNotALoop(t *testing.T) {
	for command, loop := range map[string]bool{"hyperfine ./app": false, "go test -bench=. ./a": false, "npm run bench": false, "./app": true} {
		steps := []testStep{bash(command, "Time: 12.1 ms"), bash(command, "Time: 13.4 ms"), bash(command, "Time: 12.2 ms")}
		if got := countLoops(t, steps...) > 0; got != loop {
			t.Errorf("%s three times: loop found = %v, want %v", command, got, loop)
		}
	}
}

// Without an exit code in the result, a command with several lines of output may run twice, because the agent may want
// to read another part of the output.
func TestCommandWithALongerOutputIsALoopOnceRunThreeTimes(t *testing.T) {
	run := bash("python3 forecast.py", "day 1: 12 orders\nday 2: 15 orders\nday 3: 11 orders")
	again := bash("python3 forecast.py | tail -3", "day 1: 12 orders\nday 2: 15 orders\nday 3: 11 orders")
	if got := countLoops(t, run, again); got != 0 {
		t.Errorf("two runs: got %d loops, want 0", got)
	}
	if got := countLoops(t, run, again, run); got != 1 {
		t.Errorf("three runs: got %d loops, want 1", got)
	}
}
