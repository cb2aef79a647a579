package detect_test

import (
	"testing"

	"precept/detect"
)

// judgedAs is what a result is, and which rule says so.
type judgedAs struct {
	outcome detect.Outcome
	rule    string
}

// fails and works make the two outcomes that a call has.
func fails(rule string) judgedAs { return judgedAs{detect.Error, rule} }
func works(rule string) judgedAs { return judgedAs{detect.OK, rule} }

// judge holds a tool's results to what they are.
func judge(t *testing.T, tool, args string, results map[string]judgedAs) {
	t.Helper()
	for text, want := range results {
		got := detect.Classify(tool, args, text, 0)
		if got.Outcome != want.outcome || got.Rule != want.rule {
			t.Errorf("%s gives %q: %s by %q, want %s by %q", tool, text, got.Outcome, got.Rule, want.outcome, want.rule)
		}
	}
}

// The fields by which an API says that a call failed, and data that looks like them.
func TestFieldsOfAnAnswer(t *testing.T) {
	judge(t, "place_order", `{"id":7}`, map[string]judgedAs{
		`{"success":false}`:                                 fails("json:success"),
		`{"ok":false,"n":1}`:                                fails("json:success"),
		`{"succeeded":"False"}`:                             fails("json:success"),
		`{"success":0}`:                                     fails("json:success"),
		`{"success":0,"a":1,"b":2,"c":3,"d":4}`:             works("json"),
		`{"success":1}`:                                     works("json"),
		`{"success":true}`:                                  works("json:success"),
		`{"ok":true,"message":"not found"}`:                 works("json:success"),
		`{"Success":false}`:                                 fails("json:success"),
		`{"isError":true,"content":[]}`:                     fails("json:is-error"),
		`{"is_error":false,"content":[]}`:                   works("json"),
		`{"isError":"true"}`:                                works("json"),
		`{"error":"declined"}`:                              fails("json:error"),
		`{"err":"declined"}`:                                fails("json:error"),
		`{"error_message":"declined"}`:                      fails("json:error"),
		`{"Error Message":"declined"}`:                      fails("json:error"),
		`{"exception":{"a":1}}`:                             fails("json:error"),
		`{"error":""}`:                                      works("json"),
		`{"error":" "}`:                                     works("json"),
		`{"error":null}`:                                    works("json"),
		`{"error":{}}`:                                      works("json"),
		`{"error":[]}`:                                      works("json"),
		`{"error":false}`:                                   works("json"),
		`{"error":0}`:                                       works("json"),
		`{"error":"None"}`:                                  works("json"),
		`{"error":"no error"}`:                              works("json"),
		`{"error":"0"}`:                                     works("json"),
		`{"error":"OK"}`:                                    works("json"),
		`{"error":1}`:                                       fails("json:error"),
		`{"errors":[{"message":"x"}]}`:                      fails("json:errors"),
		`{"errors":{"name":"missing"}}`:                     fails("json:errors"),
		`{"errors":[]}`:                                     works("json"),
		`{"errors":3}`:                                      works("json"),
		`{"errors":[{"message":"x"}],"data":{"a":1}}`:       works("json"),
		`{"errors":[{"message":"x"}],"data":null}`:          fails("json:errors"),
		`{"status":"error"}`:                                fails("json:status"),
		`{"result":"Error","a":1,"b":2,"c":3,"d":4,"e":5}`:  fails("json:status"),
		`{"status":"failed"}`:                               fails("json:status"),
		`{"status":"failed","id":7}`:                        fails("json:status"),
		`{"status":"failed","id":7,"at":1}`:                 works("json"),
		`{"status":"failed","id":7,"at":1,"reason":"card"}`: fails("json:status"),
		`{"status":"failed","reason":"x","a":1,"b":2,"c":3,"d":4,"e":5}`: works("json"),
		`{"status":"fail","msg":"x"}`:                                    fails("json:status"),
		`{"status":"shipped","reason":"x"}`:                              works("json"),
		`{"status":404,"title":"x"}`:                                     fails("json:http"),
		`{"statusCode":"500","message":"x"}`:                             fails("json:http"),
		`{"cod":"401","message":"x"}`:                                    fails("json:http"),
		`{"status":404}`:                                                 works("json"),
		`{"status":200,"title":"x"}`:                                     works("json"),
		`{"status":399,"title":"x"}`:                                     works("json"),
		`{"status":600,"title":"x"}`:                                     works("json"),
		`{"status":4040,"title":"x"}`:                                    works("json"),
		`{"code":"40a","message":"x"}`:                                   works("json"),
		`{"message":"Not Found"}`:                                        fails("json:message"),
		`{"detail":"Order not found"}`:                                   fails("json:message"),
		`{"message":"Not Found","documentation_url":"x"}`:                fails("json:message"),
		`{"message":"Not Found","order":7}`:                              works("json"),
		`{"message":"Order placed"}`:                                     works("json"),
		`{"message":7}`:                                                  works("json"),
		`{"code":7}`:                                                     works("json"),
		`{"task_id":"1","status":"running"}`:                             {detect.Pending, "json:status"},
		`{"pid":1,"state":"Queued"}`:                                     {detect.Pending, "json:status"},
		`{"status":"running"}`:                                           works("json"),
		`{"order":7,"status":"pending"}`:                                 works("json"),
		`{"pid":1,"status":"done"}`:                                      works("json"),
		`{"pid":1,"status":"running","a":1,"b":1,"c":1,"d":1,"e":1,"f":1,"g":1}`:   works("json"),
		`{"exit_code":3,"stdout":"x"}`:                                             fails("exit-code"),
		`{"returncode":"3"}`:                                                       fails("exit-code"),
		`{"exit_code":0,"stdout":"x"}`:                                             works("exit-code"),
		`{"exit_code":0,"stdout":"x","error":"y"}`:                                 works("exit-code"),
		`{"exit_code":"three"}`:                                                    works("json"),
		`{"exit_code":null,"error":"y"}`:                                           fails("json:error"),
		`{"output":"x","metadata":{"exit_code":1}}`:                                fails("exit-code"),
		`{"output":"x","meta":{"exitCode":0}}`:                                     works("exit-code"),
		`{"output":"Error: x"}`:                                                    fails("text:error-first"),
		`{"output":"all well"}`:                                                    works("json"),
		`{"output":"Error: x","a":1,"b":1,"c":1,"d":1}`:                            works("json"),
		`{"response":{"error":"x"}}`:                                               fails("json:error"),
		`{"response":{"result":{"output":{"error":"x"}}}}`:                         fails("json:error"),
		`{"response":{"result":{"output":{"body":{"error":"x"}}}}}`:                works("json"),
		`{"data":{"error":"x"}}`:                                                   works("json"),
		`{"response":"{\"success\": false}"}`:                                      fails("json:success"),
		`{'response': "{'success': False}"}`:                                       fails("json:success"),
		`{"error":"The user rejected permission to use this specific tool call."}`: {detect.Refusal, "refusal:opencode"},
		`[{"type":"text","text":"Error: x"}]`:                                      fails("text:error-first"),
		`[{"type":"text","text":"fine"},{"type":"text","text":"Error: x"}]`:        works(""),
		`[{"type":"text","text":"Error: x"},{"type":"image"}]`:                     works("json"),
		`[{"query":"a","success":true},{"query":"b","success":true}]`:              works("json:success"),
		`[{"query":"a","success":true},{"query":"b","success":false}]`:             fails("json:success"),
		`[{"query":"a","success":true},{"query":"b"}]`:                             works("json"),
		`[{"success":false}]`:                                                      works("json"),
		`[]`:                                                                       works("json"),
		`{"error":"declined"} and more`:                                            works(""),
	})
}

