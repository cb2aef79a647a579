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

func errorBy(rule string) outcomeRule { return outcomeRule{detect.Error, rule} }

// An empty rule means that no rule found an outcome.
func okBy(rule string) outcomeRule { return outcomeRule{detect.OK, rule} }

func checkOutcomes(t *testing.T, tool, args string, results map[string]outcomeRule) {
	t.Helper()
	for text, want := range results {
		got := detect.Classify(tool, args, text, 0)
		if got.Outcome != want.outcome || got.Rule != want.rule {
			t.Errorf("%s: result %q: got outcome %s (rule %q), want %s (rule %q)", tool, text, got.Outcome, got.Rule, want.outcome, want.rule)
		}
	}
}

// A field in a data record is not an error.
func TestJSONFailureFieldsAreErrors(t *testing.T) {
	checkOutcomes(t, "place_order", `{"id":7}`, map[string]outcomeRule{
		`{"success":false}`:                                 errorBy("json:success"),
		`{"passed":3,"failed":2}`:                           okBy("json"),
		`{"ok":false,"n":1}`:                                errorBy("json:success"),
		`{"succeeded":"False"}`:                             errorBy("json:success"),
		`{"success":0}`:                                     errorBy("json:success"),
		`{"success":0,"a":1,"b":2,"c":3,"d":4}`:             okBy("json"),
		`{"success":1}`:                                     okBy("json"),
		`{"success":true}`:                                  okBy("json:success"),
		`{"ok":true,"message":"not found"}`:                 okBy("json:success"),
		`{"Success":false}`:                                 errorBy("json:success"),
		`{"isError":true,"content":[]}`:                     errorBy("json:is-error"),
		`{"is_error":false,"content":[]}`:                   okBy("json"),
		`{"isError":"true"}`:                                okBy("json"),
		`{"error":"declined"}`:                              errorBy("json:error"),
		`{"err":"declined"}`:                                errorBy("json:error"),
		`{"error_message":"declined"}`:                      errorBy("json:error"),
		`{"Error Message":"declined"}`:                      errorBy("json:error"),
		`{"exception":{"a":1}}`:                             errorBy("json:error"),
		`{"error":""}`:                                      okBy("json"),
		`{"error":" "}`:                                     okBy("json"),
		`{"error":null}`:                                    okBy("json"),
		`{"error":{}}`:                                      okBy("json"),
		`{"error":[]}`:                                      okBy("json"),
		`{"error":false}`:                                   okBy("json"),
		`{"error":0}`:                                       okBy("json"),
		`{"error":"None"}`:                                  okBy("json"),
		`{"error":"no error"}`:                              okBy("json"),
		`{"error":"0"}`:                                     okBy("json"),
		`{"error":"OK"}`:                                    okBy("json"),
		`{"error":1}`:                                       errorBy("json:error"),
		`{"errors":[{"message":"x"}]}`:                      errorBy("json:errors"),
		`{"errors":{"name":"missing"}}`:                     errorBy("json:errors"),
		`{"errors":[]}`:                                     okBy("json"),
		`{"errors":3}`:                                      okBy("json"),
		`{"errors":[{"message":"x"}],"data":{"a":1}}`:       okBy("json"),
		`{"errors":[{"message":"x"}],"data":null}`:          errorBy("json:errors"),
		`{"status":"error"}`:                                errorBy("json:status"),
		`{"result":"Error","a":1,"b":2,"c":3,"d":4,"e":5}`:  errorBy("json:status"),
		`{"status":"failed"}`:                               errorBy("json:status"),
		`{"status":"failed","id":7}`:                        errorBy("json:status"),
		`{"status":"failed","id":7,"at":1}`:                 okBy("json"),
		`{"status":"failed","id":7,"at":1,"reason":"card"}`: errorBy("json:status"),
		`{"status":"failed","reason":"x","a":1,"b":2,"c":3,"d":4,"e":5}`: okBy("json"),
		`{"status":"fail","msg":"x"}`:                                    errorBy("json:status"),
		`{"status":"shipped","reason":"x"}`:                              okBy("json"),
		`{"status":404,"title":"x"}`:                                     errorBy("json:http"),
		`{"statusCode":"500","message":"x"}`:                             errorBy("json:http"),
		`{"cod":"401","message":"x"}`:                                    errorBy("json:http"),
		`{"status":404}`:                                                 okBy("json"),
		`{"status":200,"title":"x"}`:                                     okBy("json"),
		`{"status":399,"title":"x"}`:                                     okBy("json"),
		`{"status":600,"title":"x"}`:                                     okBy("json"),
		`{"status":4040,"title":"x"}`:                                    okBy("json"),
		`{"code":"40a","message":"x"}`:                                   okBy("json"),
		`{"message":"Not Found"}`:                                        errorBy("json:message"),
		`{"detail":"Order not found"}`:                                   errorBy("json:message"),
		`{"message":"Not Found","documentation_url":"x"}`:                errorBy("json:message"),
		`{"message":"Not Found","order":7}`:                              okBy("json"),
		`{"message":"Order placed"}`:                                     okBy("json"),
		`{"message":7}`:                                                  okBy("json"),
		`{"code":7}`:                                                     okBy("json"),
		`{"task_id":"1","status":"running"}`:                             {detect.Pending, "json:status"},
		`{"pid":1,"state":"Queued"}`:                                     {detect.Pending, "json:status"},
		`{"status":"running"}`:                                           okBy("json"),
		`{"order":7,"status":"pending"}`:                                 okBy("json"),
		`{"pid":1,"status":"done"}`:                                      okBy("json"),
		`{"pid":1,"status":"running","a":1,"b":1,"c":1,"d":1,"e":1,"f":1,"g":1}`:   okBy("json"),
		`{"exit_code":3,"stdout":"x"}`:                                             errorBy("exit-code"),
		`{"returncode":"3"}`:                                                       errorBy("exit-code"),
		`{"exit_code":0,"stdout":"x"}`:                                             okBy("exit-code"),
		`{"exit_code":0,"stdout":"x","error":"y"}`:                                 okBy("exit-code"),
		`{"exit_code":"three"}`:                                                    okBy("json"),
		`{"exit_code":null,"error":"y"}`:                                           errorBy("json:error"),
		`{"output":"x","metadata":{"exit_code":1}}`:                                errorBy("exit-code"),
		`{"output":"x","meta":{"exitCode":0}}`:                                     okBy("exit-code"),
		`{"output":"Error: x"}`:                                                    errorBy("text:error-first"),
		`{"output":"all well"}`:                                                    okBy("json"),
		`{"output":"Error: x","a":1,"b":1,"c":1,"d":1}`:                            okBy("json"),
		`{"response":{"error":"x"}}`:                                               errorBy("json:error"),
		`{"response":{"result":{"output":{"error":"x"}}}}`:                         errorBy("json:error"),
		`{"response":{"result":{"output":{"body":{"error":"x"}}}}}`:                okBy("json"),
		`{"data":{"error":"x"}}`:                                                   okBy("json"),
		`{"response":"{\"success\": false}"}`:                                      errorBy("json:success"),
		`{'response': "{'success': False}"}`:                                       errorBy("json:success"),
		`{"error":"The user rejected permission to use this specific tool call."}`: {detect.Refusal, "refusal:opencode"},
		`[{"type":"text","text":"Error: x"}]`:                                      errorBy("text:error-first"),
		`[{"type":"text","text":"fine"},{"type":"text","text":"Error: x"}]`:        okBy(""),
		`[{"type":"text","text":"Error: x"},{"type":"image"}]`:                     okBy("json"),
		`[{"query":"a","success":true},{"query":"b","success":true}]`:              okBy("json:success"),
		`[{"query":"a","success":true},{"query":"b","success":false}]`:             errorBy("json:success"),
		`[{"query":"a","success":true},{"query":"b"}]`:                             okBy("json"),
		`[{"success":false}]`:                                                      okBy("json"),
		`[]`:                                                                       okBy("json"),
		`{"error":"declined"} and more`:                                            okBy(""),
	})
}