// What is read from a file or printed by a command that looks is judged as an answer only where
// every key is one of an envelope.
func TestEnvelopesOfWhatIsRead(t *testing.T) {
	judge(t, "read", `{"path":"a.json"}`, map[string]judgedAs{
		`{"error":"x"}`:                       fails("json:error"),
		`{"error":"x","price":3}`:             works(""),
		`{}`:                                  works(""),
		`[]`:                                  works(""),
		`[{"error":"x"}]`:                     works(""),
		`[{"type":"text","text":"Error: x"}]`: fails("text:error-first"),
	})
	judge(t, "bash", shell("cat a.json"), map[string]judgedAs{
		`{"error":"x"}`:                   fails("json:error"),
		`{"error":"x","price":3}`:         works(""),
		`[{"query":"x","success":false}]`: fails("json:success"),
	})
	judge(t, "bash", shell("./query.sh"), map[string]judgedAs{
		`{"error":"x","price":3}`: fails("json:error"),
		`[{"error":"x"}]`:         works(""),
	})
}

// Tools that change files speak in few sentences.
func TestSentencesOfEdits(t *testing.T) {
	judge(t, "Edit", `{"file_path":"/a","old_string":"x"}`, map[string]judgedAs{
		"The file /a has been updated.":             works("edited"),
		"The file /a has been edited successfully.": works("edited"),
		"File created successfully at: /a":          works("edited"),
		"Wrote 3 lines":                             works("edited"),
		"Edit applied":                              works("edited"),
		"diff --git a/a b/a":                        works("edited"),
		"--- a\n+++ b":                              works("edited"),
		"@@ -1 +1 @@":                               works("edited"),
		"Here's the result of the change":           works("edited"),
		"The edit was not successful":               works(""),
		"The file has been updated, but what failed is told below": works(""),
		"No match for the old string":                              fails("text:invalid"),
		"The old text did not match":                               fails("text:edit"),
		"Found multiple matches for it":                            fails("text:edit"),
		"old_string and new_string are exactly the same":           fails("text:edit"),
		"The line 90 is out of range":                              fails("text:no-such"),
		"A file of that name already exists":                       fails("text:no-such"),
		"Error: it is a folder":                                    fails("text:error-first"),
		"Some words of which nobody knows whether they are good":   works(""),
	})
}

// A file that is read may say anything; a result that is nothing but a message failed.
func TestMessagesInPlaceOfContent(t *testing.T) {
	judge(t, "read", `{"path":"a"}`, map[string]judgedAs{
		"Error: a is a folder":                                    fails("text:error-first"),
		"Error: one\n2\n3\n4\n5\n6":                               fails("text:error-first"),
		"Error: one\n2\n3\n4\n5\n6\n7":                            works(""),
		"cat: a: No such file or directory":                       fails("text:no-such"),
		"ls: a: Permission denied\nls: b: Permission denied":      fails("text:shell"),
		"ls: a: Permission denied\na file":                        works(""),
		"plain words":                                             works(""),
		"<tool_use_error>a\n2\n3\n4\n5\n6\n7\n8</tool_use_error>": fails("text:error-first"),
	})
	judge(t, "Grep", `{"pattern":"undefined total"}`, map[string]judgedAs{
		"Error: undefined: total":            works("matches"),
		"ERROR: UNDEFINED TOTAL":             works("matches"),
		"Error: bad pattern":                 fails("text:error-first"),
		"a.go:3: undefined: total\nError: x": works("matches"),
	})
}

// Pages of a browser that could not be opened, and pages that only speak of it.
func TestPagesOfErrors(t *testing.T) {
	judge(t, "WebFetch", `{"url":"http://a"}`, map[string]judgedAs{
		"<html>\n<title>404 Not Found</title></html>":                                                 fails("page:http"),
		"<html>\n<title>Page not found - A</title></html>":                                            fails("page:http"),
		"<html><title>Error 503</title></html>":                                                       fails("page:http"),
		"<html><title>4040 recipes</title></html>":                                                    works(""),
		"<html><title>500 ways to cook an egg, and some of them are in this long book</title></html>": works(""),
		"<html>\n<title>A shop</title>404 Not Found</html>":                                           works(""),
		"screenshot of [403 Forbidden](http://a)":                                                     fails("page:http"),
		"Title: Error 404\nwords":                                                                     fails("page:http"),
		"words\n# Error 404":                                                                          fails("page:http"),
		"1\n2\n3\n4\n5\n6\n7\n8\n9\n10\n11\n12\n# Error 404":                                          works(""),
		"a picture of [a](chrome-error://chromewebdata/)":                                             fails("page:unreachable"),
		"this site\nERR_CONNECTION_REFUSED":                                                           fails("page:unreachable"),
		"this site\nDNS_PROBE_FINISHED_NXDOMAIN":                                                      fails("page:unreachable"),
		"words\nError. Could not transcribe it.":                                                      fails("page:unable"),
		"words\nError: nothing of it matters":                                                         works(""),
	})
	judge(t, "summarise", `{}`, map[string]judgedAs{
		"words\nError. Could not transcribe it.":             works(""),
		"Address: a\nwords\nError. Could not transcribe it.": fails("page:unable"),
	})
}

// The wire's flag is believed but for refusals and for commands that found nothing.
func TestTheFlagOfTheWire(t *testing.T) {
	for _, c := range []struct {
		tool, args, text string
		flag             int8
		want             judgedAs
	}{
		{"lookup", `{}`, "whatever", 1, fails("flag")},
		{"lookup", `{}`, `{"error":"x"}`, 1, fails("json:error")},
		{"lookup", `{}`, `{"success":true}`, 1, fails("flag")},
		{"lookup", `{}`, "User rejected the tool call", 1, judgedAs{detect.Refusal, "refusal:cline"}},
		{"bash", shell("grep x a"), "(no output)\nCommand exited with code 1", 1, works("nothing-found")},
		{"bash", shell("make"), "x\nCommand exited with code 2", 1, fails("exit-code")},
		{"bash", shell("make"), "x\nCommand exited with code 0", 1, fails("flag")},
		{"read", `{"path":"a"}`, "Error: x", -1, works("flag")},
		{"Edit", `{"path":"a"}`, "Error: x", -1, works("flag")},
		{"lookup", `{}`, "Error: x", -1, fails("text:error-first")},
		{"bash", shell("make"), "Error: x", -1, fails("text:error-first")},
		{"WebFetch", `{}`, "Error: x", -1, fails("text:error-first")},
	} {
		got := detect.Classify(c.tool, c.args, c.text, c.flag)
		if c.want.outcome == detect.Refusal && got.Outcome == detect.Refusal {
			continue
		}
		if got.Outcome != c.want.outcome || got.Rule != c.want.rule {
			t.Errorf("%s, %q, flag %d: %s by %q, want %s by %q", c.tool, c.text, c.flag, got.Outcome, got.Rule, c.want.outcome, c.want.rule)
		}
	}
}