// A JSON object read from a file is content, even with an error field, unless all keys are such as tools write in
// results.
func TestErrorFieldInFileContentMayBeContent(t *testing.T) {
	checkOutcomes(t, "read", `{"path":"a.json"}`, map[string]outcomeRule{
		`{"error":"x"}`:                       errorBy("json:error"),
		`{"error":"x","price":3}`:             okBy(""),
		`{}`:                                  okBy(""),
		`[]`:                                  okBy(""),
		`[{"error":"x"}]`:                     okBy(""),
		`[{"type":"text","text":"Error: x"}]`: errorBy("text:error-first"),
	})
	checkOutcomes(t, "bash", shellArgs("cat a.json"), map[string]outcomeRule{
		`{"error":"x"}`:                   errorBy("json:error"),
		`{"error":"x","price":3}`:         okBy(""),
		`[{"query":"x","success":false}]`: errorBy("json:success"),
	})
	checkOutcomes(t, "bash", shellArgs("./query.sh"), map[string]outcomeRule{
		`{"error":"x","price":3}`: errorBy("json:error"),
		`[{"error":"x"}]`:         okBy(""),
	})
}

func TestEditorMessagesAreClassified(t *testing.T) {
	checkOutcomes(t, "Edit", `{"file_path":"/a","old_string":"x"}`, map[string]outcomeRule{
		"The file /a has been updated.":             okBy("edited"),
		"The file /a has been edited successfully.": okBy("edited"),
		"File created successfully at: /a":          okBy("edited"),
		"Wrote 3 lines":                             okBy("edited"),
		"Edit applied":                              okBy("edited"),
		"diff --git a/a b/a":                        okBy("edited"),
		"--- a\n+++ b":                              okBy("edited"),
		"@@ -1 +1 @@":                               okBy("edited"),
		"Here's the result of the change":           okBy("edited"),
		"The edit was not successful":               okBy(""),
		"The file has been updated, but what failed is listed below": okBy(""),
		"No match for the old string":                                errorBy("text:invalid"),
		"The old text did not match":                                 errorBy("text:edit"),
		"Found multiple matches for it":                              errorBy("text:edit"),
		"old_string and new_string are exactly the same":             errorBy("text:edit"),
		"The line 90 is out of range":                                errorBy("text:no-such"),
		"A file of that name already exists":                         errorBy("text:no-such"),
		"Error: it is a folder":                                      errorBy("text:error-first"),
		"Some words that report no outcome":                          okBy(""),
	})
}

func TestErrorMessageInsteadOfContentIsAFailure(t *testing.T) {
	checkOutcomes(t, "read", `{"path":"a"}`, map[string]outcomeRule{
		"Error: a is a folder":                                    errorBy("text:error-first"),
		"Error: one\n2\n3\n4\n5\n6":                               errorBy("text:error-first"),
		"Error: one\n2\n3\n4\n5\n6\n7":                            okBy(""),
		"cat: a: No such file or directory":                       errorBy("text:no-such"),
		"ls: a: Permission denied\nls: b: Permission denied":      errorBy("text:shell"),
		"ls: a: Permission denied\na file":                        okBy(""),
		"plain words":                                             okBy(""),
		"<tool_use_error>a\n2\n3\n4\n5\n6\n7\n8</tool_use_error>": errorBy("text:error-first"),
	})
	checkOutcomes(t, "Grep", `{"pattern":"undefined total"}`, map[string]outcomeRule{
		"Error: undefined: total":            okBy("matches"),
		"ERROR: UNDEFINED TOTAL":             okBy("matches"),
		"Error: bad pattern":                 errorBy("text:error-first"),
		"a.go:3: undefined: total\nError: x": okBy("matches"),
	})
}

// Pages that only mention errors are not failures.
func TestBrowserErrorPagesAreFailures(t *testing.T) {
	checkOutcomes(t, "WebFetch", `{"url":"http://a"}`, map[string]outcomeRule{
		"<html>\n<title>404 Not Found</title></html>":                                                 errorBy("page:http"),
		"<html>\n<title>Page not found - A</title></html>":                                            errorBy("page:http"),
		"<html><title>Error 503</title></html>":                                                       errorBy("page:http"),
		"<html><title>4040 recipes</title></html>":                                                    okBy(""),
		"<html><title>500 ways to cook an egg, and some of them are in this long book</title></html>": okBy(""),
		"<html>\n<title>A shop</title>404 Not Found</html>":                                           okBy(""),
		"screenshot of [403 Forbidden](http://a)":                                                     errorBy("page:http"),
		"Title: Error 404\nwords":                                                                     errorBy("page:http"),
		"words\n# Error 404":                                                                          errorBy("page:http"),
		"1\n2\n3\n4\n5\n6\n7\n8\n9\n10\n11\n12\n# Error 404":                                          okBy(""),
		"a picture of [a](chrome-error://chromewebdata/)":                                             errorBy("page:unreachable"),
		"this site\nERR_CONNECTION_REFUSED":                                                           errorBy("page:unreachable"),
		"this site\nDNS_PROBE_FINISHED_NXDOMAIN":                                                      errorBy("page:unreachable"),
		"words\nError. Could not transcribe it.":                                                      errorBy("page:unable"),
		"words\nError: nothing of it matters":                                                         okBy(""),
	})
	checkOutcomes(t, "summarise", `{}`, map[string]outcomeRule{
		"words\nError. Could not transcribe it.":             okBy(""),
		"Address: a\nwords\nError. Could not transcribe it.": errorBy("page:unable"),
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
		{"lookup", `{}`, "whatever", 1, errorBy("flag")},
		{"lookup", `{}`, `{"error":"x"}`, 1, errorBy("json:error")},
		{"lookup", `{}`, `{"success":true}`, 1, errorBy("flag")},
		{
			"lookup", `{}`, "User rejected the tool call", 1,
			outcomeRule{detect.Refusal, "refusal:cline"},
		},
		{
			"bash", shellArgs("grep x a"), "(no output)\nCommand exited with code 1", 1,
			okBy("nothing-found"),
		},
		{"bash", shellArgs("make"), "x\nCommand exited with code 2", 1, errorBy("exit-code")},
		{"bash", shellArgs("make"), "x\nCommand exited with code 0", 1, errorBy("flag")},
		{"read", `{"path":"a"}`, "Error: x", -1, okBy("flag")},
		{"Edit", `{"path":"a"}`, "Error: x", -1, okBy("flag")},
		{"lookup", `{}`, "Error: x", -1, errorBy("text:error-first")},
		{"bash", shellArgs("make"), "Error: x", -1, errorBy("text:error-first")},
		{"WebFetch", `{}`, "Error: x", -1, errorBy("text:error-first")},
	} {
		got := detect.Classify(tc.tool, tc.args, tc.text, tc.flag)
		if got.Outcome != tc.want.outcome || got.Rule != tc.want.rule {
			t.Errorf("%s: result %q with flag %d: got outcome %s (rule %q), want %s (rule %q)", tc.tool, tc.text, tc.flag, got.Outcome, got.Rule, tc.want.outcome, tc.want.rule)
		}
	}
}

// Without a user, opencode refuses calls with the words that it uses for a user's refusal. Such sessions offer the tool
// "todowrite" without the tool "question", or have the task in quotes.
func TestRefusalOfHeadlessRunIsNotASignal(t *testing.T) {
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
	runTools, terminalTools, bashOnly := toolsNamed("bash", "edit", "todowrite"), toolsNamed("bash", "edit", "question", "todowrite"), toolsNamed("bash")
	for _, tc := range []struct {
		name   string
		tools  []any
		task   string
		result string
		want   int
	}{
		{"todowrite without the question tool", runTools, "tidy", rejected, 0},
		{"a task in quotes", bashOnly, `"tidy the build"`, rejected, 0},
		{"todowrite with the question tool", terminalTools, "tidy the build", rejected, 1},
		{"neither todowrite nor a task in quotes", bashOnly, "tidy the build", rejected, 1},
		{"quotes inside a task", bashOnly, `"tidy" and "build"`, rejected, 1},
		{"a refusal with the user's reason", runTools, `"tidy the build"`, withReason, 1},
		{"a dismissed question", terminalTools, "tidy the build", dismissed, 1},
		{
			"another agent's refusal message", runTools, "tidy the build",
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

func TestListOfErrorsIsASuccessAndFailedTestsAreAFailure(t *testing.T) {
	checkOutcomes(t, "list_errors", `{"service":"web"}`, map[string]outcomeRule{
		`{"errors":[{"id":1,"message":"boom"}],"total":1}`: okBy("json"),
		`{"errors":[{"message":"boom"}]}`:                  errorBy("json:errors"),
		`{"error":"no such service"}`:                      errorBy("json:error"),
	})
	checkOutcomes(t, "run_tests", `{"suite":"unit"}`, map[string]outcomeRule{
		`{"passed":12,"failed":2,"errors":0}`: errorBy("json:tests"),
		`{"passed":12,"failed":0,"errors":0}`: okBy("json"),
		`{"failed":2}`:                        okBy("json"),
	})
}

func TestErrorInABoxIsAFailureAndInQuotedCodeIsNot(t *testing.T) {
	checkOutcomes(t, "apply_infra", "{}", map[string]outcomeRule{
		"╷\n│ Error: Invalid provider\n│ \n│   on main.tf line 3:\n╵": errorBy("text:error-first"),
	})
	checkOutcomes(t, "web_fetch", `{"url":"https://x.y/z","prompt":"summarize"}`, map[string]outcomeRule{
		"The page explains how a handler returns `Error: not found` and logs the failure.": okBy(""),
		"The page `x` was not found.": errorBy("text:no-such"),
	})
}

// The text ends right after a word such as "running", and the search for such words must not read beyond the end.
func TestResultEndingInActivityWordIsClassified(t *testing.T) {
	for _, result := range []string{"Enable cookies to continue shopping", "server running", "still compiling", "it is building"} {
		if got := countLoops(t, call("get_page", `{"id":7}`, result)); got != 0 {
			t.Errorf("result %q: %d loops, want 0", result, got)
		}
	}
}

// A key press returns only Playwright code, not the page.
func TestKeyPressWithoutPageIsNotALoop(t *testing.T) {
	press := call("browser_press_key", `{"key":"Tab"}`, "### Ran Playwright code\n```js\nawait page.keyboard.press('Tab');\n```")
	if got := countLoops(t, press, press, press, press, press, press, press); got != 0 {
		t.Errorf("seven key presses: %d loops, want 0", got)
	}
}

// A benchmark prints different times, but the comparison ignores times, so the results are equal.
func TestRepeatedBenchmarkIsNotALoop(t *testing.T) {
	for command, loop := range map[string]bool{"hyperfine ./app": false, "go test -bench=. ./a": false, "npm run bench": false, "./app": true} {
		steps := []testStep{bash(command, "Time: 12.1 ms"), bash(command, "Time: 13.4 ms"), bash(command, "Time: 12.2 ms")}
		if got := countLoops(t, steps...) > 0; got != loop {
			t.Errorf("%s three times: loop found = %v, want %v", command, got, loop)
		}
	}
}
